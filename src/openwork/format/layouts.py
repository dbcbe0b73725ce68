"""Layouts: where the numbers of records lie in memory, apart from the order that levels give them.

Levels give each record a place. A layout turns the place, and the number's index in its record,
into an address. `AoS` keeps records together, `SoA` has an array for each number, and `AoSoA(k)`
has groups of `k` records with an array for each number. `packed` records begin with the coordinate
of the last level. `ternary` numbers, which are -1, 0 and 1, are the first two bits of that
coordinate. The formulas are ordinary Python: over integers, arrays, or expressions of the
program representation.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any

import numpy as np

from openwork.algebra.operators import BITWISE_AND, RIGHT_SHIFT, Op
from openwork.errors import FormatError, Span
from openwork.frozen import frozen

Array = np.ndarray[Any, Any]

AOS, SOA, PACKED, TERNARY = "AoS", "SoA", "packed", "ternary"
WITH_COORDINATES = (PACKED, TERNARY)  # layouts of values and coordinates together
_GROUPS = re.compile(r"AoSoA\s*\(\s*(\d+)\s*\)$")
_MOST_LANES = 1 << 10

# Each array of an SoA layout starts at a multiple of so many numbers, for aligned vectors.
_ALIGNED = 32
_UNENDING = 1 << 62  # more lanes than there are places: one group has them all


@frozen
class Placement(ABC):
    """Where records of `size` numbers lie in an array of numbers."""

    size: int

    @abstractmethod
    def at(self, place: Any, number: int, stride: Any) -> Any:
        """The address of a number of the record at `place`."""

    @abstractmethod
    def room(self, count: Any) -> Any:
        """How many numbers an array of `count` records has, with padding."""

    @abstractmethod
    def apart(self, numbers: Array) -> Array:
        """A view of an array in which the last axis counts the numbers of a record."""

    @abstractmethod
    def steps(self, stride: int) -> tuple[int, int, int, int, int]:
        """The address of a number as a formula, `lanes, group, lane, number, first`.

        place // lanes * group + place % lanes * lane + index * number + first
        """

    strided = False  # whether `at` depends on the stride

    def stride(self, total: int) -> int:
        """How far apart the numbers of a record are in an array of `total` numbers."""
        return total // self.size

    def gathered(self, numbers: Array, count: int) -> Array:
        """The first `count` records, in rows; a view if they lie in rows already."""
        return self.apart(numbers).reshape(-1, self.size)[:count]

    def scatter(self, records: Array, numbers: Array) -> None:
        """Put records that lie in rows where they belong."""
        places, count = self.apart(numbers), len(records)
        if places.ndim == 2:
            places[:count] = records
            return
        lanes = places.shape[1]
        whole = count // lanes
        places[:whole] = records[: whole * lanes].reshape(whole, lanes, self.size)
        places[whole:, : count - whole * lanes] = records[whole * lanes :]


@frozen
class Together(Placement):
    """Record after record: every `step` numbers one, whose own numbers begin at `first`."""

    step: int
    first: int = 0

    def at(self, place: Any, number: int, stride: Any) -> Any:
        return place * self.step + (self.first + number)

    def room(self, count: Any) -> Any:
        return count * self.step

    def steps(self, stride: int) -> tuple[int, int, int, int, int]:
        return _UNENDING, 0, self.step, 1, self.first

    def apart(self, numbers: Array) -> Array:
        return numbers.reshape(-1, self.step)[:, self.first : self.first + self.size]


@frozen
class Apart(Placement):
    """An array for each number of a record, one after the other."""

    strided = True

    def at(self, place: Any, number: int, stride: Any) -> Any:
        return place + stride * number

    def room(self, count: Any) -> Any:
        return (count + (_ALIGNED - 1)) // _ALIGNED * (_ALIGNED * self.size)

    def steps(self, stride: int) -> tuple[int, int, int, int, int]:
        return _UNENDING, 0, 1, stride, 0

    def apart(self, numbers: Array) -> Array:
        return numbers.reshape(self.size, -1).transpose()


@frozen
class Grouped(Placement):
    """Groups of `lanes` records, with an array for each number."""

    lanes: int

    def at(self, place: Any, number: int, stride: Any) -> Any:
        group = place // self.lanes * (self.lanes * self.size)
        return group + place % self.lanes + number * self.lanes

    def room(self, count: Any) -> Any:
        return (count + (self.lanes - 1)) // self.lanes * (self.lanes * self.size)

    def steps(self, stride: int) -> tuple[int, int, int, int, int]:
        return self.lanes, self.lanes * self.size, 1, self.lanes, 0

    def apart(self, numbers: Array) -> Array:
        return numbers.reshape(-1, self.size, self.lanes).swapaxes(1, 2)


@frozen
class Bits(Placement):
    """Integers whose first two bits are a number, -1, 0 or 1, and whose others are a coordinate.

    `words`: their type. `number`: whether it is the number that is read, or the coordinate.
    """

    words: str
    number: bool = True

    @property
    def shift(self) -> int:
        """By how many bits the number is shifted."""
        return 8 * np.dtype(self.words).itemsize - 2

    @property
    def mask(self) -> int:
        """The bits of the coordinate."""
        return (1 << self.shift) - 1

    @property
    def read(self) -> tuple[Op, int]:
        """What gives the bits: an operator, and its second argument."""
        return (RIGHT_SHIFT, self.shift) if self.number else (BITWISE_AND, self.mask)

    def at(self, place: Any, number: int, stride: Any) -> Any:
        return place

    def room(self, count: Any) -> Any:
        return count

    def steps(self, stride: int) -> tuple[int, int, int, int, int]:
        return _UNENDING, 0, 1, 1, 0

    def apart(self, numbers: Array) -> Array:
        return numbers.reshape(-1, 1)


def moved(source: Array, of: Placement, made: Array, to: Placement, count: int) -> None:
    """Copy the first `count` records of an array to where they belong in another layout."""
    to.scatter(of.gathered(source, count), made)


@lru_cache(maxsize=256)
def check_layout(text: str) -> str:
    """The layout that `text` names, as it is spelled.

    >>> check_layout("AoSoA( 8 )")
    'AoSoA(8)'
    """
    if text in (AOS, SOA, PACKED, TERNARY):
        return text
    groups = _GROUPS.match(text)
    if groups is not None and 2 <= int(groups[1]) <= _MOST_LANES:
        return f"AoSoA({int(groups[1])})"
    raise FormatError(
        f"{text!r} is not a layout",
        code="E403",
        span=Span(text, 0, len(text)),
        hint="'AoS', 'SoA', 'AoSoA(8)' with the records of a group, 'packed', or 'ternary'",
    )


def lanes_of(layout: str) -> int:
    """How many records of a group have an array for each number; 0 without groups."""
    groups = _GROUPS.match(layout)
    return 0 if groups is None else int(groups[1])


@lru_cache(maxsize=256)
def placement(layout: str, size: int, width: int, beside: int = 0) -> Placement:
    """Where a layout has records of `size` numbers of `width` bytes each.

    `beside`: the bytes of the coordinate that a packed record begins with.

    >>> placement("packed", 1, 8, 4), placement("packed", 4, 4, 4)
    (Together(size=1, step=2, first=1), Together(size=4, step=5, first=1))
    """
    if layout == SOA:
        return Apart(size)
    if layout == TERNARY:
        return Bits(size, f"int{8 * beside}")
    if layout == PACKED:
        return Together(size, _packed_bytes(size, width, beside) // width, -(-beside // width))
    lanes = lanes_of(layout)
    return Grouped(size, lanes) if lanes else Together(size, size)


@lru_cache(maxsize=256)
def coordinate_placement(layout: str, size: int, width: int, beside: int) -> Placement:
    """Where coordinates lie that are packed with records, counted in coordinates."""
    if layout == TERNARY:
        return Bits(1, f"int{8 * beside}", number=False)
    return Together(1, _packed_bytes(size, width, beside) // beside)


def _packed_bytes(size: int, width: int, beside: int) -> int:
    """A packed record as a C structure: each part aligned to its own size."""
    aligned = max(width, beside)
    used = -(-beside // width) * width + size * width
    return -(-used // aligned) * aligned
