"""Malformed arrays from outside: each is refused with the array, the index and the value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from openwork.errors import DataError, FormatError, OpenworkError, ShapeError
from openwork.format.formats import CSC, CSF, CSR, DCSR, Format, dense
from openwork.format.levels import Compressed, Dense
from openwork.tensor.create import empty, from_arrays, tensor
from openwork.tensor.validate import check_shape

ONES = np.ones(3)
POS, CRD = [0, 2, 2, 3], [0, 3, 1]  # a 3x4 matrix with entries (0,0), (0,3), (2,1)

# (format, shape, levels, values, code, pieces of the message)
LEVEL_CASES: list[tuple[Any, ...]] = [
    # positions
    (CSR, (3, 4), [(), ([1, 2, 2, 3], CRD)], ONES, "E502", "A.levels[1].pos[0] is 1"),
    (CSR, (3, 4), [(), ([0, 2, 1, 3], CRD)], ONES, "E502", "A.levels[1].pos[2] is 1"),
    (CSR, (3, 4), [(), ([0, -1, 2, 3], CRD)], ONES, "E502", "A.levels[1].pos[1] is -1"),
    (CSR, (3, 4), [(), ([0, 2, 2, 4], CRD)], ONES, "E502", "A.levels[1].pos[3] is 4"),
    (CSR, (3, 4), [(), ([0, 2, 2, 2], CRD)], ONES, "E502", "A.levels[1].pos[3] is 2"),
    (CSR, (3, 4), [(), ([0, 2**40, 2, 3], CRD)], ONES, "E502", "pos[2] is 2, below"),
    (CSR, (3, 4), [(), ([0, 2, 3], CRD)], ONES, "E501", "A.levels[1].pos has 3 entries, and 4"),
    (CSR, (3, 4), [(), ([0, 2, 2, 3, 3], CRD)], ONES, "E501", "pos has 5 entries, and 4"),
    (CSR, (3, 4), [(), ([], CRD)], ONES, "E501", "pos has 0 entries"),
    (DCSR, (3, 4), [([0, 1, 2], [0, 2]), ([0, 1, 2], [0, 1])], [1, 2], "E501", "levels[0].pos"),
    (DCSR, (3, 4), [([0, 2], [0, 2]), ([0, 2, 2, 3], CRD)], ONES, "E501", "levels[1].pos has 4"),
    # coordinates
    (CSR, (3, 4), [(), (POS, [0, 4, 1])], ONES, "E503", "A.levels[1].crd[1] is 4"),
    (CSR, (3, 4), [(), (POS, [0, 3, -1])], ONES, "E503", "A.levels[1].crd[2] is -1"),
    (CSR, (3, 4), [(), (POS, [0, 2**31, 1])], ONES, "E503", "crd[1] is 2147483648"),
    (CSC, (4, 3), [(), (POS, [0, 4, 1])], ONES, "E503", "extent 4"),
    (CSR, (3, 4), [(), (POS, [3, 0, 1])], ONES, "E504", "crd[1] is 0, below 3"),
    (CSR, (3, 4), [(), (POS, [3, 3, 1])], ONES, "E504", "crd[1] is 3, the same"),
    (DCSR, (3, 4), [([0, 2], [2, 0]), ([0, 1, 3], CRD)], ONES, "E504", "A.levels[0].crd[1] is 0"),
    (DCSR, (3, 4), [([0, 2], [0, 3]), ([0, 1, 3], CRD)], ONES, "E503", "A.levels[0].crd[1] is 3"),
    (CSR, (3, 4), [(), (POS, [0, 3])], ONES[:2], "E502", "pos[3] is 3"),
    (CSF(1), (4,), [([0, 3], [0, 2, 5])], ONES, "E503", "A.levels[0].crd[2] is 5"),
    # values
    (CSR, (3, 4), [(), (POS, CRD)], np.ones(2), "E505", "A.values has 2 elements"),
    (CSR, (3, 4), [(), (POS, CRD)], np.ones(4), "E505", "the levels have 3 entries"),
    (CSR, (3, 4), [(), (POS, CRD)], np.ones((3, 1)), "E505", "A.values has 3x1"),
    (dense(2), (3, 4), [(), ()], np.ones(11), "E505", "have 12 entries"),
    (dense(0), (), [], np.ones(0), "E505", "have 1 entries"),
    (Format([Compressed, Dense]), (3, 4), [([0, 1], [2]), ()], ONES, "E505", "have 4 entries"),
    # kinds of arrays
    (CSR, (3, 4), [(), ([[0, 2, 2, 3]], CRD)], ONES, "E501", "2 dimensions"),
    (CSR, (3, 4), [(), (POS, [0.0, 3.0, 1.0])], ONES, "E501", "crd has 1 dimensions of float64"),
    (CSR, (3, 4), [(), (POS, ["a", "b", "c"])], ONES, "E501", "of integers"),
    (CSR, (3, 4), [(), (POS, np.array([0, 2**63, 1], np.uint64))], ONES, "E503", "beyond 64"),
    (CSR, (3, 4), [(), (POS, [[0], [1, 2]])], ONES, "E501", "not an array"),
    # which arrays
    (CSR, (3, 4), [(), (POS,)], ONES, "E501", "(pos, crd), and 1"),
    (CSR, (3, 4), [(), {"pos": POS}], ONES, "E501", "crd, pos, and pos was given"),
    (CSR, (3, 4), [(POS, CRD), (POS, CRD)], ONES, "E501", "level 0, Dense"),
    (CSR, (3, 4), [(POS, CRD)], ONES, "E501", "arrays of 1 levels"),
    (CSR, (3, 4, 5), [(), (POS, CRD)], ONES, "E501", "the shape 3 modes"),
]


@pytest.mark.parametrize("case", LEVEL_CASES, ids=lambda case: f"{case[4]}-{case[5]}")
def test_malformed_levels(case: tuple[Any, ...]) -> None:
    format, shape, levels, values, code, piece = case
    with pytest.raises(DataError) as caught:
        from_arrays(format, shape, levels, values, name="A")
    assert caught.value.code == code
    assert piece in str(caught.value)


def csr(pos: Any, crd: Any, data: Any, shape: tuple[int, int] = (3, 4), kind: str = "csr") -> Any:
    """A SciPy matrix with these very arrays, however wrong they are."""
    matrix = sparse.csr_array((3, 4)) if kind == "csr" else sparse.csc_array((3, 4))
    matrix.indptr, matrix.indices, matrix.data = (np.asarray(a) for a in (pos, crd, data))
    matrix._shape = shape
    return matrix


SCIPY_CASES: list[tuple[Any, str, str]] = [
    (csr(POS, [0, 9, 1], ONES), "E503", "A.indices[1] is 9"),
    (csr(POS, [0, -5, 1], ONES), "E503", "A.indices[1] is -5"),
    (csr(POS, [3, 0, 9], ONES), "E503", "A.indices[2] is 9"),  # out of order, and out of range
    (csr([0, 3, 2, 3], CRD, ONES), "E502", "A.indptr[2] is 2"),
    (csr([0, 2, 2, 9], CRD, ONES), "E502", "A.indptr[3] is 9"),
    (csr([2, 2, 2, 3], CRD, ONES), "E502", "A.indptr[0] is 2"),
    (csr([0, 2, 2, -1], CRD, ONES), "E502", "A.indptr[3] is -1"),
    (csr([0, 2, 3], CRD, ONES), "E501", "A.indptr has 3 entries"),
    (csr([], CRD, ONES), "E501", "A.indptr has 0 entries"),
    (csr(POS, CRD, ONES[:2]), "E505", "A.data has 2"),
    (csr([0, 2, 2, 3], np.array([0.0, 1.0, 2.0]), ONES), "E501", "A.indices"),
    (csr([0, 1, 2, 3, 3], [2, 3, 1], ONES, kind="csc"), "E503", "A.indices[1] is 3"),
]


@pytest.mark.parametrize("case", SCIPY_CASES, ids=lambda case: case[2])
def test_malformed_scipy_matrices(case: tuple[Any, str, str]) -> None:
    matrix, code, piece = case
    with pytest.raises(DataError) as caught:
        tensor(matrix, name="A")
    assert caught.value.code == code
    assert piece in str(caught.value)


def test_malformed_blocks_are_found_before_scipy_takes_them_apart() -> None:
    matrix = sparse.bsr_array(np.eye(4), blocksize=(2, 2))
    matrix.indices = np.array([0, 50], dtype=np.int32)
    with pytest.raises(DataError, match=r"E503: A.indices\[1\] is 50"):
        tensor(matrix, name="A")


def test_malformed_triplets_of_scipy() -> None:
    matrix = sparse.coo_array(np.eye(3))
    matrix.coords = (np.array([0, 1, 5]), np.array([0, 1, 2]))
    with pytest.raises(DataError, match=r"E503: coords\[0, 2\] is 5"):
        tensor(matrix)


COO_CASES: list[tuple[Any, Any, Any, str, str]] = [
    ([[0, 1], [0, 4]], [1, 2], (3, 4), "E503", "coords[1, 1] is 4, outside mode 1 of extent 4"),
    ([[0, -1], [0, 1]], [1, 2], (3, 4), "E503", "coords[0, 1] is -1"),
    ([[0, 1]], [1, 2], (3, 4), "E501", "coords has shape (1, 2)"),
    ([[0, 1, 2], [0, 1, 2]], [1, 2], (3, 4), "E501", "shape (2, 2)"),
    ([[0.0, 1.0], [0.0, 1.0]], [1, 2], (3, 4), "E501", "float64"),
    ([[0], [0, 1]], [1, 2], (3, 4), "E501", "coords is not an array"),
    ([[0], [0]], [[1.0]], (3, 4), "E505", "2 dimensions"),
    ([[0], [0]], [[1.0], [2.0, 3.0]], (3, 4), "E505", "values is not an array"),
    ([[0], [0]], [1.0], (0, 4), "E503", "outside mode 0 of extent 0"),
]


@pytest.mark.parametrize("case", COO_CASES, ids=lambda case: case[4])
def test_malformed_coordinates(case: tuple[Any, ...]) -> None:
    coords, values, shape, code, piece = case
    with pytest.raises(DataError) as caught:
        tensor((coords, values), shape=shape)
    assert caught.value.code == code
    assert piece in str(caught.value)


@pytest.mark.parametrize(
    "shape", [(-1,), (2.5,), (True, 3), ("3",), (2**63,), ((2,), 3), None], ids=str
)
def test_impossible_shapes(shape: Any) -> None:
    with pytest.raises(ShapeError) as caught:
        check_shape(shape)
    assert caught.value.code == "E205"
    with pytest.raises(OpenworkError):
        empty(shape)


def test_well_formed_arrays_are_shared() -> None:
    pos, crd = np.array(POS, dtype=np.int64), np.array(CRD, dtype=np.int32)
    values = np.ones(3, dtype=np.float32)
    A = from_arrays(CSR, (3, 4), [None, {"crd": crd, "pos": pos}], values)
    arrays = A.storage.levels[1]
    assert arrays["pos"] is pos or np.shares_memory(arrays["pos"], pos)
    assert np.shares_memory(arrays["crd"], crd)
    assert np.shares_memory(A.storage.values, values)
    assert (arrays["pos"].dtype, arrays["crd"].dtype) == (np.int64, np.int32)


def test_other_integers_and_strides_are_converted() -> None:
    pos = np.array(POS, dtype=np.uint8)
    crd = np.array([0, 9, 3, 9, 1, 9], dtype=np.int16)[::2]
    A = from_arrays(CSR, (3, 4), [(), (pos, crd)], np.arange(6.0)[::2])
    assert A.storage.widths == ("int16", "int64")
    assert A.storage.values.flags.c_contiguous
    assert A.to_numpy().tolist() == [[0, 0, 0, 2], [0, 0, 0, 0], [0, 4, 0, 0]]


def test_values_of_a_type_that_we_do_not_have() -> None:
    with pytest.raises(FormatError, match="E402"):
        from_arrays(CSR, (3, 4), [(), (POS, CRD)], np.ones(3, dtype=np.float16))
    with pytest.raises(FormatError, match="E402"):
        tensor(np.array([object()]))
