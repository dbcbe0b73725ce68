"""Binsparse files, .bsp.h5: arrays in an HDF5 file, and a descriptor in JSON that explains them.

See https://graphblas.org/binsparse-specification; the predefined formats of vectors and matrices
are read and written. The specification has `complex[float32]` for values that are pairs of numbers;
we write other records likewise, as `quaternion[float32]`. Only this module needs the package h5py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from io import BytesIO
from math import prod
from typing import IO, Any

import numpy as np
from scipy import sparse

from openwork.algebra.entries import SCALARS, Complex, Entry
from openwork.algebra.types import SUPPORTED
from openwork.errors import DataError, FormatError
from openwork.format.formats import CSC, CSF, CSR, DCSC, DCSR, Format, dense
from openwork.frozen import frozen
from openwork.runtime.memory import check_memory
from openwork.runtime.storage import Array, as_complex
from openwork.tensor.create import from_arrays, tensor
from openwork.tensor.exchange.validate import LARGEST_EXTENT
from openwork.tensor.files.entries import Request, as_stored, check_extents, from_object
from openwork.tensor.files.lines.faults import shown
from openwork.tensor.files.lines.source import Source
from openwork.tensor.files.symmetry import expanded
from openwork.tensor.tensor import Tensor

# The arrays of each format besides the values, and how many modes it has.
_ARRAYS: dict[str, tuple[int, tuple[str, ...]]] = {
    "DVEC": (1, ()),
    "CVEC": (1, ("indices_0",)),
    "DMATR": (2, ()),
    "DMATC": (2, ()),
    "COOR": (2, ("indices_0", "indices_1")),
    "COOC": (2, ("indices_0", "indices_1")),
    "CSR": (2, ("pointers_to_1", "indices_1")),
    "CSC": (2, ("pointers_to_1", "indices_1")),
    "DCSR": (2, ("indices_0", "pointers_to_1", "indices_1")),
    "DCSC": (2, ("indices_0", "pointers_to_1", "indices_1")),
}
_VERSION, _MAJOR = "0.1", ("0", "1")
_OTHER_NAMES = {"COO": "COOR", "DMAT": "DMATR", "VEC": "CVEC"}
_STRUCTURE = re.compile(r"(symmetric|skew_symmetric|hermitian)_(lower|upper)\Z")
_TYPE = re.compile(r"(?:(iso|complex)\[)?(?:(iso|complex)\[)?([a-z0-9]+)\]{0,2}\Z")
_RECORDS = re.compile(rf"([^<>\[\]]+)\[({'|'.join(SCALARS)})\]\Z")
_MOST_SHRUNK = 1032
_UNPACKED_ANYWAY = 1 << 20  # bytes


@frozen
class _Descriptor:
    """The contents of the JSON descriptor, validated."""

    format: str
    shape: tuple[int, ...]
    stored: int | None
    types: Mapping[str, str]
    structure: tuple[str, str] | None
    fill: bool


def _h5py() -> Any:
    try:
        import h5py  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise DataError(
            "binsparse files need the package h5py, which is not installed",
            code="E510",
            hint="pip install 'openwork[hdf5]'",
        ) from error
    return h5py


def read_binsparse(source: Source, request: Request) -> Tensor:
    """The vector or matrix in a binsparse file."""
    h5py = _h5py()
    with h5py.File(source.seekable(), "r") as file:
        told = _describe(source, file.attrs.get("binsparse"))
        names = (*_ARRAYS[told.format][1], "values", *(("fill_value",) if told.fill else ()))
        entry, types = _numbers_of(told.types)
        arrays = {name: _array(source, h5py, file, name, types) for name in names}
    if entry is not None:
        if told.structure is not None:
            raise source.fault(f"{told.structure[0]}, but of {entry}")
        arrays["values"] = as_stored(source, entry, arrays["values"], request)
    return _assembled(source, told, arrays, request)


# The descriptor


def _describe(source: Source, text: object) -> _Descriptor:
    if not isinstance(text, str | bytes):
        raise source.fault("it has no attribute 'binsparse'")
    told = json.loads(text)
    told = told.get("binsparse", told) if isinstance(told, dict) else told
    if not isinstance(told, dict):
        raise source.fault("its descriptor is not a JSON object")
    version = told.get("version", _VERSION)
    if not isinstance(version, str) or version.split(".")[0] not in _MAJOR:
        raise source.fault(f"its version is {str(version)[:40]!r}, but {_VERSION} is supported")
    format, types = told.get("format"), told.get("data_types")
    format = _OTHER_NAMES.get(format, format) if isinstance(format, str) else None
    if format not in _ARRAYS:
        known = ", ".join((*_ARRAYS, *_OTHER_NAMES))
        raise source.fault(f"the format {str(told.get('format'))[:40]!r} is not one of {known}")
    if not isinstance(types, dict) or not all(isinstance(name, str) for name in types.values()):
        raise source.fault("its descriptor has no data_types")
    shape, stored = told.get("shape"), told.get("number_of_stored_values")
    if not isinstance(shape, list) or not all(map(_is_count, shape)):
        raise source.fault(f"its shape is {str(shape)[:40]}")
    if len(shape) != _ARRAYS[format][0]:
        raise source.fault(f"{format} with {len(shape)} modes")
    if stored is not None and not _is_count(stored):
        raise source.fault(f"the number of stored values is {str(stored)[:40]}")
    structure = told.get("structure")
    match = _STRUCTURE.match(structure) if isinstance(structure, str) else None
    if structure not in (None, "general") and match is None:
        raise source.fault(f"the structure {str(structure)[:40]!r} is not defined")
    if match and (len(shape) != 2 or shape[0] != shape[1]):
        raise source.fault(f"{structure}, but not square: {'x'.join(map(str, shape))}")
    half = (match[1].replace("_", "-"), match[2]) if match else None
    return _Descriptor(format, tuple(shape), stored, types, half, told.get("fill") is True)


def _is_count(value: object) -> bool:
    plain = isinstance(value, int) and not isinstance(value, bool)
    return plain and 0 <= value <= LARGEST_EXTENT  # type: ignore[operator]


# Arrays


def _array(source: Source, h5py: Any, file: Any, name: str, types: Mapping[str, str]) -> Array:
    """An array within the file, of the type that the descriptor names, with all its data."""
    link = file.get(name, getlink=True)
    if link is None:
        raise source.fault(f"it has no array {name}")
    data = file[name] if isinstance(link, h5py.HardLink) else None
    if not isinstance(data, h5py.Dataset) or data.is_virtual or data.external:
        raise source.fault(f"{name} is not an array within the file")
    type_name = types.get(name, "")
    dtype, modifiers = _type(source, name, type_name)
    native = "complex" in modifiers and data.dtype.kind == "c"
    if data.ndim != 1 or not (data.dtype.newbyteorder("=") == dtype or native):
        shape = "x".join(map(str, data.shape))
        wanted = shown(type_name.encode())
        raise source.fault(f"{name} is {shape} of {data.dtype}, not {wanted}")
    size = data.size * data.dtype.itemsize
    if size > max(_UNPACKED_ANYWAY, _MOST_SHRUNK * data.id.get_storage_size()):
        raise source.fault(f"{name} claims {data.size} elements, but has no data for them")
    check_memory(size, f"{name} of {source.name}")
    made = np.asarray(data[()]).astype(data.dtype.newbyteorder("="), copy=False)
    if "complex" in modifiers and not native:
        if made.size % 2:
            raise source.fault(f"{name} holds an odd number of real and imaginary parts")
        made = made.view(np.result_type(made.dtype, np.complex64))
    if "bint8" in type_name:
        made = made != 0
    if "iso" in modifiers and made.size != 1:
        raise source.fault(f"{name} has {made.size} values, but must have one that all share")
    return made


def _numbers_of(types: Mapping[str, str]) -> tuple[str | None, Mapping[str, str]]:
    """The entry type of values that are records, and the types with that of their numbers.

    >>> _numbers_of({"values": "quaternion[float32]"})
    ('quaternion<float32>', {'values': 'float32'})
    """
    text = types.get("values", "")
    match = None if _TYPE.match(text) else _RECORDS.match(text)
    if match is None:
        return None, types
    return f"{match[1]}<{match[2]}>", {**types, "values": match[2]}


def _type(source: Source, name: str, text: str) -> tuple[Any, tuple[str, ...]]:
    """The stored element type of an array, and its modifiers."""
    match = _TYPE.match(text)
    plain = match and ("uint8" if match[3] == "bint8" else match[3])
    if match is None or plain not in SUPPORTED or plain == "bool":
        raise source.fault(f"the type of {name} is {shown(text.encode())}")
    modifiers = tuple(word for word in match.groups()[:2] if word)
    if "complex" in modifiers and plain not in ("float32", "float64"):
        raise source.fault(f"the type of {name} is {shown(text.encode())}")
    return np.dtype(plain), modifiers


# From arrays to a tensor, and back


def _assembled(
    source: Source, told: _Descriptor, arrays: dict[str, Array], request: Request
) -> Tensor:
    values, shape = arrays["values"], told.shape
    indices = arrays.get("indices_1", arrays.get("indices_0"))
    count = prod(shape) if indices is None else indices.size
    iso = told.types["values"].startswith("iso")
    if values.size != (1 if iso else count) or told.stored not in (None, count):
        stated = "" if told.stored is None else f", but {told.stored} are stated"
        raise source.fault(f"{values.size} values for {count} positions{stated}")
    if iso:
        check_memory(count * values.itemsize, source.name)
        values = np.full(count, values[0])
    check_extents(source, shape, request)
    fill = arrays["fill_value"] if told.fill else np.zeros(1)
    if fill.size != 1:
        raise source.fault(f"fill_value has {fill.size} values")
    made = _BUILD[told.format](arrays, values, shape, request.name)
    if told.structure is not None:
        made = _whole(source, made, *told.structure, request.name)
    if told.fill and fill[0] != 0:
        made = tensor(made, name=request.name, fill=fill[0].item())
    return from_object(made, request)


def _whole(source: Source, half: Any, symmetry: str, side: str, name: str | None) -> Tensor:
    """The matrix of which `half` is one triangle."""
    stored = tensor(half, name=name)
    coords, values = stored.to_coo()
    if stored.format.is_dense:
        kept = coords[0] >= coords[1] if side == "lower" else coords[0] <= coords[1]
        coords, values = coords[:, kept], values[kept]
    outside = coords[0] < coords[1] if side == "lower" else coords[0] > coords[1]
    if outside.any():
        n = int(outside.argmax())
        entry = f"({coords[0, n]}, {coords[1, n]})"
        raise source.fault(f"entry {entry} is not in the {side} triangle, the only one stored")
    format = stored.format
    return tensor(expanded(coords, values, symmetry), format, name, shape=stored.shape)


def _coordinates(rows: str, columns: str) -> Callable[..., Any]:
    return lambda arrays, values, shape, name: tensor(
        (np.array([arrays[rows], arrays[columns]]), values), name=name, shape=shape
    )


def _doubly(format: Any) -> Callable[..., Any]:
    def build(arrays: Mapping[str, Array], values: Array, shape: Any, name: str | None) -> Tensor:
        outer = arrays["indices_0"]
        levels = [([0, len(outer)], outer), (arrays["pointers_to_1"], arrays["indices_1"])]
        return from_arrays(format, shape, levels, values, name)

    return build


def _runs(make: Callable[..., Any], format: Format) -> Callable[..., Any]:
    def build(arrays: Mapping[str, Array], values: Array, shape: Any, name: str | None) -> Any:
        pos, crd = arrays["pointers_to_1"], arrays["indices_1"]
        if values.dtype.names is not None:  # SciPy has no records
            return from_arrays(format, shape, [None, (pos, crd)], values, name)
        return make((values, crd, pos), shape=shape)

    return build


_BUILD: dict[str, Callable[..., Any]] = {
    "DVEC": lambda arrays, values, shape, name: values,
    "CVEC": lambda arrays, values, shape, name: tensor(
        (arrays["indices_0"][None], values), name=name, shape=shape
    ),
    "DMATR": lambda arrays, values, shape, name: values.reshape(shape),
    "DMATC": lambda arrays, values, shape, name: values.reshape(shape, order="F"),
    "COOR": _coordinates("indices_0", "indices_1"),
    "COOC": _coordinates("indices_1", "indices_0"),
    "CSR": _runs(sparse.csr_array, CSR),
    "CSC": _runs(sparse.csc_array, CSC),
    "DCSR": _doubly(DCSR),
    "DCSC": _doubly(DCSC),
}
_WRITTEN = {
    "DVEC": dense(1),
    "CVEC": CSF(1),
    "DMATR": dense(2),
    "DMATC": dense(2, (1, 0)),
    "CSR": CSR,
    "CSC": CSC,
    "DCSR": DCSR,
    "DCSC": DCSC,
}


def write_binsparse(source: Tensor, symmetry: str) -> Callable[[IO[bytes]], None]:
    """Check that a vector or matrix can be written, and return its writer."""
    h5py = _h5py()
    if source.order not in (1, 2):
        raise FormatError(
            f"{source.name} has {source.order} modes, but binsparse files of vectors and matrices "
            "are written",
            code="E404",
            hint="use .npz or .tns",
        )
    if isinstance(source.dtype, Complex):
        source = source.astype(as_complex(source.dtype))
    if source.format not in _WRITTEN.values():
        source = source.to(CSF(1) if source.order == 1 else DCSR)
    format = next(name for name, known in _WRITTEN.items() if known == source.format)
    arrays, values = _index_arrays(source, format), source.storage.values
    types = {name: str(array.dtype) for name, array in arrays.items()}
    types["values"] = str(values.dtype)
    if values.dtype == bool:
        values, types["values"] = values.astype(np.uint8), "bint8"
    told: dict[str, Any] = {"version": _VERSION, "format": format, "shape": list(source.shape)}
    if isinstance(source.dtype, Entry):
        types["values"] = f"{source.dtype.family}[{source.dtype.scalar}]"
    stored = source.storage.places
    told |= {"number_of_stored_values": stored, "data_types": types}
    if values.dtype.kind == "c":
        part = np.dtype(f"f{values.itemsize // 2}")
        values, types["values"] = values.view(part), f"complex[{part.name}]"
    arrays["values"] = values
    if source.fill != 0 and not source.format.is_dense:
        if source.dtype.kind in "bc":
            raise FormatError("absent entries that are not 0 must be real", code="E404")
        arrays["fill_value"] = np.array([source.fill], dtype=values.dtype)
        told["fill"], types["fill_value"] = True, str(values.dtype)
    made = BytesIO()  # HDF5 needs a seekable stream, which a compressed one is not
    with h5py.File(made, "w") as file:
        file.attrs["binsparse"] = json.dumps({"binsparse": told})
        for name, array in arrays.items():
            file.create_dataset(name, data=array)
    return lambda stream: stream.writelines([made.getbuffer()])


def _index_arrays(source: Tensor, format: str) -> dict[str, Array]:
    """The arrays of the levels under their names here; the root's positions are implicit."""
    levels = source.storage.levels
    inner = levels[-1]
    known = {"indices_0": levels[0].get("crd"), "indices_1": inner.get("crd")}
    known["pointers_to_1"] = inner.get("pos")
    return {name: known[name] for name in _ARRAYS[format][1]}  # type: ignore[misc]
