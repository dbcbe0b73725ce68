"""Faults that random schedules for a GPU have found, each as a case of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.random.unguarded import unguarded_updates

import openwork as ow
from openwork.runtime.gpu.emulator import ORDERS, Emulator

pytestmark = pytest.mark.needs_cc
rng = np.random.default_rng(3)


def agrees(stmt: Any, expected: Any) -> None:
    kernel = stmt.compile("cuda-emulated")
    for order in range(3):
        kernel._launcher.device.order = order
        np.testing.assert_allclose(kernel().to_numpy(), expected, rtol=1e-13)


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
    assert "_vals_begin = blockIdx.x *" in kernel.source
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
