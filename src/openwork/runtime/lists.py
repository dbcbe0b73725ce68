"""Lists of entries in compiled code: from any storage, sorted, and packed into levels.

`None` means that there is no compiler, or that the program would not be linear: somebody else has
to do the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import SimpleNamespace

import numpy as np

from openwork.algebra.types import Number
from openwork.format.formats import Format
from openwork.format.levels.base import coordinates
from openwork.format.width import index_dtype
from openwork.program.listing import Listing
from openwork.program.marking import Marking
from openwork.program.nodes import Program
from openwork.program.packing import Packing, appended, located, single
from openwork.program.simplify import simplify
from openwork.program.sorting import Key, Sorting
from openwork.program.verify import verify
from openwork.render.c import render
from openwork.render.spelling import CTYPES
from openwork.runtime.launch import Executable, threads_for
from openwork.runtime.library import load
from openwork.runtime.memory import allocate, check_memory
from openwork.runtime.storage import Array, Storage

# Parts for each thread, so that all have work until the end.
_EACH = 16
# The least number of entries that is worth a part.
_LEAST = 1 << 12


@dataclass(frozen=True)
class Entries:
    """A list: coordinates by mode, values, and what they are sorted by; None if by nothing.

    `borrowed`: the arrays are those of a tensor.
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
    """What the entries of a format are sorted by."""
    return tuple(
        Key(mode, part, 0 if part is None else format.tiles[mode]) for mode, part in format.parts
    )


def listed(storage: Storage, drops: bool) -> Entries | None:
    """All entries of a storage; if it `drops`, without those that are the fill."""
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
    same = storage.fill == storage.fill
    plan = Listing(
        format,
        widths,
        tuple(type.name for type in types),
        storage.dtype.name,
        drops,
        storage.fill if same and drops else "nan",
        storage.overhangs,
    )
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


def _is_list(storage: Storage) -> bool:
    """Whether a storage is a list of entries already."""
    first, *others = storage.format.levels
    if storage.format.tiled or not (appended(first) and all(map(single, others))):
        return False
    pos = storage.levels[0]["pos"]
    return int(pos[0]) == 0 and int(pos[1]) == storage.values.size


def sorted_by(entries: Entries, want: Sequence[Key], shape: Sequence[int]) -> Entries | None:
    """The list in another order, if it takes a time linear in its entries."""
    passes = passes_to(entries.keys, tuple(want))
    extents = [_extent(key, shape) for key in passes]
    count = len(entries.values)
    if sum(extents) > 2 * count + 1024:
        return None
    cuts = min(_cuts(count), threads_for(count))
    for key, extent in zip(reversed(passes), reversed(extents), strict=True):
        width = index_dtype(count)
        plan = Sorting(key, entries.types, entries.values.dtype.name, width.name)
        counts = np.zeros(cuts * extent, width)
        made = tuple(allocate(count, array.dtype) for array in entries.crd)
        values = allocate(count, entries.values.dtype)
        pointers = _at(*entries.crd, entries.values, counts, *made, values)
        _run(_compiled(plan, "program"), pointers, (cuts, count, extent))
        entries = Entries(made, values, None)
    return replace(entries, keys=tuple(want))


