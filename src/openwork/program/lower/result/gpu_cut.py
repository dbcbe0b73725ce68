"""The partition of a sparse result on a GPU: by rows, or merge path with equal work per piece.

Rows differ in length, and a thread with a long row keeps the others waiting. So pieces may be cut
along the merge path: every piece covers equally many rows and operand entries. A cut is a row and
a column, before which it lies. Each piece then merges its part of the operands.
"""

from __future__ import annotations

from openwork.errors import InternalError
from openwork.frozen import frozen
from openwork.index.nodes import Access, IndexVar
from openwork.loops.nodes import Forall
from openwork.loops.plan.pieces import measured
from openwork.program.lower.base.append import Appender
from openwork.program.lower.base.ranges import Range, Seam
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.result.cut import Cut
from openwork.program.lower.result.piece_appenders import PIECE, PIECES, Rows
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
    Role,
    Set,
    Stmt,
    Store,
    Value,
    While,
    arithmetic,
    block,
    compare,
)

_ROW, _COLUMN = (Array(f"piece_{name}_cuts", "int64", Role.CUT) for name in ("row", "column"))
_CUT, _GOAL, _AT, _PAST = Name("cut"), Name("cut_goal"), Name("cut_row"), Name("cut_past")
_REST, _FOUND, _MIDDLE = Name("cut_rest"), Name("cut_column"), Name("cut_middle")
_MINE, _MOST, _THEIRS = Name("cut_mine"), Name("cut_most"), Name("cut_theirs")


@frozen
class RowCut(Cut):
    """Pieces of one row each, or of one stored row if an operand is sparse."""

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
        """The number of pieces."""
        if self.sparse is None:
            return self.whole.size
        return arithmetic("min", self.whole.size, self.ctx.positions(self.sparse, 0))


@frozen
class ShareCut(RowCut):
    """Pieces of `share` rows and entries in total: a merge path."""

    share: int = 1

    @property
    def _column(self) -> IndexVar:
        if not isinstance(self.loop.body, Forall):
            raise InternalError("rows without columns are not shared")
        return self.loop.body.var

    @property
    def _operands(self) -> list[Access]:
        """The one or two operands whose entries are counted; more than two are not balanced."""
        return measured(self.loop)[:2]

    @property
    def _places(self) -> list[Array]:
        """The position of each of them at each cut."""
        names = [self.ctx.names.of(access.tensor) for access in self._operands]
        return [Array(f"piece_{n}_{name}_cuts", "int64", Role.CUT) for n, name in enumerate(names)]

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
        places = {
            access: (Load(at, PIECE), Load(at, PIECE + 1))
            for access, at in zip(self._operands, self._places, strict=True)
        }
        seam = Seam(self.loop.var, first, last, self.ctx.names.extent(self._column), places)
        return super().confine(scope, window).stretch(self._column, seam)

    def rows(self, window: Range, result: Appender) -> Rows:
        return window.lo, self.limit

    # -- the cuts -------------------------------------------------------------------------------

    def prepare(self) -> list[Stmt]:
        """The row and the column of each cut, by binary search, in a separate kernel."""
        end = self.whole.hi
        nearer = If(
            compare("<=", self._before(_MIDDLE), _GOAL),
            block(Set(_AT, _MIDDLE)),
            block(Set(_PAST, _MIDDLE)),
        )
        halved = Declare(_MIDDLE, _AT + (_PAST - _AT) / 2, fixed=True)
        within = Binary("&&", compare("<", 1, _REST), compare("<", _AT, end))
        begins = [Name(f"{at.name}_at") for at in self._places]
        body = block(
            Declare(_GOAL, _CUT * self.share, fixed=True),
            Declare(_AT, Value(0)),
            Declare(_PAST, end + 1),
            While(compare("<", _AT + 1, _PAST), block(halved, nearer)),
            Declare(_REST, _GOAL - self._before(_AT), fixed=True),
            Declare(_FOUND, Value(0)),
            *(
                Declare(begin, Load(self.ctx.boundaries(access, 1), _AT))
                for access, begin in zip(self._operands, begins, strict=True)
            ),
            If(within, block(*self._within_row(begins))),
            Store(_ROW, _CUT, _AT),
            Store(_COLUMN, _CUT, _FOUND),
            *(Store(at, _CUT, begin) for at, begin in zip(self._places, begins, strict=True)),
        )
        return [
            *(Allocate(made, PIECES + 1) for made in (_ROW, _COLUMN, *self._places)),
            For(_CUT, Value(0), PIECES + 1, body, "where pieces begin", simd=True),
        ]

    def _before(self, row: Name) -> Expr:
        """The rows before `row`, plus the entries in them."""
        work: Expr = row
        for access in self._operands:
            work = work + Load(self.ctx.boundaries(access, 1), row)
        return work

    def _within_row(self, begins: list[Name]) -> list[Stmt]:
        """Advance from the beginning of the row past `_REST - 1` entries; equal ones stay together.

        For two sorted segments, a binary search finds how many entries come from the first: as long
        as its next entry is before the other's last. The cut is at the next column of both.
        """
        entries = _REST - 1
        one, *others = begins
        if not others:
            return [Set(one, one + entries), Set(_FOUND, self._coordinate(0, one))]
        other = others[0]
        ends = [Load(self.ctx.boundaries(access, 1), _AT + 1) for access in self._operands]
        ahead = compare(
            "<",
            self._coordinate(0, one + _MIDDLE),
            self._coordinate(1, other + (entries - _MIDDLE - 1)),
        )
        step = If(ahead, block(Set(_MINE, _MIDDLE + 1)), block(Set(_MOST, _MIDDLE)))
        halved = Declare(_MIDDLE, _MINE + (_MOST - _MINE) / 2, fixed=True)
        sooner = arithmetic("min", _FOUND, self._coordinate(1, other))
        again = compare("==", self._coordinate(1, other - 1), _FOUND)
        return [
            Declare(_MINE, arithmetic("max", entries - (ends[1] - other), Value(0))),
            Declare(_MOST, arithmetic("min", entries, ends[0] - one)),
            While(compare("<", _MINE, _MOST), block(halved, step)),
            Declare(_THEIRS, entries - _MINE, fixed=True),
            Set(one, one + _MINE),
            Set(other, other + _THEIRS),
            Set(_FOUND, self.ctx.names.extent(self._column)),
            If(compare("<", one, ends[0]), block(Set(_FOUND, self._coordinate(0, one)))),
            If(compare("<", other, ends[1]), block(Set(_FOUND, sooner))),
            If(compare("<", 0, _THEIRS), block(If(again, block(Set(other, other - 1))))),
        ]

    def _coordinate(self, which: int, position: Expr) -> Expr:
        access = self._operands[which]
        found = access.tensor.format.levels[1].coordinate(self.ctx.view(access, 1), _AT, position)
        if not isinstance(found, Expr):
            raise InternalError(f"{access} has no coordinates")
        return found
