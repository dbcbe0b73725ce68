"""Loops along positions: what a segment adds to stays in registers; only its ends are shared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.choices import in_pairs
from tests.random.interpreted import Interpreted, interpreting
from tests.random.unguarded import unguarded_updates

import openwork as ow
from openwork.runtime.host import launch

pytestmark = pytest.mark.needs_cc

SHAPE = (7, 5, 6, 4)
WIDTHS = (0, 1, 5, 37)  # no columns, less than a tile, one and a bit, tiles of several widths
ENDS = {
    "serial": "",
    "runs": ", split(p,p0,p1,3)",
    "chunks": ", split(p,p0,p1,7), parallelize(p0,CPUThread,Atomics)",
    "parts": ", parallelize(p,CPUThread,Atomics)",
    "copies": ", split(p,p0,p1,7), parallelize(p0,CPUThread,Temporary)",
    "runs of runs": ", split(p,p0,p1,9), split(p1,p2,p3,2), parallelize(p0,CPUThread,Atomics)",
}
FUSED = {
    2: "order(i,k,j), fuse(i,k,f), pos(f,p,X)",
    3: "order(i,k,l,j), fuse(k,l,a), fuse(i,a,f), pos(f,p,X)",
    4: "order(i,k,l,m,j), fuse(l,m,a), fuse(k,a,b), fuse(i,b,f), pos(f,p,X)",
}
PATTERNS = {2: "ik", 3: "ikl", 4: "iklm"}


@pytest.fixture(autouse=True)
def really_parallel(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small kernels run on several threads too."""
    monkeypatch.setattr(launch, "SERIAL_BELOW", -1)
    ow.set_num_threads(3)
    yield
    ow.set_num_threads(None)


def _random(shape: tuple[int, ...], density: float = 1.0, dtype: str = "float64") -> Any:
    rng = np.random.default_rng(len(shape))
    return (rng.integers(1, 6, shape) * (rng.random(shape) < density)).astype(dtype)


def _mttkrp(order: int, width: int, format: ow.Format, dtype: str = "float64") -> Any:
    """Y(i,j) = X(i,k,..) * B(k,j) * ..: a product of matrices at order 2."""
    names, shape = PATTERNS[order], SHAPE[:order]
    x = _random(shape, 0.4, dtype)
    factors = [_random((extent, width), dtype=dtype) for extent in shape[1:]]
    tensors = {c: ow.tensor(f) for c, f in zip("BCD", factors, strict=False)}
    terms = [f"{c}({v},j)" for c, v in zip(tensors, names[1:], strict=True)]
    text = f"Y(i,j) = X({','.join(names)}) * {' * '.join(terms)}"
    tensors |= {"X": ow.tensor(x, format=format), "Y": ow.empty((shape[0], width), dtype)}
    subscripts = ",".join([names, *(f"{v}j" for v in names[1:])])
    return text, tensors, np.einsum(f"{subscripts}->ij", x, *factors)


@pytest.mark.parametrize(("order", "width", "end"), in_pairs(list(FUSED), WIDTHS, list(ENDS)))
def test_rows_of_columns(order: int, width: int, end: str) -> None:
    for format in (ow.CSF(order), ow.Format([ow.Dense] * (order - 1) + [ow.Compressed])):
        text, tensors, want = _mttkrp(order, width, format)
        kernel = ow.parse(text, **tensors).schedule(FUSED[order] + ENDS[end]).compile()
        np.testing.assert_array_equal(kernel().to_numpy(), want)


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float32", "complex128", "bool"])
def test_rows_of_every_type(dtype: str) -> None:
    text, tensors, _ = _mttkrp(3, 5, ow.CSF(3), dtype)
    statement = ow.parse(text, **tensors)
    kernel = statement.schedule(FUSED[3] + ENDS["chunks"]).compile()
    np.testing.assert_array_equal(kernel().to_numpy(), statement.compile()().to_numpy())


@pytest.mark.parametrize("semiring", ["min_plus", "max_times"])
def test_rows_over_semirings(semiring: str) -> None:
    text, tensors, _ = _mttkrp(3, 5, ow.CSF(3))
    statement = ow.parse(text, semiring=semiring, **tensors)
    kernel = statement.schedule(FUSED[3] + ENDS["chunks"]).compile()
    np.testing.assert_array_equal(kernel().to_numpy(), statement.compile()().to_numpy())


