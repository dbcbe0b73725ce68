"""The compiled parser of lines: `entry_lines.c`, and its table of powers of ten."""

from __future__ import annotations

import ctypes
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from openwork.runtime.host.library import load
from openwork.runtime.host.toolchain import find_toolchain
from openwork.runtime.storage import Array
from openwork.tensor.files.lines.line_layout import FIELDS, TRIANGLES, Layout, LineError, real

_POWERS = range(-342, 309)
_WORD = re.compile(rb"[^ \t\r\n]+")

_I64, _POINTER = ctypes.c_int64, ctypes.c_void_p


class _Layout(ctypes.Structure):
    _fields_ = [
        *((name, _I64) for name in ("modes", "field", "triangle", "comment", "wide")),
        *((name, _POINTER) for name in ("limits", "powers")),
    ]


class _Output(ctypes.Structure):
    _fields_ = [
        *((name, _POINTER) for name in ("coords", "values", "hard")),
        *((name, _I64) for name in ("hard_count", "used", "room", "lines", "bad")),
    ]


class CompiledParser:
    """Parses blocks of lines of one layout; thread-safe."""

    def __init__(self, layout: Layout, dtype: Any) -> None:
        self._parse = _library().ow_parse_rows
        self._limits = np.array([*layout.limits, 0], dtype=np.int64)
        self._powers = _powers()
        self._record = _Layout(
            modes=len(layout.limits),
            field=FIELDS.index(layout.field),
            triangle=TRIANGLES.index(layout.symmetry),
            comment=ord(layout.comment),
            wide=dtype == np.int64,
            limits=self._limits.ctypes.data,
            powers=self._powers.ctypes.data,
        )

    def __call__(
        self, block: bytearray, length: int, coords: Array, values: Array, used: int, room: int
    ) -> tuple[int, int, int | None]:
        """Append the entries of a block to the arrays.

        Returns:
            The number of entries now, the number of lines of the block, and the offset of the first
            line that is bad or has no room left; None if there is no such line.
        """
        # Its size is unknown, but untouched pages cost nothing.
        hard = np.empty(length + 2, dtype=np.int64)
        columns = [column.ctypes.data for column in coords]
        pointers = (_POINTER * (len(columns) + 1))(*columns)
        out = _Output(
            coords=ctypes.addressof(pointers),
            values=values.ctypes.data,
            hard=hard.ctypes.data,
            used=used,
            room=room,
        )
        held = (ctypes.c_char * len(block)).from_buffer(block)
        self._parse(ctypes.byref(self._record), ctypes.addressof(held), length, ctypes.byref(out))
        del held
        bad = out.bad if out.bad >= 0 else None
        left = hard[: 2 * out.hard_count].reshape(-1, 2)
        return out.used, out.lines, self._round(block, left, values, bad)

    def _round(self, block: bytearray, hard: Array, values: Array, bad: int | None) -> int | None:
        """Parse the numbers that are too close to the middle of two doubles for the fast path."""
        numbers = values.view(np.float64) if values.dtype.kind == "c" else values
        for slot, offset in hard.tolist():
            word = _WORD.match(block, offset)
            try:
                numbers[slot] = real(word[0] if word else b"")
            except LineError:
                return block.rfind(b"\n", 0, offset) + 1
        return bad


def compiled_parser(layout: Layout, dtype: Any) -> CompiledParser | None:
    """A parser for `layout` and coordinates of `dtype`; None without a C compiler."""
    return None if find_toolchain() is None else CompiledParser(layout, dtype)


def _library() -> ctypes.CDLL:
    library = load(_source())
    library.ow_parse_rows.argtypes = (_POINTER, _POINTER, _I64, _POINTER)
    library.ow_parse_rows.restype = None
    return library


@cache
def _source() -> str:
    return Path(__file__).with_name("entry_lines.c").read_text()


@cache
def _powers() -> Array:
    """The leading 128 bits of each power of ten, truncated, and the exponent of the first bit."""
    words = []
    for power in _POWERS:
        tens = 10 ** abs(power)
        bits = tens.bit_length()
        if power >= 0:
            leading, exponent = (tens << 128) >> bits, bits - 1
        else:
            leading, exponent = (1 << (127 + bits)) // tens, -bits
        words += [leading >> 64, leading & (2**64 - 1), exponent % 2**64]
    return np.array(words, dtype=np.uint64)
