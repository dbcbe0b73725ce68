"""How long the rows of a matrix or a tensor are, and how far they reach; found once for data."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from openwork.index.nodes import Assignment, TensorVar
from openwork.runtime.storage import Storage
from openwork.tree import walk

_known: WeakKeyDictionary[Storage, int] = WeakKeyDictionary()
_reaches: WeakKeyDictionary[Storage, float] = WeakKeyDictionary()
_SAMPLES = 1024  # rows


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


def reach(storage: Storage) -> float:
    """How many columns lie between the first and the last entry of a row of a matrix, about."""
    found = _reaches.get(storage)
    if found is None:
        pos, crd = storage.levels[1]["pos"], storage.levels[1]["crd"]
        step = max(1, (pos.size - 1) // _SAMPLES)
        begin, end = pos[:-1:step], pos[1::step]
        some = end > begin
        first, last = crd[begin[some]], crd[end[some] - 1]
        found = float((last - first).mean()) + 1 if first.size else 1.0
        _reaches[storage] = found
    return found


def longest_rows(assignment: Assignment) -> dict[str, int]:
    """Those of the matrices that have data."""
    found: dict[str, int] = {}
    for var in (n for n in walk(assignment) if isinstance(n, TensorVar)):
        storage = getattr(var.source, "_storage", None)
        if storage is not None and len(storage.levels) == 2 and "pos" in storage.levels[1]:
            found[var.name] = longest_row(storage)
    return found