TTM = ("Y(i,k,j) = X(i,k,l) * B(l,j)", "ikl,lj->ikj", (7, 5, 9), (6, 9))


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    "text",
    [
        "order(i,k,l,j), fuse(k,l,a), fuse(i,a,f), pos(f,p,X)",
        "order(i,k,l,j), fuse(i,k,f), pos(f,p,X)",
        "order(i,k,j,l), fuse(i,k,f), pos(f,p,X)",
    ],
)
def test_fibres_of_columns(text: str, end: str) -> None:
    statement, subscripts, result, shape = TTM
    x, b = _random((7, 5, 6), 0.4), _random(shape)
    tensors = {"X": ow.tensor(x, format=ow.CSF(3)), "B": ow.tensor(b), "Y": ow.empty(result)}
    kernel = ow.parse(statement, **tensors).schedule(text + ENDS[end]).compile()
    np.testing.assert_array_equal(kernel().to_numpy(), np.einsum(subscripts, x, b))


@pytest.mark.parametrize("order", FUSED)
@pytest.mark.parametrize("inner", ["", ", unroll(j)", ", parallelize(j,CPUVector,NoRaces)"])
def test_only_shared_rows_are_updated_atomically(order: int, inner: str) -> None:
    text, tensors, want = _mttkrp(order, 5, ow.CSF(order))
    stmt = ow.parse(text, **tensors).schedule(FUSED[order] + ENDS["chunks"] + inner)
    kernel = stmt.compile()
    np.testing.assert_array_equal(kernel().to_numpy(), want)
    assert "omp atomic" in kernel.source
    assert " <= p_part_hi) {" in kernel.source  # the segments that lie within a thread's chunks
    with interpreting(Interpreted):  # which notices races
        stmt.compile(loader=lambda compiled: compiled)()


@pytest.mark.parametrize("text", ["y(i) = A(i,j) * X(b,j)", "Y(i,k) = A(i,j) * X(b,j) * Z(j,k)"])
def test_segments_that_every_thread_visits_are_shared(text: str) -> None:
    """A segment within the window of a thread was taken for its own, though all have it."""
    a, x, z = _random((6, 7), 0.5), _random((5, 7)), _random((7, 3))
    tensors = {"A": ow.tensor(a, format=ow.CSR), "X": ow.tensor(x), "Z": ow.tensor(z)}
    tensors |= {"y": ow.empty((6,)), "Y": ow.empty((6, 3))}
    used = {name: tensor for name, tensor in tensors.items() if f"{name}(" in text}
    loops = "order(b,i,j,k)" if "k" in text else "order(b,i,j)"
    for end in ("", ", split(p,p0,p1,4)"):
        schedule = f"{loops}, fuse(i,j,f), pos(f,p,A){end}, parallelize(b,CPUThread,Atomics)"
        stmt = ow.parse(text, **used).schedule(schedule)
        kernel = stmt.compile()
        assert not unguarded_updates(kernel._launcher.compiled.program)
        with interpreting(Interpreted):
            stmt.compile(loader=lambda compiled: compiled)()
        want = a @ x.sum(0) if "y" in used else a @ (x.sum(0)[:, None] * z)
        np.testing.assert_array_equal(kernel().to_numpy(), want)


def test_a_sum_ends_with_its_slice_and_not_with_each_fibre() -> None:
    x = _random((7, 5, 6), 0.4)
    tensors = {"X": ow.tensor(x, format=ow.CSF(3)), "y": ow.empty((7,))}
    kernel = ow.parse("y(i) = X(i,k,l)", **tensors).schedule(
        "fuse(k,l,a), fuse(i,a,f), pos(f,p,X)" + ENDS["chunks"]
    ).compile()  # fmt: skip
    assert kernel.source.count("R_vals[i] += R_sum;") == 2  # alone, and atomically
    assert "pA3_stop = lesser(A_pos3[A_pos2[pA1 + 1]]" in kernel.source
    np.testing.assert_array_equal(kernel().to_numpy(), x.sum((1, 2)))


def test_parents_are_searched_once_for_all_chunks_of_a_thread() -> None:
    text, tensors, _ = _mttkrp(3, 5, ow.CSF(3))
    commands = FUSED[3] + ", split(p,p0,p1,64), parallelize(p0,CPUThread,Atomics)"
    source = ow.parse(text, **tensors).schedule(commands).compile().source
    chunks = source.index("for (int64_t p0 = ")
    assert source.count("= last_at_most_int32(") == 2
    assert source.rindex("= last_at_most_int32(") < chunks


