"""Compressed: only the coordinates of entries, run after run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from openwork.format.levels.base import (
    ArrayFact,
    Entries,
    Level,
    Packed,
    check_bits,
    coordinates,
    positions,
    spelled,
)


@dataclass(frozen=True, repr=False)
class CompressedLevel(Level):
    """Only the coordinates of entries, run after run; `pos` says where each run starts."""

    ordered: bool = True
    unique: bool = True
    bits: int | None = None
    searches = True
    name = "Compressed"
    proven = True
    arrays = (
        ArrayFact("pos", "parent", extra=1, holds="positions"),
        ArrayFact("crd", "child"),
    )

    def __post_init__(self) -> None:
        check_bits(self.bits)

    @property
    def appends(self) -> bool:
        return self.ordered and self.unique and self.bits is None

    def begin(self, a: Any, parent: Any) -> Any:
        return a.pos[parent]

    def end(self, a: Any, parent: Any) -> Any:
        return a.pos[parent + 1]

    def coordinate(self, a: Any, parent: Any, position: Any) -> Any:
        return a.crd[position]

    def children(self, a: Any, parents: Any) -> Any:
        return a.pos[parents]

    def pack(self, entries: Entries) -> Packed:
        crd = coordinates(entries.coordinate, entries.extent, self.bits)
        arrays = {"pos": positions(entries.counts), "crd": crd}
        return Packed(arrays, np.arange(len(crd)), len(crd))

    def __str__(self) -> str:
        return spelled(self)


Compressed = CompressedLevel()
