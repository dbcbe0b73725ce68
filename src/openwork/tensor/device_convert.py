"""Conversions of tensors on a GPU by sorting and counting: rows of runs, transposed or as a list.

Others are generated, or go through main memory: see `tensor.generated`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from openwork.format.formats import COO, Format
from openwork.format.width import index_dtype
from openwork.runtime.caller import callers_stream
from openwork.runtime.cuda import Cuda, DeviceStorage
from openwork.tensor.direct import is_rows, rows_of


def converted_on_gpu(storage: DeviceStorage, format: Format) -> DeviceStorage | None:
    """Rows of runs in another format; None for what is not converted so."""
    mine = storage.format
    with callers_stream(storage.of_torch):
        if is_rows(mine) and is_rows(format) and mine.order != format.order:
            return _transposed(storage, format)
        if is_rows(mine) and format.levels == COO(2).levels and mine.order == format.order:
            return _listed(storage, format)
    return None


def _rows(storage: DeviceStorage) -> Any:
    """The row of each entry."""
    cp, (pos, crd, _) = Cuda().cp, rows_of(storage)
    return cp.searchsorted(pos[1:], cp.arange(crd.size, dtype=pos.dtype), side="right")


def _listed(storage: DeviceStorage, format: Format) -> DeviceStorage:
    """CSR as COO: with the row of each entry beside it."""
    cp, (pos, crd, values) = Cuda().cp, rows_of(storage)
    width = index_dtype(storage.shape[format.order[0]] - 1)
    ends = cp.asarray(np.array([0, crd.size], pos.dtype))
    levels = ({"pos": ends, "crd": _rows(storage).astype(width)}, {"crd": crd})
    return replace(storage, format=format, levels=levels, values=values.copy())


def _transposed(storage: DeviceStorage, format: Format) -> DeviceStorage:
    """CSR as CSC, or back, by a stable sort of the coordinates."""
    cp, (pos, crd, values) = Cuda().cp, rows_of(storage)
    count, extent = (storage.shape[mode] for mode in format.order)
    row = _rows(storage)
    order = cp.argsort(crd)
    first = cp.zeros(count + 1, dtype=pos.dtype)
    if crd.size:
        first[1:] = cp.cumsum(cp.bincount(crd, minlength=count))
    width = index_dtype(extent - 1)  # rows that append have coordinates of the usual width
    arrays = {"pos": first, "crd": row[order].astype(width)}
    return replace(storage, format=format, levels=({}, arrays), values=values[order])