def passes_to(have: tuple[Key, ...] | None, want: tuple[Key, ...]) -> tuple[Key, ...]:
    """By which of the first keys of `want` to sort what is sorted by `have`.

    After sorting by them, from the last to the first, equal ones are in the old order; so that is
    to be the order by the keys that are left.

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
        """A mode as its block and where it is in there, if there are blocks."""
        found: list[Key] = []
        for key in keys:
            tile = tiles.get(key.mode, 0)
            whole = key.part is None and tile > 0
            found += [Key(key.mode, part, tile) for part in (0, 1)] if whole else [key]
        return found

    for count in range(len(want)):
        done = fine(want[:count])
        if [key for key in fine(have) if key not in done] == fine(want[count:]):
            return want[:count]
    return want


def diagonals(entries: Entries, modes: tuple[int, int], shape: Sequence[int]) -> Array:
    """Whether there is an entry at column - row + rows, for all that there can be."""
    rows, columns = (int(shape[mode]) for mode in modes)
    count = len(entries.values)
    cuts = min(_cuts(count), threads_for(count))
    marks = np.zeros((cuts, rows + columns), np.int8)
    plan = Marking(modes, entries.types)
    sizes = (cuts, count, rows, rows + columns)
    _run(_compiled(plan, "program"), _at(*entries.crd, marks), sizes)
    found: Array = marks.any(axis=0)
    return found


def _extent(key: Key, shape: Sequence[int]) -> int:
    extent = int(shape[key.mode])
    return extent if key.part is None else -(-extent // key.tile) if key.part == 0 else key.tile


def packed(
    entries: Entries,
    shape: tuple[int, ...],
    format: Format,
    fill: Number,
    known: Mapping[int, Mapping[str, Array]] | None = None,
) -> Storage | None:
    """The storage that holds a list in the right order, without duplicates.

    `known`: the arrays of levels whose places follow from them.
    """
    frames = dict(known or {})
    if not Packing.suits(format):
        return None
    count, dtype = len(entries.values), entries.values.dtype
    plan = Packing(format, (), entries.types, dtype.name)
    cuts = _cuts(count)
    extents = format.extents(shape)
    nothing = (0,) * len(extents)
    counts = np.zeros((cuts, len(plan.counted)), np.int64)
    if plan.counted:
        counting = _compiled(plan, "counting")
        _run(counting, _at(*entries.crd, counts), (cuts, count, *extents, *nothing))
    firsts = np.zeros((cuts + 1, len(plan.counted)), np.int64)
    np.cumsum(counts, axis=0, out=firsts[1:])
    totals = dict(zip(plan.counted, (int(total) for total in firsts[-1]), strict=True))
    places, parents = 1, []
    levels: list[dict[str, Array]] = []
    for n, (level, extent) in enumerate(zip(format.levels, extents, strict=True)):
        parents.append(places)
        arrays = dict(frames.get(n, {}))
        if appended(level):
            total = totals.get(n, count)
            arrays["pos"] = np.empty(places + 1, index_dtype(total))
            places = total
        elif located(level):
            view = SimpleNamespace(extent=extent, parents=places, **arrays)
            places = int(level.children(view, places))
        check_memory(places * dtype.itemsize, "the result")
        for fact in level.arrays:
            if fact.name == "crd":
                width = coordinates(np.zeros(0), extent, level.bits).dtype
                arrays["crd"] = allocate(places, width)
            elif fact.per == "child" and fact.name not in arrays:
                arrays[fact.name] = np.zeros(places, f"int{level.bits}")
        levels.append(arrays)
    values = entries.values
    if not plan.in_order:
        values = np.zeros(places, dtype) if _is_zero(fill) else np.full(places, fill, dtype)
    elif entries.borrowed:
        values = values.copy()
    if not _shared(plan, entries, levels, count):
        _store(plan, entries, firsts, levels, values, (cuts, count, *extents, *parents))
    for level, arrays in zip(format.levels, levels, strict=True):
        if any(fact.name == "len" for fact in level.arrays):
            arrays["len"] = np.diff(arrays["pos"])
    return Storage(shape, format, dtype, tuple(levels), values, fill)


def _is_zero(fill: Number) -> bool:
    """Whether memory of zeros holds the fill everywhere; not so for the zero with a sign."""
    return fill == 0 and "-" not in str(fill)


def _shared(plan: Packing, entries: Entries, levels: list[dict[str, Array]], count: int) -> bool:
    """A list of coordinates with the arrays of the list, if they are of the right types."""
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
def _compiled(plan: Listing | Marking | Packing | Sorting, which: str) -> tuple[Program, Executable]:
    """One of the programs of a plan, loaded."""
    program: Program = getattr(plan, which)()
    verify(program)
    program = simplify(program)
    verify(program)
    return program, Executable(program, load(render(program)).kernel)


def _run(program: tuple[Program, Executable], pointers: Sequence[int], sizes: Sequence[int]) -> None:
    """Call a program whose work is about that of its largest size."""
    program[1].run(pointers, sizes, float(max(sizes)), 0)


def _cuts(count: int) -> int:
    """How many parts there are."""
    return max(1, min(threads_for(count) * _EACH, count // _LEAST))


def _at(*arrays: Array) -> tuple[int, ...]:
    return tuple(int(array.__array_interface__["data"][0]) for array in arrays)
