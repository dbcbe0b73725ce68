"""The door for arrays from outside: what they promise is checked once, before a kernel sees them.

The long loops are compiled code in `runtime.support`; this module knows which array of which level
has to be asked what.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping

import numpy as np

from openwork.algebra.types import INT32, INT64
from openwork.errors import DataError, ShapeError
from openwork.format.levels import ArrayFact, Level
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
            fact: f"{name}.levels[{n}].{fact.name}" if labels is None else labels[fact.name]
            for fact in level.arrays
        }
        extent = storage.shape[storage.format.order[n]]
        _check_level(level, storage.levels[n], parents, extent, called, ordered)
        parents = storage.positions(n)
    label_of_values = f"{name}.values" if labels is None else labels["values"]
    _check_values(storage.values, parents, label_of_values)


def _check_level(
    level: Level,
    arrays: Mapping[str, Array],
    parents: int,
    extent: int,
    labels: Mapping[ArrayFact, str],
    ordered: bool,
) -> None:
    """Check the arrays of one level below `parents` positions, positions before coordinates."""
    wanted = {fact.name for fact in labels}
    if set(arrays) != wanted:
        raise DataError(
            f"a level {level} has {_listed(wanted)}, and {_listed(arrays)} was given", code="E501"
        )
    pos: Array | None = None
    for fact in sorted(labels, key=lambda fact: fact.holds != "positions"):
        array, label = arrays[fact.name], labels[fact]
        if fact.per == "parent" and array.ndim == 1 and len(array) != parents + fact.extra:
            raise DataError(
                f"{label} has {len(array)} entries, and {parents + fact.extra} are needed: "
                f"one for each of {parents} parents, and {fact.extra} more",
                code="E501",
            )
        if fact.holds == "positions":
            children = next((len(arrays[f.name]) for f in labels if f.per == "child"), 0)
            check_positions(array, children, array=label)
            pos = array
        else:
            rises, unique = ordered and level.ordered, ordered and level.unique
            check_coordinates(array, pos, extent, array=label, ordered=rises, unique=unique)


def _check_values(values: Array, entries: int, label: str) -> None:
    if values.ndim != 1 or len(values) != entries:
        size = "x".join(map(str, values.shape)) or "no"
        raise DataError(
            f"{label} has {size} elements, and the levels have {entries} entries", code="E505"
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "no arrays"


def as_index_array(array: object, label: str) -> Array:
    """An index array as kernels take it: one dimension, contiguous, int32 or int64.

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
    dtype = made.dtype if made.dtype in (INT32, INT64) else INT64
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
