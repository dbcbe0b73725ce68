"""Validation of arrays from outside, once, before any kernel reads them.

Kernels trust positions and coordinates, so whatever comes from a user, a file, a pickle or a shared
buffer is checked here. A level declares its invariants (`ArrayFact`, `lengths`, `faults`); those
that follow from its formulas (positions within the values, coordinates within the shape, sorted and
unique) are checked for every level in the same way. The long loops are compiled code in
`runtime.host.support`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from openwork.algebra.types import INT32, INT64
from openwork.errors import DataError, ShapeError
from openwork.format.layouts import AOS
from openwork.format.levels import Level, chain_end
from openwork.runtime.host.support import check_coordinates, check_positions, check_tuples
from openwork.runtime.memory import allocate
from openwork.runtime.storage import Array, Storage
from openwork.tensor.exchange.try_formulas import children_of, refuse_first, try_formulas

_LARGEST_NUMBER = 2**63 - 1
# Loops add the length of a tile to a coordinate, which must not overflow 64 bits.
LARGEST_EXTENT = 2**62


def admit(
    storage: Storage, name: str, labels: Mapping[str, str] | None = None, *, share: bool = False
) -> Storage:
    """`storage` from outside as a trusted one: its index arrays copied, checked and read-only.

    The arrays are copied before they are checked, so that checked arrays cannot change. The values
    are shared: whatever they become, a kernel stays in bounds.

    Args:
        storage: NumPy arrays, otherwise unchecked.
        name: the tensor's name in messages.
        labels: see `validate`.
        share: use the caller's index arrays, which must not change.
    """
    if share:
        validate(storage, name, labels)
        return replace(storage, borrowed=any(storage.levels))
    levels: list[dict[str, Array]] = []
    sources: dict[int, Array] = {}
    for n, (level, arrays) in enumerate(zip(storage.format.levels, storage.levels, strict=True)):
        own = {}
        for key, array in arrays.items():
            if key == "crd" and _lists_coordinates(level) and array.dtype in (INT32, INT64):
                sources[n], own[key] = array, allocate(array.size, array.dtype)
            else:
                own[key] = array.copy()
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
    """Reject a storage whose arrays break the invariants of its format.

    Args:
        storage: NumPy arrays, otherwise unchecked.
        name: the tensor's name in messages.
        labels: the user's names of the arrays, such as `{"pos": "indptr"}`; by default an array is
            named after its level.
        ordered: whether coordinates must be sorted, and unique, if their level says so.
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
    storage, parents = storage.laid_out(AOS), 1
    for n, level in enumerate(storage.format.levels):
        called = {
            fact.name: f"{name}.levels[{n}].{fact.name}" if labels is None else labels[fact.name]
            for fact in level.arrays
        }
        view = _view(level, storage.levels[n], storage.extents[n], parents)
        children = _check_arrays(level, view, called)
        if _lists_coordinates(level):
            _check_list(level, view, called["crd"], ordered, (sources or {}).get(n))
        elif not level.is_proven:
            try_formulas(level, view, called.get("crd", f"{name}.levels[{n}]"), ordered)
        parents = children
    label_of_values = f"{name}.values" if labels is None else labels["values"]
    _check_values(storage.elements, parents, label_of_values)
    _check_entries(storage, name, ordered)


def _view(level: Level, arrays: Mapping[str, Array], extent: int, parents: int) -> SimpleNamespace:
    wanted = {fact.name for fact in level.arrays}
    if set(arrays) != wanted:
        raise DataError(
            f"a level {level} has {_listed(wanted)}, but {_listed(arrays)} was given", code="E501"
        )
    return SimpleNamespace(extent=extent, parents=parents, **arrays)


def _check_arrays(level: Level, a: SimpleNamespace, labels: Mapping[str, str]) -> int:
    """Check what a level declares of its arrays: lengths, increasing positions, `faults`.

    Returns its number of positions.
    """
    facts = {fact.name: fact for fact in level.arrays}
    for name, fact in facts.items():
        if fact.per == "parent" and len(getattr(a, name)) != a.parents + fact.extra:
            raise DataError(
                f"{labels[name]} has {len(getattr(a, name))} entries, but needs "
                f"{a.parents + fact.extra}: one for each of {a.parents} parents, and "
                f"{fact.extra} more",
                code="E501",
            )
    own = (f.name for f in level.arrays if f.per == "own")
    for name in own:  # in order, as a length may be in the array before
        _check_length(getattr(a, name), level.lengths(a, a.parents)[name], labels[name])
    children = next((f.name for f in level.arrays if f.per == "child"), None)
    for name, fact in facts.items():
        if fact.holds == "positions":
            pos = getattr(a, name)
            last = int(pos[-1]) if children is None else len(getattr(a, children))
            check_positions(pos, max(last, 0), array=labels[name])
    for fault in level.faults(a, a.parents, a.extent):
        raise DataError(f"{labels[fault.array]}{fault.reason}", code="E502")
    count = children_of(level, a)
    if children is not None:
        _check_length(getattr(a, children), count, labels[children])
    return count


def _check_length(array: Array, wanted: int, label: str) -> None:
    if array.ndim != 1 or len(array) != wanted:
        raise DataError(f"{label} has {len(array)} entries, but needs {wanted}", code="E501")