@pytest.mark.parametrize("end", ENDS)
def test_fibres_without_entries_are_skipped(end: str) -> None:
    """Arrays from outside may have compressed fibres with nothing below them."""
    levels = [
        {"pos": [0, 4], "crd": [0, 1, 3, 4]},
        {"pos": [0, 2, 2, 4, 5], "crd": [1, 2, 0, 3, 2]},
        {"pos": [0, 0, 3, 3, 4, 4], "crd": [0, 1, 3, 2]},
    ]
    X = ow.from_arrays(ow.CSF(3), (6, 4, 5), levels, [1.0, 2.0, 3.0, 4.0], name="X")
    x = X.to_numpy()
    b = _random((4, 5))
    y, Y = ow.empty((6,)), ow.empty((6, 5))
    fused = "fuse(k,l,a), fuse(i,a,f), pos(f,p,X)" + ENDS[end]
    sums = ow.parse("y(i) = X(i,k,l)", X=X, y=y).schedule(fused).compile()
    np.testing.assert_array_equal(sums().to_numpy(), x.sum((1, 2)))
    rows = ow.parse("Y(i,j) = X(i,k,l) * B(k,j)", X=X, B=ow.tensor(b), Y=Y)
    made = rows.schedule(f"order(i,k,l,j), {fused}").compile()
    np.testing.assert_array_equal(made().to_numpy(), np.einsum("ikl,kj->ij", x, b))


@pytest.mark.parametrize("x", [ow.dense(1), ow.CSF(1)])
@pytest.mark.parametrize("text", ["pos(j,p,{})", "pos(j,p,{}), coord(p,c)", "pos(i,p,A)"])
def test_pos_and_coord_alone_change_no_code(x: ow.Format, text: str) -> None:
    tensors = {
        "A": ow.tensor(_random((6, 7), 0.4), format=ow.CSR),
        "x": ow.tensor(_random((7,), 0.5), format=x),
        "y": ow.empty((6,)),
    }
    statement = ow.parse("y(i) = A(i,j) * x(j)", **tensors).order("i", "j")
    for name in "Ax":
        other = statement.schedule(text.format(name))
        assert _code(other.compile().source) == _code(statement.compile().source)


def _code(source: str) -> str:
    """What follows the comment with the loops."""
    return source[source.index("int32_t kernel(") :]


SPARSE = {
    "product": ("C(i,j) = A(i,j) * B(i,j)", ow.CSR, ow.CSR),
    "product of sparse rows": ("C(i,j) = A(i,j) * B(i,j)", ow.DCSR, ow.DCSR),
    "another format": ("C(i,j) = A(i,j) * B(i,j)", ow.DCSR, ow.CSR),
    "sum": ("C(i,j) = A(i,j) + B(i,j)", ow.CSR, ow.CSR),
}
CUTS = {
    "rows": "parallelize(i,CPUThread,NoRaces)",
    "runs of rows": "split(i,i0,i1,2), parallelize(i0,CPUThread,NoRaces)",
    "pairs": "fuse(i,j,f), parallelize(f,CPUThread,NoRaces)",
    "runs of pairs": "fuse(i,j,f), split(f,f0,f1,5), parallelize(f0,CPUThread,NoRaces)",
    "positions": "fuse(i,j,f), pos(f,p,A), parallelize(p,CPUThread,NoRaces)",
    "runs of positions": "fuse(i,j,f), pos(f,p,A), split(p,p0,p1,3), "
    "parallelize(p0,CPUThread,NoRaces)",
    "positions of rows": "pos(i,p,A), split(p,p0,p1,2), parallelize(p0,CPUThread,NoRaces)",
}


@pytest.mark.parametrize(
    ("name", "cut", "density"), in_pairs(list(SPARSE), list(CUTS), [0.0, 0.1, 0.6])
)
def test_threads_take_pieces_of_a_sparse_result(name: str, cut: str, density: float) -> None:
    text, operand, result = SPARSE[name]
    a, b = _random((23, 9), density), _random((23, 9), 0.5)[::-1]
    tensors = {
        "A": ow.tensor(a, format=operand),
        "B": ow.tensor(b, format=operand),
        "C": ow.empty((23, 9), format=result),
    }
    statement = ow.parse(text, **tensors)
    try:
        chosen = statement.schedule(CUTS[cut])
    except ow.ScheduleError as error:
        assert error.code == "E312" and result == ow.DCSR and "runs of p" in cut
        return
    kernel = chosen.compile()
    assert "omp parallel" in kernel.source
    got = kernel()
    np.testing.assert_array_equal(got.to_numpy(), a + b if "+" in text else a * b)
    plain = statement.schedule("assemble(serial)").compile()()
    assert all(
        np.array_equal(one[key], other[key])
        for one, other in zip(got.storage.levels, plain.storage.levels, strict=True)
        for key in one
    )


def test_pieces_of_rows_are_those_of_assemble() -> None:
    tensors = {name: ow.tensor(_random((6, 7), 0.4), format=ow.CSR) for name in "AB"}
    statement = ow.parse("C(i,j) = A(i,j) + B(i,j)", C=ow.empty((6, 7), format=ow.CSR), **tensors)
    rows = statement.parallelize("i", "CPUThread", "NoRaces")
    assert rows.compile().source == statement.assemble("append").compile().source
    counted = statement.assemble("count")
    again = counted.parallelize("i", "CPUThread", "NoRaces")
    assert again.compile().source == counted.compile().source
