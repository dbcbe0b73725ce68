"""Lengths: the length of each run (LIL)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from openwork.format.levels.base import (
    ArrayFact,
    Entries,
    Fault,
    Level,
    Packed,
    check_bits,
    coordinates,
    positions,
    spelled,
)


@dataclass(frozen=True, repr=False)
class LengthsLevel(Level):
    """A length for each run; `pos`, where runs begin, is their prefix sum."""

    ordered: bool = True
    unique: bool = True
    bits: int | None = None
    searches = True
    name = "Lengths"
    proven = True
    arrays = (
        ArrayFact("len", "parent", holds="numbers"),
        ArrayFact("pos", "parent", extra=1, holds="positions"),
        ArrayFact("crd", "child"),
    )

    def __post_init__(self) -> None:
        check_bits(self.bits)

    def begin(self, a: Any, parent: Any) -> Any:
        return a.pos[parent]

    def end(self, a: Any, parent: Any) -> Any:
        return a.pos[parent] + a.len[parent]

    def coordinate(self, a: Any, parent: Any, position: Any) -> Any:
        return a.crd[position]

    def children(self, a: Any, parents: Any) -> Any:
        return a.pos[parents]

    def pack(self, entries: Entries) -> Packed:
        crd = coordinates(entries.coordinate, entries.extent, self.bits)
        pos = positions(entries.counts)
        lengths = entries.counts.astype(pos.dtype)
        return Packed({"len": lengths, "pos": pos, "crd": crd}, np.arange(len(crd)), len(crd))

    def faults(self, a: Any, parents: int, extent: int) -> Iterator[Fault]:
        wrong = np.flatnonzero(a.len != np.diff(a.pos))
        if len(wrong):
            at = int(wrong[0])
            yield Fault("len", f"[{at}] is {a.len[at]}, but pos gives the run {np.diff(a.pos)[at]}")

    def __str__(self) -> str:
        return spelled(self)


Lengths = LengthsLevel()
