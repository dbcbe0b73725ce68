"""The programs of the paper, corrected where its print is wrong, and a few of their kind."""

from __future__ import annotations

DENSE = """nFun(n => nFun(m =>
  fun(mat: [[float]_m]_n =>
  fun(xs: [float]_m =>
    mat :>> map(fun(row => zip(row, xs) :>> map(*) :>> reduce(+, 0)))))))"""

# Listing 3 binds `row_length` and uses `lengths`.
LIL = """nFun(n ⇒ nFun(m ⇒
  fun(lengths: [int]_n ⇒
  fun(col_indices: [i ↦ [int]_{toNat(lengths@i)}]_n ⇒
  fun(values: [i ↦ [float]_{toNat(lengths@i)}]_n ⇒
  fun(xs: [float]_m ⇒
    zip(col_indices, values) :>>
      map(fun(rowPair ⇒
        zip(rowPair.1, rowPair.2) :>>
          map(fun(x ⇒ x.2*(xs@x.1))) :>> reduce(+, 0)))))))))"""

CSR = """nFun n. nFun m. fun offset: [int]_{n+1}.
fun col_indices: [i -> [int]_{toNat(offset@(i+1)-offset@i)}]_n.
fun values: [i -> [float]_{toNat(offset@(i+1)-offset@i)}]_n.
fun xs: [float]_m.
zip(col_indices, values) :>> map(fun(rowPair => zip(rowPair.1, rowPair.2) :>>
  map(fun(x => x.2*(xs@x.1))) :>> reduce(+, 0)))"""

PACKED = """nFun n. nFun m. fun offset: [int]_{n+1}.
fun values: [i -> [(int, float)]_{toNat(offset@(i+1)-offset@i)}]_n.
fun xs: [float]_m.
values :>> map(fun(row => row :>> map(fun(x => x.2 * (xs@x.1))) :>> reduce(+, 0)))"""

ROW_SUMS = """nFun n. fun offset: [int]_{n+1}.
fun values: [i -> [float]_{toNat(offset@(i+1)-offset@i)}]_n.
values :>> map(reduce(+, 0))"""

# Listing 7 nests mapWorkgroup twice, and leaves out the start of the second reduce.
PARALLEL = """nFun n. nFun m. fun offset: [int]_{n+1}.
fun col_indices: [i -> [int]_{toNat(offset@(i+1)-offset@i)}]_n.
fun values: [i -> [float]_{toNat(offset@(i+1)-offset@i)}]_n.
fun xs: [float; m].
zip(col_indices, values) :>> split(ROWS) :>> OUTER(INNER(fun(row =>
  zip(row.1, row.2) :>> split(SPLITS) :>> transpose :>>
  LANE(map(fun(x => x.2*(xs@x.1))) :>> reduce(+, 0)) :>> reduce(+, 0)))) :>> join"""

TRIANGULAR = """nFun n. fun L: [i -> [float]_{i+1}]_n. fun x: [float]_n.
generate(n, nFun(i => generate(i + 1, nFun(j => L@i@j * x@j)) :>> reduce(+, 0)))"""

SPMM = """nFun n. nFun m. nFun k. fun offset: [int]_{n+1}.
fun values: [i -> [(int, float)]_{toNat(offset@(i+1)-offset@i)}]_n.
fun B: [[float]_k]_m.
values :>> map(fun(row => generate(k, nFun(c =>
  row :>> map(fun(x => x.2 * (B@x.1)@c)) :>> reduce(+, 0)))))"""

STENCIL = """nFun n. fun offset: [int]_{n+1}.
fun values: [i -> [float]_{toNat(offset@(i+1)-offset@i)}]_n.
values :>> map(fun(row => row :>> slide(3) :>> map(reduce(+, 0)) :>> reduce(max, -infinity)))"""

SOFTMAX = """nFun n. fun offset: [int]_{n+1}.
fun values: [i -> [float]_{toNat(offset@(i+1)-offset@i)}]_n.
values :>> map(fun(row => row :>> reduce(max, -infinity) :>> fun(top =>
  row :>> map(fun(x => exp(x - top))) :>> reduce(+, 0) :>> fun(all =>
    row :>> map(fun(x => exp(x - top) / all))))))"""

ALL = {
    "dense": DENSE, "lil": LIL, "csr": CSR, "packed": PACKED, "row sums": ROW_SUMS,
    "triangular": TRIANGULAR, "spmm": SPMM, "stencil": STENCIL, "softmax": SOFTMAX,
}  # fmt: skip


def parallel(rows: int = 4, splits: int = 32, gpu: bool = True) -> str:
    """Listing 7 with its parameters."""
    units = ("mapWorkgroup", "mapWarp", "mapLane") if gpu else ("map", "map", "map")
    text = PARALLEL.replace("ROWS", str(rows)).replace("SPLITS", str(splits))
    for name, unit in zip(("OUTER", "INNER", "LANE"), units, strict=True):
        text = text.replace(name, unit)
    return text
