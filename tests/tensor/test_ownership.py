"""Who owns what: nothing that a user does to an array of his own breaks a tensor, or crashes, and
nothing that is done to what a tensor gave away changes the tensor, or what it was made of."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import openwork as ow
from openwork.tensor.tensor import Tensor

pytestmark = pytest.mark.needs_cc

ROWS, COLUMNS = 12, 12
WILD = 10**9


def matrix(kind: str = "csr") -> Any:
    rng = np.random.default_rng(3)
    drawn = np.where(rng.random((ROWS, COLUMNS)) < 0.4, rng.integers(0, 3, (ROWS, COLUMNS)), 0)
    made = sparse.csr_array(drawn.astype(float))
    made.data[::3] = 0.0  # explicit zeros
    return made.asformat(kind)


def index_arrays(made: Any) -> Iterator[Any]:
    """The index arrays of a matrix of SciPy's."""
    for name in ("indptr", "indices", "offsets", "row", "col"):
        array = getattr(made, name, None)
        if isinstance(array, np.ndarray):
            yield array


def spoil(made: Any) -> None:
    """Write nonsense into the index arrays of a matrix of SciPy's."""
    for array in index_arrays(made):
        array[...] = WILD


# -- the matrix that a tensor was made of ------------------------------------------------------


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo", "dia", "lil"])
def test_index_arrays_written_to_by_their_owner(kind: str) -> None:
    M = matrix(kind)
    expected = M.toarray()
    A = ow.tensor(M, name="A")
    spoil(M)
    np.testing.assert_array_equal(A.to_numpy(), expected)
    np.testing.assert_allclose((A @ np.ones(COLUMNS)).to_numpy(), expected.sum(axis=1))
    np.testing.assert_array_equal((A + A).to_numpy(), 2 * expected)


@pytest.mark.parametrize("shape", [(3, 3), (20, 20), (3, 20), (20, 3)])
def test_resize_by_the_owner(shape: tuple[int, int]) -> None:
    M = matrix()
    expected = M.toarray()
    A = ow.tensor(M)
    M.resize(shape)
    np.testing.assert_array_equal(A.to_numpy(), expected)
    np.testing.assert_allclose((A @ np.ones(COLUMNS)).to_numpy(), expected.sum(axis=1))


def test_shape_and_type_of_the_values_assigned_to_by_the_owner() -> None:
    M = matrix()
    expected = M.toarray()
    A = ow.tensor(M)
    M.data.shape = (1, M.data.size)
    M.data.dtype = np.dtype(np.int64)
    np.testing.assert_allclose((A @ np.ones(COLUMNS)).to_numpy(), expected.sum(axis=1))


def test_arrays_given_to_from_arrays() -> None:
    M = matrix()
    pos, crd, values = M.indptr.copy(), M.indices.copy(), M.data.copy()
    A = ow.from_arrays(ow.CSR, M.shape, [None, (pos, crd)], values)
    pos[...], crd[...] = WILD, WILD
    np.testing.assert_array_equal(A.to_numpy(), M.toarray())


def test_a_statement_keeps_arrays_of_its_own() -> None:
    M = matrix()
    A, x, y = (
        ow.tensor(M, name="A"),
        ow.tensor(np.ones(COLUMNS), name="x"),
        ow.empty(ROWS, name="y"),
    )
    kernel = ow.parse("y(i) = A(i,j) * x(j)", A=A, x=x, y=y).compile()
    expected = kernel().to_numpy()
    spoil(M)
    np.testing.assert_array_equal(kernel().to_numpy(), expected)


# -- results -------------------------------------------------------------------------------------

i, j, k = ow.indices("i j k")


def scaled_by_kernel(M: Any) -> Tensor:
    A, R = (ow.placeholder(name, order=2, format=ow.CSR) for name in "AR")
    made: Tensor = ow.assign(R[i, j], 2 * A[i, j]).compile()(A=M)
    return made


def scaled_twice(M: Any) -> Tensor:
    A, R = (ow.placeholder(name, order=2, format=ow.CSR) for name in "AR")
    kernel = ow.assign(R[i, j], 2 * A[i, j]).compile()
    kernel(A=M)
    made: Tensor = kernel(A=M)
    return made


def sampled(M: Any) -> Tensor:
    A, R = (ow.placeholder(name, order=2, format=ow.CSR) for name in "AR")
    B, C = ow.tensor(np.ones((ROWS, 2)), name="B"), ow.tensor(np.ones((COLUMNS, 2)), name="C")
    made: Tensor = ow.assign(R[i, j], A[i, j] * B[i, k] * C[j, k]).compile()(A=M)
    return made


def converted_operand(M: Any) -> Tensor:
    A, R = (ow.placeholder(name, order=2, format=ow.COO(2)) for name in "AR")
    made: Tensor = ow.assign(R[i, j], 2 * A[i, j]).compile()(A=M)
    return made


