"""How long the rows of a matrix or a tensor are, found once for its data."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from openwork.index.nodes import Assignment, TensorVar
from openwork.runtime.storage import Storage
from openwork.tree import walk

_known: WeakKeyDictionary[Storage, int] = WeakKeyDictionary()


def longest_row(storage: Storage) -> int:
    """Entries of the longest row of a tensor whose levels have runs, from the second on."""
    found = _known.get(storage)
    if found is None:
        ends = storage.levels[1]["pos"]
        for level in storage.levels[2:]:
            ends = level["pos"][ends]
        found = int((ends[1:] - ends[:-1]).max()) if ends.size > 1 else 0
        _known[storage] = found
    return found


def longest_rows(assignment: Assignment) -> dict[str, int]:
    """Those of the matrices that have data."""
    found: dict[str, int] = {}
    for var in (n for n in walk(assignment) if isinstance(n, TensorVar)):
        storage = getattr(var.source, "_storage", None)
        if storage is not None and len(storage.levels) == 2 and "pos" in storage.levels[1]:
            found[var.name] = longest_row(storage)
    return found
