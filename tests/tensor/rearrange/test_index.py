"""Subscripts of tensors against NumPy's, in every format, with other fills, and in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import openwork as ow

RNG = np.random.default_rng(11)
FORMATS = {
    "dense": ow.dense(2), "columns": ow.dense(2, (1, 0)), "CSR": ow.CSR, "CSC": ow.CSC,
    "COO": ow.COO(2), "DCSR": ow.DCSR, "BSR": ow.BSR(2, 3), "ELL": ow.ELL, "DIA": ow.DIA,
    "LIL": ow.LIL, "SELL": ow.SELL(2), "bitmap": ow.bitmap, "banded": ow.banded,
}  # fmt: skip


def numbers(*shape: int) -> Any:
    return np.where(RNG.random(shape) < 0.5, RNG.integers(1, 9, shape), 0).astype(float)


A0, B0 = numbers(6, 7), numbers(3, 4, 5)


def agrees(found: ow.Tensor, expected: Any) -> None:
    assert isinstance(found, ow.Tensor)
    assert found.shape == np.shape(expected)
    assert found.dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(found.to_numpy(), expected)


SUBSCRIPTS = [
    np.s_[3, 5], np.s_[-1, -7], np.s_[2], np.s_[1:5, ::2], np.s_[::-1], np.s_[5:1:-2, 6::-3],
    np.s_[3:3], np.s_[..., -1], np.s_[None, 2], np.s_[2, :, None], np.s_[:, None, ...],
    np.s_[[3, 1, 1]], np.s_[[0, 2], [1, 3]], np.s_[[[0, 1], [2, 2]], 1:4],
    np.s_[[[0], [1]], [2, 3]],
    np.s_[-2, [1, 2]], np.s_[:, np.array([], int)], np.s_[[]], np.s_[A0[:, 0] > 0], np.s_[A0 > 3],
    np.s_[:, A0[0] > 0], np.s_[1:3, [5, 5, -1]],
]  # fmt: skip


@pytest.mark.parametrize("fill", [0.0, np.inf])
@pytest.mark.parametrize("format", FORMATS)
def test_matrices(format: str, fill: float) -> None:
    array = np.where(A0 == 0, fill, A0)
    A = ow.tensor(array, format=FORMATS[format], fill=fill)
    for subscript in SUBSCRIPTS:
        found = A[subscript]
        agrees(found, array[subscript])
        assert found.format.is_dense == A.format.is_dense or not found.order
        assert found.format.is_dense or found.fill == fill


def test_more_modes() -> None:
    for format in (ow.dense(3), ow.CSF(3), ow.COO(3)):
        B = ow.tensor(B0, format=format)
        for subscript in (
            np.s_[1], np.s_[1, 2, 3], np.s_[:, 2], np.s_[..., 1:4], np.s_[[0, 2], :, [1, 3]],
            np.s_[0, :, [1, 2]], np.s_[:, [0, 1], [1, 2]], np.s_[[2, 0], 1], np.s_[1, None, :, 2:],
            np.s_[:, [0, 1], ..., [1, 2]], np.s_[:, [1], ..., -1], np.s_[..., [0, 1], [1, 2]],
            np.s_[B0[:, :, 0] > 0], np.s_[:, B0[0] > 2], np.s_[[[0, 1]], [[2], [3]]],
        ):  # fmt: skip
            agrees(B[subscript], B0[subscript])


def test_random_subscripts() -> None:
    rng = np.random.default_rng(5)

    def part(extent: int) -> Any:
        ends = sorted(rng.integers(-extent - 1, extent + 2, 2).tolist())
        return [
            slice(*ends, int(rng.integers(1, 4))), slice(*ends[::-1], -int(rng.integers(1, 4))),
            int(rng.integers(-extent, extent)), rng.integers(-extent, extent, 3), slice(None),
            rng.integers(-extent, extent, (2, 1)),
        ][rng.integers(6)]  # fmt: skip

    tensors = [ow.tensor(B0, format=f) for f in (ow.dense(3), ow.CSF(3), ow.COO(3))]
    for _ in range(150):
        subscript = tuple(part(extent) for extent in B0.shape[: rng.integers(1, 4)])
        if rng.random() < 0.3:
            subscript = (*subscript[:1], None, *subscript[1:])
        for B in tensors:
            agrees(B[subscript], B0[subscript])


def test_masks_may_be_tensors_or_of_scipy() -> None:
    A = ow.tensor(A0, format=ow.CSR)
    for mask in (A > 3, ow.tensor(A0) > 3, sparse.csr_array(A0 > 3)):
        agrees(A[mask], A0[A0 > 3])


def test_elements_are_numbers() -> None:
    A = ow.tensor(np.arange(6).reshape(2, 3), format=ow.CSR)
    assert A[1, 2] == 5
    assert float(A[1, 2]) == 5.0
    assert [10, 20, 30, 40, 50, 60][A[1, 2]] == 60
    assert f"{A[1, 2]:.1f}" == "5.0"
    with pytest.raises(TypeError, match="not one integer"):
        _ = [1, 2][ow.tensor(1.0)]


def test_rows() -> None:
    A = ow.tensor(A0, format=ow.CSR)
    assert len(A) == 6
    rows = list(A)
    assert all(row.shape == (7,) for row in rows)
    for row, expected in zip(rows, A0, strict=True):
        agrees(row, expected)
    with pytest.raises(TypeError, match="no length"):
        len(A.sum())


def test_a_row_is_found_without_all_others() -> None:
    rows = 200_000
    A = ow.tensor(sparse.eye_array(rows, format="csr"), format=ow.CSR)
    row = A[rows - 3]
    assert row.nnz == 1
    assert row[rows - 3] == 1


@pytest.mark.parametrize("format", ["dense(2)", "CSR"])
def test_arrays_that_do_not_fit(format: str) -> None:
    A = ow.tensor(np.ones((1, 2)), name="A").to(format)
    with pytest.raises(ow.ShapeError, match="E204: arrays of integers do not fit"):
        A[np.array([False]), [-1, 0]]
    with pytest.raises(ow.ShapeError, match=r"E204: elements of shape \(3,\) do not fit \(1, 2\)"):
        A[:] = [1, 2, 3]
    A[0] = [[3, 4]]
    assert A.to_numpy().tolist() == [[3, 4]]


def test_elements_are_written_in_place() -> None:
    array = A0.copy()
    x = ow.tensor(array)
    x[1, 2], x[3] = 5, np.arange(7.0)
    x[:, ::2] = x[:, ::2] * 2
    expected = A0.copy()
    expected[1, 2], expected[3] = 5, np.arange(7.0)
    expected[:, ::2] *= 2
    np.testing.assert_array_equal(x.to_numpy(), expected)
    x[x > 3] = 0
    every = x.copy()
    every[()] = 7
    assert every.to_numpy().min() == 7
    np.testing.assert_array_equal(x.to_numpy(), np.where(expected > 3, 0, expected))


@pytest.mark.parametrize("format", [name for name in FORMATS if name not in ("dense", "columns")])
def test_stored_elements_of_sparse_tensors(format: str) -> None:
    A, expected = ow.tensor(A0, format=FORMATS[format]), A0.copy()
    row, column = np.argwhere(A0)[3]
    A[row, column] = expected[row, column] = 11
    A[2] = expected[2] = 0  # absent ones are zero already
    A[A0 > 5] = -1
    expected[A0 > 5] = -1
    np.testing.assert_array_equal(A.to_numpy(), expected)
    assert A.sum() == expected.sum()


@pytest.mark.parametrize("layout", ["AoS", "SoA", "AoSoA(4)"])
@pytest.mark.parametrize("format", [ow.dense(2), ow.CSR, ow.SELL(4)], ids=str)
def test_records_are_assigned(format: ow.Format, layout: str) -> None:
    Q = ow.entry.quaternion("float32")
    given = np.arange(140.0).reshape(5, 7, 4)
    A = ow.tensor(given, dtype=Q, format=format.with_layout(layout), name="A")
    A[1, 2] = np.array([9.0, 8, 7, 6])
    A[3] = A[3, 0]
    A[::2, 4], A[0, 0] = 1, 0
    given[1, 2], given[3], given[::2, 4], given[0, 0] = (9, 8, 7, 6), given[3, 0], (1, 0, 0, 0), 0
    np.testing.assert_array_equal(A.to_numpy(), given)
    with pytest.raises(ow.FormatError, match=r"E402.*\n.*component axes come last"):
        A[1, 2] = np.ones(3)


@pytest.mark.parametrize("layout", ["packed", "ternary"])
def test_values_with_coordinates_among_them_are_read_only(layout: str) -> None:
    """One that was taken for a value once led kernels out of bounds."""
    A = ow.tensor(np.eye(4), format=ow.CSR.with_layout(layout), name="A")
    for made in (A, A.copy(), A.astype("float32"), A.to(ow.ELL.with_layout(layout))):
        with pytest.raises(ow.FormatError, match="E406"):
            made[0, 0] = 5
        with pytest.raises(ValueError, match="read-only"):
            made.storage.values[0] = 1 << 20
        np.testing.assert_array_equal(made.to_numpy(), np.eye(4))


def test_absent_elements_have_no_place() -> None:
    A = ow.tensor(A0, format=ow.CSR, name="A")
    row, column = np.argwhere(A0 == 0)[0]
    with pytest.raises(ow.FormatError, match=r"(?s)E406: A has no place.*ow\.tensor") as caught:
        A[row, column] = 1
    assert "densify" not in str(caught.value)
    np.testing.assert_array_equal(A.to_numpy(), A0)


def test_what_is_no_subscript() -> None:
    A = ow.tensor(A0, format=ow.CSR, name="A")
    i, _ = ow.indices("i j")
    for wrong in ("a", 1.5, np.array([0.5]), True, np.False_, np.s_[::0], np.s_["a":]):
        with pytest.raises(ow.ParseError, match="E112: A is indexed with"):
            A[wrong]
    for outside in (6, -7, [0, 6], np.s_[0, 7], np.s_[0, 0, 0], np.s_[..., ...]):
        with pytest.raises(ow.ShapeError, match="E204"):
            A[outside]
    for mask in (np.ones(5, bool), np.ones((7, 6), bool)):
        with pytest.raises(ow.ShapeError, match="mask of shape"):
            A[mask]
    with pytest.raises(ow.ShapeError, match="do not fit"):
        A[[0, 1], [0, 1, 2]]
    with pytest.raises(ow.ParseError, match="index variables"):
        A[i, 0:2]


@pytest.mark.parametrize("format", ["CSR", "DCSR", "COO(2)", "dense(2)", "CSF(2)"])
def test_what_lies_beside_a_window_is_not_walked(format: str) -> None:
    S = np.where(np.random.default_rng(2).random((40, 30)) < 0.4, 1.0, 0)
    storage = ow.tensor(S).to(format).storage
    for low, high in [(10, 12), (0, 0), (39, 39), (0, 39), (5, 4)]:
        _, column, _ = storage.below(np.zeros(1, dtype=np.int64), 0, (low, high))
        assert ((low <= column) & (column <= high)).all()
        assert set(column) == set(np.unique(storage.below(np.zeros(1, np.int64), 0)[1])) & set(
            range(low, high + 1)
        )
