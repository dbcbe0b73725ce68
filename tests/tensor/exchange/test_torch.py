"""Tensors of torch in main memory: what they become here, and what ours become there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openwork as ow
from openwork.errors import FormatError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta")
VALUES = np.random.default_rng(0).random((6, 4))
VALUES[VALUES < 0.5] = 0
FORMATS: dict[str, tuple[ow.Format, str]] = {
    "dense": (ow.dense(2), "strided"),
    "columns": (ow.dense(2, order=(1, 0)), "strided"),
    "CSR": (ow.CSR, "sparse_csr"),
    "CSC": (ow.CSC, "sparse_csc"),
    "BSR": (ow.BSR(2, 2), "sparse_bsr"),
    "overhanging blocks": (ow.BSR(4, 4), "sparse_coo"),
    "COO": (ow.COO(2), "sparse_coo"),
    "DCSC": (ow.DCSC, "sparse_coo"),
    "ELL": (ow.ELL, "sparse_coo"),
    "DIA": (ow.DIA, "sparse_coo"),
    "CSB": (ow.CSB(2, 2), "sparse_coo"),
}


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "int64", "complex64", "bool"])
@pytest.mark.parametrize("name", FORMATS)
def test_there_and_back(name: str, dtype: str) -> None:
    format, layout = FORMATS[name]
    array = VALUES.astype(dtype)
    there = ow.tensor(array).to(format).to_torch()
    assert str(there.layout) == f"torch.{layout}"
    dense = there if layout == "strided" else there.to_dense()
    np.testing.assert_array_equal(np.asarray(dense), array)
    back = ow.tensor(there)
    np.testing.assert_array_equal(back.to_numpy(), array)
    assert back.dtype == array.dtype
    if layout != "sparse_coo":
        assert back.format == format


def test_memory_is_shared() -> None:
    x = torch.zeros(4, dtype=torch.float64)
    mine = ow.tensor(x)
    x += 3
    assert mine.to_numpy().tolist() == [3, 3, 3, 3]
    for again in (mine.to_torch(), torch.from_dlpack(mine)):
        assert again.data_ptr() == x.data_ptr()
    assert np.from_dlpack(mine).ctypes.data == x.data_ptr()
    sparse = ow.tensor(VALUES, format="CSR")
    before = sparse.to_numpy()
    sparse.to_torch().values()[0] = 7  # the caller's own
    np.testing.assert_array_equal(sparse.to_numpy(), before)
    sparse.to_torch(share=True).values()[0] = 7
    assert sparse.storage.values[0] == 7
    theirs = torch.as_tensor(VALUES).to_sparse_csr()
    taken = ow.tensor(theirs)
    assert taken.storage.values.ctypes.data == theirs.values().data_ptr()
    expected = taken.to_numpy()
    theirs.col_indices()[...] = 10**9
    np.testing.assert_array_equal(taken.to_numpy(), expected)


def test_tensors_of_any_order_are_coordinates() -> None:
    coords = np.array([[1, 0], [2, 1], [0, 2]])
    mine = ow.tensor((coords, np.array([4.0, 5.0])), shape=(3, 3, 3))
    there = mine.to_torch()
    assert there.is_coalesced() and there.indices().tolist() == [[0, 1], [1, 2], [2, 0]]
    np.testing.assert_array_equal(ow.tensor(there).to_numpy(), mine.to_numpy())


def test_operands_and_results() -> None:
    A, x = torch.as_tensor(VALUES), torch.arange(4.0, dtype=torch.float64)
    expected = VALUES @ x.numpy()
    for matrix in (A, A.to_sparse(), A.to_sparse_csr(), A.to_sparse_csc()):
        got = ow.einsum("ij,j->i", matrix, x).to_torch()
        np.testing.assert_allclose(got.numpy(), expected)
    kernel = ow.parse(
        "y(i) = A(i,j) * x(j)",
        y=ow.empty((6,)),
        A=ow.tensor(A, format="CSR"),
        x=ow.placeholder("x", order=1),
    ).compile()
    out = torch.zeros(6, dtype=torch.float64)
    kernel(x=x, out=ow.tensor(out))
    np.testing.assert_allclose(out.numpy(), expected)
    with pytest.raises(ow.ShapeError, match=r"out is a torch\.Tensor"):
        kernel(x=x, out=out)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: torch.rand(3, requires_grad=True), "requires a gradient"),
        (lambda: torch.rand(2, 2, 2).to_sparse_csr(), "a batch"),
        (lambda: torch.rand(3, 2).to_sparse(1), "modes of their own"),
        (lambda: torch.rand(4, 4).to_sparse_bsc((2, 2)), "sparse_bsc"),
        (lambda: torch.rand(3).bfloat16(), "BFloat16"),
        (lambda: torch.rand(3).half(), "float16"),
    ],
)
def test_what_has_no_place_here(made: Any, words: str) -> None:
    with pytest.raises(FormatError, match=words) as caught:
        ow.tensor(made())
    assert caught.value.code in ("E402", "E405") and caught.value.hint


def test_conjugates_are_read_as_what_they_mean() -> None:
    x = torch.tensor([1 + 2j]).conj()
    assert ow.tensor(x).to_numpy().tolist() == [1 - 2j]


def test_what_has_no_place_there() -> None:
    above = ow.tensor(np.ones((2, 2)), format="CSR", fill=1.0)
    with pytest.raises(FormatError, match=r"absent entries of .* are 1\.0"):
        above.to_torch()
    assert not hasattr(ow.placeholder("P", order=2), "__dlpack__")
    sparse = ow.tensor(VALUES, format="CSR")
    assert not hasattr(sparse, "__dlpack__") and not hasattr(sparse, "__cuda_array_interface__")
