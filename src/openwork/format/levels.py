"""Levels: how one storage level maps a parent position to a run of child positions.

A level is described by formulas over its arrays. They are ordinary Python over whatever is given
to them: NumPy arrays and integers when a tensor is drawn or checked, expressions of the program
representation when code is generated. So the compiler needs to know no level by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ArrayFact:
    """An index array of a level: one entry per parent (plus `extra`), or one per child."""

    name: str
    per: str  # "parent" or "child"
    extra: int = 0
    holds: str = "coordinates"  # or "positions"


class Level:
    """The facts of a level.

    Properties: `full` (every coordinate is there), `ordered` (coordinates rise within a run),
    `unique` (none twice). Capabilities: `locates` (a coordinate's position by formula),
    `appends` (a result can be built by appending in coordinate order).
    """

    name: str
    arrays: tuple[ArrayFact, ...] = ()
    full: bool = False
    ordered: bool = True
    unique: bool = True
    locates: bool = False
    appends: bool = False

    def begin(self, a: Any, parent: Any) -> Any:
        """The first child position of `parent`."""
        raise NotImplementedError

    def end(self, a: Any, parent: Any) -> Any:
        """One past the last child position of `parent`."""
        raise NotImplementedError

    def coordinate(self, a: Any, parent: Any, position: Any) -> Any:
        """The coordinate stored at `position`."""
        raise NotImplementedError

    def locate(self, a: Any, parent: Any, coordinate: Any) -> Any:
        """The position of `coordinate` below `parent`; only where `locates`."""
        raise NotImplementedError

    def children(self, a: Any, parents: Any) -> Any:
        """How many child positions `parents` parents have together."""
        raise NotImplementedError

    def parent(self, a: Any, position: Any) -> Any:
        """The parent of a child position by formula; None if it has to be searched for."""
        return None

    @property
    def boundaries(self) -> str | None:
        """The name of the array that rises from run to run, in which a parent can be searched."""
        for fact in self.arrays:
            if fact.per == "parent" and fact.holds == "positions" and fact.extra == 1:
                return fact.name
        return None

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"ow.{self.name}"


@dataclass(frozen=True, repr=False)
class DenseLevel(Level):
    """Every coordinate of the mode, in order; nothing but the extent is stored."""

    name = "Dense"
    full = True
    locates = True

    def begin(self, a: Any, parent: Any) -> Any:
        return parent * a.extent

    def end(self, a: Any, parent: Any) -> Any:
        return parent * a.extent + a.extent

    def coordinate(self, a: Any, parent: Any, position: Any) -> Any:
        return position - parent * a.extent

    def locate(self, a: Any, parent: Any, coordinate: Any) -> Any:
        return parent * a.extent + coordinate

    def children(self, a: Any, parents: Any) -> Any:
        return parents * a.extent

    def parent(self, a: Any, position: Any) -> Any:
        return position / a.extent


@dataclass(frozen=True, repr=False)
class CompressedLevel(Level):
    """The coordinates that are there, run after run; `pos` says where each run starts."""

    name = "Compressed"
    arrays = (
        ArrayFact("pos", "parent", extra=1, holds="positions"),
        ArrayFact("crd", "child"),
    )
    appends = True

    def begin(self, a: Any, parent: Any) -> Any:
        return a.pos[parent]

    def end(self, a: Any, parent: Any) -> Any:
        return a.pos[parent + 1]

    def coordinate(self, a: Any, parent: Any, position: Any) -> Any:
        return a.crd[position]

    def children(self, a: Any, parents: Any) -> Any:
        return a.pos[parents]


@dataclass(frozen=True, repr=False)
class KeyLevel(Level):
    """A mode of a workspace that keeps a sorted list of keys, one per tuple of coordinates.

    The outermost mode owns the list (`owns`); a mode further in walks the run of keys that agree
    so far. Only the last mode sees each key once. `hashed`: keys are found through a hash table,
    rather than marked in a map of all that there can be. Not for tensors: no array is stored.
    """

    owns: bool = True
    unique: bool = True
    hashed: bool = False
    name = "Key"

    def begin(self, a: Any, parent: Any) -> Any:
        return 0 if self.owns else parent

    def end(self, a: Any, parent: Any) -> Any:
        return a.count if self.owns else parent + 1

    def coordinate(self, a: Any, parent: Any, position: Any) -> Any:
        key = a.keys[position] if a.stride is None else a.keys[position] / a.stride
        return key if self.owns else key % a.extent


def is_hashed(levels: Iterable[Level]) -> bool:
    """Whether levels of a workspace find their keys through a hash table."""
    return any(isinstance(level, KeyLevel) and level.hashed for level in levels)


Dense = DenseLevel()
Compressed = CompressedLevel()

LEVELS: dict[str, Level] = {level.name: level for level in (Dense, Compressed)}
