"""The listings of the functional paper: SpMV as patterns, from a dense program to a GPU kernel.

Each listing is compiled, compared with SciPy and timed; listing 7, the parallel one, is derived
from listing 4 by rewrites, which are printed, and runs under the emulator.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from common import matrix

from openwork import skeletons as sk

ROWS_PER_WORKGROUP, NUM_SPLITS = 4, 32
DOT = "map(fun(row => zip(row.1, row.2) :>> map(fun(x => x.2 * xs@x.1)) :>> reduce(+, 0)))"
OFFSETS = "nFun n. nFun m. fun offset: [int]_{n+1}. "
LENGTH = "{toNat(offset@(i+1) - offset@i)}"
LISTINGS = {
    # 1 and 2: the dense product.
    "dense": "nFun n. nFun m. fun mat: [[float]_m]_n. fun xs: [float]_m. "
    "mat :>> map(fun(row => zip(row, xs) :>> map(*) :>> reduce(+, 0)))",
    # 3: a list of lists; its lengths become the offsets of CSR.
    "LIL": "nFun n. nFun m. fun lengths: [int]_n. "
    "fun col_indices: [i -> [int]_{toNat(lengths@i)}]_n. "
    "fun values: [i -> [float]_{toNat(lengths@i)}]_n. fun xs: [float]_m. "
    f"zip(col_indices, values) :>> {DOT}",
    # 4: CSR in two arrays.
    "CSR": f"{OFFSETS}fun col_indices: [i -> [int]_{LENGTH}]_n. "
    f"fun values: [i -> [float]_{LENGTH}]_n. fun xs: [float]_m. zip(col_indices, values) :>> {DOT}",
    # 5: CSR in one array of pairs.
    "packed": f"{OFFSETS}fun values: [i -> [(int, float)]_{LENGTH}]_n. fun xs: [float]_m. "
    "values :>> map(fun(row => row :>> map(fun(x => x.2 * xs@x.1)) :>> reduce(+, 0)))",
    # 6: the sum of each row, whose stages the paper goes through.
    "row sums": "nFun n. fun offset: [int]_{n+1}. "
    f"fun values: [i -> [float]_{LENGTH}]_n. values :>> map(reduce(+, 0))",
}
# 7: the parallel product, as rewrites of listing 4.
PARALLEL = (
    ("split-join", ROWS_PER_WORKGROUP), ("mapWorkgroup", 1), ("mapWarp", 1),
    ("strided reduce", NUM_SPLITS), ("split before map", 1), ("transpose before map", 1),
    ("map fusion", 1), ("mapLane", 1),
)  # fmt: skip


def arguments(A: Any, x: Any) -> dict[str, dict[str, Any]]:
    """The data of each listing."""
    flat = {"col_indices": A.indices, "values": A.data, "xs": x}
    lengths = np.diff(A.indptr).astype("int32")
    pairs = sk.pairs(A.indices, A.data)
    return {
        "dense": {"mat": A.toarray(), "xs": x},
        "LIL": {"lengths": lengths, **flat},
        "CSR": {"offset": A.indptr, **flat},
        "packed": {"offset": A.indptr, "values": pairs, "xs": x},
        "row sums": {"offset": A.indptr, "values": A.data},
    }


def main() -> None:
    """Run all listings."""
    A = matrix(rows=2000, columns=2000, per_row=8).to_scipy().tocsr().astype("float32")
    x = np.random.default_rng(2).random(A.shape[1], dtype="float32")
    for name, data in arguments(A, x).items():
        program = sk.parse(LISTINGS[name])
        begin = perf_counter()
        kernel = program.compile()
        took = perf_counter() - begin
        np.testing.assert_allclose(kernel(**data), A.sum(1) if name == "row sums" else A @ x, 1e-4)
        print(f"{name}: {program.type.splitlines()[0]}\n    compiled in {took:.2f} s")
    for stage, text in sk.parse(LISTINGS["row sums"]).stages().items():
        print(f"-- {stage}\n{text}")
    parallel = sk.parse(LISTINGS["CSR"])
    for rule, size in PARALLEL:
        parallel = parallel.rewrite(rule, size)
        print(parallel.steps[-1])
    print(parallel.text.splitlines()[-1])
    small = A[:64]
    gpu = parallel.compile("cuda-emulated")
    np.testing.assert_allclose(gpu(**arguments(small, x)["CSR"]), small @ x, 1e-4)
    print(gpu.source[gpu.source.index("extern") :])


if __name__ == "__main__":
    main()
