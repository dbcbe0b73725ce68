"""SciPy matrices in blocks (BSR), diagonals (DIA) and lists of rows (LIL), in the same format.

The caller's objects are never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import sparse

from openwork.algebra.types import Number, as_dtype, number
from openwork.errors import DataError
from openwork.format.formats import BSR, DIA, LIL, Format
from openwork.runtime.storage import Array, Storage
from openwork.tensor.convert.pack import pack, unpack
from openwork.tensor.exchange.validate import (
    admit,
    as_index_array,
    check_shape,
    truth_values,
    validate,
)


def from_bsr(matrix: Any, name: str, fill: Number | None, share: bool) -> Storage:
    """BSR with the arrays of `matrix`; if its rows are unsorted, with a sorted copy."""
    rows, columns = map(int, matrix.blocksize)
    format = BSR(rows, columns)
    labels = {"pos": f"{name}.indptr", "crd": f"{name}.indices", "values": f"{name}.data"}
    pos = as_index_array(matrix.indptr, labels["pos"])
    crd = as_index_array(matrix.indices, labels["crd"])
    data = np.asarray(matrix.data)
    # SciPy's arrays may be longer than the number of blocks.
    used = int(pos[-1]) if len(pos) else 0
    if 0 <= used < len(crd) and used <= len(data):
        crd, data = crd[:used], data[:used]
    values = shared_values(data).reshape(-1)
    levels: tuple[dict[str, Array], ...] = ({}, {"pos": pos, "crd": crd}, {}, {})
    return _checked(matrix, format, levels, values, name, labels, fill, share)


def from_lil(matrix: Any, name: str, fill: Number | None, share: bool) -> Storage:
    """LIL: a list of entries for each row; SciPy's are Python objects, and are copied."""
    made = [np.fromiter(row, dtype=np.int64, count=len(row)) for row in matrix.rows]
    values = [np.asarray(row, dtype=matrix.dtype) for row in matrix.data]
    lengths = np.array([len(row) for row in made], dtype=np.int64)
    told = np.array([len(row) for row in values], dtype=np.int64)
    if (lengths != told).any():
        row = int(np.flatnonzero(lengths != told)[0])
        raise DataError(f"{name}.rows[{row}] and {name}.data[{row}] differ in length", code="E501")
    labels = {"crd": f"{name}.rows", "pos": f"{name}.rows", "len": f"{name}.rows"}
    labels["values"] = f"{name}.data"
    positions = np.concatenate([[0], np.cumsum(lengths)])
    arrays = {
        "len": lengths,
        "pos": positions,
        "crd": np.concatenate([np.zeros(0, dtype=np.int64), *made]),
    }
    largest = max(int(matrix.shape[1]), int(positions[-1]))
    if largest < 2**31:
        arrays = {key: array.astype(np.int32) for key, array in arrays.items()}
    data = np.concatenate([np.zeros(0, dtype=as_dtype(matrix.dtype)), *values])
    return _checked(matrix, LIL, ({}, arrays), data, name, labels, fill, share=False)


def _checked(
    matrix: Any,
    format: Format,
    levels: tuple[Mapping[str, Array], ...],
    values: Array,
    name: str,
    labels: Mapping[str, str],
    fill: Number | None,
    share: bool,
) -> Storage:
    """The storage of these arrays."""
    shape = check_shape(matrix.shape)
    dtype = as_dtype(values.dtype)
    absent = number(fill or 0, dtype)
    storage = Storage(shape, format, dtype, levels, values.astype(dtype, copy=False), absent)
    return admit_in_order(storage, name, labels, share)


def admit_in_order(
    storage: Storage, name: str, labels: Mapping[str, str], share: bool = False
) -> Storage:
    """`storage` after validation; sorted, and duplicates summed, if needed."""
    try:
        return admit(storage, name, labels, share=share)
    except DataError as error:
        if error.code != "E504":
            raise
        validate(storage, name, labels, ordered=False)
        return pack(*unpack(storage), storage.shape, storage.format, storage.fill)


def shared_values(values: Array) -> Array:
    """Values as kernels take them, sharing the caller's memory if possible.

    The result is never the caller's own object, whose shape and type can be assigned to.
    """
    made = np.ascontiguousarray(values, dtype=as_dtype(values.dtype))
    return truth_values(made).view()


def from_dia(matrix: Any, name: str, fill: Number | None, share: bool) -> Storage:
    """Diagonals. SciPy stores an entry by its column; here it is stored by its row."""
    rows, columns = check_shape(matrix.shape)
    offsets = as_index_array(matrix.offsets, f"{name}.offsets").astype(np.int64)
    data = np.asarray(matrix.data)
    if data.ndim != 2 or len(data) != len(offsets):
        raise DataError(
            f"{name}.data has {len(data)} diagonals, but {name}.offsets {len(offsets)}", code="E505"
        )
    order = np.argsort(offsets, kind="stable")
    inside = (offsets[order] > -rows) & (offsets[order] < columns) & (rows * columns > 0)
    order = order[inside]
    repeated = np.flatnonzero(np.diff(offsets[order]) == 0)
    if len(repeated):
        raise DataError(
            f"{name}.offsets has {offsets[order[repeated[0]]]} more than once", code="E504"
        )
    dtype = as_dtype(data.dtype)
    # Which diagonals cross a row follows from the offsets alone: the level computes it.
    at = np.maximum(0, -offsets[order])
    coords = np.array([at, at + offsets[order]])
    empty = pack(coords, np.zeros(len(order), dtype), (rows, columns), DIA, fill or 0)
    for q, diagonal in enumerate(order):
        first = max(0, -int(offsets[diagonal]))
        last = min(rows, min(columns, data.shape[1]) - int(offsets[diagonal]))
        if first < last:
            begin = first + int(offsets[diagonal])
            places = _diagonal(empty, q, first, last)
            empty.values[places] = data[diagonal, begin : begin + last - first]
    return empty


def _diagonal(storage: Storage, number: int, first: int, last: int) -> Any:
    """The positions of a diagonal's entries in the rows from `first` up to below `last`."""
    level, arrays = storage.format.levels[1], SimpleNamespace(**storage.levels[1])
    return level.place(arrays, np.arange(first, last), number)


def to_bsr(storage: Storage) -> Any:
    """Blocks that divide the shape, with the arrays of `storage`."""
    rows, columns = storage.shape
    arrays = storage.levels[1]
    blocks = storage.values.reshape(-1, *storage.format.tiles)
    return sparse.bsr_array((blocks, arrays["crd"], arrays["pos"]), shape=(rows, columns))


def to_dia(storage: Storage) -> Any:
    """Diagonals, by column."""
    rows, columns = storage.shape
    offsets = storage.levels[1]["offset"].copy()
    data = np.zeros((len(offsets), columns), dtype=storage.dtype)
    for q, offset in enumerate(map(int, offsets)):
        first, last = max(0, -offset), min(rows, columns - offset)
        places = _diagonal(storage, q, first, last)
        data[q, first + offset : last + offset] = storage.values[places]
    return sparse.dia_array((data, offsets), shape=(rows, columns))
