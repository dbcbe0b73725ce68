"""Transposes that repeated products keep, under the emulator."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import openwork as ow
from openwork.recipes.devices.tables import H200
from openwork.runtime.gpu.emulator import Emulator
from openwork.tensor.convert.turned import CHUNK, Turned
from openwork.tensor.kernel.gpu import GpuTarget

KEPT = importlib.import_module("openwork.tensor.transposes").KEPT
RNG = np.random.default_rng(8)
USES = 3  # the third makes the transpose


@pytest.fixture(autouse=True)
def small_matrices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    few = replace(H200, load=replace(H200.load, transposed=10))
    monkeypatch.setattr(GpuTarget, "table", few)
    KEPT.clear()
    yield
    KEPT.clear()


def matrix(dtype: str = "float64", shape: tuple[int, int] = (90, 70)) -> Any:
    S = sp.random_array(shape, density=0.2, format="csr", rng=RNG)
    S.data[:] = RNG.integers(1, 9, S.nnz)
    return S.astype(dtype)


def product(S: Any, columns: int = 0, **how: Any) -> tuple[Any, Any, Any]:
    """A kernel for the transposed product, its matrix, and the dense operand."""
    dtype = S.dtype.name
    extra = (columns,) if columns else ()
    x = RNG.integers(1, 9, (S.shape[0], *extra)).astype(dtype)
    y = ow.empty((S.shape[1], *extra), dtype=dtype, name="y")
    A = ow.tensor(S, name="A")
    text = "y(j,k) = A(i,j) * x(i,k)" if columns else "y(j) = A(i,j) * x(i)"
    stmt = ow.parse(text, y=y, A=A, x=ow.tensor(x, name="x"))
    return stmt.compile("cuda-emulated", **how), A, x


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int8", "int64"])
@pytest.mark.parametrize("columns", [0, 8])
def test_results_stay_the_same(dtype: str, columns: int) -> None:
    S = matrix(dtype)
    kernel, _, x = product(S, columns)
    for n in range(USES + 2):
        np.testing.assert_array_equal(kernel().to_numpy(), S.T @ x)
        assert (KEPT.nbytes > 0) == (n + 1 >= USES)
    said = kernel.explain()
    assert "from its third use on, a transpose of A is kept" in said
    assert "A: transposed and kept" in said
    assert "Atomics" not in kernel.source.split("such that")[0]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int8"])
def test_values_that_change_in_place_are_seen(dtype: str) -> None:
    S = matrix(dtype, (90, 400))
    kernel, A, x = product(S)
    for _ in range(USES):
        kernel()
    values = A.storage.values
    assert values.size > CHUNK  # so that there is more than one
    for at in (0, 5, CHUNK - 1, CHUNK, values.size - 1):
        values[at] = S.data[at] = 7 + at % 2
        np.testing.assert_array_equal(kernel().to_numpy(), S.T @ x)
    swapped = values[[3, 4]]
    values[[4, 3]] = S.data[[4, 3]] = swapped
    values[20:900] *= 2
    S.data[20:900] *= 2
    np.testing.assert_array_equal(kernel().to_numpy(), S.T @ x)


def test_the_sign_of_zero_and_nan_are_seen() -> None:
    S = matrix()
    A = ow.tensor(S, name="A")
    made = Turned.of(A.storage, Emulator())
    values = A.storage.values
    for new in (0.0, -0.0, np.nan, np.inf):
        values[3] = new
        made.refresh(values)
        moved = sp.csr_array((values, S.indices, S.indptr), S.shape).tocsc().data
        assert moved.tobytes() == made.storage.values.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_changes_that_could_cancel_are_seen(dtype: str) -> None:
    """Values that change places, signs in pairs, halves of a word, all values at once."""
    S = matrix(dtype)
    A = ow.tensor(S, name="A")
    made, values = Turned.of(A.storage, Emulator()), A.storage.values
    words = values.view("uint32")
    made.refresh(values)

    def two() -> Any:
        return RNG.choice(values.size, 2, replace=False)

    for n in range(60):
        pair = two()
        if n % 5 == 0:
            values[pair] = values[pair[::-1]]
        elif n % 5 == 1:
            values[pair] *= -1
        elif n % 5 == 2:
            words[pair] ^= np.uint32(1 << (n % 32))
        elif n % 5 == 3:
            words[[2 * pair[0] % words.size, (2 * pair[0] + 1) % words.size]] ^= np.uint32(1 << 31)
        else:
            values *= 2 if n % 2 else 0.5
        made.refresh(values)
        moved = sp.csr_array((values, S.indices, S.indptr), S.shape).tocsc().data
        assert moved.tobytes() == made.storage.values.tobytes(), n


def test_a_matrix_stored_by_columns() -> None:
    S = matrix()
    A = ow.tensor(sp.csc_array(S), name="A")
    x = RNG.random(70)
    y = ow.empty((90,), name="y")
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=ow.tensor(x, name="x"))
    kernel = stmt.compile("cuda-emulated")
    for _ in range(USES + 1):
        np.testing.assert_allclose(kernel().to_numpy(), S @ x)
    assert KEPT.nbytes > 0


def test_other_operands_and_out() -> None:
    S = matrix()
    kernel, _A, x = product(S)
    T = matrix()
    other = ow.tensor(T, name="A")
    out = ow.empty((70,), name="y")
    for _ in range(USES + 1):
        np.testing.assert_array_equal(kernel().to_numpy(), S.T @ x)
        kernel(A=other, out=out)
        np.testing.assert_array_equal(out.to_numpy(), T.T @ x)
    half = x / 2
    np.testing.assert_array_equal(kernel(x=ow.tensor(half)).to_numpy(), S.T @ half)


def test_it_goes_with_the_matrix() -> None:
    kernel, A, _ = product(matrix())
    for _ in range(USES):
        kernel()
    assert KEPT.nbytes > 0
    del kernel, A
    gc.collect()
    assert KEPT.nbytes == 0


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = product(matrix()), product(matrix())
    for _ in range(USES):
        first[0]()
    one = KEPT.nbytes
    monkeypatch.setattr(Emulator, "free", 12 * one)  # an eighth: of about one and a half
    for _ in range(USES):
        second[0]()
    assert KEPT.nbytes < 1.2 * one  # the older one went
    for kernel, A, x in (first, second):
        for _ in range(6):
            np.testing.assert_array_equal(kernel().to_numpy(), A.to_scipy().T @ x)
    monkeypatch.setattr(Emulator, "free", 0)
    KEPT.clear()
    third, A, x = product(matrix())
    for _ in range(USES + 2):
        np.testing.assert_array_equal(third().to_numpy(), A.to_scipy().T @ x)
    assert KEPT.nbytes == 0


def test_schedules_and_deterministic_kernels_have_none() -> None:
    S = matrix()
    kernel, _, _ = product(S, deterministic=True)
    x, y = ow.tensor(np.ones(90), name="x"), ow.empty((70,), name="y")
    stmt = ow.parse("y(j) = A(i,j) * x(i)", y=y, A=ow.tensor(S, name="A"), x=x)
    scheduled = ow.recipes.position_strided(stmt).compile("cuda-emulated")
    for each in (kernel, scheduled):
        for _ in range(USES + 1):
            each()
        assert "transpose" not in each.explain()
    assert KEPT.nbytes == 0


def test_a_permuted_view_is_made_once() -> None:
    A = ow.tensor(matrix(), name="A")
    assert A.T.storage is A.T.storage
    assert A.T.storage.values is A.storage.values


def test_absent_entries_stay_the_zero_of_a_semiring() -> None:
    """The transpose once stood for a matrix whose absent entries are 0, and 0 + x was a minimum."""
    S = matrix()
    A, x = ow.tensor(S, name="A"), ow.tensor(RNG.random(S.shape[0]), name="x")
    y = ow.empty(S.shape[1], name="y")
    stmt = ow.parse("y(j) = A(i,j) * x(i)", y=y, A=A, x=x, semiring="min_plus")
    kernel, terms = stmt.compile("cuda-emulated"), S.toarray() + x.to_numpy()[:, None]
    want = np.where(S.toarray() != 0, terms, np.inf).min(axis=0)
    for _ in range(USES):
        np.testing.assert_array_equal(kernel().to_numpy(), want)
    assert KEPT.nbytes > 0
