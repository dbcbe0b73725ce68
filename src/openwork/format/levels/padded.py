"""Padded and Sliced: interleaved runs, padded to a common length (ELLPACK)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
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
    check_bits,
    coordinates,
    spelled,
)
from openwork.format.levels.width import countable, index_dtype


class SideBySide(Level, ABC):
    """Interleaved runs: consecutive entries of a run are a stride apart.

    `len` is the number of entries of a run; the padding behind them is never read.
    """

    compact = False
    contiguous = False

    def begin(self, a: Any, parent: Any) -> Any:
        return parent * 0

    def end(self, a: Any, parent: Any) -> Any:
        return a.len[parent]

    def coordinate(self, a: Any, parent: Any, position: Any) -> Any:
        return a.crd[self.place(a, parent, position)]

    def occupied(self, a: Any, parent: Any, position: Any) -> Any:
        return position < a.len[parent]

    @abstractmethod
    def runs(self, counts: Array, extent: int) -> tuple[dict[str, Array], int]:
        """The arrays that follow from the lengths of the runs, and how many places there are."""

    @abstractmethod
    def slices(self, arrays: Mapping[str, Array], parents: int) -> tuple[Array, int]:
        """Where the slices of interleaved runs begin and end, and how many runs each has."""

    def pack(self, entries: Entries) -> Packed:
        arrays, count = self.runs(entries.counts, entries.extent)
        view = SimpleNamespace(parents=entries.parents, **arrays)
        places = np.asarray(self.place(view, entries.parent, entries.rank), dtype=np.int64)
        dtype = coordinates(np.zeros(0), entries.extent, self.bits).dtype
        entries.claim(count * dtype.itemsize)
        crd = np.zeros(count, dtype)
        crd[places] = entries.coordinate
        return Packed(arrays | {"crd": crd}, places, count)


@dataclass(frozen=True, repr=False)
class PaddedLevel(SideBySide):
    """All runs as long as the longest: entry `q` of run `p` lies at `p + q * parents` (ELLPACK)."""

    bits: int | None = None
    name = "Padded"
    arrays = (
        ArrayFact("len", "parent", holds="numbers"),
        ArrayFact("width", "own", holds="numbers"),
        ArrayFact("crd", "child"),
    )

    def __post_init__(self) -> None:
        check_bits(self.bits)

    def place(self, a: Any, parent: Any, position: Any) -> Any:
        return parent + position * a.parents

    def parent(self, a: Any, position: Any) -> Any:
        return position % a.parents

    def position(self, a: Any, parent: Any, place: Any) -> Any:
        return place // a.parents

    def abreast(self, count: int) -> bool:
        return True

    def room(self, a: Any, parent: Any) -> Any:
        return parent * 0 + a.width[0]

    def children(self, a: Any, parents: Any) -> Any:
        return parents * a.width[0]

    def lengths(self, a: Any, parents: int) -> Mapping[str, int]:
        return {"width": 1}

    def runs(self, counts: Array, extent: int) -> tuple[dict[str, Array], int]:
        width = int(counts.max(initial=0))
        dtype = index_dtype(max(extent, width))
        arrays = {"len": counts.astype(dtype), "width": np.array([width], dtype=dtype)}
        return arrays, countable(width * len(counts))

    def slices(self, arrays: Mapping[str, Array], parents: int) -> tuple[Array, int]:
        width = int(arrays["width"][0])
        return np.array([0, width * parents], dtype=index_dtype(width * parents)), max(parents, 1)

    def faults(self, a: Any, parents: int, extent: int) -> Iterator[Fault]:
        wrong = np.flatnonzero((a.len < 0) | (a.len > a.width[0]))
        if len(wrong):
            at = int(wrong[0])
            yield Fault("len", f"[{at}] is {a.len[at]}, outside the width of {a.width[0]}")

    def __str__(self) -> str:
        return spelled(self)


@dataclass(frozen=True, repr=False)
class SlicedLevel(SideBySide):
    """Runs in slices of `height`, each padded to its longest run (Sliced ELLPACK).

    Entry `q` of run `p` lies at `slice[p / height] + p % height + q * height`.
    """

    height: int = 32
    bits: int | None = None
    name = "Sliced"
    slice_starts = "slice"
    arrays = (
        ArrayFact("len", "parent", holds="numbers"),
        ArrayFact("slice", "own", holds="numbers"),
        ArrayFact("crd", "child"),
    )

    def __post_init__(self) -> None:
        check_bits(self.bits)
        if isinstance(self.height, bool) or not isinstance(self.height, int) or self.height < 1:
            raise FormatError(f"{self.height!r} is not a number of runs in a slice", code="E401")

    def place(self, a: Any, parent: Any, position: Any) -> Any:
        return a.slice[parent // self.height] + parent % self.height + position * self.height

    def parent_in(self, a: Any, slice: Any, place: Any) -> Any:
        return slice * self.height + (place - a.slice[slice]) % self.height

    def slice_count(self, a: Any, parents: Any) -> Any:
        return (parents + (self.height - 1)) // self.height

    def position(self, a: Any, parent: Any, place: Any) -> Any:
        return (place - a.slice[parent // self.height]) // self.height

    def occupied(self, a: Any, parent: Any, position: Any) -> Any:
        return (parent < a.parents) & super().occupied(a, parent, position)

    def abreast(self, count: int) -> bool:
        return self.height % count == 0

    def room(self, a: Any, parent: Any) -> Any:
        number = parent // self.height
        return (a.slice[number + 1] - a.slice[number]) // self.height

    def children(self, a: Any, parents: Any) -> Any:
        return a.slice[self.slice_count(a, parents)]

    def lengths(self, a: Any, parents: int) -> Mapping[str, int]:
        return {"slice": -(-parents // self.height) + 1}

    def runs(self, counts: Array, extent: int) -> tuple[dict[str, Array], int]:
        slices = -(-len(counts) // self.height)
        full = len(counts) // self.height
        widths = np.zeros(slices, dtype=np.int64)
        if full:  # a slice may be higher than any array is long
            rows = counts[: full * self.height].reshape(full, self.height)
            widths[:full] = rows.max(axis=1, initial=0)
        widths[full:] = counts[full * self.height :].max(initial=0)
        countable(int(widths.sum()) * self.height)
        starts = np.concatenate([[0], np.cumsum(widths * self.height)])
        count = int(starts[-1])
        lengths = counts.astype(index_dtype(extent))
        return {"len": lengths, "slice": starts.astype(index_dtype(count))}, count

    def slices(self, arrays: Mapping[str, Array], parents: int) -> tuple[Array, int]:
        return arrays["slice"], self.height

    def faults(self, a: Any, parents: int, extent: int) -> Iterator[Fault]:
        rises = a.slice[0] == 0 and (a.slice[1:] >= a.slice[:-1]).all()
        if not rises or (a.slice % self.height).any():
            yield Fault("slice", f" does not increase from 0 in multiples of {self.height}")
            return
        room = self.room(a, np.arange(parents))
        wrong = np.flatnonzero((a.len < 0) | (a.len > room))
        if len(wrong):
            at = int(wrong[0])
            yield Fault("len", f"[{at}] is {a.len[at]}, but its slice is {room[at]} wide")

    def __call__(self, height: int | None = None, **changes: Any) -> SlicedLevel:
        return super().__call__(**({} if height is None else {"height": height}), **changes)

    def __str__(self) -> str:
        return spelled(self, self.height)


Padded = PaddedLevel()
Sliced = SlicedLevel()
