"""What is known about the size of a result before it is computed, and workspaces chosen by it."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import openwork as ow
from openwork.index.checks import extents
from openwork.index.einstein import explicit
from openwork.runtime import memory
from openwork.runtime.host import interrupt, threads
from openwork.runtime.reference import evaluate, to_masked
from openwork.tensor.kernel import cpu, result_size as bounds_of
from openwork.tensor.kernel.result_size import entries

i, j, k = ow.indices("i j k")


def matrix(name: str, m: int, n: int, count: int, seed: int = 0) -> ow.Tensor:
    """A matrix with about `count` entries."""
    rng = np.random.default_rng(seed)
    where = rng.integers(0, m, count), rng.integers(0, n, count)
    return ow.tensor(sp.coo_array((rng.random(count), where), (m, n)).tocsr(), name=name)


def bounds(stmt: ow.Statement) -> tuple[int, int]:
    """The least and the most entries that the result of `stmt` can have."""
    kernel = stmt.compile()
    held = {t.name: t.storage for t in kernel._templates.values()}
    extents = kernel._launcher.binder.extents(tuple(held.values()), kernel._result.shape)
    found = entries(kernel._plan.assignment, held, extents)
    return found.least, found.most


def test_bounds_hold_the_number_of_entries() -> None:
    A, B = matrix("A", 40, 30, 90), matrix("B", 30, 50, 80, 1)
    C = matrix("C", 40, 30, 50, 2)
    new = ow.empty((40, 30), format=ow.CSR, name="R")
    product = ow.empty((40, 50), format=ow.CSR, name="R")
    for stmt in (
        ow.assign(new[i, j], A[i, j] + C[i, j]),
        ow.assign(new[i, j], A[i, j] * C[i, j]),
        ow.assign(new[i, j], A[i, j] - 2 * C[i, j]),
        ow.assign(product[i, k], A[i, j] * B[j, k]),
        ow.assign(product[i, k], A[i, j] * B[j, k] * 3),
    ):
        least, most = bounds(stmt)
        assert least <= stmt.compile()().nnz <= most
    assert bounds(ow.assign(new[i, j], A[i, j] + C[i, j])) == (A.nnz, A.nnz + C.nnz)
    flops = int(np.diff(B.to_scipy().indptr)[A.to_scipy().indices].sum())
    assert bounds(ow.assign(product[i, k], A[i, j] * B[j, k])) == (-(-flops // 30), flops)


@pytest.mark.needs_cc
def test_what_cannot_be_held_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    A, B = matrix("A", 40, 30, 90), matrix("B", 40, 30, 80, 1)
    C = ow.empty((40, 30), format=ow.CSR, name="C")
    kernel = ow.assign(C[i, j], A[i, j] + B[i, j]).compile()
    monkeypatch.setattr(memory, "LARGE", 0)
    monkeypatch.setattr(memory, "available", lambda enough: 500)
    with pytest.raises(MemoryError, match=r"C, with \d+ entries, needs"):
        kernel()


@pytest.mark.needs_cc
def test_products_that_cannot_be_held_are_refused_at_once() -> None:
    rows, many = np.ones((1, 1 << 20)), 1 << 20
    P, Q = (ow.tensor(sp.csr_array(each), name=n) for n, each in (("P", rows.T), ("Q", rows)))
    C = ow.empty((many, many), format=ow.CSR, name="C")
    with pytest.raises(MemoryError, match=r"with 1,099,511,627,776 entries, needs"):
        ow.assign(C[i, k], P[i, j] * Q[j, k]).compile()()
    u, v = (ow.tensor(rows[0], format="Compressed", name=name) for name in "uv")
    with pytest.raises(MemoryError, match=r"with 1,099,511,627,776 entries, needs"):
        ow.assign(C[i, k], u[i] * v[k]).compile()()
    twice = ow.Format([ow.Compressed(unique=False)])  # several entries may be one
    assert bounds(ow.assign(C[i, k], ow.tensor(rows[0], format=twice, name="u")[i] * v[k]))[0] == 0


@pytest.mark.needs_cc
def test_what_was_counted_is_refused_before_it_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    A, B = matrix("A", 40, 30, 90), matrix("B", 30, 40, 80, 1)
    C = ow.empty((40, 40), format=ow.CSR, name="C")
    kernel = ow.assign(C[i, k], A[i, j] * B[j, k]).assemble("count").compile()
    count = kernel().nnz
    monkeypatch.setattr(bounds_of, "available", lambda: 12 * count - 1)
    with pytest.raises(MemoryError):
        kernel()
    monkeypatch.setattr(bounds_of, "available", lambda: 12 * count)
    assert kernel().nnz == count


@pytest.mark.needs_cc
@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_outgrows_memory_is_stopped(monkeypatch: pytest.MonkeyPatch, elsewhere: bool) -> None:
    A = matrix("A", 20_000, 20_000, 1_000_000)
    C = ow.empty((20_000, 20_000), format=ow.CSR, name="C")
    kernel = ow.assign(C[i, k], A[i, j] * A[j, k]).compile()
    with ThreadPoolExecutor(1) as pool, monkeypatch.context() as patch:
        patch.setattr(bounds_of, "available", lambda: 1 << 28)  # enough to begin with
        patch.setattr(interrupt, "memory_left", lambda: 1 << 20)
        run = pool.submit(kernel) if elsewhere else kernel
        start = time.monotonic()
        with pytest.raises(MemoryError, match="does not fit into memory"):
            run.result() if isinstance(run, Future) else run()
        assert time.monotonic() - start < 0.5
    few = ow.tensor(sp.eye_array(20_000, format="csr"), name="A")
    assert kernel(A=few).nnz == 20_000  # it is as good as new


@pytest.mark.needs_cc
def test_the_pos_array_of_a_huge_mode_is_refused_at_once() -> None:
    A = ow.tensor(([[3], [1]], [1.0]), shape=(2**50, 8), format=ow.DCSR, name="A")
    B = ow.tensor(([[2], [1]], [1.0]), shape=(2**50, 8), format=ow.DCSR, name="B")
    C = ow.placeholder("C", 2, format=ow.CSR)
    with pytest.raises(MemoryError, match="C, with 1 entries, needs"):
        ow.assign(C[i, j], A[i, j] + B[i, j]).compile()()


@pytest.mark.needs_cc
@pytest.mark.parametrize("strategy", ["count", "append", "serial"])
def test_few_entries_in_a_huge_extent_are_hashed(strategy: str) -> None:
    n = 1 << 23
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, 50, 200), rng.integers(0, 60, 200)
    A = ow.tensor(sp.coo_array((rng.random(200), (rows, columns)), (50, 60)).tocsr(), name="A")
    far = rng.integers(0, n, 300)
    B = ow.tensor(
        ([rng.integers(0, 60, 300), far], rng.random(300)), shape=(60, n), format=ow.CSR, name="B"
    )
    C = ow.empty((50, n), format=ow.CSR, name="C")
    kernel = ow.assign(C[i, k], A[i, j] * B[j, k]).assemble(strategy).compile()
    assert "W_table" in kernel.source
    assert "W_marks" not in kernel.source
    made = kernel()
    expected = (A.to_scipy() @ B.to_scipy()).tocsr()
    expected.sort_indices()
    np.testing.assert_array_equal(made.to_scipy().indices, expected.indices)
    np.testing.assert_allclose(made.to_scipy().data, expected.data)
    np.testing.assert_allclose(kernel.symbolic()().to_scipy().data, expected.data)


def test_many_entries_are_marked() -> None:
    A, B = matrix("A", 40, 30, 90), matrix("B", 30, 50, 80, 1)
    C = ow.empty((40, 50), format=ow.CSR, name="C")
    assert "W_marks" in ow.assign(C[i, k], A[i, j] * B[j, k]).compile().source


@pytest.mark.needs_cc
def test_results_that_share_index_arrays_are_not_written_to() -> None:
    """No operation on a result changes the operand that it shares a pattern with."""
    A = matrix("A", 40, 30, 90)
    before = A.to_numpy().copy()
    C = ow.empty((40, 30), format=ow.CSR, name="C")
    made = ow.assign(C[i, j], A[i, j] * 2).compile()()
    assert made.storage.levels[1]["crd"] is A.storage.levels[1]["crd"]
    held = {name: array.copy() for name, array in A.storage.levels[1].items()}
    for change in (
        lambda: made.to(ow.CSC),
        lambda: made.to_scipy().sort_indices(),
        lambda: made + made,
        lambda: made.T,
        lambda: ow.assign(C[i, j], A[i, j] + A[i, j]).compile()(out=made),
    ):
        change()
        for name, array in held.items():
            np.testing.assert_array_equal(A.storage.levels[1][name], array)
    np.testing.assert_array_equal(A.to_numpy(), before)


def test_plans_of_sums_compute_all_again_and_share_the_pattern() -> None:
    i, j = ow.indices("i j")
    A = ow.tensor(np.eye(4), format=ow.CSR, name="A")
    B = ow.tensor(np.tri(4), format=ow.CSR, name="B")
    C = ow.empty((4, 4), format=ow.CSR, name="C")
    plan = ow.assign(C[i, j], A[i, j] + B[i, j]).compile().symbolic()
    one, other = plan(), plan(A=2 * A)
    np.testing.assert_array_equal(other.to_numpy(), 2 * np.eye(4) + np.tri(4))
    assert one.storage.levels[1]["crd"] is other.storage.levels[1]["crd"]
    plan(A=3 * A, out=C)
    np.testing.assert_array_equal(C.to_numpy(), 3 * np.eye(4) + np.tri(4))
    with pytest.raises(ow.DataError, match="another pattern"):
        plan(A=B.rename("A"))


@pytest.mark.needs_cc
@pytest.mark.parametrize("fill", [0.0, -np.inf])
def test_a_full_result_is_known_to_be_full(fill: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something is left where the sparse operand is absent: every coordinate has an entry."""
    A = ow.tensor(([[3], [5]], [1.0]), shape=(400, 300), format=ow.CSR, fill=fill, name="A")
    x = ow.tensor(np.arange(1.0, 301.0), name="x")
    R = ow.empty((400, 300), format=ow.CSR, fill=fill, name="R")
    full = ow.assign(R[i, j], ow.maximum(A[i, j], x[j])).compile()
    assert "R: full, because absent operands do not make it absent: 120,000 en" in full.explain()
    np.testing.assert_array_equal(full().to_numpy(), np.maximum(A.to_numpy(), x.to_numpy()))
    assert full().nnz == 120_000
    other = ow.assign(R[i, j], A[i, j] * 2.0).compile()
    assert ": full" not in other.explain()
    with monkeypatch.context() as patch:
        patch.setattr(memory, "LARGE", 0)
        patch.setattr(memory, "memory_left", lambda: 1 << 19)
        started = time.monotonic()
        with pytest.raises(MemoryError, match=r"R'?\w*, with 120,000 entries, needs"):
            ow.assign(R[i, j], ow.maximum(A[i, j], x[j])).compile()()
        assert other().nnz == 1
        assert time.monotonic() - started < 60


