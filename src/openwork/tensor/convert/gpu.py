"""Conversions on a GPU between CSR, CSC and COO, and from dense arrays, by CuPy.

cuSPARSE does them if it supports the element type, else a sort.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from openwork.algebra.entries import Entry
from openwork.format.formats import COO, Format
from openwork.format.levels.width import index_dtype
from openwork.runtime.gpu.cuda import Cuda, DeviceStorage
from openwork.runtime.gpu.streams import callers_stream
from openwork.tensor.convert import cusparse
from openwork.tensor.convert.rows import is_rows, rows_of


def _reaches(source: Format, format: Format) -> bool:
    """Whether both are CSR or CSC, or one of them is and the other is its COO; or a dense array
    becomes one of these.
    """
    if source.is_dense:
        return is_rows(format) or _is_list(format)
    if is_rows(source) and is_rows(format):
        return source.order != format.order
    pairs = (is_rows(source), _is_list(format)), (is_rows(format), _is_list(source))
    return source.order == format.order and any(all(pair) for pair in pairs)


def _is_list(format: Format) -> bool:
    return not format.tiled and format.levels == COO(format.ndim).levels


def by_cupy(storage: DeviceStorage, format: Format) -> DeviceStorage | None:
    """The same tensor in another format; None if CuPy cannot convert to it."""
    source = storage.format
    if not _reaches(source, format) or (source.is_dense and storage.fill != 0):
        return None
    if isinstance(storage.dtype, Entry):
        return _of_records(storage, storage.dtype, format)
    with callers_stream(storage.of_torch):
        if source.is_dense:
            storage = _found(storage, format.order)
            return storage if _is_list(format) else _unlisted(storage, format)
        if not is_rows(source):
            return _unlisted(storage, format)
        return _transposed(storage, format) if is_rows(format) else _listed(storage, format)


def _of_records(storage: DeviceStorage, dtype: Entry, format: Format) -> DeviceStorage | None:
    """The same for records, by way of the places of the entries, which are numbers above 0."""
    with callers_stream(storage.of_torch):
        cp, width = Cuda().cp, index_dtype(storage.places + 1)
        records = storage.values.reshape(-1, dtype.size)
        places = cp.arange(1, storage.places + 1, dtype=width)
        if storage.format.is_dense:
            zero = cp.asarray(np.array(dtype.zero, dtype.scalar))
            places = places * (records != zero).any(axis=1)
        made = by_cupy(replace(storage, dtype=width, values=places, fill=0), format)
        if made is None:
            return None
        values = records[made.values - 1].reshape(-1)
        return replace(made, dtype=dtype, values=values, fill=storage.fill)


def _found(storage: DeviceStorage, order: tuple[int, ...]) -> DeviceStorage:
    """The nonzeros of a dense array as COO."""
    cp, stored = Cuda().cp, storage.format.order
    array = storage.values.reshape(tuple(storage.shape[mode] for mode in stored))
    array = array.transpose([stored.index(mode) for mode in order])
    places = cp.nonzero(array)
    values = array[places]
    widths = [index_dtype(extent - 1) for extent in array.shape]
    first, *rest = (at.astype(width, copy=False) for at, width in zip(places, widths, strict=True))
    ends = _ends(values.size, index_dtype(values.size))
    levels = ({"pos": ends, "crd": first}, *({"crd": at} for at in rest))
    return replace(storage, format=COO(len(order), order), levels=levels, values=values)


def _ends(count: int, width: Any) -> Any:
    """The positions of a list, [0, count]; created on the GPU, without synchronizing."""
    cp = Cuda().cp
    return cp.arange(0, count + 1, count, dtype=width) if count else cp.zeros(2, dtype=width)


def _is_known(storage: DeviceStorage) -> bool:
    """Whether cuSPARSE supports the types of the indices and values."""
    pos, crd, values = rows_of(storage)
    return values.dtype.char in cusparse.ELEMENTS and pos.dtype == crd.dtype == np.int32


def _rows(storage: DeviceStorage) -> Any:
    """The row of each entry."""
    cp, (pos, crd, _) = Cuda().cp, rows_of(storage)
    if _is_known(storage):
        return cusparse.row_of_each(pos, int(crd.size))
    return cp.searchsorted(pos[1:], cp.arange(crd.size, dtype=pos.dtype), side="right")


def _listed(storage: DeviceStorage, format: Format) -> DeviceStorage:
    """CSR as COO: adds the row of each entry."""
    pos, crd, values = rows_of(storage)
    width = index_dtype(storage.shape[format.order[0]] - 1)
    ends = _ends(crd.size, pos.dtype)
    levels = ({"pos": ends, "crd": _rows(storage).astype(width, copy=False)}, {"crd": crd})
    return replace(storage, format=format, levels=levels, values=values.copy())


def _unlisted(storage: DeviceStorage, format: Format) -> DeviceStorage:
    """COO as CSR: rows begin where their first entries are."""
    cp, (outer, inner) = Cuda().cp, storage.levels
    count = storage.shape[format.order[0]]
    starts = cp.arange(count + 1, dtype=outer["crd"].dtype)
    first = cp.searchsorted(outer["crd"], starts).astype(index_dtype(outer["crd"].size))
    arrays = {"pos": first, "crd": inner["crd"]}
    return replace(storage, format=format, levels=({}, arrays), values=storage.values.copy())


def _transposed(storage: DeviceStorage, format: Format) -> DeviceStorage:
    """CSR as CSC, or back; without cuSPARSE by a stable sort of the coordinates."""
    cp, (pos, crd, values) = Cuda().cp, rows_of(storage)
    count, extent = (storage.shape[mode] for mode in format.order)
    if _is_known(storage):
        first, rows, moved = cusparse.transposed(pos, crd, values, count)
        arrays = {"pos": first, "crd": rows}
        return replace(storage, format=format, levels=({}, arrays), values=moved)
    row = _rows(storage)
    order = cp.argsort(crd)
    first = cp.zeros(count + 1, dtype=pos.dtype)
    if crd.size:
        first[1:] = cp.cumsum(cp.bincount(crd, minlength=count))
    width = index_dtype(extent - 1)  # the same width as in results that append
    arrays = {"pos": first, "crd": row[order].astype(width)}
    return replace(storage, format=format, levels=({}, arrays), values=values[order])
