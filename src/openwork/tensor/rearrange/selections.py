"""The matrices that select coordinates, made for the extents and tables of one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from openwork.errors import ShapeError
from openwork.format.levels.width import index_dtype
from openwork.index.nodes import Access, Affine, IndexVar
from openwork.loops.plan.select import Selection
from openwork.runtime.gpu.cuda import DeviceStorage
from openwork.runtime.storage import Array, Storage


def give_extents(extents: dict[IndexVar, int], selections: Sequence[Selection]) -> None:
    """Extents that windows give, and for variables that nothing else does, the largest in bounds.

    Raises:
        ShapeError: E201 if a window disagrees with an extent, E207 if an offset leaves the tensor.
    """
    affine = [(s, s.coordinate) for s in selections if isinstance(s.coordinate, Affine)]
    for selection, place in affine:
        if place.var is None or place.count is None:
            continue
        if extents.setdefault(place.var, place.count) != place.count:
            raise ShapeError(
                f"{place.var} has {place.count} values in {selection.text}, but extent "
                f"{extents[place.var]} elsewhere",
                code="E201",
            )
    for selection, place in affine:
        if place.var is not None and place.var not in extents and not selection.border:
            others = (
                _largest(each, extents[s.column])
                for s, each in affine
                if each.var == place.var and not s.border and each.count is None
            )
            extents[place.var] = max(min(others), 0)


def _largest(place: Affine, extent: int) -> int:
    """How many values from 0 on keep a coordinate within `extent`."""
    if not 0 <= place.start < extent:
        return 0
    last = (extent - 1 - place.start) // place.step if place.step > 0 else 0
    return (last if place.step > 0 else place.start // -place.step) + 1


def check_bounds(extents: Mapping[IndexVar, int], selections: Sequence[Selection]) -> None:
    """Refuse coordinates beyond a tensor, where no border is given.

    Raises:
        ShapeError: E207.
    """
    for selection in selections:
        place = selection.coordinate
        if selection.border or not isinstance(place, Affine):
            continue
        count = 1 if place.var is None else extents[place.var]
        ends = (place.start, place.start + place.step * (count - 1)) if count else ()
        _check(selection, ends, extents[selection.column])


def _check(selection: Selection, coordinates: Sequence[int], extent: int) -> None:
    wrong = next((int(c) for c in coordinates if not 0 <= c < extent), None)
    if wrong is None:
        return
    offset = isinstance(selection.coordinate, Affine) and selection.coordinate.var is not None
    raise ShapeError(
        f"{selection.text} reads coordinate {wrong} of mode {selection.mode} of "
        f"{selection.tensor}, whose extent is {extent}",
        code="E207",
        hint="give the result a smaller shape, or a border: border(x(i+1), 0)" if offset else None,
    )


def made(
    selection: Selection, extents: Mapping[IndexVar, int], table: Storage | None, on_gpu: bool
) -> Storage:
    """The storage of a selection.

    Args:
        selection: what it selects.
        extents: of all variables.
        table: the tensor of coordinates, where there is one.
        on_gpu: whether the kernel's other operands are in GPU memory.

    Raises:
        ShapeError: E207 for a coordinate in a table that is beyond the tensor.
    """
    format, column = selection.var.format, extents[selection.column]
    shape = (*(extents[var] for var in selection.rows), column)
    if isinstance(selection.coordinate, Access) and table is not None:
        crd = _table(selection, selection.coordinate, table, column)
        levels: list[Mapping[str, Array]] = [*[{}] * (len(shape) - 1), {"crd": crd}]
        count = crd.size
    elif isinstance(selection.coordinate, Affine) and len(format.levels[-1].arrays) == 2:
        listed, count = _listed(selection.coordinate, shape[0], column, format.order == (1, 0))
        levels = [{}, listed]
    else:
        levels = [{}] * len(format.levels)
        count = 1 if len(shape) == 1 else shape[0]
    held = Storage.of_values(shape, format, tuple(levels), _unread(count, selection), 0)
    held.fill = selection.var.fill
    return DeviceStorage.of(held) if on_gpu else held


def _unread(count: int, selection: Selection) -> Array:
    """Values that no kernel reads."""
    dtype = selection.var.dtype
    return np.empty(count, getattr(dtype, "dtype", dtype))


def _table(selection: Selection, access: Access, table: Storage, extent: int) -> Array:
    """The coordinates in a table, checked, in the order of the selection's variables."""
    host = table.host()
    array = host.values.reshape([host.shape[mode] for mode in host.format.order])
    # A copy, so that nobody can change what was checked.
    array = array.transpose(np.argsort(host.format.order)).flatten()
    if array.size:
        _check(selection, (int(array.min()), int(array.max())), extent)
    return array.astype(index_dtype(extent))


def _listed(
    place: Affine, rows: int, extent: int, by_columns: bool
) -> tuple[dict[str, Array], int]:
    """The entries of the coordinates that lie within `extent`, listed by rows or by columns."""
    first, last = _within(place, rows, extent)
    count = max(last - first, 0)
    inside = np.arange(first, first + count)
    dtype = index_dtype(max(rows, extent, 1))
    columns = place.start + place.step * inside
    if not by_columns:
        pos = np.clip(np.arange(rows + 1) - first, 0, count)
        return {"pos": pos.astype(dtype), "crd": columns.astype(dtype)}, count
    pos = np.zeros(extent + 1, dtype)
    pos[columns + 1] = 1
    np.cumsum(pos, out=pos)
    crd = inside if place.step > 0 else inside[::-1]
    return {"pos": pos, "crd": np.ascontiguousarray(crd, dtype)}, count


def _within(place: Affine, rows: int, extent: int) -> tuple[int, int]:
    """The values of the variable, from a first to a last, whose coordinates lie within `extent`."""
    start, step = place.start, place.step
    if step > 0:
        first, last = -(start // step), (extent - 1 - start) // step + 1
    else:
        first, last = -((extent - 1 - start) // -step), start // -step + 1
    return min(max(first, 0), rows), min(max(last, 0), rows)
