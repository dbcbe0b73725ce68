"""Faults that random schedules for a GPU have found, each as a case of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.unguarded import unguarded_updates

import openwork as ow
from openwork.runtime.gpu.emulator import ORDERS, Emulator

pytestmark = pytest.mark.needs_cc
rng = np.random.default_rng(3)


def agrees(stmt: Any, expected: Any) -> None:
    kernel = stmt.compile("cuda-emulated")
    for order in range(3):
        kernel._launcher.device.order = order
        np.testing.assert_allclose(kernel().to_numpy(), expected, rtol=1e-13)


def test_a_small_workspace_outside_of_kernels_lies_in_memory() -> None:
    """It was an array of the thread's own, in a kernel that nobody needed."""
    matrix = sp.random(20, 9, 0.3, format="csr", random_state=rng)
    B = ow.tensor(matrix, name="B")
    total = ow.parse("Y = B(i,j)", Y=ow.empty((), name="Y"), B=B)
    text = "split(i,i0,i1,7), precompute(B(i,j),i1,i1w), parallelize(i1w,GPUBlock,NoRaces)"
    agrees(total.schedule(text), matrix.sum())


def test_a_scalar_that_is_spread_over_blocks() -> None:
    dense = rng.random((30, 4))
    D, b = ow.tensor(dense, name="D"), ow.tensor(np.array(2.5), name="b")
    stmt = ow.parse("y(k) = D(k,j) * b", y=ow.empty((30,), name="y"), D=D, b=b)
    text = (
        "divide(k,k0,k1,5), precompute(b,k0,k0w), "
        "parallelize(k0w,GPUBlock,NoRaces), parallelize(k0,GPUThread,NoRaces)"
    )
    agrees(stmt.schedule(text), dense.sum(axis=1) * 2.5)


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "float64", "int16", "uint8"])
def test_products_of_any_size_are_atomic(dtype: str) -> None:
    """Elements of 16 bytes were exchanged as if they were parts of a word."""
    numbers = [1, -1, 1j, 2] if dtype.startswith("complex") else [1, 2, 3]
    dense = rng.choice(numbers, (40, 6)).astype(dtype)
    C = ow.tensor(dense, name="C")
    y = ow.empty((6,), dtype=dtype, name="y")
    stmt = ow.parse("y(j) = prod(i, C(i,j))", y=y, C=C)
    text = (
        "order(i,j), split(i,b,t,16), parallelize(b,GPUBlock,Atomics), "
        "parallelize(t,GPUThread,Atomics)"
    )
    agrees(stmt.schedule(text), np.prod(dense, axis=0, dtype=dtype))


def test_lists_with_less_than_an_entry_in_a_row() -> None:
    """They were taken for none, and each thread looked at some of the entries."""
    dense = np.zeros((40, 30))
    dense[rng.integers(0, 40, 20), rng.integers(0, 30, 20)] = rng.random(20)
    C, B = ow.tensor(dense, format=ow.DCSR, name="C"), ow.tensor(rng.random((40, 30)), name="B")
    d = ow.tensor(rng.random(40) * (rng.random(40) < 0.3), format=ow.CSF(1), name="d")
    y = ow.empty((40,), format=ow.CSF(1), name="y")
    stmt = ow.parse("y(i) = d(i) + C(i,j) * B(i,j)", y=y, C=C, B=B, d=d)
    expected = d.to_numpy() + (dense * B.to_numpy()).sum(axis=1)
    agrees(stmt.schedule("precompute(C(i,j),j,jw)"), expected)


def test_a_list_that_is_made_ahead_of_the_result() -> None:
    """Its table was one of the pieces', which come after it."""
    one, two = (rng.random((6, 5)) * (rng.random((6, 5)) < 0.5) for _ in range(2))
    A, B = (ow.tensor(d, format=ow.CSR, name=n) for d, n in ((one, "A"), (two, "B")))
    C = ow.empty((6, 5), format=ow.CSR, name="C")
    stmt = ow.parse("C(i,k) = B(i,k) - A(j,k) * A(j,k)", A=A, B=B, C=C)
    agrees(stmt, two - (one * one).sum(axis=0))
    agrees(stmt.schedule("precompute(A(j,k) * A(j,k),k,kw)"), two - (one * one).sum(axis=0))


