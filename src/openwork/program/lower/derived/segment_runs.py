"""Positions by segments, for statements with loops inside: what a segment adds to stays in place.

    p = first
    i = the row of p
    while (p < last) {
      while (p == pos[i + 1]) i++;
      stop = min(last, pos[i + 1]);
      for each tile of columns {
        for (; p < stop; p++) { j = crd[p]; sums += ... }
        store the sums
      }
    }

The columns of a row are accumulated as in a loop over rows. Where threads take windows of positions,
only the first and the last segment of a window may be shared: others are stored without atomics.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from openwork.loops.nodes import Forall, Sequence as Then, written
from openwork.program import nodes as p
from openwork.program.lower.base.accumulate import Accumulators, operator_of
from openwork.program.lower.base.header import Header
from openwork.program.lower.base.ranges import Range
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.derived.driver import Driver
from openwork.program.lower.derived.tracked import Tracked, at_each
from openwork.program.nodes import Declare, Expr, If, Name, Set, arithmetic, block, compare
from openwork.tree import walk


@dataclass(frozen=True)
class SegmentRuns:
    """The lowering of one loop along positions, a segment at a time."""

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
        if any(not kind.unique for kind in self.driver.kinds[: m + 1]):
            return False  # another segment may have the same coordinates
        return not (lhs in scope.accumulators or ctx.lists(lhs) or scope.counting)

    def lower(
        self, parents: list[Expr | None], position: Name, window: Range, scope: Scope
    ) -> p.Block:
        """The loop over `window`; `parents` are those of its first position."""
        tracked, driver, m = self.tracked, self.driver, self.chooser
        at, scope = scope.fresh(f"{position.name}_at", lasting=True)
        stop, scope = scope.fresh(f"{position.name}_stop", lasting=True)
        chain: list[Expr | None] = [*parents, at]
        advance = tracked.move(driver, chain, 1, kept=False)
        known, here = tracked.reach_down(driver, chain, scope, m)
        end = arithmetic("min", tracked.edge(driver, parents, m, 1), window.hi)
        body = block(
            *advance,
            Declare(stop, end, fixed=True),
            *known,
            self._segment(parents, position, window, Range(at, stop), here),
            Set(at, stop),
        )
        more = compare("<", at, window.hi)
        name = tracked.ctx.names.of(driver.access.tensor)
        segments = p.While(more, body, f"segments of {name}", polls=scope.depth == 1)
        return block(Declare(at, window.lo), segments)

    def _segment(
        self, parents: list[Expr | None], position: Name, window: Range, run: Range, scope: Scope
    ) -> p.Block:
        """The positions in `run`, with accumulators around them where there can be some."""
        tracked, lhs = self.tracked, written(self.loop.body)
        scope = tracked.ctx.reach_further(scope, lhs)
        # A segment that the window cuts was, or will be, added to elsewhere.
        cut = window != scope.bounds.ranges.get(window.pos.child) if window.pos else True
        scope = replace(scope, reducing=scope.reducing or cut)
        shared = lhs.tensor in scope.sharing.atomic
        owned = None
        if shared and tracked.owns(self.loop, lhs, self.driver):
            owned = tracked.owned(self.driver, parents, window, self.chooser)

        def positions(loop: Forall, scope: Scope) -> p.Block:
            return self._positions(parents, position, run, scope)

        held = replace(scope, sharing=replace(scope.sharing, owned=owned))
        summed = Accumulators(tracked.ctx, positions).around(self.loop, lhs, held)
        if summed is not None:
            return summed
        scope = replace(scope, reducing=True)
        if owned is None:
            return positions(self.loop, scope)
        alone = replace(scope, sharing=scope.sharing.alone(lhs.tensor))
        return block(If(owned, positions(self.loop, alone), positions(self.loop, scope)))

    def _positions(
        self, parents: list[Expr | None], position: Name, run: Range, scope: Scope
    ) -> p.Block:
        """for (p = at; p < stop; p++) { j = crd[p]; body }"""
        tracked, driver, m = self.tracked, self.driver, self.chooser
        header = Header.of(tracked.ctx, self.loop, position, run, scope)
        chain: list[Expr | None] = [*parents, position]
        step = tracked.move(driver, chain, m + 2, kept=False)
        known, inner = tracked.reach_down(
            driver, chain, header.scope, len(driver.variables) - 1, first=m + 1
        )
        for var in driver.counters(tracked.ctx.provenance):
            inner = inner.bind(var, position)
        work = tracked.lower(at_each(driver.variables, self.loop.body), inner)
        name = tracked.ctx.names.of(driver.access.tensor)
        comment = f"positions of {name} that add to the same entries"
        return block(header.finish(block(*step, *known, work), comment, run=True))
