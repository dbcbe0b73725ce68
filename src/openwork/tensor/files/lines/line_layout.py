"""The layout of an entry's line, and what is wrong with a line that breaks it."""

from __future__ import annotations

import math
import re

import numpy as np

from openwork.algebra.types import COMPLEX128, FLOAT64, INT64, SUPPORTED, DType, Number
from openwork.frozen import frozen
from openwork.tensor.files.lines.faults import shown

FIELDS = ("pattern", "real", "complex", "integer", "unsigned-integer")
TRIANGLES = ("general", "symmetric", "skew-symmetric", "hermitian")
DTYPES: dict[str, DType] = {
    "pattern": FLOAT64,  # ones, as SciPy has it
    "real": FLOAT64,
    "complex": COMPLEX128,
    "integer": INT64,
    "unsigned-integer": SUPPORTED["uint64"],
}
_PARTS = {"pattern": 0, "complex": 2}

_COORDINATE = re.compile(rb"\+?[0-9]+\Z")
_INTEGER = re.compile(rb"[+-]?[0-9]+\Z")
_REAL = re.compile(
    rb"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[ed][+-]?[0-9]+)?|nan|inf(?:inity)?)\Z", re.I
)
_MOST_DIGITS = 400  # of an integer that Python may be asked to read


class LineError(Exception):
    """What is wrong with one line; the caller adds the file and the line's number."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint


@frozen
class Layout:
    """The lines of a file: one-based coordinates and a value.

    Args:
        limits: the largest coordinate of each mode.
        field: the kind of values, one of `FIELDS`.
        symmetry: what the file omits, one of `TRIANGLES`; all but "general" hold only entries on
            or below the diagonal.
        comment: a line that begins with this character is a comment.
        closed: only blank lines may follow the last entry.
    """

    limits: tuple[int, ...]
    field: str
    symmetry: str = "general"
    comment: str = "%"
    closed: bool = False

    @property
    def parts(self) -> int:
        """The number of words of a value."""
        return _PARTS.get(self.field, 1)

    @property
    def numbers(self) -> int:
        """The number of words of a line."""
        return len(self.limits) + self.parts

    @property
    def dtype(self) -> DType:
        """The element type of the values."""
        return DTYPES[self.field]

    @property
    def least_bytes(self) -> int:
        """The shortest line that holds an entry: a digit and a separator for each number."""
        return 2 * self.numbers

    def mode(self, mode: int) -> str:
        """The name of a mode in messages."""
        if len(self.limits) == 2:
            return ("row", "column")[mode]
        return "index" if len(self.limits) == 1 else f"coordinate {mode + 1}"


def is_entry(line: bytes, layout: Layout) -> bool:
    """Whether a line holds an entry, or claims to: it is neither blank nor a comment."""
    text = line.strip(b" \t\r\n")
    return bool(text) and not text.startswith(layout.comment.encode())


def parse_line(line: bytes, layout: Layout) -> tuple[list[int], Number]:
    """The zero-based coordinates and the value of one line; slow, but with all checks.

    >>> parse_line(b"2 1  -1.5e1", Layout((3, 3), "real"))
    ([1, 0], -15.0)
    >>> parse_line(b"2 4 1", Layout((3, 3), "real"))
    Traceback (most recent call last):
    openwork.tensor.files.lines.line_layout.LineError: column 4 is outside 1 to 3
    """
    words = [word for word in re.split(rb"[ \t\r\n]+", line) if word]
    modes = len(layout.limits)
    if len(words) != layout.numbers:
        raise LineError(*_wrong_count(words, layout))
    coords = [_coordinate(words[mode], mode, layout) for mode in range(modes)]
    parts = [_number(word, layout) for word in words[modes:]]
    value: Number = 1.0
    if parts:
        value = parts[0] if layout.parts == 1 else complex(float(parts[0]), float(parts[1]))
    _check_triangle(coords, value, layout)
    return coords, value


def _wrong_count(words: list[bytes], layout: Layout) -> tuple[str, str | None]:
    modes = len(layout.limits)
    if layout.field == "pattern" and len(words) > modes:
        return f"a pattern file has no values, but here is {shown(words[modes])}", None
    wanted = [layout.mode(mode) for mode in range(modes)]
    wanted += {0: [], 1: ["value"], 2: ["real part", "imaginary part"]}[layout.parts]
    return f"{len(words)} words, but an entry has {layout.numbers}: {', '.join(wanted)}", None


def _coordinate(word: bytes, mode: int, layout: Layout) -> int:
    if not _COORDINATE.match(word):
        what = f"{layout.mode(mode)} {shown(word)}"
        if _INTEGER.match(word):
            raise LineError(f"{what} is negative", "coordinates count from 1")
        raise LineError(f"{what} is not an integer")
    limit = layout.limits[mode]
    digits = word.lstrip(b"+0")
    value = int(digits or b"0") if len(digits) <= _MOST_DIGITS else limit + 1
    if not 1 <= value <= limit:
        hint = "coordinates count from 1" if value == 0 else None
        what = str(value) if len(digits) <= _MOST_DIGITS else shown(word)
        raise LineError(f"{layout.mode(mode)} {what} is outside 1 to {limit}", hint)
    return value - 1


def _number(word: bytes, layout: Layout) -> int | float:
    if layout.field in ("integer", "unsigned-integer"):
        return _integer(word, layout)
    if not _REAL.match(word):
        raise LineError(f"{shown(word)} is not a number")
    return real(word)


def real(word: bytes) -> float:
    """The double nearest to a decimal number; Fortran's exponents may begin with a D.

    >>> real(b"2.5D+1")
    25.0
    """
    lower = word.lower()
    value = float(lower.replace(b"d", b"e"))
    if math.isinf(value) and b"i" not in lower:
        raise LineError(f"{shown(word)} overflows float64")
    return value


def _integer(word: bytes, layout: Layout) -> int:
    if not _INTEGER.match(word):
        hint = "the header says integer; real files may hold fractions"
        raise LineError(f"{shown(word)} is not an integer", hint)
    limits = np.iinfo(layout.dtype)
    value = int(word) if len(word) <= _MOST_DIGITS else int(limits.max) + 1
    signed = layout.field == "unsigned-integer" and word.startswith(b"-")
    if signed or not limits.min <= value <= limits.max:
        raise LineError(f"{shown(word)} overflows {layout.dtype}")
    return value


def _check_triangle(coords: list[int], value: Number, layout: Layout) -> None:
    if layout.symmetry == "general" or coords[0] > coords[1]:
        return
    entry = f"({coords[0] + 1}, {coords[1] + 1})"
    if coords[0] < coords[1]:
        raise LineError(
            f"entry {entry} is above the diagonal, but a {layout.symmetry} file holds only what "
            "is below it",
            "if it holds both triangles, its header should say general",
        )
    if layout.symmetry == "skew-symmetric":
        raise LineError(f"entry {entry} is on the diagonal, which is 0 in a skew-symmetric matrix")
    if layout.symmetry == "hermitian" and isinstance(value, complex) and value.imag != 0:
        raise LineError(f"entry {entry} is on the diagonal, which is real in a hermitian matrix")
