"""Loops over derived variables, as loops over the variables that tensors are indexed by.

A loop over a variable that is only a part of what it derives from counts (`counted`). One that
completes it runs over a window of the original: within a run of a split, the window is that run
(`iterate`). A loop over a fused variable is a nest over both, confined to a stretch of their pairs
(`_nested`), or a single loop along the positions of the one operand that drives it, above which
parents are tracked (`tracked.py`). Where consecutive values are apart, every operand is looked up
at one value (`_strided`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from openwork.errors import InternalError
from openwork.index.nodes import IndexVar
from openwork.loops.nodes import Forall, ParallelUnit, Stmt, Tag, written
from openwork.loops.relations import Bound, Coord, Divide, Fuse, Pos, Precompute, Split
from openwork.program import nodes as p
from openwork.program.lower.base.context import Context
from openwork.program.lower.base.header import Header
from openwork.program.lower.base.nodes import At
from openwork.program.lower.base.scope import Range, Scope, Stretch
from openwork.program.lower.derived.driver import Driver, driver_of
from openwork.program.lower.derived.recover import Recovery
from openwork.program.lower.derived.segment_groups import Rowwise, reads_workspace
from openwork.program.lower.derived.segments import Segments
from openwork.program.lower.derived.tracked import Tracked
from openwork.program.lower.derived.windows import ends_there
from openwork.program.lower.walk.balance import balance_runs
from openwork.program.nodes import Declare, Expr, If, Value, arithmetic, block, compare
from openwork.tree import walk

Lower = Callable[[Stmt, Scope], p.Block]
Walk = Callable[[Forall, Range | None, Scope], p.Block]

# How many parts a fused loop is cut into when threads share it.
_PARTS = 64


@dataclass(frozen=True)
class Iteration:
    """The lowering of loops over derived variables.

    `walk` lowers a loop over an underived variable, confined to a window.
    """

    ctx: Context
    lower: Lower
    walk: Walk

    @property
    def recovery(self) -> Recovery:
        """The recovery of values and bounds."""
        return Recovery(self.ctx)

    def forall(self, loop: Forall, scope: Scope) -> p.Block:
        """The loop at the place that `scope` describes."""
        code, window, scope = self._window(loop.var, scope)
        tag = loop.tag
        threads = tag is not None and tag.unit is ParallelUnit.CPUThread
        if threads and len(self.ctx.provenance.underived(loop.var)) > 1 and self._completes(loop):
            return block(*code, self._in_parts(loop, window, scope))
        if tag is not None and tag.unit.on_gpu and self._fuses(loop):
            rows = self._by_segments(loop, scope)
            return block(*code, rows or self._apart(loop, window, scope))
        return block(*code, self.iterate(loop, loop.var, window, scope))

    def _completes(self, loop: Forall) -> bool:
        """Whether a loop over several fused variables is no plain count."""
        relation = self.ctx.provenance.above.get(loop.var)
        return not (isinstance(relation, (Split, Divide)) and relation.outer == loop.var)

    def _fuses(self, loop: Forall) -> bool:
        """Whether a loop completes several fused variables."""
        several = len(self.ctx.provenance.underived(loop.var)) > 1
        return several and self._completes(loop)

    def _by_segments(self, loop: Forall, scope: Scope) -> p.Block | None:
        """Threads by segments of a tile, where what they reduce was computed ahead."""
        tag, relation = loop.tag, self.ctx.provenance.above.get(loop.var)
        tracked = Tracked(self.ctx, self.lower)
        if tag is None or tag.reduction != "segment" or not isinstance(relation, Split):
            return None
        run = scope.runs.get(loop.var)
        if run is None or run.pos is None or not reads_workspace(tracked, loop):
            return None
        variables = self.ctx.provenance.underived(run.pos.parent)
        first = run.pos.access.level_vars.index(variables[0])
        driver = Driver(run.pos.access, first, variables, run.pos.parent)
        return Rowwise(tracked, loop, driver).lower(run, scope)

    def _apart(self, loop: Forall, window: Range | None, scope: Scope) -> p.Block:
        """Values of a fused variable that units of a GPU share: each is looked up by itself."""
        code, whole, scope = self.recovery.values(loop.var, scope)
        if whole.missing:  # the operand whose positions they are is absent here
            return block(*code, self.iterate(loop, loop.var, window, scope))
        counter, scope = scope.fresh(f"{self.ctx.names.variables[loop.var]}_at")
        header = Header.of(self.ctx, loop, counter, window or whole, scope)
        body = self._known_value(loop.body, loop.var, counter, header.scope)
        return block(*code, header.finish(body))

    def _window(self, var: IndexVar, scope: Scope) -> tuple[list[p.Stmt], Range | None, Scope]:
        """The part of its values that a loop is to run over; None for all."""
        window, stretch = scope.windows.get(var), scope.stretches.get(var)
        if stretch is not None:
            outer = self.recovery.value(stretch.outer, scope)
            if outer is None:
                raise InternalError(f"{stretch.outer} is not known around {var}")
            window = stretch.window(outer)
        if window is None:
            return [], None, scope
        base = self.ctx.names.variables[var]
        first, scope = scope.fresh(f"{base}_lo", lasting=True)
        last, scope = scope.fresh(f"{base}_hi", lasting=True)
        code = [Declare(first, window.lo, fixed=True), Declare(last, window.hi, fixed=True)]
        return [*code], replace(window, lo=first, hi=last), scope

    def iterate(self, loop: Forall, var: IndexVar, window: Range | None, scope: Scope) -> p.Block:
        """The loop's body for the values of `var` in `window`, all if there is none."""
        relation = self.ctx.provenance.above.get(var)
        match relation:
            case None:
                return self.walk(replace(loop, var=var), window, scope)
            case Precompute(parent=parent):
                return self.iterate(loop, parent, window, scope)
            case Bound(parent=parent):
                code, whole, scope = self.recovery.values(var, scope)
                return block(*code, self.iterate(loop, parent, window or whole, scope))
            case Fuse():
                return self._nested(loop, relation, window, scope)
            case Pos(parent=parent):
                code, whole, scope = self.recovery.values(var, scope)
                if whole.missing:
                    return block(*code, self.iterate(loop, parent, None, scope))
                return block(*code, self._original(loop, relation, window or whole, scope))
            case Coord():
                return self._coordinates(loop, relation, window, scope)
            case Split() | Divide() if relation.outer == var:
                if relation.inner in scope.coords:
                    return self._strided(loop, var, relation, window, scope)
                return self._counted(loop, var, window, scope)
            case Split() | Divide():
                if relation.outer in scope.coords:
                    return self._run(loop, relation, window, scope)
                return self._counted(loop, var, window, scope)
        raise InternalError(f"no iteration over {var}")

    # -- parts of a variable --------------------------------------------------------------------

    def _run(
        self, loop: Forall, relation: Split | Divide, window: Range | None, scope: Scope
    ) -> p.Block:
        """Within a run of a split whose number is known: a window of the parent."""
        code, whole, scope = self.recovery.values(relation.parent, scope)
        if whole.missing:
            return block(*code, self.iterate(loop, relation.parent, None, scope))
        run = self.recovery.run(relation, whole, scope)
        if window is None:
            run = replace(run, counts=relation.inner)
            return block(*code, self.iterate(loop, relation.parent, run, scope))
        base = self.ctx.names.variables[relation.parent]
        lo, scope = scope.fresh(f"{base}_lo", lasting=True)
        hi, scope = scope.fresh(f"{base}_hi", lasting=True)
        end = arithmetic("min", run.lo + window.hi, run.hi)
        # What was known before the run was may be more than there is in an incomplete one.
        before = scope.ranges.get(relation.inner)
        whole_run = run.fixed is not None or (before is not None and not before.longest)
        sure = window.fixed if whole_run else None
        if sure is not None:
            end = lo + sure
        code += [Declare(lo, run.lo + window.lo, fixed=True), Declare(hi, end, fixed=True)]
        part = replace(
            run, lo=lo, hi=hi, fixed=sure, multiple=sure or 1, counts=window.counts,
            first=ends_there(run.first, window.first), last=ends_there(run.last, window.last),
        )  # fmt: skip
        return block(*code, self.iterate(loop, relation.parent, part, scope))

    def _counted(self, loop: Forall, var: IndexVar, window: Range | None, scope: Scope) -> p.Block:
        """for (i0 = 0; i0 < runs; i0++) body"""
        code, whole, scope = self.recovery.values(var, scope)
        part = window or whole
        counter, scope = scope.fresh(self.ctx.names.variables[var])
        header = Header.of(self.ctx, loop, counter, part, scope)
        inner = self.ctx.reach_further(header.scope.bind(var, counter), written(loop.body))
        relation = self.ctx.provenance.above.get(var)
        if not isinstance(relation, (Split, Divide)) or relation.outer != var:
            return block(*code, header.finish(self.lower(loop.body, inner)))
        parent = scope.ranges[relation.parent]
        if isinstance(relation, Split) and (parent.pos or parent.within) is not None:
            inner = replace(inner, whole=False)  # no entries, no runs
        counted = None
        if isinstance(relation, Split) and part is whole:
            counted = balance_runs(self.ctx, relation, loop.body, parent)
        body = self._in_run(relation, loop.body, parent, inner, loop.tag)
        clones = (
            isinstance(relation, Split)
            and bool(parent.multiple % relation.factor)
            and not parent.missing
            and self._wants_full_runs(relation, loop.body)
        )
        if not clones or not isinstance(relation, Split):
            return block(*code, header.finish(body, counted=counted))
        # The loop inside is cloned: for complete runs its length is a constant.
        full = replace(inner, full=inner.full | {relation.inner})
        complete = self._in_run(relation, loop.body, parent, full, loop.tag)
        if loop.tag is not None:
            whether = compare("<=", parent.lo + (counter + 1) * relation.factor, parent.hi)
            return block(*code, header.finish(block(If(whether, complete, body)), counted=counted))
        limit, _ = scope.fresh(f"{counter.name}_full", lasting=True)
        some = arithmetic("max", part.lo, arithmetic("min", part.hi, parent.size / relation.factor))
        first = replace(header, range=Range(part.lo, limit)).finish(complete, "complete runs")
        rest = replace(header, range=Range(limit, part.hi)).finish(body, "the rest")
        return block(*code, Declare(limit, some, fixed=True), first, replace(rest, unroll=0))

    def _in_run(
        self,
        relation: Split | Divide,
        body: Stmt,
        parent: Range,
        scope: Scope,
        tag: Tag | None = None,
    ) -> p.Block:
        """The body within a run, whose ends are worked out at once rather than further in."""
        if parent.missing or relation.outer not in scope.coords:
            return self.lower(body, scope)
        run = self.recovery.run(relation, parent, scope)
        base = self.ctx.names.variables[relation.parent]
        lo, scope = scope.fresh(f"{base}_lo", lasting=True)
        hi, scope = scope.fresh(f"{base}_hi", lasting=True)
        code: list[p.Stmt] = [Declare(lo, run.lo, fixed=True), Declare(hi, run.hi, fixed=True)]
        known = replace(run, lo=lo, hi=hi)
        if tag is not None and tag.unit is ParallelUnit.GPUBlock:
            # The threads of a block search for parents among those of its own positions.
            more, known, scope = self.recovery.parents_within(relation, known, scope)
            code += more
        scope = replace(scope, runs={**scope.runs, relation.inner: known})
        return block(*code, self.lower(body, scope))

    def _wants_full_runs(self, relation: Split, body: Stmt) -> bool:
        """Whether a loop over the places in a run is unrolled, or inside of a vectorized one."""
        inner = relation.inner
        loops = [node for node in walk(body) if isinstance(node, Forall)]
        mine = [
            loop for loop in loops if inner in (loop.var, self.ctx.provenance.same_values(loop.var))
        ]
        vector = [loop for loop in loops if loop.tag and loop.tag.unit is ParallelUnit.CPUVector]
        if self.ctx.on_gpu:  # where segments are better, unless all of a run is written out
            return any(
                loop.unroll in (0, relation.factor)
                or (loop.unroll is not None and loop.tag and loop.tag.unit.on_gpu)
                for loop in mine
            )
        return any(
            loop.unroll is not None or any(loop in walk(around) for around in vector)
            for loop in mine
        )

    def _strided(
        self,
        loop: Forall,
        var: IndexVar,
        relation: Split | Divide,
        window: Range | None,
        scope: Scope,
    ) -> p.Block:
        """for (i0 ...) { i = i0 * n + i1; if (i < size) body }"""
        code, whole, scope = self.recovery.values(var, scope)
        counter, scope = scope.fresh(self.ctx.names.variables[var])
        header = Header.of(self.ctx, loop, counter, window or whole, scope)
        inner = header.scope.bind(var, counter)
        value, inside = self.recovery.original(relation, inner)
        body = self._known_value(loop.body, relation.parent, value, inner)
        return block(*code, header.finish(block(If(inside, body))))

    def _known_value(self, body: Stmt, var: IndexVar, value: Expr, scope: Scope) -> p.Block:
        """The body where `var` has one value."""
        name, scope = scope.fresh(self.ctx.names.variables[var])
        here = Declare(name, value, fixed=True)
        relation = self.ctx.provenance.above.get(var)
        scope = scope.bind(var, name)
        match relation:
            case None:
                return block(here, self.lower(At(var, body), scope))
            case Precompute(parent=parent) | Bound(parent=parent):
                return block(here, self._known_value(body, parent, name, scope))
            case Split() | Divide() if {relation.outer, relation.inner} <= set(scope.coords):
                code, _, scope = self.recovery.values(relation.parent, scope)
                up, inside = self.recovery.original(relation, scope)
                inner = self._known_value(body, relation.parent, up, scope)
                full = isinstance(relation, Split) and self.recovery.complete(relation, scope)
                return block(here, *code, inner if full else If(inside, inner))
            case Split() | Divide():
                return block(here, self.lower(body, scope))
            case Fuse(outer=outer, inner=inner_var):
                code, first, scope = self.recovery.values(outer, scope)
                more, second, scope = self.recovery.values(inner_var, scope)
                a = first.lo + name / second.size
                b = second.lo + name % second.size
                # The inner value is worked out first, outside of whatever the outer one guards.
                held, scope = scope.fresh(self.ctx.names.variables[inner_var])
                found = self._known_value(At(inner_var, body, value=held), outer, a, scope)
                return block(here, *code, *more, Declare(held, b, fixed=True), found)
            case Coord(parent=parent):
                pos = self.recovery.space(parent)
                fuse = self.recovery.fused(pos)
                last = self.ctx.provenance.underived(pos.parent)[-1]
                origin = last if fuse is None else fuse.fused
                return block(here, self._known_value(body, origin, name, scope))
            case Pos():
                return block(here, Tracked(self.ctx, self.lower).at(relation, body, name, scope))
        raise InternalError(f"{var} cannot be known alone")

    def at(self, stmt: At, value: Expr, scope: Scope) -> p.Block:
        """The body where a variable has a value that was worked out further out."""
        return self._known_value(stmt.body, stmt.var, value, scope)

    # -- fused variables ------------------------------------------------------------------------

    def _nested(self, loop: Forall, fuse: Fuse, window: Range | None, scope: Scope) -> p.Block:
        """A loop over pairs as a nest, or along the positions of the operand that drives it."""
        driver = driver_of(self.ctx, loop.body, fuse.fused, window, scope)
        if driver is not None:
            segments = Segments if self.ctx.on_gpu else None
            return Tracked(self.ctx, self.lower, segments).loop(loop, driver, window, scope)
        code, first, scope = self.recovery.values(fuse.outer, scope)
        more, second, scope = self.recovery.values(fuse.inner, scope)
        code += more
        if window is not None and window.pos is not None:
            if window == scope.ranges.get(window.pos.child):
                window = None  # all of it
            else:
                found, window, scope = self.recovery.coordinate_window(window, scope)
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
        return block(*code, self.lower(outer, scope))

    def _in_parts(self, loop: Forall, window: Range | None, scope: Scope) -> p.Block:
        """A fused loop that threads share: cut into parts, each a serial loop over its part."""
        code, whole, scope = self.recovery.values(loop.var, scope)
        whole = window or whole
        base = self.ctx.names.variables[loop.var]
        part, scope = scope.fresh(f"{base}_part")
        header = Header.of(self.ctx, loop, part, Range(Value(0), Value(_PARTS)), scope)
        first, inner = header.scope.fresh(f"{base}_lo")
        last, inner = inner.fresh(f"{base}_hi")

        def cut(n: Expr) -> Expr:
            return whole.lo + whole.size / _PARTS * n + whole.size % _PARTS * n / _PARTS

        bounds = replace(
            whole, lo=first, hi=last, fixed=None, multiple=1,
            first=ends_there(whole.first, compare("==", part, 0)),
            last=ends_there(whole.last, compare("==", part, _PARTS - 1)),
        )  # fmt: skip
        serial = self.iterate(replace(loop, tag=None), loop.var, bounds, inner)
        body = block(
            Declare(first, cut(part), fixed=True), Declare(last, cut(part + 1), fixed=True), serial
        )
        return block(*code, header.finish(body))

    # -- coordinates of positions ---------------------------------------------------------------

    def _coordinates(
        self, loop: Forall, relation: Coord, window: Range | None, scope: Scope
    ) -> p.Block:
        """Coordinates of a range of positions: all of them are those positions themselves."""
        if window is None:
            return self.iterate(loop, relation.parent, None, scope)
        return self._original(loop, self.recovery.space(relation.parent), window, scope)

    def _original(self, loop: Forall, pos: Pos, window: Range, scope: Scope) -> p.Block:
        """A window of positions, or of the coordinates that belong to them."""
        fuse = self.recovery.fused(pos)
        if fuse is not None:
            return self._nested(loop, fuse, window, scope)
        (var,) = self.ctx.provenance.underived(pos.parent)
        return self.walk(replace(loop, var=var), window, scope)
