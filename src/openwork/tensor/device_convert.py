"""Conversions of matrices on a GPU between rows, columns and lists, by CuPy.

cuSPARSE does them where it knows the element type, else they are sorted and counted. Others are
generated, or go through main memory: see `tensor.generated`.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import numpy as np

from openwork.format.formats import COO, Format
from openwork.format.width import index_dtype
from openwork.runtime.caller import callers_stream
from openwork.runtime.cuda import Cuda, DeviceStorage
from openwork.tensor.direct import is_rows, rows_of

_ELEMENTS = "fdFD"  # that cuSPARSE knows, by NumPy's letters


def is_converted_on_gpu(source: Format, format: Format) -> bool:
    """Whether both are rows, or one of them is and the other is the list of its entries."""
    if is_rows(source) and is_rows(format):
        return source.order != format.order
    listed = COO(2).levels
    pairs = (is_rows(source), format.levels == listed), (is_rows(format), source.levels == listed)
    return source.order == format.order and any(all(pair) for pair in pairs)


def converted_on_gpu(storage: DeviceStorage, format: Format) -> DeviceStorage | None:
    """Rows of runs in another format; None for what is not converted so."""
    if not is_converted_on_gpu(storage.format, format):
        return None
    with callers_stream(storage.of_torch):
        if not is_rows(storage.format):
            return _unlisted(storage, format)
        return _transposed(storage, format) if is_rows(format) else _listed(storage, format)


def _known(storage: DeviceStorage) -> Any:
    """The same as a matrix of CuPy's, by rows; None where it has none of such elements."""
    pos, crd, values = rows_of(storage)
    if values.dtype.char not in _ELEMENTS or not pos.dtype == crd.dtype == np.int32:
        return None
    sparse = importlib.import_module("cupyx.scipy.sparse")
    shape = tuple(storage.shape[mode] for mode in storage.format.order)
    return sparse.csr_matrix((values, crd, pos), shape=shape)


def _rows(storage: DeviceStorage) -> Any:
    """The row of each entry."""
    cp, (pos, crd, _) = Cuda().cp, rows_of(storage)
    return cp.searchsorted(pos[1:], cp.arange(crd.size, dtype=pos.dtype), side="right")


def _listed(storage: DeviceStorage, format: Format) -> DeviceStorage:
    """CSR as COO: with the row of each entry beside it."""
    cp, (pos, crd, values) = Cuda().cp, rows_of(storage)
    width = index_dtype(storage.shape[format.order[0]] - 1)
    ends = cp.asarray(np.array([0, crd.size], pos.dtype))
    matrix = _known(storage)
    row = _rows(storage) if matrix is None else matrix.tocoo().row
    levels = ({"pos": ends, "crd": row.astype(width, copy=False)}, {"crd": crd})
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
    matrix = _known(storage)
    if matrix is not None:
        turned = matrix.tocsc()
        arrays = {"pos": turned.indptr, "crd": turned.indices}
        return replace(storage, format=format, levels=({}, arrays), values=turned.data)
    count, extent = (storage.shape[mode] for mode in format.order)
    row = _rows(storage)
    order = cp.argsort(crd)
    first = cp.zeros(count + 1, dtype=pos.dtype)
    if crd.size:
        first[1:] = cp.cumsum(cp.bincount(crd, minlength=count))
    width = index_dtype(extent - 1)  # rows that append have coordinates of the usual width
    arrays = {"pos": first, "crd": row[order].astype(width)}
    return replace(storage, format=format, levels=({}, arrays), values=values[order])
