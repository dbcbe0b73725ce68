"""Arrays and matrices of CuPy and torch in a GPU's memory, as storage: no copy, checked there."""

from __future__ import annotations

from typing import Any

from openwork.algebra.types import as_dtype
from openwork.errors import DataError
from openwork.format.formats import CSC, CSR, Format, dense
from openwork.runtime.cuda import DeviceStorage, cupy, is_on_gpu


def is_gpu_object(obj: Any) -> bool:
    """Whether `obj` is an array or a compressed matrix on a GPU."""
    if isinstance(obj, type):
        return False
    return is_on_gpu(obj) or _compressed(obj) is not None


def _compressed(obj: Any) -> tuple[Format, Any, Any, Any] | None:
    """The format and the arrays of a compressed matrix of CuPy or torch."""
    module = type(obj).__module__
    if module.startswith("cupyx.scipy.sparse") and getattr(obj, "format", "") in ("csr", "csc"):
        return (CSR if obj.format == "csr" else CSC), obj.indptr, obj.indices, obj.data
    if module == "torch" and getattr(obj, "is_cuda", False):
        layout = str(obj.layout)
        if layout == "torch.sparse_csr":
            return CSR, obj.crow_indices(), obj.col_indices(), obj.values()
        if layout == "torch.sparse_csc":
            return CSC, obj.ccol_indices(), obj.row_indices(), obj.values()
    return None


def from_gpu(obj: Any, name: str) -> DeviceStorage:
    """The storage that shares the arrays of `obj`.

    Raises:
        DataError: E502 to E504 if index arrays break what they promise.
    """
    cp = cupy()
    parts = _compressed(obj)
    if parts is None:
        array = cp.asarray(obj)
        order = tuple(range(array.ndim))
        if array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous:
            order = order[::-1]
        format = dense(array.ndim) if order == tuple(range(array.ndim)) else _reversed(array.ndim)
        values = cp.ascontiguousarray(array.transpose(order)).reshape(-1)
        shape = tuple(int(n) for n in array.shape)
        return DeviceStorage(shape, format, as_dtype(values.dtype), ({},) * array.ndim, values)
    format, pos, crd, values = parts
    pos, crd, values = (cp.ascontiguousarray(cp.asarray(a)) for a in (pos, crd, values))
    shape = tuple(int(n) for n in obj.shape)
    _check(cp, name, format, pos, crd, values, shape)
    levels: tuple[dict[str, Any], ...] = ({}, {"pos": pos, "crd": crd})
    return DeviceStorage(shape, format, as_dtype(values.dtype), levels, values)


def _reversed(ndim: int) -> Format:
    return Format(dense(ndim).levels, order=tuple(range(ndim))[::-1])


def _check(
    cp: Any, name: str, format: Format, pos: Any, crd: Any, values: Any, shape: tuple[int, ...]
) -> None:
    """What is asked of index arrays from outside, answered on the GPU."""
    rows, columns = (shape[mode] for mode in format.order)
    if pos.size != rows + 1 or crd.size != values.size:
        raise DataError(f"{name} has arrays that do not fit its shape", code="E501")
    if int(pos[0]) != 0 or int(pos[-1]) != crd.size or bool((pos[1:] < pos[:-1]).any()):
        raise DataError(f"the positions of {name} do not rise from 0 to {crd.size}", code="E502")
    if crd.size and (int(crd.min()) < 0 or int(crd.max()) >= columns):
        raise DataError(f"a coordinate of {name} is outside of its mode", code="E503")
    if crd.size > 1:
        starts = cp.zeros(crd.size + 1, dtype=bool)
        starts[pos] = True  # a coordinate may fall where a row begins
        if bool(((crd[1:] <= crd[:-1]) & ~starts[1:-1]).any()):
            raise DataError(
                f"the coordinates of {name} are out of order, or come twice",
                code="E504",
                hint="sort them first: matrix.sort_indices(), matrix.sum_duplicates()",
            )
