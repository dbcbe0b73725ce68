"""Bitmap: a place for every coordinate, and a flag that says whether it holds an entry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from openwork.format.levels.base import ArrayFact, Entries, Fault, Packed
from openwork.format.levels.dense import WholeRuns
from openwork.format.levels.width import countable


@dataclass(frozen=True, repr=False)
class BitmapLevel(WholeRuns):
    """A place for every coordinate; `bit` says which of them hold an entry."""

    name = "Bitmap"
    proven = True
    walks = False
    finds = True
    compact = False
    arrays = (ArrayFact("bit", "child", holds="numbers"),)
    bits: int | None = 8

    def find(self, a: Any, parent: Any, coordinate: Any) -> tuple[Any, Any]:
        place = parent * a.extent + coordinate
        return place, a.bit[place] > 0

    def parent(self, a: Any, position: Any) -> Any:
        return position // a.extent

    def occupied(self, a: Any, parent: Any, position: Any) -> Any:
        return a.bit[position] > 0

    def pack(self, entries: Entries) -> Packed:
        count = countable(entries.parents * entries.extent)
        places = entries.parent * entries.extent + entries.coordinate
        entries.claim(count)
        bit = np.zeros(count, dtype=np.int8)
        bit[places] = 1
        return Packed({"bit": bit}, places, count)

    def faults(self, a: Any, parents: int, extent: int) -> Iterator[Fault]:
        wrong = np.flatnonzero((a.bit != 0) & (a.bit != 1))
        if len(wrong):
            yield Fault("bit", f"[{int(wrong[0])}] is {a.bit[wrong[0]]}, neither 0 nor 1")


Bitmap = BitmapLevel()
