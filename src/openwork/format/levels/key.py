"""Key: the modes of a workspace that keeps a sorted list of its keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from openwork.format.levels.base import Level


@dataclass(frozen=True, repr=False)
class KeyLevel(Level):
    """A mode of a workspace that keeps a sorted list of keys, one per tuple of coordinates.

    The outermost mode owns the list (`owns`); a mode further in walks the run of keys that agree
    so far. Only the last mode sees each key once. Not for tensors: no array is stored.
    """

    owns: bool = True
    unique: bool = True
    name = "Key"

    def begin(self, a: Any, parent: Any) -> Any:
        return 0 if self.owns else parent

    def end(self, a: Any, parent: Any) -> Any:
        return a.count if self.owns else parent + 1

    def coordinate(self, a: Any, parent: Any, position: Any) -> Any:
        key = a.keys[position] if a.stride is None else a.keys[position] / a.stride
        return key if self.owns else key % a.extent
