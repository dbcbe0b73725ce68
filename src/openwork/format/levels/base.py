"""Levels: formulas over index arrays, properties, and how entries are packed.

A level maps each place of the level above it, its *parent*, to a run of entries. Formulas are
ordinary Python: over NumPy arrays and integers when a tensor is unpacked or drawn, over expressions
of the program representation when code is generated. So the compiler knows no level by name, and a
new level is one file: see docs/levels.md.

The *position* counts along a run, from `begin` to `end`; the *place* is where the entry lies among
all entries of the level. They are equal for most levels, and differ where runs are strided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from openwork.errors import FormatError
from openwork.format.levels.width import index_dtype

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ArrayFact:
    """An index array of a level.

    `per`: it has one entry per "parent" (and `extra` more), one per "child", or as many as
    `lengths` says ("own"). `holds`: "coordinates", "positions", or other "numbers".
    """

    name: str
    per: str
    extra: int = 0
    holds: str = "coordinates"


@dataclass(frozen=True)
class Entries:
    """Entries to be packed into a level: for each, its parent's place and its coordinate.

    Sorted by parent, then by coordinate. `below`: how many entries of the tensor lie below each.
    `claim(bytes)` comes before an array that may be much larger than the entries: it raises
    `MemoryError` where there is no room.
    """

    parent: Array
    coordinate: Array
    below: Array
    parents: int
    extent: int
    claim: Callable[[int], None] = lambda size: None

    @property
    def counts(self) -> Array:
        """How many entries each parent has."""
        return np.bincount(self.parent, minlength=self.parents)

    @property
    def rank(self) -> Array:
        """The index of each entry within its run."""
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
    """A fault in an array from outside."""

    array: str
    reason: str


class Level:
    """The facts of a level.

    Properties: `full` (every coordinate is stored), `ordered` (coordinates increase within a run),
    `unique` (no duplicates in a run), `compact` (every place holds an entry), `contiguous` (runs
    follow one another, a place for each position), `spans` (a run has a position for every
    coordinate, in order). Capabilities: `walks` (a run can be iterated), `locates` (every
    coordinate has a place, given by formula), `finds` (a formula says where a coordinate would be,
    and whether it is there), `searches` (the coordinates of a run lie in one array), `appends` (a
    result can be built by appending in coordinate order), `inserts` (a result accumulates in a hash
    table, whatever its extents), `lists` (a workspace keeps a list of its keys, and no array is
    stored).

    `outermost`: it has no level above it.

    `proven`: arrays from outside that pass the checks (`lengths`, `faults`, positions that do not
    decrease) cannot give an invalid run, place or lookup. For other classes, each one is tested.
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
    outermost: ClassVar[bool] = False
    spans: ClassVar[bool] = False
    slice_starts: ClassVar[str | None] = None
    bits: int | None = None

    @property
    def only(self) -> int | None:
        """The only coordinate that an outermost level has; None for most.

        A loop that needs an entry is that one iteration.
        """
        return None

    @property
    def stuffs(self) -> bool:
        """Whether it also stores coordinates that have no entry."""
        return self.full

    @property
    def appends(self) -> bool:
        """Whether a result can be built by appending in coordinate order."""
        return False

    @property
    def is_proven(self) -> bool:
        """Whether this class itself declares `proven`; a subclass may change a formula."""
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

    # Formulas, for NumPy and for code. A level defines those of its capabilities: `begin`,
    # `end` and `coordinate` to iterate, `locate` or `find` for lookups.

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
        is there; only where `finds`. The place may be out of range if the flag is false."""
        self._lacks("find")

    def abreast(self, count: int) -> bool:
        """Whether `count` runs, from a multiple of `count` on, are interleaved.

        Entry `q` of the next run then directly follows entry `q` of this one.
        """
        return False

    def children(self, a: Any, parents: Any) -> Any:
        """How many places `parents` parents have together."""
        self._lacks("children")

    def parent(self, a: Any, position: Any) -> Any:
        """The parent of a position by formula; None if it has to be searched for.

        Where entries lie elsewhere than at their positions: the parent of a place.
        """
        return None

    # Formulas from places back to entries, for loops over all places of a level. Where slices of
    # runs follow one another, `slice_starts` names the array in which the slice of a place is
    # searched for, and `parent_in` has its parent.

    def parent_in(self, a: Any, slice: Any, place: Any) -> Any:
        """The parent of `place`, which lies in the given slice; there may be no such parent."""
        self._lacks("parent_in")

    def slice_count(self, a: Any, parents: Any) -> Any:
        """How many slices the runs of `parents` parents have."""
        self._lacks("slice_count")

    def position(self, a: Any, parent: Any, place: Any) -> Any:
        """The position in the run of `parent` that lies at `place`."""
        return place

    def occupied(self, a: Any, parent: Any, position: Any) -> Any:
        """Whether there is an entry at a position that follows from its place; None: always."""
        return None

    @property
    def gappy(self) -> bool:
        """Whether some places may hold no entry, so that each is `occupied` or not."""
        return type(self).occupied is not Level.occupied

    @property
    def invertible(self) -> bool:
        """Whether the entry at a place can be told, though runs do not follow one another."""
        return not self.contiguous and type(self).position is not Level.position

    @property
    def boundaries(self) -> str | None:
        """The array of run starts, in which the parent of a position can be searched for."""
        for fact in self.arrays:
            if fact.per == "parent" and fact.holds == "positions" and fact.extra == 1:
                return fact.name
        return None

    # Packing, checking and drawing, in NumPy

    def pack(self, entries: Entries) -> Packed:
        """The arrays that hold `entries`."""
        raise FormatError(f"a level {self} does not define `pack`", code="E401")

    def lengths(self, a: Any, parents: int) -> Mapping[str, int]:
        """The lengths of the arrays that have their "own"."""
        return {}

    def faults(self, a: Any, parents: int, extent: int) -> Iterator[Fault]:
        """Faults of arrays of the right lengths, beyond positions and coordinates."""
        return iter(())

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        ours = type(self).__module__.startswith(f"{__package__}.")
        return f"ow.{self}" if ours else str(self)


def spelled(level: Level, *arguments: object) -> str:
    """`Compressed`, with properties that are not the default: `Compressed(unique=False)`."""
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
    """Coordinates in the chosen width, or in the smaller of 32 and 64 bits that holds them."""
    if bits is None:
        return np.ascontiguousarray(array, dtype=index_dtype(extent - 1))
    if extent - 1 > np.iinfo(f"int{bits}").max:
        raise FormatError(
            f"coordinates of {bits} bits cannot cover an extent of {extent}",
            code="E401",
            hint="leave bits out, or store the mode in smaller blocks",
        )
    return np.ascontiguousarray(array, dtype=f"int{bits}")


def check_bits(bits: int | None) -> None:
    """Refuse a width that no integer type has."""
    if bits not in (None, 8, 16, 32, 64):
        raise FormatError(f"{bits!r} is not a coordinate width", code="E401", hint="8, 16, 32, 64")


def positions(counts: Array) -> Array:
    """The prefix sum of run lengths: where each run begins, and where the last one ends."""
    total = int(counts.sum())
    pos = np.zeros(len(counts) + 1, dtype=index_dtype(total))
    np.cumsum(counts, out=pos[1:])
    return pos


def chain_end(levels: Sequence[Level], first: int) -> int:
    """Where the levels end that tell repeated coordinates of level `first` apart.

    In a level that is looked up, a coordinate is found below one parent, so parents with the same
    coordinates may not have several blocks of it.
    """
    below = range(first + 1, len(levels))
    return next((n for n in below if levels[n].full or not levels[n].walks), len(levels))
