"""Positions by segments: an inner loop covers the positions that add to one entry of the result.

    p = first
    i = the row of p
    while (p < last) {
      stop = min(last, pos[i + 1]);
      for (; p < stop; p++) { j = crd[p]; sum += ... }
      store the sum
      while (p == pos[i + 1]) i++;
    }

Where neighbouring threads have neighbouring runs of positions, the sum of a thread's last segment
is stored after the loop, so that a warp can combine those of one entry.

The inner loop has no branches, so that several of its iterations overlap: a GPU needs this to hide
latency. Levels between the one that selects the entry and the counted one are tracked.
"""

from __future__ import annotations

from openwork.frozen import frozen
from openwork.loops.nodes import Forall
from openwork.program import nodes as p
from openwork.program.lower.base.nodes import at_each
from openwork.program.lower.base.ranges import Range
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.derived.driver import Driver
from openwork.program.lower.derived.segment_sum import SegmentSum
from openwork.program.lower.derived.tracked import Tracked
from openwork.program.nodes import Declare, Expr, If, Name, Set, arithmetic, block, compare
from openwork.tree import replace


@frozen
class Segments:
    """The lowering of one loop along positions, with its segment sums."""

    tracked: Tracked
    loop: Forall
    driver: Driver
    summed: SegmentSum

    @property
    def chooser(self) -> int:
        """The index of the driver's innermost variable that selects the entry."""
        return self.driver.chooser(self.summed.original.lhs)

    def lower(
        self, parents: list[Expr | None], position: Name, window: Range, scope: Scope
    ) -> p.Block:
        """The loop over `window`; `parents` are those of its first position."""
        tracked, driver, summed, m = self.tracked, self.driver, self.summed, self.chooser
        names = tracked.ctx.names
        at, scope = scope.fresh(f"{position.name}_at", lasting=True)
        stop, scope = scope.fresh(f"{position.name}_stop", lasting=True)
        end = tracked.edge(driver, parents, m, 1)
        kept = tracked.keeps_parents(driver, m)
        step, inner = tracked.reach(driver, parents, position, scope, first=m + 1, kept=kept)
        work = summed.each(tracked.lower, at_each(driver.variables, summed.body), inner)
        work = tracked.where_occupied(driver, parents, position, work)
        comment = f"positions of {names.said(driver.access.tensor)} that add to one entry"
        run = p.For(position, at, stop, block(*step, work), comment, unroll=self.loop.unroll or 0)
        owned = tracked.owned(driver, parents, window, m, scope)
        goes_on = compare("<", at, window.hi)
        put = (self.put(parents, owned, stop, scope), summed.restart(scope))
        apart = self._combines(scope)
        body = block(
            Declare(stop, arithmetic("min", end, window.hi), fixed=True),
            run,
            *(() if apart else put),
            Set(at, stop),
            If(goes_on, block(*(put if apart else ()), *self.advance(parents, at))),
        )
        segments = (Declare(at, window.lo), p.While(goes_on, body))
        if not apart:
            return block(*segments)
        last = replace(scope, sharing=replace(scope.sharing, last=True))
        nonempty = compare("<", window.lo, window.hi)
        return block(*segments, If(nonempty, self.put(parents, owned, window.hi, last)))

    def _combines(self, scope: Scope) -> bool:
        """Whether the sum of a thread's last segment may be combined with its neighbours'."""
        atomic = self.summed.original.lhs.tensor in scope.sharing.atomic
        return (
            atomic and self.summed.tile is None and self.tracked.neighbours(self.loop, self.driver)
        )

    def put(self, parents: list[Expr | None], owned: Expr, stop: Expr, scope: Scope) -> p.Block:
        """Store the sum; without an atomic if no other thread adds to the entry."""
        tracked, driver, summed = self.tracked, self.driver, self.summed
        lhs = summed.original.lhs
        chain: list[Expr | None] = [*parents, stop - 1]
        known, here = tracked.reach_down(driver, chain, scope, self.chooser)
        variables = driver.variables[: self.chooser + 1]
        add = summed.each(
            tracked.lower,
            at_each(variables, replace(summed.original, rhs=summed.total)),
            replace(here, reducing=True),
        )
        if lhs.tensor not in scope.sharing.atomic or not tracked.owns(self.loop, lhs, driver):
            return block(*known, add)
        alone = replace(here, sharing=scope.sharing.alone(lhs.tensor), reducing=True)
        only = tracked.writes_once(lhs, driver, scope)
        put = replace(summed.original, rhs=summed.total, op=None if only else summed.original.op)
        store = summed.each(tracked.lower, at_each(variables, put), alone)
        return block(*known, If(owned, store, add))

    def advance(self, parents: list[Expr | None], position: Expr) -> list[p.Stmt]:
        """Advance all parents to those of the position after a segment."""
        kept = self.tracked.keeps_parents(self.driver, self.chooser)
        return self.tracked.move(self.driver, [*parents, position], 1, kept)
