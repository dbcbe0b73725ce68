"""Appenders of a piece of a result: one counts, one fills in place, one has arrays of its own.

Their counters are those of the piece, `own2` and so on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from openwork.format.levels import ArrayFact
from openwork.program.contract import ROOM
from openwork.program.lower.base.append import Appender
from openwork.program.nodes import (
    Allocate,
    Array,
    Declare,
    Do,
    Expr,
    For,
    Free,
    Helper,
    If,
    Load,
    Name,
    Prefetch,
    Put,
    Role,
    Set,
    Stmt,
    Store,
    Value,
    arithmetic,
    block,
    compare,
)

OWN = "own"  # what the arrays of a piece are called in place of the result's
PIECE, PIECES = Name("piece"), Name("pieces")
# Of each piece: 1 when those before it are counted, 2 when it is itself, and 0 once it is in place.
TURNS = Array("R_turns", "int64")
Rows = tuple[Expr, Expr]  # the parents of the outermost sparse level that a piece has


# Of the last piece that a thread has put into place: the number of the next, where that begins, and
# how many entries it had; and where the piece at hand will begin if all have as many.
_PLACED, _END, _EACH = Name("own_placed"), Name("own_end"), Name("own_each")
_SOON = Name("own_soon")
_ENTRY = 4  # for so many bytes of each entry a line is asked for at the end of each run


def first_of(level: int) -> Array:
    """Where each piece begins in a level of the result."""
    return Array(f"R{level + 1}_first", "int64", Role.CUT)


@dataclass
class PieceAppender(Appender):
    """What a pass over one piece does to the result."""

    of_piece: ClassVar[bool] = True

    def count(self, level: int) -> Name:
        return Name(f"{OWN}{level + 1}")

    def begin(self, firsts: list[Expr]) -> list[Stmt]:
        """The counters, which start at `firsts`."""
        return [
            Declare(self.count(level), first)
            for level, first in zip(self.sparse, firsts, strict=True)
        ]


@dataclass
class Counting(PieceAppender):
    """Entries are counted and nothing is stored."""

    counts: ClassVar[bool] = True

    def reserve(self, level: int, more: Expr) -> list[Stmt]:
        return []

    def enter(self, level: int) -> list[Stmt]:
        return []

    def commit(self, level: int, coordinate: Expr, start: Name | None) -> list[Stmt]:
        count, below = self.count(level), self.below(level)
        keep = Set(count, count + 1)
        if below is None or start is None:
            return [keep]
        return [If(compare("<", start, self.count(below)), block(keep))]

    def close(self, level: int, parent: Expr) -> list[Stmt]:
        return []


@dataclass
class Filling(PieceAppender):
    """Entries are stored where they belong, in arrays that are large enough.

    `limit`: from this row on, another piece closes rows.
    """

    limit: Expr | None = None

    def reserve(self, level: int, more: Expr) -> list[Stmt]:
        return []

    def enter(self, level: int) -> list[Stmt]:
        return self._within(level, super().enter(level))

    def close(self, level: int, parent: Expr) -> list[Stmt]:
        above = max((n for n in self.sparse if n < level), default=None)
        code = super().close(level, parent)
        if self.limit is not None:
            code = [If(compare("<", parent, self.limit), block(*code))]
        # What is right below a position is closed when that is kept.
        return code if above is None or above + 1 == level else self._within(above, code)

    def _within(self, level: int, code: list[Stmt]) -> list[Stmt]:
        """`code` at a position that was entered: if it is not kept, it may be another piece's."""
        end = Load(first_of(level), PIECE + 1)
        return [If(compare("<", self.count(level), end), block(*code))] if code else []

    def carry(self, rows: Rows) -> list[Stmt]:
        """Close the runs that a piece has never visited."""
        at, code = Name("R_at"), list[Stmt]()
        for level in sorted(self.gaps):
            last = Name(f"R{level + 1}_last")
            above = max((n for n in self.sparse if n < level), default=None)
            parents = rows
            if above is not None:
                begin = _first(above)
                parents = begin * self.per(above), self.count(above) * self.per(above)
            for fact in self.facts(level, "parent"):
                array = self.array(level, fact)
                known = Set(last, arithmetic("max", last, Load(array, at + 1)))
                body = block(known, Store(array, at + 1, last))
                loop = For(at, *parents, body, "unvisited runs")
                code += [Declare(last, _first(level)), loop]
        return code


def _first(level: int) -> Load:
    return Load(first_of(level), PIECE)


