"""The door for arrays from outside: what they promise is checked once, before a kernel sees them.

Kernels trust positions and coordinates, so whatever comes from a user, a file, a pickle or a shared
buffer passes here. A level states what its arrays must be like (`ArrayFact`, `lengths`, `faults`);
what follows from its formulas (places within the values, coordinates within the shape, in order,
none twice) is checked for every level in the same way. The long loops are compiled code in
`runtime.support`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from openwork.algebra.types import INT32, INT64
from openwork.errors import DataError, FormatError, ShapeError
from openwork.format.levels import Level
from openwork.runtime.memory import allocate, check_memory
from openwork.runtime.storage import Array, Storage
from openwork.runtime.support import check_coordinates, check_positions, check_tuples

_LARGEST_EXTENT = 2**63 - 1
# How many coordinates a level of a user's own is asked for, to know that it finds no others.
_MOST_LOOKUPS = 1 << 28
_LOOKUPS_AT_ONCE = 1 << 20
_BESIDE = (2, 4, 8, 16, 32, 64)  # how many runs vectors may take together


def admit(
    storage: Storage, name: str, labels: Mapping[str, str] | None = None, *, share: bool = False
) -> Storage:
    """`storage` from outside as one of ours: with index arrays of its own, checked and locked.

    The arrays are copied first and then checked, so that nobody can change what was checked. The
    values are shared: whatever they become, a kernel stays within its arrays.

    Args:
        storage: arrays that are NumPy's, but otherwise as they came.
        name: what messages call the tensor.
        labels: see `validate`.
        share: keep the caller's index arrays, who promises not to change them.
    """
    if share:
        validate(storage, name, labels)
        return replace(storage, borrowed=any(storage.levels))
    levels: list[dict[str, Array]] = []
    sources: dict[int, Array] = {}
    for n, (level, arrays) in enumerate(zip(storage.format.levels, storage.levels, strict=True)):
        own = {key: array.copy() for key, array in arrays.items() if key != "crd"}
        if "crd" in arrays and _lists_coordinates(level) and arrays["crd"].dtype in (INT32, INT64):
            sources[n] = arrays["crd"]
            own["crd"] = allocate(arrays["crd"].size, arrays["crd"].dtype)
        elif "crd" in arrays:
            own["crd"] = arrays["crd"].copy()
        levels.append(own)
    admitted = replace(storage, levels=tuple(levels), borrowed=False)
    validate(admitted, name, labels, sources=sources)
    for own in levels:
        for array in own.values():
            array.flags.writeable = False
    return admitted


def validate(
    storage: Storage,
    name: str,
    labels: Mapping[str, str] | None = None,
    *,
    ordered: bool = True,
    sources: Mapping[int, Array] | None = None,
) -> None:
    """Refuse a storage whose arrays break the promises of its format.

    Args:
        storage: arrays that are NumPy's, but otherwise as they came.
        name: what messages call the tensor.
        labels: what the user calls the arrays, such as `{"pos": "indptr"}`; left out, an array is
            called by its level.
        ordered: whether coordinates must be in order, and unique, where their level says so.
        sources: by level, coordinates that are copied into the storage as they are checked.

    Raises:
        DataError: E501 to E505, naming the array, the index and the value at fault.

    >>> from openwork.format.formats import CSR
    >>> arrays = {"pos": np.array([0, 1, 2]), "crd": np.array([0, 7])}
    >>> bad = Storage((2, 3), CSR, np.dtype("float64"), ({}, arrays), np.ones(2))
    >>> validate(bad, "A")
    Traceback (most recent call last):
    openwork.errors.DataError: E503: A.levels[1].crd[1] is 7, outside its mode of extent 3...
    """
    parents = 1
    for n, level in enumerate(storage.format.levels):
        called = {
            fact.name: f"{name}.levels[{n}].{fact.name}" if labels is None else labels[fact.name]
            for fact in level.arrays
        }
        view = _view(level, storage.levels[n], storage.extents[n], parents)
        _check_arrays(level, view, called)
        if _lists_coordinates(level):
            _check_list(level, view, called["crd"], ordered, (sources or {}).get(n))
        elif not level.is_proven:
            _check_runs(level, view, called.get("crd", f"{name}.levels[{n}]"), ordered)
        parents = _children(level, view)
    label_of_values = f"{name}.values" if labels is None else labels["values"]
    _check_values(storage.values, parents, label_of_values)
    _check_entries(storage, name, ordered)


def _view(level: Level, arrays: Mapping[str, Array], extent: int, parents: int) -> SimpleNamespace:
    wanted = {fact.name for fact in level.arrays}
    if set(arrays) != wanted:
        raise DataError(
            f"a level {level} has {_listed(wanted)}, and {_listed(arrays)} was given", code="E501"
        )
    return SimpleNamespace(extent=extent, parents=parents, **arrays)


def _check_arrays(level: Level, a: SimpleNamespace, labels: Mapping[str, str]) -> None:
    """What a level says of its arrays: lengths, rising positions, and whatever else it asks."""
    facts = {fact.name: fact for fact in level.arrays}
    for name, fact in facts.items():
        if fact.per == "parent" and len(getattr(a, name)) != a.parents + fact.extra:
            raise DataError(
                f"{labels[name]} has {len(getattr(a, name))} entries, and "
                f"{a.parents + fact.extra} are needed: one for each of {a.parents} parents, and "
                f"{fact.extra} more",
                code="E501",
            )
    own = (f.name for f in level.arrays if f.per == "own")
    for name in own:  # one after another, as a length may stand in the array before
        _check_length(getattr(a, name), level.lengths(a, a.parents)[name], labels[name])
    children = next((f.name for f in level.arrays if f.per == "child"), None)
    for name, fact in facts.items():
        if fact.holds == "positions":
            pos = getattr(a, name)
            count = int(pos[-1]) if children is None else len(getattr(a, children))
            check_positions(pos, max(count, 0), array=labels[name])
    for fault in level.faults(a, a.parents, a.extent):
        raise DataError(f"{labels[fault.array]}{fault.reason}", code="E502")
    if children is not None:
        _check_length(getattr(a, children), _children(level, a), labels[children])


def _children(level: Level, a: SimpleNamespace) -> int:
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


def _check_length(array: Array, wanted: int, label: str) -> None:
    if array.ndim != 1 or len(array) != wanted:
        raise DataError(f"{label} has {len(array)} entries, and {wanted} are needed", code="E501")


# Coordinates


def _lists_coordinates(level: Level) -> bool:
    """Whether `crd` is known to list the coordinates of a level, run after run."""
    listed = level.is_proven and level.searches and level.contiguous
    return listed and any(fact.name == "crd" for fact in level.arrays)


def _check_list(
    level: Level, a: SimpleNamespace, label: str, ordered: bool, source: Array | None
) -> None:
    """Coordinates in a list: within their extent, rising along each run."""
    pos = getattr(a, level.boundaries) if level.boundaries else None
    # Runs of a single entry have no order; as parts of tuples they are looked at in the end.
    rises, unique = (ordered and pos is not None and fact for fact in (level.ordered, level.unique))
    crd = a.crd if a.crd.dtype in (INT32, INT64) else a.crd.astype(INT32)
    check_coordinates(crd, pos, a.extent, array=label, ordered=rises, unique=unique, source=source)


def _check_runs(level: Level, a: SimpleNamespace, label: str, ordered: bool) -> None:
    """What the formulas of a level give: every entry at a place of its own, below its parent, and
    with a coordinate within the extent; coordinates that rise; lookups that find just these."""
    watched = _watched(level, a, label)
    children = _children(level, a)
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
    _refuse_first(
        (found < 0) | (found >= a.extent),
        lambda n: f"{label}[{place[n]}] is {found[n]}, outside its mode of extent {a.extent}",
        "E503",
    )
    _refuse_first(
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


def _refuse_first(wrong: Array, message: Callable[[int], str], code: str) -> None:
    if wrong.any():
        raise DataError(message(int(wrong.argmax())), code=code)


def _check_order(level: Level, run: Array, found: Array, place: Array, label: str) -> None:
    """Coordinates of a run that rise, and none of them twice."""
    if not level.ordered:
        sort = np.lexsort((found, run))
        run, found, place = run[sort], found[sort], place[sort]
    step = np.diff(found)
    falls = (run[1:] == run[:-1]) & ((step <= 0) if level.unique else (step < 0))
    _refuse_first(
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


# Entries, all levels together


def _check_entries(storage: Storage, name: str, ordered: bool) -> None:
    """Entries lie within the shape, also in blocks at its edge, and no two have one place in it."""
    format = storage.format
    for mode, (tile, extent) in enumerate(zip(format.tiles, storage.shape, strict=True)):
        if tile and extent % tile and not format.levels[format.parts.index((mode, 1))].full:
            _check_edge(storage, mode, name)
    first = next((n for n, level in enumerate(format.levels) if not level.unique), None)
    if not ordered or first is None:
        return
    in_order = all(level.ordered for level in format.levels[first:])
    lists = all(map(_lists_coordinates, format.levels[first:]))
    if in_order and lists and all(level.boundaries is None for level in format.levels[first + 1 :]):
        # Entries of a run are tuples of coordinates, a list for each of them.
        boundaries = format.levels[first].boundaries
        pos = None if boundaries is None else storage.levels[first][boundaries]
        check_tuples([arrays["crd"] for arrays in storage.levels[first:]], pos, array=name)
    else:
        _, columns = storage.entries()
        if not all(level.ordered for level in format.levels):
            sort = np.lexsort(columns[::-1])
            columns = [column[sort] for column in columns]
        check_tuples(columns, None, array=name)


def _check_edge(storage: Storage, mode: int, name: str) -> None:
    """Of the last blocks of a mode: coordinates within them that are within the shape, too."""
    format, extent = storage.format, storage.shape[mode]
    outer, inner = format.parts.index((mode, 0)), format.parts.index((mode, 1))
    last = extent // format.tiles[mode]
    places = np.zeros(1, dtype=np.int64)
    for n in range(inner + 1):
        _, column, places = storage.below(places, n)
        if n == outer:
            places = places[column == last]
    _refuse_first(
        column >= extent % format.tiles[mode],
        lambda n: (
            f"an entry of {name} is at {last * format.tiles[mode] + int(column[n])} of mode {mode},"
            f" which has the extent {extent}: its block reaches over the edge"
        ),
        "E503",
    )


def _check_values(values: Array, entries: int, label: str) -> None:
    if values.ndim != 1 or len(values) != entries:
        size = "x".join(map(str, values.shape)) or "no"
        raise DataError(
            f"{label} has {size} elements, and the levels have {entries} entries", code="E505"
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "no arrays"


# Arrays as they come


def truth_values(array: Array) -> Array:
    """`array`, with bools that are 0 or 1 in memory: others can come from files and other types.

    >>> truth_values(np.array([0, 1, 7], np.uint8).view(bool)).view(np.uint8)
    array([0, 1, 1], dtype=uint8)
    """
    if array.dtype != np.bool or not array.size or array.view(np.uint8).max() <= 1:
        return array
    made: Array = array.view(np.uint8) != 0
    return made


def as_index_array(array: object, label: str, wide: bool = False) -> Array:
    """An index array as kernels take it: one dimension, contiguous, signed integers.

    Positions are `wide`, of 32 bits at least; coordinates may be narrower.
    No copy is made of an array that is all of this.

    >>> as_index_array([0, 2, 5], "A.indptr")
    array([0, 2, 5])
    """
    try:
        made = np.asarray(array)
    except ValueError as error:
        raise DataError(f"{label} is not an array: {error}", code="E501") from error
    if made.ndim != 1 or (made.dtype.kind not in "iu" and made.size):
        raise DataError(
            f"{label} has {made.ndim} dimensions of {made.dtype}; an index array has one, "
            "of integers",
            code="E501",
        )
    if made.dtype.kind == "u" and made.dtype.itemsize == 8 and (made > _LARGEST_EXTENT).any():
        index = int((made > _LARGEST_EXTENT).argmax())
        raise DataError(f"{label}[{index}] is {made[index]}, beyond 64 bits", code="E503")
    kept = made.dtype.kind == "i" and made.dtype.isnative and not (wide and made.itemsize < 4)
    dtype = made.dtype if kept else INT64
    return np.ascontiguousarray(made, dtype=dtype)


def as_values(values: object, label: str) -> Array:
    """Values as an array, whatever its element type and shape are."""
    try:
        return np.asarray(values)
    except ValueError as error:
        raise DataError(f"{label} is not an array: {error}", code="E505") from error


def check_shape(shape: object) -> tuple[int, ...]:
    """A shape as a tuple of integers, or the reason why it is none.

    >>> check_shape(3), check_shape([2, np.int64(5)])
    ((3,), (2, 5))
    """
    extents = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    if any(isinstance(extent, bool | np.bool) for extent in extents):
        raise ShapeError(f"{shape!r} is not a shape: a bool is no extent", code="E205")
    try:
        checked = tuple(operator.index(extent) for extent in extents)
    except TypeError as error:
        raise ShapeError(f"{shape!r} is not a shape: {error}", code="E205") from error
    for mode, extent in enumerate(checked):
        if not 0 <= extent <= _LARGEST_EXTENT:
            raise ShapeError(f"mode {mode} cannot have the extent {extent}", code="E205")
    return checked


def check_coords(coords: object, shape: tuple[int, ...], count: int) -> Array:
    """Coordinates from outside, as integers of shape (order, `count`), each within its mode.

    >>> check_coords(([0, 1], [4, 2]), (2, 5), 2)
    array([[0, 1],
           [4, 2]])
    """
    order = len(shape)
    try:
        made = np.asarray(coords)
    except ValueError as error:
        raise DataError(f"coords is not an array: {error}", code="E501") from error
    if made.size == 0 and order * count == 0:
        made = made.reshape(order, count).astype(np.int64)
    if made.ndim == 1 and order == 1:
        made = made.reshape(1, -1)
    if made.shape != (order, count) or made.dtype.kind not in "iu":
        raise DataError(
            f"coords has shape {made.shape} and type {made.dtype}; {count} values in {order} modes "
            f"need integers of shape {(order, count)}",
            code="E501",
        )
    for mode, extent in enumerate(shape):
        column = made[mode]
        if count and not (int(column.min()) >= 0 and int(column.max()) < extent):
            entry = int(((column < 0) | (column >= extent)).argmax())
            raise DataError(
                f"coords[{mode}, {entry}] is {column[entry]}, outside mode {mode} of extent "
                f"{extent}",
                code="E503",
                hint="coordinates count from 0",
            )
    return made if made.dtype in (INT32, INT64) else made.astype(INT64)
