"""Entries of other libraries: arrays with component axes, structured and complex arrays, blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from openwork.algebra.entries import Complex, Entry, Grid
from openwork.algebra.types import as_dtype
from openwork.errors import FormatError
from openwork.format.formats import CSC, CSR
from openwork.runtime.storage import Array, Storage


def as_records(array: Array, entry: Entry, name: str) -> Array:
    """An array from outside as records of `entry`, without a copy if possible.

    Raises:
        FormatError: E402 if its elements are no such records.

    >>> from openwork.algebra.entries import Quaternion
    >>> as_records(np.ones((3, 4)), Quaternion("float64"), "x").shape
    (3,)
    """
    if array.dtype.names is not None:
        known = as_dtype(array.dtype)
        if isinstance(known, Entry) and known.family == entry.family:
            return entry.cast(array)
        raise _no_records(array, entry, name)
    if array.dtype.kind == "c" and isinstance(entry, Complex):
        wide = array.astype(np.result_type(entry.scalar, "complex64"), copy=False)
        return np.ascontiguousarray(wide).view(entry.dtype)
    axes = len(entry.shape)
    if array.dtype.kind not in "biuf" or array.shape[array.ndim - axes :] != entry.shape:
        raise _no_records(array, entry, name)
    return entry.records(array)


def _no_records(array: Array, entry: Entry, name: str) -> FormatError:
    return FormatError(
        f"{name} has elements of {array.dtype} and the shape {array.shape}, "
        f"which are no {entry.family}",
        code="E402",
        hint=f"component axes come last: (..., {', '.join(map(str, entry.shape))})",
    )


def blocks_of(matrix: Any, entry: Entry, name: str) -> Any:
    """A SciPy BSR matrix with blocks as records: the values of a CSR matrix."""
    outer = entry.outer if isinstance(entry, Grid) else ()
    if tuple(matrix.blocksize) != (outer if len(outer) == 2 else (*outer, 1)):
        raise FormatError(
            f"{name} has blocks of {matrix.blocksize}, which are no {entry.family}",
            code="E402",
            hint="matrix.tobsr(blocksize=(r, c)), and dtype=ow.entry.block(r, c, ...)",
        )
    return as_records(matrix.data.reshape(-1, *entry.shape), entry, f"{name}.data")


def records_to_scipy(storage: Storage, name: str) -> Any:
    """Blocks as BSR, complex numbers as complex.

    Raises:
        FormatError: E404 for other records, which SciPy does not have.
    """
    entry, arrays = storage.dtype, storage.levels[-1]
    if isinstance(entry, Complex) and storage.format in (CSR, CSC):
        make = sparse.csr_array if storage.format == CSR else sparse.csc_array
        values = storage.values.view(np.result_type(entry.scalar, "complex64"))
        return make((values, arrays["crd"], arrays["pos"]), shape=storage.shape)
    if isinstance(entry, Grid) and len(entry.shape) == 2 and storage.format == CSR:
        blocks = entry.components(storage.values)
        shape = tuple(n * each for n, each in zip(storage.shape, entry.outer, strict=True))
        return sparse.bsr_array((blocks, arrays["crd"], arrays["pos"]), shape=shape)
    raise FormatError(
        f"{name} holds {entry}, which SciPy does not have",
        code="E404",
        hint="coords, values = tensor.to_coo(), or tensor.to_numpy()",
    )

