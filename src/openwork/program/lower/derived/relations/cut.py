"""Cuts: what split and divide have in common, tiles of a variable, here called runs.

A loop over the runs counts them. A loop within a known run iterates over a window of the parent.
Where the loop over places is outside the loop over runs, consecutive values are strided, and every
operand is looked up at one value.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeVar

from openwork.errors import InternalError
from openwork.index.nodes import IndexVar
from openwork.loops.nodes import Forall, ParallelUnit, Stmt, Tag, written
from openwork.loops.relations import Cut
from openwork.program import nodes as p
from openwork.program.lower.base.header import Header
from openwork.program.lower.base.ranges import Edges, Range, first_values
from openwork.program.lower.base.scope import Part, Scope
from openwork.program.lower.derived.driver import Driver, driver_of
from openwork.program.lower.derived.iterate import Loops
from openwork.program.lower.derived.recovery import (
    ZERO,
    Ends,
    Found,
    Values,
)
from openwork.program.lower.derived.tracked import Tracked
from openwork.program.lower.derived.windows import parents_within
from openwork.program.lower.walk.balance import balance_runs
from openwork.program.nodes import Declare, Expr, If, arithmetic, block, compare
from openwork.tree import replace, walk

C = TypeVar("C", bound=Cut)


class CutValues(Values[C]):
    """The number of runs, and the places within one."""

    @abstractmethod
    def runs(self, whole: Range) -> Range:
        """The range of run numbers of `whole`, which is present."""

    @abstractmethod
    def longest(self, whole: Range) -> Range:
        """The places within the longest run."""

    @abstractmethod
    def length(self, whole: Range) -> Expr:
        """The length of all runs but the last, where they are equal."""

    @abstractmethod
    def run_at(self, whole: Range, at: Expr, scope: Scope) -> Range:
        """The values of the parent in run number `at`."""

    def values(self, var: IndexVar, scope: Scope) -> Found:
        code, whole, scope = self.recovery.values(self.relation.parent, scope)
        if self.relation.counts_runs(var):
            runs = first_values(1) if whole.missing else self.runs(whole)
            return code, runs, scope
        return code, self._within(whole, scope), scope

    def _within(self, whole: Range, scope: Scope) -> Range:
        """The places within a run: the current one if it is known, else the longest."""
        if whole.missing:
            return Range(ZERO, ZERO, missing=True)
        pos = whole.pos or whole.within
        if self.relation.outer not in scope.coords:
            places = self.longest(whole)
            return replace(places, within=pos, count=replace(places.count, longest=True))
        run = self.run(whole, scope)
        if run.count.fixed is None:
            return Range(ZERO, run.hi - run.lo, within=pos)
        return replace(first_values(run.count.fixed), within=pos)

    def value(self, var: IndexVar, scope: Scope) -> Expr | None:
        """The run of the parent's value, or its place within that run."""
        relation, value = self.relation, self.recovery.value(self.relation.parent, scope)
        if value is None:
            return None
        whole = self.recovery.known(relation.parent, scope)
        if var == relation.inner and relation.outer in scope.coords:
            return value - self.run(whole, scope).lo
        if not relation.even:
            return None
        sign = "/" if relation.counts_runs(var) else "%"
        return arithmetic(sign, value - whole.lo, self.length(whole))

    def run(self, whole: Range, scope: Scope) -> Range:
        """The values of the parent in the current run."""
        relation = self.relation
        if relation.inner in scope.bounds.runs:
            return scope.bounds.runs[relation.inner]
        at = scope.coords[relation.outer]
        run = self.run_at(whole, at, scope)
        run = replace(run, everything=False, count=replace(run.count, most=relation.length))
        if relation.outer not in scope.bounds.ranges:
            return run
        last = scope.bounds.ranges[relation.outer].hi - 1
        edges = Edges(compare("==", at, ZERO), compare("==", at, last))
        return replace(run, edges=edges.within(whole.edges))

    def decides(self, whole: Range) -> bool:
        """Whether there is work only at the positions themselves, if these are positions."""
        pos = whole.pos or whole.within
        return pos is None or self.ctx.drives(pos.access)

    def original(self, scope: Scope) -> tuple[Expr, Expr]:
        """The value of the parent from the run and the place in it, and whether it is in range."""
        whole = self.recovery.known(self.relation.parent, scope)
        at, inner = scope.coords[self.relation.outer], scope.coords[self.relation.inner]
        if not self.relation.even:
            run = self.run(whole, scope)
            return run.lo + inner, compare("<", run.lo + inner, run.hi)
        value = whole.lo + at * self.length(whole) + inner
        return value, compare("<", value, whole.hi)

    def complete(self, scope: Scope) -> bool:
        """Whether runs are complete here, so that every place in a run has a value."""
        if self.relation.inner in scope.bounds.full:
            return True
        length = self.relation.length
        whole = self.recovery.known(self.relation.parent, scope)
        return length is not None and whole.count.multiple % length == 0

    def outermost_window(
        self, var: IndexVar, scope: Scope
    ) -> tuple[list[p.Stmt], Ends | None, Scope]:
        relation = self.relation
        if relation.counts_runs(var):
            return super().outermost_window(var, scope)
        code, whole, scope = self.recovery.values(relation.parent, scope)
        if relation.outer not in scope.coords or whole.pos is not None:
            raise InternalError(f"the window of {var} is not known")
        run = self.run(whole, scope)
        more, up, scope = self.recovery.window_above(relation.parent, (run.lo, run.hi), scope)
        return [*code, *more], up, scope

    def window_above(
        self, var: IndexVar, window: Ends, scope: Scope
    ) -> tuple[list[p.Stmt], Ends, Scope]:
        relation = self.relation
        if relation.counts_runs(var):
            return super().window_above(var, window, scope)
        code, whole, scope = self.recovery.values(relation.parent, scope)
        run = self.run(whole, scope)
        shifted = run.lo + window[0], arithmetic("min", run.lo + window[1], run.hi)
        more, up, scope = self.recovery.window_above(relation.parent, shifted, scope)
        return [*code, *more], up, scope

    def position_window(
        self, var: IndexVar, scope: Scope
    ) -> tuple[list[p.Stmt], Range | None, Scope]:
        relation = self.relation
        if relation.counts_runs(var):
            return super().position_window(var, scope)
        code, whole, scope = self.recovery.values(relation.parent, scope)
        run = self.run(whole, scope)
        more, outer, scope = self.recovery.position_window(relation.parent, scope)
        if outer is not None:  # runs of runs count from the outer run's begin
            shifted = arithmetic("min", outer.lo + run.hi, outer.hi)
            edges = run.edges.within(outer.edges)
            run = replace(outer, lo=outer.lo + run.lo, hi=shifted, edges=edges)
        return [*code, *more], run, scope


