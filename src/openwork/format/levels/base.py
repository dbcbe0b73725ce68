"""What a level is: formulas over its arrays, properties, and how entries are packed into it.

A level maps each place of the level above it, its *parent*, to a run of entries. Formulas are
ordinary Python over whatever is given to them: NumPy arrays and integers when a tensor is unpacked
or drawn, expressions of the program representation when code is generated. So the compiler needs
to know no level by name, and a new level is one file: see docs/levels.md.

The *position* counts along a run, from `begin` to `end`; the *place* is where the entry lies among
all entries of the level. For most levels both are the same; where runs are strided they are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from openwork.errors import FormatError
from openwork.format.levels.width import index_dtype

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ArrayFact:
    """An index array of a level.

    `per`: it has one entry per "parent" (and `extra` more), one per "child", or as many as the
    level says in `lengths` ("own"). `holds`: "coordinates", "positions", or other "numbers".
    """

    name: str
    per: str
    extra: int = 0
    holds: str = "coordinates"


@dataclass(frozen=True)
class Entries:
    """What is to be packed into a level: a place of the parent and a coordinate for each entry.

    Parents rise, and coordinates rise below one parent. `below`: how many entries of the whole
    tensor each of them stands for.
    """

    parent: Array
    coordinate: Array
    below: Array
    parents: int
    extent: int

    @property
    def counts(self) -> Array:
        """How many entries each parent has."""
        return np.bincount(self.parent, minlength=self.parents)

    @property
    def rank(self) -> Array:
        """The number of each entry in its run."""
        counts = self.counts
        first: Array = np.cumsum(counts) - counts
        return np.arange(len(self.parent)) - first[self.parent]


@dataclass(frozen=True)
class Packed:
    """A packed level: its arrays, where each entry lies, and how many places there are."""

    arrays: Mapping[str, Array]
    places: Array
    count: int


@dataclass(frozen=True)
class Fault:
    """What is wrong with an array from outside."""

    array: str
    reason: str


class Level:
    """The facts of a level.

    Properties: `full` (every coordinate is there), `ordered` (coordinates rise within a run),
    `unique` (none twice in a run), `compact` (every place holds an entry), `contiguous` (runs lie
    one after another, a place for each position). Capabilities: `walks` (a run can be walked),
    `locates` (every coordinate has a place, given by formula), `finds` (a formula says where a
    coordinate would be, and whether it is there), `searches` (the coordinates of a run lie in one
    array), `appends` (a result can be built by appending in coordinate order), `inserts` (sums of a
    result are gathered in a hash table, whatever its extents), `lists` (a workspace keeps a list of
    its keys, and no array is stored).

    `proven`: arrays from outside without faults (`lengths`, `faults`, positions that rise) leave no
    run, place or lookup that could be wrong. Where a class does not say so itself, all are tried.
    """

    name: ClassVar[str]
    arrays: ClassVar[tuple[ArrayFact, ...]] = ()
    full: bool = False
    ordered: bool = True
    unique: bool = True
    compact: ClassVar[bool] = True
    walks: ClassVar[bool] = True
    locates: ClassVar[bool] = False
    finds: ClassVar[bool] = False
    contiguous: ClassVar[bool] = True
    searches: ClassVar[bool] = False
    inserts: ClassVar[bool] = False
    lists: ClassVar[bool] = False
    proven: ClassVar[bool] = False
    bits: int | None = None

    @property
    def stuffs(self) -> bool:
        """Whether entries are stored that nobody asked for, next to those that are."""
        return self.full

    @property
    def appends(self) -> bool:
        """Whether a result can be built by appending in coordinate order."""
        return False

    @property
    def is_proven(self) -> bool:
        """Whether this very class says so: whoever changes a formula has something to prove."""
        return bool(vars(type(self)).get("proven", False))

    def __call__(self, **changes: Any) -> Self:
        """The level with other properties: `Compressed(unique=False)`."""
        try:
            return replace(self, **changes)  # type: ignore[type-var]
        except TypeError as error:
            raise FormatError(f"{self.name}: {error}", code="E401") from error

    @property
    def strided(self) -> bool:
        """Whether an entry may lie elsewhere than at its position."""
        return type(self).place is not Level.place

    # Formulas, for NumPy and for code. A level has those of its capabilities: `begin`, `end` and
    # `coordinate` to be walked, `locate` or `find` to be looked into.

    def _lacks(self, formula: str) -> NoReturn:
        raise FormatError(
            f"a level {self} has no formula `{formula}`",
            code="E401",
            hint="define it beside the level's other formulas: see docs/levels.md",
        )

    def begin(self, a: Any, parent: Any) -> Any:
        """The first position of the run of `parent`."""
        self._lacks("begin")

    def end(self, a: Any, parent: Any) -> Any:
        """One past the last position of the run of `parent`."""
        self._lacks("end")

    def coordinate(self, a: Any, parent: Any, position: Any) -> Any:
        """The coordinate at `position`."""
        self._lacks("coordinate")

    def place(self, a: Any, parent: Any, position: Any) -> Any:
        """Where the entry at `position` lies; the position itself unless runs are strided."""
        return position

    def room(self, a: Any, parent: Any) -> Any:
        """How many places the run of `parent` has, padding included."""
        return self.end(a, parent) - self.begin(a, parent)

    def locate(self, a: Any, parent: Any, coordinate: Any) -> Any:
        """The place of `coordinate` below `parent`; only where `locates`."""
        self._lacks("locate")

    def find(self, a: Any, parent: Any, coordinate: Any) -> tuple[Any, Any]:
        """The place that `coordinate` would have below `parent`, and a flag that says whether it
        is there; only where `finds`. The place may be out of range if the flag is not raised."""
        self._lacks("find")

    def abreast(self, count: int) -> bool:
        """Whether `count` runs, from a multiple of that on, lie side by side.

        Entry `q` of the next run then lies right behind entry `q` of this one.
        """
        return False

    def kept_at(self, a: Any, place: Any) -> Any:
        """The coordinate at a place, if places of this level are in an order of their own."""
        return None

    def children(self, a: Any, parents: Any) -> Any:
        """How many places `parents` parents have together."""
        self._lacks("children")

    def parent(self, a: Any, position: Any) -> Any:
        """The parent of a position by formula; None if it has to be searched for."""
        return None

    @property
    def boundaries(self) -> str | None:
        """The name of the array that rises from run to run, in which a parent can be searched."""
        for fact in self.arrays:
            if fact.per == "parent" and fact.holds == "positions" and fact.extra == 1:
                return fact.name
        return None

    # Packing, checking and drawing, in NumPy

    def pack(self, entries: Entries) -> Packed:
        """The arrays that hold `entries`."""
        raise FormatError(f"nobody has said how to pack a level {self}", code="E401")

    def lengths(self, a: Any, parents: int) -> Mapping[str, int]:
        """How many entries the arrays with a length of their "own" have."""
        return {}

    def faults(self, a: Any, parents: int, extent: int) -> Iterator[Fault]:
        """What is wrong with arrays of the right lengths, beyond positions and coordinates."""
        return iter(())

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        ours = type(self).__module__.startswith(f"{__package__}.")
        return f"ow.{self}" if ours else str(self)


def spelled(level: Level, *arguments: object) -> str:
    """`Compressed`, or with what differs from the usual, `Compressed(unique=False, bits=16)`."""
    usual = type(level)
    told = [str(argument) for argument in arguments]
    told += [
        f"{name}={getattr(level, name)}"
        for name in ("full", "ordered", "unique", "bits")
        if name in level.__dataclass_fields__  # type: ignore[attr-defined]
        and getattr(level, name) != getattr(usual, name)
    ]
    return level.name + (f"({', '.join(told)})" if told else "")


def coordinates(array: Array, extent: int, bits: int | None) -> Array:
    """Coordinates in the width that was chosen, or the least of 32 and 64 bits that holds them."""
    if bits is None:
        return np.ascontiguousarray(array, dtype=index_dtype(extent - 1))
    if extent - 1 > np.iinfo(f"int{bits}").max:
        raise FormatError(
            f"coordinates of {bits} bits do not reach over an extent of {extent}",
            code="E401",
            hint="leave bits out, or store the mode in smaller blocks",
        )
    return np.ascontiguousarray(array, dtype=f"int{bits}")


def check_bits(bits: int | None) -> None:
    """Refuse a width that no integer type has."""
    if bits not in (None, 8, 16, 32, 64):
        raise FormatError(f"{bits!r} is no width of coordinates", code="E401", hint="8, 16, 32, 64")


def positions(counts: Array) -> Array:
    """Where each of the runs of these lengths begins, and where the last one ends."""
    total = int(counts.sum())
    pos = np.zeros(len(counts) + 1, dtype=index_dtype(total))
    np.cumsum(counts, out=pos[1:])
    return pos
