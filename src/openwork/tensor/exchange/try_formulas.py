"""Evaluates a level's formulas on arrays from outside, to check what kernels rely on.

A kernel indexes the arrays of a level as its formulas say. A level may declare that `faults` is
enough to keep them in bounds (`Level.proven`). For any other, every run is iterated over, with
bounds checks: each entry has its own position, below its parent, and a coordinate within the
extent; the declared properties hold; lookups find exactly these entries.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from openwork.errors import DataError, FormatError
from openwork.format.levels import Level
from openwork.runtime.memory import check_memory
from openwork.runtime.storage import Array

# The most coordinates that are looked up in a user's level, to check that it finds no others.
_MOST_LOOKUPS = 1 << 28
_LOOKUPS_AT_ONCE = 1 << 20
_BESIDE = (2, 4, 8, 16, 32, 64)  # numbers of runs that a vector may process together


def try_formulas(level: Level, a: SimpleNamespace, label: str, ordered: bool) -> None:
    """Reject arrays `a` for which a level's formulas go out of bounds or break its properties.

    Args:
        level: the level.
        a: the arrays by name, with `extent` and `parents`; their lengths are checked already.
        label: their name in messages.
        ordered: whether coordinates must be sorted, and unique, if the level says so.

    Raises:
        DataError: E502 to E504.
    """
    watched = _watched(level, a, label)
    children = children_of(level, a)
    parents = np.arange(a.parents)
    begin, end = _run_bounds(level, watched, parents)
    counts = end - begin
    if len(counts) and (int(counts.min()) < 0 or int(counts.max()) > children):
        wrong = int(((counts < 0) | (counts > children)).argmax())
        told = f"run {wrong} has {counts[wrong]} of {children} positions"
        raise DataError(f"{label}: {told}", code="E502")
    check_memory(64 * int(counts.sum()), f"a check of {label}")
    run = np.repeat(parents, counts)
    at = np.arange(len(run)) - (np.cumsum(counts) - counts - begin)[run]
    found = _numbers(level.coordinate(watched, run, at))
    place = _numbers(level.place(watched, run, at))
    _check_layout(level, watched, children, (begin, end, place), label)
    if not level.walks:
        there = np.flatnonzero(level.find(watched, run, found)[1])
        run, at, found, place = (each[there] for each in (run, at, found, place))
    refuse_first(
        (found < 0) | (found >= a.extent),
        lambda n: f"{label}[{place[n]}] is {found[n]}, outside its mode of extent {a.extent}",
        "E503",
    )
    refuse_first(
        (place < 0) | (place >= children),
        lambda n: f"{label}: entry {at[n]} of run {run[n]} is at position {place[n]} of {children}",
        "E502",
    )
    if len(np.unique(place)) != len(place):
        raise DataError(f"{label}: two entries have the same position", code="E502")
    above = level.parent(watched, place)
    if above is not None and (_numbers(above) != run).any():
        raise DataError(f"{label}: parents of entries disagree with their runs", code="E502")
    if (_numbers(level.position(watched, run, place)) != at).any():
        raise DataError(f"{label}: positions of entries disagree with their places", code="E502")
    _check_beside(level, watched, (run, at, place), end, label)
    if ordered:
        _check_order(level, run, found, place, label)
    if level.locates or level.finds:
        _check_lookups(level, watched, (run, found, place), label)


def _run_bounds(level: Level, a: Any, parents: Array) -> tuple[Array, Array]:
    begin, end = level.begin(a, parents), level.end(a, parents)
    shape = parents.shape
    return np.broadcast_to(_numbers(begin), shape), np.broadcast_to(_numbers(end), shape)


def _check_layout(
    level: Level, a: Any, children: int, runs: tuple[Array, Array, Array], label: str
) -> None:
    """Check the properties of a level's layout: full, compact, contiguous."""
    begin, end, place = runs
    positions = np.concatenate([[0], end])
    problem = None
    if level.full and (end - begin != a.extent).any():
        problem = f"a run does not have all {a.extent} coordinates"
    elif level.compact and len(place) != children:
        problem = f"{children} positions hold {len(place)} entries"
    elif level.contiguous and ((positions[:-1] != begin).any() or (np.diff(place) != 1).any()):
        problem = "runs are not contiguous"
    elif level.boundaries and level.contiguous:
        told = getattr(a, level.boundaries)[np.arange(a.parents + 1)]
        problem = "runs are not where the positions say" if (told != positions).any() else None
    if problem is not None:
        raise DataError(f"{label}: {problem}", code="E502")


