"""Conversions of CSR, CSC and COO in C, linear in the number of entries."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openwork.algebra.types import Number, copied
from openwork.errors import InternalError
from openwork.format.formats import BSR, COO, LIL, Format
from openwork.format.levels import Dense, Entries, SideBySide
from openwork.format.levels.base import coordinates
from openwork.format.levels.width import index_dtype
from openwork.runtime.storage import Array, Storage
from openwork.tensor.convert.moves import (
    Rows,
    blocked,
    list_of_runs,
    runs_of_list,
    spread,
    transposed,
)

_LISTED = COO(2).levels


def is_rows(format: Format) -> bool:
    """Whether a format is a dense level above a plain compressed one: CSR or CSC."""
    return (
        format.ndim == len(format.levels) == 2
        and format.levels[0] == Dense
        and format.levels[1].appends
    )


def rows_of(storage: Storage) -> Rows:
    """The arrays of a storage that `is_rows`."""
    return storage.levels[1]["pos"], storage.levels[1]["crd"], storage.elements


def as_rows(rows: Rows, shape: tuple[int, ...], format: Format, fill: Number) -> Storage:
    """CSR or CSC with these arrays."""
    pos, crd, values = rows
    arrays = {"pos": pos, "crd": crd}
    return Storage.of_values(shape, format, ({}, arrays), values, fill)


def rows_reach(source: Format, format: Format) -> bool:
    """Whether `by_rows` converts from one format to the other, given a compiler."""
    if format.ndim != 2 or not (is_rows(source) or source.levels == _LISTED):
        return False
    if is_rows(format) or format.levels in (_LISTED, LIL.levels):
        return True
    if len(format.levels) == 2 and isinstance(format.levels[1], SideBySide):
        return format.levels[0].full
    return all(format.tiles) and format == BSR(*format.tiles)


def by_rows(storage: Storage, format: Format) -> Storage | None:
    """`storage` in another format; None if this method does not apply."""
    if not rows_reach(storage.format, format):
        return None
    rows = rows_of(storage) if is_rows(storage.format) else _listed_rows(storage)
    if rows is None:
        return None
    shape = storage.shape
    if storage.format.order != tuple(dict.fromkeys(format.order)):
        turned = transposed(rows, shape[storage.format.order[1]])
        if turned is None:
            return None
        rows = turned
    if is_rows(format):
        return as_rows(rows, shape, format, storage.fill)
    if format.levels == _LISTED:
        return _listed(rows, shape, format, storage.fill)
    if format.levels == LIL.levels:
        pos, crd, values = rows
        arrays = {"len": np.diff(pos), "pos": pos, "crd": crd}
        return Storage.of_values(shape, format, ({}, arrays), copied(values), storage.fill)
    if not format.tiled:
        return _side_by_side(rows, shape, format, storage.fill)
    made = blocked(rows, shape[1], (format.tiles[0], format.tiles[1]), storage.fill)
    if made is None:
        return None
    arrays = {"pos": made[0], "crd": made[1]}
    levels: tuple[Mapping[str, Array], ...] = ({}, arrays, {}, {})
    return Storage.of_values(shape, format, levels, made[2], storage.fill)


def _listed_rows(storage: Storage) -> Rows | None:
    """Sorted COO as CSR: only the positions must be found."""
    count = storage.shape[storage.format.order[0]]
    row, column = storage.levels[0]["crd"], storage.levels[1]["crd"]
    found = runs_of_list(row, storage.elements, count)
    return None if found is None else (found[0], column, found[1])


def _listed(rows: Rows, shape: tuple[int, ...], format: Format, fill: Number) -> Storage | None:
    """CSR as COO."""
    found = list_of_runs(rows, index_dtype(shape[format.order[0]] - 1))
    if found is None:
        return None
    row, values = found
    ends = np.array([0, len(values)], dtype=index_dtype(len(values)))
    levels = ({"pos": ends, "crd": row}, {"crd": rows[1]})
    return Storage.of_values(shape, format, levels, values, fill)


def _side_by_side(
    rows: Rows, shape: tuple[int, ...], format: Format, fill: Number
) -> Storage | None:
    """CSR as interleaved runs (ELL, SELL), perhaps sorted by length."""
    outer, inner = format.levels
    if not isinstance(inner, SideBySide):
        raise InternalError(f"{format!r} has no interleaved runs")
    count, extent = (shape[mode] for mode in format.order)
    lengths, place = np.diff(rows[0]), None
    above: Mapping[str, Array] = {}
    if outer != Dense:
        zeros, every = np.zeros(count, dtype=np.int64), np.arange(count)
        packed = outer.pack(Entries(zeros, every, lengths.astype(np.int64), 1, count))
        above, place = packed.arrays, packed.places
        lengths, given = np.empty_like(lengths), lengths
        lengths[place] = given
    arrays, _ = inner.runs(lengths, extent)
    width = coordinates(np.zeros(0), extent, inner.bits).dtype
    made = spread(rows, place, inner.slices(arrays, count), width, fill)
    if made is None:
        return None
    return Storage.of_values(shape, format, (above, {**arrays, "crd": made[0]}), made[1], fill)
