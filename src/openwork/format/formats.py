"""Formats: levels from the outermost in, and the mode that each one stores; names; text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np

from openwork.algebra.entries import Entry
from openwork.errors import FormatError, Span
from openwork.format.layouts import AOS, TERNARY, WITH_COORDINATES, check_layout
from openwork.format.levels import (
    LEVELS,
    ArrayFact,
    Bitmap,
    Compressed,
    Dense,
    Diagonals,
    Growing,
    Lengths,
    Level,
    Padded,
    Permuted,
    Ragged,
    Range,
    Singleton,
    Sliced,
)
from openwork.format.types import dependent_type, spelled_entry
from openwork.frozen import frozen


@frozen(repr=False)
class Format:
    """How a tensor is stored: levels from the outermost in, and the mode that each one stores.

    Args:
        levels: one level per mode, the outermost first; two for a mode that is stored in blocks.
        order: `order[l]` is the mode that level `l` stores; left out, level `l` stores mode `l`.
        tiles: for each mode the size of its blocks, 0 for none. The first level of a mode with
            blocks stores which block, the second the coordinate within the block.
        layout: how the numbers of entries that are records lie in memory: "AoS", "SoA", "AoSoA(k)"
            or "packed"; see `with_layout`.

    >>> from openwork.format.formats import CSC
    >>> from openwork.format.levels import Dense
    >>> Format([Dense, Compressed], order=(1, 0)) == CSC
    True
    >>> print(CSC)
    Dense(1), Compressed(0)
    """

    levels: tuple[Level, ...]
    order: tuple[int, ...]
    tiles: tuple[int, ...]
    layout: str

    def __init__(
        self,
        levels: Sequence[Level],
        order: Sequence[int] | None = None,
        tiles: Sequence[int] | None = None,
        layout: str = AOS,
    ) -> None:
        if isinstance(levels, str):
            raise FormatError(
                f"{levels!r} is not a list of levels",
                code="E401",
                hint=f"format={levels!r} takes a text as it is; there is ow.CSR, too",
            )
        try:
            levels = tuple(levels)
            order = tuple(range(len(levels))) if order is None else tuple(order)
            tiles = (0,) * len(levels) if tiles is None else tuple(tiles)
        except TypeError as error:
            raise FormatError(
                f"a format is made of levels and an order of modes: {error}",
                code="E401",
                hint="for example ow.Format([ow.Dense, ow.Compressed], order=(1, 0))",
            ) from error
        for level in levels:
            if not isinstance(level, Level):
                raise FormatError(
                    f"{level!r} is not a level",
                    code="E401",
                    hint=f"levels are {', '.join(f'ow.{name}' for name in LEVELS)}",
                )
        for level in levels[1:]:
            if level.outermost:
                raise FormatError(
                    f"{level} can only be the outermost level",
                    code="E401",
                    hint=f"for example ow.Format([{level!r}, ow.Compressed])",
                )
        _check_modes(levels, order, tiles)
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "tiles", tiles)
        object.__setattr__(self, "layout", AOS if layout == AOS else check_layout(layout))
        if self.layout in WITH_COORDINATES and self.packed_array is None:
            raise FormatError(
                f"{self.with_layout(AOS)!r} cannot be {self.layout}: its last level stores no "
                "coordinates",
                code="E401",
                hint=f"{self.layout} is for ow.CSR, ow.ELL, ow.COO(2) and their like",
            )

    def with_layout(self, layout: str) -> Format:
        """The same levels with another layout of the records.

        Args:
            layout: "AoS" has record after record; "SoA" an array for each number of a record;
                "AoSoA(8)" such arrays for each 8 records; "packed" record after record, each
                after its coordinate on the last level; "ternary", for -1, 0 and 1, has the number
                in the first two bits of that coordinate.

        >>> SELL(32).with_layout("SoA"), CSR.with_layout("SoA").layout
        (ow.SELL(32).with_layout('SoA'), 'SoA')
        """
        if layout == self.layout:
            return self
        return Format(self.levels, self.order, self.tiles, layout)

    def of(self, dtype: object) -> Format:
        """The format for elements of a type: numbers have no arrays for each of several numbers.

        Raises:
            FormatError: E401 if records, or numbers without a sign, should be ternary.
        """
        single = not isinstance(dtype, Entry) or dtype.size == 1
        if self.layout == TERNARY and not (isinstance(dtype, np.dtype) and dtype.kind in "if"):
            raise FormatError(
                f"{dtype} has no ternary layout",
                code="E401",
                hint="it is for float32, float64, int8 and other numbers that may be -1, 0 and 1",
            )
        ordinary = self.layout in (AOS, *WITH_COORDINATES)
        return self.with_layout(AOS) if single and not ordinary else self

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:  # every lookup of a kernel asks for it
        return hash((self.levels, self.order, self.tiles, self.layout))

    def __reduce__(self) -> tuple[Any, ...]:
        return Format, (self.levels, self.order, self.tiles, self.layout)  # hashes differ there

    @cached_property
    def packed_array(self) -> str | None:
        """The array with a coordinate for each value, which a packed layout has beside them."""
        for level in self.levels[-1:]:
            for fact in level.arrays:
                each = fact.per == "child" or _is_single(level, fact)
                if each and fact.holds == "coordinates":
                    return fact.name
        return None

    @property
    def ndim(self) -> int:
        """The number of modes."""
        return len(self.tiles)

    @property
    def tiled(self) -> bool:
        """Whether some mode is stored in blocks."""
        return any(self.tiles)

    @cached_property
    def parts(self) -> tuple[tuple[int, int | None], ...]:
        """For each level its mode, and which part: None all, 0 the block, 1 within the block."""
        seen: set[int] = set()
        found: list[tuple[int, int | None]] = []
        for mode in self.order:
            found.append((mode, (1 if mode in seen else 0) if self.tiles[mode] else None))
            seen.add(mode)
        return tuple(found)

    def extents(self, shape: Sequence[Any]) -> tuple[Any, ...]:
        """The extent of each level for a tensor of this shape; None where it is not known.

        >>> from openwork.format.formats import BSR
        >>> BSR(2, 3).extents((7, 7))
        (4, 3, 2, 3)
        """
        found: list[Any] = []
        for mode, part in self.parts:
            extent, tile = shape[mode], self.tiles[mode]
            blocks = None if extent is None or not tile else -(-extent // tile)
            found.append(extent if part is None else blocks if part == 0 else tile)
        return tuple(found)

    @property
    def is_dense(self) -> bool:
        """Whether every coordinate of every mode is stored, in blocks or not."""
        return all(level.full for level in self.levels)

    @property
    def plain(self) -> bool:
        """Whether a dense tensor is a plain array in memory, in some order of modes."""
        full = all(level.full and not level.arrays for level in self.levels)
        return full and not self.tiled and self.layout == AOS

    def level_of(self, mode: int) -> int:
        """The level that stores `mode`; the outer one, if it is stored in blocks."""
        return self.order.index(mode)

    def permuted(self, modes: Sequence[int]) -> Format:
        """The format of the same storage once new mode `m` is old mode `modes[m]`."""
        new = {old: position for position, old in enumerate(modes)}
        tiles = tuple(self.tiles[mode] for mode in modes)
        return Format(self.levels, tuple(new[mode] for mode in self.order), tiles, self.layout)

    def __str__(self) -> str:
        marks = {None: "", 0: "/", 1: "%"}
        levels = ", ".join(
            f"{level}({mode}{marks[part]}{self.tiles[mode] if part is not None else ''})"
            for level, (mode, part) in zip(self.levels, self.parts, strict=True)
        )
        return (levels or "()") + ("" if self.layout == AOS else f"; {self.layout}")

    def type(self, entry: object = "value", shape: Sequence[int] | None = None) -> str:
        """The dependent type of the storage: arrays whose lengths depend on their position.

        `[x -> T]_n` is an array of `n` elements `T`, which may depend on `x`: a coordinate, or a
        position where coordinates are stored. Numbers instead of `m` and `n` if a shape is given.
        Coordinates have an array of their own, unless they are packed.

        >>> CSR.type("float64")
        '([i -> [int32]_(pos[i+1]-pos[i])]_m, [i -> [float64]_(pos[i+1]-pos[i])]_m)'
        >>> CSR.with_layout("packed").type("float64")
        '[i -> [(int32, float64)]_(pos[i+1]-pos[i])]_m'
        """
        extents = None if shape is None else self.extents(shape)
        known = self.of(entry) if isinstance(entry, Entry) else self
        return dependent_type(
            self.levels, self.parts, self.tiles, spelled_entry(entry, known.layout), extents
        )

    def __repr__(self) -> str:
        if self.layout != AOS:
            return f"{self.with_layout(AOS)!r}.with_layout({self.layout!r})"
        known = name_of(self)
        if known is not None:
            return f"ow.{known}"
        levels = ", ".join(map(repr, self.levels))
        natural = self.order == tuple(range(self.ndim))
        order = "" if natural else f", order={self.order}"
        return f"ow.Format([{levels}]{order}{f', tiles={self.tiles}' if self.tiled else ''})"


def _is_single(level: Level, fact: ArrayFact) -> bool:
    """Whether a level has one entry below each parent, with a coordinate in its only array."""
    return level.arrays == (fact,) and fact.per == "parent" and not fact.extra and level.compact


def _check_modes(levels: Sequence[Level], order: Sequence[int], tiles: Sequence[int]) -> None:
    """Each mode has one level, or two if it is stored in blocks."""
    modes = len(tiles)
    if any(isinstance(t, bool) or not isinstance(t, int) or t < 0 for t in tiles):
        raise FormatError(f"{tuple(tiles)} are not block sizes", code="E401")
    wanted = sorted([*range(modes), *(m for m, tile in enumerate(tiles) if tile)])
    if sorted(order) != wanted or len(levels) != len(order):
        raise FormatError(
            f"order {tuple(order)} does not name each of the {modes} modes once"
            + (f", twice where there are blocks, for {len(levels)} levels" if any(tiles) else ""),
            code="E401",
        )


def dense(ndim: int, order: Sequence[int] | None = None) -> Format:
    """All `ndim` modes dense; row-major, or as `order` says (`dense(2, (1, 0))`: column-major)."""
    count = _count(ndim, "modes", 0)
    return _row_major(count) if order is None else Format([Dense] * count, order)


@cache
def _row_major(ndim: int) -> Format:
    return Format([Dense] * ndim)


def CSF(ndim: int, order: Sequence[int] | None = None) -> Format:
    """Compressed sparse fibres: all `ndim` modes compressed."""
    return Format([Compressed] * _count(ndim, "modes", 0), order)


def COO(ndim: int, order: Sequence[int] | None = None) -> Format:
    """Coordinates: one list of entries, sorted, with a coordinate per mode.

    >>> print(COO(2))
    Compressed(unique=False)(0), Singleton(1)
    """
    modes = _count(ndim, "modes", 1)
    if modes == 1:
        return CSF(1, order)
    inner = [Singleton(unique=False)] * (modes - 2)
    return Format([Compressed(unique=False), *inner, Singleton], order)


def BSR(rows: int, columns: int) -> Format:
    """Rows of dense blocks of `rows` x `columns`; they need not divide the shape."""
    tiles = (_count(rows, "rows of a block"), _count(columns, "columns of a block"))
    return Format([Dense, Compressed, Dense, Dense], (0, 1, 0, 1), tiles)


def CSB(rows: int, columns: int) -> Format:
    """Sparse blocks of `rows` x `columns`, with 16-bit coordinates within a block.

    Entries take few bytes, and a block's part of the vector stays in the cache. Each block loads
    its part again, so tall blocks are best: as many columns as fit into the cache, and many times
    more rows, whose coordinates then take 32 bits.
    """
    tiles = (_count(rows, "rows of a block"), _count(columns, "columns of a block"))
    widths = [8 if tile <= 2**7 else 16 if tile <= 2**15 else 32 for tile in tiles]
    inner = [Compressed(unique=False, bits=widths[0]), Singleton(bits=widths[1])]
    return Format([Dense, Compressed, *inner], (0, 1, 0, 1), tiles)


def SELL(height: int, sigma: int | None = None) -> Format:
    """Sliced ELLPACK: slices of `height` rows, each padded to its longest row.

    With `sigma`, rows are sorted by length within windows of `sigma` rows, which need less padding.
    """
    sliced = Sliced(_count(height, "rows in a slice"))
    if sigma is None:
        return Format([Dense, sliced])
    return Format([Permuted(_count(sigma, "rows in a window")), sliced])


def _count(count: int, what: str, least: int = 1) -> int:
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < least:
        raise FormatError(f"{count!r} is not a number of {what}", code="E401")
    return int(count)


CSR = Format([Dense, Compressed])
CSC = Format([Dense, Compressed], order=(1, 0))
DCSR = Format([Compressed, Compressed])
DCSC = Format([Compressed, Compressed], order=(1, 0))
ELL = Format([Dense, Padded])
LIL = Format([Dense, Lengths])
DIA = Format([Dense, Diagonals])
BANDED = Format([Dense, Range])
BITMAP = Format([Dense, Bitmap])
RAGGED = Format([Dense, Ragged])
LOWER_TRIANGULAR = Format([Dense, Growing])

NAMED: dict[str, Format] = {
    "CSR": CSR,
    "CSC": CSC,
    "DCSR": DCSR,
    "DCSC": DCSC,
    "ELL": ELL,
    "LIL": LIL,
    "DIA": DIA,
    "banded": BANDED,
    "bitmap": BITMAP,
    "ragged": RAGGED,
    "lower_triangular": LOWER_TRIANGULAR,
}

_MAKERS: dict[str, Callable[..., Format]] = {
    "dense": dense,
    "CSF": CSF,
    "COO": COO,
    "BSR": BSR,
    "CSB": CSB,
    "SELL": SELL,
}
_BY_ORDER = ("dense", "CSF", "COO")  # need no more than the number of modes
_EXAMPLES = ("dense(2)", "CSF(3)", "COO(2)", "BSR(3, 3)", "CSB(4096, 4096)", "SELL(32)")


@lru_cache(maxsize=1024)  # messages have it, which are often written for nothing
def name_of(format: Format) -> str | None:
    """The public name of `format`, if it has one."""
    for name, known in NAMED.items():
        if known == format:
            return name
    natural = format.order == tuple(range(format.ndim))
    order = "" if natural else f", order={format.order}"
    for guess, made in _guesses(format):
        if made == format:
            return guess if natural or format.tiled else f"{guess[:-1]}{order})"
    return None


def _guesses(format: Format) -> Iterator[tuple[str, Format]]:
    """Named formats that might equal this one."""
    order = None if format.tiled else format.order
    ndim = format.ndim
    yield f"dense({ndim})", dense(ndim, order)
    yield f"CSF({ndim})", CSF(ndim, order)
    if ndim > 1:
        yield f"COO({ndim})", COO(ndim, order)
    if ndim == 2 and all(tile > 0 for tile in format.tiles):
        rows, columns = format.tiles
        yield f"BSR({rows}, {columns})", BSR(rows, columns)
        yield f"CSB({rows}, {columns})", CSB(rows, columns)
    height = getattr(format.levels[-1], "height", None) if format.levels else None
    if ndim == 2 and height is not None and format.order == (0, 1):
        sigma = getattr(format.levels[0], "sigma", None)
        told = f"SELL({height})" if sigma is None else f"SELL({height}, {sigma})"
        yield told, SELL(height, sigma)


_LEVEL = re.compile(
    r"\s*([A-Za-z]+)\s*((?:\(\s*[^()]*\))*)\s*(,|$)",
)
_MODE = re.compile(r"\(\s*(\d+)\s*(?:([/%])\s*(\d+)\s*)?\)\s*$")
_NAMED_CALL = re.compile(r"\s*([A-Za-z]+)\s*\(\s*(\d+(?:\s*,\s*\d+)*)\s*\)\s*$")


def parse_format(text: str) -> Format:
    """The format that `text` describes: a name, or levels with the modes they store.

    A layout follows a semicolon.

    >>> parse_format("CSC") == parse_format("Dense(1), Compressed(0)") == CSC
    True
    >>> parse_format("BSR(3, 3)") == parse_format(str(BSR(3, 3))) == BSR(3, 3)
    True
    >>> parse_format("CSR; SoA") == parse_format(str(CSR.with_layout("SoA")))
    True
    >>> parse_format("csr") == CSR and parse_format("bsr(2, 2)") == BSR(2, 2)
    True
    """
    levels_text, semicolon, layout = text.rpartition(";")
    if semicolon:
        return parse_format(levels_text).with_layout(layout.strip())
    stripped = text.strip()
    named = _spelled(stripped, NAMED)
    if named is not None:
        return NAMED[named]
    call = _NAMED_CALL.match(text)
    maker = None if call is None else _spelled(call[1], _MAKERS)
    if call is not None and maker is not None:
        try:
            return _MAKERS[maker](*(int(number) for number in call[2].split(",")))
        except TypeError as error:
            raise FormatError(str(error), code="E403", span=Span(text, 0, len(text))) from error
    levels: list[Level] = []
    order: list[int] = []
    tiles: dict[int, int] = {}
    at = 0
    while at < len(text) and stripped != "()":
        match = _LEVEL.match(text, at)
        if match is None or match[1] not in LEVELS:
            raise _no_level(text, at, match.end() if match else len(text))
        mode = _MODE.search(match[2])
        order.append(len(order) if mode is None else int(mode[1]))
        if mode is not None and mode[2]:
            tiles[order[-1]] = int(mode[3])
        told = match[2][: mode.start()] if mode else match[2]
        levels.append(_changed(LEVELS[match[1]], told, text, at, match.end()))
        at = match.end()
    modes = max(order, default=-1) + 1
    return Format(levels, order, [tiles.get(mode, 0) for mode in range(modes)])


def _spelled(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that is meant, in any case; names of levels are spelled as they are."""
    if name in names or name in LEVELS:
        return name if name in names else None
    return next((each for each in names if each.lower() == name.lower()), None)


