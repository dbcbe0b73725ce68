"""The rows of an operand by length: views of the rows of each bucket, made once per operand.

A view shares coordinates and values with the operand. It has a list of its rows, and where each of
them begins and how long it is. So values that change in place are seen, and nothing is moved.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from openwork.algebra.types import BOOL
from openwork.format.formats import Format
from openwork.format.levels import Chosen, Compressed, Dense
from openwork.format.levels.compressed import CompressedLevel
from openwork.format.levels.lengths import LengthsLevel
from openwork.format.levels.permuted import PermutedLevel
from openwork.format.levels.width import index_dtype
from openwork.frozen import frozen
from openwork.runtime.gpu.cuda import Cuda, DeviceStorage, is_on_gpu
from openwork.runtime.storage import Storage
from openwork.tensor.convert.pack import pack, unpack

ROWS = Format([Compressed])


@frozen
class Bucket:
    """Some rows of an operand.

    Args:
        storage: the operand with these rows alone, or the list of them.
        count: how many rows.
        entries: how many they have.
    """

    storage: Storage
    count: int
    entries: int


@frozen
class Partition:
    """How operands are partitioned into buckets.

    Args:
        bounds: the longest row of each bucket but the last, which has no bound.
        formats: the format of each bucket's rows; None for a view.
        listed: buckets are lists of all their rows, instead of an operand without the others.
    """

    bounds: tuple[int, ...]
    formats: tuple[Format | None, ...]
    listed: bool = False

    def of(self, storage: Storage) -> tuple[Bucket, ...]:
        """The buckets of an operand; made once, and kept as long as the operand lives."""
        known = _KEPT.setdefault(storage, {})
        found = known.get(self)
        if found is None:
            found = known[self] = tuple(self._made(storage))
        return found

    def _made(self, storage: Storage) -> list[Bucket]:
        numbers = Cuda().cp if is_on_gpu(storage.values) else np
        lengths = entries_of_rows(storage)
        if self.listed:  # rows that are not stored, too
            stored = _coordinates(storage, numbers.arange(lengths.size))
            every = numbers.zeros(storage.shape[storage.format.order[0]], lengths.dtype)
            every[stored] = lengths
            lengths = every
        which = numbers.searchsorted(numbers.asarray(self.bounds), lengths, side="left")
        buckets = []
        for n, format in enumerate(self.formats):
            places = numbers.flatnonzero(
                which == n if self.listed else (which == n) & (lengths > 0)
            )
            entries = int(lengths[places].sum())
            if self.listed:
                made = _list_of(storage, places)
            elif format is None:
                made = _view(storage, places)
            else:
                made = _copied(storage, places, format)
            buckets.append(Bucket(made, int(places.size), entries))
        return buckets


_KEPT: WeakKeyDictionary[Storage, dict[Partition, tuple[Bucket, ...]]] = WeakKeyDictionary()


def has_lengths(format: Format) -> bool:
    """Whether the rows of a tensor in this format have lengths, and each is stored once."""
    if len(format.levels) < 2 or format.tiled:
        return False
    first, second, *_ = format.levels
    listed = isinstance(first, CompressedLevel) and first.unique
    return (first == Dense or listed) and isinstance(second, CompressedLevel | LengthsLevel)


def format_of_view(format: Format) -> Format:
    """The format of a view of some rows."""
    first, second, *rest = format.levels
    runs = Chosen(ordered=second.ordered, unique=second.unique, bits=second.bits)
    return Format([_row_list(first), runs, *rest], format.order, layout=format.layout)


def format_of_rows(format: Format) -> Format:
    """The format that some rows have, where the whole tensor would have `format`.

    Rows of blocks, too, have those without an entry: a block may have rows of several buckets.
    """
    first, *rest = format.levels
    if format.tiled or (first != Dense and not isinstance(first, PermutedLevel)):
        return format
    return Format([Compressed, *rest], format.order, layout=format.layout)


def _row_list(first: Any) -> Any:
    return Compressed if first == Dense else first


def entries_of_rows(storage: Storage) -> Any:
    """The entries of each stored row; below the second level, of all levels with runs."""
    second, *below = storage.levels[1:]
    begin, end = _runs(second)
    for level in below:
        if "pos" not in level:
            break
        begin, end = level["pos"][begin], level["pos"][end]
    return end - begin


def _runs(level: Any) -> tuple[Any, Any]:
    begin = level["pos"][:-1]
    return begin, begin + level["len"] if "len" in level else level["pos"][1:]


def _coordinates(storage: Storage, places: Any) -> Any:
    """The coordinates of some stored rows."""
    crd = storage.levels[0].get("crd")
    extent = storage.shape[storage.format.order[0]]
    return places.astype(index_dtype(extent)) if crd is None else crd[places]


def _row_level(rows: Any) -> dict[str, Any]:
    numbers = Cuda().cp if is_on_gpu(rows) else np
    return {"pos": numbers.asarray([0, rows.size], dtype=index_dtype(rows.size)), "crd": rows}


def _view(storage: Storage, places: Any) -> Storage:
    """Some rows, without moving an entry."""
    numbers = Cuda().cp if is_on_gpu(storage.values) else np
    second, *below = storage.levels[1:]
    begin, end = _runs(second)
    stored = second["pos"][-1:]  # how many there are, of all rows
    runs = {
        "len": numbers.ascontiguousarray((end - begin)[places]),
        "pos": numbers.concatenate([begin[places], stored]),
        "crd": second["crd"],
    }
    levels = (_row_level(_coordinates(storage, places)), runs, *below)
    return replace(storage, format=format_of_view(storage.format), levels=levels)


def _copied(storage: Storage, places: Any, format: Format) -> Storage:
    """Some rows in another format."""
    on_gpu, host = is_on_gpu(storage.values), storage.host()
    coords, values = unpack(host)
    rows = _coordinates(host, Cuda().download(places) if on_gpu else places)
    mode = host.format.order[0]
    chosen = np.zeros(host.shape[mode], dtype=bool)
    chosen[rows] = True
    mine = chosen[coords[mode]]
    made = pack(coords[:, mine], values[mine], host.shape, format, host.fill)
    return DeviceStorage.of(made) if on_gpu else made


def _list_of(storage: Storage, rows: Any) -> Storage:
    """The list of some rows, as a vector that is true there."""
    numbers = Cuda().cp if is_on_gpu(storage.values) else np
    extent = storage.shape[storage.format.order[0]]
    true = numbers.ones(rows.size, dtype=bool)
    level = _row_level(rows.astype(index_dtype(extent)))
    return type(storage)((extent,), ROWS, BOOL, (level,), true, 0)