def test_every_block_of_a_grid_of_two_dimensions_fills_its_own_workspace() -> None:
    """Only the first along the second dimension did."""
    data = rng.random(23)
    A = ow.tensor(data, name="A")
    stmt = ow.parse("y(k) = A(k)", y=ow.empty((23,), name="y"), A=A)
    text = (
        "divide(k,k0,k1,3), precompute(A(k),k1,k1w), parallelize(k1,GPUBlock,NoRaces), "
        "parallelize(k1w,GPUThread,NoRaces), parallelize(k0,GPUBlock,NoRaces)"
    )
    agrees(stmt.schedule(text), data)


def test_positions_of_an_operand_that_is_absent() -> None:
    """Where a row of B is not there, its positions are none, and A alone is left."""
    b, a = rng.integers(0, 3, (3, 4, 5)).astype(float), rng.integers(0, 3, 5).astype(float)
    b[1] = 0
    B, A = ow.tensor(b, format=ow.CSF(3), name="B"), ow.tensor(a, format="Compressed(0)", name="A")
    stmt = ow.parse("Y = B(i,j,k) * A(k) - A(k) * B(i,j,k)", Y=ow.empty((), name="Y"), B=B, A=A)
    text = "fuse(j,k,jk), pos(jk,jkp,B(i,j,k)), parallelize(jkp,GPUWarp,Atomics)"
    agrees(stmt.schedule(text), 0.0)


def test_tables_of_one_thread_without_atomics() -> None:
    """Memory of one thread has none: the hardware stops, and so does the emulator."""
    a, b = rng.integers(0, 3, (6, 7)).astype(float), rng.integers(0, 2, (5, 7, 6)).astype(float)
    A = ow.tensor(a, format=ow.DCSR, name="A")
    B = ow.tensor(b, format=ow.Format([ow.Dense, ow.Dense, ow.Compressed]), name="B")
    y = ow.empty((5, 6), format=ow.Format([ow.Compressed, ow.Dense]), name="y")
    agrees(ow.parse("y(k,j) = A(j,i) * B(k,i,j)", y=y, A=A, B=B), np.einsum("ji,kij->kj", a, b))


def test_loops_of_pieces_stay_with_their_threads() -> None:
    """A sum before the result runs over a variable that pieces of the result run over, too."""
    d, c = rng.random((2, 4, 5, 6)), rng.random((4, 6, 2))
    D, C = ow.tensor(d, name="D"), ow.tensor(c, name="C")
    y = ow.empty((5, 2), format=ow.DCSR, name="y")
    stmt = ow.parse("y(k,l) = D(l,j,k,i) * (-1) + C(j,i,l) * 2.0", y=y, D=D, C=C)
    agrees(stmt, -d.sum(axis=(1, 3)).T + 2 * c.sum(axis=(0, 1)))


def test_copies_of_blocks_that_may_not_run_are_refused_at_once() -> None:
    """It is a temporary without entries that decides, which only the GPU knows."""
    A = ow.tensor(np.array([0.0, 0, 1]), format="Compressed(0)", name="A")
    B = ow.tensor(rng.random((3, 4)), name="B")
    y = ow.empty((), name="y")
    stmt = ow.parse("y = sum(k, sum(j, (B(k,j) + 1) * sum(i, A(i))))", y=y, A=A, B=B)
    with pytest.raises(ow.ScheduleError, match="decides if they run"):
        stmt.parallelize("k", "GPUBlock", "Temporary")
    agrees(stmt.parallelize("k", "GPUBlock", "Atomics"), float((B.to_numpy() + 1).sum()))


def test_rows_of_a_list_of_coordinates_are_counted_to_their_ends() -> None:
    """How many keys a table needs was counted by a loop that never moved on."""
    a, c = rng.integers(0, 3, (4, 5)).astype(float), rng.integers(0, 2, (5, 6)).astype(float)
    A, C = ow.tensor(a, name="A"), ow.tensor(c, format=ow.COO(2), name="C")
    y = ow.empty((4, 6), format="Compressed(0/2), Lengths(1), Bitmap(0%2)", name="y")
    agrees(ow.parse("y(j,k) = A(j,i) * C(i,k)", y=y, A=A, C=C), a @ c)


