"""NumPy archives, .npz: SciPy's layouts of sparse matrices, and our own for all other tensors.

Nothing is unpickled, and no array is decompressed before its header agrees with its member's size.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Mapping
from io import BytesIO
from math import prod
from typing import IO, Any

import numpy as np
from scipy import sparse

from openwork.algebra.entries import Entry
from openwork.algebra.types import FLOAT16, SUPPORTED, Number
from openwork.errors import FormatError
from openwork.format.formats import parse_format
from openwork.format.layouts import AOS, TERNARY
from openwork.runtime.memory import check_memory
from openwork.runtime.storage import Array
from openwork.tensor.create import from_arrays
from openwork.tensor.exchange.validate import LARGEST_EXTENT
from openwork.tensor.files.entries import (
    Request,
    as_stored,
    check_extents,
    from_entries,
    from_object,
)
from openwork.tensor.files.lines.faults import shown
from openwork.tensor.files.lines.source import Source
from openwork.tensor.tensor import Tensor

_VERSION = 1
_MOST_MEMBERS = 1000
# The magic bytes of an array, whatever wrote it; nothing else is accepted as a header.
_MAGIC = b"\x93NUMPY"
# Types as `numpy.save` writes them. NumPy reads other characters too, some with a warning.
_HEADER = re.compile(
    rb"\{'descr': '([<>|=]?[biufcSU][0-9]{1,4})', 'fortran_order': (True|False), "
    rb"'shape': \(([0-9, ]*)\),? ?\}\s*\Z"
)
_LONGEST_HEADER = 1 << 12
_VERSIONS = (b"\1\0", b"\2\0", b"\3\0")
_MOST_MODES = 64


def read_archive(source: Source, request: Request) -> Tensor:
    """The tensor in an archive written by SciPy or Openwork."""
    with zipfile.ZipFile(source.seekable()) as archive:
        members = archive.infolist()
        if len(members) > _MOST_MEMBERS:
            raise source.fault(f"a tensor does not have {len(members)} members")
        sizes = {info.filename.removesuffix(".npy"): info for info in members}
        if len(sizes) != len(members):
            raise source.fault("an array is duplicated")
        check_memory(sum(info.file_size for info in members), f"{source.name}, decompressed,")
        arrays = {name: _read_array(source, archive, info) for name, info in sizes.items()}
    if "openwork" in arrays:
        return _from_ours(source, arrays, request)
    return _from_scipys(source, arrays, request)


def _read_array(source: Source, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    """One array, whose header must agree with the size that the archive states."""
    with archive.open(info) as member:
        shape, by_columns, dtype = _read_header(source, member, info.filename)
        size, held = prod(shape) * dtype.itemsize, info.file_size - member.tell()
        if size != held:
            raise source.fault(f"{info.filename} claims {size} bytes of data, but has {held}")
        data = np.frombuffer(member.read(size), dtype=dtype)
    return data.reshape(shape, order="F" if by_columns else "C")


def _read_header(source: Source, member: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, Any]:
    """The shape, whether columns are contiguous, and the element type of an array."""
    magic, version = member.read(len(_MAGIC)), member.read(2)
    length = int.from_bytes(member.read(2 if version[:1] == b"\1" else 4), "little")
    text = member.read(length) if length <= _LONGEST_HEADER else b""
    match = _HEADER.match(text)
    if magic != _MAGIC or version not in _VERSIONS or match is None:
        raise source.fault(f"{name} is not an array of plain numbers: {shown(text)}")
    words = match[3].replace(b" ", b"").rstrip(b",")
    shape = [int(word or b"-1") for word in words.split(b",")] if words else []
    dtype = np.dtype(match[1].decode())
    if len(shape) > _MOST_MODES or min(shape, default=0) < 0:
        raise source.fault(f"{name} holds {dtype} of shape {shape}")
    return tuple(shape), match[2] == b"True", dtype


def _wanted(source: Source, arrays: Mapping[str, Array], name: str) -> Array:
    if name not in arrays:
        hint = "read an archive of other arrays with numpy.load, and pass them to ow.tensor"
        raise source.fault(f"it has no array {name!r}", hint=hint)
    return arrays[name]


def _integers(source: Source, arrays: Mapping[str, Array], name: str) -> Array:
    array = _wanted(source, arrays, name)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise source.fault(f"{name!r} has {array.ndim} dimensions of {array.dtype}")
    return array


def _text(source: Source, arrays: Mapping[str, Array], name: str) -> str:
    array = _wanted(source, arrays, name)
    if array.ndim != 0 or array.dtype.kind not in "SU":
        raise source.fault(f"{name!r} is not a string")
    value = array.item()
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)


def _shape(source: Source, arrays: Mapping[str, Array]) -> tuple[int, ...]:
    array = _wanted(source, arrays, "shape")
    plain = array.ndim == 1 and (array.dtype.kind in "iu" or not array.size)
    extents = array.tolist() if plain else [-1]
    if any(not 0 <= extent <= LARGEST_EXTENT for extent in extents):
        raise source.fault(f"its shape is {np.array2string(array, threshold=8)}")
    return tuple(map(int, extents))


# SciPy's layouts


def _from_scipys(source: Source, arrays: Mapping[str, Array], request: Request) -> Tensor:
    format, shape = _text(source, arrays, "format"), _shape(source, arrays)
    data = _wanted(source, arrays, "data")
    if data.dtype.kind not in "biufc":
        raise source.fault(f"its data are {data.dtype}")
    if len(shape) not in (1, 2) and format != "coo":
        raise source.fault(f"a {format} matrix of {len(shape)} modes")
    check_extents(source, shape, request)
    if format == "coo":
        columns = arrays.get("coords")
        if columns is None:
            columns = np.array([_integers(source, arrays, name) for name in ("row", "col")])
        return from_entries(source, columns, data, shape, request)
    if format == "dia":
        pair: Any = (data, _integers(source, arrays, "offsets"))
        return from_object(sparse.dia_array(pair, shape=shape), request)  # type: ignore[arg-type]
    if format not in _RUNS:
        raise source.fault(f"SciPy's format {format!r} is not one of {', '.join(_RUNS)}, coo, dia")
    if format == "bsr" and (data.ndim != 3 or 0 in data.shape[1:]):
        raise source.fault(f"blocks of shape {data.shape[1:]}")
    runs = (data, _integers(source, arrays, "indices"), _integers(source, arrays, "indptr"))
    return from_object(_RUNS[format](runs, shape=shape), request)


_RUNS: dict[str, Callable[..., Any]] = {
    "csr": sparse.csr_array,
    "csc": sparse.csc_array,
    "bsr": sparse.bsr_array,
}


# Ours: the text of the format, and the arrays of its levels by their names


def _from_ours(source: Source, arrays: Mapping[str, Array], request: Request) -> Tensor:
    version = arrays["openwork"]
    if version.ndim or version.dtype.kind not in "iu" or version.item() != _VERSION:
        raise source.fault("a later version of Openwork wrote it")
    text = _text(source, arrays, "levels")
    try:
        format = parse_format(text)
    except FormatError as error:
        raise source.fault(f"{text[:80]!r} is not a format") from error
    levels: list[dict[str, Array]] = [{} for _ in format.levels]
    for n, level in enumerate(format.levels):
        for fact in level.arrays:
            levels[n][fact.name] = _wanted(source, arrays, f"level{n}.{fact.name}")
    fill = _wanted(source, arrays, "fill")
    if fill.ndim or fill.dtype.name not in SUPPORTED:
        raise source.fault(f"absent entries cannot be an array of {fill.dtype}")
    value: Number = fill.item()
    values = _wanted(source, arrays, "values")
    if "entry" in arrays:
        values = as_stored(source, _text(source, arrays, "entry"), values, request)
    made = from_arrays(format, _shape(source, arrays), levels, values, request.name, value)
    return from_object(made, request)


def write_archive(source: Tensor, symmetry: str) -> Callable[[IO[bytes]], None]:
    """Check that a tensor can be written, and return its writer."""
    made = BytesIO()  # an archive needs a seekable stream, which a compressed one is not
    entry = source.dtype if isinstance(source.dtype, Entry) else None
    zeros = source.fill == 0 or source.format.is_dense
    if source.order == 2 and zeros and entry is None and source.dtype != FLOAT16:
        sparse.save_npz(made, source.to_scipy())
    else:
        storage = source.storage
        if storage.format.layout == TERNARY:  # whose arrays do not tell the type of the elements
            storage = storage.laid_out(AOS)
        arrays: dict[str, Any] = {
            f"level{n}.{name}": array
            for n, level in enumerate(storage.levels)
            for name, array in level.items()
        }
        if entry is not None:
            arrays["entry"] = np.array(entry.name)
        np.savez_compressed(
            made,
            openwork=np.int64(_VERSION),
            levels=np.array(str(storage.format)),
            shape=np.array(storage.shape, dtype=np.int64),
            fill=np.array(storage.fill, dtype=float if entry is not None else storage.dtype),
            values=storage.values,
            **arrays,
        )
    return lambda stream: stream.writelines([made.getbuffer()])
