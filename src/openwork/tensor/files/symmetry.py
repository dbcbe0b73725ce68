"""Symmetric matrices, of which a file holds one triangle."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from openwork.errors import FormatError
from openwork.runtime.storage import Array


def expanded(coords: Array, values: Array, symmetry: str) -> tuple[Array, Array]:
    """All entries of a matrix, from those of one triangle.

    >>> expanded(np.array([[0, 1], [0, 0]]), np.array([5, 7]), "skew-symmetric")[1]
    array([ 5,  7, -7])
    """
    if symmetry == "general":
        return coords, values
    off = coords[0] != coords[1]
    mirrored = np.concatenate([coords, coords[::-1, off]], axis=1)
    return mirrored, np.concatenate([values, _partner(values[off], symmetry)])


def mirrored_dense(matrix: Array, symmetry: str) -> Array:
    """A dense matrix from its lower triangle."""
    if symmetry != "general":
        rows, columns = np.tril_indices(len(matrix), -1)
        matrix[columns, rows] = _partner(matrix[rows, columns], symmetry)
    return matrix


def _partner(values: Array, symmetry: str) -> Array:
    """The values across the diagonal from `values`."""
    if symmetry == "skew-symmetric":
        with np.errstate(all="ignore"):
            return np.negative(values)
    return np.conj(values) if symmetry == "hermitian" else values


def folded(matrix: sparse.coo_array, symmetry: str, name: str) -> sparse.coo_array:
    """The entries of the lower triangle of `matrix`, which must have this symmetry.

    Raises:
        FormatError: E404 if the other triangle does not follow from this one.
    """
    if symmetry == "general":
        return matrix
    keep = matrix.row > matrix.col if symmetry == "skew-symmetric" else matrix.row >= matrix.col
    coords, values = np.array([matrix.row[keep], matrix.col[keep]]), matrix.data[keep]
    if matrix.shape[0] == matrix.shape[1]:
        whole, all_values = expanded(coords, values, symmetry)
        order, given = np.lexsort(whole[::-1]), np.lexsort((matrix.col, matrix.row))
        same = np.array_equal(whole[:, order], np.array([matrix.row[given], matrix.col[given]]))
        real = symmetry != "hermitian" or not values.imag[coords[0] == coords[1]].any()
        if same and real and _same(all_values[order], matrix.data[given]):
            return sparse.coo_array((values, tuple(coords)), shape=matrix.shape)
    raise FormatError(
        f"{name} is not {symmetry}", code="E404", hint="leave symmetry out to write every entry"
    )


def _same(left: Array, right: Array) -> bool:
    return bool(np.array_equal(left, right, equal_nan=left.dtype.kind in "fc"))
