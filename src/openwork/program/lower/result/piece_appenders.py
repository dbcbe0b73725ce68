"""Appenders for a piece of a result: one counts, one fills in place, one has private arrays.

Their counters are those of the piece, `own2` and so on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from openwork.algebra.types import size_of
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

OWN = "own"  # the prefix of a piece's arrays, in place of the result's
PIECE, PIECES = Name("piece"), Name("pieces")
# Bits per piece: 1 when all before it are counted, 2 when it is counted; 0 once it is in place.
TURNS = Array("R_turns", "int64")
Rows = tuple[Expr, Expr]  # the parents of the outermost sparse level that belong to a piece


# Of the last piece that a thread copied: the number of its successor, where that begins, and how
# many entries it had; and where the current piece will begin if all have as many.
_PLACED, _END, _EACH = Name("own_placed"), Name("own_end"), Name("own_each")
_SOON = Name("own_soon")
_ENTRY = 4  # one cache line is prefetched per so many bytes of an entry, at the end of each segment


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
        """Declare the counters, which start at `firsts`."""
        counters = [
            Declare(self.count(level), first)
            for level, first in zip(self.sparse, firsts, strict=True)
        ]
        return [*counters, *self.begin_rows()]


@dataclass
class Counting(PieceAppender):
    """Counts entries, and stores nothing."""

    counts: ClassVar[bool] = True

    def reserve(self, level: int, more: Expr) -> list[Stmt]:
        return []

    def enter(self, level: int) -> list[Stmt]:
        return []

    def commit(
        self,
        level: int,
        coordinate: Expr,
        parent: Expr | None,
        start: Name | None,
        position: Expr,
    ) -> list[Stmt]:
        count, below = self.count(level), self.below(level)
        keep: list[Stmt] = [Set(count, position + 1)]
        if below is None or start is None:
            return keep
        if level in self.resumed:
            keep += self.remember(level, coordinate, parent)
        return [If(compare("<", start, self.count(below)), block(*keep))]

    def close(self, level: int, parent: Expr) -> list[Stmt]:
        return []


@dataclass
class Filling(PieceAppender):
    """Stores entries in place, in arrays that are large enough.

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
        # The segment right below a position is closed when the position is kept.
        return code if above is None or above + 1 == level else self._within(above, code)

    def _within(self, level: int, code: list[Stmt]) -> list[Stmt]:
        """`code` at an entered position, if that is kept; otherwise it may be another piece's."""
        end = Load(first_of(level), PIECE + 1)
        return [If(compare("<", self.count(level), end), block(*code))] if code else []

    def carry(self, rows: Rows) -> list[Stmt]:
        """Close the segments that a piece never visits."""
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
    """Appends entries to private arrays of the piece, which count from zero.

    A thread reuses them for its next piece if it can copy the current one into the result while
    that is still in the cache: when all earlier pieces are counted. If pieces are alike, the next
    one's place can be estimated; it is prefetched as the piece grows, because the copy would
    otherwise mostly wait for memory.
    """

    asks: bool = False  # prefetches the piece's place whenever a segment of the last level ends

    def room(self, level: int) -> Name:
        return Name(f"{OWN}{level + 1}_room")

    def array(self, level: int, fact: ArrayFact) -> Array:
        """The position array of the outermost sparse level is the result's own from the start."""
        if self.is_shared(level, fact):
            return super().array(level, fact)
        return self.names.array(self.result.tensor, level, fact, OWN)

    @property
    def values(self) -> Array:
        return self.names.values(self.result.tensor, OWN)

    @cached_property
    def in_result(self) -> dict[Array, Array]:
        """The result's array for each private array of the piece."""
        result = Appender(self.result, self.names)
        levels = ((self.growing(level), result.growing(level)) for level in self.sparse)
        pairs = (pair for own, whole in levels for pair in zip(own, whole, strict=True))
        return {own.array: whole.array for own, whole in pairs}

    def is_shared(self, level: int, fact: ArrayFact) -> bool:
        """Whether an array is the result's own, of which every piece writes a part."""
        return fact.per == "parent" and level == self.sparse[0]

    def setup(self) -> list[Stmt]:
        """Declare the arrays of a thread, empty at first."""
        code: list[Stmt] = [Declare(self.room(level), Value(0)) for level in self.sparse]
        if self.asks and self.copies:
            first = ((_PLACED, Value(0)), (_END, Value(0)), (_EACH, ROOM / PIECES))
            code += [Declare(name, value) for name, value in first]
        return [*code, *(Allocate(array, Value(0)) for array in self.arrays)]

    def cleanup(self) -> list[Stmt]:
        """Free the arrays of a thread."""
        return [Free(array) for array in self.arrays]

    def start(self, pieces: Expr) -> list[Stmt]:
        """Reserve memory for one of so many pieces."""
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
        """Whether pieces may be copied early, so that later ones reuse their arrays."""
        growing = (growing for level in self.sparse for growing in self.growing(level))
        return not any(each.zeroed for each in growing)  # a piece may need zeroed arrays

    def close(self, level: int, parent: Expr) -> list[Stmt]:
        code = super().close(level, parent)
        if level != self.sparse[-1] or level == 0 or not self.copies:
            return code
        self.asks = True  # even if it turns out later that no piece can be copied early
        there = _SOON + self.count(level)
        soon = [
            Prefetch(
                self.in_result[growing.array],
                there * growing.per,
                max(1, size_of(growing.array.type) // _ENTRY),
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
        """Copy a piece to its place in `result` if that is known and has memory, else shelve it.

        A result of a single piece has no memory of its own: it takes over the piece's arrays.
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
        """Copy a piece to its place in the result, with its positions shifted by that."""
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
        """Shift the positions in `array` by the number of entries in `level` of earlier pieces."""
        at, last, shift = Name("R_at"), Name(f"R{level + 1}_last"), _first(level)
        if level not in self.gaps:
            store = Store(to, begin + at + 1, Load(array, at + 1) + shift)
            return [For(at, *span, block(store), simd=True)]
        known = Set(last, arithmetic("max", last, Load(array, at + 1) + shift))
        loop = For(at, *span, block(known, Store(to, begin + at + 1, last)), "unvisited runs")
        return [Declare(last, shift), loop]
