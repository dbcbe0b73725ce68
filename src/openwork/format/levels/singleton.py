"""Singleton: one coordinate below each parent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from openwork.errors import FormatError
from openwork.format.levels.base import (
    ArrayFact,
    Entries,
    Level,
    Packed,
    check_bits,
    coordinates,
    spelled,
)


@dataclass(frozen=True, repr=False)
class SingletonLevel(Level):
    """One coordinate below each parent, at the parent's own place: the inner modes of COO."""

    ordered: bool = True
    unique: bool = True
    bits: int | None = None
    searches = True
    name = "Singleton"
    proven = True
    arrays = (ArrayFact("crd", "parent"),)

    def __post_init__(self) -> None:
        check_bits(self.bits)

    def begin(self, a: Any, parent: Any) -> Any:
        return parent

    def end(self, a: Any, parent: Any) -> Any:
        return parent + 1

    def coordinate(self, a: Any, parent: Any, position: Any) -> Any:
        return a.crd[position]

    def children(self, a: Any, parents: Any) -> Any:
        return parents

    def parent(self, a: Any, position: Any) -> Any:
        return position

    def pack(self, entries: Entries) -> Packed:
        if len(entries.parent) != entries.parents or (np.diff(entries.parent) != 1).any():
            raise FormatError(
                "a Singleton level stores one coordinate for each parent, but some have more, or "
                "none",
                code="E406",
                hint="make the level above it Compressed(unique=False)",
            )
        crd = coordinates(entries.coordinate, entries.extent, self.bits)
        return Packed({"crd": crd}, entries.parent, entries.parents)

    def __str__(self) -> str:
        return spelled(self)


Singleton = SingletonLevel()
