"""Sparse results in pieces on a GPU: units of threads count the pieces, and fill them in place.

There are as many pieces as the outermost loop has values, or stored coordinates where an operand
has few: a row of a matrix, say. What each has is added up in between, and the host learns the sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from openwork.errors import InternalError
from openwork.loops.nodes import Forall, OutputRaceStrategy, ParallelUnit, Tag
from openwork.loops.result import Append
from openwork.program.context import Context
from openwork.program.cut import Cut
from openwork.program.device import Ask, ByOne, Scan
from openwork.program.device_cuts import RowCut, ShareCut
from openwork.program.header import Header
from openwork.program.nodes import (
    Allocate,
    Array,
    Declare,
    Do,
    For,
    Helper,
    If,
    Load,
    Name,
    Stmt,
    Value,
    arithmetic,
    block,
    compare,
)
from openwork.program.passes import PIECE, PIECES, Pass, Rows, first_of
from openwork.program.pieces import Lower, Pieces
from openwork.program.scope import Range, Scope
from openwork.program.tables import FAR, Table, tables_of
from openwork.program.units import MOST_SHARED
from openwork.tree import Node, bottom_up

N = TypeVar("N", bound=Node)

_THREADS = 64  # of a block
_RUN = Name("piece_run")  # the pieces of a block
_FAR_THREADS = 256  # of a block that takes a piece by itself
_LIST, _TALLY = Array("pieces_far", "int64"), Array("pieces_far_tally", "int32")
_MANY, _AT = Name("far_pieces"), Name("far_piece")
Before = Callable[[], list[Stmt]]
After = Callable[[Rows], list[Stmt]]


@dataclass(frozen=True)
class DevicePieces(Pieces):
    """The assembly of one result by the units of a GPU."""

    @property
    def _lanes(self) -> int:
        assembly = self.ctx.plan.assembly
        return assembly.lanes if isinstance(assembly, Append) else 1

    @property
    def _each(self) -> int:
        """Pieces that a block takes at once, whose tables are to fit its shared memory."""
        tables = [table.near_bytes for table in self._tables]
        return max(1, min(_THREADS // self._lanes, MOST_SHARED // max([*tables, 1])))

    def _cut(self, loop: Forall, whole: Range) -> RowCut:
        assembly = self.ctx.plan.assembly
        if isinstance(assembly, Append) and assembly.share:
            return ShareCut(self.ctx, loop, whole, assembly.share)
        return RowCut(self.ctx, loop, whole)

    def _number(self, cut: Cut, counts: bool) -> list[Stmt]:
        if not isinstance(cut, RowCut):
            raise InternalError("pieces for a GPU are cut otherwise")
        return [Declare(PIECES, arithmetic("max", cut.most, Value(1)), fixed=True)]

    def _firsts(self) -> list[Stmt]:
        return [Allocate(first_of(level), PIECES + 1, zeroed=True) for level in self.result.sparse]

    def _over(
        self,
        appender: Pass,
        cut: Cut,
        scope: Scope,
        comment: str,
        before: Before,
        after: After,
    ) -> Stmt:
        """All pieces; then those with a row that is too long for a near table, by whole blocks."""
        counting = self.ctx.counting

        def start() -> list[Stmt]:
            flag = [Declare(FAR, Value(False, "bool"))] if self._tables else []
            return [*flag, *before()]

        def end(rows: Rows) -> list[Stmt]:
            listed = Do(Helper("append", (_LIST, _TALLY, PIECE)))
            noted = If(FAR, block(ByOne(block(listed))))
            return [*after(rows), *([noted] if self._tables and counting else [])]

        near = super()._over(appender, cut, scope, comment, start, end)
        tables = self._tables
        if not tables:
            return near
        where = tables[0].tables
        lanes, where.near, where.lanes = where.lanes, False, _FAR_THREADS
        far = super()._over(appender, cut, scope, f"{comment}, if it is long", before, after)
        where.near, where.lanes = True, lanes
        some = If(compare("<", 0, _MANY), block(far))
        if not counting:
            return block(near, some)
        memory: list[Stmt] = [
            Allocate(_LIST, PIECES),
            Allocate(_TALLY, Value(1), zeroed=True),
            *(Allocate(table.needs, Value(1), zeroed=True) for table in tables),
        ]
        learnt: list[Stmt] = [Ask(_MANY, _TALLY, Value(0))]
        for table in tables:
            learnt.append(Ask(table.most, table.needs, Value(0)))
            learnt.append(Declare(table.room, Helper("table_slots", (table.most,)), fixed=True))
        return block(*memory, near, *learnt, some)

    @property
    def _tables(self) -> list[Table]:
        return tables_of(self.ctx.workspaces)

    @property
    def _is_far(self) -> bool:
        return any(not table.tables.near for table in self._tables)

    def _header(self, loop: Forall, scope: Scope) -> Header:
        if self._is_far:
            tag = Tag(ParallelUnit.GPUBlock, OutputRaceStrategy.NoRaces)
            return Header.of(self.ctx, replace(loop, tag=tag), _AT, Range(Value(0), _MANY), scope)
        unit = ParallelUnit.GPUThread if self._lanes == 1 else ParallelUnit.GPUWarp
        tag = Tag(unit, OutputRaceStrategy.NoRaces)
        first = _RUN * self._each
        pieces = Range(first, arithmetic("min", first + self._each, PIECES), most=self._each)
        return Header.of(self.ctx, replace(loop, tag=tag), PIECE, pieces, scope)

    def _shared(self, loop: For) -> Stmt:
        if self._is_far:
            known = Declare(PIECE, Load(_LIST, _AT), fixed=True)
            body = block(known, _shared_by(_FAR_THREADS, loop.body))
            return replace(loop, body=body, unroll=0)
        runs = (PIECES + (self._each - 1)) / self._each
        inner = replace(loop, comment="", unroll=0, body=_shared_by(self._lanes, loop.body))
        return For(_RUN, Value(0), runs, block(inner), loop.comment, unit="block")

    def _sums(self) -> list[Stmt]:
        result, code = self.result, list[Stmt]()
        for level in result.sparse:
            firsts = first_of(level)
            known = Ask(result.count(level), firsts, PIECES)
            code += [Scan(firsts), known]
        return [*code, *result.check_counts()]


def _shared_by(lanes: int, node: N) -> N:
    """Loops for threads have so many of them."""

    def rule(n: Node) -> Node | None:
        return replace(n, units=lanes) if isinstance(n, For) and n.unit == "thread" else None

    return cast(N, bottom_up(rule)(node))


def pieces_of(ctx: Context, lower: Lower) -> Pieces:
    """Pieces as the plan wants them."""
    assembly = ctx.plan.assembly
    on_gpu = isinstance(assembly, Append) and assembly.lanes > 0
    return (DevicePieces if on_gpu else Pieces)(ctx, lower)
