"""Segment reduction over a workspace: groups of threads take whole segments.

    for (row = first row of the tile; row <= last; row++)         units of `group` threads
      for (p = max(pos[row], tile); p < min(pos[row + 1], end); p++)       its threads
        sum += w[p - tile];
      store the sum

Otherwise each thread takes one position, finds its segment, and combines with its neighbours in
log steps. Where the terms were precomputed into shared memory, any thread can read any of them, and
a group can reduce a whole segment.
"""

from __future__ import annotations

from openwork.errors import InternalError
from openwork.frozen import frozen
from openwork.index.nodes import Access
from openwork.loops.nodes import Assign, Forall
from openwork.program import nodes as p
from openwork.program.lower.base.context import Context
from openwork.program.lower.base.header import Header
from openwork.program.lower.base.nodes import at_each
from openwork.program.lower.base.ranges import Range
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.derived.driver import Driver
from openwork.program.lower.derived.segment_sum import SegmentSum, segment_sum, tile_of
from openwork.program.lower.derived.segments import Segments
from openwork.program.lower.derived.tracked import Tracked
from openwork.program.nodes import Declare, If, Name, Value, arithmetic, block, compare
from openwork.tree import replace, walk

_THREADS = 256  # per block


def reads_workspace(ctx: Context, loop: Forall) -> bool:
    """Whether all terms of a loop's sum were precomputed into a workspace."""
    _, body = tile_of(ctx, loop.body)
    if not isinstance(body, Assign) or body.op is None:
        return False
    reads = [n for n in walk(body.rhs) if isinstance(n, Access)]
    return bool(reads) and all(a.tensor in ctx.workspaces.table and not ctx.lists(a) for a in reads)


@frozen
class SegmentGroups:
    """The lowering of one such loop over a tile of positions."""

    tracked: Tracked
    loop: Forall
    driver: Driver

    def lower(self, window: Range, scope: Scope) -> p.Block | None:
        """The loop over `window`; None if the parents alone do not determine the entry."""
        ctx, tag = self.tracked.ctx, self.loop.tag
        summed = segment_sum(ctx, self.loop.body, self.driver, scope)
        if summed is None or tag is None or tag.group_size is None:
            return None
        counter, scope = scope.fresh(f"{ctx.names.variables[self.loop.var]}_at")
        header = Header.of(ctx, self.loop, counter, window, scope)
        header.finish(block())
        return self._rows(summed, window, header.scope, tag.group_size)

    def _above(
        self, parents: list[p.Expr | None], window: Range, scope: Scope
    ) -> tuple[list[p.Stmt], Scope]:
        """The ancestors of a segment's parent, searched for among those of the tile."""
        ctx, access, code = self.tracked.ctx, self.driver.access, list[p.Stmt]()
        known = next(n for n, parent in enumerate(parents) if parent is not None)
        for n in reversed(range(known)):
            level, child = self.driver.first + n + 1, parents[n + 1]
            if child is None:
                raise InternalError("a parent without a child")
            kind, view = access.tensor.format.levels[level], ctx.view(access, level)
            found = kind.parent(view, child)
            if found is None:
                array = ctx.boundaries(access, level)
                found = p.Helper("last_at_most", (array, *window.levels[n], child))
            name, scope = scope.fresh(f"p{ctx.names.of(access.tensor)}{level}", lasting=True)
            code.append(Declare(name, found, fixed=True))
            parents[n] = name
        return code, scope

    def _rows(self, summed: SegmentSum, window: Range, scope: Scope, group: int) -> p.Block:
        tracked, driver = self.tracked, self.driver
        segments = Segments(tracked, self.loop, driver, summed)
        m = segments.chooser
        base = f"p{tracked.ctx.names.of(driver.access.tensor)}"
        row, scope = scope.fresh(f"{base}{driver.first + m + 1}", lasting=True)
        position, scope = scope.fresh(f"{base}{driver.last + 1}", lasting=True)
        started, scope = summed.start(tracked.ctx, scope)
        total = [replace(s, apiece=True) if isinstance(s, p.Local) else s for s in started]
        parents: list[p.Expr | None] = [None] * (len(driver.variables) - 1)
        parents[m] = row
        above, scope = self._above(parents, window, scope)
        begin, end = (tracked.edge(driver, parents, m, side) for side in (0, 1))
        first, scope = scope.fresh(f"{position.name}_first", lasting=True)
        stop, scope = scope.fresh(f"{position.name}_stop", lasting=True)
        known, inner = tracked.reach_down(
            driver, [*parents, position], scope, len(driver.variables) - 1
        )
        work = summed.each(tracked.lower, at_each(driver.variables, summed.body), inner)
        work = tracked.where_occupied(driver, parents, position, work)
        place = scope.accumulators[summed.total]
        name = Name(place.array.name, place.array.type) if isinstance(place, p.Load) else place
        if not isinstance(name, Name) or summed.original.op is None:
            raise InternalError("a sum without a name")
        width = summed.tile[1] if summed.tile is not None else 0
        identity = Value(summed.total.tensor.fill, summed.total.dtype.name)
        sums = p.For(
            position, first, stop, block(*known, work), by=p.Unit("thread", count=group),
            reductions=(p.Reduction(name, summed.original.op, identity, width),),
        )  # fmt: skip
        owned = tracked.owned(driver, parents, window, m, scope)
        put = segments.put(parents, owned, stop, scope)
        body = block(
            Declare(first, arithmetic("max", begin, window.lo), fixed=True),
            Declare(stop, arithmetic("min", end, window.hi), fixed=True),
            If(compare("<", first, stop), block(*above, *total, sums, put)),
        )
        low, high = window.levels[m]
        comment = f"segments of {tracked.ctx.names.said(driver.access.tensor)}"
        units = max(1, _THREADS // group)
        return block(p.For(row, low, high, body, comment, by=p.Unit("warp", count=units)))
