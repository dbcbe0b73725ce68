"""Ranges: the coordinates or positions that an index variable runs over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from openwork.frozen import frozen
from openwork.index.nodes import Access, IndexVar
from openwork.loops.relations import Pos
from openwork.program.nodes import Binary, Expr, Value, arithmetic, compare
from openwork.tree import replace


@frozen
class Count:
    """What is known about the number of values.

    `fixed`: the number, where it is a constant; `multiple`: a divisor of it; `most`: an upper
    bound. `longest`: it is the length of the longest run, and the current run may be shorter.
    """

    fixed: int | None = None
    multiple: int = 1
    most: int | None = None
    longest: bool = False

    def exactly(self, fixed: int | None) -> Count:
        """With this number, or with an unknown one if it is None."""
        return replace(self, fixed=fixed, multiple=fixed or 1)


@frozen
class Edges:
    """Conditions for a window to be the first, and the last, of all; None if it certainly is."""

    first: Expr | None = None
    last: Expr | None = None

    def within(self, outer: Edges) -> Edges:
        """The same for a window of a window."""
        return Edges(_both(outer.first, self.first), _both(outer.last, self.last))


def _both(one: Expr | None, other: Expr | None) -> Expr | None:
    if one is None or other is None:
        return other if one is None else one
    return Binary("&&", one, other)


@frozen
class Seams:
    """The ends of a window of coordinates, either of which may cut nothing off.

    `here`: whether it cuts. `places`: the positions of operands there, if it does.
    """

    here: tuple[Expr, Expr]
    places: Mapping[Access, tuple[Expr, Expr]]


@frozen
class Range:
    """The values of a variable: from `lo` to `hi`, exclusive.

    `pos`: they are positions, of the level that this relation names, or `within` a run of such;
    `levels` then has the first and last positions of the levels above it, outermost first.
    `missing`: positions of an operand that has no entry here.

    `everything`: all coordinates of a dimension. `counts`: the variable that numbers the values of
    this range from zero. `seams`: what is known about the ends of a window.
    """

    lo: Expr
    hi: Expr
    count: Count = field(default_factory=Count)
    pos: Pos | None = None
    within: Pos | None = None
    levels: tuple[tuple[Expr, Expr], ...] = ()
    missing: bool = False
    edges: Edges = field(default_factory=Edges)
    everything: bool = False
    counts: IndexVar | None = None
    seams: Seams | None = None

    @property
    def size(self) -> Expr:
        """How many values there are."""
        return Value(self.count.fixed) if self.count.fixed is not None else self.hi - self.lo

    def part(self, lo: Expr, hi: Expr, fixed: int | None = None) -> Range:
        """The values from `lo` to `hi`, exclusive; `fixed` of them if that is known."""
        return replace(self, lo=lo, hi=hi, count=self.count.exactly(fixed))


def first_values(fixed: int) -> Range:
    """Zero, one, and so on: a constant number of values."""
    return Range(Value(0), Value(fixed), Count(fixed, fixed or 1))


@frozen
class Stretch:
    """A range of the pairs of two fused variables, and how it bounds the inner one.

    The pairs number `lo` to `hi`, exclusive, of `outer` and an inner variable of `size` values from
    `first` on.
    """

    outer: IndexVar
    outer_first: Expr
    lo: Expr
    hi: Expr
    size: Expr
    first: Expr

    def window(self, outer: Expr) -> Range:
        """The range of the inner variable for a known value of the outer one."""
        before = (outer - self.outer_first) * self.size
        lo = arithmetic("max", self.lo - before, Value(0))
        hi = arithmetic("min", self.hi - before, self.size)
        return Range(self.first + lo, self.first + hi)


@frozen
class Seam:
    """The pairs of `outer` and an inner variable between two cuts, and how they bound the latter.

    A cut lies before a pair and holds its two values. The inner variable has `size` values.
    `places`: the positions of operands at both cuts, where they are known.
    """

    outer: IndexVar
    first: tuple[Expr, Expr]
    last: tuple[Expr, Expr]
    size: Expr
    places: Mapping[Access, tuple[Expr, Expr]]

    def window(self, outer: Expr) -> Range:
        """The range of the inner variable for a known value of the outer one."""
        begins, ends = compare("==", outer, self.first[0]), compare("==", outer, self.last[0])
        lo, hi = begins * self.first[1], self.size - ends * (self.size - self.last[1])
        return Range(lo, hi, seams=Seams((begins, ends), self.places))
