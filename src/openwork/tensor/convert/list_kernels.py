"""Lists of entries in compiled code: from any storage, sorted, and packed into levels.

`None` means that there is no compiler, or that the program would not be linear: the caller must use
another method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import nan, prod
from types import SimpleNamespace
from typing import cast

import numpy as np

from openwork.algebra.types import Number, copied
from openwork.format.formats import Format
from openwork.format.levels import Level
from openwork.format.levels.base import coordinates
from openwork.format.levels.width import countable, index_dtype
from openwork.frozen import frozen
from openwork.pipeline import to_c
from openwork.program.nodes import Program
from openwork.program.verify import verify
from openwork.render.c.dialect import CTYPES
from openwork.runtime.host.launch import Executable, threads_for
from openwork.runtime.host.library import load
from openwork.runtime.memory import address, allocate, filled, zeros
from openwork.runtime.storage import Array, Storage
from openwork.tensor.convert.list_entries import Listing
from openwork.tensor.convert.pack_entries import Packing, appended, located, single
from openwork.tensor.convert.sort_entries import Key, Marking, Sorting
from openwork.trace import Trace

# Parts per thread, for load balance.
_EACH = 16
# The fewest entries that are worth a part.
_LEAST = 1 << 12


@frozen
class Entries:
    """A list: coordinates by mode, values, and the sort keys; None if it is unsorted.

    `borrowed`: the arrays belong to a tensor.
    """

    crd: tuple[Array, ...]
    values: Array
    keys: tuple[Key, ...] | None
    borrowed: bool = False

    @property
    def types(self) -> tuple[str, ...]:
        """The element types of the coordinates."""
        return tuple(array.dtype.name for array in self.crd)


def keys_of(format: Format) -> tuple[Key, ...]:
    """The sort keys of a format's entries."""
    return tuple(
        Key(mode, part, 0 if part is None else format.tiles[mode]) for mode, part in format.parts
    )


def listed(storage: Storage, drops: bool) -> Entries | None:
    """All entries of a storage; with `drops`, without those equal to the fill."""
    format = storage.format
    if not format.levels or storage.dtype.name not in CTYPES:
        return None
    keys = keys_of(format) if all(level.ordered for level in format.levels) else None
    if _is_list(storage):
        crd = [storage.levels[format.level_of(mode)]["crd"] for mode in range(format.ndim)]
        return Entries(tuple(crd), storage.values, keys, borrowed=True)
    types = [index_dtype(extent - 1) for extent in storage.shape]
    widths = tuple(
        tuple((name, level[name].dtype.name) for name in sorted(level)) for level in storage.levels
    )
    left_out = _one_nan(storage.fill) if drops else None
    names = tuple(type.name for type in types)
    plan = Listing(format, widths, names, storage.dtype.name, left_out, storage.overhangs)
    cuts = _cuts(storage.values.size)
    sizes = (cuts, *storage.extents, *storage.shape)
    counts = np.zeros(cuts, np.int64)
    _run(_compiled(plan, "counting"), (*storage.pointers, *_at(counts)), sizes)
    firsts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    made = tuple(allocate(int(firsts[-1]), type) for type in types)
    values = allocate(int(firsts[-1]), storage.dtype)
    pointers = (*storage.pointers, *_at(firsts, *made, values))
    _run(_compiled(plan, "storing"), pointers, sizes)
    return Entries(made, values, keys)


def _one_nan(fill: Number) -> Number:
    """The fill; all NaNs become the same object, so that the program cache finds them."""
    return fill if fill == fill else nan


def _is_list(storage: Storage) -> bool:
    """Whether a storage is a list of entries already."""
    first, *others = storage.format.levels
    if storage.format.tiled or not (appended(first) and all(map(single, others))):
        return False
    pos = storage.levels[0]["pos"]
    return int(pos[0]) == 0 and int(pos[1]) == storage.values.size


def sorted_by(entries: Entries, want: Sequence[Key], shape: Sequence[int]) -> Entries | None:
    """The list in another order, if sorting is linear in its entries."""
    passes = passes_to(entries.keys, tuple(want))
    count = len(entries.values)
    groups: list[tuple[Key, ...]] = [(key,) for key in passes]
    near = len(passes) > 1 and passes_to(entries.keys, passes[:-1]) == ()
    if near and prod(_extent(key, shape) for key in passes) <= count:
        groups = [passes]  # sorted by all keys but the last: entries move little
    if sum(prod(_extent(key, shape) for key in group) for group in groups) > 2 * count + 1024:
        return None
    for group in reversed(groups):
        entries = _counted(entries, group, [_extent(key, shape) for key in group])
    return replace(entries, keys=tuple(want))