def _changed(level: Level, told: str, text: str, at: int, end: int) -> Level:
    """`level` with the properties in `(32, unique=False)`."""
    words = [word.strip() for word in told.strip()[1:-1].split(",") if word.strip()]
    values = {"True": True, "False": False, "None": None}
    try:
        positional = [int(word) for word in words if "=" not in word]
        pairs = [word.split("=", 1) for word in words if "=" in word]
        named = {k.strip(): values[v.strip()] if v.strip() in values else int(v) for k, v in pairs}
        return level(*positional, **named) if words else level
    except (ValueError, TypeError) as error:
        raise _no_level(text, at, end) from error


def _no_level(text: str, at: int, end: int) -> FormatError:
    name = _spelled(text.strip(), _MAKERS)
    if name is not None:
        hint = f"with numbers: {', '.join(repr(each) for each in _EXAMPLES if name in each)}"
        return FormatError(f"{name} alone is not a format", code="E403", hint=hint)
    if _is_type(text.strip()):
        return FormatError(
            f"{text} is an element type, not a format",
            code="E403",
            hint="A.astype(...), or dtype=...",
        )
    return FormatError(
        "this is not a level",
        code="E403",
        span=Span(text, at, end),
        hint=f"write a name ({', '.join(NAMED)}) or levels such as "
        f"'Dense(0), Compressed(1)'; the levels are {', '.join(LEVELS)}",
    )