@pytest.mark.parametrize("target", ["cpu", "cuda-emulated"])
def test_positions_of_runs_that_are_none(target: str) -> None:
    """The end of the last run was asked for, which there was not."""
    B = ow.tensor(np.zeros((3, 4)), format=ow.Format([ow.Hashed, ow.Lengths]), name="B")
    x = ow.tensor(np.ones(4), name="x")
    stmt = ow.parse("y(i) = B(i,j) * x(j)", y=ow.empty((3,), name="y"), B=B, x=x)
    stmt = stmt.schedule("fuse(i,j,f), pos(f,p,B(i,j))")
    kernel = stmt.compile(target)
    np.testing.assert_array_equal(kernel().to_numpy(), np.zeros(3))
    loaded = [line for line in kernel.source.splitlines() if "_len2[" in line]
    assert not any("- 1]" in line for line in loaded), loaded


@pytest.mark.parametrize("target", ["cpu", "cuda-emulated"])
@pytest.mark.parametrize("height", [2, 3])
def test_terms_of_strided_runs_lie_by_their_positions(target: str, height: int) -> None:
    """They lay where entries do, which in slices is further out than the workspace reaches."""
    a, b = rng.integers(1, 9, 10).astype(float), np.arange(10.0)
    A = ow.tensor(a, format=ow.Format([ow.Sliced(height)]), name="A")
    stmt = ow.parse("y = A(i) * B(i)", y=ow.empty((), name="y"), A=A, B=ow.tensor(b, name="B"))
    stmt = stmt.schedule("pos(i,p,A(i)), split(p,p0,p1,4), precompute(A(i) * B(i),p1,p1w)")
    assert stmt.compile(target)().to_numpy() == a @ b


@pytest.mark.parametrize("order", [1, 2])
def test_blocks_that_sum_up_to_a_scalar_add_to_no_place_in_common(order: int) -> None:
    """Their tiles were staged in the same memory, at once: the recipe ignores races."""
    shape = (5000,) if order == 1 else (100, 60)
    a = rng.integers(0, 3, shape).astype(float)
    A = ow.tensor(a, format=ow.CSF(1) if order == 1 else ow.CSR, name="A")
    index = "i" if order == 1 else "i,j"
    stmt = ow.parse(f"y = A({index}) * A({index})", y=ow.empty((), name="y"), A=A)
    for each in (stmt, ow.recipes.position_staged(stmt)):
        source = each.compile("cuda-emulated").source
        assert "W_vals" not in source and "atomicAdd(&R_vals" in source
        agrees(each, (a * a).sum())


def test_staged_columns_need_rows() -> None:
    A = ow.tensor(sp.random(9, 8, 0.5, format="csr", random_state=rng), name="A")
    B = ow.tensor(rng.random((8, 4)), name="B")
    stmt = ow.parse("y(k) = A(i,j) * B(j,k)", y=ow.empty((4,), name="y"), A=A, B=B)
    with pytest.raises(ow.ScheduleError, match="results with rows") as caught:
        ow.recipes.spmm_staged(stmt)
    assert caught.value.code == "E316"
    agrees(stmt, (A.to_scipy() @ B.to_numpy()).sum(axis=0))


def test_threads_that_take_positions_leave_nothing_out_between_them() -> None:
    """What B alone adds was left out where C has no entry."""
    c, b = (rng.integers(0, 2, (4, 5)).astype(float) for _ in range(2))
    C, B = ow.tensor(c, format=ow.CSR, name="C"), ow.tensor(b, name="B")
    stmt = ow.parse("y(i,j) = C(i,j) + B(i,j)", y=ow.empty((4, 5), name="y"), C=C, B=B)
    stmt = stmt.schedule("fuse(i,j,f), pos(f,p,C(i,j)), split(p,b,t,4)")
    agrees(stmt.parallelize("b", "GPUBlock", "NoRaces"), c + b)
    with pytest.raises(ow.ScheduleError, match="where that has no entry, too") as caught:
        stmt.parallelize("t", "GPUThread", "NoRaces")
    assert caught.value.code == "E308"