def _counted(entries: Entries, keys: tuple[Key, ...], extents: Sequence[int]) -> Entries:
    """The list sorted by `keys`, by counting."""
    count, numbers = len(entries.values), prod(extents)
    cuts, width = min(_cuts(count), threads_for(count)), index_dtype(count)
    counts = zeros(cuts * numbers, width)
    made = tuple(allocate(count, array.dtype) for array in entries.crd)
    values = allocate(count, entries.values.dtype)
    plan = Sorting(keys, entries.types, values.dtype.name, width.name)
    pointers = _at(*entries.crd, entries.values, counts, *made, values)
    _run(_compiled(plan, "program"), pointers, (cuts, count, numbers, *extents))
    return Entries(made, values, None)


def passes_to(have: tuple[Key, ...] | None, want: tuple[Key, ...]) -> tuple[Key, ...]:
    """The first keys of `want` by which to sort a list that is sorted by `have`.

    The sort is stable and goes from the last key to the first, so entries with equal keys keep the
    old order. That must be the order by the remaining keys.

    >>> rows, columns = Key(0), Key(1)
    >>> passes_to((rows, columns), (columns, rows)) == (columns,)
    True
    >>> passes_to((rows, columns), (rows, columns))
    ()
    """
    if have is None:
        return want
    tiles = {key.mode: key.tile for key in (*have, *want) if key.tile}
    if any(key.tile not in (0, tiles[key.mode]) for key in (*have, *want) if key.mode in tiles):
        return want

    def fine(keys: Sequence[Key]) -> list[Key]:
        """Keys with each mode split into block and offset, if there are blocks."""
        found: list[Key] = []
        for key in keys:
            tile = tiles.get(key.mode, 0)
            whole = key.part is None and tile > 0
            found += [Key(key.mode, part, tile) for part in (0, 1)] if whole else [key]
        return found

    for count in range(len(want)):
        done = fine(want[:count])
        rest = fine(want[count:])
        if [key for key in fine(have) if key not in done][: len(rest)] == rest:
            return want[:count]
    return want


def diagonals(entries: Entries, modes: tuple[int, int], shape: Sequence[int]) -> Array:
    """For each possible diagonal, column - row + rows, whether it has an entry."""
    rows, columns = (int(shape[mode]) for mode in modes)
    count = len(entries.values)
    cuts = min(_cuts(count), threads_for(count))
    marks = zeros(cuts * (rows + columns), np.dtype(np.int8)).reshape(cuts, rows + columns)
    plan = Marking(modes, entries.types)
    sizes = (cuts, count, rows, rows + columns)
    _run(_compiled(plan, "program"), _at(*entries.crd, marks), sizes)
    return cast(Array, marks.any(axis=0))


