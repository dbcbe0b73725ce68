"""How data of a type lies in memory: buffers of records, and arrays of the program over them.

Nested arrays are flat: row after row. A pair of numbers in an array is a record, whose fields lie
side by side. A pair of arrays has a buffer for each. So `[(int, float)]_n` is one buffer, and
`([int]_n, [float]_n)` are two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from openwork.frozen import frozen
from openwork.program import nodes as p
from openwork.program.expressions import Role
from openwork.skeletons.language.nodes import ArrayType, Nat, PairType, Scalar, Type, nat

Path = tuple[int, ...]


def is_record(type: Type) -> bool:
    """Whether values of this type lie in one place: numbers, and pairs of them."""
    match type:
        case PairType(first=first, second=second):
            return is_record(first) and is_record(second)
    return isinstance(type, Scalar)


def record_dtype(type: Type) -> np.dtype[Any]:
    """The NumPy type of a record: its fields are called `first` and `second`."""
    match type:
        case Scalar(name=name):
            return np.dtype(name)
        case PairType(first=first, second=second):
            fields = [("first", record_dtype(first)), ("second", record_dtype(second))]
            return np.dtype(fields, align=True)
    raise TypeError(type)


def fields_of(type: Type, path: Path = (), offset: int = 0) -> Iterator[tuple[Path, str, int]]:
    """The numbers of a record: where each is in the pairs, its type, and its offset in bytes."""
    match type:
        case Scalar(name=name):
            yield path, name, offset
        case PairType(first=first, second=second):
            places = record_dtype(type).fields
            assert places is not None  # noqa: S101 - a structured type has fields
            yield from fields_of(first, (*path, 1), offset + places["first"][1])
            yield from fields_of(second, (*path, 2), offset + places["second"][1])


@frozen
class Field:
    """One number of a buffer's records, as an array of the program: at `scale * n + shift`."""

    array: p.Array
    scale: int
    shift: int

    def place(self, index: p.Expr) -> p.Expr:
        """Where the number of record `index` is."""
        scaled = index if self.scale == 1 else index * self.scale
        return scaled + self.shift


@frozen
class Buffer:
    """One piece of memory of a parameter or a result; `path`: in which pair of arrays it is."""

    name: str
    owner: str
    path: Path
    record: Type
    fields: dict[Path, Field]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type of a record."""
        return record_dtype(self.record)


def buffers_of(name: str, owner: str, type: Type) -> Iterator[Buffer]:
    """The buffers of a parameter `owner`, called `name` in the program."""
    for number, (path, record) in enumerate(_leaves(type)):
        own = f"{name}_{number}" if path else name
        dtype, fields = record_dtype(record), {}
        found = list(fields_of(record))
        for n, (place, scalar, offset) in enumerate(found):
            size = np.dtype(scalar).itemsize
            spelled = own if len(found) == 1 else f"{own}_f{n}"
            array = p.Array(spelled, scalar, Role.VALUE, spelled)
            fields[place] = Field(array, dtype.itemsize // size, offset // size)
        yield Buffer(own, owner, path, record, fields)


def _leaves(type: Type, path: Path = ()) -> Iterator[tuple[Path, Type]]:
    if is_record(type):
        yield path, type
    elif isinstance(type, PairType):
        yield from _leaves(type.first, (*path, 1))
        yield from _leaves(type.second, (*path, 2))
    elif isinstance(type, ArrayType):
        yield from _leaves(type.element, path)


Summed = Callable[[Nat, Nat, Callable[[Nat], Nat]], Nat]


def size(type: Type, path: Path, total: Summed) -> Nat:
    """How many records of the buffer `path` a value has; `total` adds up lengths."""
    if is_record(type):
        return nat(1)
    if isinstance(type, PairType):
        return size(type.first if path[0] == 1 else type.second, path[1:], total)
    assert isinstance(type, ArrayType)  # noqa: S101 - there is no other type
    return total(type.length, type.length, lambda k: size(type.at(k), path, total))