# Coordinates


def _lists_coordinates(level: Level) -> bool:
    """Whether `crd` is known to list the coordinates of a level, run after run."""
    listed = level.is_proven and level.searches and level.contiguous
    return listed and any(fact.name == "crd" for fact in level.arrays)


def _check_list(
    level: Level, a: SimpleNamespace, label: str, ordered: bool, source: Array | None
) -> None:
    """Check listed coordinates: within their extent, sorted along each run."""
    pos = getattr(a, level.boundaries) if level.boundaries else None
    # Runs of a single entry have no order; as parts of tuples they are checked at the end.
    rises, unique = (ordered and pos is not None and fact for fact in (level.ordered, level.unique))
    crd = a.crd if a.crd.dtype in (INT32, INT64) else a.crd.astype(INT32)
    check_coordinates(crd, pos, a.extent, array=label, ordered=rises, unique=unique, source=source)


# Entries, all levels together


def _check_entries(storage: Storage, name: str, ordered: bool) -> None:
    """Check that entries are within the shape, also in blocks at its edge, and unique."""
    format = storage.format
    for mode, (tile, extent) in enumerate(zip(format.tiles, storage.shape, strict=True)):
        if tile and extent % tile and not format.levels[format.parts.index((mode, 1))].full:
            _check_edge(storage, mode, name)
    first = next((n for n, level in enumerate(format.levels) if not level.unique), None)
    if not ordered or first is None:
        return
    end = chain_end(format.levels, first)
    if end < len(format.levels):
        # What is looked up below has one parent for the same coordinates.
        check_tuples(_sorted(storage.entries(end)[1], format.levels[:end]), None, array=name)
    in_order = all(level.ordered for level in format.levels[first:])
    lists = all(map(_lists_coordinates, format.levels[first:]))
    if in_order and lists and all(level.boundaries is None for level in format.levels[first + 1 :]):
        # Entries of a run are tuples of coordinates, one array per mode.
        boundaries = format.levels[first].boundaries
        pos = None if boundaries is None else storage.levels[first][boundaries]
        check_tuples([arrays["crd"] for arrays in storage.levels[first:]], pos, array=name)
    else:
        check_tuples(_sorted(storage.entries()[1], format.levels), None, array=name)


def _sorted(columns: list[Array], levels: Sequence[Level]) -> list[Array]:
    """The coordinates of entries in order, whatever that of the levels is."""
    if all(level.ordered for level in levels):
        return columns
    sort = np.lexsort(columns[::-1])
    return [column[sort] for column in columns]


def _check_edge(storage: Storage, mode: int, name: str) -> None:
    """Check that the entries of a mode's last blocks are within the shape."""
    format, extent = storage.format, storage.shape[mode]
    outer, inner = format.parts.index((mode, 0)), format.parts.index((mode, 1))
    last = extent // format.tiles[mode]
    places = np.zeros(1, dtype=np.int64)
    for n in range(inner + 1):
        _, column, places = storage.below(places, n)
        if n == outer:
            places = places[column == last]
    refuse_first(
        column >= extent % format.tiles[mode],
        lambda n: (
            f"an entry of {name} is at {last * format.tiles[mode] + int(column[n])} of mode {mode},"
            f" which has extent {extent}: its block reaches over the edge"
        ),
        "E503",
    )


def _check_values(values: Array, entries: int, label: str) -> None:
    if values.ndim != 1 or len(values) != entries:
        size = "x".join(map(str, values.shape)) or "no"
        raise DataError(
            f"{label} has {size} elements, but the levels have {entries} entries", code="E505"
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "no arrays"


# Arrays as they come


def truth_values(array: Array) -> Array:
    """`array`, with bools that are 0 or 1 in memory: files and views may hold others.

    >>> truth_values(np.array([0, 1, 7], np.uint8).view(bool)).view(np.uint8)
    array([0, 1, 1], dtype=uint8)
    """
    if array.dtype != np.bool or not array.size or array.view(np.uint8).max() <= 1:
        return array
    made: Array = array.view(np.uint8) != 0
    return made


def as_index_array(array: object, label: str, wide: bool = False) -> Array:
    """An index array as kernels take it: one dimension, contiguous, signed integers.

    Positions are `wide`, of at least 32 bits; coordinates may be narrower.
    An array that is all of this is not copied.

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
    if made.dtype.kind == "u" and made.dtype.itemsize == 8 and (made > _LARGEST_NUMBER).any():
        index = int((made > _LARGEST_NUMBER).argmax())
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
    """A shape as a tuple of integers, checked.

    >>> check_shape(3), check_shape([2, np.int64(5)])
    ((3,), (2, 5))
    """
    extents = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    if any(isinstance(extent, bool | np.bool) for extent in extents):
        raise ShapeError(f"{shape!r} is not a shape: a bool is not an extent", code="E205")
    try:
        checked = tuple(operator.index(extent) for extent in extents)
    except TypeError as error:
        raise ShapeError(f"{shape!r} is not a shape: {error}", code="E205") from error
    for mode, extent in enumerate(checked):
        if not 0 <= extent <= LARGEST_EXTENT:
            hint = None if extent < 0 else "extents go up to 2**62"
            raise ShapeError(f"mode {mode} cannot have the extent {extent}", code="E205", hint=hint)
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
