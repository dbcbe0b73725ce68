"""CuPy and torch arrays and matrices in GPU memory as storage, validated on the GPU.

Others are recognized by protocol: the CUDA array interface, or DLPack.
"""

from __future__ import annotations

from typing import Any

from openwork.algebra.types import as_dtype
from openwork.errors import DataError, FormatError
from openwork.format.formats import CSC, CSR, Format, dense
from openwork.runtime.gpu.cuda import DeviceStorage, cupy, is_on_gpu
from openwork.runtime.gpu.streams import callers_stream
from openwork.tensor.exchange.torch import is_torch, layout_of, plain

_CUDA = 2  # DLPack's number for it


def is_gpu_object(obj: Any) -> bool:
    """Whether `obj` is an array or a compressed matrix on a GPU."""
    if isinstance(obj, type):
        return False
    if is_torch(obj):
        return bool(obj.is_cuda)
    return is_on_gpu(obj) or _compressed(obj) is not None or _has_dlpack(obj)


def _has_dlpack(obj: Any) -> bool:
    where = getattr(obj, "__dlpack_device__", None)
    return hasattr(obj, "__dlpack__") and where is not None and where()[0] == _CUDA


def _compressed(obj: Any) -> tuple[Format, Any, Any, Any] | None:
    """The format and the arrays of a compressed CuPy or torch matrix."""
    module = type(obj).__module__
    if module.startswith("cupyx.scipy.sparse") and getattr(obj, "format", "") in ("csr", "csc"):
        return (CSR if obj.format == "csr" else CSC), obj.indptr, obj.indices, obj.data
    if is_torch(obj) and layout_of(obj) != "strided":
        return _of_torch(obj)
    return None


def _of_torch(obj: Any) -> tuple[Format, Any, Any, Any]:
    """A sparse torch tensor; torch converts COO to CSR."""
    layout, ordinary = layout_of(obj), obj.ndim == 2 and not obj.dense_dim()
    if ordinary and layout == "sparse_coo":
        obj, layout = obj.coalesce().to_sparse_csr(), "sparse_csr"
    if ordinary and layout == "sparse_csr":
        return CSR, obj.crow_indices(), obj.col_indices(), obj.values()
    if ordinary and layout == "sparse_csc":
        return CSC, obj.ccol_indices(), obj.row_indices(), obj.values()
    raise FormatError(
        f"a torch tensor on a GPU cannot become a tensor: it is {layout}, of {obj.ndim} modes",
        code="E405",
        hint="use a matrix in torch.sparse_csr, sparse_csc or sparse_coo, or .cpu()",
    )


def from_gpu(obj: Any, name: str, share: bool) -> DeviceStorage:
    """The storage that shares the values of `obj`, and with `share` its index arrays.

    Raises:
        DataError: E502 to E504 if index arrays are invalid.
        FormatError: E405 for a torch tensor of an unsupported layout.
    """
    cp, of_torch = cupy(), is_torch(obj)
    with callers_stream(of_torch):
        made = _taken(cp, plain(obj) if of_torch else obj, name, share)
    made.of_torch = of_torch
    return made


def _taken(cp: Any, obj: Any, name: str, share: bool) -> DeviceStorage:
    parts = _compressed(obj)
    if parts is None:
        array = _array(cp, obj)
        order = tuple(range(array.ndim))
        if array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous:
            order = order[::-1]
        format = dense(array.ndim) if order == tuple(range(array.ndim)) else _reversed(array.ndim)
        values = cp.ascontiguousarray(array.transpose(order)).reshape(-1)
        shape = tuple(int(n) for n in array.shape)
        return DeviceStorage(shape, format, as_dtype(values.dtype), ({},) * array.ndim, values)
    format, pos, crd, values = parts
    pos, crd, values = (cp.ascontiguousarray(_array(cp, a)) for a in (pos, crd, values))
    if not share:  # copied before the check, so that checked arrays cannot change
        pos, crd = pos.copy(), crd.copy()
    shape = tuple(int(n) for n in obj.shape)
    _check(cp, name, format, pos, crd, values, shape)
    levels: tuple[dict[str, Any], ...] = ({}, {"pos": pos, "crd": crd})
    dtype = as_dtype(values.dtype)
    return DeviceStorage(shape, format, dtype, levels, values, borrowed=share)


def _array(cp: Any, obj: Any) -> Any:
    """`obj` as a CuPy array."""
    return cp.asarray(obj) if is_on_gpu(obj) else cp.from_dlpack(obj)


def _reversed(ndim: int) -> Format:
    return Format(dense(ndim).levels, order=tuple(range(ndim))[::-1])


def _check(
    cp: Any, name: str, format: Format, pos: Any, crd: Any, values: Any, shape: tuple[int, ...]
) -> None:
    """Validate index arrays from outside on the GPU."""
    rows, columns = (shape[mode] for mode in format.order)
    if pos.size != rows + 1 or crd.size != values.size:
        raise DataError(f"{name} has arrays that do not fit its shape", code="E501")
    if int(pos[0]) != 0 or int(pos[-1]) != crd.size or bool((pos[1:] < pos[:-1]).any()):
        raise DataError(f"the positions of {name} do not rise from 0 to {crd.size}", code="E502")
    if crd.size and (int(crd.min()) < 0 or int(crd.max()) >= columns):
        raise DataError(f"a coordinate of {name} is outside its mode", code="E503")
    if crd.size > 1:
        starts = cp.zeros(crd.size + 1, dtype=bool)
        starts[pos] = True  # a coordinate may decrease where a row begins
        if bool(((crd[1:] <= crd[:-1]) & ~starts[1:-1]).any()):
            raise DataError(
                f"the coordinates of {name} are out of order, or have duplicates",
                code="E504",
                hint="sort them first: matrix.sort_indices(), matrix.sum_duplicates()",
            )
