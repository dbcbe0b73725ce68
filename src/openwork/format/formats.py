"""Formats: a level for each mode, and which mode each level stores."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from openwork.errors import FormatError, Span
from openwork.format.levels import LEVELS, Compressed, Dense, Level


@dataclass(frozen=True, init=False, repr=False)
class Format:
    """How a tensor is stored: levels from the outermost in, and the mode that each one stores.

    Args:
        levels: one level per mode, the outermost first.
        order: `order[l]` is the mode that level `l` stores; left out, level `l` stores mode `l`.

    >>> Format([Dense, Compressed], order=(1, 0)) == CSC
    True
    >>> print(CSC)
    Dense(1), Compressed(0)
    """

    levels: tuple[Level, ...]
    order: tuple[int, ...]

    def __init__(self, levels: Sequence[Level], order: Sequence[int] | None = None) -> None:
        try:
            levels = tuple(levels)
            order = tuple(range(len(levels))) if order is None else tuple(order)
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
                    hint="levels are ow.Dense, ow.Compressed",
                )
        if sorted(order) != list(range(len(levels))):
            raise FormatError(
                f"order {order} does not name each of the {len(levels)} modes once", code="E401"
            )
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "order", order)

    @property
    def ndim(self) -> int:
        """The number of modes."""
        return len(self.levels)

    @property
    def is_dense(self) -> bool:
        """Whether every coordinate of every mode is stored."""
        return all(level.full for level in self.levels)

    def level_of(self, mode: int) -> int:
        """The level that stores `mode`."""
        return self.order.index(mode)

    def permuted(self, modes: Sequence[int]) -> Format:
        """The format of the same storage once new mode `m` is old mode `modes[m]`."""
        new = {old: position for position, old in enumerate(modes)}
        return Format(self.levels, tuple(new[mode] for mode in self.order))

    def __str__(self) -> str:
        return ", ".join(f"{n}({m})" for n, m in zip(self.levels, self.order, strict=True)) or "()"

    def __repr__(self) -> str:
        for name, known in NAMED.items():
            if known == self:
                return f"ow.{name}"
        natural = self.order == tuple(range(self.ndim))
        if self.is_dense:
            return f"ow.dense({self.ndim}{'' if natural else f', order={self.order}'})"
        if natural and all(level is Compressed for level in self.levels):
            return f"ow.CSF({self.ndim})"
        levels = ", ".join(map(repr, self.levels))
        return f"ow.Format([{levels}]{'' if natural else f', order={self.order}'})"


def dense(ndim: int, order: Sequence[int] | None = None) -> Format:
    """All `ndim` modes dense; row-major, or as `order` says (`dense(2, (1, 0))`: column-major)."""
    return Format([Dense] * _modes(ndim), order)


def CSF(ndim: int, order: Sequence[int] | None = None) -> Format:
    """Compressed sparse fibres: all `ndim` modes compressed."""
    return Format([Compressed] * _modes(ndim), order)


def _modes(count: int) -> int:
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 0:
        raise FormatError(f"{count!r} is not a number of modes", code="E401")
    return int(count)


CSR = Format([Dense, Compressed])
CSC = Format([Dense, Compressed], order=(1, 0))
DCSR = Format([Compressed, Compressed])
DCSC = Format([Compressed, Compressed], order=(1, 0))
NAMED: dict[str, Format] = {"CSR": CSR, "CSC": CSC, "DCSR": DCSR, "DCSC": DCSC}

_LEVEL = re.compile(r"\s*([A-Za-z]+)\s*(?:\(\s*(\d+)\s*\))?\s*(,|$)")


def parse_format(text: str) -> Format:
    """The format that `text` describes: a name, or levels with the modes they store.

    >>> parse_format("CSC") == parse_format("Dense(1), Compressed(0)") == CSC
    True
    """
    if text.strip() in NAMED:
        return NAMED[text.strip()]
    levels: list[Level] = []
    modes: list[int | None] = []
    at = 0
    while at < len(text) and text.strip() != "()":
        match = _LEVEL.match(text, at)
        if match is None or match[1] not in LEVELS:
            raise FormatError(
                "this is not a level",
                code="E403",
                span=Span(text, at, match.end() if match else len(text)),
                hint=f"write a name ({', '.join(NAMED)}) or levels such as "
                f"'Dense(0), Compressed(1)'; the levels are {', '.join(LEVELS)}",
            )
        levels.append(LEVELS[match[1]])
        modes.append(None if match[2] is None else int(match[2]))
        at = match.end()
    order = [position if mode is None else mode for position, mode in enumerate(modes)]
    return Format(levels, order)


def as_format(spec: Format | str) -> Format:
    """`spec` itself, or the format that its text describes."""
    if isinstance(spec, Format):
        return spec
    if isinstance(spec, str):
        return parse_format(spec)
    raise FormatError(f"{spec!r} is not a format", code="E401", hint="for example ow.CSR")
