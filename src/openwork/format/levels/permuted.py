"""Permuted: every coordinate, the ones with the most entries below them first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from openwork.errors import FormatError
from openwork.format.levels.base import ArrayFact, Entries, Fault, Packed, spelled
from openwork.format.levels.dense import WholeRuns
from openwork.format.levels.width import index_dtype


@dataclass(frozen=True, repr=False)
class PermutedLevel(WholeRuns):
    """Every coordinate, sorted by the number of entries below it in windows of `sigma`.

    Runs of similar length then share a slice, which needs less padding. `rank` is the place of each
    coordinate, `kept` its inverse, the coordinate at each place. Outermost only.
    """

    sigma: int = 256
    name = "Permuted"
    proven = True
    contiguous = False
    full = True
    outermost = True
    locates = True
    arrays = (
        ArrayFact("rank", "own", holds="numbers"),
        ArrayFact("kept", "own", holds="numbers"),
    )

    def __post_init__(self) -> None:
        if isinstance(self.sigma, bool) or not isinstance(self.sigma, int) or self.sigma < 1:
            raise FormatError(f"{self.sigma!r} is not a window length", code="E401")

    def place(self, a: Any, parent: Any, position: Any) -> Any:
        return a.rank[position]

    def locate(self, a: Any, parent: Any, coordinate: Any) -> Any:
        return a.rank[coordinate]

    def position(self, a: Any, parent: Any, place: Any) -> Any:
        return a.kept[place]

    def lengths(self, a: Any, parents: int) -> Mapping[str, int]:
        return {"rank": int(a.extent), "kept": int(a.extent)}

    def pack(self, entries: Entries) -> Packed:
        lengths = np.zeros(entries.extent, dtype=np.int64)
        lengths[entries.coordinate] = entries.below
        window = np.arange(entries.extent) // self.sigma
        order = np.lexsort((-lengths, window))
        rank = np.empty(entries.extent, dtype=index_dtype(entries.extent))
        rank[order] = np.arange(entries.extent)
        places = rank[entries.coordinate].astype(np.int64)
        return Packed({"rank": rank, "kept": order.astype(rank.dtype)}, places, entries.extent)

    def faults(self, a: Any, parents: int, extent: int) -> Iterator[Fault]:
        if (np.sort(a.rank) != np.arange(extent)).any():
            yield Fault("rank", f" is not a permutation of {extent} coordinates")
        elif (a.kept < 0).any() or (a.kept >= extent).any():
            yield Fault("kept", f" has coordinates outside the extent {extent}")
        elif (a.rank[a.kept] != np.arange(extent)).any():
            yield Fault("kept", " is not the inverse of rank")

    def __call__(self, sigma: int | None = None, **changes: Any) -> PermutedLevel:
        return super().__call__(**({} if sigma is None else {"sigma": sigma}), **changes)

    def __str__(self) -> str:
        return spelled(self, self.sigma)


Permuted = PermutedLevel()