def _check_beside(
    level: Level, a: Any, entries: tuple[Array, Array, Array], end: Array, label: str
) -> None:
    """Check that runs are interleaved as the level says."""
    count = max((n for n in _BESIDE if level.abreast(n)), default=0)
    if not count:
        return
    run, at, place = entries
    following = np.minimum(run + 1, max(a.parents - 1, 0))
    together = (run % count != count - 1) & (run + 1 < a.parents) & (at < end[following])
    run, at, place = (each[together] for each in (run, at, place))
    if (_numbers(level.place(a, run + 1, at)) != place + 1).any():
        raise DataError(f"{label}: runs are not interleaved", code="E502")


def _numbers(found: Any) -> Array:
    return np.asarray(found, dtype=np.int64)


def refuse_first(wrong: Array, message: Callable[[int], str], code: str) -> None:
    if wrong.any():
        raise DataError(message(int(wrong.argmax())), code=code)


def _check_order(level: Level, run: Array, found: Array, place: Array, label: str) -> None:
    """Check that the coordinates of a run are sorted, and unique."""
    if not level.ordered:
        sort = np.lexsort((found, run))
        run, found, place = run[sort], found[sort], place[sort]
    step = np.diff(found)
    falls = (run[1:] == run[:-1]) & ((step <= 0) if level.unique else (step < 0))
    refuse_first(
        falls, lambda n: f"{label}[{place[n + 1]}] is {found[n + 1]}, after {found[n]}", "E504"
    )


def _check_lookups(level: Level, a: Any, entries: tuple[Array, Array, Array], label: str) -> None:
    """Check that a lookup of any coordinate finds its entry, and no other."""
    run, found, place = entries
    lookups = a.parents * a.extent
    if lookups > _MOST_LOOKUPS:
        raise FormatError(
            f"{label}: {lookups} lookups are too many to check",
            code="E401",
            hint=f"if `faults` of {level} checks everything, declare proven = True",
        )
    sort = np.lexsort((found, run))
    keys, where = (run * a.extent + found)[sort], place[sort]
    raised = 0
    for first in range(0, lookups, _LOOKUPS_AT_ONCE):
        key = np.arange(first, min(first + _LOOKUPS_AT_ONCE, lookups))
        parent, coordinate = np.divmod(key, a.extent)
        if level.locates:
            told, there = level.locate(a, parent, coordinate), np.ones(len(key), dtype=bool)
        else:
            told, flag = level.find(a, parent, coordinate)
            there = np.broadcast_to(np.asarray(flag, dtype=bool), key.shape)
        key, told = key[there], np.broadcast_to(_numbers(told), there.shape)[there]
        at = np.minimum(np.searchsorted(keys, key), max(len(keys) - 1, 0))
        if len(key) and (not len(keys) or (keys[at] != key).any() or (where[at] != told).any()):
            raise DataError(f"{label}: a lookup finds an entry that no run has", code="E502")
        raised += len(key)
    if raised != len(keys):
        raise DataError(f"{label}: a lookup does not find every entry", code="E502")


class _Watched:
    """An array that formulas may read within bounds only; negative indices are errors."""

    def __init__(self, array: Array, label: str) -> None:
        self._array, self._label = array, label

    def __getitem__(self, index: Any) -> Any:
        at = np.asarray(index)
        wrong = (at < 0) | (at >= len(self._array))
        if wrong.any():
            value = int(at[wrong][0]) if at.ndim else int(at)
            raise DataError(
                f"{self._label} has {len(self._array)} entries, but a formula reads entry {value}",
                code="E502",
            )
        return self._array[index].astype(np.int64)


def _watched(level: Level, a: SimpleNamespace, label: str) -> SimpleNamespace:
    stem = label.removesuffix(".crd")
    arrays = {
        fact.name: _Watched(getattr(a, fact.name), f"{stem}.{fact.name}") for fact in level.arrays
    }
    return SimpleNamespace(extent=a.extent, parents=a.parents, **arrays)


def children_of(level: Level, a: SimpleNamespace) -> int:
    """The number of positions of the level."""
    try:
        with np.errstate(over="raise"):
            count = int(level.children(a, np.int64(a.parents)))
    except FloatingPointError as error:
        raise DataError(
            f"a level {level} with these arrays has more positions than 64 bits count", code="E501"
        ) from error
    if count < 0:
        raise DataError(f"a level {level} with these arrays has {count} positions", code="E501")
    return count
