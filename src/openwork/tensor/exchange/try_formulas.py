"""The formulas of a level, tried out on arrays from outside: what kernels count on must follow.

A kernel reads the arrays of a level wherever its formulas lead. A level may have proven that
arrays without faults lead nowhere else (`Level.proven`). For any other, every run is walked, in
arrays that know their bounds: each entry has a place of its own, below its parent, and a coordinate
within the extent; the properties that a level claims hold; lookups find just these entries.
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

# How many coordinates a level of a user's own is asked for, to know that it finds no others.
_MOST_LOOKUPS = 1 << 28
_LOOKUPS_AT_ONCE = 1 << 20
_BESIDE = (2, 4, 8, 16, 32, 64)  # how many runs vectors may take together


def try_formulas(level: Level, a: SimpleNamespace, label: str, ordered: bool) -> None:
    """Refuse arrays `a` with which the formulas of a level lead astray.

    Args:
        level: whose formulas they are.
        a: the arrays by their names, with `extent` and `parents`; those of `lengths` are right.
        label: what messages call them.
        ordered: whether coordinates must be in order, and unique, where the level says so.

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
        told = f"run {wrong} has {counts[wrong]} of {children} places"
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
        lambda n: f"{label}: entry {at[n]} of run {run[n]} lies at {place[n]}, of {children}",
        "E502",
    )
    if len(np.unique(place)) != len(place):
        raise DataError(f"{label}: two entries lie at one place", code="E502")
    above = level.parent(watched, at)
    if above is not None and (_numbers(above) != run).any():
        raise DataError(f"{label}: entries lie below parents that are not theirs", code="E502")
    kept = level.kept_at(watched, place)
    if kept is not None and (_numbers(kept) != found).any():
        raise DataError(f"{label}: places keep coordinates that are not theirs", code="E502")
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
    """The properties of a level that say how its runs lie: full, compact, contiguous."""
    begin, end, place = runs
    positions = np.concatenate([[0], end])
    problem = None
    if level.full and (end - begin != a.extent).any():
        problem = f"a run does not have all {a.extent} coordinates"
    elif level.compact and len(place) != children:
        problem = f"{children} places hold {len(place)} entries"
    elif level.contiguous and ((positions[:-1] != begin).any() or (np.diff(place) != 1).any()):
        problem = "runs do not lie one after another"
    elif level.boundaries and level.contiguous:
        told = getattr(a, level.boundaries)[np.arange(a.parents + 1)]
        problem = "runs lie elsewhere than positions say" if (told != positions).any() else None
    if problem is not None:
        raise DataError(f"{label}: {problem}", code="E502")


def _check_beside(
    level: Level, a: Any, entries: tuple[Array, Array, Array], end: Array, label: str
) -> None:
    """Where a level says that runs lie side by side, they do."""
    count = max((n for n in _BESIDE if level.abreast(n)), default=0)
    if not count:
        return
    run, at, place = entries
    following = np.minimum(run + 1, max(a.parents - 1, 0))
    together = (run % count != count - 1) & (run + 1 < a.parents) & (at < end[following])
    run, at, place = (each[together] for each in (run, at, place))
    if (_numbers(level.place(a, run + 1, at)) != place + 1).any():
        raise DataError(f"{label}: runs do not lie side by side", code="E502")


def _numbers(found: Any) -> Array:
    return np.asarray(found, dtype=np.int64)


def refuse_first(wrong: Array, message: Callable[[int], str], code: str) -> None:
    if wrong.any():
        raise DataError(message(int(wrong.argmax())), code=code)


def _check_order(level: Level, run: Array, found: Array, place: Array, label: str) -> None:
    """Coordinates of a run that rise, and none of them twice."""
    if not level.ordered:
        sort = np.lexsort((found, run))
        run, found, place = run[sort], found[sort], place[sort]
    step = np.diff(found)
    falls = (run[1:] == run[:-1]) & ((step <= 0) if level.unique else (step < 0))
    refuse_first(
        falls, lambda n: f"{label}[{place[n + 1]}] is {found[n + 1]}, after {found[n]}", "E504"
    )


def _check_lookups(level: Level, a: Any, entries: tuple[Array, Array, Array], label: str) -> None:
    """A lookup of any coordinate finds its entry where it lies, and no other."""
    run, found, place = entries
    lookups = a.parents * a.extent
    if lookups > _MOST_LOOKUPS:
        raise FormatError(
            f"{label}: {lookups} lookups are too many to try them all",
            code="E401",
            hint=f"if `faults` of {level} leaves nothing to be found by them, say proven = True",
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
            raise DataError(f"{label}: a lookup finds what no run has there", code="E502")
        raised += len(key)
    if raised != len(keys):
        raise DataError(f"{label}: a lookup does not find every entry", code="E502")


class _Watched:
    """An array that formulas may read within its bounds only; NumPy counts from the end, too."""

    def __init__(self, array: Array, label: str) -> None:
        self._array, self._label = array, label

    def __getitem__(self, index: Any) -> Any:
        at = np.asarray(index)
        wrong = (at < 0) | (at >= len(self._array))
        if wrong.any():
            value = int(at[wrong][0]) if at.ndim else int(at)
            raise DataError(
                f"{self._label} has {len(self._array)} entries, and entry {value} is asked for",
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
    """How many places the level has."""
    try:
        with np.errstate(over="raise"):
            count = int(level.children(a, np.int64(a.parents)))
    except FloatingPointError as error:
        raise DataError(
            f"a level {level} with these arrays has more places than 64 bits can count", code="E501"
        ) from error
    if count < 0:
        raise DataError(f"a level {level} with these arrays has {count} places", code="E501")
    return count
