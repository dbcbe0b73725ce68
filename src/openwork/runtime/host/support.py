"""Validation of index arrays from outside, compiled if there is a compiler.

Kernels trust positions and coordinates, so each array is checked once before any kernel reads it.
Without a compiler NumPy does the same checks, with the same messages.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from openwork.errors import DataError, InternalError
from openwork.runtime.host.library import load
from openwork.runtime.host.threads import thread_count
from openwork.runtime.host.toolchain import Toolchain, find_toolchain

Integers = npt.NDArray[np.signedinteger[Any]]

_WORTH_THREADS = 1 << 17  # entries, as in support.c
_WIDTHS = {np.dtype(np.int32): 32, np.dtype(np.int64): 64}

_I32, _I64, _POINTER = ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p
_POSITIONS = (_POINTER, _I64, _I64)
_COORDINATES = (_POINTER, _I32, _I64, _POINTER, _POINTER, _I64, _I64, _I32, _I32, _I32)
_TUPLES = (_POINTER, _I32, _I64, _POINTER, _I32, _I64, _I32)
_CHECKS = {"positions": _POSITIONS, "coordinates": _COORDINATES, "tuples": _TUPLES}


def support_library() -> ctypes.CDLL | None:
    """The support library, compiled on first use; None without a compiler."""
    toolchain = find_toolchain()
    return None if toolchain is None else _loaded(toolchain)


def check_positions(pos: Integers, expected_last: int, *, array: str) -> None:
    """Reject positions that do not begin at 0, that decrease, or do not end at `expected_last`.

    Args:
        pos: one more position than there are segments, int32 or int64.
        expected_last: the number of coordinates.
        array: the name of the array in messages, such as `"A.indptr"`.

    Raises:
        DataError: E501 for the wrong kind of array, E502 with the index and the value.
    """
    _check_kind(pos, array)
    if len(pos) == 0:
        raise DataError(f"{array} is empty; even zero segments need one position: 0", code="E501")
    library = support_library()
    if library is None:
        index = _bad_position(pos, expected_last)
    else:
        data = np.ascontiguousarray(pos)
        check = getattr(library, f"ow_check_positions_{_WIDTHS[data.dtype]}")
        index = check(data.ctypes.data, len(data) - 1, expected_last)
    if index >= 0:
        _refuse_position(pos, index, expected_last, array)


def check_coordinates(
    crd: Integers,
    pos: Integers | None,
    extent: int,
    *,
    array: str,
    ordered: bool = True,
    unique: bool = True,
    source: Integers | None = None,
) -> None:
    """Reject coordinates outside [0, `extent`), or out of order within a segment.

    Args:
        crd: the coordinates, int32 or int64.
        pos: segment p is `crd[pos[p]:pos[p + 1]]`; already checked against the length of `crd`.
            None makes all of `crd` one segment.
        extent: the size of the mode.
        array: the name of the array in messages, such as `"A.indices"`.
        ordered: coordinates of a segment must be sorted.
        unique: no coordinate may repeat within a segment. Without `ordered` this takes a sort.
        source: an array of the same type and length; `crd` is filled from it before the check,
            chunk by chunk while a chunk is in the cache.

    Raises:
        DataError: E501 for the wrong kind of array, E503 or E504 with the index and the value.
    """
    _check_kind(crd, array)
    if source is not None and (source.dtype != crd.dtype or source.shape != crd.shape):
        raise InternalError(f"{array} is filled from an array of another type or length")
    pos = np.array([0, len(crd)]) if pos is None else np.ascontiguousarray(pos)
    _check_kind(pos, f"the positions of {array}")
    if len(pos) == 0 or pos[-1] != len(crd):
        last = pos[-1] if len(pos) else 0
        raise DataError(
            f"{array} holds {len(crd)} coordinates, but its positions end at {last}", code="E501"
        )
    library = support_library()
    if library is None:
        if source is not None:
            np.copyto(crd, source)
        index = _bad_coordinate(crd, pos, extent, ordered=ordered, unique=unique)
    else:
        data = crd if source is not None else np.ascontiguousarray(crd)
        origin = None if source is None else source.ctypes.data
        check = getattr(library, f"ow_check_coordinates_{_WIDTHS[data.dtype]}")
        entries = (data.ctypes.data, origin, len(data), extent)
        index = check(*_segments(pos), *entries, ordered, unique, _threads(len(data)))
    if index >= 0:
        _refuse_coordinate(crd, pos, index, extent, array)
    if unique and not ordered:
        _check_no_repeats(crd, pos, array)


def check_tuples(columns: Sequence[Integers], pos: Integers | None, *, array: str) -> None:
    """Reject entries that are not sorted by their coordinates, or duplicate.

    Args:
        columns: for each mode, from the outermost in, the coordinate of every entry.
        pos: the entries `pos[p]` to `pos[p + 1]` are a segment, within which they are sorted;
            None makes all of them one.
        array: the name of the tensor in messages.

    Raises:
        DataError: E504 with the number of the entry.
    """
    count = len(columns[0])
    pos = np.array([0, count]) if pos is None else np.ascontiguousarray(pos)
    library = support_library()
    if library is None:
        index, twice = _bad_tuple(columns, pos)
    else:
        wide = any(column.dtype == np.int64 for column in columns)
        bits, width = (64, np.int64) if wide else (32, np.int32)
        lists = [np.ascontiguousarray(column, dtype=width) for column in columns]
        addresses = (_POINTER * len(lists))(*(each.ctypes.data for each in lists))
        check = getattr(library, f"ow_check_tuples_{bits}")
        index = check(*_segments(pos), addresses, len(lists), count, _threads(count))
        twice = index >= 0 and all(each[index] == each[index - 1] for each in lists)
    if index < 0:
        return
    if twice:
        raise DataError(f"entry {index} of {array} is a duplicate", code="E504")
    raise DataError(
        f"entry {index} of {array} is out of order: it belongs before entry {index - 1}",
        code="E504",
        hint="sort the entries, or let ow.tensor((coords, values), shape=...) do it",
    )


def _bad_tuple(columns: Sequence[Integers], pos: Integers) -> tuple[int, bool]:
    """The first entry that is out of order, or -1, and whether it is the same as the one before."""
    same = np.ones(max(len(columns[0]) - 1, 0), dtype=bool)
    bad = np.zeros_like(same)
    for column in columns:
        bad |= same & (column[1:] < column[:-1])
        same &= column[1:] == column[:-1]
    starts = pos[(pos > 0) & (pos < len(columns[0]))]
    bad[starts - 1] = same[starts - 1] = False
    wrong = bad | same
    return (int(wrong.argmax()) + 1, bool(same[wrong.argmax()])) if wrong.any() else (-1, False)


def _segments(pos: Integers) -> tuple[int, bool, int]:
    """Positions as C takes them: address, whether they are int64, number of segments."""
    return pos.ctypes.data, _WIDTHS[pos.dtype] == 64, len(pos) - 1


def _threads(count: int) -> int:
    return thread_count() if count >= _WORTH_THREADS else 1


@cache
def _source() -> str:
    return Path(__file__).with_name("support.c").read_text()


@lru_cache(maxsize=4)
def _loaded(toolchain: Toolchain) -> ctypes.CDLL:
    # -O2 compiles in half the time, and the loops that matter request vectorization themselves.
    library = load(_source(), optimize="-O2")
    for bits in _WIDTHS.values():
        for name, arguments in _CHECKS.items():
            function = getattr(library, f"ow_check_{name}_{bits}")
            function.argtypes, function.restype = arguments, _I64
    return library


def _check_kind(data: Integers, array: str) -> None:
    if data.ndim == 1 and data.dtype in _WIDTHS:
        return
    raise DataError(
        f"{array} has {data.ndim} dimensions of {data.dtype}; index arrays have one, of int32 "
        "or int64",
        code="E501",
    )


def _bad_position(pos: Integers, last: int) -> int:
    """The first index at fault, or -1: what the compiled check answers, from NumPy."""
    if pos[0] != 0:
        return 0
    falls = pos[1:] < pos[:-1]
    if falls.any():
        return int(falls.argmax()) + 1
    return -1 if pos[-1] == last else len(pos) - 1


def _bad_coordinate(
    crd: Integers, pos: Integers, extent: int, *, ordered: bool, unique: bool
) -> int:
    """The first index at fault, or -1: what the compiled check answers, from NumPy."""
    bad = (crd < 0) | (crd >= extent)
    if ordered:
        falls = crd[1:] <= crd[:-1] if unique else crd[1:] < crd[:-1]
        starts = pos[(pos > 0) & (pos < len(crd))]
        falls[starts - 1] = False
        bad[1:] |= falls
    return int(bad.argmax()) if bad.any() else -1


def _check_no_repeats(crd: Integers, pos: Integers, array: str) -> None:
    """Reject a coordinate that repeats within a segment, sorted or not."""
    segment = np.repeat(np.arange(len(pos) - 1), np.diff(pos))
    order = np.lexsort((crd, segment))  # stable: of two equal coordinates the first stays first
    same = (np.diff(crd[order]) == 0) & (np.diff(segment[order]) == 0)
    if same.any():
        index = int(order[1:][same].min())
        raise DataError(
            f"{array}[{index}] is {crd[index]}, which repeats in its segment ({segment[index]})",
            code="E504",
            hint="sum the duplicates first, or use a level that may repeat coordinates",
        )


def _refuse_position(pos: Integers, index: int, last: int, array: str) -> NoReturn:
    value = pos[index]
    if index == 0 and value != 0:
        problem = "but positions begin at 0"
    elif index > 0 and value < pos[index - 1]:
        problem = f"below {array}[{index - 1}], which is {pos[index - 1]}: positions never decrease"
    else:
        problem = f"but the last position must be the number of coordinates, {last}"
    raise DataError(f"{array}[{index}] is {value}, {problem}", code="E502")


def _refuse_coordinate(
    crd: Integers, pos: Integers, index: int, extent: int, array: str
) -> NoReturn:
    value = crd[index]
    if not 0 <= value < extent:
        raise DataError(
            f"{array}[{index}] is {value}, outside its mode of extent {extent}",
            code="E503",
            hint="coordinates count from 0",
        )
    segment = int(np.searchsorted(pos, index, side="right")) - 1
    before = crd[index - 1]
    if value == before:
        problem = f"the same as the coordinate before it in segment {segment}"
        hint = "sum the duplicates first, or use a level that may repeat coordinates"
    else:
        problem = f"below {before}, the coordinate before it in segment {segment}"
        hint = "sort the coordinates of each segment, or use an unordered level"
    raise DataError(f"{array}[{index}] is {value}, {problem}", code="E504", hint=hint)