def planned(M: Any) -> Tensor:
    A, R = (ow.placeholder(name, order=2, format=ow.CSR) for name in "AR")
    plan = ow.assign(R[i, j], 2 * A[i, j]).compile().symbolic(A=M)
    made: Tensor = plan(A=M)
    return made


RESULTS: dict[str, Callable[[Any], Tensor]] = {
    "scaled by a kernel": scaled_by_kernel,
    "scaled twice": scaled_twice,
    "sampled": sampled,
    "an operand that is converted": converted_operand,
    "planned": planned,
    "einsum, elementwise": lambda M: ow.einsum("ij,j->ij", M, np.full(COLUMNS, 2.0)),
    "einsum, as it is": lambda M: ow.einsum("ij->ij", M) * 2,
    "einsum, transposed": lambda M: ow.einsum("ij->ji", M).T * 2,
    "a tensor times a matrix": lambda M: ow.tensor(np.full((ROWS, COLUMNS), 2.0)) * M,
    "a number times a tensor": lambda M: 2 * ow.tensor(M),
    "a tensor that is shared": lambda M: 2 * ow.tensor(M, share=True),
    "a sum": lambda M: ow.tensor(M) + M,
    "an unchanged one": lambda M: ow.einsum("ij->ij", M) + ow.tensor(M) * 1,
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_do_not_depend_on_the_arrays_of_operands(name: str) -> None:
    M = matrix()
    expected = 2 * M.toarray()
    before = [array.copy() for array in index_arrays(M)]
    result = RESULTS[name](M)
    for now, then in zip(index_arrays(M), before, strict=True):
        np.testing.assert_array_equal(now, then)
    for level in result.storage.levels:
        for array in level.values():
            assert not any(np.shares_memory(array, theirs) for theirs in index_arrays(M))
    spoil(M)
    np.testing.assert_array_equal(result.to_numpy(), expected)
    np.testing.assert_array_equal((result + result).to_numpy(), 2 * expected)


# -- what is given away ----------------------------------------------------------------------------

FORMATS = [ow.CSR, ow.CSC, ow.BSR(2, 3), ow.BSR(5, 5), ow.COO(2), ow.DCSR, ow.DIA, ow.LIL, ow.ELL]


@pytest.mark.parametrize("format", FORMATS, ids=repr)
def test_matrices_of_scipy_are_the_callers(format: ow.Format) -> None:
    M = matrix()
    kept = M.copy()
    S = ow.tensor(M)
    result = (S * 2).to(format)
    expected = result.to_numpy().copy()
    for given in (result.to_scipy(), S.to(format).to_scipy(), S.to_scipy()):
        for change in ("eliminate_zeros", "sum_duplicates", "sort_indices"):
            if hasattr(given, change):
                getattr(given, change)()
        given.data[...] = 77
        spoil(given)
        np.testing.assert_array_equal(result.to_numpy(), expected)
        np.testing.assert_array_equal(S.to_numpy(), kept.toarray())
    for now, then in zip((*index_arrays(M), M.data), (*index_arrays(kept), kept.data), strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("format", FORMATS, ids=repr)
def test_coordinates_and_values_are_the_callers(format: ow.Format) -> None:
    M = matrix()
    expected = M.toarray()
    A = ow.tensor(M).to(format)
    coords, values = A.to_coo()
    coords[...], values[...] = 0, 77
    np.testing.assert_array_equal(A.to_numpy(), expected)
    np.testing.assert_array_equal(M.toarray(), expected)


def test_index_arrays_of_a_tensor_are_locked() -> None:
    for made in (ow.tensor(matrix()), ow.tensor(matrix("bsr"))):
        for level in made.storage.levels:
            for array in level.values():
                with pytest.raises(ValueError, match="read-only"):
                    array[...] = 0


def test_sharing_is_for_those_who_ask_for_it() -> None:
    M = matrix()
    A = ow.tensor(M, share=True)
    back = A.to_scipy(share=True)
    for ours, theirs in zip(index_arrays(back), index_arrays(M), strict=True):
        assert np.shares_memory(ours, theirs)
    assert np.shares_memory(back.data, M.data)


def test_buffers_of_a_pickle_belong_to_whoever_holds_them() -> None:
    A = ow.tensor(matrix())
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(A, protocol=5, buffer_callback=buffers.append)
    copies = [bytearray(buffer.raw()) for buffer in buffers]
    B = pickle.loads(data, buffers=copies)  # noqa: S301 - our own
    expected = A.to_numpy()
    index_bytes = {array.nbytes for level in A.storage.levels for array in level.values()}
    for copy in copies:
        if len(copy) in index_bytes and len(copy) != A.storage.values.nbytes:
            copy[:] = b"\xff" * len(copy)
    np.testing.assert_allclose((B @ np.ones(COLUMNS)).to_numpy(), expected.sum(axis=1))