class CutLoops(Loops[Cut]):
    """Loops over runs, and within one."""

    @property
    def _values(self) -> CutValues[Cut]:
        found = self.recovery.of(self.relation)
        if not isinstance(found, CutValues):
            raise InternalError(f"{self.relation} has no runs")
        return found

    def iterate(self, loop: Forall, var: IndexVar, window: Range | None, scope: Scope) -> p.Block:
        relation = self.relation
        if relation.counts_runs(var) and relation.inner in scope.coords:
            return self._strided(loop, var, window, scope)
        if not relation.counts_runs(var) and relation.outer in scope.coords:
            return self._run(loop, window, scope)
        return self._counted(loop, var, window, scope)

    def known_value(self, body: Stmt, var: IndexVar, value: p.Name, scope: Scope) -> p.Block:
        relation = self.relation
        if not {relation.outer, relation.inner} <= set(scope.coords):
            return self.iteration.lower(body, scope)
        code, _, scope = self.recovery.values(relation.parent, scope)
        up, inside = self._values.original(scope)
        inner = self.iteration.known_value(body, relation.parent, up, scope)
        return block(*code, inner if self._values.complete(scope) else If(inside, inner))

    def _run(self, loop: Forall, window: Range | None, scope: Scope) -> p.Block:
        """Within the current run: a window of the parent."""
        relation = self.relation
        code, whole, scope = self.recovery.values(relation.parent, scope)
        if whole.missing:
            return block(*code, self.iteration.iterate(loop, relation.parent, None, scope))
        run = self._values.run(whole, scope)
        if window is None:
            run = replace(run, counts=relation.inner)
            return block(*code, self.iteration.iterate(loop, relation.parent, run, scope))
        base = self.ctx.names.variables[relation.parent]
        lo, hi, scope = scope.fresh_ends(base)
        end = arithmetic("min", run.lo + window.hi, run.hi)
        # The range computed outside the run may exceed an incomplete one.
        before = scope.bounds.ranges.get(relation.inner)
        whole_run = run.count.fixed is not None or (before is not None and not before.count.longest)
        sure = window.count.fixed if whole_run else None
        if sure is not None:
            end = lo + sure
        code += [Declare(lo, run.lo + window.lo, fixed=True), Declare(hi, end, fixed=True)]
        edges = window.edges.within(run.edges)
        part = replace(run.part(lo, hi, sure), counts=window.counts, edges=edges)
        return block(*code, self.iteration.iterate(loop, relation.parent, part, scope))

    def _counted(self, loop: Forall, var: IndexVar, window: Range | None, scope: Scope) -> p.Block:
        """for (i0 = 0; i0 < runs; i0++) body"""
        relation, length = self.relation, self.relation.length
        code, whole, scope = self.recovery.values(var, scope)
        part = window or whole
        counter, scope = scope.fresh(self.ctx.names.variables[var])
        header = Header.of(self.ctx, loop, counter, part, scope)
        inner = self.ctx.reach_further(header.scope.bind(var, counter), written(loop.body))
        if not relation.counts_runs(var):
            return block(*code, header.finish(self.iteration.lower(loop.body, inner)))
        parent = scope.bounds.ranges[relation.parent]
        if length is not None and (parent.pos or parent.within) is not None:
            inner = replace(inner, whole=False)  # no entries, no runs
        counted = balance_runs(self.ctx, relation, loop.body, parent) if part is whole else None
        driver = self._in_order(loop, parent, scope)
        if driver is not None:
            return block(*code, self._by_parts(loop, header, driver, parent, inner))
        if not self._clones(loop, parent):
            body = self._in_run(loop.body, parent, inner, loop.tag)
            return block(*code, header.finish(body, counted=counted))
        if loop.tag is not None:
            body = self._either(loop, parent, counter, inner)
            return block(*code, header.finish(body, counted=counted))
        # The inner loop is cloned: for complete runs its trip count is a constant.
        body = self._in_run(loop.body, parent, inner, loop.tag)
        complete = self._in_run(loop.body, parent, inner.complete(relation.inner), loop.tag)
        limit, _ = scope.fresh(f"{counter.name}_full", lasting=True)
        some = arithmetic("max", part.lo, arithmetic("min", part.hi, parent.size / (length or 1)))
        first = replace(header, range=Range(part.lo, limit)).finish(complete, "complete runs")
        rest = replace(header, range=Range(limit, part.hi)).finish(body, "the rest")
        return block(*code, Declare(limit, some, fixed=True), first, replace(rest, unroll=0))

    def _clones(self, loop: Forall, parent: Range) -> bool:
        """Whether complete runs get code of their own."""
        length = self.relation.length
        return (
            length is not None
            and bool(parent.count.multiple % length)
            and not parent.missing
            and self._wants_full_runs(length, loop.body)
        )

    def _either(self, loop: Forall, parent: Range, counter: p.Name, scope: Scope) -> p.Block:
        """The body in a run, with code of its own for complete runs, whose length is a constant."""
        body = self._in_run(loop.body, parent, scope, loop.tag)
        complete = self._in_run(loop.body, parent, scope.complete(self.relation.inner), loop.tag)
        length = self.relation.length or 0
        whether = compare("<=", parent.lo + (counter + 1) * length, parent.hi)
        return block(If(whether, complete, body))

    def _in_order(self, loop: Forall, parent: Range, scope: Scope) -> Driver | None:
        """The operand of which threads take runs of positions, each once and in order."""
        tag, inner, pos = loop.tag, loop.body, parent.pos
        if tag is None or tag.unit is not ParallelUnit.CPUThread or tag.chunk is not None:
            return None
        if not isinstance(inner, Forall) or inner.var != self.relation.inner or pos is None:
            return None
        origin = self.ctx.provenance.origin(pos)
        driver = driver_of(self.ctx, inner.body, origin, parent, scope)
        several = driver is not None and len(driver.variables) > 1
        return driver if driver is not None and several and not driver.scattered else None

    def _by_parts(
        self, loop: Forall, header: Header, driver: Driver, parent: Range, scope: Scope
    ) -> p.Stmt:
        """Runs of positions, whose parents a thread tracks from one run to the next.

        Only the first and the last segment of all its runs may be another thread's as well.
        """
        counter = header.counter
        first, scope = scope.fresh(f"{counter.name}_first", lasting=True)
        limit, scope = scope.fresh(f"{counter.name}_limit", lasting=True)
        lo, hi, scope = scope.fresh_ends(f"{self.ctx.names.variables[self.relation.parent]}_part")
        begin, end = (self._values.run_at(parent, at, scope) for at in (first, limit - 1))
        taken = parent.part(lo, hi)
        tracked = Tracked(self.recovery, self.iteration.lower)
        parents, before, scope = tracked.first_parents(loop.body, driver, taken, scope)
        scope = scope.taking(driver.access, Part(taken, tuple(parents)))
        if self._clones(loop, parent):
            body = self._either(loop, parent, counter, scope)
        else:
            body = self._in_run(loop.body, parent, scope, loop.tag)
        made = header.finish(body)
        if not isinstance(made.by, p.Threads):
            raise InternalError(f"{loop.var} is not for threads")
        ends = (Declare(lo, begin.lo, fixed=True), Declare(hi, end.hi, fixed=True))
        serial = replace(made, begin=first, end=limit, by=None, reductions=())
        by = replace(made.by, limit=limit)
        return replace(made, var=first, body=block(*ends, *before, serial), by=by, unroll=0)

    def _in_run(self, body: Stmt, parent: Range, scope: Scope, tag: Tag | None) -> p.Block:
        """The body within a run; the run's ends are computed here rather than further in."""
        relation = self.relation
        if parent.missing or relation.outer not in scope.coords:
            return self.iteration.lower(body, scope)
        run = self._values.run(parent, scope)
        lo, hi, scope = scope.fresh_ends(self.ctx.names.variables[relation.parent])
        code: list[p.Stmt] = [Declare(lo, run.lo, fixed=True), Declare(hi, run.hi, fixed=True)]
        known = replace(run, lo=lo, hi=hi)
        if tag is not None and tag.unit is ParallelUnit.GPUBlock:
            # The threads of a block search for parents only among those of its own positions.
            more, known, scope = parents_within(self.recovery, relation, known, scope)
            code += more
        return block(*code, self.iteration.lower(body, scope.enter(relation.inner, known)))

    def _wants_full_runs(self, length: int, body: Stmt) -> bool:
        """Whether a loop over the places in a run is unrolled, or inside a vectorized one."""
        inner, provenance = self.relation.inner, self.ctx.provenance
        loops = [node for node in walk(body) if isinstance(node, Forall)]
        mine = [loop for loop in loops if inner in (loop.var, provenance.same_values(loop.var))]
        vector = [loop for loop in loops if loop.tag and loop.tag.unit is ParallelUnit.CPUVector]
        if self.ctx.on_gpu:  # where segments are better, unless the whole run is unrolled
            return any(
                loop.unroll in (0, length)
                or (loop.unroll is not None and loop.tag and loop.tag.unit.on_gpu)
                for loop in mine
            )
        return any(
            loop.unroll is not None or any(loop in walk(around) for around in vector)
            for loop in mine
        )

    def _strided(self, loop: Forall, var: IndexVar, window: Range | None, scope: Scope) -> p.Block:
        """for (i0 ...) { i = i0 * n + i1; if (i < size) body }"""
        code, whole, scope = self.recovery.values(var, scope)
        counter, scope = scope.fresh(self.ctx.names.variables[var])
        header = Header.of(self.ctx, loop, counter, window or whole, scope)
        inner = header.scope.bind(var, counter)
        value, inside = self._values.original(inner)
        body = self.iteration.known_value(loop.body, self.relation.parent, value, inner)
        return block(*code, header.finish(block(If(inside, body))))
