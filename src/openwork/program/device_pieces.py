"""Sparse results in pieces on a GPU: units of threads count the pieces, and fill them in place.

There are as many pieces as the outermost loop has values, or stored coordinates where an operand
has few: a row of a matrix, say. What each has is added up in between, and the host learns the sum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from openwork.loops.nodes import Forall, OutputRaceStrategy, ParallelUnit, Tag
from openwork.loops.result import Append
from openwork.program.context import Context
from openwork.program.cut import Cut
from openwork.program.device import Scan
from openwork.program.header import Header
from openwork.program.nodes import (
    Allocate,
    Declare,
    Expr,
    For,
    Load,
    Name,
    Stmt,
    Value,
    arithmetic,
    block,
)
from openwork.program.passes import PIECE, PIECES, first_of
from openwork.program.pieces import Lower, Pieces
from openwork.program.scope import Range, Scope

_THREADS = 128  # of a block
_RUN = Name("piece_run")  # the pieces of a block


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
class DevicePieces(Pieces):
    """The assembly of one result by the units of a GPU."""

    @property
    def _lanes(self) -> int:
        assembly = self.ctx.plan.assembly
        return assembly.lanes if isinstance(assembly, Append) else 1

    @property
    def _each(self) -> int:
        """Pieces that a block takes at once."""
        return max(1, _THREADS // self._lanes)

    def _cut(self, loop: Forall, whole: Range) -> RowCut:
        return RowCut(self.ctx, loop, whole)

    def _most(self, cut: Cut) -> Expr:
        return cut.most if isinstance(cut, RowCut) else super()._most(cut)

    def _firsts(self) -> list[Stmt]:
        return [Allocate(first_of(level), PIECES + 1, zeroed=True) for level in self.result.sparse]

    def _header(self, loop: Forall, scope: Scope) -> Header:
        unit = ParallelUnit.GPUThread if self._lanes == 1 else ParallelUnit.GPUWarp
        tag = Tag(unit, OutputRaceStrategy.NoRaces)
        first = _RUN * self._each
        pieces = Range(first, arithmetic("min", first + self._each, PIECES), most=self._each)
        return Header.of(self.ctx, replace(loop, tag=tag), PIECE, pieces, scope)

    def _shared(self, loop: For) -> Stmt:
        runs = (PIECES + (self._each - 1)) / self._each
        inner = replace(loop, comment="", unroll=0)
        return For(_RUN, Value(0), runs, block(inner), loop.comment, unit="block")

    def _sums(self) -> list[Stmt]:
        result, code = self.result, list[Stmt]()
        for level in result.sparse:
            firsts = first_of(level)
            known = Declare(result.count(level), Load(firsts, PIECES), fixed=True)
            code += [Scan(firsts), known]
        return [*code, *result.check_counts()]


def pieces_of(ctx: Context, lower: Lower) -> Pieces:
    """Pieces as the plan wants them."""
    assembly = ctx.plan.assembly
    on_gpu = isinstance(assembly, Append) and assembly.lanes > 0
    return (DevicePieces if on_gpu else Pieces)(ctx, lower)
