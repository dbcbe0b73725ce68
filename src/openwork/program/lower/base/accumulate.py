"""Accumulators: sums stay in registers while they can.

A scalar where a reduction has a single result, a tile of columns where its result is a row. Where
other threads write the same element, the final sum is added atomically.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from openwork.algebra.operators import Op
from openwork.errors import InternalError
from openwork.index.nodes import Access, IndexVar
from openwork.loops.nodes import Assign, Forall, Sequence as Then, Stmt, Where
from openwork.loops.plan.assembly import accesses_of
from openwork.loops.relations import Bound
from openwork.program import nodes as p
from openwork.program.elements import combine
from openwork.program.lower.base.context import Context
from openwork.program.lower.base.scope import Scope, Tile
from openwork.program.nodes import Binary, Declare, Expr, Set, Store, Value, block, compare
from openwork.program.simplify.extents import promised_extents
from openwork.tree import replace, walk

# Columns of a row that are accumulated together in registers, widest first, by element size.
_TILE_BYTES, _NARROW_TILE = 256, 4
# The same for processors with enough registers for tiles of so many bytes.
_WIDE_TILE_BYTES = 1024

Each = Callable[[p.Stmt], p.Stmt]  # a statement for each column of a tile


@dataclass(frozen=True)
class Accumulators:
    """Register accumulators of one kernel; `shape` lowers the loop that they accumulate over."""

    ctx: Context
    shape: Callable[[Forall, Scope], p.Block]

    def around(self, loop: Forall, lhs: Access, scope: Scope) -> p.Block | None:
        """The loop with its sums in registers; None where the result does not stay in place."""
        if scope.is_reached(lhs):
            return self._in_scalar(loop, lhs, scope)
        column = self._column(loop, lhs, scope)
        return None if column is None else self._in_tiles(loop, lhs, column, scope)

    def tiles(self, loop: Forall, lhs: Access, scope: Scope) -> bool:
        """Whether the loop runs once for each tile of columns, whose sums stay in registers."""
        return not scope.is_reached(lhs) and self._column(loop, lhs, scope) is not None

    def _in_scalar(self, loop: Forall, lhs: Access, scope: Scope) -> p.Block:
        """sum = 0; loop { sum += ... } R[p] = sum;"""
        op = operator_of(loop)
        if lhs.tensor in scope.sharing.atomic and op is not None:
            return self._in_shared_scalar(loop, lhs, op, scope)
        place = element(self.ctx, lhs, scope)
        base = f"{self.ctx.names.of(lhs.tensor)}_sum"
        name, inner = replace(scope, reducing=True).fresh(base, lhs.dtype.name, lasting=True)
        return block(
            Declare(name, start_of(self.ctx, loop, lhs, place, scope)),
            self.shape(loop, inner.accumulate(lhs, name)),
            streamed(self.ctx, lhs, update(place, name, None)),
        )

    def _in_shared_scalar(self, loop: Forall, lhs: Access, op: Op, scope: Scope) -> p.Block:
        """sum = 0; loop { sum += ... } atomically R[p] += sum;"""
        base = f"{self.ctx.names.of(lhs.tensor)}_sum"
        name, inner = replace(scope, reducing=True).fresh(base, lhs.dtype.name, lasting=True)
        start = Value(op.identity_of(lhs.dtype), lhs.dtype.name)
        must_begin(self.ctx, lhs)
        return block(
            Declare(name, start),
            self.shape(loop, inner.accumulate(lhs, name)),
            self._shared(element(self.ctx, lhs, scope), name, op, scope),
        )

    def _shared(
        self, place: p.Load, sum: Expr, op: Op, scope: Scope, each: Each = lambda body: body
    ) -> p.Stmt:
        """R[p] += sum; atomically unless no other thread writes that entry."""
        atomic = each(atomically(place, sum, op))
        if scope.sharing.owned is None:
            return atomic
        plain = each(update(place, *combine(op, place, sum)))
        return p.If(scope.sharing.owned, block(plain), block(atomic))

    def _in_tiles(self, loop: Forall, lhs: Access, column: IndexVar, scope: Scope) -> p.Block:
        """for each tile of columns { sums = 0; loop { sums += ... } R[row + tile] = sums; }"""
        columns = self.ctx.everything(column, scope)
        exact = promised_extents(self.ctx.provenance).get(column) or columns.count.fixed
        widths = _widths(_TILE_BYTES // lhs.dtype.itemsize, exact or columns.count.most)
        first, scope = scope.fresh(f"{self.ctx.names.variables[column]}_tile", lasting=True)
        code: list[p.Stmt] = [Declare(first, Value(0))]
        if exact is not None and exact in widths:
            return block(*code, self._one_tile(loop, lhs, Tile(column, first, exact), scope))
        wide = _WIDE_TILE_BYTES // lhs.dtype.itemsize
        if not self.ctx.on_gpu and (lhs.tensor.shape[lhs.vars.index(column)] or 0) >= wide:
            widths = (wide, *widths)
        for width in widths:
            rest: Expr = compare("<=", first + width, columns.hi)
            if width == wide:
                rest = Binary("&&", p.Helper("many_registers", ()), rest)
            body = self._one_tile(loop, lhs, Tile(column, first, width), scope)
            comment = "columns that are left" if width == 1 else f"{width} columns in registers"
            code.append(p.While(rest, block(body, Set(first, first + width)), comment))
        return block(*code)

    def _one_tile(self, loop: Forall, lhs: Access, tile: Tile, scope: Scope) -> p.Block:
        base = f"{self.ctx.names.of(lhs.tensor)}_sum"
        own = base if tile.width == 1 else f"{base}s{tile.width}"
        name, inner = scope.fresh(own, lhs.dtype.name)
        sums = p.Array(name.name, name.type)
        at, outer = scope.fresh(f"{tile.first.name}_at")
        outer = outer.bind(tile.var, tile.first + (at if tile.width > 1 else Value(0)))
        outer = self.ctx.reach_further(outer, lhs)
        place = element(self.ctx, lhs, outer)
        shared = operator_of(loop) if lhs.tensor in scope.sharing.atomic else None
        if shared is None:
            start = start_of(self.ctx, loop, lhs, place, scope)
        else:
            start = Value(shared.identity_of(lhs.dtype), lhs.dtype.name)
            must_begin(self.ctx, lhs)
        tiles = {**scope.tiles, tile.var: tile, self._bounded(tile.var): tile}
        tiled = replace(inner, reducing=True, tiles=tiles)
        sum: Expr = name if tile.width == 1 else p.Load(sums, at)

        def each(body: p.Stmt) -> p.Stmt:
            if tile.width == 1:
                return body
            return p.For(at, Value(0), Value(tile.width), block(body), unrolled=True)

        work = self.shape(loop, tiled.accumulate(lhs, sum))
        if shared is None:
            put = each(streamed(self.ctx, lhs, update(place, sum, None)))
        else:
            put = self._shared(place, sum, shared, scope, each)
        if tile.width == 1:
            return block(Declare(name, start), work, put)
        return block(p.Local(sums, tile.width), each(Store(sums, at, start)), work, put)

    def _column(self, loop: Forall, lhs: Access, scope: Scope) -> IndexVar | None:
        """The variable of the columns, if what remains open of `lhs` is exactly a row of them.

        The loops inside must be over reduction variables, and the innermost over the columns,
        along which no operand is sparse.
        """
        if len(scope.reached(lhs)) != lhs.tensor.ndim - 1:
            return None
        if self.ctx.on_gpu and lhs.tensor in scope.sharing.atomic:
            return None
        if any(isinstance(n, Forall) and (n.tag or n.unroll is not None) for n in walk(loop)):
            return None  # the schedule decides how these loops run
        column, inner = lhs.level_vars[-1], loop.body
        bounded = self._bounded(column)
        if column in self.ctx.provenance.above or scope.bounds.confined(column, bounded):
            return None
        while isinstance(inner, Forall) and inner.var != bounded and inner.var not in lhs.vars:
            inner = inner.body
        if not isinstance(inner, Forall) or not isinstance(inner.body, Assign):
            return None
        sparse = any(
            not level.full
            for access in (lhs, *accesses_of(inner.body.rhs))
            for level in access.levels_along((column,))
        )
        return None if sparse or inner.var != bounded else column

    def _bounded(self, var: IndexVar) -> IndexVar:
        """The variable of the loop over `var`, whose extent may have a promised bound."""
        for relation in self.ctx.provenance.relations:
            if isinstance(relation, Bound) and relation.parent == var:
                var = relation.child
        return var


def _widths(widest: int, most: int | None) -> tuple[int, ...]:
    """How many columns to accumulate together, widest first; a small block all in one tile."""
    if most is not None and most <= widest:
        return tuple(dict.fromkeys((most, 1)))
    return (widest, widest // 2, _NARROW_TILE, 1)


def start_of(ctx: Context, loop: Forall, lhs: Access, place: Expr, scope: Scope) -> Expr:
    """Where an accumulation starts: from the identity, or from the stored value."""
    op = operator_of(loop)
    keeps = ctx.is_result(lhs) and ctx.plan.assignment.op is not None
    fresh = not keeps and not scope.reducing
    if not (fresh and scope.whole):
        must_begin(ctx, lhs)
    if fresh and op is not None:
        return Value(op.identity_of(lhs.dtype), lhs.dtype.name)
    return place


def must_begin(ctx: Context, lhs: Access) -> None:
    """Require that the entries `lhs` writes are initialized before the call."""
    if ctx.is_result(lhs):
        ctx.needs_initial = True
    else:
        ctx.unclear.add(lhs.tensor)


def element(ctx: Context, access: Access, scope: Scope) -> p.Load:
    """The entry of `access`, all of whose levels are reached."""
    scope = ctx.reach_further(scope, access)
    reached = scope.reached(access)
    if len(reached) != access.tensor.ndim:
        raise InternalError(f"{access} is used before all its levels are reached")
    index = reached[-1].position if reached else Value(0)
    if scope.appender is not None and ctx.is_result(access):
        return p.Load(scope.appender.values, index)
    return p.Load(ctx.names.values(access.tensor), index)


def atomically(place: p.Load, value: Expr, op: Op, last: bool = False) -> p.Stmt:
    """`place op= value;` where other threads write `place`, too."""
    return p.Store(place.array, place.index, value, op, atomic=True, last=last)


def streamed(ctx: Context, lhs: Access, store: p.Stmt) -> p.Stmt:
    """A store that bypasses the cache, if the schedule asks for it."""
    if ctx.plan.streams and ctx.is_result(lhs) and isinstance(store, Store):
        return replace(store, stream=store.op is None)
    return store


def update(place: Expr, value: Expr, op: Op | None) -> p.Stmt:
    """`place op= value;`"""
    match place:
        case p.Name():
            return Set(place, value, op)
        case p.Load(array=array, index=index):
            return Store(array, index, value, op)
    raise InternalError(f"{place} cannot be written to")


def operator_of(stmt: Stmt) -> Op | None:
    """The operator by which `stmt` accumulates into its final destination."""
    while not isinstance(stmt, Assign):
        stmt = stmt.body if isinstance(stmt, Forall) else _consumer(stmt)
    return stmt.op


def _consumer(stmt: Stmt) -> Stmt:
    if isinstance(stmt, Where):
        return stmt.consumer
    if isinstance(stmt, Then):
        return stmt.then
    raise InternalError(f"unexpected {stmt}")
