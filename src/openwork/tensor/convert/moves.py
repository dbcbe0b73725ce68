"""Moves entries from one storage to another, in C compiled for the types at hand.

Each function takes and returns NumPy arrays; `None` means that there is no compiler, and that the
caller must use another method.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from openwork.algebra.types import DType, as_dtype, as_element
from openwork.errors import InternalError
from openwork.format.levels.width import index_dtype
from openwork.runtime.host.interrupt import watching
from openwork.runtime.host.library import load
from openwork.runtime.host.threads import thread_count
from openwork.runtime.host.toolchain import find_toolchain
from openwork.runtime.memory import address, allocate, zeros
from openwork.runtime.storage import Array

Rows = tuple[Array, Array, Array]  # positions, coordinates, values

# Below this many entries, starting threads costs more than it saves.
_SERIAL_BELOW = 1 << 15
# The cache has lines for this many columns that are written concurrently.
_FEW_COLUMNS = 1 << 12
# Fewer entries than this fit into a cache, wherever they go.
_MANY_ENTRIES = 1 << 17
# Rows that span more columns than this defeat the cache.
_NEAR = 1 << 14
# The fewest entries of a group, and the most groups, of a partition.
_GROUP, _MOST_GROUPS = 1 << 12, 512
# Up to this product, a row and a column within a group fit into 32 bits.
_LARGEST_KEY = 2**32
# Larger blocks are converted otherwise: a row of each is kept on the stack, and elements of a block
# are counted in 32 bits.
_HIGHEST, _LARGEST_BLOCK = 1 << 10, 1 << 24
_VALUES = {1: "uint8_t", 2: "uint16_t", 4: "uint32_t", 8: "uint64_t"}


def transposed(rows: Rows, columns: int) -> Rows | None:
    """CSR as CSC; the entries of each column in the order of the rows."""
    pos, crd, values = rows
    count = len(pos) - 1
    out_pos = allocate(columns + 1, index_dtype(len(crd)))
    out_crd = allocate(len(crd), index_dtype(count - 1))
    move = _compiled(pos, crd, values, out_pos, out_crd)
    if move is None:
        return None
    made = allocate(len(crd), values.dtype)
    given = (pos, crd, values, out_pos, out_crd, made)
    if columns > _FEW_COLUMNS and len(crd) >= _MANY_ENTRIES:
        sample = (*_numbers(count), *_addresses(pos, crd), *_numbers(_NEAR))
        if move.is_scattered(*sample):
            _transpose_scattered(given, columns)
            return out_pos, out_crd, made
    threads = _threads(len(crd), columns)
    counts = zeros(threads * columns, out_pos.dtype)
    sizes = _numbers(count, columns)
    _run(move.transpose, *sizes, *_addresses(*given, counts), *_numbers(threads))
    return out_pos, out_crd, made


def _transpose_scattered(given: tuple[Array, ...], columns: int) -> None:
    pos, crd = given[:2]
    rows = len(pos) - 1
    move, room, shift, threads = _in_groups(given, pos, crd, rows, columns)
    more = _addresses(*given, *room)
    _run(move.transpose_scattered, *_numbers(rows, columns), *more, *_numbers(shift, threads))


def _in_groups(
    given: tuple[Array, ...], pos: Array, crd: Array, rows: int, columns: int
) -> tuple[Any, tuple[Array, ...], int, int]:
    """The library that partitions entries into groups of columns.

    Also its arrays, the binary logarithm of the columns per group, and the number of threads.
    """
    values, out_pos, out_crd = given[2:5]
    shift = 0
    while (columns - 1) >> shift >= min(_MOST_GROUPS, len(crd) // _GROUP + 1):
        shift += 1
    groups = ((columns - 1) >> shift) + 1
    wide = rows << shift > _LARGEST_KEY
    move = _compiled(pos, crd, values, out_pos, out_crd, key="uint64_t" if wide else "uint32_t")
    if move is None:
        raise InternalError("the compiler has disappeared")
    threads = _threads(len(crd), groups)
    counts = np.zeros(threads * groups, dtype=out_pos.dtype)
    ends = np.empty(groups + 1, dtype=out_pos.dtype)
    spare = allocate(len(crd) * move.entry_size(), np.dtype(np.uint8))
    return move, (counts, ends, spare), shift, threads


def gathered(row: Array, column: Array, values: Array, shape: tuple[int, int]) -> Rows | None:
    """Entries in any order as CSR; None also if there are duplicates."""
    if row.dtype != column.dtype or row.dtype not in (np.dtype("int32"), np.dtype("int64")):
        row, column = row.astype(np.int64), column.astype(np.int64)
    rows, columns = shape
    row, column = np.ascontiguousarray(row), np.ascontiguousarray(column)
    values = np.ascontiguousarray(values)
    pos = allocate(rows + 1, index_dtype(len(row)))
    crd = allocate(len(row), index_dtype(columns - 1))
    move = _compiled(pos, row, values, pos, crd)
    if move is None:
        return None
    made = allocate(len(row), values.dtype)
    given = (row, column, values, pos, crd, made)
    sizes = _numbers(rows, len(row))
    many = rows > _FEW_COLUMNS and len(row) >= _MANY_ENTRIES
    if many and move.jumps_about(*_numbers(len(row)), *_addresses(row), *_numbers(_NEAR)):
        move, room, shift, threads = _in_groups(given, pos, row, columns, rows)
        more = _addresses(*given, *room)
        status = _run(move.gather_scattered, *sizes, *more, *_numbers(shift, threads))
    else:
        threads = _threads(len(row), rows)
        counts = zeros(threads * rows, pos.dtype)
        status = _run(move.gather_rows, *sizes, *_addresses(*given, counts), *_numbers(threads))
    return None if status else (pos, crd, made)


def runs_of_list(row: Array, values: Array, rows: int) -> tuple[Array, Array] | None:
    """Where each row begins in a list sorted by rows, and a copy of the values."""
    pos = allocate(rows + 1, index_dtype(len(row)))
    move = _compiled(pos, row, values, pos, row)
    if move is None:
        return None
    made = allocate(len(row), values.dtype)
    sizes = _numbers(rows, len(row))
    numbers = _numbers(_threads(len(row), 0))
    _run(move.runs_of_list, *sizes, *_addresses(row, values, pos, made), *numbers)
    return pos, made


def list_of_runs(rows: Rows, dtype: Any) -> tuple[Array, Array] | None:
    """The row of each entry, and a copy of the values."""
    pos, crd, values = rows
    row = allocate(len(crd), dtype)
    move = _compiled(pos, crd, values, pos, row)
    if move is None:
        return None
    made = allocate(len(crd), values.dtype)
    numbers = _numbers(_threads(len(crd), 0))
    sizes = _numbers(len(pos) - 1)
    _run(move.list_of_runs, *sizes, *_addresses(pos, values, row, made), *numbers)
    return row, made


def spread(
    rows: Rows, place: Array | None, slices: tuple[Array, int], dtype: Any, fill: Any
) -> tuple[Array, Array] | None:
    """CSR as interleaved runs (ELL, SELL); `slices`: where each slice begins, and its height."""
    pos, crd, values = rows
    begin, height = slices
    count = int(begin[-1])
    out_crd = allocate(count, dtype)
    move = _compiled(pos, crd, values, begin, out_crd)
    if move is None:
        return None
    made = allocate(count, values.dtype)
    last = int(begin[-2]) if len(begin) > 1 else 0  # it may have places for rows beyond the last
    out_crd[last:] = 0
    made[last:] = as_element(fill, as_dtype(values.dtype))
    nothing = _one(fill, values)
    order = ctypes.c_void_p(0) if place is None else _addresses(place)[0]
    _run(
        move.spread,
        *_numbers(len(pos) - 1), *_addresses(pos, crd, values), order, *_addresses(begin),
        *_numbers(height), *_addresses(out_crd, made, nothing), *_numbers(_threads(len(crd), 0)),
    )  # fmt: skip
    return out_crd, made


def blocked(rows: Rows, columns: int, block: tuple[int, int], fill: Any) -> Rows | None:
    """CSR as rows of dense blocks."""
    pos, crd, values = rows
    high, wide = block
    if columns > np.iinfo(crd.dtype).max:  # the largest integer marks the end of a row
        return None
    if high > _HIGHEST or high * wide > _LARGEST_BLOCK:
        return None
    count, across = len(pos) - 1, -(-columns // wide)
    bands = -(-count // high)
    threads = _numbers(_threads(len(crd), 0))
    crd_type = np.empty(0, dtype=index_dtype(across - 1))
    counts = np.empty(bands, np.int64)
    move = _compiled(pos, crd, values, pos, crd_type, block)
    if move is None:
        return None
    _run(move.count_blocks, *_numbers(count), *_addresses(pos, crd, counts), *threads)
    total = int(counts.sum())
    out_pos = np.zeros(bands + 1, dtype=index_dtype(total))
    np.cumsum(counts, out=out_pos[1:])
    out_crd = allocate(total, crd_type.dtype)
    made = allocate(total * high * wide, values.dtype)
    move = _compiled(pos, crd, values, out_pos, out_crd, block)
    if move is None:
        return None
    given = (
        pos,
        crd,
        values,
        out_pos,
        out_crd,
        made,
        _one(fill, values),
    )
    _run(move.fill_blocks, *_numbers(count), *_addresses(*given), *threads)
    return out_pos, out_crd, made


def _one(fill: Any, values: Array) -> Array:
    """The fill as an element like `values`."""
    return as_element(fill, as_dtype(values.dtype)).reshape(1)


def _run(function: Any, *arguments: Any) -> int:
    """The result of `function`, which Ctrl-C stops."""
    with watching() as flag:
        status: int = function(*arguments, ctypes.c_void_p(flag))
    return status


def _threads(entries: int, counters: int) -> int:
    """The number of threads worth starting: each has its own counters."""
    if entries < _SERIAL_BELOW:
        return 1
    return max(1, min(thread_count(), entries // max(1, counters // 4)))


def _addresses(*arrays: Array) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(address(array)) for array in arrays]


def _numbers(*numbers: int) -> list[ctypes.c_int64]:
    return [ctypes.c_int64(number) for number in numbers]


def _compiled(
    pos: Array,
    crd: Array,
    values: Array,
    out_pos: Array,
    out_crd: Array,
    block: tuple[int, int] | None = None,
    key: str = "uint32_t",
) -> ctypes.CDLL | None:
    """The functions for arrays of these types, or for blocks of a size."""
    if find_toolchain() is None:
        return None
    types = (pos.dtype, crd.dtype, out_pos.dtype, out_crd.dtype)
    return _library(types, values.dtype.itemsize, key, block)


@cache
def _library(
    types: tuple[DType, ...], size: int, key: str, block: tuple[int, int] | None
) -> ctypes.CDLL:
    names = ("POS_IN", "CRD_IN", "POS", "CRD")
    head = [
        f"typedef __{kind}{n}_TYPE__ {kind.lower()}{n}_t;"
        for kind in ("INT", "UINT")
        for n in (8, 16, 32, 64)
    ]
    word = next(each for each in (8, 4, 2, 1) if size % each == 0)
    value = _VALUES.get(size, "struct record")
    head += ["typedef __SIZE_TYPE__ size_t;"]
    head += [f"struct record {{ {_VALUES[word]} words[{max(1, size // word)}]; }};"]
    head += [f"typedef {t.name}_t {name};" for name, t in zip(names, types, strict=True)]
    head += [f"typedef {value} VALUE;", f"typedef {key} KEY;"]
    if block is not None:
        head += [f"#define HIGH {block[0]}", f"#define WIDE {block[1]}"]
    text = Path(__file__).with_name("moves.c" if block is None else "blocks.c").read_text()
    library = load("\n".join([*head, text]))
    whole = ("gather_rows", "gather_scattered", "entry_size", "is_scattered", "jumps_about")
    for name in whole if block is None else ():
        getattr(library, name).restype = ctypes.c_int64
    return library
