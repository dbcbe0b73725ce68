"""Moving entries from one storage to another, in compiled code for the types at hand.

Each function takes and gives NumPy arrays; `None` means that there is no compiler, or that the
values are of a size that no register has, and that somebody else has to do the work.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from openwork.format.width import index_dtype
from openwork.runtime.library import load
from openwork.runtime.memory import allocate
from openwork.runtime.storage import Array
from openwork.runtime.threads import thread_count
from openwork.runtime.toolchain import find_toolchain

Rows = tuple[Array, Array, Array]  # positions, coordinates, values

# Below so many entries, starting threads costs more than they save.
_SERIAL_BELOW = 1 << 15
_VALUES = {1: "uint8_t", 2: "uint16_t", 4: "uint32_t", 8: "uint64_t", 16: "struct pair"}


def transposed(rows: Rows, columns: int) -> Rows | None:
    """Rows of runs as columns of runs; the entries of each column in the order of the rows."""
    pos, crd, values = rows
    count = len(pos) - 1
    out_pos = np.empty(columns + 1, dtype=index_dtype(len(crd)))
    out_crd = allocate(len(crd), index_dtype(count - 1))
    move = _compiled(pos, crd, values, out_pos, out_crd)
    if move is None:
        return None
    threads = _threads(len(crd), columns)
    counts = np.zeros(threads * columns, dtype=out_pos.dtype)
    made = allocate(len(crd), values.dtype)
    given = (pos, crd, values, out_pos, out_crd, made, counts)
    move.transpose(*_numbers(count, columns), *_addresses(*given), *_numbers(threads))
    return out_pos, out_crd, made


def gathered(row: Array, column: Array, values: Array, shape: tuple[int, int]) -> Rows | None:
    """Entries in any order as rows of runs; None also if a coordinate is there twice."""
    if row.dtype != column.dtype or row.dtype not in (np.dtype("int32"), np.dtype("int64")):
        row, column = row.astype(np.int64), column.astype(np.int64)
    rows, columns = shape
    row, column = np.ascontiguousarray(row), np.ascontiguousarray(column)
    values = np.ascontiguousarray(values)
    pos = np.empty(rows + 1, dtype=index_dtype(len(row)))
    crd = allocate(len(row), index_dtype(columns - 1))
    move = _compiled(pos, row, values, pos, crd)
    if move is None:
        return None
    threads = _threads(len(row), rows)
    counts = np.zeros(threads * rows, dtype=pos.dtype)
    made = allocate(len(row), values.dtype)
    given = (row, column, values, pos, crd, made, counts)
    status = move.gather_rows(*_numbers(rows, len(row)), *_addresses(*given), *_numbers(threads))
    return None if status else (pos, crd, made)


def spread(
    rows: Rows, begin: Array, stride: int, count: int, dtype: Any, fill: Any
) -> tuple[Array, Array] | None:
    """Runs side by side: entry q of a row lies at `begin + q * stride`, of `count` places."""
    pos, crd, values = rows
    out_crd = np.zeros(count, dtype=dtype)
    move = _compiled(pos, crd, values, pos, out_crd)
    if move is None:
        return None
    made = np.zeros(count, values.dtype) if fill == 0 else np.full(count, fill, values.dtype)
    given = (pos, crd, values, np.ascontiguousarray(begin, dtype=np.int64))
    numbers = _numbers(_threads(len(crd), 0))
    move.spread(
        *_numbers(len(pos) - 1), *_addresses(*given), *_numbers(stride),
        *_addresses(out_crd, made), *numbers,
    )  # fmt: skip
    return out_crd, made


def blocked(rows: Rows, columns: int, block: tuple[int, int], fill: Any) -> Rows | None:
    """Rows of runs as rows of dense blocks."""
    pos, crd, values = rows
    high, wide = block
    count, across = len(pos) - 1, -(-columns // wide)
    bands = -(-count // high)
    threads = _threads(len(crd), across)
    out_crd_type = np.empty(0, dtype=index_dtype(across - 1))
    counts, seen = np.zeros(bands, np.int64), np.zeros(threads * across, np.int64)
    move = _compiled(pos, crd, values, pos, out_crd_type)
    if move is None:
        return None
    shape = _numbers(count, high, wide)
    tail = _numbers(across, threads)
    move.count_blocks(*shape, *_addresses(pos, crd, counts, seen), *tail)
    total = int(counts.sum())
    out_pos = np.zeros(bands + 1, dtype=index_dtype(total))
    np.cumsum(counts, out=out_pos[1:])
    out_crd = allocate(total, out_crd_type.dtype)
    size = total * high * wide
    made = np.zeros(size, values.dtype) if fill == 0 else np.full(size, fill, values.dtype)
    move = _compiled(pos, crd, values, out_pos, out_crd)
    if move is None:
        return None
    given = (pos, crd, values, out_pos, out_crd, made, seen)
    move.fill_blocks(*shape, *_addresses(*given), *tail)
    return out_pos, out_crd, made


def _threads(entries: int, counters: int) -> int:
    """As many threads as pay: each has counters of its own."""
    if entries < _SERIAL_BELOW:
        return 1
    return max(1, min(thread_count(), entries // max(1, counters // 4)))


def _addresses(*arrays: Array) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(array.__array_interface__["data"][0]) for array in arrays]


def _numbers(*numbers: int) -> list[ctypes.c_int64]:
    return [ctypes.c_int64(number) for number in numbers]


def _compiled(
    pos: Array, crd: Array, values: Array, out_pos: Array, out_crd: Array
) -> ctypes.CDLL | None:
    """The functions for arrays of these types."""
    value = _VALUES.get(values.dtype.itemsize)
    if find_toolchain() is None or value is None:
        return None
    types = (pos, crd, out_pos, out_crd)
    return _library(tuple(f"{array.dtype.name}_t" for array in types), value)


@cache
def _library(types: tuple[str, ...], value: str) -> ctypes.CDLL:
    names = ("POS_IN", "CRD_IN", "POS", "CRD")
    head = [
        f"typedef __{kind}{n}_TYPE__ {kind.lower()}{n}_t;"
        for kind in ("INT", "UINT")
        for n in (8, 16, 32, 64)
    ]
    head += ["typedef __SIZE_TYPE__ size_t;", "struct pair { uint64_t a, b; };"]
    head += [f"typedef {type} {name};" for name, type in zip(names, types, strict=True)]
    head.append(f"typedef {value} VALUE;")
    text = Path(__file__).with_name("moves.c").read_text()
    library = load("\n".join([*head, text]), optimize="-O2")
    for name in ("transpose", "gather_rows", "spread", "count_blocks", "fill_blocks"):
        getattr(library, name).restype = ctypes.c_int64 if name == "gather_rows" else None
    return library
