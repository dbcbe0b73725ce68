"""From the contents of a file to a tensor, as the caller requests it and memory allows."""

from __future__ import annotations

from openwork.algebra.entries import SCALARS, Entry
from openwork.algebra.types import DType, as_dtype
from openwork.format.formats import DCSR, Format, as_format
from openwork.frozen import frozen
from openwork.runtime.memory import check_memory
from openwork.runtime.storage import Array
from openwork.tensor.create import tensor
from openwork.tensor.exchange.interop import tell_of_rows, usual
from openwork.tensor.exchange.validate import check_shape
from openwork.tensor.files.lines.source import Source
from openwork.tensor.functions.entry import named
from openwork.tensor.tensor import Tensor


@frozen
class Request:
    """The properties that the caller of `read` wants; None leaves one to the file."""

    format: Format | None = None
    name: str | None = None
    dtype: DType | None = None
    shape: tuple[int, ...] | None = None

    @classmethod
    def of(
        cls, format: Format | str | None, name: str | None, dtype: object, shape: object
    ) -> Request:
        """The request from the arguments of a call."""
        return cls(
            None if format is None else as_format(format),
            name,
            None if dtype is None else as_dtype(dtype),
            None if shape is None else check_shape(shape),
        )


def check_extents(source: Source, shape: tuple[int, ...], request: Request) -> None:
    """Refuse a format whose outer dense levels do not fit into memory, before reading entries."""
    format = request.format
    if format is None or format.ndim != len(shape):
        return  # chosen to suit the shape, or refused later with its own message
    levels = zip(format.levels, format.order, strict=True)
    rows = 1
    for level, mode in levels:
        if not level.full:
            break
        rows *= shape[mode]
    check_memory(8 * (rows + 1), f"{source.name} in {format!r}")


def as_stored(source: Source, name: str, numbers: Array, request: Request) -> Array:
    """The records of the entry type of this name, one after the other, from their numbers."""
    family, asked = name.partition("<")[0], request.dtype
    entry = named(name)
    if isinstance(asked, Entry) and asked.family == family and entry is None:
        entry = next((each for each in map(asked.over, SCALARS) if each.name == name), None)
    if entry is None:
        raise source.fault(
            f"its elements are {name[:80]!r}, which is no entry type of Openwork",
            hint="if it is yours, define it as it was and pass it: dtype=",
        )
    if numbers.ndim != 1 or numbers.dtype.name != entry.scalar or numbers.size % entry.size:
        shape = "x".join(map(str, numbers.shape))
        raise source.fault(f"{shape} numbers of {numbers.dtype} are not elements of {entry}")
    return numbers.view(entry.dtype)


def from_entries(
    source: Source, coords: Array, values: Array, shape: tuple[int, ...], request: Request
) -> Tensor:
    """The tensor with these entries; duplicates are summed."""
    check_extents(source, shape, request)
    format = request.format or usual(shape, len(values))
    if request.format is None and format == DCSR:
        tell_of_rows(source.name, shape, len(values), calls=4)
    return tensor((coords, values), format, request.name, request.dtype, shape=shape)


def from_object(obj: object, request: Request) -> Tensor:
    """The tensor with the contents of an array, a SciPy matrix or another tensor."""
    return tensor(obj, request.format, request.name, request.dtype)