@pytest.mark.parametrize("count", [0, 1, 9])
def test_a_strided_vector_by_default(count: int) -> None:
    """Its terms were staged by position, and looked for by place."""
    a = rng.integers(-3, 3, count).astype("int32")
    A = ow.tensor(a, format=ow.Format([ow.Sliced(2)]), name="A")
    agrees(ow.parse("y(i) = A(i)", y=ow.empty((count,), dtype="int32", name="y"), A=A), a)


def test_rows_that_are_stored_in_another_order_are_not_cut() -> None:
    a, b = (sp.random(40, 50, 0.9, format="csr", random_state=rng) for _ in range(2))
    B = ow.tensor(b, format=ow.Format([ow.Permuted(3), ow.Compressed]), name="B")
    Y = ow.empty((40, 50), format=ow.CSR, name="Y")
    stmt = ow.parse("Y(i,j) = A(i,j) + B(i,j)", Y=Y, A=ow.tensor(a, name="A"), B=B)
    agrees(stmt, (a + b).toarray())


def test_positions_of_more_modes_than_can_be_counted_by_pairs() -> None:
    shape = (9, 1 << 20, 1 << 21, 1 << 22)
    coords = np.array([rng.integers(0, n, 30) for n in shape])
    X = ow.tensor((coords, np.ones(30)), shape=shape, format=ow.CSF(4), name="X")
    stmt = ow.parse("y(i) = X(i,j,k,l)", y=ow.empty((9,), name="y"), X=X)
    agrees(ow.recipes.position_segments(stmt, 2), np.bincount(coords[0], minlength=9))


def test_blocks_whose_row_is_searched_for_do_not_wait_for_each_other() -> None:
    """One block read what others had not written yet: its condition hid the statements after."""
    a, c = rng.integers(1, 4, (6, 5)).astype(float), rng.integers(0, 2, (6, 2)).astype(float)
    b = rng.integers(0, 3, (5, 6)).astype(float)
    tensors = {
        "Y": ow.empty((2, 5), format=ow.Format([ow.Compressed, ow.Dense]), name="Y"),
        "A": ow.tensor(a, name="A"),
        "B": ow.tensor(b, format=ow.CSR, name="B"),
        "C": ow.tensor(c, format=ow.DCSR, name="C"),
    }
    stmt = ow.parse("Y(j,i) = C(k,j) * B(i,k) + A(k,i) * C(k,j)", **tensors)
    stmt = stmt.schedule(
        "precompute(A(k,i),k,w), split(j,j0,j1,16), reorder(j1,j0,i), pos(w,p,C(k,j)), "
        "split(p,p0,p1,1), parallelize(p0,GPUBlock,ParallelReduction)"
    )
    agrees(stmt, c.T @ (b.T + a))


def test_no_inspector_looks_for_what_nobody_reads() -> None:
    """Where tiles begin was found for blocks, too, whose threads each know where theirs do."""
    S = ow.tensor(sp.random(40, 30, 0.3, format="csr", random_state=rng), name="S")
    u, v = rng.random((40, 32)), rng.random((30, 32))
    D = ow.empty((40, 30), format=ow.CSR, name="D")
    text = "D(i,j) = S(i,j) * U(i,k) * V(j,k)"
    stmt = ow.parse(text, D=D, S=S, U=ow.tensor(u), V=ow.tensor(v))
    assert stmt.compile("cuda-emulated").source.count("__global__") == 2
    agrees(stmt, S.to_numpy() * (u @ v.T))


