"""Dense: every coordinate of the mode, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from openwork.format.levels.base import Entries, Level, Packed
from openwork.format.levels.width import countable


class WholeRuns(Level):
    """Runs with a position for every coordinate of the mode, in order."""

    spans = True

    def begin(self, a: Any, parent: Any) -> Any:
        return parent * a.extent

    def end(self, a: Any, parent: Any) -> Any:
        return parent * a.extent + a.extent

    def coordinate(self, a: Any, parent: Any, position: Any) -> Any:
        return position - parent * a.extent

    def children(self, a: Any, parents: Any) -> Any:
        return parents * a.extent


@dataclass(frozen=True, repr=False)
class DenseLevel(WholeRuns):
    """Every coordinate of the mode, in order; nothing but the extent is stored."""

    name = "Dense"
    proven = True
    full = True
    locates = True

    def locate(self, a: Any, parent: Any, coordinate: Any) -> Any:
        return parent * a.extent + coordinate

    def parent(self, a: Any, position: Any) -> Any:
        return position // a.extent

    def pack(self, entries: Entries) -> Packed:
        count = countable(entries.parents * entries.extent)
        places = entries.parent * entries.extent + entries.coordinate
        return Packed({}, places, count)


@dataclass(frozen=True, repr=False)
class OuterLevel(Level):
    """The blocks of a dense mode: `tile` coordinates each, the last perhaps fewer.

    With `InnerLevel` below it, a tiled view of a dense mode. The place of a block is that of its
    first coordinate. Not for users' formats.
    """

    tile: int
    name = "Outer"
    walks = False
    contiguous = False
    full = True
    locates = True

    def locate(self, a: Any, parent: Any, coordinate: Any) -> Any:
        return parent * a.total + coordinate * self.tile

    def children(self, a: Any, parents: Any) -> Any:
        return parents * a.total


@dataclass(frozen=True, repr=False)
class InnerLevel(Level):
    """The coordinates within a block of a dense mode. Not for users' formats."""

    name = "Inner"
    walks = False
    contiguous = False
    full = True
    locates = True

    def locate(self, a: Any, parent: Any, coordinate: Any) -> Any:
        return parent + coordinate

    def children(self, a: Any, parents: Any) -> Any:
        return parents


Dense = DenseLevel()
