"""Real matrices and tensors, against SciPy and NumPy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import openwork as ow
from openwork.tensor.exchange.validate import validate

pytestmark = [pytest.mark.needs_cc, pytest.mark.needs_data, pytest.mark.optimized]

Find = Callable[[str], Path]
SMALL = ("karate", "494_bus", "plsk1919")
SQUARE = (*SMALL, "qc324", "cora", "citeseer", "mhd1280b", "p2p-Gnutella31")
OBLONG = ("beacxc", "Franz6_id1959_aug")


@pytest.fixture
def matrix(request: pytest.FixtureRequest, data_file: Find) -> ow.Tensor:
    return ow.read(data_file(f"{request.param}.mtx.gz"), name="A")


def each(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("matrix", names, indirect=True)


def agrees(result: ow.Tensor, expected: Any) -> None:
    """`result` is in order, and close to SciPy's answer."""
    validate(result.storage, "the result")
    difference = abs(result.to_scipy() - expected).max()
    scale = max(abs(expected).max(), 1)
    assert difference <= 1e-12 * scale


@each(*SQUARE, *OBLONG)
def test_spmv(matrix: ow.Tensor) -> None:
    A = matrix.to_scipy()
    x = np.random.default_rng(0).random(A.shape[1])
    expected = A @ x
    scale = abs(A) @ x + 1
    for format in (ow.CSR, ow.CSC, ow.DCSR):
        error = abs((matrix.to(format) @ x).to_numpy() - expected)
        assert (error <= 1e-12 * scale).all()


@each(*SQUARE)
def test_a_plus_its_transpose(matrix: ow.Tensor) -> None:
    A = matrix.to_scipy()
    agrees(matrix + matrix.T, A + A.T)


@each(*SQUARE, *OBLONG)
def test_a_times_itself_by_element(matrix: ow.Tensor) -> None:
    A = matrix.to_scipy()
    agrees(matrix * matrix, A.multiply(A))


@each(*SQUARE)
def test_the_square(matrix: ow.Tensor) -> None:
    A = matrix.to_scipy()
    product = matrix @ matrix
    agrees(product, A @ A)
    assert product.nnz == (pattern(A) @ pattern(A)).nnz


@each(*OBLONG)
def test_the_product_with_the_transpose(matrix: ow.Tensor) -> None:
    A = matrix.to_scipy()
    product = matrix @ matrix.T.to(ow.CSR)
    agrees(product, A @ A.T)
    assert product.nnz == (pattern(A) @ pattern(A).T).nnz


def pattern(A: Any) -> Any:
    """Ones where `A` has entries."""
    return sparse.csr_array((np.ones(A.nnz), A.indices, A.indptr), shape=A.shape)


@each(*SMALL)
def test_a_file_is_written_as_it_was_read(matrix: ow.Tensor, tmp_path: Path) -> None:
    ow.write(tmp_path / "copy.mtx.gz", matrix)
    agrees(ow.read(tmp_path / "copy.mtx.gz"), matrix.to_scipy())


# --- Tensors -----------------------------------------------------------------------------------


@pytest.fixture
def tensor(data_file: Find) -> ow.Tensor:
    return ow.read(data_file("splatt_med.tns.gz"), name="X")


def test_mttkrp(tensor: ow.Tensor) -> None:
    rng = np.random.default_rng(0)
    B, C = (rng.random((extent, 8)) for extent in tensor.shape[1:])
    (i, k, l), values = tensor.to_coo()
    expected = np.zeros((tensor.shape[0], 8))
    np.add.at(expected, i, values[:, None] * B[k] * C[l])
    tensors = {"X": tensor, "B": ow.tensor(B), "C": ow.tensor(C), "Y": ow.empty(expected.shape)}
    kernel = ow.parse("Y(i,j) = X(i,k,l) * B(k,j) * C(l,j)", **tensors).compile()
    np.testing.assert_allclose(kernel().to_numpy(), expected, rtol=1e-10)


def test_ttv(tensor: ow.Tensor) -> None:
    v = np.random.default_rng(0).random(tensor.shape[2])
    (i, j, k), values = tensor.to_coo()
    shape = tensor.shape[:2]
    expected = sparse.coo_array((values * v[k], (i, j)), shape=shape).tocsr()
    tensors = {"X": tensor, "v": ow.tensor(v)}
    kernel = ow.parse("Y(i,j) = X(i,j,k) * v(k)", Y=ow.empty(shape, format=ow.DCSR), **tensors)
    result = kernel.compile()()
    agrees(result, expected)
    assert result.nnz == expected.nnz
    last = ow.parse("z(k) = X(i,j,k)", X=tensor, z=ow.empty(tensor.shape[2], format=ow.CSF(1)))
    sums = last.compile()()
    validate(sums.storage, "z")
    np.testing.assert_allclose(sums.to_numpy(), np.bincount(k, values, tensor.shape[2]))