def test_what_is_full() -> None:
    A = ow.tensor(([[3], [5]], [1.0]), shape=(40, 30), format=ow.CSR, name="A")
    B = ow.tensor(([[3], [5]], [1.0]), shape=(40, 30), format=ow.CSR, name="B")
    x = ow.tensor(np.ones(30), name="x")
    R = ow.empty((40, 30), format=ow.CSR, name="R")

    def full(expr: Any) -> bool:
        return bounds_of.is_full(ow.assign(R[i, j], expr)._assignment)

    assert full(A[i, j] + x[j]) and full(ow.cos(A[i, j])) and full(A[i, j] - x[j] * 2.0)
    assert not any(map(full, (A[i, j] * x[j], A[i, j] + B[i, j], A[i, j] * (B[i, j] + x[j]))))


@pytest.mark.needs_cc
def test_copies_of_a_dense_result_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread has a copy of the result, which nobody could have foreseen to fit."""
    A = matrix("A", 3000, 2_000_000, 100_000)
    y = ow.empty((2_000_000,), name="y")
    stmt = ow.assign(y[j], A[i, j]).parallelize(i, "CPUThread", "Temporary")
    monkeypatch.setattr(threads, "_chosen", 2)
    plenty, short = stmt.compile(), stmt.compile()
    expected = plenty().to_numpy()
    assert plenty._launcher.latest is not None and not plenty._launcher.latest.tight
    monkeypatch.setattr(cpu, "available", lambda: 1 << 26)
    np.testing.assert_allclose(short().to_numpy(), expected)
    assert short._launcher.latest is not None and short._launcher.latest.tight


@pytest.mark.needs_cc
@pytest.mark.parametrize(
    ("text", "format", "target"),
    [
        ("C(i,k) = B(i,k) + A(i,j) * A(j,k)", "CSR", "cpu"),
        ("C(i,k) = B(i,k) + A(i,j) * A(j,k)", "CSR", "cuda-emulated"),
        ("C(i,k) = A(i,j) * A(j,k) - B(i,j) * A(j,k) + B(i,k)", "DCSR", "cpu"),
        ("C(i,k) = B(i,k) + A(i,j) * D(j,k)", "DCSR", "cpu"),
        ("C(i,j,l) = U(i,j,l) + T(i,j,k) * A(k,l)", "CSF(3)", "cpu"),
    ],
)
def test_a_sum_with_a_product_has_the_union_of_their_patterns(
    text: str, format: str, target: str
) -> None:
    rng = np.random.default_rng(3)

    def thin(*shape: int) -> ow.Tensor:
        coords = np.nonzero(rng.random(shape) < 0.08)
        coords = [modes[coords[0] != 3] for modes in coords]  # a row is empty
        values = rng.integers(1, 9, len(coords[0])).astype(float)
        layout = ow.CSR if len(shape) == 2 else ow.CSF(3)
        return ow.tensor((coords, values), shape=shape, format=layout)

    tensors = {"A": thin(12, 12), "B": thin(12, 12), "T": thin(5, 6, 12), "U": thin(5, 6, 12)}
    tensors["D"] = ow.tensor(rng.integers(1, 9, (12, 12)).astype(float))
    tensors = {name: tensor for name, tensor in tensors.items() if f"{name}(" in text}
    stmt = ow.parse(text, format=format, **tensors)
    made = to_masked(stmt.compile(target=target)().storage)
    operands = {name: to_masked(tensor.storage) for name, tensor in tensors.items()}
    sizes = {var: n for var, n in extents(stmt.assignment).items() if n is not None}
    expected = evaluate(explicit(stmt.assignment), operands, sizes)
    np.testing.assert_array_equal(made.values, expected.values)
    np.testing.assert_array_equal(made.present, expected.present)
