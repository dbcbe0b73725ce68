"""Schedules on awkward data: empty rows, no entries, no rows, runs that do not fit, odd types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.choices import in_turns

import openwork as ow
from openwork.runtime.host import launch

pytestmark = pytest.mark.needs_cc

i, j, k, l, m = ow.indices("i j k l m")
THREADS = 3


@pytest.fixture(autouse=True)
def really_parallel(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small kernels run on several threads too."""
    monkeypatch.setattr(launch, "SERIAL_BELOW", -1)
    ow.set_num_threads(THREADS)
    yield
    ow.set_num_threads(None)


def agree(got: Any, want: Any) -> None:
    """The values agree, and so does the element type."""
    got = got.to_numpy() if isinstance(got, ow.Tensor) else np.asarray(got)
    want = want.to_numpy() if isinstance(want, ow.Tensor) else np.asarray(want)
    assert got.shape == want.shape
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


# -- matrices -----------------------------------------------------------------------------------


def _random(shape: tuple[int, ...], density: float = 0.4, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return rng.integers(1, 10, shape) * (rng.random(shape) < density) * 1.0


def _rows(keep: slice) -> Any:
    """Entries in some rows only."""
    array = np.zeros((11, 7))
    array[keep] = _random((11, 7), 0.7)[keep]
    return array


def _one_row() -> Any:
    array = np.zeros((9, 13))
    array[4] = np.arange(1.0, 14.0)
    return array


MATRICES = {
    "some": _random((10, 7)),
    "all rows empty": np.zeros((5, 6)),
    "first rows empty": _rows(slice(6, None)),
    "last rows empty": _rows(slice(0, 4)),
    "every second row": _rows(slice(0, None, 2)),
    "one dense row": _one_row(),
    "one entry": _random((1, 1), 1.0),
    "one row": _random((1, 17), 0.6),
    "one column": _random((17, 1), 0.6),
    "no rows": np.zeros((0, 4)),
    "no columns": np.zeros((4, 0)),
    "nothing": np.zeros((0, 0)),
    "full": _random((8, 8), 1.0),
    "last entry": np.diag(np.r_[np.zeros(9), 1.0]),
}

POS = "fuse(i,j,f), pos(f,p,A), "
# y(i) = A(i,j) * x(j) for a matrix with a compressed innermost level
SCHEDULES = [
    "split(i,i0,i1,1)",
    "split(i,i0,i1,4), parallelize(i0,CPUThread,NoRaces)",
    "split(i,i0,i1,1000), unroll(i1)",
    "split(i,i0,i1,3), reorder(i1,i0), parallelize(i1,CPUThread,NoRaces)",
    "split(j,j0,j1,3)",
    "split(j,j0,j1,1), reorder(j1,j0)",
    "divide(i,i0,i1,1)",
    "divide(i,i0,i1,40), parallelize(i0,CPUThread,NoRaces)",
    "divide(j,j0,j1,40)",
    "divide(i,i0,i1,3,balance=nnz), parallelize(i0,CPUThread,NoRaces)",
    "divide(i,i0,i1,40,balance=nnz), parallelize(i0,CPUThread,NoRaces)",
    "pos(j,p,A), split(p,p0,p1,4), unroll(p1)",
    "pos(j,p,A), split(p,p0,p1,4), reorder(p1,p0)",
    "pos(j,p,A), split(p,p0,p1,4), parallelize(p1,CPUVector,ParallelReduction)",
    "pos(j,p,A), divide(p,p0,p1,3), parallelize(p0,CPUThread,Atomics)",
    "pos(j,p,A), split(p,p0,p1,4), coord(p1,c), split(c,c0,c1,2)",
    "fuse(i,j,f), split(f,f0,f1,5), parallelize(f0,CPUThread,Atomics)",
    POS + "split(p,p0,p1,1)",
    POS + "split(p,p0,p1,4), parallelize(p0,CPUThread,Atomics)",
    POS + "split(p,p0,p1,1000), parallelize(p0,CPUThread,Temporary)",
    POS + "divide(p,p0,p1,3), parallelize(p0,CPUThread,Temporary)",
    POS + "divide(p,p0,p1,40), parallelize(p0,CPUThread,Atomics,chunk=2)",
    POS + "split(p,p0,p1,4), reorder(p1,p0)",
    POS + "split(p,p0,p1,4), split(p1,p2,p3,3), parallelize(p0,CPUThread,Atomics)",
    POS + "split(p,p0,p1,6), coord(p1,c), split(c,c0,c1,4)",
    "split(i,i0,i1,3), fuse(i1,j,f), pos(f,p,A), split(p,p0,p1,4), "
    "parallelize(i0,CPUThread,NoRaces)",
    "precompute(A(i,j)*x(j),j,jw), split(jw,j0,j1,4), parallelize(i,CPUThread,NoRaces)",
]
ROW_FORMATS = {"CSR": ow.CSR, "DCSR": ow.DCSR}


CASES = [("CSR", text) for text in SCHEDULES] + [("DCSR", text) for text in SCHEDULES[::2]]


@pytest.mark.parametrize(("name", "text"), CASES)
def test_one_kernel_for_every_matrix(name: str, text: str) -> None:
    """Compiled once, called with all of them."""
    some = MATRICES["some"]
    A = ow.tensor(some, format=ROW_FORMATS[name], name="A")
    x = ow.tensor(np.arange(1.0, 8.0), name="x")
    y = ow.empty((10,), name="y")
    stmt = ow.assign(y[i], A[i, j] * x[j])
    kernel = stmt.schedule(text).compile()
    for case, array in MATRICES.items():
        vector = np.arange(1.0, array.shape[1] + 1)
        out = ow.empty((array.shape[0],), name="y")
        kernel(A=ow.tensor(array, format=A.format), x=ow.tensor(vector), out=out)
        np.testing.assert_array_equal(out.to_numpy(), array @ vector, err_msg=case)
    agree(kernel(), some @ x.to_numpy())


# -- tensors of order 3 and 4 -------------------------------------------------------------------


def _tensors(order: int) -> dict[str, Any]:
    gaps = _random((5, 4, 6, 3)[:order], 0.5, seed=order)
    gaps[0] = gaps[-1] = 0
    gaps[2, 1:] = 0
    single = np.zeros((3, 2, 4, 2)[:order])
    single[(2, 0, 3, 1)[:order]] = 5.0
    return {
        "some": _random((4, 5, 3, 4)[:order], 0.3, seed=order),
        "gaps": gaps,
        "single": single,
        "empty": np.zeros((3, 4, 2, 3)[:order]),
        "no extent": np.zeros((3, 0, 2, 3)[:order]),
        "full": _random((2, 3, 2, 2)[:order], 1.0, seed=order),
    }


CUT = "split({0},q0,q1,3), parallelize(q0,CPUThread,{1})"
# sums over slices of T(i,j,k), position splits at each level; parents are tracked
CSF3 = [
    "pos(i,p,T), " + CUT.format("p", "NoRaces"),
    "pos(j,p,T), split(p,q0,q1,2)",
    "pos(k,p,T), split(p,q0,q1,2), unroll(q1)",
    "fuse(i,j,f), pos(f,p,T), " + CUT.format("p", "Atomics"),
    "fuse(j,k,f), pos(f,p,T), split(p,q0,q1,3)",
    "fuse(i,j,f), fuse(f,k,g), pos(g,p,T), " + CUT.format("p", "Atomics"),
    "fuse(j,k,f), fuse(i,f,g), pos(g,p,T), " + CUT.format("p", "Temporary"),
    "fuse(i,j,f), fuse(f,k,g), pos(g,p,T), divide(p,q0,q1,50), parallelize(q0,CPUThread,Atomics)",
    "divide(i,i0,i1,3,balance=nnz), parallelize(i0,CPUThread,NoRaces)",
    "divide(j,j0,j1,3,balance=nnz)",
]
CSF4 = [
    "fuse(i,j,f), fuse(f,k,g), fuse(g,l,h), pos(h,p,T), " + CUT.format("p", "Atomics"),
    "fuse(k,l,f), fuse(j,f,g), fuse(i,g,h), pos(h,p,T), " + CUT.format("p", "Temporary"),
    "fuse(j,k,f), pos(f,p,T), split(p,q0,q1,2)",
    "fuse(j,k,f), fuse(f,l,g), pos(g,p,T), split(p,q0,q1,5)",
    "fuse(k,l,f), pos(f,p,T), split(p,q0,q1,2), reorder(q1,q0)",
    "pos(l,p,T), divide(p,q0,q1,3)",
]
DENSE, SPARSE = ow.Dense, ow.Compressed
ORDERS = [
    *((3, text, levels) for text in CSF3 for levels in ([SPARSE] * 3, [DENSE, SPARSE, SPARSE])),
    (3, CSF3[3], [SPARSE, DENSE, SPARSE]),
    (3, CSF3[5], [SPARSE, DENSE, SPARSE]),
    (3, CSF3[5], [DENSE, DENSE, SPARSE]),
    (3, CSF3[6], [SPARSE, SPARSE, DENSE]),
    (3, CSF3[4], [SPARSE, DENSE, DENSE]),
    *((4, text, [SPARSE] * 4) for text in CSF4),
]


@pytest.mark.parametrize(("order", "text", "levels"), ORDERS)
def test_positions_of_every_level(order: int, text: str, levels: list[Any]) -> None:
    fmt = ow.Format(levels)
    data = _tensors(order)
    T = ow.tensor(data["some"], format=fmt, name="T")
    r = ow.empty(data["some"].shape[:1], name="r")
    kernel = ow.assign(r[i], T[(i, j, k, l)[:order]]).schedule(text).compile()
    for case, array in data.items():
        out = ow.empty(array.shape[:1], name="r")
        kernel(T=ow.tensor(array, format=fmt), out=out)
        want = array.sum(axis=tuple(range(1, order)))
        np.testing.assert_array_equal(out.to_numpy(), want, err_msg=case)


@pytest.mark.parametrize("text", [CSF3[2], CSF3[3], CSF3[5], CSF3[8]])
def test_tracked_parents_index_the_result_and_other_operands(text: str) -> None:
    for array in _tensors(3).values():
        a, b, c = array.shape
        T = ow.tensor(array, format=ow.CSF(3), name="T")
        B, C = (ow.tensor(_random((n, 4), 1.0, n), name=m) for n, m in ((b, "B"), (c, "C")))
        Y = ow.empty((a, 4), name="Y")
        stmt = ow.assign(Y[i, l], T[i, j, k] * B[j, l] * C[k, l])
        if not str(stmt.loops).split(":\n")[-1].strip().startswith("Y"):
            pytest.fail(str(stmt.loops))
        want = np.einsum("ijk,jl,kl->il", array, B.to_numpy(), C.to_numpy())
        agree(stmt.order(i, j, k, l).schedule(text).compile()(), want)


# -- numbers of runs and their lengths ----------------------------------------------------------


@pytest.mark.parametrize("factor", [1, 3, 17, 18, 1 << 20, 1 << 40])
def test_any_factor_cuts_any_extent(factor: int) -> None:
    array = _random((17, 17), 0.5)
    A = ow.tensor(array, format=ow.CSR, name="A")
    D = ow.tensor(_random((17, 17), 1.0, 3), name="D")
    x = ow.tensor(np.arange(17.0), name="x")
    y = ow.empty((17,), name="y")
    sparse, full = ow.assign(y[i], A[i, j] * x[j]), ow.assign(y[i], D[i, j] * x[j])
    for stmt, want in ((sparse, array @ x.to_numpy()), (full, D.to_numpy() @ x.to_numpy())):
        agree(stmt.split(i, "a", "b", factor).split(j, "c", "d", factor).compile()(), want)
    if factor <= 1 << 20:  # see test_the_rest_of_an_unrolled_loop_is_short
        unrolled = full.split(j, "c", "d", factor).unroll("d")
        agree(unrolled.compile()(), D.to_numpy() @ x.to_numpy())
    fused = sparse.fuse(i, j, "f").pos("f", "p", A)
    got = fused.split("p", "a", "b", factor).parallelize("a", "CPUThread", "Atomics").compile()()
    agree(got, array @ x.to_numpy())


@pytest.mark.parametrize("parts", [1, 5, 1000])
@pytest.mark.parametrize("balance", [None, "nnz"])
def test_any_number_of_parts(parts: int, balance: str | None) -> None:
    array = _rows(slice(0, None, 3))
    A = ow.tensor(array, format=ow.CSR, name="A")
    x = ow.tensor(np.arange(7.0), name="x")
    y = ow.empty((11,), name="y")
    stmt = ow.assign(y[i], A[i, j] * x[j]).divide(i, "a", "b", parts, balance=balance)
    agree(stmt.compile()(), array @ x.to_numpy())
    agree(stmt.parallelize("a", "CPUThread").compile()(), array @ x.to_numpy())


def test_runs_of_runs() -> None:
    array = _random((23, 19), 0.4)
    A = ow.tensor(array, format=ow.CSR, name="A")
    x = ow.tensor(np.arange(19.0), name="x")
    y = ow.empty((23,), name="y")
    stmt = ow.assign(y[i], A[i, j] * x[j]).schedule(
        "split(i,i0,i1,7), split(i0,i2,i3,2), divide(i1,i4,i5,3), split(j,j0,j1,5), "
        "divide(j1,j2,j3,2), reorder(i3,i2), reorder(j2,j0), parallelize(i3,CPUThread,NoRaces)"
    )
    agree(stmt.compile()(), array @ x.to_numpy())


# -- wide indices -------------------------------------------------------------------------------

WIDE = [
    "split(i,i0,i1,4), parallelize(i0,CPUThread,NoRaces)",
    "divide(i,i0,i1,3,balance=nnz), parallelize(i0,CPUThread,NoRaces)",
    POS + "split(p,p0,p1,4), parallelize(p0,CPUThread,Atomics)",
    POS + "divide(p,p0,p1,5), parallelize(p0,CPUThread,Temporary)",
    "split(j,j0,j1,2), pos(j1,p,A), split(p,p0,p1,2)",
]


@pytest.mark.parametrize("text", WIDE)
def test_index_arrays_of_64_bits(text: str) -> None:
    array = _rows(slice(2, 9))
    narrow = ow.tensor(array, format=ow.CSR)
    rows, columns = np.nonzero(array)
    pos = np.searchsorted(rows, np.arange(12)).astype(np.int64)
    levels = [{}, {"pos": pos, "crd": columns.astype(np.int64)}]
    A = ow.from_arrays(ow.CSR, (11, 7), levels, array[rows, columns], name="A")
    x = ow.tensor(np.arange(7.0), name="x")
    y = ow.empty((11,), name="y")
    kernel = ow.assign(y[i], A[i, j] * x[j]).schedule(text).compile()
    agree(kernel(), array @ x.to_numpy())
    agree(kernel(A=narrow), array @ x.to_numpy())  # and the same kernel for 32 bits


# -- element types, operators, races ------------------------------------------------------------

RACES = ["Atomics", "Temporary", "ParallelReduction"]
TYPES = ["int8", "int64", "bool", "float32", "complex128"]


def _typed(array: Any, dtype: str) -> Any:
    if dtype.startswith("complex"):
        return (array + 1j * array[::-1]).astype(dtype)
    return array.astype(dtype)


@pytest.mark.parametrize(("dtype", "race"), in_turns(TYPES, RACES, 2))
def test_sums_of_every_type_by_every_strategy(dtype: str, race: str) -> None:
    array = _typed(_random((13, 9), 0.6), dtype)
    A = ow.tensor(array, format=ow.CSR, name="A")
    x = ow.tensor(_typed(np.arange(9) % 3 * 1.0, dtype), name="x")
    y = ow.empty((13,), dtype=dtype, name="y")
    s = ow.empty((), dtype=dtype, name="s")
    rows, whole = ow.assign(y[i], A[i, j] * x[j]), ow.assign(s[()], A[i, j] * x[j])
    expected = rows.compile()()
    agree(whole.parallelize(i, "CPUThread", race).compile()(), whole.compile()())
    agree(rows.parallelize(j, "CPUThread", race).compile()(), expected)
    if race != "ParallelReduction":
        text = f"{POS} split(p,p0,p1,4), parallelize(p0,CPUThread,{race})"
        agree(rows.schedule(text).compile()(), expected)


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_lanes_of_vectors(dtype: str) -> None:
    D = ow.tensor(_typed(_random((5, 19), 1.0), dtype), name="D")
    A = ow.tensor(_typed(_random((5, 19), 0.5), dtype), format=ow.CSR, name="A")
    x = ow.tensor(_typed(np.arange(19.0), dtype), name="x")
    y = ow.empty((5,), dtype=dtype, name="y")
    for stmt in (ow.assign(y[i], D[i, j] * x[j]), ow.assign(y[i], A[i, j] * x[j])):
        expected = stmt.compile()()
        lanes = stmt.parallelize(j, "CPUVector", "ParallelReduction")
        agree(lanes.compile()(), expected)
        cut = stmt.split(j, "j0", "j1", 4).parallelize("j1", "CPUVector", "ParallelReduction")
        agree(cut.compile()(), expected)
        agree(stmt.parallelize(i, "CPUVector").compile()(), expected)


SEMIRINGS = ["min_plus", "or_and"]


@pytest.mark.parametrize("semiring", SEMIRINGS)
@pytest.mark.parametrize("race", RACES)
def test_semirings_by_every_strategy(semiring: str, race: str) -> None:
    dtype = "bool" if semiring == "or_and" else "float64"
    array = _rows(slice(3, 8)).astype(dtype)
    A = ow.tensor(array, format=ow.CSR, name="A")
    x = ow.tensor(np.arange(7.0).astype(dtype), name="x")
    y = ow.empty((11,), dtype=dtype, name="y")
    stmt = ow.assign(y[i], A[i, j] * x[j], semiring=semiring)
    expected = stmt.compile()()
    agree(stmt.parallelize(j, "CPUThread", race).compile()(), expected)
    if race != "ParallelReduction":
        text = f"{POS} divide(p,p0,p1,4), parallelize(p0,CPUThread,{race})"
        agree(stmt.schedule(text).compile()(), expected)


OPS = {"+=": ow.ADD, "max=": ow.MAX}


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("text", [
    "split(i,i0,i1,4), parallelize(i0,CPUThread,NoRaces)",
    "divide(i,i0,i1,3,balance=nnz), parallelize(i0,CPUThread,NoRaces)",
    "split(j,j0,j1,3), parallelize(i,CPUThread,NoRaces)",
])  # fmt: skip
def test_results_that_are_combined_with_what_was_there(op: str, text: str) -> None:
    array = _rows(slice(3, 8))
    A = ow.tensor(array, format=ow.CSR, name="A")
    x = ow.tensor(np.arange(7.0) - 3, name="x")
    y = ow.tensor(np.linspace(-30, 30, 11), name="y")
    stmt = ow.assign(y[i], A[i, j] * x[j], OPS[op])
    before = y.to_numpy().copy()
    expected = stmt.compile()()
    agree(stmt.schedule(text).compile()(), expected)
    np.testing.assert_array_equal(y.to_numpy(), before)


@pytest.mark.parametrize("race", ["Atomics", "Temporary"])
@pytest.mark.parametrize("op", ["+=", "max="])
def test_shared_entries_are_combined_with_what_was_there(op: str, race: str) -> None:
    array = _rows(slice(3, 8))
    A = ow.tensor(array, format=ow.CSR, name="A")
    x = ow.tensor(np.arange(7.0) + 1, name="x")
    y = ow.tensor(np.linspace(-30, 30, 11), name="y")
    for rhs in (A[i, j] * x[j], ow.max(j, A[i, j] * x[j])):
        stmt = ow.assign(y[i], rhs, OPS[op])
        expected = stmt.compile()()
        for text in (f"parallelize(j,CPUThread,{race})", f"{POS} split(p,p0,p1,4)"):
            try:
                scheduled = stmt.schedule(text)
            except ow.ScheduleError:
                continue  # the sum has a workspace of its own
            agree(scheduled.compile()(), expected)


# -- sparse results and operands that meet ------------------------------------------------------

MEETING = {
    "intersect": lambda A, C: A[i, j] * C[i, j],
    "unite": lambda A, C: A[i, j] + C[i, j],
}
FUSED_POSITIONS = "fuse(i,j,f), pos(f,p,A(i,j)), split(p,p0,p1,4)"
MEETING_TEXTS = [
    "split(i,i0,i1,3)",
    "split(j,j0,j1,3)",
    "divide(j,j0,j1,4)",
    "pos(j,p,A(i,j)), split(p,p0,p1,2)",
    "pos(j,p,C(i,j)), divide(p,p0,p1,3)",
    "pos(i,p,A(i,j)), split(p,p0,p1,2)",
    FUSED_POSITIONS,
    "fuse(i,j,f), split(f,f0,f1,5)",
    "split(i,i0,i1,2), split(j,j0,j1,2), unroll(j1)",
    "divide(i,i0,i1,3,balance=nnz)",
]
RESULTS = {"dense": ow.dense(2), "CSR": ow.CSR}


@pytest.mark.parametrize(("text", "result"), in_turns(MEETING_TEXTS, list(RESULTS), 1))
def test_two_sparse_operands(text: str, result: str) -> None:
    first, second = _random((7, 9), 0.4, 1), _random((7, 9), 0.3, 2)
    zero, late = np.zeros((7, 9)), _random((7, 9), 0.9, 3)
    late[:5] = 0
    A, C = (ow.tensor(a, format=ow.CSR, name=n) for a, n in ((first, "A"), (second, "C")))
    Y = ow.empty((7, 9), format=RESULTS[result], name="Y")
    for way, make in MEETING.items():
        kernel = ow.assign(Y[i, j], make(A, C)).schedule(text).compile()
        for one, two in ((first, second), (first, zero), (zero, second), (late, first)):
            got = kernel(A=ow.tensor(one, format=ow.CSR), C=ow.tensor(two, format=ow.CSR))
            agree(got, one * two if way == "intersect" else one + two)


def _entries(rows: int, columns: int, count: int) -> Any:
    array = np.zeros((rows, columns))
    array.reshape(-1)[:count] = 1.0
    return ow.tensor(array, format=ow.CSR, name="A")


def test_no_runs_still_make_a_sparse_result() -> None:
    """Memory that was used before comes back from malloc with what was in it."""
    rows, columns = 61, 3
    A, C = _entries(rows, columns, 183), _entries(rows, columns, 183)
    Y = ow.empty((rows, columns), format=ow.CSR, name="Y")
    C = ow.tensor(C.to_numpy(), format=ow.CSR, name="C")
    kernel = ow.assign(Y[i, j], A[i, j] * C[i, j]).schedule(FUSED_POSITIONS).compile()
    nothing = _entries(rows, columns, 0)
    for _ in range(20):
        assert kernel().nnz == 183
        pos = kernel(A=nothing).storage.levels[1]["pos"]
        np.testing.assert_array_equal(pos, 0)


@pytest.mark.parametrize("text", [
    "split(i,i0,i1,3), parallelize(i0,CPUThread,NoRaces)",
    "fuse(i,j,f), pos(f,p,A), split(p,p0,p1,4), parallelize(p0,CPUThread,NoRaces)",
    "divide(i,i0,i1,3,balance=nnz), parallelize(i0,CPUThread,NoRaces)",
    "split(k,k0,k1,2), parallelize(i,CPUThread,NoRaces)",
])  # fmt: skip
def test_a_result_with_the_pattern_of_an_operand(text: str) -> None:
    rng = np.random.default_rng(5)
    for case, array in MATRICES.items():
        A = ow.tensor(array, format=ow.CSR, name="A")
        B = ow.tensor(rng.random((array.shape[0], 5)), name="B")
        C = ow.tensor(rng.random((5, array.shape[1])), name="C")
        S = ow.empty(array.shape, format=ow.CSR, name="S")
        got = ow.assign(S[i, j], A[i, j] * B[i, k] * C[k, j]).schedule(text).compile()()
        want = array * (B.to_numpy() @ C.to_numpy())
        np.testing.assert_allclose(got.to_numpy(), want, err_msg=case)
        assert got.nnz == A.nnz, case


@pytest.mark.parametrize("text", [
    "split(i,i0,i1,3)",
    "divide(i,i0,i1,20)",
    "split(j,j0,j1,2)",
    "pos(j,p,A), split(p,p0,p1,2)",
    "divide(i,i0,i1,3,balance=nnz)",
])  # fmt: skip
def test_products_into_a_sparse_result(text: str) -> None:
    other = _random((7, 6), 0.4, 9)
    for case in ("some", "first rows empty", "last rows empty", "every second row"):
        array = MATRICES[case]
        A = ow.tensor(array, format=ow.CSR, name="A")
        B = ow.tensor(other, format=ow.CSR, name="B")
        S = ow.empty((array.shape[0], 6), format=ow.CSR, name="S")
        got = ow.assign(S[i, k], A[i, j] * B[j, k]).schedule(text).compile()()
        np.testing.assert_array_equal(got.to_numpy(), array @ other, err_msg=case)


# -- long runs ----------------------------------------------------------------------------------


def test_the_rest_of_an_unrolled_loop_is_short() -> None:
    """The last run of 17 values with a factor of a million takes 17 steps, not a million."""
    D, x = ow.tensor(np.ones((3, 17)), name="D"), ow.tensor(np.ones(17), name="x")
    y = ow.empty((3,), name="y")
    stmt = ow.assign(y[i], D[i, j] * x[j]).split(j, "c", "d", 1_000_000).unroll("d")
    rest = stmt.compile().source.partition("// the rest")[2]
    assert rest
    assert "< 1000000;" not in rest


MOST, MOST_PARTS = 2**40, 2**20  # the largest numbers that schedules take
LONG = [
    f"split(i,a,b,{MOST}), split(a,c,d,{MOST})",
    f"split(i,a,b,{MOST}), split(b,c,d,{MOST})",
    f"split(i,a,b,{MOST}), split(a,c,d,{MOST}), split(c,e,f,{MOST})",
    f"split(i,a,b,{MOST}), unroll(b)",
    f"{POS}split(p,a,b,{MOST}), split(a,c,d,{MOST})",
    f"divide(i,a,b,{MOST_PARTS}), parallelize(a,CPUThread,NoRaces)",
    f"prefetch(x,j,{MOST})",
    f"unroll(i,{MOST})",
    f"parallelize(i,CPUThread,NoRaces,chunk={MOST})",
    f"bound(i,b,{MOST},MaxConstraint)",
]


@pytest.mark.parametrize("text", LONG)
def test_runs_of_runs_of_any_length(text: str) -> None:
    array = _random((6, 8))
    A = ow.tensor(array, format=ow.CSR, name="A")
    x, y = ow.tensor(np.arange(8.0), name="x"), ow.empty((6,), name="y")
    agree(ow.assign(y[i], A[i, j] * x[j]).schedule(text).compile()(), array @ x.to_numpy())


@pytest.mark.parametrize("format", [ow.CSR, ow.COO(2), ow.DCSR, ow.CSC], ids=repr)
@pytest.mark.parametrize(
    "text",
    [
        "pos(f,p,A), split(p,a,b,4), reorder(b,a)",
        "pos(f,p,A), split(p,a,b,4), split(b,c,d,2), order(a,d,c), parallelize(a,CPUThread)",
        "pos(f,p,A), divide(p,a,b,3), reorder(b,a), parallelize(b,CPUThread,NoRaces)",
    ],
)
def test_a_result_with_the_pattern_of_an_operand_is_walked_with_it(
    format: ow.Format, text: str
) -> None:
    """Positions of the one are those of the other, in any order."""
    for array in (_random((11, 7)), _rows(slice(3, 5)), np.zeros((4, 6)), _one_row()):
        A = ow.tensor(array, name="A").to(format).rename("A")
        C = ow.empty(array.shape, format=format, name="C")
        x = ow.tensor(np.arange(1.0, array.shape[1] + 1), name="x")
        stmt = ow.parse("C(i,j) = A(i,j) * x(j)", C=C, A=A, x=x)
        outer, inner = ("j", "i") if format == ow.CSC else ("i", "j")
        made = stmt.schedule(f"order({outer},{inner}), fuse({outer},{inner},f), {text}").compile()()
        agree(made, array * np.arange(1.0, array.shape[1] + 1))
        assert made.format == format and made.nnz == A.nnz
