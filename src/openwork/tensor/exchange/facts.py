"""What a kernel depends on besides the operation: each operand's format and element type."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property, lru_cache

from openwork.algebra.types import DType, Number, number
from openwork.format.formats import Format, dense
from openwork.frozen import frozen
from openwork.runtime.storage import Storage


@frozen
class Facts:
    """Format, element type, and the value of absent entries. Equal facts share kernels.

    `key` is the fill, or a string for NaN, which does not equal itself. The hash is cached, since
    every eager operation looks up its kernel by the facts of its operands.
    """

    format: Format
    dtype: DType
    key: object
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.format, self.dtype, self.key)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Facts], tuple[object, ...]]:
        return Facts, (self.format, self.dtype, self.key)  # another process hashes differently

    @cached_property
    def reversed(self) -> Facts:
        """The facts of the tensor with its modes reversed."""
        modes = tuple(range(self.format.ndim))[::-1]
        return Facts(self.format.permuted(modes), self.dtype, self.key)

    @property
    def fill(self) -> Number:
        """The value of absent entries."""
        return self.key if isinstance(self.key, bool | int | float | complex) else float("nan")


def facts_for(format: Format, dtype: DType, fill: Number = 0) -> Facts:
    """The facts of a tensor whose absent entries are `fill`, as a `dtype`."""
    held = number(fill, dtype)
    return Facts(format.of(dtype), dtype, held if held == held else "nan")


def facts_of(storage: Storage) -> Facts:
    """The facts of a storage."""
    if storage.alike:
        return _facts_of_array(storage.dtype, storage.format)
    fill = storage.fill
    return Facts(storage.format, storage.dtype, fill if fill == fill else "nan")


@lru_cache(maxsize=256)
def facts_of_rows(dtype: DType, order: int) -> Facts:
    """The facts of an array of numbers by rows."""
    return _facts_of_array(dtype, dense(order))


@lru_cache(maxsize=256)
def _facts_of_array(dtype: DType, format: Format) -> Facts:
    return Facts(format, dtype, 0)