def test_tables_have_no_more_slots_than_there_are_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Filled from another table, one of two modes had room for any number: gigabytes of it."""
    made, empty = [], Emulator.empty

    def noted(self: Emulator, count: int, *more: Any, **named: Any) -> Any:
        made.append(count)
        return empty(self, count, *more, **named)

    monkeypatch.setattr(Emulator, "empty", noted)
    c, b, a = (rng.integers(0, 2, s).astype(float) for s in ((6, 3, 3), (3, 4), (6, 3)))
    C = ow.tensor(c, format=ow.CSF(3), name="C")
    B, A = (ow.tensor(d, format=ow.CSR, name=n) for d, n in ((b, "B"), (a, "A")))
    Y = ow.empty((4, 3, 3), format=ow.CSF(3), name="Y")
    stmt = ow.parse("Y(l,j,i) = C(k,j,i) * (-(B(i,l) * A(k,j)))", Y=Y, C=C, B=B, A=A)
    expected = -np.einsum("kji,il,kj->lji", c, b, a)
    agrees(stmt.schedule("precompute(C(k,j,i) * (-(B(i,l) * A(k,j))),i,iw)"), expected)
    assert max(made) < 10_000


@pytest.mark.parametrize("format", [ow.COO(2), ow.DCSR], ids=repr)
def test_where_pieces_begin_is_counted_in_32_bits(format: ow.Format) -> None:
    """Pieces times entries are more than that, and what is left over times pieces."""
    numbers = np.random.default_rng(5)
    rows = np.sort(numbers.choice(100_000, 70_000, replace=False))
    rows = np.concatenate([rows, rows[:50_000]])
    columns = np.concatenate([np.zeros(70_000, int), np.ones(50_000, int)])
    matrix = sp.csr_matrix((np.arange(1.0, 120_001), (rows, columns)), shape=(100_000, 2))
    A = ow.tensor(matrix, name="A").to(format).rename("A")
    C = ow.empty(matrix.shape, format=ow.CSR, name="C")
    made = ow.parse("C(i,j) = 2 * A(i,j)", C=C, A=A).compile(target="cuda-emulated")()
    expected = 2 * matrix
    assert made.nnz == expected.nnz
    for got, want in (
        (made.storage.levels[1]["pos"], expected.indptr),
        (made.storage.levels[1]["crd"], expected.indices),
        (made.storage.values, expected.data),
    ):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("reduction", ["segment", "parallel"])
def test_groups_add_to_the_workspace_of_their_block(reduction: str) -> None:
    """Each block has its own, in global memory, since it is not known how long it is."""
    numbers = np.random.default_rng(6)
    b = numbers.integers(0, 4, (6, 4)).astype(float)
    c = np.array([2.0, 2.0, 5.0, 2.0, 3.0])
    C = ow.tensor((np.array([[2, 4]]), c[[2, 4]]), shape=(5,), format=ow.CSF(1), fill=2.0, name="C")
    B = ow.tensor(b, format=ow.Format([ow.Compressed, ow.Bitmap]), name="B")
    stmt = ow.parse("Y(i,k) = C(i) - B(l,k) * C(i)", Y=ow.empty((5, 4), name="Y"), C=C, B=B)
    stmt = stmt.split("i", "block", "one", 1).parallelize("block", "GPUBlock", "NoRaces")
    stmt = stmt.parallelize("l", "GPUGroup", group_size=4, reduction=reduction)
    kernel = stmt.compile(target="cuda-emulated")
    assert "_vals[(blockIdx.y * gridDim.x + blockIdx.x) *" in kernel.source
    for kernel._launcher.device.order in range(ORDERS):
        expected = c[:, None] - np.outer(c, b.sum(axis=0))
        np.testing.assert_array_equal(kernel().to_numpy(), expected)


@pytest.mark.parametrize("inner", ["GPUThread,Atomics", "GPUGroup,group_size=2,reduction=parallel"])
def test_threads_in_a_run_that_is_written_out_add_to_the_copy_of_their_block(inner: str) -> None:
    """Which of them it is was taken for a place of its own; a GPU then lost what others added."""
    A = ow.tensor(np.arange(12.0).reshape(6, 2), name="A")
    stmt = ow.parse("y(i) = A(j,i)", y=ow.empty((2,), name="y"), A=A)
    stmt = stmt.schedule(
        f"split(j,j0,j1,3), unroll(j1), parallelize(j0,GPUBlock,Temporary), parallelize(j1,{inner})"
    )
    kernel = stmt.compile(target="cuda-emulated")
    assert not unguarded_updates(kernel._launcher.compiled.program)
    assert "atomicAdd" in kernel.source
    np.testing.assert_array_equal(kernel().to_numpy(), A.to_numpy().sum(axis=0))
