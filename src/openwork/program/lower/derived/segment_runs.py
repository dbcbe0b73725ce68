"""Positions by segments, for statements with loops inside: what a segment adds to stays in place.

    p = first
    i = the row of p
    while (p < last) {
      while (p == pos[i + 1]) i++;
      stop = min(last, pos[i + 1]);
      for each tile of columns {
        for (q = p; q < stop; q++) { j = crd[q]; sums += ... }
        store the sums
      }
      p = stop;
    }

Segments of levels between the one that selects the entries and the counted one nest inside. Where
threads take windows of positions, only the first and the last segment of a window may be shared;
others are stored without atomics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from openwork.frozen import frozen
from openwork.index.nodes import Access
from openwork.loops.nodes import Forall, Sequence as Then, written
from openwork.loops.relations import Pos
from openwork.program import nodes as p
from openwork.program.lower.base.accumulate import Accumulators, operator_of
from openwork.program.lower.base.nodes import At, Shaped, at_each
from openwork.program.lower.base.ranges import Count, Range
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.derived.driver import Driver
from openwork.program.lower.derived.tracked import Tracked
from openwork.program.nodes import Declare, Expr, If, Name, Set, arithmetic, block, compare
from openwork.tree import replace, walk

Walk = Callable[[Forall, Range | None, Scope], p.Block]


@frozen
class SegmentRuns:
    """The lowering of one loop along positions, a segment at a time."""

    walk: Walk
    tracked: Tracked
    loop: Forall
    driver: Driver

    @property
    def chooser(self) -> int:
        """The index of the driver's innermost variable that selects the entries."""
        return self.driver.chooser(written(self.loop.body))

    def serves(self, scope: Scope) -> bool:
        """Whether the positions of a segment add to the same entries."""
        ctx, lhs, m = self.tracked.ctx, written(self.loop.body), self.chooser
        if not 0 <= m < len(self.driver.variables) - 1 or operator_of(self.loop) is None:
            return False
        if self.loop.tag is not None or any(isinstance(n, Then) for n in walk(self.loop.body)):
            return False
        made = ctx.workspaces.table
        reads = [n for n in walk(self.loop.body) if isinstance(n, Access) and n != lhs]
        if not self.driver.kinds[-1].walks and any(access.tensor in made for access in reads):
            return False  # a workspace is located by positions, these loops by coordinates
        if any(not kind.unique for kind in self.driver.kinds[: m + 1]):
            return False  # another segment may have the same coordinates
        return not (lhs in scope.accumulators or ctx.lists(lhs) or scope.counting)

    def lower(self, parents: list[Expr | None], window: Range, scope: Scope) -> p.Block:
        """The loop over `window`; `parents` are those of its first position."""
        return self._segments(parents, window, self.chooser, scope)

    def _segments(self, parents: list[Expr | None], window: Range, n: int, scope: Scope) -> p.Block:
        """while (at < last) { advance to the parents of `at`; the segment of level `n` }"""
        tracked, driver = self.tracked, self.driver
        base = f"p{tracked.ctx.names.of(driver.access.tensor)}{driver.last + 1}"
        at, scope = scope.fresh(f"{base}_at", lasting=True)
        stop, scope = scope.fresh(f"{base}_stop", lasting=True)
        chain: list[Expr | None] = [*parents, at]
        outermost = n == self.chooser
        end = arithmetic("min", tracked.edge(driver, parents, n, 1), window.hi)
        known, here = tracked.reach_down(driver, chain, scope, n, first=0 if outermost else n)
        run = replace(window, lo=at, hi=stop, count=Count())
        body = block(
            *tracked.move(driver, chain, 1 if outermost else n + 1, kept=False),
            Declare(stop, end, fixed=True),
            *known,
            self._entries(parents, window, run, here)
            if outermost
            else tracked.lower(At(driver.variables[n], self._below(parents, run, n)), here),
            Set(at, stop),
        )
        name = tracked.ctx.names.said(driver.access.tensor)
        comment = f"segments of {name}" if outermost else ""
        more = compare("<", at, window.hi)
        polls = outermost and scope.depth == 1
        return block(Declare(at, window.lo), p.While(more, body, comment, polls=polls))

    def _entries(
        self, parents: list[Expr | None], window: Range, run: Range, scope: Scope
    ) -> p.Block:
        """All positions that add to the same entries."""
        tracked, m, lhs = self.tracked, self.chooser, written(self.loop.body)
        # A segment that the window cuts is added to elsewhere, too.
        cut = window.pos is None or window != scope.bounds.ranges.get(window.pos.child)
        scope = replace(scope, reducing=scope.reducing or cut)
        reached = tracked.ctx.reach_further(scope, lhs)
        sums, below = Accumulators(tracked.ctx, tracked.lower), self._below(parents, run, m)
        saved, done = list[p.Stmt](), list[p.Stmt]()
        if sums.tiles(below, lhs, reached):
            saved, below, scope = self._again(parents, run, scope)
            done = self._leave(parents, run)
        body = at_each(self.driver.variables[: m + 1], below)
        shared = lhs.tensor in scope.sharing.atomic
        if not shared or not tracked.owns(self.loop, lhs, self.driver):
            return block(*saved, tracked.lower(body, scope), *done)
        owned = tracked.owned(self.driver, parents, window, m, scope)
        if reached.is_reached(lhs) or sums.tiles(below, lhs, reached):
            held = replace(scope, sharing=replace(scope.sharing, owned=owned))
            return block(*saved, tracked.lower(body, held), *done)
        alone = replace(scope, sharing=scope.sharing.alone(lhs.tensor))
        return block(If(owned, tracked.lower(body, alone), tracked.lower(body, scope)))

    def _again(
        self, parents: list[Expr | None], run: Range, scope: Scope
    ) -> tuple[list[p.Stmt], Forall, Scope]:
        """The loop below for each tile of columns, which starts from the same parents."""
        code, back = list[p.Stmt](), list[p.Stmt]()
        for parent in parents[self.chooser + 1 :]:
            if isinstance(parent, Name):
                name, scope = scope.fresh(f"{parent.name}_first", lasting=True)
                code.append(Declare(name, parent, fixed=True))
                back.append(Set(parent, name))
        return code, self._below(parents, run, self.chooser, back), scope

    def _leave(self, parents: list[Expr | None], run: Range) -> list[p.Stmt]:
        """Go to the last parents of a segment that ends: without columns, nothing else does."""
        driver, code, m = self.driver, list[p.Stmt](), self.chooser
        for n in range(m + 1, len(parents)):
            parent, above = parents[n], parents[n - 1]
            if not isinstance(parent, Name) or above is None:
                continue
            level = driver.first + n
            kind, view = (
                driver.access.tensor.format.levels[level],
                self.tracked.ctx.view(driver.access, level),
            )
            code.append(Set(parent, kind.begin(view, above + 1) - 1))
        ends = compare("==", run.hi, self.tracked.edge(driver, parents, m, 1))
        return [If(ends, block(*code))] if code else []

    def _below(
        self, parents: list[Expr | None], run: Range, n: int, before: Sequence[p.Stmt] = ()
    ) -> Forall:
        """The loop over the positions in `run`, which lie below one place of level `n`."""
        variables, access = self.driver.variables, self.driver.access
        inner = variables[n + 1]

        def shape(scope: Scope) -> p.Block:
            if n + 1 < len(variables) - 1:
                return block(*before, self._segments(parents, run, n + 1, scope))
            return self.walk(last, replace(run, pos=Pos(inner, inner, access)), scope)

        last = Forall(inner, self.loop.body, unroll=self.loop.unroll)
        return Shaped(inner, self.loop.body, unroll=self.loop.unroll, shape=shape)
