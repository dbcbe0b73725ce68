"""Hashed and Key: entries that come in any order, and workspaces that list their keys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from openwork.format.levels.base import Level
from openwork.format.levels.compressed import CompressedLevel


@dataclass(frozen=True, repr=False)
class HashedLevel(CompressedLevel):
    """Compressed, for results: entries are inserted into a hash table in any order.

    The table grows with its entries, not with the extents. The finished result is sorted into the
    arrays of a compressed level, and is then read as one.
    """

    name = "Hashed"
    proven = True
    inserts = True


@dataclass(frozen=True, repr=False)
class KeyLevel(Level):
    """A mode of a workspace that keeps a sorted list of keys, one per tuple of coordinates.

    The outermost mode owns the list (`owns`); an inner mode iterates over the keys with the same
    prefix. Only the last mode visits each key once. `hashed`: keys are found in a hash table, not
    in a bitmap of all possible keys. Not for users' formats: no array is stored.
    """

    owns: bool = True
    unique: bool = True
    hashed: bool = False
    name = "Key"
    lists = True

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


Hashed = HashedLevel()
