"""Segment sums in registers: an entry of the result is written when its segment ends."""

from __future__ import annotations

from collections.abc import Callable

from openwork.errors import InternalError
from openwork.format.formats import dense
from openwork.frozen import frozen
from openwork.index.nodes import Access, IndexVar, TensorVar
from openwork.loops.nodes import Assign, Forall, Stmt
from openwork.program import nodes as p
from openwork.program.lower.base.accumulate import update
from openwork.program.lower.base.context import Context
from openwork.program.lower.base.nodes import At
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.derived.driver import Driver
from openwork.program.nodes import Declare, Name, Value, block
from openwork.tree import replace

_MOST_HELD = 32  # sums that stay in registers together

Lower = Callable[[Stmt, Scope], p.Block]


@frozen
class SegmentSum:
    """A sum kept in `total` while `original` would update one entry; `body` adds to the sum.

    `tile`: one sum for each value of this variable, which has so many, in an unrolled loop.
    """

    original: Assign
    total: Access
    body: Assign
    tile: tuple[IndexVar, int] | None = None

    def start(self, ctx: Context, scope: Scope) -> tuple[list[p.Stmt], Scope]:
        """Declare the sum, before the first segment."""
        base = f"{ctx.names.of(self.original.lhs.tensor)}_sum"
        type = self.total.dtype.name
        name, scope = scope.fresh(base, type, lasting=True)
        if self.tile is None:
            scope = scope.accumulate(self.total, name)
            return [Declare(name, Value(self.total.tensor.fill, type))], scope
        at, scope = scope.fresh(f"{ctx.names.variables[self.tile[0]]}_at", lasting=True)
        scope = scope.accumulate(self.total, p.Load(p.Array(name.name, type), at))
        return [p.Local(p.Array(name.name, type), self.tile[1]), self.restart(scope)], scope

    def restart(self, scope: Scope) -> p.Stmt:
        """Reset the sum, before the next segment."""
        place = scope.accumulators[self.total]
        nothing = Value(self.total.tensor.fill, self.total.dtype.name)
        return self._written_out(block(update(place, nothing, None)), scope)

    def each(self, lower: Lower, body: Stmt, scope: Scope) -> p.Block:
        """The body for every column of the tile."""
        if self.tile is None:
            return lower(body, scope)
        place = scope.accumulators[self.total]
        if not isinstance(place, p.Load):
            raise InternalError("a tile without a place")
        inner = lower(At(self.tile[0], body, value=place.index), scope)
        return block(self._written_out(inner, scope))

    def _written_out(self, body: p.Block, scope: Scope) -> p.Stmt:
        place = scope.accumulators[self.total]
        if self.tile is None or not isinstance(place, p.Load) or not isinstance(place.index, Name):
            return body
        return p.For(place.index, Value(0), Value(self.tile[1]), body, unrolled=True)


def segment_sum(ctx: Context, body: Stmt, driver: Driver, scope: Scope) -> SegmentSum | None:
    """The sum that can stay in a register while the parents do not change."""
    tile, body = tile_of(ctx, body)
    if not isinstance(body, Assign) or body.op is None or len(driver.variables) < 2:
        return None
    if any(not kind.unique for kind in driver.kinds[:-1]):
        return None  # another position may have the same parents
    lhs = body.lhs
    if lhs in scope.accumulators or ctx.lists(lhs) or driver.variables[-1] in lhs.vars:
        return None
    known = {*driver.variables[:-1], *scope.coords}
    if tile is not None:
        known = {*ctx.provenance.recoverable({*known, tile[0]})}
    if not set(lhs.vars) <= known or not set(lhs.vars) & set(driver.variables):
        return None
    dtype = lhs.dtype
    total = TensorVar(f"{lhs.tensor.name} sum", dense(0), dtype, body.op.identity_of(dtype))
    access = Access(total, ())
    return SegmentSum(body, access, replace(body, lhs=access), tile)


def tile_of(ctx: Context, body: Stmt) -> tuple[tuple[IndexVar, int] | None, Stmt]:
    """The variable and width of `body` if it is an unrolled loop, and the statement inside."""
    if not isinstance(body, Forall) or body.tag is not None or body.unroll is None:
        return None, body
    width = ctx.names.extent(body.var)
    if not isinstance(width, Value) or int(width.value.real) > _MOST_HELD:
        return None, body
    return (body.var, int(width.value.real)), body.body
