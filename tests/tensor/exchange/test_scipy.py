"""SciPy's block, diagonal and list matrices: kept as they are, checked, and given back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import openwork as ow

BLOCKS = np.kron([[1, 0, 2], [0, 0, 0], [0, 3, 0]], np.array([[1.0, 0.0], [2.0, 3.0]]))


def test_blocks_are_shared_if_asked_for() -> None:
    matrix = sparse.bsr_array(BLOCKS, blocksize=(2, 2))
    A = ow.tensor(matrix, name="A", share=True)
    assert A.format == ow.BSR(2, 2)
    assert A.nnz == matrix.nnz
    for mine, theirs in [
        (A.storage.values, matrix.data),
        (A.storage.levels[1]["pos"], matrix.indptr),
        (A.storage.levels[1]["crd"], matrix.indices),
    ]:
        assert np.shares_memory(mine, theirs)
    np.testing.assert_array_equal(A.to_numpy(), BLOCKS)
    back = A.to_scipy(share=True)
    assert isinstance(back, sparse.bsr_array)
    assert back.blocksize == (2, 2)
    assert np.shares_memory(back.data, matrix.data)
    np.testing.assert_array_equal(back.toarray(), BLOCKS)


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (3, 2), (6, 6)])
def test_blocks_of_every_shape(shape: tuple[int, int]) -> None:
    matrix = sparse.bsr_array(BLOCKS, blocksize=shape)
    A = ow.tensor(matrix)
    assert A.format == ow.BSR(*shape)
    np.testing.assert_array_equal(A.to_numpy(), BLOCKS)
    assert ow.tensor(matrix, format=ow.CSR).nnz == np.count_nonzero(BLOCKS)


def test_blocks_out_of_order_and_twice_leave_the_caller_alone() -> None:
    data = np.arange(12.0).reshape(3, 2, 2)
    crd, pos = np.array([1, 0, 1], dtype=np.int32), np.array([0, 3], dtype=np.int32)
    matrix = sparse.bsr_array((data.copy(), crd.copy(), pos), shape=(2, 4))
    A = ow.tensor(matrix)
    assert A.format == ow.BSR(2, 2)
    np.testing.assert_array_equal(A.to_numpy(), matrix.toarray())
    np.testing.assert_array_equal(matrix.indices, crd)
    np.testing.assert_array_equal(matrix.data, data)


def test_room_behind_the_blocks_is_left_out() -> None:
    matrix = sparse.bsr_array(BLOCKS, blocksize=(2, 2))
    matrix.data = np.concatenate([matrix.data, np.full((1, 2, 2), 9.0)])
    matrix.indices = np.append(matrix.indices, np.int32(0))
    np.testing.assert_array_equal(ow.tensor(matrix).to_numpy(), BLOCKS)


def test_blocks_that_do_not_divide_the_shape_become_triplets() -> None:
    A = ow.tensor(BLOCKS[:5, :5], format=ow.BSR(2, 2))
    assert isinstance(A.to_scipy(), sparse.coo_array)
    np.testing.assert_array_equal(A.to_scipy().toarray(), BLOCKS[:5, :5])


@pytest.mark.parametrize("shape", [(4, 4), (3, 6), (6, 3), (1, 4), (4, 1), (0, 3), (3, 0)])
def test_diagonals(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    offsets = np.array([2, -1, 0, 40, -40])
    data = rng.integers(1, 9, (len(offsets), 5)).astype("float32")
    matrix = sparse.dia_array((data, offsets), shape=shape)
    A = ow.tensor(matrix, name="A")
    assert (A.format, A.dtype) == (ow.DIA, np.float32)
    np.testing.assert_array_equal(A.to_numpy(), matrix.toarray())
    back = A.to_scipy()
    assert isinstance(back, sparse.dia_array)
    np.testing.assert_array_equal(back.toarray(), matrix.toarray())
    np.testing.assert_array_equal(ow.tensor(matrix, format="CSC").to_numpy(), matrix.toarray())


def test_diagonals_count_as_scipy_counts_them() -> None:
    matrix = sparse.dia_array((np.array([[1.0, 0, 3, 4], [1, 2, 3, 4]]), [0, 1]), shape=(4, 4))
    A = ow.tensor(matrix)
    assert A.nnz == matrix.nnz == 7
    assert A.storage.levels[1]["offset"].tolist() == [0, 1]


def test_lists() -> None:
    matrix = sparse.lil_array(BLOCKS)
    A = ow.tensor(matrix, name="A")
    assert (A.format, A.nnz) == (ow.LIL, matrix.nnz)
    assert A.storage.levels[1]["len"].tolist() == [len(row) for row in matrix.rows]
    np.testing.assert_array_equal(A.to_numpy(), BLOCKS)
    assert isinstance(A.to_scipy(), sparse.coo_array)
    matrix.rows[0], matrix.data[0] = [4, 0, 4], [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(ow.tensor(matrix).to_numpy()[0], [2, 0, 0, 0, 4, 0])
    empty = ow.tensor(sparse.lil_array((0, 3)))
    assert (empty.format, empty.shape, empty.nnz) == (ow.LIL, (0, 3), 0)


def test_triplets_become_sorted_coordinates_when_asked() -> None:
    matrix = sparse.coo_array(([1.0, 2.0, 4.0], ([2, 0, 2], [1, 3, 1])), shape=(3, 4))
    assert ow.tensor(matrix).format == ow.CSR
    A = ow.tensor(matrix, format=ow.COO(2))
    assert (A.format, A.nnz) == (ow.COO(2), 2)
    np.testing.assert_array_equal(A.to_numpy(), matrix.toarray())


@pytest.mark.needs_cc
@pytest.mark.parametrize("kind", ["bsr", "dia", "lil"])
def test_statements_take_them(kind: str) -> None:
    A = ow.tensor(getattr(sparse, f"{kind}_array")(BLOCKS), name="A")
    x = np.arange(6.0)
    np.testing.assert_allclose((A @ x).to_numpy(), BLOCKS @ x)
    np.testing.assert_allclose((A + A).to_numpy(), 2 * BLOCKS)


def changed(matrix: Any, **arrays: Any) -> Any:
    for name, array in arrays.items():
        setattr(matrix, name, array)
    return matrix


def blocks(**arrays: Any) -> Any:
    return changed(sparse.bsr_array(BLOCKS, blocksize=(2, 2)), **arrays)


def lists(row: int, columns: list[int], values: list[float]) -> Any:
    matrix = sparse.lil_array(BLOCKS)
    matrix.rows[row], matrix.data[row] = columns, values
    return matrix


def diagonals(offsets: Any) -> Any:
    return changed(sparse.dia_array((np.ones((2, 3)), [0, 1]), shape=(3, 3)), offsets=offsets)


MALFORMED: list[tuple[Any, str, str]] = [
    (blocks(indices=np.array([0, 50, 1])), "E503", "A.indices[1] is 50"),
    (blocks(indices=np.array([0, -1, 1])), "E503", "A.indices[1] is -1"),
    (blocks(indptr=np.array([0, 3, 2, 3])), "E502", "A.indptr[2] is 2"),
    (blocks(indptr=np.array([0, 2, 3])), "E501", "A.indptr has 3 entries"),
    (blocks(indptr=np.array([0, 2, 2, 9])), "E502", "A.indptr[3] is 9"),
    (blocks(data=np.ones((2, 2, 2))), "E505", "A.data has 8 elements"),
    (lists(0, [0, 6], [1.0, 2.0]), "E503", "A.rows[1] is 6"),
    (lists(0, [0, -1], [1.0, 2.0]), "E503", "A.rows[1] is -1"),
    (lists(1, [0, 1], [1.0]), "E501", "A.rows[1] and A.data[1] differ in length"),
    (diagonals(np.array([1, 1])), "E504", "A.offsets has 1 more than once"),
    (diagonals(np.array([0, 1, 2])), "E505", "A.data has 2 diagonals"),
    (diagonals(np.array([0.5, 1])), "E501", "A.offsets"),
]


@pytest.mark.parametrize("case", MALFORMED, ids=lambda case: case[2])
def test_malformed_matrices(case: tuple[Any, str, str]) -> None:
    matrix, code, piece = case
    with pytest.raises(ow.DataError) as caught:
        ow.tensor(matrix, name="A")
    assert caught.value.code == code
    assert piece in str(caught.value)
