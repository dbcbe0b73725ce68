"""The shapes of loops: all coordinates of a dimension, one operand's segment, or a merge."""

from __future__ import annotations

from collections.abc import Sequence

from openwork.frozen import frozen
from openwork.index.nodes import Access
from openwork.loops.nodes import Assign
from openwork.program import nodes as p
from openwork.program.lower.base.header import Header
from openwork.program.lower.base.ranges import Count, Range
from openwork.program.lower.base.scope import Scope, Tile
from openwork.program.lower.walk.balance import balance
from openwork.program.lower.walk.cases import Cases
from openwork.program.lower.walk.merge import merge_loop
from openwork.program.lower.walk.merge_many import merge_many
from openwork.program.lower.walk.prefetch import (
    asked_for,
    prefetched_entries,
    prefetched_rows,
    prefetches,
)
from openwork.program.lower.walk.walkers import Participant, Walker, make_walker
from openwork.program.nodes import Declare, Expr, Name, Value, block, compare
from openwork.tree import replace

# Incomplete runs of at most so many values are unrolled, with a test for each.
_MOST_TESTED = 32


@frozen
class Shape:
    """A loop over an underived variable, in one of three shapes.

    `window`: the coordinates that it is confined to. `positions`: those of one operand.
    """

    cases: Cases
    window: Range | None = None
    positions: Range | None = None

    def dimension(self, walked: set[Access]) -> p.Block:
        """for (i = 0; i < size; i++) { i is in A? ...; body }"""
        cases, ctx = self.cases, self.cases.ctx
        scope = cases.completeness(cases.always_works)
        parts = [part for part in cases.parts if part.access in walked]
        loop = replace(cases.loop, tag=None) if parts else cases.loop
        walkers, scope = self._walkers(parts, scope)
        values = self.window or ctx.everything(cases.var, scope)
        var, scope = scope.fresh(cases.name)
        inside = None
        few = values.count.most is not None and values.count.most <= _MOST_TESTED
        if not parts and cases.loop.unroll == 0 and values.count.fixed is None and few:
            # Unrolled with a test for each, so that accumulators can stay in registers.
            inside = compare("<", var, values.hi)
            count = replace(values.count, fixed=values.count.most)
            values = replace(values, count=count)
        counter, values, recovered, scope = self._counter(var, values, scope)
        header = Header.of(ctx, loop, counter, values, scope)
        # Only now, because races between iterations depend on the enclosing scope.
        scope = header.scope.bind(cases.var, var)
        if counter != var and values.counts is not None:
            scope = scope.bind(values.counts, counter)
        code: list[p.Stmt] = [*recovered]
        present: dict[Access, Expr] = {}
        for walker in walkers:
            here, scope = scope.fresh(f"in{ctx.names.of(walker.part.access.tensor)}", "bool")
            there = compare("<", walker.position, walker.end)
            same = compare("==", walker.coordinate_at(walker.position), var)
            code.append(Declare(here, p.Binary("&&", there, same), fixed=True))
            code += walker.find_segment(var)
            present[walker.part.access] = here
        body = block(*code[len(recovered) :], cases.at(present, walkers, scope, everywhere=True))
        if isinstance(values.count.fixed, int) and inside is not None:
            body = block(p.If(inside, body))
        body = block(*recovered, body)
        steps = [walker.advance(present[walker.part.access]) for walker in walkers]
        made = header.finish(
            block(body, *steps),
            f"every {cases.said}" if values.everything else f"{cases.said} of this run",
            counted=balance(ctx, cases.parts) if values.everything else None,
            simd=self._independent(walkers),
        )
        return block(*_declarations(walkers), *self._reserve([(values.lo, values.hi)]), made)

    def _counter(
        self, var: Name, values: Range, scope: Scope
    ) -> tuple[Name, Range, list[p.Stmt], Scope]:
        """Count a window of constant length from zero, so that compilers see the constant."""
        if values.count.fixed is None or (values.lo == Value(0) and values.counts is None):
            return var, values, [], scope
        counter, scope = scope.fresh(f"{self.cases.name}_at")
        counted = replace(values, lo=Value(0), hi=values.size)
        return counter, counted, [Declare(var, values.lo + counter, fixed=True)], scope

    def position(self, driver: Access) -> p.Block:
        """for (p = pos[parent]; p < pos[parent + 1]; p++) { j = crd[p]; body }"""
        return self._along(driver)[0]

    def _along(self, driver: Access) -> tuple[p.Block, Range | None]:
        """A loop over a segment, and its positions; None where several share a coordinate."""
        cases, ctx = self.cases, self.cases.ctx
        part = next(part for part in cases.parts if part.access == driver)
        scope = cases.completeness(ctx.writes_all_of(cases.lhs, driver))
        unique = driver.tensor.format.levels[part.walk or 0].unique
        (walker,), scope = self._walkers([part], scope, declared=not unique)
        if walker.segment is not None:
            room = self._reserve([(walker.position, walker.end)])
            return block(*walker.declare(), *room, merge_loop(cases, [walker], scope)), None
        code, values, scope = self._positions(walker, scope)
        counter, values, recovered, scope = self._count_fixed(walker.position, values, scope)
        header = Header.of(ctx, cases.loop, counter, values, scope)
        var, scope = header.scope.fresh(cases.name)
        scope = scope.bind(cases.var, var)
        here = Declare(var, walker.coordinate_at(walker.position), fixed=True)
        visit = cases.at({driver: None}, [walker], scope)
        # At the end: control flow ahead of them keeps gcc from vectorizing register tiles.
        # Prefetches of the schedule replace the automatic ones.
        ahead = asked_for(ctx, cases.loop, scope, walker) or [
            *prefetches(ctx, cases.parts, cases.scope, walker, var),
            *prefetched_rows(ctx, cases.parts, cases.scope, walker),
            *prefetched_entries(ctx, walker),
        ]
        ahead = [] if scope.counting else ahead
        body = block(*recovered, here, visit, *ahead)
        comment = f"stored {cases.said} of {ctx.names.said(driver.tensor)}"
        counted = None if walker.confined else balance(ctx, [part])
        made = header.finish(body, comment, counted=counted, run=True)
        return block(*code, *self._reserve([(values.lo, values.hi)]), made), values

    def stored(
        self, met: Name, drivers: Sequence[frozenset[Access]], walked: set[Access]
    ) -> tuple[p.Block, Expr]:
        """The loop over stored entries, and how many coordinates have one.

        `met` counts them where the length of a segment does not tell.
        """
        cases = self.cases
        one = next(iter(drivers[0])) if len(set(drivers)) == 1 and len(drivers[0]) == 1 else None
        if one is not None:
            part = next(part for part in cases.parts if part.access == one)
            alone = [p for p in cases.parts if p.sparse] == [part] and not part.searched
            if alone and one.tensor.format.levels[part.walk or 0].unique:
                made, values = self._along(one)
                if values is not None:
                    return made, values.size
        tallied = replace(cases, tally=met, loop=replace(cases.loop, tag=None))
        shape = replace(self, cases=tallied)
        made = shape.merge(walked) if one is None else shape.position(one)
        return block(Declare(met, Value(0)), made), met

    def _positions(self, walker: Walker, scope: Scope) -> tuple[list[p.Stmt], Range, Scope]:
        """The positions to traverse; a confined segment is searched for before the loop."""
        if walker.window is None or walker.part_of_run is not None:
            begin, end = walker.bounds()
            own = self.positions if walker.part_of_run is not None else None
            count = Count(None if own is None else own.count.fixed)
            return [], Range(begin, end, count), scope
        first, scope = scope.fresh(f"{walker.position.name}_lo", lasting=True)
        last, scope = scope.fresh(f"{walker.position.name}_hi", lasting=True)
        code = replace(walker, position=first, end=last).declare()
        level = walker.part.access.tensor.format.levels[walker.level]
        one_each = level.unique and level.compact  # at each coordinate of the window, or none
        most = walker.window.count.most if one_each else None
        return code, Range(first, last, Count(most=most)), scope

    def _count_fixed(
        self, position: Name, values: Range, scope: Scope
    ) -> tuple[Name, Range, list[p.Stmt], Scope]:
        """Count positions from zero where their number is a constant."""
        if values.count.fixed is None:
            return position, values, [], scope
        counter, scope = scope.fresh(f"{position.name}_at")
        counted = replace(values, lo=Value(0), hi=Value(values.count.fixed))
        return counter, counted, [Declare(position, values.lo + counter, fixed=True)], scope

    def merge(self, walked: set[Access]) -> p.Block:
        """while (pA < pA_end && pB < pB_end) { i = min(iA, iB); cases; advance }, and so on"""
        cases = self.cases
        scope = cases.completeness(False)
        parts = [part for part in cases.parts if part.access in walked and part.walk is not None]
        walkers, scope = self._walkers(parts, scope)
        groups: list[frozenset[Access]] = []
        for point in cases.points:
            driver = frozenset(point.present & walked)
            if driver not in groups:
                groups.append(driver)
        code = [*_declarations(walkers), *self._reserve([(w.position, w.end) for w in walkers])]
        if cases.lattice is None:
            return block(*code, merge_many(cases, walkers, scope))
        for group in groups:
            some = [w for w in walkers if w.part.access in group]
            code.append(merge_loop(cases, some, scope))
        return block(*code)

    def tile(self, tile: Tile) -> p.Block:
        """for (at = 0; at < width; at++) { j = first + at; body }"""
        cases = self.cases
        scope = cases.scope
        if tile.width == 1:
            return cases.at({}, [], scope.bind(cases.var, tile.first))
        at, scope = scope.fresh(tile.counter)
        return block(tile.loop(at, cases.at({}, [], scope.bind(cases.var, tile.first + at))))

    # -- helpers --------------------------------------------------------------------------------

    def _walkers(
        self, parts: list[Participant], scope: Scope, declared: bool = True
    ) -> tuple[list[Walker], Scope]:
        cases, ctx = self.cases, self.cases.ctx
        walkers = []
        for part in parts:
            window, part_of_run = self._confines(part)
            walker, scope = make_walker(
                part,
                cases.name,
                scope,
                ctx.names,
                ctx.workspaces,
                declared,
                window,
                part_of_run,
            )
            walkers.append(walker)
        return walkers, scope

    def _confines(self, part: Participant) -> tuple[Range | None, tuple[Expr, Expr] | None]:
        """The window of coordinates, and of positions, that a traversal is confined to."""
        own, window = self.positions, self.window
        part_of_run = None
        if own is not None and own.pos is not None and own.pos.access == part.access:
            part_of_run = (own.lo, own.hi)
        confined = window is not None and not window.everything
        return window if confined else None, part_of_run

    def _reserve(self, runs: list[tuple[Expr, Expr]]) -> list[p.Stmt]:
        """Reserve memory for everything that a loop over `runs` can append to the result."""
        cases, ctx = self.cases, self.cases.ctx
        lhs, appender = cases.lhs, cases.scope.appender
        level = len(cases.scope.reached(lhs))
        if appender is None or not ctx.is_result(lhs) or level not in appender.sparse:
            return []
        if lhs.level_vars[level] != cases.var:
            return []
        more: Expr = Value(0)
        for begin, end in runs:
            more = more + (end - begin)
        return appender.reserve(level, more)

    def _independent(self, walkers: list[Walker]) -> bool:
        """Whether iterations are independent and the body is straight-line code."""
        cases = self.cases
        body, lhs = cases.loop.body, cases.lhs
        return (
            isinstance(body, Assign)
            and not walkers
            and not any(part.sparse for part in cases.parts)
            and lhs not in cases.scope.accumulators
            and lhs.tensor not in cases.scope.sharing.atomic
            and bool(lhs.level_vars)
            and lhs.level_vars[-1] == cases.var
            and lhs.tensor.format.levels[-1].full
            and not cases.ctx.lists(lhs)
        )


def _declarations(walkers: list[Walker]) -> list[p.Stmt]:
    return [stmt for walker in walkers for stmt in walker.declare()]
