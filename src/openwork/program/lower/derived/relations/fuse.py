"""Fuse: pairs of two variables, numbered in order."""

from __future__ import annotations

from functools import partial

from openwork.index.nodes import IndexVar
from openwork.loops.nodes import Forall, Stmt
from openwork.loops.relations import Fuse
from openwork.program import nodes as p
from openwork.program.lower.base.nodes import At
from openwork.program.lower.base.ranges import Count, Range, Stretch
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.derived.driver import driver_of
from openwork.program.lower.derived.iterate import Loops
from openwork.program.lower.derived.places import Places
from openwork.program.lower.derived.recovery import ZERO, Ends, Found, Values
from openwork.program.lower.derived.segment_batches import by_segments
from openwork.program.lower.derived.segment_runs import SegmentRuns
from openwork.program.lower.derived.tracked import Tracked
from openwork.program.lower.derived.windows import coordinate_window
from openwork.program.nodes import Declare, Expr, Value, arithmetic, block
from openwork.tree import replace


class FuseValues(Values[Fuse]):
    """The numbers of pairs."""

    def values(self, var: IndexVar, scope: Scope) -> Found:
        code, a, scope = self.recovery.values(self.relation.outer, scope)
        more, b, scope = self.recovery.values(self.relation.inner, scope)
        one, other = a.count, b.count
        fixed = None if one.fixed is None or other.fixed is None else one.fixed * other.fixed
        size = a.size * b.size if fixed is None else Value(fixed)
        pairs = Range(ZERO, size, Count(fixed, one.multiple * other.multiple))
        return [*code, *more], pairs, scope

    def value(self, var: IndexVar, scope: Scope) -> Expr | None:
        outer, inner = self.relation.outer, self.relation.inner
        a, b = self.recovery.value(outer, scope), self.recovery.value(inner, scope)
        if a is None or b is None:
            return None
        first, second = self.recovery.known(outer, scope), self.recovery.known(inner, scope)
        return (a - first.lo) * second.size + (b - second.lo)

    def most(self, var: IndexVar) -> Expr:
        return self.recovery.most(self.relation.outer) * self.recovery.most(self.relation.inner)

    def outermost_window(
        self, var: IndexVar, scope: Scope
    ) -> tuple[list[p.Stmt], Ends | None, Scope]:
        return self.recovery.outermost_window(self.relation.outer, scope)


class FuseLoops(Loops[Fuse]):
    """Loops over pairs."""

    def iterate(self, loop: Forall, var: IndexVar, window: Range | None, scope: Scope) -> p.Block:
        """A loop over pairs as a nest, or along the positions of the operand that drives it."""
        fuse, recovery = self.relation, self.recovery
        driver = driver_of(self.ctx, loop.body, fuse.fused, window, scope)
        if driver is not None and driver.scattered and window is not None:
            return Places(self.ctx, self.iteration.lower, driver).loop(loop, window, scope)
        if driver is not None:
            segments = by_segments if self.ctx.on_gpu else None
            runs = None if self.ctx.on_gpu else partial(SegmentRuns, self.iteration.walk)
            tracked = Tracked(recovery, self.iteration.lower, segments, runs)
            return tracked.loop(loop, driver, window, scope)
        code, first, scope = recovery.values(fuse.outer, scope)
        more, second, scope = recovery.values(fuse.inner, scope)
        code += more
        if window is not None and window.pos is not None:
            if window == scope.bounds.ranges.get(window.pos.child):
                window = None  # all pairs
            else:
                found, window, scope = coordinate_window(recovery, window, scope)
                code += found
        inner = replace(loop, var=fuse.inner)
        outer = Forall(fuse.outer, inner)
        if window is not None:
            size = second.size
            # From the row of the first pair up to the row of the last.
            some = arithmetic("max", size, Value(1))
            last = (window.hi + some - 1) / some
            rows = Range(first.lo + window.lo / some, first.lo + last)
            stretch = Stretch(fuse.outer, first.lo, window.lo, window.hi, size, second.lo)
            scope = scope.narrow(fuse.outer, rows).stretch(fuse.inner, stretch)
        return block(*code, self.iteration.lower(outer, scope))

    def known_value(self, body: Stmt, var: IndexVar, value: p.Name, scope: Scope) -> p.Block:
        outer, inner = self.relation.outer, self.relation.inner
        code, first, scope = self.recovery.values(outer, scope)
        more, second, scope = self.recovery.values(inner, scope)
        a, b = first.lo + value / second.size, second.lo + value % second.size
        # The inner value is recovered first, outside of any guard on the outer one.
        known, scope = scope.fresh(self.ctx.names.variables[inner])
        found = self.iteration.known_value(At(inner, body, value=known), outer, a, scope)
        return block(*code, *more, Declare(known, b, fixed=True), found)
