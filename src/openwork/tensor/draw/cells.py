"""The arrays of a tensor as cells, runs and padding, for drawings."""

from __future__ import annotations

from collections import Counter
from dataclasses import field
from types import SimpleNamespace

import numpy as np

from openwork.algebra.entries import Defined, Entry
from openwork.format.layouts import AOS, PACKED
from openwork.format.levels import ArrayFact, Level
from openwork.frozen import frozen
from openwork.runtime.storage import Array, Storage

MOST_CELLS = 24


@frozen
class Runs:
    """The runs of a level, as far as they are shown.

    `owner`: for each position the number of its run, or -1. `ends`: how many runs (or slices of
    runs) end before a position; `breaks`: the positions where a row of a block, or a column of a
    slice, ends.
    """

    owner: Array
    ends: Counter[int]
    breaks: frozenset[int] = frozenset()


@frozen
class Row:
    """One array: its first cells, and how many there are in all.

    `targets`: for each cell the child position that it points to, or -1.
    """

    name: str
    cells: tuple[str, ...]
    size: int
    owner: tuple[int, ...]
    padding: tuple[bool, ...]
    runs: Runs | None = None
    targets: tuple[int, ...] = ()

    @property
    def more(self) -> int:
        """The number of cells that are not shown."""
        return self.size - len(self.cells)


@frozen
class Part:
    """The arrays of one level, or the values."""

    title: str
    rows: list[Row] = field(default_factory=list)


def layout(storage: Storage) -> list[Part]:
    """The arrays of each level, and then the values.

    >>> from openwork.tensor.convert.pack import from_dense
    >>> from openwork.format.formats import ELL
    >>> values = layout(from_dense(np.array([[5.0, 6], [7, 0]]), ELL))[-1].rows[0]
    >>> values.cells, values.owner
    (('5.', '7.', '6.', '.'), (0, 1, 0, 1))
    """
    parts: list[Part] = []
    runs, stored = Runs(np.zeros(1, dtype=np.int64), Counter()), _stored(storage)
    format = storage.format
    for n, (level, there) in enumerate(zip(format.levels, stored, strict=True)):
        runs = _runs(storage, n, runs)
        part = Part(_title(storage, n))
        for fact in level.arrays:
            array = storage.levels[n][fact.name]
            part.rows.append(_row(fact, array, runs, there))
        parts.append(part)
    there = stored[-1] if stored else None
    if isinstance(storage.dtype, Entry) and storage.format.layout not in (AOS, PACKED):
        numbers = zip(_names(storage.dtype), storage.dtype.split(storage.elements), strict=True)
        rows = [_row(ArrayFact(name, "child"), each, runs, there) for name, each in numbers]
        return [*parts, Part(f"values: {storage.format.layout}", rows)]
    values = _row(ArrayFact("values", "child"), storage.elements, runs, there)
    return [*parts, Part("", [values])]


def _names(entry: Entry) -> tuple[str, ...]:
    """What users call the numbers of a record."""
    return entry.names if isinstance(entry, Defined) else entry.fields


def _title(storage: Storage, n: int) -> str:
    mode, part = storage.format.parts[n]
    tile = storage.format.tiles[mode]
    block = {None: "", 0: f" in blocks of {tile}", 1: " within a block"}[part]
    level = storage.format.levels[n]
    return f"level {n}: {level}, mode {mode}{block}, extent {storage.extents[n]}"


def _stored(storage: Storage) -> list[Array | None]:
    """For each level which positions hold an entry; None if all do. The rest is padding."""
    format = storage.format
    found: list[Array | None] = [None] * len(format.levels)
    if all(level.compact for level in format.levels):
        if not storage.overhangs:
            return found
        if all(level.contiguous for level in format.levels):
            return [*found[:-1], _inside(storage)]
    found = []
    for n, (_, _, places) in enumerate(storage.runs()):
        if storage.overhangs and n + 1 == len(format.levels):
            places = storage.coordinates()[1]
        there = np.zeros(min(storage.positions(n), MOST_CELLS), dtype=bool)
        there[places[places < len(there)]] = True
        found.append(there)
    return found


