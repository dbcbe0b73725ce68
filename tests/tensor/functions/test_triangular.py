"""Triangular systems, beside NumPy's dense solver: both triangles, formats, types, threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import openwork as ow
from openwork.tensor.functions import triangular

RNG = np.random.default_rng(5)
N = 60
S = sparse.csr_array(sparse.random_array((N, N), density=0.1, rng=RNG) + 3 * sparse.eye_array(N))


@pytest.fixture
def in_levels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small systems are solved on several threads, too."""
    before = ow.thread_count()
    monkeypatch.setattr(triangular, "_FEW_A_LEVEL", 0)
    ow.set_num_threads(3)
    yield
    ow.set_num_threads(before)


def expected(matrix: Any, b: Any, lower: bool, unit: bool) -> Any:
    half = np.tril(matrix) if lower else np.triu(matrix)
    if unit:
        np.fill_diagonal(half, 1)
    return np.linalg.solve(half, b)


@pytest.mark.parametrize("format", ["CSR", "CSC", "COO(2)", "DCSR", "dense(2)"])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_every_format(format: str, lower: bool, unit: bool) -> None:
    A = ow.tensor(S).to(format)
    for b in (RNG.random(N), RNG.random((N, 5)), RNG.random((N, 5)).T.copy().T):
        x = ow.solve_triangular(A, b, lower=lower, unit_diagonal=unit)
        np.testing.assert_allclose(x.to_numpy(), expected(S.toarray(), b, lower, unit), rtol=1e-9)
        assert x.format.is_dense


@pytest.mark.usefixtures("in_levels")
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("columns", [None, 1, 3, 300])
def test_by_levels(lower: bool, columns: int | None) -> None:
    """Rows without their diagonal among them, where it is taken to be one."""
    b = RNG.random(N if columns is None else (N, columns))
    for matrix in (S, sparse.csr_array(sparse.tril(S, -2)), sparse.csr_array(S.T)):
        unit = matrix[0, 0] == 0
        A = ow.tensor(matrix)
        alone = expected(matrix.toarray(), b, lower, unit)
        for _ in range(2):  # the levels are found, then kept
            made = ow.solve_triangular(A, b, lower=lower, unit_diagonal=unit)
            np.testing.assert_allclose(made.to_numpy(), alone, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128", "int64"])
def test_types(dtype: str) -> None:
    matrix = (S * 4).toarray().astype(dtype)
    b = np.arange(N).astype("float32" if dtype == "float32" else "float64")
    x = ow.solve_triangular(ow.tensor(matrix, format="CSR"), b)
    wanted = np.result_type(matrix.dtype, b.dtype, np.float32)
    assert x.dtype == wanted
    np.testing.assert_allclose(x.to_numpy(), expected(matrix.astype(wanted), b, True, False), 1e-3)


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    A, b = ow.tensor(S), RNG.random(N)
    monkeypatch.setattr(triangular, "find_toolchain", lambda: None)
    for lower in (True, False):
        made = ow.solve_triangular(A, b, lower=lower).to_numpy()
        np.testing.assert_allclose(made, expected(S.toarray(), b, lower, False))


@pytest.mark.usefixtures("in_levels")
@pytest.mark.parametrize("format", ["CSR", "CSC", "COO(2)"])
def test_an_operand_is_not_changed_and_its_new_values_are_seen(format: str) -> None:
    A, b = ow.tensor(S.copy()).to(format), np.ones(N)
    first = ow.solve_triangular(A, b).to_numpy()
    A[...] = (A * 2).to_numpy()
    np.testing.assert_allclose(ow.solve_triangular(A, b).to_numpy(), first / 2)
    assert (b == 1).all()


@pytest.mark.parametrize(
    ("shape", "b", "code"), [((3, 4), np.ones(3), "E204"), ((3, 3), np.ones(4), "E204")]
)
def test_shapes_that_do_not_fit(shape: Any, b: Any, code: str) -> None:
    with pytest.raises(ow.ShapeError, match=code):
        ow.solve_triangular(ow.zeros(shape, format="CSR"), b)


@pytest.mark.parametrize("format", ["CSR", "dense(2)"])
def test_zeros_on_the_diagonal(format: str) -> None:
    A = ow.tensor(np.diag([1.0, 0.0, 2.0]), format=format)
    with pytest.raises(ow.DataError, match=r"E517: element \(1, 1\)"):
        ow.solve_triangular(A, np.ones(3))
    assert ow.solve_triangular(A, np.ones(3), unit_diagonal=True).to_numpy().tolist() == [1, 1, 1]
    assert ow.solve_triangular(ow.zeros((0, 0), format=format), np.ones(0)).shape == (0,)