def _is_type(spec: object) -> bool:
    """Whether NumPy knows it as an element type."""
    try:
        np.dtype(spec)  # type: ignore[call-overload]
    except (TypeError, ValueError, SyntaxError):
        return False
    return spec is not None


def as_format(spec: Format | str, order: int | None = None) -> Format:
    """`spec` itself, or the format that its text describes.

    `order`: the number of modes, where it is known: then `"coo"`, `"csf"` and `"dense"` need none.

    >>> as_format("coo", 3) == COO(3)
    True
    """
    if isinstance(spec, Format):
        return spec
    if isinstance(spec, str):
        name = None if order is None else _spelled(spec.strip(), _BY_ORDER)
        return parse_format(spec) if name is None else _MAKERS[name](order)
    hint = "for example ow.CSR"
    if isinstance(spec, Level):
        hint = f"it stores one mode; a format has a level for each: ow.Format([{spec!r}])"
    elif getattr(spec, "__name__", None) in _MAKERS:
        name = spec.__name__
        example = next(each for each in _EXAMPLES if each.startswith(name))
        raise FormatError(
            f"{name} is not a format, but makes one", code="E401", hint=f"call it: ow.{example}"
        )
    elif _is_type(spec):
        hint = f"{spec!r} is an element type: A.astype(...), or dtype=..."
    raise FormatError(f"{spec!r} is not a format", code="E401", hint=hint)
