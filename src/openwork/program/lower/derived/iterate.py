"""Loops over derived variables, as loops over the variables that tensors are indexed by.

The relation that derived a variable decides how a loop over it runs: `Loops` has the interface, and
`relations/` the implementations. Threads take contiguous parts of a fused loop (`_in_parts`); GPU
units take its values (`_apart`), or the segments of a tile (`_by_segments`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from openwork.errors import InternalError
from openwork.frozen import frozen
from openwork.index.nodes import IndexVar
from openwork.loops.nodes import Forall, ParallelUnit, Stmt
from openwork.loops.relations import Cut, Relation
from openwork.program import nodes as p
from openwork.program.lower.base.context import Context
from openwork.program.lower.base.header import Header
from openwork.program.lower.base.nodes import At
from openwork.program.lower.base.ranges import Edges, Range
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.derived.driver import Driver
from openwork.program.lower.derived.recovery import Recovery
from openwork.program.lower.derived.segment_groups import SegmentGroups, reads_workspace
from openwork.program.lower.derived.tracked import Tracked
from openwork.program.nodes import Declare, Expr, Value, block, compare
from openwork.tree import replace

R = TypeVar("R", bound=Relation)
Lower = Callable[[Stmt, Scope], p.Block]
Walk = Callable[[Forall, Range | None, Scope], p.Block]

# How many parts a parallel fused loop is partitioned into.
_PARTS = 64


@frozen
class Iteration:
    """The lowering of loops over derived variables; `answers` holds a `Loops` per kind of relation.

    `walk` lowers a loop over an underived variable, confined to a window.
    """

    recovery: Recovery
    answers: Mapping[type[Relation], type[Loops[Any]]]
    lower: Lower
    walk: Walk

    @property
    def ctx(self) -> Context:
        """What stays the same throughout the kernel."""
        return self.recovery.ctx

    def _above(self, var: IndexVar) -> Loops[Any] | None:
        """The `Loops` of the relation that derived `var`; None if it is underived."""
        relation = self.ctx.provenance.above.get(var)
        return None if relation is None else self.answers[type(relation)](relation, self)

    def iterate(self, loop: Forall, var: IndexVar, window: Range | None, scope: Scope) -> p.Block:
        """The loop's body for the values of `var` in `window`; None: for all of them."""
        above = self._above(var)
        if above is None:
            return self.walk(replace(loop, var=var), window, scope)
        return above.iterate(loop, var, window, scope)

    def known_value(self, body: Stmt, var: IndexVar, value: Expr, scope: Scope) -> p.Block:
        """The body for one value of `var`."""
        name, scope = scope.fresh(self.ctx.names.variables[var])
        here = Declare(name, value, fixed=True)
        scope, above = scope.bind(var, name), self._above(var)
        if above is None:
            return block(here, self.lower(At(var, body), scope))
        return block(here, above.known_value(body, var, name, scope))

    def forall(self, loop: Forall, scope: Scope) -> p.Block:
        """The loop at the point that `scope` describes."""
        code, window, scope = self._window(loop.var, scope)
        tag = loop.tag
        if tag is not None and tag.unit is ParallelUnit.CPUThread and self._fuses(loop):
            return block(*code, self._in_parts(loop, window, scope))
        if tag is not None and tag.unit.on_gpu and self._fuses(loop):
            rows = self._by_segments(loop, scope)
            return block(*code, rows or self._apart(loop, window, scope))
        return block(*code, self.iterate(loop, loop.var, window, scope))

    def _fuses(self, loop: Forall) -> bool:
        """Whether a loop determines several fused variables, rather than counting runs of them."""
        provenance = self.ctx.provenance
        relation = provenance.above.get(loop.var)
        counts = relation is not None and relation.counts_runs(loop.var)
        return len(provenance.underived(loop.var)) > 1 and not counts

    def _by_segments(self, loop: Forall, scope: Scope) -> p.Block | None:
        """Map groups of threads to the segments of a tile, if the terms were precomputed."""
        tag, relation = loop.tag, self.ctx.provenance.above.get(loop.var)
        if tag is None or tag.reduction != "segment":
            return None
        if not isinstance(relation, Cut) or relation.length is None:
            return None
        run = scope.bounds.runs.get(loop.var)
        if run is None or run.pos is None or not reads_workspace(self.ctx, loop):
            return None
        variables = self.ctx.provenance.underived(run.pos.parent)
        first = run.pos.access.level_vars.index(variables[0])
        driver = Driver(run.pos.access, first, variables, run.pos.parent)
        if driver.scattered:
            return None
        tracked = Tracked(self.recovery, self.lower)
        return SegmentGroups(tracked, loop, driver).lower(run, scope)

    def _apart(self, loop: Forall, window: Range | None, scope: Scope) -> p.Block:
        """Map GPU units to values of a fused variable: each recovers its value on its own."""
        code, whole, scope = self.recovery.values(loop.var, scope)
        if whole.missing:  # the operand whose positions they are is absent here
            return block(*code, self.iterate(loop, loop.var, window, scope))
        counter, scope = scope.fresh(f"{self.ctx.names.variables[loop.var]}_at")
        header = Header.of(self.ctx, loop, counter, window or whole, scope)
        body = self.known_value(loop.body, loop.var, counter, header.scope)
        return block(*code, header.finish(body))

    def _window(self, var: IndexVar, scope: Scope) -> tuple[list[p.Stmt], Range | None, Scope]:
        """The part of its values that a loop is restricted to; None for all."""
        window, stretch = scope.bounds.windows.get(var), scope.bounds.stretches.get(var)
        if stretch is not None:
            outer = self.recovery.value(stretch.outer, scope)
            if outer is None:
                raise InternalError(f"{stretch.outer} is not known around {var}")
            window = stretch.window(outer)
        if window is None:
            return [], None, scope
        first, last, scope = scope.fresh_ends(self.ctx.names.variables[var])
        code = [Declare(first, window.lo, fixed=True), Declare(last, window.hi, fixed=True)]
        return [*code], replace(window, lo=first, hi=last), scope

    def _in_parts(self, loop: Forall, window: Range | None, scope: Scope) -> p.Block:
        """A parallel fused loop: partitioned into parts, each of which is a serial loop."""
        code, whole, scope = self.recovery.values(loop.var, scope)
        whole = window or whole
        base = self.ctx.names.variables[loop.var]
        part, scope = scope.fresh(f"{base}_part")
        header = Header.of(self.ctx, loop, part, Range(Value(0), Value(_PARTS)), scope)
        first, inner = header.scope.fresh(f"{base}_lo")
        last, inner = inner.fresh(f"{base}_hi")

        def cut(n: Expr) -> Expr:
            return whole.lo + whole.size / _PARTS * n + whole.size % _PARTS * n / _PARTS

        edges = Edges(compare("==", part, 0), compare("==", part, _PARTS - 1))
        bounds = replace(whole.part(first, last), edges=edges.within(whole.edges))
        serial = self.iterate(replace(loop, tag=None), loop.var, bounds, inner)
        body = block(
            Declare(first, cut(part), fixed=True), Declare(last, cut(part + 1), fixed=True), serial
        )
        return block(*code, header.finish(body))


@frozen
class Loops(ABC, Generic[R]):
    """How loops over the children of a relation are lowered; `var` is one of them."""

    relation: R
    iteration: Iteration

    @property
    def ctx(self) -> Context:
        """What stays the same throughout the kernel."""
        return self.iteration.ctx

    @property
    def recovery(self) -> Recovery:
        """The recovery of values and bounds."""
        return self.iteration.recovery

    @abstractmethod
    def iterate(self, loop: Forall, var: IndexVar, window: Range | None, scope: Scope) -> p.Block:
        """The loop's body for the values of `var` in `window`; None: for all of them."""

    @abstractmethod
    def known_value(self, body: Stmt, var: IndexVar, value: p.Name, scope: Scope) -> p.Block:
        """The body for one value of `var`, which is bound."""
