"""The door for arrays from outside: what they promise is checked once, before a kernel sees them.

The long loops are compiled code in `runtime.support`; this module knows which array of which level
has to be asked what.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from types import SimpleNamespace

import numpy as np

from openwork.algebra.types import INT32, INT64
from openwork.errors import DataError, ShapeError
from openwork.format.levels import Level
from openwork.runtime.storage import Array, Storage
from openwork.runtime.support import check_coordinates, check_positions

_LARGEST_EXTENT = 2**63 - 1


def validate(
    storage: Storage, name: str, labels: Mapping[str, str] | None = None, *, ordered: bool = True
) -> None:
    """Refuse a storage whose arrays break the promises of its format.

    Args:
        storage: arrays that are NumPy's, but otherwise as they came.
        name: what messages call the tensor.
        labels: what the user calls the arrays, such as `{"pos": "indptr"}`; left out, an array is
            called by its level.
        ordered: whether coordinates must be in order, and unique, where their level says so.

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
        _check_level(level, view, called, ordered)
        parents = _children(level, view)
    label_of_values = f"{name}.values" if labels is None else labels["values"]
    _check_values(storage.values, parents, label_of_values)
    if ordered and not all(level.unique for level in storage.format.levels):
        _check_tuples(storage, name)


def _view(level: Level, arrays: Mapping[str, Array], extent: int, parents: int) -> SimpleNamespace:
    wanted = {fact.name for fact in level.arrays}
    if set(arrays) != wanted:
        raise DataError(
            f"a level {level} has {_listed(wanted)}, and {_listed(arrays)} was given", code="E501"
        )
    return SimpleNamespace(extent=extent, parents=parents, **arrays)


def _check_level(
    level: Level, a: SimpleNamespace, labels: Mapping[str, str], ordered: bool
) -> None:
    """Check the arrays of one level: lengths, positions, whatever the level asks, coordinates."""
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
    if "crd" in facts:
        _check_coordinates(level, a, labels["crd"], ordered)


def _children(level: Level, a: SimpleNamespace) -> int:
    """How many places the level has."""
    try:
        with np.errstate(over="raise"):
            return int(level.children(a, np.int64(a.parents)))
    except FloatingPointError as error:
        raise DataError(
            f"a level {level} with these arrays has more places than 64 bits can count", code="E501"
        ) from error


def _check_length(array: Array, wanted: int, label: str) -> None:
    if array.ndim != 1 or len(array) != wanted:
        raise DataError(f"{label} has {len(array)} entries, and {wanted} are needed", code="E501")


def _check_coordinates(level: Level, a: SimpleNamespace, label: str, ordered: bool) -> None:
    """Coordinates within their extent, and rising along each run."""
    rises, unique = ordered and level.ordered, ordered and level.unique
    if a.crd.dtype in (INT32, INT64) and (level.boundaries or level.parent(a, 0) is not None):
        pos = getattr(a, level.boundaries) if level.boundaries else None
        rises = rises and pos is not None
        check_coordinates(a.crd, pos, a.extent, array=label, ordered=rises, unique=unique and rises)
        return
    parents = np.arange(a.parents)
    begin = np.asarray(level.begin(a, parents), dtype=np.int64)
    counts = np.asarray(level.end(a, parents), dtype=np.int64) - begin
    run = np.repeat(parents, counts)
    at = np.arange(len(run)) - (np.cumsum(counts) - counts - begin)[run]
    found = np.asarray(level.coordinate(a, run, at))
    outside = np.flatnonzero((found < 0) | (found >= a.extent))
    if len(outside):
        n = outside[0]
        where = int(level.place(a, run[n], at[n]))
        raise DataError(
            f"{label}[{where}] is {found[n]}, outside its mode of extent {a.extent}", code="E503"
        )
    step = np.diff(found.astype(np.int64))
    falls = (run[1:] == run[:-1]) & ((step <= 0) if unique else (step < 0))
    if rises and falls.any() and level.parent(a, 0) is None:
        n = int(falls.argmax()) + 1
        where = int(level.place(a, run[n], at[n]))
        raise DataError(f"{label}[{where}] is {found[n]}, after {found[n - 1]}", code="E504")


def _check_tuples(storage: Storage, name: str) -> None:
    """Entries of levels that repeat coordinates are sorted as tuples, none twice."""
    _, columns = storage.entries()
    undecided = np.ones(max(len(columns[0]) - 1, 0), dtype=bool)
    for column in columns:
        step = np.diff(column.astype(np.int64))
        falls = np.flatnonzero(undecided & (step < 0))
        if len(falls):
            raise DataError(
                f"entry {int(falls[0]) + 1} of {name} comes before the one it follows",
                code="E504",
                hint="sort the entries, or let ow.tensor((coords, values), shape=...) do it",
            )
        undecided &= step == 0
    if undecided.any():
        entry = int(undecided.argmax()) + 1
        raise DataError(f"entry {entry} of {name} is there twice", code="E504")


def _check_values(values: Array, entries: int, label: str) -> None:
    if values.ndim != 1 or len(values) != entries:
        size = "x".join(map(str, values.shape)) or "no"
        raise DataError(
            f"{label} has {size} elements, and the levels have {entries} entries", code="E505"
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "no arrays"


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
