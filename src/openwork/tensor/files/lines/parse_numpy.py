"""Parse lines without a compiler: NumPy converts whole blocks, and Python finds the fault."""

from __future__ import annotations

import numpy as np

from openwork.algebra.types import Number
from openwork.runtime.storage import Array
from openwork.tensor.files.lines.line_layout import Layout, LineError, is_entry, parse_line

_BYTES = 1 << 18  # text that is split at a time
_DIGITS = frozenset(b"0123456789+-.eEdD \t\r\n")
_SPELLED = bytes.maketrans(b"dD", b"ee")


class PlainParser:
    """Parses blocks of lines of one layout, with the same results as the compiled parser."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def __call__(
        self, block: bytearray, length: int, coords: Array, values: Array, used: int, room: int
    ) -> tuple[int, int, int | None]:
        """Append the entries of a block to the arrays; see `CompiledParser`."""
        start = lines = 0
        while start < length:
            end = block.rfind(b"\n", start, min(start + _BYTES, length)) + 1
            end = end or block.index(b"\n", start) + 1
            text = bytes(block[start:end])
            made = self._quickly(text, room - used)
            bad = None
            if made is None:
                made, bad = self._carefully(text, room - used)
            count = len(made[1])
            coords[:, used : used + count] = made[0]
            values[used : used + count] = made[1]
            used, lines = used + count, lines + text.count(b"\n")
            if bad is not None:
                return used, lines, start + bad
            start = end
        return used, lines, None

    def _quickly(self, text: bytes, room: int) -> tuple[Array, Array] | None:
        """All entries of a text, vectorized; None if anything in it is unusual."""
        layout, modes = self._layout, len(self._layout.limits)
        lines, words = text.count(b"\n"), text.translate(_SPELLED).split()
        ordinary = len(words) == lines * layout.numbers and lines <= room
        if not ordinary or not _DIGITS.issuperset(text):
            return None
        # Each line must have the right number of words, not only all lines together.
        if any(len(line.split()) != layout.numbers for line in text[:-1].split(b"\n")):
            return None
        table = np.array(words).reshape(lines, layout.numbers)
        try:
            coords = table[:, :modes].astype(np.int64).T - 1
            values = self._values(table[:, modes:])
        except (ValueError, OverflowError):
            return None
        limits = np.array(layout.limits, dtype=np.int64)[:, None]
        if modes and ((coords < 0).any() or (coords >= limits).any()):
            return None
        good = np.isfinite(values).all() and self._in_triangle(coords, values)
        return (coords, values) if good else None

    def _values(self, words: Array) -> Array:
        layout = self._layout
        if layout.field == "pattern":
            return np.ones(len(words))
        if layout.field == "complex":
            return words.astype(np.float64).view(np.complex128)[:, 0]
        if layout.dtype.kind == "u" and np.char.startswith(words, b"-").any():
            raise ValueError("a sign")
        return words[:, 0].astype(layout.dtype)

    def _in_triangle(self, coords: Array, values: Array) -> bool:
        match self._layout.symmetry:
            case "general":
                return True
            case "skew-symmetric":
                return bool((coords[0] > coords[1]).all())
            case "hermitian":
                real = values.imag[coords[0] == coords[1]] == 0
                return bool((coords[0] >= coords[1]).all() and real.all())
        return bool((coords[0] >= coords[1]).all())

    def _carefully(self, text: bytes, room: int) -> tuple[tuple[Array, Array], int | None]:
        """The entries up to the first bad line, and the offset of that line."""
        layout = self._layout
        entries: list[list[int]] = []
        values: list[Number] = []
        start, bad = 0, None
        for line in text[:-1].split(b"\n"):
            if is_entry(line, layout):
                try:
                    if len(values) == room:
                        raise LineError("no room")
                    entry, value = parse_line(line, layout)
                except LineError:
                    bad = start
                    break
                entries.append(entry)
                values.append(value)
            start += len(line) + 1
        coords = np.array(entries, dtype=np.int64).reshape(len(values), len(layout.limits)).T
        return (coords, np.array(values, dtype=layout.dtype)), bad
