"""Statistics of a tensor's storage, for choosing schedules; measured once per tensor."""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

from openwork.index.nodes import Assignment, TensorVar
from openwork.loops.schedule.statistics import Rows, Statistics
from openwork.runtime.storage import Storage
from openwork.tree import walk

_known: WeakKeyDictionary[Storage, Statistics] = WeakKeyDictionary()
_SAMPLES = 1024  # rows whose span is measured


def entries_of(assignment: Assignment) -> dict[str, float]:
    """The number of stored entries of the tensors that have data, by name."""
    return {name: float(storage.nnz) for name, storage in _stored(assignment)}


def runs_of(assignment: Assignment) -> dict[str, float]:
    """How many entries a run on the last level has, on average, of the tensors that have data.

    That is the mean length of a matrix's rows, without a look at them.
    """
    found = {}
    for name, storage in _stored(assignment):
        runs = storage.positions(len(storage.levels) - 2)
        found[name] = storage.nnz / max(1, runs)
    return found


def stored_in(assignment: Assignment) -> dict[str, Storage]:
    """The data of the tensors that have some, by name."""
    return dict(_stored(assignment))


def statistics_of(assignment: Assignment) -> dict[str, Statistics]:
    """Statistics of the tensors that have data, by name."""
    return {name: measure(storage) for name, storage in _stored(assignment)}


def _stored(assignment: Assignment) -> Iterator[tuple[str, Storage]]:
    for var in walk(assignment):
        storage = getattr(var.source, "_storage", None) if isinstance(var, TensorVar) else None
        if isinstance(var, TensorVar) and storage is not None:
            yield var.name, storage


def measure(storage: Storage) -> Statistics:
    """The statistics of a storage."""
    found = _known.get(storage)
    if found is None:
        inner = storage.levels[1:]
        in_rows = len(inner) > 0 and all("pos" in level for level in inner)
        found = _known[storage] = Statistics(storage.nnz, _rows(storage) if in_rows else None)
    return found


def _rows(storage: Storage) -> Rows:
    """The rows of a tensor whose levels all have runs, from the second on."""
    first, *below = storage.levels[1:]
    ends = first["pos"]
    for level in below:
        ends = level["pos"][ends]
    longest = int((ends[1:] - ends[:-1]).max()) if ends.size > 1 else 0
    reach = _reach(storage) if not below and "crd" in first else 0.0
    return Rows(int(ends.size) - 1, longest, reach)


def _reach(storage: Storage) -> float:
    """An estimate of the columns between the first and the last entry of a matrix row."""
    pos, crd = storage.levels[1]["pos"], storage.levels[1]["crd"]
    step = max(1, (pos.size - 1) // _SAMPLES)
    begin, end = pos[:-1:step], pos[1::step]
    some = end > begin
    first, last = crd[begin[some]], crd[end[some] - 1]
    return float((last - first).mean()) + 1 if first.size else 1.0
