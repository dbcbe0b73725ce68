"""Accumulators: sums stay in registers while they can.

A scalar where a reduction has a single result, a tile of columns where its result is a row, and
all sums of a block where it is stored in blocks. Where other threads write the same element, the
final sum is added atomically.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import cast

from openwork.algebra.operators import Op
from openwork.errors import InternalError
from openwork.frozen import frozen
from openwork.index.nodes import Access, IndexVar
from openwork.loops.nodes import Assign, Forall, Sequence as Then, Stmt, Where
from openwork.loops.plan.assembly import accesses_of
from openwork.loops.relations import Bound
from openwork.program import nodes as p
from openwork.program.elements import combine
from openwork.program.lower.base.context import Context
from openwork.program.lower.base.scope import Scope, Tile
from openwork.program.nodes import (
    Binary,
    Declare,
    Expr,
    Name,
    Set,
    Store,
    Value,
    block,
    compare,
)
from openwork.program.simplify.extents import promised_extents
from openwork.tree import Node, bottom_up, replace, walk

# The most numbers of a block in registers, and the most terms of a block without a loop.
_MOST_OF_BLOCKS, _MOST_WRITTEN_OUT = 16, 64
# Columns of a row that are accumulated together in registers, widest first, by element size.
_TILE_BYTES, _NARROW_TILE = 256, 4
# The same for processors with enough registers for tiles of so many bytes.
_WIDE_TILE_BYTES = 1024

Each = Callable[[p.Stmt], p.Stmt]  # a statement for each column of a tile


@frozen
class Open:
    """What remains open of a result where a sum begins: places within blocks, and columns."""

    blocks: tuple[IndexVar, ...]
    column: IndexVar | None = None


@frozen
class Accumulators:
    """Register accumulators of one kernel; `shape` lowers the loop that they accumulate over."""

    ctx: Context
    shape: Callable[[Forall, Scope], p.Block]

    def around(self, loop: Forall, lhs: Access, scope: Scope) -> p.Block | None:
        """The loop with its sums in registers; None where the result does not stay in place."""
        if scope.is_reached(lhs):
            return self._in_scalar(loop, lhs, scope)
        sums = self._open(loop, lhs, scope)
        return None if sums is None else self._in_tiles(loop, lhs, sums, scope)

    def tiles(self, loop: Forall, lhs: Access, scope: Scope) -> bool:
        """Whether the loop runs once for each tile of columns, whose sums stay in registers."""
        return not scope.is_reached(lhs) and self._open(loop, lhs, scope) is not None

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

    def _in_tiles(self, loop: Forall, lhs: Access, sums: Open, scope: Scope) -> p.Block:
        """for each tile of columns { sums = 0; loop { sums += ... } R[row + tile] = sums; }"""
        block_tiles = [self._of_block(var, scope) for var in sums.blocks]
        each = prod(tile.width for tile in block_tiles) * lhs.dtype.itemsize
        column, loop = sums.column, self._written_out(loop, each // lhs.dtype.itemsize)
        if column is None:
            return self._one_tile(loop, lhs, block_tiles, scope)
        columns = self.ctx.everything(column, scope)
        exact = promised_extents(self.ctx.provenance).get(column) or columns.count.fixed
        widths = _widths(_power_below(_TILE_BYTES // each), exact or columns.count.most)
        base = f"{self.ctx.names.variables[column]}_tile"
        if exact is not None and exact in widths:
            all_columns = Tile(column, Value(0), exact, f"{base}_at")
            return self._one_tile(loop, lhs, [*block_tiles, all_columns], scope)
        first, scope = scope.fresh(base, lasting=True)
        code: list[p.Stmt] = [Declare(first, Value(0))]

        def one(width: int) -> p.Block:
            tile = Tile(column, first, width, f"{first.name}_at")
            return self._one_tile(loop, lhs, [*block_tiles, tile], scope)

        wide = _power_below(_WIDE_TILE_BYTES // each)
        if not self.ctx.on_gpu and (lhs.tensor.shape[lhs.vars.index(column)] or 0) >= wide:
            widths = (wide, *widths)
        for width in widths:
            rest: Expr = compare("<=", first + width, columns.hi)
            if width == wide:
                rest = Binary("&&", p.Helper("many_registers", ()), rest)
            comment = "columns that are left" if width == 1 else f"{width} columns in registers"
            code.append(p.While(rest, block(one(width), Set(first, first + width)), comment))
        return block(*code)

    def _one_tile(self, loop: Forall, lhs: Access, tiles: Sequence[Tile], scope: Scope) -> p.Block:
        count = prod(tile.width for tile in tiles)
        base = f"{self.ctx.names.of(lhs.tensor)}_sum"
        own = base if count == 1 else f"{base}s{count}"
        name, inner = scope.fresh(own, lhs.dtype.name)
        sums, at = p.Array(name.name, name.type), cast(Expr, Value(0))
        outer, counters = scope, list[tuple[Tile, Name]]()
        for tile in tiles:
            if tile.width > 1:
                counter, outer = outer.fresh(tile.counter)
                counters.append((tile, counter))
                at = at * tile.width + counter
                outer = outer.bind(tile.var, tile.first + counter)
            else:
                outer = outer.bind(tile.var, tile.first)
        outer = self.ctx.reach_further(outer, lhs)
        place = element(self.ctx, lhs, outer)
        shared = operator_of(loop) if lhs.tensor in scope.sharing.atomic else None
        if shared is None:
            start = start_of(self.ctx, loop, lhs, place, scope)
        else:
            start = Value(shared.identity_of(lhs.dtype), lhs.dtype.name)
            must_begin(self.ctx, lhs)
        by_var = {var: tile for tile in tiles for var in (tile.var, self._bounded(tile.var))}
        tiled = replace(inner, reducing=True, tiles={**scope.tiles, **by_var})
        sum: Expr = name if count == 1 else p.Load(sums, at)

        def each(body: p.Stmt) -> p.Stmt:
            for tile, counter in reversed(counters):
                body = tile.loop(counter, block(body))
            return body

        work = self.shape(loop, tiled.accumulate(lhs, sum))
        if shared is None:
            put = each(streamed(self.ctx, lhs, update(place, sum, None)))
        else:
            put = self._shared(place, sum, shared, scope, each)
        if count == 1:
            return block(Declare(name, start), work, put)
        return block(p.Local(sums, count), each(Store(sums, at, start)), work, put)

    def _of_block(self, var: IndexVar, scope: Scope) -> Tile:
        """All values of a variable that runs within a block."""
        values = self.ctx.everything(var, scope)
        size = self.ctx.names.inner_blocks[var].size
        end = None if values.count.fixed == size else values.hi
        return Tile(var, Value(0), size, self.ctx.names.variables[var], end)

    def _written_out(self, loop: Forall, sums: int) -> Forall:
        """The loop with the loops within a block unrolled, so that all sums are in registers."""
        blocks = self.ctx.names.inner_blocks

        def unrolled(node: Node) -> Node | None:
            match node:
                case Forall(var=var, unroll=None) if (
                    var in blocks and blocks[var].size * sums <= _MOST_WRITTEN_OUT
                ):
                    return replace(node, unroll=0)
            return None

        return cast(Forall, bottom_up(unrolled)(loop)) if sums > 1 else loop

    def _open(self, loop: Forall, lhs: Access, scope: Scope) -> Open | None:
        """What remains open of `lhs`, if that is part of a block, a row of columns, or both.

        Loops over it are inside, one each, and no operand is sparse along it. The other loops
        inside are over reduction variables, and the innermost over the columns.
        """
        if self.ctx.on_gpu and lhs.tensor in scope.sharing.atomic:
            return None
        if any(isinstance(n, Forall) and (n.tag or n.unroll is not None) for n in walk(loop)):
            return None  # the schedule decides how these loops run
        variables = lhs.level_vars[len(scope.reached(lhs)) :]
        if any(self._confined(var, scope) for var in variables):
            return None
        sizes = {v: b.size for v, b in self.ctx.names.inner_blocks.items() if v in variables}
        blocks = tuple(var for var in variables if var in sizes)
        columns = [var for var in variables if var not in sizes]
        loops, inner = list[IndexVar](), loop.body
        while isinstance(inner, Forall):
            loops.append(inner.var)
            inner = inner.body
        wanted = {self._bounded(var) for var in variables}
        if not isinstance(inner, Assign) or wanted != set(loops) & {*wanted, *lhs.vars}:
            return None
        if len(columns) > 1 or prod(sizes.values()) > _MOST_OF_BLOCKS:
            return None
        if columns and (columns[0] != variables[-1] or loops[-1] != self._bounded(columns[0])):
            return None
        sparse = any(
            not level.full
            for access in (lhs, *accesses_of(inner.rhs))
            for level in access.levels_along(variables)
        )
        return None if sparse else Open(blocks, columns[0] if columns else None)

    def _confined(self, var: IndexVar, scope: Scope) -> bool:
        """Whether a loop over `var` runs over a part of its values, or over another variable."""
        above = self.ctx.provenance.above
        return var in above or scope.bounds.confined(var, self._bounded(var))

    def _bounded(self, var: IndexVar) -> IndexVar:
        """The variable of the loop over `var`, whose extent may have a promised bound."""
        for relation in self.ctx.provenance.relations:
            if isinstance(relation, Bound) and relation.parent == var:
                var = relation.child
        return var


def _power_below(number: int) -> int:
    """The largest power of two that is not above `number`; 1 for 0."""
    return 1 << (max(number, 1).bit_length() - 1)


def _widths(widest: int, most: int | None) -> tuple[int, ...]:
    """How many columns to accumulate together, widest first; a small block all in one tile."""
    if most is not None and most <= widest:
        return tuple(dict.fromkeys((most, 1)))
    some = (widest, widest // 2, _NARROW_TILE, 1)
    return tuple(dict.fromkeys(n for n in some if 0 < n <= widest))


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
