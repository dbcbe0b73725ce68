"""Conversions through a list of entries, by programs generated from the levels' formulas.

The entries are listed, sorted by counting unless they are in order, and packed into levels. Levels
whose arrays do not follow from one pass over the list get them first; interleaved runs (ELL, SELL)
are built from CSR.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openwork.format.formats import Format
from openwork.format.levels import Compressed, Dense, Diagonals, NumberedDiagonals, Range
from openwork.format.levels.width import countable, index_dtype
from openwork.runtime.storage import Array, Storage
from openwork.tensor.convert.list_kernels import (
    Entries,
    diagonals,
    keys_of,
    listed,
    packed,
    sorted_by,
)
from openwork.tensor.convert.pack_entries import Packing, single
from openwork.tensor.convert.rows import by_rows, is_rows, rows_reach


def by_lists(storage: Storage, format: Format, exact: bool) -> Storage | None:
    """`storage` in another format, given a compiler; None if lists cannot produce it.

    Levels that store more than entries contribute only what differs from the fill, unless the
    pattern is `exact`.
    """
    source, rows = storage.format, _rows_like(format)
    if not _is_unique(source) or not _has_way(format):
        return None
    drops = source.levels[-1].stuffs and not exact
    if rows is not None and is_rows(source) and source.order != format.order:
        storage = by_rows(storage, rows) or storage  # CSR is transposed faster than lists
    entries = listed(storage, drops)
    if entries is not None:
        entries = sorted_by(entries, keys_of(format), storage.shape)
    return None if entries is None else _packed(entries, storage, format)


def _is_unique(format: Format) -> bool:
    """Whether there are no duplicates: below a level that repeats coordinates are singletons."""
    levels = format.levels
    first = next((n for n, level in enumerate(levels) if not level.unique), len(levels))
    return bool(levels) and levels[-1].unique and all(map(single, levels[first + 1 :]))


def _rows_like(format: Format) -> Format | None:
    """CSR or CSC, in the order of a matrix format without blocks."""
    if format.ndim != 2 or format.tiled:
        return None
    return Format([Dense, Compressed], format.order)


def _has_way(format: Format) -> bool:
    """Whether a list can be packed into a format, by formulas or by way of CSR."""
    rows = _rows_like(format)
    framed = any(level in (Range, Diagonals) for level in format.levels)
    if framed:
        return rows is not None and format.levels[0] == Dense
    return Packing.suits(format) or (rows is not None and rows_reach(rows, format))


def _packed(entries: Entries, storage: Storage, format: Format) -> Storage | None:
    """A sorted list as levels."""
    shape, fill, last = storage.shape, storage.fill, format.levels[-1]
    if last == Diagonals:
        numbered = Format([Dense, NumberedDiagonals], format.order)
        made = packed(entries, shape, numbered, fill, {1: _diagonals(entries, shape, format)})
        arrays = {fact.name: made.levels[1][fact.name] for fact in last.arrays}
        return Storage(shape, format, made.dtype, ({}, arrays), made.values, fill)
    if last != Range and Packing.suits(format):
        return packed(entries, shape, format, fill)
    through = _rows_like(format)
    if through is None:
        return None
    rows = packed(entries, shape, through, fill)
    if last != Range:
        return by_rows(rows, format)
    return packed(entries, shape, format, fill, {1: _range(rows)})


def _range(rows: Storage) -> Mapping[str, Array]:
    """The arrays of a range level, from CSR: where its runs begin, and at which coordinates."""
    pos, crd = rows.levels[1]["pos"], rows.levels[1]["crd"]
    some = np.flatnonzero(np.diff(pos))
    lo, hi = np.zeros((2, len(pos) - 1), np.int64)
    lo[some], hi[some] = crd[pos[some]], crd[pos[some + 1] - 1].astype(np.int64) + 1
    total = countable(int((hi - lo).sum(dtype=np.float64)))
    begin = np.zeros(len(pos), index_dtype(total))
    np.cumsum(hi - lo, out=begin[1:])
    extent = rows.shape[rows.format.order[1]]
    return {"pos": begin, "lo": lo.astype(index_dtype(extent))}


def _diagonals(entries: Entries, shape: tuple[int, ...], format: Format) -> Mapping[str, Array]:
    """The nonempty diagonals, and the index of each possible one among them."""
    rows, extent = (shape[mode] for mode in format.order)
    marks = diagonals(entries, (format.order[0], format.order[1]), shape)
    offset = np.flatnonzero(marks) - rows
    return Diagonals.among(offset, rows, extent) | {
        "number": np.cumsum(marks, dtype=np.int64) - 1,
    }