@dataclass
class Owning(PieceAppender):
    """Entries are appended to arrays of the piece alone, which number them from zero.

    A thread uses them again for its next piece if it can put the last one into place at once. That
    is when all pieces before are counted, and while the piece is still in the cache. Where the next
    one will begin is then known roughly, if pieces are alike: its place is asked for as it grows,
    for else the copy would take most of its time to wait for memory.
    """

    asks: bool = False  # for the place of the piece, whenever a run of the last level ends

    def room(self, level: int) -> Name:
        return Name(f"{OWN}{level + 1}_room")

    def array(self, level: int, fact: ArrayFact) -> Array:
        """The runs of coordinates that all are there belong to the result from the start."""
        if self.is_shared(level, fact):
            return super().array(level, fact)
        return self.names.array(self.result.tensor, level, fact, OWN)

    @property
    def values(self) -> Array:
        return self.names.values(self.result.tensor, OWN)

    @cached_property
    def in_result(self) -> dict[Array, Array]:
        """The array of the result in place of each that the piece has of its own."""
        result = Appender(self.result, self.names)
        levels = ((self.growing(level), result.growing(level)) for level in self.sparse)
        pairs = (pair for own, whole in levels for pair in zip(own, whole, strict=True))
        return {own.array: whole.array for own, whole in pairs}

    def is_shared(self, level: int, fact: ArrayFact) -> bool:
        """Whether an array is the result's own, and every piece has a part of it."""
        return fact.per == "parent" and level == self.sparse[0]

    def setup(self) -> list[Stmt]:
        """The arrays of a thread, empty at first."""
        code: list[Stmt] = [Declare(self.room(level), Value(0)) for level in self.sparse]
        if self.asks and self.copies:
            first = ((_PLACED, Value(0)), (_END, Value(0)), (_EACH, ROOM / PIECES))
            code += [Declare(name, value) for name, value in first]
        return [*code, *(Allocate(array, Value(0)) for array in self.arrays)]

    def cleanup(self) -> list[Stmt]:
        """Give the arrays of a thread back."""
        return [Free(array) for array in self.arrays]

    def start(self, pieces: Expr) -> list[Stmt]:
        """Memory for a piece, one of so many."""
        code: list[Stmt] = []
        for level in self.sparse:
            code += self.reserve(level, ROOM / pieces + 1)
        for level in self.sparse[1:]:
            code += [
                Store(self.array(level, fact), Value(0), Value(0))
                for fact in self.facts(level, "parent")
            ]
        if self.asks:
            nowhere = super().room(self.sparse[-1])
            guess = _END + (PIECE - _PLACED) * _EACH if self.copies else nowhere
            code.append(Declare(_SOON, guess, fixed=True))
        return code

    @property
    def copies(self) -> bool:
        """Whether pieces may be put into place at once, and others use their arrays again."""
        growing = (growing for level in self.sparse for growing in self.growing(level))
        return not any(each.zeroed for each in growing)  # a piece may need arrays of zeros

    def close(self, level: int, parent: Expr) -> list[Stmt]:
        code = super().close(level, parent)
        if level != self.sparse[-1] or level == 0 or not self.copies:
            return code
        self.asks = True  # even if it turns out later that nothing can be put into place at once
        there = _SOON + self.count(level)
        soon = [
            Prefetch(
                self.in_result[growing.array],
                there * growing.per,
                max(1, np.dtype(growing.array.type).itemsize // _ENTRY),
                written=True,
            )
            for growing in self.growing(level)
        ]
        return [*code, If(compare("<", there, super().room(level)), block(*soon))]

    @property
    def arrays(self) -> list[Array]:
        """The arrays that grow with the piece."""
        return [growing.array for level in self.sparse for growing in self.growing(level)]

    def place(self, result: Appender, rows: Rows) -> list[Stmt]:
        """Copy a piece to its place in `result` if that is known and has room, else shelve it.

        A result of a single piece has no room: it gets the arrays of the piece.
        """
        shelve: list[Stmt] = [Put(array, PIECE) for array in self.arrays]
        shelve += [Set(self.room(level), Value(0)) for level in self.sparse]
        turn = Helper("in_turn", (TURNS, PIECE, *(first_of(level) for level in self.sparse)))
        known = Name("R_known")
        ready = compare("<", 0, known)
        fits = [
            compare("<", Load(first_of(level), PIECE + 1), result.room(level))
            for level in self.sparse
        ]
        if not self.copies:
            return [Do(turn), *shelve]
        place = [*self.shifted(rows), Store(TURNS, PIECE, Value(0))]
        if self.asks:
            last = self.sparse[-1]
            end = Load(first_of(last), PIECE + 1)
            place += [Set(_PLACED, PIECE + 1), Set(_END, end), Set(_EACH, self.count(last))]
        for condition in fits:
            ready = compare("&&", ready, condition)
        return [Declare(known, turn, fixed=True), If(ready, block(*place), block(*shelve))]

    def shifted(self, rows: Rows) -> list[Stmt]:
        """Copy a piece to where it begins in the result, its positions counted from there."""
        code: list[Stmt] = []
        first = self.sparse[0]
        if first > 0:
            for fact in self.facts(first, "parent"):
                shared = self.array(first, fact)
                code += self._moved(first, shared, shared, Value(0), rows)
        for level in self.sparse:
            begin, count = _first(level), Load(first_of(level), PIECE + 1) - _first(level)
            below = self.below(level)
            for growing in self.growing(level):
                array, per = growing.array, growing.per
                if below is not None and growing.extra:
                    span = Value(0), count * per
                    code += self._moved(below, array, self.in_result[array], begin * per, span)
                    continue
                copy = Helper("put_at", (self.in_result[array], begin * per, array, count * per))
                code.append(Do(copy))
        return code

    def _moved(self, level: int, array: Array, to: Array, begin: Expr, span: Rows) -> list[Stmt]:
        """Positions in `array`, all by as much as pieces before have entries in `level`."""
        at, last, shift = Name("R_at"), Name(f"R{level + 1}_last"), _first(level)
        if level not in self.gaps:
            store = Store(to, begin + at + 1, Load(array, at + 1) + shift)
            return [For(at, *span, block(store), simd=True)]
        known = Set(last, arithmetic("max", last, Load(array, at + 1) + shift))
        loop = For(at, *span, block(known, Store(to, begin + at + 1, last)), "unvisited runs")
        return [Declare(last, shift), loop]