def _extent(key: Key, shape: Sequence[int]) -> int:
    extent = int(shape[key.mode])
    return extent if key.part is None else -(-extent // key.tile) if key.part == 0 else key.tile


def packed(
    entries: Entries,
    shape: tuple[int, ...],
    format: Format,
    fill: Number,
    known: Mapping[int, Mapping[str, Array]] | None = None,
) -> Storage:
    """The storage of a sorted list without duplicates.

    `format` is one that `Packing` suits; `known`: the arrays of levels that are located by formula.
    """
    count, dtype = len(entries.values), entries.values.dtype
    plan = Packing(format, (), entries.types, dtype.name)
    cuts, extents = _cuts(count), format.extents(shape)
    firsts = _firsts(plan, entries, cuts, extents)
    totals = dict(zip(plan.counted, (int(total) for total in firsts[-1]), strict=True))
    places: list[int] = [1]
    levels: list[dict[str, Array]] = []
    for n, (level, extent) in enumerate(zip(format.levels, extents, strict=True)):
        arrays, below = _arrays(
            level, extent, places[-1], totals.get(n, count), dict((known or {}).get(n, {}))
        )
        levels.append(arrays)
        places.append(below)
    values = entries.values
    if not plan.in_order:
        values = zeros(below, dtype) if _is_zero(fill) else filled(below, fill, dtype)
    elif entries.borrowed:
        values = copied(values)
    if not _shared(plan, entries, levels, count):
        _store(plan, entries, firsts, levels, values, (cuts, count, *extents, *places[:-1]))
    for level, arrays in zip(format.levels, levels, strict=True):
        if any(fact.name == "len" for fact in level.arrays):
            arrays["len"] = np.diff(arrays["pos"])
    return Storage(shape, format, dtype, tuple(levels), values, fill)


def _firsts(plan: Packing, entries: Entries, cuts: int, extents: Sequence[int]) -> Array:
    """The first position of each part, for each level whose positions are counted."""
    counts = np.zeros((cuts, len(plan.counted)), np.int64)
    if plan.counted:
        nothing = (0,) * len(extents)
        sizes = (cuts, len(entries.values), *extents, *nothing)
        _run(_compiled(plan, "counting"), _at(*entries.crd, counts), sizes)
    firsts = np.zeros((cuts + 1, len(plan.counted)), np.int64)
    np.cumsum(counts, axis=0, out=firsts[1:])
    return firsts


def _arrays(
    level: Level, extent: int, parents: int, total: int, known: dict[str, Array]
) -> tuple[dict[str, Array], int]:
    """The arrays of a level, and its number of positions: `total` if it is appended to."""
    places = parents
    if appended(level):
        known["pos"] = allocate(parents + 1, index_dtype(total))
        places = total
    elif located(level):
        view = SimpleNamespace(extent=extent, parents=parents, **known)
        places = countable(int(level.children(view, np.int64(parents))))  # in 64 bits
    for fact in level.arrays:
        if fact.holds == "coordinates":
            width = coordinates(np.zeros(0), extent, level.bits).dtype
            known[fact.name] = allocate(places, width)
        elif fact.per == "child" and fact.name not in known:
            known[fact.name] = zeros(places, np.dtype(f"int{level.bits}"))
    return known, places


def _is_zero(fill: Number) -> bool:
    """Whether zeroed memory is the fill; false for negative zero."""
    return not any(np.asarray(fill).tobytes())


def _shared(plan: Packing, entries: Entries, levels: list[dict[str, Array]], count: int) -> bool:
    """Share the arrays of the list with a COO result, if their types are right."""
    format = plan.format
    first, *others = format.levels
    if format.tiled or not (appended(first) and plan.each(0) and all(map(single, others))):
        return False
    crd = [entries.crd[mode] for mode in format.order]
    if any(a.dtype != arrays["crd"].dtype for a, arrays in zip(crd, levels, strict=True)):
        return False
    for array, arrays in zip(crd, levels, strict=True):
        arrays["crd"] = array
    levels[0]["pos"][:] = 0, count
    return True


def _store(
    plan: Packing,
    entries: Entries,
    firsts: Array,
    levels: list[dict[str, Array]],
    values: Array,
    sizes: tuple[int, ...],
) -> None:
    widths = tuple(
        tuple((name, arrays[name].dtype.name) for name in sorted(arrays)) for arrays in levels
    )
    plan = replace(plan, widths=widths)
    program = _compiled(plan, "storing")
    given = {f"R_{name}{n + 1}": a for n, arrays in enumerate(levels) for name, a in arrays.items()}
    given |= {f"L_crd{n + 1}": a for n, a in enumerate(entries.crd)}
    given |= {"L_vals": entries.values, "R_vals": values, "firsts": firsts}
    arrays = [given[argument.array.name] for argument in program[0].arguments]
    _run(program, _at(*arrays), sizes)


# -- programs -----------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def _compiled(
    plan: Listing | Marking | Packing | Sorting, which: str
) -> tuple[Program, Executable]:
    """A program of a plan, compiled and loaded."""
    program: Program = getattr(plan, which)()
    verify(program)
    program, source = to_c(program, Trace(dumps=False))
    return program, Executable(program, load(source).kernel)


def _run(
    program: tuple[Program, Executable], pointers: Sequence[int], sizes: Sequence[int]
) -> None:
    """Call a program; its largest size estimates its work."""
    program[1].run(pointers, sizes, float(max(sizes)), 0)


def _cuts(count: int) -> int:
    """The number of parts."""
    return max(1, min(threads_for(count) * _EACH, count // _LEAST))


def _at(*arrays: Array) -> tuple[int, ...]:
    return tuple([address(array) for array in arrays])
