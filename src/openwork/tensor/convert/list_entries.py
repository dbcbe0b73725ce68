"""The entries of a tensor as a list: programs that iterate over all levels by their formulas.

A list has an array of coordinates for each mode, and one of values, in storage order. The positions
of the outermost level are partitioned among threads: one program counts the entries of each part,
and another stores them from the part's first place in the list on.

    for each part
      to = firsts[part];
      for (p1 = its first position; p1 < the next part's; p1++) {
        c1 = coordinate of p1;
        for (p2 = begin(p1); p2 < end(p1); p2++) {
          c2 = coordinate of p2;
          L_crd1[to] = c1;  L_crd2[to] = c2;  L_vals[to++] = A_vals[p2];
        }
      }
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from openwork.algebra.operators import EQ, NE
from openwork.algebra.types import Number
from openwork.format.formats import Format
from openwork.frozen import frozen
from openwork.program.lower.base.names import index_array, value_array
from openwork.program.nodes import (
    Apply,
    Argument,
    Array,
    Declare,
    Expr,
    For,
    If,
    Load,
    Name,
    Program,
    Role,
    Set,
    Stmt,
    Store,
    Threads,
    Value,
    block,
    compare,
    every,
    expr,
)

CUT, CUTS = Name("cut"), Name("cuts")
FIRSTS, COUNTS = Array("firsts", "int64"), Array("counts", "int64")
_TO = Name("to")
# Iterations between two polls of the interrupt flag.
_POLLS = 1024


@frozen
class View:
    """The inputs of a level's formulas: its arrays, its extent and its parents."""

    arrays: dict[str, Array]
    extent: Expr
    above: tuple[Any, ...]  # the levels above, each with its view

    def __getattr__(self, name: str) -> Array:
        try:
            return self.arrays[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def parents(self) -> Expr:
        """The number of positions of the level above."""
        count: Expr = Value(1)
        for level, view in self.above:
            count = level.children(view, count)
        return count


def views(format: Format, name: str, widths: Sequence[dict[str, str]]) -> tuple[View, ...]:
    """The levels of the tensor `name` as their formulas see them."""
    made: list[View] = []
    for n, types in enumerate(widths):
        facts = {fact.name: fact for fact in format.levels[n].arrays}
        arrays = {each: index_array(name, n, facts[each], type) for each, type in types.items()}
        above = tuple(zip(format.levels[:n], made, strict=True))
        made.append(View(arrays, extent_of(n), above))
    return tuple(made)


def extent_of(level: int) -> Name:
    """The extent of a level."""
    return Name(f"extent{level + 1}")


def size_of(mode: int) -> Name:
    """The extent of a mode."""
    return Name(f"size{mode + 1}")


def list_of(name: str, types: Sequence[str], dtype: str) -> tuple[list[Array], Array]:
    """The arrays of the list `name`: coordinates by mode, and values."""
    crd = [Array(f"{name}_crd{n + 1}", type, Role.COORDINATE, name) for n, type in enumerate(types)]
    return crd, value_array(name, dtype)


def arguments(arrays: Sequence[Array], role: str) -> tuple[Argument, ...]:
    """Arrays as arguments of a program."""
    return tuple(Argument(array, "", -1, array.name, role) for array in arrays)


def part_of(first: Expr, count: Expr) -> tuple[Expr, Expr]:
    """The first position of a part of `count` positions from `first` on, and its end."""
    return first + count * CUT / CUTS, first + count * (CUT + 1) / CUTS


def over_parts(*body: Stmt) -> For:
    """A parallel loop over all parts, with a dynamic schedule."""
    return For(CUT, Value(0), CUTS, block(*body), by=Threads(chunk=1), polls=1)


@frozen
class Listing:
    """What the programs depend on: the format, the types of all arrays, and what is dropped.

    `drops`: entries of this value are dropped. `overhangs`: blocks reach beyond the shape.
    """

    format: Format
    widths: tuple[tuple[tuple[str, str], ...], ...]
    types: tuple[str, ...]
    dtype: str
    drops: Number | None
    overhangs: bool

    @cached_property
    def views(self) -> tuple[View, ...]:
        """The levels as inputs of their formulas."""
        return views(self.format, "A", [dict(level) for level in self.widths])

    @property
    def _operands(self) -> list[Array]:
        arrays = [view.arrays[name] for view in self.views for name in sorted(view.arrays)]
        return [*arrays, self._values]

    @property
    def _values(self) -> Array:
        return value_array("A", self.dtype)

    @property
    def sizes(self) -> tuple[Name, ...]:
        """The sizes that the programs take: parts, extents of levels, extents of modes."""
        extents = [extent_of(n) for n in range(len(self.format.levels))]
        return (CUTS, *extents, *(size_of(mode) for mode in range(self.format.ndim)))

    def counting(self) -> Program:
        """Counts the entries of each part."""
        body = over_parts(*self._part(Value(0), stores=False), Store(COUNTS, CUT, _TO))
        given = (*arguments(self._operands, "operand"), *arguments([COUNTS], "result"))
        return Program(given, self.sizes, block(body), f"count the entries of {self.format}")

    def storing(self) -> Program:
        """Stores the entries of each part."""
        body = over_parts(*self._part(Load(FIRSTS, CUT), stores=True))
        crd, values = list_of("L", self.types, self.dtype)
        given = arguments([*self._operands, FIRSTS], "operand")
        made = arguments([*crd, values], "result")
        return Program((*given, *made), self.sizes, block(body), f"list {self.format}")

    def _part(self, first: Expr, stores: bool) -> list[Stmt]:
        level, view = self.format.levels[0], self.views[0]
        begin = expr(level.begin(view, Value(0)))
        lo, hi = part_of(begin, expr(level.end(view, Value(0))) - begin)
        return [Declare(_TO, first), *self._level(0, lo, hi, Value(0), [], stores)]

    def _level(
        self, n: int, lo: Expr, hi: Expr, parent: Expr, coords: list[Expr], stores: bool
    ) -> list[Stmt]:
        """The loop over a run of level `n`."""
        level, view = self.format.levels[n], self.views[n]
        last = n + 1 == len(self.format.levels)
        if last and not stores and level.walks and self.drops is None and not self.overhangs:
            return [Set(_TO, _TO + (hi - lo))]
        position, place = Name(f"p{n + 1}"), Name(f"at{n + 1}")
        here = Name(f"c{n + 1}")
        head: list[Stmt] = [Declare(here, expr(level.coordinate(view, parent, position)), True)]
        there: Expr | None = None
        at = expr(level.place(view, parent, position))
        if not level.walks:
            at, there = level.find(view, parent, here)
        head.append(Declare(place, at, True))
        known = [*coords, here]
        if last:
            below = self._entry(known, place, stores)
        else:
            inner, other = self.format.levels[n + 1], self.views[n + 1]
            run = expr(inner.begin(other, place)), expr(inner.end(other, place))
            below = self._level(n + 1, *run, place, known, stores)
        body = below if there is None else [If(there, block(*below))]
        return [For(position, lo, hi, block(*head, *body), polls=0 if n else _POLLS)]

    def _entry(self, known: list[Expr], place: Expr, stores: bool) -> list[Stmt]:
        """Count or store the entry at `place`."""
        value = Load(self._values, place)
        coords, conditions = self._modes(known), list[Expr]()
        if self.overhangs:
            tiled = [mode for mode, tile in enumerate(self.format.tiles) if tile]
            conditions += [compare("<", coords[mode], size_of(mode)) for mode in tiled]
        if self.drops is not None:
            same = self.drops == self.drops
            other = Value(self.drops, self.dtype) if same else value
            conditions.append(Apply(NE if same else EQ, (value, other), "bool"))
        code: list[Stmt] = [Set(_TO, _TO + 1)]
        if stores:
            crd, values = list_of("L", self.types, self.dtype)
            put = [Store(array, _TO, coord) for array, coord in zip(crd, coords, strict=True)]
            code = [*put, Store(values, _TO, value), *code]
        condition = every(conditions)
        return code if condition is None else [If(condition, block(*code))]

    def _modes(self, known: list[Expr]) -> list[Expr]:
        """The coordinate of each mode, from those of the levels."""
        coords: list[Expr] = [Value(0)] * self.format.ndim
        for (mode, part), here in zip(self.format.parts, known, strict=True):
            tile = self.format.tiles[mode]
            coords[mode] = coords[mode] + (here * tile if part == 0 else here)
        return coords
