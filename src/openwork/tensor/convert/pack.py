"""From coordinates to levels and back, in NumPy: packing, unpacking, dense arrays.

Levels are known by their properties, arrays and formulas, never by their names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast

import numpy as np
from scipy import sparse

from openwork.algebra.entries import Entry
from openwork.algebra.types import Number, as_dtype, as_element, as_numbers, computed, number
from openwork.errors import FormatError
from openwork.format.formats import Format
from openwork.format.layouts import AOS
from openwork.format.levels import Entries, Level, chain_end
from openwork.format.levels.width import index_dtype
from openwork.runtime.memory import check_memory, filled
from openwork.runtime.storage import Array, Storage
from openwork.tensor.convert.moves import gathered
from openwork.tensor.convert.order import add_up, first_of_each, in_order
from openwork.tensor.convert.rows import as_rows, is_rows

# The most bytes per parent position that packing a level takes.
_BYTES_EACH = 16


def pack(
    coords: Array, values: Array, shape: Sequence[int], format: Format, fill: Number = 0
) -> Storage:
    """The storage that holds `values` at `coords`. Duplicates are summed, explicit zeros kept.

    Args:
        coords: integers of shape (order, entries), each within its mode: see `check_coords`.
        values: one value per entry.
        shape: the extent of each mode.
        format: how to store the entries.
        fill: the value of absent entries, also in dense blocks that hold an entry.

    >>> from openwork.format.formats import CSR
    >>> storage = pack(np.array([[1, 0, 1], [2, 0, 2]]), np.array([1.0, 2.0, 3.0]), (2, 3), CSR)
    >>> storage.levels[1]["pos"], storage.levels[1]["crd"], storage.values
    (array([0, 1, 2], dtype=int32), array([0, 2], dtype=int32), array([2., 4.]))
    """
    if format.layout != AOS:
        made = pack(coords, values, shape, format.with_layout(AOS), fill)
        return made.laid_out(format.layout)
    shape = tuple(int(extent) for extent in shape)
    check_order(format, len(shape))
    if is_rows(format) and len(values):
        rows = _pack_rows(coords, values, shape, format, fill)
        if rows is not None:
            return rows
    extents = format.extents(shape)
    columns = _columns(coords, format)
    order, repeated = in_order(columns, extents)
    if order is not None:
        columns, values = [column[order] for column in columns], values[order]
    if repeated:
        first = first_of_each(columns)
        columns, values = [column[first] for column in columns], add_up(values, first)
    if not shape and len(values) > 1:
        values = add_up(values, np.arange(len(values)) == 0)
    return _pack_sorted(columns, values, shape, format, fill)


def _columns(coords: Array, format: Format) -> list[Array]:
    """The coordinate that each level stores: the mode's, its block's, or that within the block."""
    columns = []
    for mode, part in format.parts:
        tile = format.tiles[mode]
        column = coords[mode]
        if tile > np.iinfo(column.dtype).max:
            column = column.astype(np.int64)
        columns.append(column if part is None else column // tile if part == 0 else column % tile)
    return columns


def check_order(format: Format, order: int) -> None:
    """Refuse a format for another number of modes."""
    if format.ndim != order:
        raise FormatError(
            f"{format!r} stores {format.ndim} modes, but the tensor has {order}",
            code="E401",
            hint=f"for example format=ow.CSF({order}), or ow.dense({order})",
        )


def _pack_rows(
    coords: Array, values: Array, shape: tuple[int, ...], format: Format, fill: Number
) -> Storage | None:
    """CSR or CSC, in linear time; None for elements with duplicates that SciPy has not."""
    outer, inner = format.order
    dtype = as_dtype(values.dtype)
    fill = number(fill, dtype)
    check_memory(_BYTES_EACH * shape[outer], f"{format!r} of shape {shape}")
    rows = gathered(coords[outer], coords[inner], values, (shape[outer], shape[inner]))
    if rows is not None:
        return as_rows(rows, shape, format, fill)
    # There are duplicates, or no compiler: SciPy counts and sums.
    if isinstance(dtype, Entry) or computed(dtype) != dtype:
        return None
    triplets = sparse.coo_array(
        (values, (coords[outer], coords[inner])), shape=(shape[outer], shape[inner])
    )
    made = triplets.tocsr()
    made.sort_indices()
    pos = narrow(made.indptr, len(made.data))
    crd = narrow(made.indices, shape[inner] - 1)
    return as_rows((pos, crd, cast(Array, made.data)), shape, format, fill)


def narrow(array: Array, largest: int) -> Array:
    """`array` in the index type for integers up to `largest`."""
    return np.ascontiguousarray(array, dtype=index_dtype(largest))


def _told_apart(levels: Sequence[Level], n: int) -> int:
    """The level whose coordinates distinguish the positions of level `n`: itself, or one below."""
    if levels[n].unique:
        return n
    chain = range(n, chain_end(levels, n))
    return next((m for m in chain if levels[m].unique), chain[-1])


def _pack_sorted(
    columns: Sequence[Array],
    values: Array,
    shape: tuple[int, ...],
    format: Format,
    fill: Number,
) -> Storage:
    """Build the levels, outermost first, for entries in storage order without duplicates.

    `parent` is the position of each entry on the level above, and `first` marks the entries whose
    coordinates on the levels so far differ from those of the entry before.
    """
    count = len(values)
    claim = partial(check_memory, what=f"{format!r} of shape {shape}")
    columns = list(columns)
    parent = np.zeros(count, dtype=np.int64)
    first = np.arange(count) == 0
    parents = 1
    levels: list[Mapping[str, Array]] = []
    for n, (level, extent) in enumerate(zip(format.levels, format.extents(shape), strict=True)):
        if (parent[1:] < parent[:-1]).any():  # the level above did not keep the order
            order = np.argsort(parent, kind="stable")
            columns, values = [column[order] for column in columns], values[order]
            first, parent = first[order], parent[order]
        column = columns[n]
        first[1:] |= column[1:] != column[:-1]
        for other in columns[n + 1 : _told_apart(format.levels, n) + 1]:
            first[1:] |= other[1:] != other[:-1]
        starts = np.flatnonzero(first)
        ends = np.empty_like(starts)
        ends[:-1], ends[-1:] = starts[1:], count
        below = ends - starts
        coordinate = column[starts].astype(np.int64)
        entries = Entries(parent[starts], coordinate, below, parents, int(extent), claim)
        if any(fact.per == "parent" for fact in level.arrays):
            claim(_BYTES_EACH * parents)
        packed = level.pack(entries)
        levels.append(packed.arrays)
        parent = packed.places[np.cumsum(first, dtype=np.int64) - 1] if count else parent
        parents = packed.count
    dtype = as_dtype(values.dtype)
    fill = number(fill, dtype)
    if parents != count or (parent != np.arange(count)).any():
        blocks = filled(parents, fill, dtype, f"{format!r} of shape {shape}")
        blocks[parent] = values
        values = blocks
    return Storage.of_values(shape, format, tuple(levels), np.ascontiguousarray(values), fill)


def unpack(storage: Storage) -> tuple[Array, Array]:
    """The coordinates, of shape (order, entries), and values of all stored entries.

    Entries come in storage order. In a dense level every coordinate is an entry.

    >>> from openwork.format.formats import dense
    >>> storage = pack(np.array([[1], [0]]), np.array([5]), (2, 2), dense(2))
    >>> unpack(storage)
    (array([[0, 0, 1, 1], [0, 1, 0, 1]], dtype=int32), array([0, 0, 5, 0]))
    """
    coords, places = storage.coordinates()
    values = storage.elements
    everything = len(places) == values.size and bool((places[1:] - places[:-1] == 1).all())
    return coords, values if everything else values[places]


def by_numpy(storage: Storage, format: Format, exact: bool) -> Storage:
    """The same tensor in another format: unpacked, sorted and packed.

    Levels that store more than entries contribute only what differs from the fill, unless the
    pattern is `exact`.
    """
    if storage.format.is_dense and not exact:
        return from_dense(to_dense(storage), format, storage.fill)
    coords, values = unpack(storage)
    if storage.format.levels[-1].stuffs and not exact:
        kept = differs(values, storage.fill)
        coords, values = coords[:, kept], values[kept]
    return pack(coords, values, storage.shape, format, storage.fill)


def to_dense(storage: Storage) -> Array:
    """The tensor as a dense array; one that is dense already is not copied."""
    if storage.alike and storage.format.order == tuple(range(len(storage.shape))):
        return storage.values.reshape(storage.shape)
    if storage.format.plain:
        extents = [storage.shape[mode] for mode in storage.format.order]
        axes = [storage.format.level_of(mode) for mode in range(len(extents))]
        return storage.elements.reshape(extents).transpose(axes)
    count = math.prod(storage.shape)
    check_memory(count * storage.dtype.itemsize, f"a dense array of shape {storage.shape}")
    array = np.full(storage.shape, as_element(storage.fill, storage.dtype))
    coords, values = unpack(storage)
    array[tuple(coords)] = values
    return array


def to_numbers(storage: Storage) -> Array:
    """The tensor as a dense array of numbers; the components of records come last.

    Also of a dense tensor on a GPU, whose library has no records.
    """
    entry, format = storage.dtype, storage.format
    if not isinstance(entry, Entry):
        return to_dense(storage)
    if entry.decoded.family != entry.family:
        return to_numbers(storage.astype(entry.decoded))
    if not format.plain:
        return as_numbers(to_dense(storage))
    extents = [storage.shape[mode] for mode in format.order]
    axes = [format.level_of(mode) for mode in range(len(extents))]
    axes += range(len(axes), len(axes) + len(entry.shape))
    return storage.values.reshape(*extents, *entry.shape).transpose(axes)


def from_dense(array: Array, format: Format, fill: Number = 0) -> Storage:
    """The storage of a dense array; sparse levels store only what differs from `fill`.

    >>> from openwork.format.formats import CSR
    >>> from_dense(np.array([[0.0, np.nan], [3.0, 0.0]]), CSR).values
    array([nan,  3.])
    """
    check_order(format, array.ndim)
    if format.layout != AOS:
        return from_dense(array, format.with_layout(AOS), fill).laid_out(format.layout)
    dtype = as_dtype(array.dtype)
    fill = number(fill, dtype)
    order = format.order if not format.tiled else tuple(dict.fromkeys(format.order))
    stored = array.transpose(order)
    if format.plain:
        values = np.ascontiguousarray(stored, dtype=dtype).reshape(-1)
        return Storage.of_values(array.shape, format, ({},) * array.ndim, values, fill)
    kept = np.nonzero(np.ones(stored.shape, bool) if format.is_dense else differs(stored, fill))
    columns = [kept[order.index(mode)] for mode in range(array.ndim)]
    return pack(np.array(columns), stored[kept].astype(dtype), array.shape, format, fill)


def differs(values: Array, fill: Number) -> Array:
    """Where `values` differ from `fill`; NaN equals NaN."""
    if fill != fill:
        return cast(Array, values == values)
    return cast(Array, values != as_element(fill, as_dtype(values.dtype)))
