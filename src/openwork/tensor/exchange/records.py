"""Entries of other libraries: arrays with component axes, structured and complex arrays, blocks."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from scipy import sparse

from openwork.algebra.entries import Complex, Entry, Grid, Real
from openwork.algebra.types import SUPPORTED, as_dtype
from openwork.errors import DataError, FormatError
from openwork.format.formats import BSR, CSR, dense
from openwork.format.layouts import AOS
from openwork.runtime.storage import Array, Levels, Storage
from openwork.tensor.convert.convert import convert
from openwork.tensor.convert.pack import to_dense


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
    if array.dtype.kind == "c" and _innermost(entry) is Complex:
        parts = np.ascontiguousarray(array, np.result_type(entry.decoded.scalar, "complex64"))
        array = parts.view(parts.real.dtype).reshape(*array.shape, 2)
    axes = len(entry.shape)
    if array.dtype.kind not in "biuf" or array.shape[array.ndim - axes :] != entry.shape:
        raise _no_records(array, entry, name)
    made = entry.records(array)
    if entry.decoded.family != entry.family and not _agree(entry.components(made), array, entry):
        raise DataError(
            f"{name} has elements that are no {entry.family}",
            code="E505",
            hint="their length must be one, or zero",
        )
    return made


def _innermost(entry: Entry) -> type[Entry]:
    """What blocks of blocks consist of in the end."""
    return _innermost(entry.element) if isinstance(entry, Grid) else type(entry)


def _agree(decoded: Array, given: Array, entry: Entry) -> bool:
    """Whether an encoding kept its elements, as far as it can: see docs/entries.md."""
    tolerance = 4 * float(np.finfo(entry.scalar).eps) ** 0.5
    return np.allclose(decoded, given, 0, tolerance, equal_nan=True)


def _no_records(array: Array, entry: Entry, name: str) -> FormatError:
    return FormatError(
        f"{name} has elements of {array.dtype} and the shape {array.shape}, "
        f"which are no {entry.family}",
        code="E402",
        hint=f"component axes come last: (..., {', '.join(map(str, entry.shape))})",
    )


def blocks_of(matrix: Any, entry: Entry, name: str) -> Any:
    """A SciPy BSR matrix with blocks as records: the values of a CSR matrix."""
    if not isinstance(entry, Grid) or tuple(matrix.blocksize) != (entry.rows, entry.columns):
        raise FormatError(
            f"{name} has blocks of {matrix.blocksize}, which are no {entry.family}",
            code="E402",
            hint="matrix.tobsr(blocksize=(r, c)), and dtype=ow.entry.block(r, c, ...)",
        )
    return as_records(matrix.data.reshape(-1, *entry.outer), entry, f"{name}.data")


def records_to_scipy(storage: Storage, name: str) -> Any:
    """Blocks as BSR.

    Raises:
        FormatError: E404 for other records, which SciPy does not have.
    """
    entry = storage.dtype
    if isinstance(entry, Grid) and isinstance(entry.element, Real | Complex):
        storage = convert(storage, CSR).astype(entry.decoded)  # SciPy has no half precision
        arrays, numbers = storage.levels[-1], entry.decoded.components(storage.elements)
        if isinstance(entry.element, Complex):
            numbers = numbers.view(np.result_type(numbers.dtype, "complex64"))
        sides = (entry.rows, entry.columns)
        blocks = numbers.reshape(-1, *sides)
        shape = tuple(n * each for n, each in zip(storage.shape, sides, strict=True))
        return sparse.bsr_array((blocks, arrays["crd"], arrays["pos"]), shape=cast(Any, shape))
    raise FormatError(
        f"{name} holds {entry}, which SciPy does not have",
        code="E404",
        hint="tensor.expand() is the real matrix; tensor.to_coo() and to_numpy() have components",
    )


def expanded(storage: Storage, name: str) -> Storage:
    """The real tensor of one of records: a vector's numbers, a matrix of real matrices as CSR.

    Raises:
        FormatError: E402 if the elements are no records, E404 for tensors of other orders.
    """
    storage = storage.laid_out(AOS)
    entry, order = storage.dtype, storage.format.ndim
    if isinstance(entry, Entry) and entry.decoded != entry:
        return expanded(storage.astype(entry.decoded), name)
    if not isinstance(entry, Entry):
        raise FormatError(f"{name} holds {entry}, which are numbers already", code="E402")
    if order == 1 and storage.format.is_dense:
        shape = (storage.shape[0] * entry.size,)
        return Storage(shape, dense(1), SUPPORTED[entry.scalar], ({},), storage.values)
    if order != 2:
        raise FormatError(
            f"{name} has {order} modes: only matrices and dense vectors have an expansion",
            code="E404",
        )
    rows = convert(storage, CSR)
    arrays, blocks = rows.levels[1], entry.matrices(rows.elements)
    shape = tuple(n * each for n, each in zip(storage.shape, blocks.shape[1:], strict=True))
    levels: Levels = ({}, dict(arrays), {}, {})
    made = Storage.of_values(shape, BSR(*blocks.shape[1:]), levels, blocks.reshape(-1), 0)
    return convert(made, CSR, exact=True)


def contracted(storage: Storage, entry: Entry, name: str) -> Storage:
    """The tensor of elements of `entry` that `storage` is the expansion of.

    Raises:
        DataError: E505 if it is no expansion of such elements.
    """
    storage = storage.laid_out(AOS)
    if isinstance(entry, Complex) and storage.dtype.kind == "c":
        return storage.astype(entry)
    if entry.decoded != entry:
        return contracted(storage, entry.decoded, name).astype(entry)
    order = storage.format.ndim
    if order == 1:
        return _from_vector(to_dense(storage), entry, name)
    high, wide = entry.matrices(np.zeros((), entry.dtype)).shape
    if order != 2 or storage.shape[0] % high or storage.shape[1] % wide:
        raise _no_expansion(name, entry, f"has the shape {storage.shape}")
    blocks = convert(storage, BSR(high, wide), exact=True)
    matrices = blocks.values.reshape(-1, high, wide).astype(entry.scalar)
    elements = entry.of_matrices(matrices)
    tolerance = 16 * np.finfo(entry.scalar).eps
    if not np.allclose(entry.matrices(elements), matrices, tolerance, 0, equal_nan=True):
        raise _no_expansion(name, entry, "has blocks that are no matrices of such elements")
    shape = (storage.shape[0] // high, storage.shape[1] // wide)
    return Storage.of_values(shape, CSR, ({}, dict(blocks.levels[1])), elements, 0)


def _from_vector(array: Array, entry: Entry, name: str) -> Storage:
    """A vector of numbers as one of records."""
    if array.size % entry.size:
        raise _no_expansion(name, entry, f"has {array.size} numbers")
    return Storage((array.size // entry.size,), dense(1), entry, ({},), array.astype(entry.scalar))


def _no_expansion(name: str, entry: Entry, reason: str) -> DataError:
    return DataError(f"{name} {reason}, so it expands no tensor of {entry}", code="E505")
