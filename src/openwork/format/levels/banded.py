"""Range and Diagonals: runs whose coordinates follow from their start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from openwork.format.levels.base import (
    Array,
    ArrayFact,
    Entries,
    Fault,
    Level,
    Packed,
    positions,
)
from openwork.format.levels.width import countable, index_dtype

# Rows of a slice of diagonals.
_ROWS = 16


@dataclass(frozen=True, repr=False)
class RangeLevel(Level):
    """Consecutive coordinates from `lo` on: the rows of a banded matrix.

    Everything between the first and the last entry of a run is stored.
    """

    name = "Range"
    proven = True
    finds = True
    arrays = (
        ArrayFact("pos", "parent", extra=1, holds="positions"),
        ArrayFact("lo", "parent", holds="numbers"),
    )

    @property
    def stuffs(self) -> bool:
        return True

    def begin(self, a: Any, parent: Any) -> Any:
        return a.pos[parent]

    def end(self, a: Any, parent: Any) -> Any:
        return a.pos[parent + 1]

    def coordinate(self, a: Any, parent: Any, position: Any) -> Any:
        return position - a.pos[parent] + a.lo[parent]

    def find(self, a: Any, parent: Any, coordinate: Any) -> tuple[Any, Any]:
        place = coordinate - a.lo[parent] + a.pos[parent]
        return place, (a.pos[parent] <= place) & (place < a.pos[parent + 1])

    def children(self, a: Any, parents: Any) -> Any:
        return a.pos[parents]

    def pack(self, entries: Entries) -> Packed:
        counts = entries.counts
        some = np.flatnonzero(counts)
        ends = np.cumsum(counts)[some]
        lo, hi = np.zeros((2, entries.parents), dtype=np.int64)
        lo[some] = entries.coordinate[ends - counts[some]]
        hi[some] = entries.coordinate[ends - 1] + 1
        countable(int((hi - lo).sum(dtype=np.float64)))
        pos = positions(hi - lo)
        places = pos[entries.parent] + (entries.coordinate - lo[entries.parent])
        first = lo.astype(index_dtype(entries.extent))
        return Packed({"pos": pos, "lo": first}, places.astype(np.int64), int(pos[-1]))

    def faults(self, a: Any, parents: int, extent: int) -> Iterator[Fault]:
        wrong = np.flatnonzero((a.lo < 0) | (a.lo > np.int64(extent) - np.diff(a.pos)))
        if len(wrong):
            at = int(wrong[0])
            run = np.diff(a.pos)[at]
            yield Fault("lo", f"[{at}] is {a.lo[at]}, and {run} entries exceed the extent {extent}")


@dataclass(frozen=True, repr=False)
class DiagonalsLevel(Level):
    """The same diagonals for every row: coordinate `p + offset[q]` (DIA).

    Only directly below an outermost dense level. `lo` and `hi` say which diagonals cross a row.
    A diagonal with any entry is stored in full. Storage is sliced by rows, and diagonal by diagonal
    within a slice: a few rows need one small region of memory, and vectors of rows need no gathers.
    """

    name = "Diagonals"
    proven = True
    compact = False
    contiguous = False
    arrays: ClassVar[tuple[ArrayFact, ...]] = (
        ArrayFact("lo", "parent", holds="numbers"),
        ArrayFact("hi", "parent", holds="numbers"),
        ArrayFact("count", "own", holds="numbers"),
        ArrayFact("offset", "own", holds="numbers"),
    )

    @property
    def stuffs(self) -> bool:
        return True

    def begin(self, a: Any, parent: Any) -> Any:
        return a.lo[parent]

    def end(self, a: Any, parent: Any) -> Any:
        return a.hi[parent]

    def coordinate(self, a: Any, parent: Any, position: Any) -> Any:
        return parent + a.offset[position]

    def place(self, a: Any, parent: Any, position: Any) -> Any:
        return (parent // _ROWS * a.count[0] + position) * _ROWS + parent % _ROWS

    def parent(self, a: Any, position: Any) -> Any:
        return position // (a.count[0] * _ROWS) * _ROWS + position % _ROWS

    def position(self, a: Any, parent: Any, place: Any) -> Any:
        return place // _ROWS % a.count[0]

    def occupied(self, a: Any, parent: Any, position: Any) -> Any:
        stored = (a.lo[parent] <= position) & (position < a.hi[parent])
        return (parent < a.parents) & stored

    def abreast(self, count: int) -> bool:
        return _ROWS % count == 0

    def room(self, a: Any, parent: Any) -> Any:
        return parent * 0 + a.count[0]

    def children(self, a: Any, parents: Any) -> Any:
        return (parents + (_ROWS - 1)) // _ROWS * _ROWS * a.count[0]

    def lengths(self, a: Any, parents: int) -> Mapping[str, int]:
        return {"count": 1, "offset": int(a.count[0]) if len(a.count) else 0}

    def pack(self, entries: Entries) -> Packed:
        offset, diagonal = np.unique(entries.coordinate - entries.parent, return_inverse=True)
        slices = -(-entries.parents // _ROWS)
        count = countable(slices * _ROWS * len(offset))
        arrays = self.among(offset, entries.parents, entries.extent)
        view = SimpleNamespace(**arrays)
        places = np.asarray(self.place(view, entries.parent, diagonal), dtype=np.int64)
        return Packed(arrays, places, count)

    def among(self, offset: Array, rows: int, extent: int) -> dict[str, Array]:
        """The arrays for the diagonals at `offset`, which are increasing."""
        dtype = index_dtype(max(rows, extent, len(offset)))
        row = np.arange(rows)
        return {
            "lo": np.searchsorted(offset, -row).astype(dtype),
            "hi": np.searchsorted(offset, extent - row).astype(dtype),
            "count": np.array([len(offset)], dtype=dtype),
            "offset": offset.astype(dtype),
        }

    def faults(self, a: Any, parents: int, extent: int) -> Iterator[Fault]:
        if (a.offset[1:] <= a.offset[:-1]).any():
            yield Fault("offset", " is not increasing")
            return
        row = np.arange(parents)
        for name, wanted in (
            ("lo", np.searchsorted(a.offset, -row)),
            ("hi", np.searchsorted(a.offset, extent - row)),
        ):
            wrong = np.flatnonzero(getattr(a, name) != wanted)
            if len(wrong):
                at = int(wrong[0])
                told = getattr(a, name)[at]
                yield Fault(name, f"[{at}] is {told}, but the offsets give {wanted[at]}")


@dataclass(frozen=True, repr=False)
class NumberedDiagonalsLevel(DiagonalsLevel):
    """Diagonals during packing: `number` maps each possible diagonal to its position.

    Not for users' formats.
    """

    name = "NumberedDiagonals"
    finds = True
    arrays = (*DiagonalsLevel.arrays, ArrayFact("number", "own", holds="numbers"))

    def find(self, a: Any, parent: Any, coordinate: Any) -> tuple[Any, Any]:
        place = self.place(a, parent, a.number[coordinate - parent + a.parents])
        return place, place < self.children(a, a.parents)


Range = RangeLevel()
Diagonals = DiagonalsLevel()
NumberedDiagonals = NumberedDiagonalsLevel()