def _inside(storage: Storage) -> Array:
    """Which of the first values are within the shape, by their coordinates up to the root."""
    places = np.arange(min(storage.places, MOST_CELLS))
    format = storage.format
    coords = np.zeros((len(storage.shape), len(places)), dtype=np.int64)
    for n in reversed(range(len(format.levels))):
        level, view = format.levels[n], storage.level_view(n)
        ends = np.asarray(level.end(view, np.arange(view.parents)))
        parents = np.searchsorted(ends, places, side="right")
        mode, part = format.parts[n]
        times = format.tiles[mode] if part == 0 else 1
        coords[mode] += np.asarray(level.coordinate(view, parents, places)) * times
        places = parents
    return np.asarray((coords < np.array(storage.shape)[:, None]).all(axis=0))


def _row(fact: ArrayFact, array: Array, runs: Runs, there: Array | None) -> Row:
    """The cells of one array."""
    cells = _texts(array)
    owner, none = np.full(len(cells), -1), (False,) * len(cells)
    if fact.per == "child" or fact.holds == "coordinates":
        known = runs.owner[: len(cells)]
        owner[: len(known)] = known
        tells = there is None or fact.holds == "numbers"  # such as bits, which mark padding
        padding = none if tells or there is None else tuple(map(bool, ~there[: len(cells)]))
        shown = ("." if pad else cell for cell, pad in zip(cells, padding, strict=True))
        return Row(fact.name, tuple(shown), array.size, _ints(owner), padding, runs)
    targets = owner.copy()
    if fact.per == "parent":
        count = min(len(cells), array.size - fact.extra)
        owner[:count] = np.arange(count)
        if fact.holds == "positions":
            full = array[1 : count + 1] > array[:count]
            targets[:count] = np.where(full, array[:count], -1)
    return Row(fact.name, cells, array.size, _ints(owner), none, None, _ints(targets))


def _ints(array: Array) -> tuple[int, ...]:
    return tuple(map(int, array))


def _texts(array: Array) -> tuple[str, ...]:
    """The first elements as NumPy prints them, in a common precision."""
    head = array[:MOST_CELLS]
    if head.dtype.kind in "fc":
        return tuple(np.array2string(element, precision=4) for element in head)
    return tuple(str(element) for element in head)


def _runs(storage: Storage, n: int, above: Runs) -> Runs:
    """The runs of a level, given those of the level above it."""
    level, view = storage.format.levels[n], storage.level_view(n)
    places = storage.positions(n)
    shown = min(places, MOST_CELLS)
    if not level.contiguous:
        return _strided(level, view, places)
    parents = np.arange(view.parents)
    ends = np.asarray(level.end(view, parents), dtype=np.int64)
    if len(parents) > 1 and not level.full and (ends == parents + 1).all():
        return above  # one entry below each: no runs of its own
    owner = np.searchsorted(ends, np.arange(shown), side="right")
    runs = Runs(owner, Counter(map(int, ends[ends <= shown])))
    kinds = storage.format.parts[n - 1 : n + 1] if n else ()
    if len(kinds) == 2 and kinds[0][1] == kinds[1][1] == 1 and level.full:
        # A row of a block ends inside the block.
        blocks = Counter({at * view.extent: count for at, count in above.ends.items()})
        breaks = frozenset(runs.ends) - frozenset(blocks)
        return Runs(above.owner[np.arange(shown) // view.extent], blocks, breaks)
    return runs


def _strided(level: Level, view: SimpleNamespace, count: int) -> Runs:
    """Interleaved runs. A break before the next entries of all runs."""
    shown = min(count, MOST_CELLS)
    owner, column = np.full((2, shown), -1)
    parents = np.arange(view.parents)
    room = np.asarray(level.room(view, parents))
    for step in range(shown):
        runs = parents[room > step]
        places = np.asarray(level.place(view, runs, runs * 0 + step))
        near = places < shown
        owner[places[near]], column[places[near]] = runs[near], step
    for place in np.flatnonzero(owner < 0):  # padding for runs beyond the last
        owner[place], column[place] = owner[place - 1], column[place - 1]
    whole = Counter({count: 1} if count else {})
    if len(parents) == 1:
        return Runs(owner * 0, whole)
    steps = [int(at) for at in np.flatnonzero(np.diff(column)) + 1]
    ends = [at for at in steps if owner[:at].max() < owner[at:].min()]
    return Runs(owner, whole + Counter(ends), frozenset(steps) - frozenset(ends))
