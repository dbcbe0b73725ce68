"""Sparse results in pieces on a GPU: units of threads count the pieces, then fill them in place.

A piece is one value of the outermost loop, or one stored coordinate where an operand is sparse: a
row of a matrix, for example. A prefix sum over the counts comes in between, and the host reads the
total.
"""

from __future__ import annotations

from collections.abc import Callable

from openwork.errors import InternalError
from openwork.frozen import frozen
from openwork.loops.nodes import Forall, OutputRaceStrategy, ParallelUnit, Tag
from openwork.loops.plan.assembly import Append
from openwork.program.gpu_nodes import MOST_SHARED, Address, Ask, ByOne, Scan
from openwork.program.lower.base.header import Header
from openwork.program.lower.base.ranges import Count, Range
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.derived.recovery import Recovery
from openwork.program.lower.result.cut import Cut
from openwork.program.lower.result.gpu_cut import RowCut, ShareCut
from openwork.program.lower.result.gpu_sharing import shared_by
from openwork.program.lower.result.gpu_table import (
    FAR,
    LONG,
    MOST_KEYS,
    MOST_SLOTS,
    NEAR,
    NOTED,
    TIER,
    Table,
    tables_of,
)
from openwork.program.lower.result.piece_appenders import (
    PIECE,
    PIECES,
    PieceAppender,
    Rows,
    first_of,
)
from openwork.program.lower.result.pieces import Lower, Pieces
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
    Role,
    Stmt,
    Unit,
    Value,
    arithmetic,
    block,
    compare,
)
from openwork.tree import replace

_THREADS = 64  # per block
_RUN = Name("piece_run")  # the pieces of a block
_AT = Name("piece_at")  # the index within the pieces of a tier
_WORDS = {LONG: "long", FAR: "far"}
Before = Callable[[], list[Stmt]]
After = Callable[[Rows], list[Stmt]]


@frozen
class DevicePieces(Pieces):
    """The assembly of one result by GPU units."""

    @property
    def _made(self) -> Append:
        assembly = self.ctx.plan.assembly
        if not isinstance(assembly, Append):
            raise InternalError("the result is not appended to")
        return assembly

    @property
    def _each(self) -> int:
        """Pieces per block, such that their tables fit its shared memory."""
        tables = [table.near_bytes for table in self._tables]
        return max(1, min(_THREADS // self._made.lanes, MOST_SHARED // max([*tables, 1])))

    def _cut(self, loop: Forall, whole: Range) -> RowCut:
        if self._made.share:
            return ShareCut(self.ctx, loop, whole, self._made.share)
        return RowCut(self.ctx, loop, whole)

    def _number(self, cut: Cut, counts: bool) -> list[Stmt]:
        if not isinstance(cut, RowCut):
            raise InternalError("pieces for a GPU are cut otherwise")
        return [Declare(PIECES, arithmetic("max", cut.most, Value(1)), fixed=True)]

    def _firsts(self) -> list[Stmt]:
        return [Allocate(first_of(level), PIECES + 1, zeroed=True) for level in self.result.sparse]

    def _over(
        self,
        appender: PieceAppender,
        cut: Cut,
        scope: Scope,
        comment: str,
        before: Before,
        after: After,
    ) -> Stmt:
        """All pieces; then whole blocks take those with a row that is too long for a near table."""
        counting = appender.counts

        def start() -> list[Stmt]:
            noted = self._tables and counting
            return [*([Declare(TIER, Value(NEAR))] if noted else []), *before()]

        def end(rows: Rows) -> list[Stmt]:
            return [*after(rows), *(map(_noted, _WORDS) if self._tables and counting else ())]

        made = [super()._over(appender, cut, scope, comment, start, end)]
        if not self._tables:  # which are known by now
            return made[0]
        for tier, word in _WORDS.items():
            rows = replace(appender, tier=tier)
            long = super()._over(rows, cut, scope, f"{comment} that is {word}", before, after)
            made.append(If(compare("<", 0, _count(tier)), block(long)))
        return block(*self._learnt(made)) if counting else block(*made)

    def _learnt(self, made: list[Stmt]) -> list[Stmt]:
        """The passes, and the lists of pieces that the first pass makes for the others."""
        near, *others = made
        lists: list[Stmt] = [Allocate(_list(tier), PIECES) for tier in _WORDS]
        lists.append(Allocate(NOTED, Value(1 + len(_WORDS)), zeroed=True))
        known = Ask((MOST_KEYS, *map(_count, _WORDS)), NOTED, Value(0))
        slots = Declare(MOST_SLOTS, Helper("table_slots", (MOST_KEYS,)), fixed=True)
        return [*lists, near, known, slots, *others]

    @property
    def _tables(self) -> list[Table]:
        return tables_of(self.ctx.workspaces)

    def _header(self, loop: Forall, scope: Scope) -> Header:
        if scope.tier != NEAR:
            tag = Tag(ParallelUnit.GPUBlock, OutputRaceStrategy.NoRaces)
            listed = Range(Value(0), _count(scope.tier))
            return Header.of(self.ctx, replace(loop, tag=tag), _AT, listed, scope)
        unit = ParallelUnit.GPUThread if self._made.lanes == 1 else ParallelUnit.GPUWarp
        tag = Tag(unit, OutputRaceStrategy.NoRaces)
        first = _RUN * self._each
        last = arithmetic("min", first + self._each, PIECES)
        pieces = Range(first, last, Count(most=self._each))
        return Header.of(self.ctx, replace(loop, tag=tag), PIECE, pieces, scope)

    def _shared(self, loop: For, tier: int) -> Stmt:
        if tier != NEAR:
            known = Declare(PIECE, Load(_list(tier), _AT), fixed=True)
            body = block(known, shared_by(self._made.many, loop.body))
            return replace(loop, body=body, unroll=0)
        runs = (PIECES + (self._each - 1)) / self._each
        inner = replace(loop, comment="", unroll=0, body=shared_by(self._made.lanes, loop.body))
        return For(_RUN, Value(0), runs, block(inner), loop.comment, by=Unit("block"))

    def _sums(self) -> list[Stmt]:
        result, code = self.result, list[Stmt]()
        for level in result.sparse:
            firsts = first_of(level)
            known = Ask((result.count(level),), firsts, PIECES)
            code += [Scan(firsts), known]
        return [*code, *result.check_counts()]


def _list(tier: int) -> Array:
    """The pieces of a tier, in any order."""
    return Array(f"pieces_{_WORDS[tier]}", "int64", Role.CUT)


def _count(tier: int) -> Name:
    """Their number, as read by the host."""
    return Name(f"{_WORDS[tier]}_pieces")


def _noted(tier: int) -> Stmt:
    """Append a piece to the list of its tier."""
    listed = Do(Helper("append", (_list(tier), Address(NOTED, Value(tier)), PIECE)))
    return If(compare("==", TIER, tier), block(ByOne(block(listed))))


def pieces_of(recovery: Recovery, lower: Lower) -> Pieces:
    """The assembly in pieces, on the CPU or a GPU as the plan says."""
    assembly = recovery.ctx.plan.assembly
    on_gpu = isinstance(assembly, Append) and assembly.lanes > 0
    return (DevicePieces if on_gpu else Pieces)(recovery, lower)
