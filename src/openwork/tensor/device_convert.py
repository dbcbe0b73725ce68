"""Conversions of tensors on a GPU: rows of runs are transposed there."""

from __future__ import annotations

from openwork.format.formats import Format
from openwork.format.width import index_dtype
from openwork.runtime.cuda import Cuda, DeviceStorage
from openwork.tensor.direct import is_rows, rows_of


def transposed_on_gpu(storage: DeviceStorage, format: Format) -> DeviceStorage | None:
    """CSR as CSC, or back, by a stable sort of the coordinates; None for other conversions."""
    mine = storage.format
    if not (is_rows(mine) and is_rows(format)) or mine.order == format.order:
        return None
    cp, (pos, crd, values) = Cuda().cp, rows_of(storage)
    count, extent = (storage.shape[mode] for mode in format.order)
    row = cp.searchsorted(pos[1:], cp.arange(crd.size, dtype=pos.dtype), side="right")
    order = cp.argsort(crd)
    first = cp.zeros(count + 1, dtype=pos.dtype)
    if crd.size:
        first[1:] = cp.cumsum(cp.bincount(crd, minlength=count))
    width = index_dtype(extent - 1)  # rows that append have coordinates of the usual width
    arrays = {"pos": first, "crd": row[order].astype(width)}
    return DeviceStorage(
        storage.shape, format, storage.dtype, ({}, arrays), values[order], storage.fill
    )
