"""The compiled parser of lines: `rows.c`, and the table of powers of ten that it asks for."""

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
    """Parses blocks of lines of one layout; threads may call it at the same time."""

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
            How many entries there are now, how many lines the block has, and where in it the first
            line begins that is bad or has no room left; None if there is no such line.
        """
        # Untouched pages of this cost nothing, and there is no telling how many it will be.
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
        """Read the numbers that are too close to the middle of two doubles for the fast way."""
        numbers = values.view(np.float64) if values.dtype.kind == "c" else values
        for slot, offset in hard.tolist():
            word = _WORD.match(block, offset)
            try:
                numbers[slot] = real(word[0] if word else b"")
            except LineError:
                return block.rfind(b"\n", 0, offset) + 1
        return bad


def compiled_parser(layout: Layout, dtype: Any) -> CompiledParser | None:
    """A parser for `layout` and coordinates of `dtype`; None where there is no C compiler."""
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
    """The leading 128 bits of each power of ten, cut off, and the exponent of the first of them."""
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
