"""Where a result is cut into pieces on a GPU: between rows, or so that all have equally much to do.

Rows differ, and a thread that has a long one keeps all others waiting. So the pairs of a row and a
column may be cut where so many entries of operands lie between two cuts, counted along the rows. A
cut is a row and a column, before which it lies. Each piece then merges its part of what is merged.
"""

from __future__ import annotations

from dataclasses import dataclass

from openwork.errors import InternalError
from openwork.index.nodes import Access, IndexVar
from openwork.loops.nodes import Forall
from openwork.loops.shares import measured
from openwork.program.assemble import Appender
from openwork.program.cut import Cut
from openwork.program.nodes import (
    Allocate,
    Array,
    Binary,
    Declare,
    Expr,
    For,
    If,
    Load,
    Name,
    Set,
    Stmt,
    Store,
    Value,
    While,
    arithmetic,
    block,
    compare,
)
from openwork.program.passes import PIECE, PIECES, Rows
from openwork.program.scope import Range, Scope, Seam

_ROW, _COLUMN = Array("piece_row_cuts", "int64"), Array("piece_column_cuts", "int64")
_CUT, _GOAL, _AT, _PAST = Name("cut"), Name("cut_goal"), Name("cut_row"), Name("cut_past")
_REST, _FOUND, _MIDDLE = Name("cut_rest"), Name("cut_column"), Name("cut_middle")
_MINE, _MOST, _THEIRS = Name("cut_mine"), Name("cut_most"), Name("cut_theirs")


@dataclass(frozen=True)
class RowCut(Cut):
    """Pieces of one value each, unless an operand has but some of them."""

    def window(self, scope: Scope) -> tuple[list[Stmt], Range, Scope]:
        if self.sparse is not None:
            return super().window(scope)
        lo, scope = scope.fresh("piece_lo")
        hi, scope = scope.fresh("piece_hi")
        ends: list[Stmt] = [
            Declare(lo, self.whole.lo + PIECE, fixed=True),
            Declare(hi, arithmetic("min", lo + 1, self.whole.hi), fixed=True),  # there may be none
        ]
        return ends, Range(lo, hi), scope

    @property
    def most(self) -> Expr:
        """How many pieces there are."""
        if self.sparse is None:
            return self.whole.size
        return arithmetic("min", self.whole.size, self.ctx.positions(self.sparse, 0))


