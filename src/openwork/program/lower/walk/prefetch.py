"""Prefetching: load rows into the cache some iterations before a gather needs them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from openwork.errors import InternalError
from openwork.format.layouts import Together
from openwork.index.nodes import Access, IndexVar
from openwork.loops.nodes import Forall
from openwork.program import nodes as p
from openwork.program.lower.base.context import Context
from openwork.program.lower.base.scope import Scope, Tile
from openwork.program.lower.walk.walkers import Participant, Walker
from openwork.tree import replace

# How many entries ahead to prefetch, and the bytes of a cache line.
_AHEAD, _LINE = 8, 64
# How many cache lines of a row to prefetch where a schedule asks for it.
_LINES = 4
# Entries of so many bytes are prefetched so many bytes ahead, in the order in which they lie.
# Measured on Zen 3 with 3x3 blocks: 16 entries ahead are less, 48 no better.
_LARGE, _FAR = 32, 2048


def prefetches(
    ctx: Context, parts: Sequence[Participant], scope: Scope, walker: Walker, here: p.Expr
) -> list[p.Stmt]:
    """Prefetch the rows from which the next coordinates of `walker` will gather a tile of columns.

    Only for operands too large for the cache; for others a prefetch costs more than it saves. Rows
    close to the one at coordinate `here` are prefetched as well: testing for them costs more.
    """
    if walker.part.access.tensor in ctx.workspaces.table:
        return []
    gathers: list[p.Stmt] = []
    for part in parts:
        tile = scope.tiles.get(part.access.level_vars[-1])
        if tile is None or tile.width == 1 or part.sparse:
            continue
        lines = _lines(ctx, part.access, tile, walker, scope, here)
        if lines:
            gathers.append(p.If(ctx.is_far(part.access), p.block(*lines)))
    return gathers


def prefetched_rows(
    ctx: Context, parts: Sequence[Participant], scope: Scope, walker: Walker
) -> list[p.Stmt]:
    """Prefetch the stored rows that the next coordinates of `walker` locate, and then walk.

    First where a row begins, and then its first entries: the processor cannot look ahead past the
    end of a row, which it rarely predicts.
    """
    if ctx.on_gpu or walker.part.access.tensor in ctx.workspaces.table:
        return []
    var = walker.part.access.level_vars[walker.level]
    located = [
        part.access
        for part in parts
        if not part.sparse
        and part.access.tensor not in ctx.workspaces.table
        and _row(ctx, part.access, scope.bind(var, p.Name("probe"))) is not None
    ]
    if not located:
        return []
    later, scope = scope.fresh(f"{ctx.names.variables[var]}_later", lasting=True)
    ahead, scope = scope.fresh(f"{ctx.names.variables[var]}_ahead", lasting=True)
    code: list[p.Stmt] = []
    for access in located:
        begins, row = (_row(ctx, access, scope.bind(var, name)) for name in (later, ahead))
        if begins is None or row is None:
            raise InternalError(f"{access} has no row to prefetch")
        begin, end, arrays = row
        entries = p.block(*(p.Prefetch(array, begin) for array in arrays))
        code += [
            p.Prefetch(begins[0].array, begins[0].index),
            p.If(p.compare("<", begin, end), entries),
        ]

    def coordinate(distance: int) -> p.Expr:
        position = p.arithmetic("min", walker.position + distance, _last(ctx, walker))
        return walker.coordinate_at(position)

    return [
        p.Declare(later, coordinate(2 * _AHEAD), fixed=True),
        p.Declare(ahead, coordinate(_AHEAD), fixed=True),
        *code,
    ]


def prefetched_entries(ctx: Context, walker: Walker) -> list[p.Stmt]:
    """Prefetch the records or blocks that the loop along `walker` will come to.

    They follow one another, but processors look ahead no further than the end of a page, and too
    short for entries that fill a cache line. Smaller ones come in time.
    """
    access, level = walker.part.access, walker.level
    if ctx.on_gpu or access.tensor in ctx.workspaces.table:
        return []
    levels, values = access.tensor.format.levels, ctx.names.values(access.tensor)
    below, blocks = access.level_vars[level + 1 :], ctx.names.inner_blocks
    if levels[level].strided or not all(kind.locates for kind in levels[level + 1 :]):
        return []
    if not all(var in blocks for var in below):
        return []
    bytes = access.dtype.itemsize * prod(blocks[var].size for var in below)
    if bytes < _LARGE or not isinstance(values.placement, Together | None):
        return []
    place = p.arithmetic("min", walker.position + _FAR // bytes, _last(ctx, walker))
    for n in range(level + 1, len(levels)):
        place = levels[n].locate(ctx.view(access, n), place, p.Value(0))
    return [p.Prefetch(values, place, -(-bytes // _LINE))]


def _row(ctx: Context, access: Access, scope: Scope) -> tuple[p.Load, p.Expr, list[p.Array]] | None:
    """Where the next row of `access` begins and ends, and the arrays that its entries lie in."""
    levels = access.tensor.format.levels
    scope = ctx.reach_further(scope, access)
    at = len(scope.reached(access))
    if not 0 < at < len(levels) or levels[at].full or levels[at].strided:
        return None
    view, parent = ctx.view(access, at), ctx.parent_place(access, at, scope)
    begin, end = (f(view, parent.position) for f in (levels[at].begin, levels[at].end))
    stored = levels[at].coordinate(view, parent.position, begin)
    if not (isinstance(begin, p.Load) and isinstance(stored, p.Load) and stored.index == begin):
        return None
    arrays = [stored.array]
    if at + 1 == len(levels):
        arrays.append(ctx.names.values(access.tensor))
    return begin, end, arrays


def asked_for(ctx: Context, loop: Forall, scope: Scope, walker: Walker) -> list[p.Stmt]:
    """The prefetches that the schedule asks for."""
    code: list[p.Stmt] = []
    var = walker.part.access.level_vars[walker.level]
    if walker.part.access.tensor in ctx.workspaces.table:
        return []  # its keys were just sorted, and are in the cache
    for ahead in loop.ahead:
        name, inner = scope.fresh(f"{ctx.names.variables[var]}_ahead", lasting=True)
        position = p.arithmetic("min", walker.position + ahead.distance, _last(ctx, walker))
        there = replace(inner, places={}, accumulators={}).bind(var, name)
        for other in ahead.access.vars:
            if other not in there.coords:  # from the first value that will be needed
                there = there.bind(other, _begin(ctx, other, scope))
        there = ctx.reach_further(there, ahead.access)
        if not there.is_reached(ahead.access):
            raise InternalError(f"{ahead.access} cannot be prefetched")
        values = ctx.names.values(ahead.access.tensor)
        start = there.reached(ahead.access)[-1].position
        code.append(p.Declare(name, walker.coordinate_at(position), fixed=True))
        rows = ahead.access.level_vars[-1] != var  # a whole row will be needed, not one entry
        code.append(p.Prefetch(values, start, _LINES if rows else 1))
    return code


def _last(ctx: Context, walker: Walker) -> p.Expr:
    """The last position that may be read: of all segments, or of this one if they are strided."""
    access, level = walker.part.access, walker.level
    if access.tensor.format.levels[level].strided:
        return walker.bounds()[1] - 1
    return ctx.positions(access, level) - 1


def _begin(ctx: Context, var: IndexVar, scope: Scope) -> p.Expr:
    """The first value of a variable in the current run."""
    for relation in ctx.provenance.relations:
        if relation.parents == (var,):
            for inner in relation.children:
                if inner in scope.bounds.runs:
                    return scope.bounds.runs[inner].lo
    return p.Value(0)


def _lines(
    ctx: Context, access: Access, tile: Tile, walker: Walker, scope: Scope, here: p.Expr
) -> list[p.Stmt]:
    """Prefetches of the cache lines of a tile, some coordinates ahead."""
    var = walker.part.access.level_vars[walker.level]
    ahead, scope = scope.fresh(f"{ctx.names.variables[var]}_ahead")
    lines: list[p.Stmt] = []
    for column in range(0, tile.width, max(1, _LINE // access.dtype.itemsize)):
        there = scope.bind(var, ahead).bind(tile.var, tile.first + column)
        there = ctx.reach_further(there, access)
        if not there.is_reached(access):
            return []
        values = ctx.names.values(access.tensor)
        lines.append(p.Prefetch(values, there.reached(access)[-1].position, gather=True))
    position = p.arithmetic("min", walker.position + _AHEAD, _last(ctx, walker))
    # The condition is almost always true. Measured with gcc 12: without it, tiles of 32 columns are
    # at least a tenth slower; presumably the prefetches then interleave with the sums.
    return [
        p.Declare(ahead, walker.coordinate_at(position), fixed=True),
        p.If(p.compare("!=", ahead, here), p.block(*lines)),
    ]
