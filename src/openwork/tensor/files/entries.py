"""From what a file holds to a tensor: what the caller wants of it, and what is too much to ask."""

from __future__ import annotations

from dataclasses import dataclass

from openwork.algebra.types import DType, as_dtype
from openwork.format.formats import Format, as_format
from openwork.runtime.memory import check_memory
from openwork.runtime.storage import Array
from openwork.tensor.create import tensor
from openwork.tensor.files.source import Source
from openwork.tensor.interop import usual
from openwork.tensor.tensor import Tensor
from openwork.tensor.validate import check_shape

# A matrix may have this many rows, and more if it has entries for them, before its default format,
# which takes room for every row, is refused.
_ROWS_UNASKED, _ROWS_PER_ENTRY = 1 << 26, 16


@dataclass(frozen=True)
class Request:
    """What the caller of `read` asks for; None leaves it to the file."""

    format: Format | None = None
    name: str | None = None
    dtype: DType | None = None
    shape: tuple[int, ...] | None = None

    @classmethod
    def of(
        cls, format: Format | str | None, name: str | None, dtype: object, shape: object
    ) -> Request:
        """The request that the arguments of a call make."""
        return cls(
            None if format is None else as_format(format),
            name,
            None if dtype is None else as_dtype(dtype),
            None if shape is None else check_shape(shape),
        )


def check_extents(
    source: Source, shape: tuple[int, ...], entries: int, request: Request, line: int | None = None
) -> None:
    """Refuse a shape whose dense levels would take far more room than the entries justify."""
    format = request.format or usual(shape)
    if format.ndim != len(shape):
        return  # refused later, in words of its own
    levels = zip(format.levels, format.order, strict=True)
    rows = 1
    for level, mode in levels:
        if not level.full:
            break
        rows *= shape[mode]
    if request.format is not None:
        check_memory(8 * (rows + 1), f"{source.name} in {format!r}")
    elif rows > max(_ROWS_UNASKED, _ROWS_PER_ENTRY * entries):
        raise source.fault(
            f"{rows} rows for {entries} entries, too many to take room for each",
            line,
            "if that is right, read it with format=ow.DCSR, which stores rows with entries only",
        )


def from_entries(
    source: Source, coords: Array, values: Array, shape: tuple[int, ...], request: Request
) -> Tensor:
    """The tensor with these entries; of those with the same coordinates the values are summed."""
    check_extents(source, shape, len(values), request)
    return tensor((coords, values), request.format, request.name, request.dtype, shape=shape)


def from_object(obj: object, request: Request) -> Tensor:
    """The tensor that holds what an array, a SciPy matrix or another tensor holds."""
    return tensor(obj, request.format, request.name, request.dtype)