@dataclass(frozen=True)
class ShareCut(RowCut):
    """Pieces of `share` rows and entries, together."""

    share: int = 1

    @property
    def _column(self) -> IndexVar:
        if not isinstance(self.loop.body, Forall):
            raise InternalError("rows without columns are not shared")
        return self.loop.body.var

    @property
    def _operands(self) -> list[Access]:
        """The two operands whose entries are counted, or the one; more would go along."""
        return measured(self.loop)[:2]

    @property
    def most(self) -> Expr:
        work = self.whole.size
        for access in self._operands:
            work = work + self.ctx.positions(access, 1)
        return (work + (self.share - 1)) / self.share

    @property
    def limit(self) -> Expr:
        return Load(_ROW, PIECE + 1)

    def window(self, scope: Scope) -> tuple[list[Stmt], Range, Scope]:
        lo, scope = scope.fresh("piece_lo")
        hi, scope = scope.fresh("piece_hi")
        partly = compare("<", 0, Load(_COLUMN, PIECE + 1))  # in the row where the piece ends
        ends: list[Stmt] = [
            Declare(lo, Load(_ROW, PIECE), fixed=True),
            Declare(hi, self.limit + partly, fixed=True),
        ]
        return ends, Range(lo, hi), scope

    def confine(self, scope: Scope, window: Range) -> Scope:
        first = Load(_ROW, PIECE), Load(_COLUMN, PIECE)
        last = self.limit, Load(_COLUMN, PIECE + 1)
        seam = Seam(self.loop.var, first, last, self.ctx.names.extent(self._column))
        return super().confine(scope, window).stretch(self._column, seam)

    def rows(self, window: Range, result: Appender) -> Rows:
        return window.lo, self.limit

    # -- the cuts -------------------------------------------------------------------------------

    def prepare(self) -> list[Stmt]:
        """The row and the column of each cut, by bisection: a kernel of its own."""
        end = self.whole.hi
        nearer = If(
            compare("<=", self._before(_MIDDLE), _GOAL),
            block(Set(_AT, _MIDDLE)),
            block(Set(_PAST, _MIDDLE)),
        )
        halved = Declare(_MIDDLE, _AT + (_PAST - _AT) / 2, fixed=True)
        within = Binary("&&", compare("<", 1, _REST), compare("<", _AT, end))
        body = block(
            Declare(_GOAL, _CUT * self.share, fixed=True),
            Declare(_AT, Value(0)),
            Declare(_PAST, end + 1),
            While(compare("<", _AT + 1, _PAST), block(halved, nearer)),
            Declare(_REST, _GOAL - self._before(_AT), fixed=True),
            Declare(_FOUND, Value(0)),
            If(within, block(*self._within_row())),
            Store(_ROW, _CUT, _AT),
            Store(_COLUMN, _CUT, _FOUND),
        )
        return [
            Allocate(_ROW, PIECES + 1),
            Allocate(_COLUMN, PIECES + 1),
            For(_CUT, Value(0), PIECES + 1, body, "where pieces begin", simd=True),
        ]

    def _before(self, row: Name) -> Expr:
        """Rows before `row`, and entries in them."""
        work: Expr = row
        for access in self._operands:
            work = work + Load(self.ctx.boundaries(access, 1), row)
        return work

    def _within_row(self) -> list[Stmt]:
        """The column that has `_REST - 1` entries of the row before it; equal ones come after."""
        code: list[Stmt] = []
        begins: list[Name] = []
        lengths: list[Name] = []
        for access in self._operands:
            name = self.ctx.names.of(access.tensor)
            begin, length = Name(f"cut_{name}"), Name(f"cut_{name}_length")
            pos = self.ctx.boundaries(access, 1)
            code += [
                Declare(begin, Load(pos, _AT), fixed=True),
                Declare(length, Load(pos, _AT + 1) - begin, fixed=True),
            ]
            begins.append(begin)
            lengths.append(length)
        if len(begins) == 1:
            return [*code, Set(_FOUND, self._coordinate(0, begins[0] + (_REST - 1)))]
        entries = _REST - 1
        ours = self._coordinate(0, begins[0] + _MIDDLE)
        other = self._coordinate(1, begins[1] + (entries - _MIDDLE - 1))
        step = If(
            compare("<", ours, other), block(Set(_MINE, _MIDDLE + 1)), block(Set(_MOST, _MIDDLE))
        )
        halved = Declare(_MIDDLE, _MINE + (_MOST - _MINE) / 2, fixed=True)
        next_mine = self._coordinate(0, begins[0] + _MINE)
        next_theirs = self._coordinate(1, begins[1] + _THEIRS)
        sooner = Set(_FOUND, arithmetic("min", _FOUND, next_theirs))
        return [
            *code,
            Declare(_MINE, arithmetic("max", entries - lengths[1], Value(0))),
            Declare(_MOST, arithmetic("min", entries, lengths[0])),
            While(compare("<", _MINE, _MOST), block(halved, step)),
            Declare(_THEIRS, entries - _MINE, fixed=True),
            Set(_FOUND, self.ctx.names.extent(self._column)),
            If(compare("<", _MINE, lengths[0]), block(Set(_FOUND, next_mine))),
            If(compare("<", _THEIRS, lengths[1]), block(sooner)),
        ]

    def _coordinate(self, which: int, position: Expr) -> Expr:
        access = self._operands[which]
        found = access.tensor.format.levels[1].coordinate(self.ctx.view(access, 1), _AT, position)
        if not isinstance(found, Expr):
            raise InternalError(f"{access} has no coordinates")
        return found
