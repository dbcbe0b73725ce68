"""Fixed columns, as Fortran writes them: fields of a fixed width and number per line."""

from __future__ import annotations

import re

import numpy as np

from openwork.frozen import frozen
from openwork.runtime.storage import Array
from openwork.tensor.files.lines.faults import shown
from openwork.tensor.files.lines.source import Source

_FORMAT = re.compile(
    r"\(\s*(?:[+-]?\d+\s*P\s*,?\s*)?"  # a scale factor, ignored by numbers with exponents
    r"(\d*)\s*\(?\s*([IEDFG])\s*(\d+)(?:\.\d+)?(?:E\d+)?\s*\)?\s*\)",
    re.I,
)
_WIDEST, _LONGEST = 100, 10_000
_INTEGER = frozenset(b"0123456789+- ")
_REAL = frozenset(b"0123456789+-.eEdD ")
_SPELLED = bytes.maketrans(b"dD", b"ee")
# Fortran may omit the letter of an exponent of three digits.
_BARE_EXPONENT = re.compile(rb"(?<=[0-9.])(?=[+-][0-9]+\Z)")
_NUMBER = re.compile(
    rb"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|nan|inf(?:inity)?)\Z", re.I
)


@frozen
class Fields:
    """The layout of numbers on lines, such as `(4E20.12)`: four per line, each 20 wide."""

    per_line: int
    width: int
    real: bool

    def lines(self, count: int) -> int:
        """The number of lines that `count` numbers take."""
        return -(-count // self.per_line)


def parse_fields(source: Source, text: str) -> Fields:
    """The fields that a Fortran format describes.

    >>> _FORMAT.match("(1P,4E20.12)").groups()
    ('4', 'E', '20')
    """
    match = _FORMAT.match(text.strip())
    per_line, width = (int(match[1][:9] or 1), int(match[3][:9])) if match else (0, 0)
    if match is None or not 0 < width <= _WIDEST or not 0 < per_line * width <= _LONGEST:
        raise source.fault(f"{shown(text.encode())} is not a number format", source.line)
    return Fields(per_line, width, match[2].upper() != "I")


def read_fields(source: Source, fields: Fields, count: int, what: str) -> Array:
    """The next `count` numbers: int64, or float64 if the fields are real."""
    if count > source.most_bytes:
        raise source.fault(f"{count} {what} do not fit into the file", source.line)
    first, full = source.line + 1, fields.per_line * fields.width
    lines = []
    for _ in range(fields.lines(count)):
        line = source.read_line()
        if line is None:
            raise source.fault(f"it ends within the {what}", source.line)
        if line[full:].strip():
            reason = f"{shown(line[full:])} follows the {fields.per_line} fields of a line"
            raise source.fault(reason, source.line)
        lines.append(line[:full].ljust(full))
    words = np.frombuffer(b"".join(lines), dtype=f"S{fields.width}")
    if words[count:].astype(bool).any() and b"".join(words[count:].tolist()).strip():
        raise source.fault(f"there are more than {count} {what}", source.line)
    numbers = _quickly(words[:count], fields.real)
    if numbers is not None:
        return numbers
    made = [
        _number(source, word.strip(), fields.real, first + n // fields.per_line)
        for n, word in enumerate(words[:count].tolist())
    ]
    return np.array(made, dtype=np.float64 if fields.real else np.int64)


def _quickly(words: Array, real: bool) -> Array | None:
    """All numbers, vectorized; None if any of them is unusual."""
    text = words.tobytes().replace(b"\0", b" ")
    if not (_REAL if real else _INTEGER).issuperset(text):
        return None
    try:
        if not real:
            return words.astype(np.int64)
        spelled = np.frombuffer(text.translate(_SPELLED), dtype=words.dtype)
        numbers = spelled.astype(np.float64)
    except (ValueError, OverflowError):
        return None
    return numbers if np.isfinite(numbers).all() else None


def _number(source: Source, word: bytes, real: bool, line: int) -> int | float:
    if not word:
        raise source.fault("a number is missing", line)
    if not real:
        if not re.match(rb"[+-]?[0-9]{1,30}\Z", word) or not -(2**63) <= int(word) < 2**63:
            raise source.fault(f"{shown(word)} is not a 64-bit integer", line)
        return int(word)
    spelled = _BARE_EXPONENT.sub(b"e", word.translate(_SPELLED))
    if not _NUMBER.match(spelled):
        raise source.fault(f"{shown(word)} is not a number", line)
    value = float(spelled)
    if np.isinf(value) and b"i" not in spelled.lower():
        raise source.fault(f"{shown(word)} overflows float64", line)
    return value
