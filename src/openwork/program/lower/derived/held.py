"""Sums that are held in registers while the entry they belong to stays the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from openwork.errors import InternalError
from openwork.format.formats import dense
from openwork.index.nodes import Access, IndexVar, TensorVar
from openwork.loops.nodes import Assign, Forall, Stmt
from openwork.program import nodes as p
from openwork.program.lower.base.accumulate import update
from openwork.program.lower.base.context import Context
from openwork.program.lower.base.nodes import At
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.derived.driver import Driver
from openwork.program.nodes import Declare, Name, Value, block

_MOST_HELD = 32  # sums that stay in registers together

Lower = Callable[[Stmt, Scope], p.Block]


@dataclass(frozen=True)
class Held:
    """A sum kept in `total` while `original` would add to one entry; `body` adds to the sum.

    `tile`: there is one for each value of a variable that has so many, in a loop around them.
    """

    original: Assign
    total: Access
    body: Assign
    tile: tuple[IndexVar, int] | None = None


@dataclass(frozen=True)
class Holding:
    """The lowering of what is held."""

    ctx: Context
    lower: Lower

    def held(self, body: Stmt, driver: Driver, scope: Scope) -> Held | None:
        """What can be summed up in a register while the parents stay the same."""
        tile, body = self.tile(body)
        if not isinstance(body, Assign) or body.op is None or len(driver.variables) < 2:
            return None
        if any(not kind.unique for kind in driver.kinds[:-1]):
            return None  # another position may have the same parents
        lhs = body.lhs
        if lhs in scope.accumulators or self.ctx.lists(lhs) or driver.variables[-1] in lhs.vars:
            return None
        known = {*driver.variables[:-1], *scope.coords}
        if tile is not None:
            known = {*self.ctx.provenance.recoverable({*known, tile[0]})}
        if not set(lhs.vars) <= known or not set(lhs.vars) & set(driver.variables):
            return None
        dtype = lhs.dtype
        total = TensorVar(f"{lhs.tensor.name} sum", dense(0), dtype, body.op.identity_of(dtype))
        access = Access(total, ())
        return Held(body, access, replace(body, lhs=access), tile)

    def tile(self, body: Stmt) -> tuple[tuple[IndexVar, int] | None, Stmt]:
        """The loop that `body` is, if it is written out, and what is inside of it."""
        if not isinstance(body, Forall) or body.tag is not None or body.unroll is None:
            return None, body
        width = self.ctx.names.extent(body.var)
        if not isinstance(width, Value) or int(width.value.real) > _MOST_HELD:
            return None, body
        return (body.var, int(width.value.real)), body.body

    def start(self, held: Held, scope: Scope) -> tuple[list[p.Stmt], Scope]:
        base = f"{self.ctx.names.of(held.original.lhs.tensor)}_sum"
        type = held.total.dtype.name
        name, scope = scope.fresh(base, type, lasting=True)
        if held.tile is None:
            scope = scope.accumulate(held.total, name)
            return [Declare(name, Value(held.total.tensor.fill, type))], scope
        at, scope = scope.fresh(f"{self.ctx.names.variables[held.tile[0]]}_at", lasting=True)
        scope = scope.accumulate(held.total, p.Load(p.Array(name.name, type), at))
        return [p.Local(p.Array(name.name, type), held.tile[1]), self.restart(held, scope)], scope

    def restart(self, held: Held, scope: Scope) -> p.Stmt:
        place = scope.accumulators[held.total]
        nothing = Value(held.total.tensor.fill, held.total.dtype.name)
        return self._written_out(held, block(update(place, nothing, None)), scope)

    def each(self, held: Held, body: Stmt, scope: Scope) -> p.Block:
        """The body for every column of the tile that is held."""
        if held.tile is None:
            return self.lower(body, scope)
        place = scope.accumulators[held.total]
        if not isinstance(place, p.Load):
            raise InternalError("a tile without a place")
        inner = self.lower(At(held.tile[0], body, value=place.index), scope)
        return block(self._written_out(held, inner, scope))

    def _written_out(self, held: Held, body: p.Block, scope: Scope) -> p.Stmt:
        place = scope.accumulators[held.total]
        if held.tile is None or not isinstance(place, p.Load) or not isinstance(place.index, Name):
            return body
        return p.For(place.index, Value(0), Value(held.tile[1]), body, unrolled=True)
