"""Ragged and Growing: runs that hold the first coordinates of the mode, without gaps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from openwork.errors import FormatError
from openwork.format.levels.base import (
    Array,
    ArrayFact,
    Entries,
    Fault,
    Level,
    Packed,
    positions,
)
from openwork.format.levels.width import countable


class FirstCoordinates(Level):
    """The coordinates of a run are 0, 1, 2, ...; only the lengths of runs differ."""

    finds = True

    @property
    def stuffs(self) -> bool:
        return True

    def coordinate(self, a: Any, parent: Any, position: Any) -> Any:
        return position - self.begin(a, parent)

    def find(self, a: Any, parent: Any, coordinate: Any) -> tuple[Any, Any]:
        place = self.begin(a, parent) + coordinate
        return place, place < self.end(a, parent)

    def children(self, a: Any, parents: Any) -> Any:
        return self.begin(a, parents)


@dataclass(frozen=True, repr=False)
class RaggedLevel(FirstCoordinates):
    """Runs of different lengths, one after the other: each reaches to its last entry."""

    name = "Ragged"
    proven = True
    arrays = (ArrayFact("pos", "parent", extra=1, holds="positions"),)

    def begin(self, a: Any, parent: Any) -> Any:
        return a.pos[parent]

    def end(self, a: Any, parent: Any) -> Any:
        return a.pos[parent + 1]

    def pack(self, entries: Entries) -> Packed:
        lengths = _reach(entries)
        countable(int(lengths.sum(dtype=np.float64)))
        pos = positions(lengths)
        places = pos[entries.parent] + entries.coordinate
        return Packed({"pos": pos}, places.astype(np.int64), int(pos[-1]))

    def faults(self, a: Any, parents: int, extent: int) -> Iterator[Fault]:
        lengths = np.diff(a.pos)
        wrong = np.flatnonzero(lengths > extent)
        if len(wrong):
            at = int(wrong[0])
            yield Fault(
                "pos", f"[{at + 1}] ends a run of {lengths[at]}, which exceeds the extent {extent}"
            )


@dataclass(frozen=True, repr=False)
class GrowingLevel(FirstCoordinates):
    """Run `p` has `rise * p + first` entries; nothing is stored but these.

    Below a dense level, `Growing(1, 1)` is a lower triangular matrix, and `Growing(1, 0)` a
    strictly lower one.
    """

    rise: int = 1
    first: int = 1
    name = "Growing"
    proven = True

    def __post_init__(self) -> None:
        for number in (self.rise, self.first):
            if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                raise FormatError(
                    f"{number!r} is not how runs grow", code="E401", hint="ow.Growing(1, 1)"
                )

    def __call__(self, rise: int = 1, first: int = 1) -> GrowingLevel:  # type: ignore[override]
        """Runs that begin with `first` entries, and have `rise` more each."""
        return GrowingLevel(rise, first)

    def begin(self, a: Any, parent: Any) -> Any:
        return parent * (parent - 1) // 2 * self.rise + parent * self.first

    def end(self, a: Any, parent: Any) -> Any:
        return self.begin(a, parent) + parent * self.rise + self.first

    def pack(self, entries: Entries) -> Packed:
        self._check(entries.parents, entries.extent)
        wrong = np.flatnonzero(entries.coordinate >= self.rise * entries.parent + self.first)
        if len(wrong):
            run, at = entries.parent[wrong[0]], entries.coordinate[wrong[0]]
            raise FormatError(
                f"{self}: run {run} has the coordinates below {self.rise * run + self.first}, and "
                f"{at} is none of them", code="E406",
                hint="ow.tril takes the lower triangle; ow.CSR stores entries anywhere",
            )  # fmt: skip
        count = countable(int(self.begin(None, entries.parents)))
        return Packed({}, self.begin(None, entries.parent) + entries.coordinate, count)

    def _check(self, parents: int, extent: int) -> None:
        longest = self.rise * (parents - 1) + self.first
        if parents and longest > extent:
            raise FormatError(
                f"{self}: {parents} runs grow to {longest} entries, and the extent is {extent}",
                code="E406", hint="rows may not be longer than the matrix is wide",
            )  # fmt: skip

    def faults(self, a: Any, parents: int, extent: int) -> Iterator[Fault]:
        self._check(parents, extent)
        return iter(())

    def __str__(self) -> str:
        return f"{self.name}({self.rise}, {self.first})"


def _reach(entries: Entries) -> Array:
    """How many coordinates each run has up to its last entry."""
    lengths = np.zeros(entries.parents, dtype=np.int64)
    np.maximum.at(lengths, entries.parent, entries.coordinate + 1)
    return lengths


Ragged, Growing = RaggedLevel(), GrowingLevel()
