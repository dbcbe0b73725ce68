"""The shapes of loops: every coordinate of a dimension, one operand's run, or several merged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from openwork.errors import InternalError
from openwork.index.nodes import Access, IndexVar
from openwork.loops.nodes import Assign, Forall, Stmt, Where, written
from openwork.loops.plan import Plan
from openwork.loops.result import Shared
from openwork.merge.lattice import Lattice, Point
from openwork.program import nodes as p
from openwork.program.choice import as_choice
from openwork.program.context import Context
from openwork.program.nodes import Declare, Expr, Name, Value, block, compare, every
from openwork.program.parallel import share
from openwork.program.prefetch import prefetches
from openwork.program.scope import Place, Scope, Tile
from openwork.program.walkers import Participant, Walker, make_walker, take_steps, without_walk
from openwork.tree import walk

Lower = Callable[[Stmt, Scope], p.Block]


@dataclass
class Loop:
    """One loop being lowered: its lattice, what takes part, and the place it stands at."""

    ctx: Context
    lower: Lower
    loop: Forall
    lattice: Lattice
    parts: list[Participant]
    scope: Scope

    @property
    def var(self) -> IndexVar:
        return self.loop.var

    @property
    def lhs(self) -> Access:
        return written(self.loop.body)

    @property
    def name(self) -> str:
        return self.ctx.names.variables[self.var]

    @property
    def cases(self) -> list[Point]:
        """The points in the order they are tried; trailing ones without a body change nothing."""
        points = list(self.lattice.points)
        while points and points[-1].body is None:
            points.pop()
        return points

    # -- the three shapes -----------------------------------------------------------------------

    def dimension(self, walked: set[Access]) -> p.Block:
        """for (i = 0; i < size; i++) { i is in A? ...; body }"""
        scope = self._completeness(self._always_works)
        parts = [part for part in self.parts if part.access in walked]
        scope = self._threads(scope, alone=not parts)
        walkers, scope = self._walkers(parts, scope)
        var, scope = scope.fresh(self.name)
        scope = scope.bind(self.var, var)
        code: list[p.Stmt] = []
        present: dict[Access, Expr] = {}
        for walker in walkers:
            here, scope = scope.fresh(f"in{self.ctx.names.of(walker.part.access.tensor)}", "bool")
            there = compare("<", walker.position, walker.end)
            same = compare("==", walker.coordinate_at(walker.position), var)
            code.append(Declare(here, p.Binary("&&", there, same), fixed=True))
            code += walker.find_segment(var)
            present[walker.part.access] = here
        body = block(*code, self._visit(present, walkers, scope, everywhere=True))
        steps = [walker.advance(present[walker.part.access]) for walker in walkers]
        loop = p.For(
            var,
            Value(0),
            self.ctx.names.extent(self.var),
            block(body, *steps),
            f"every {self.name}",
            simd=self._independent(walkers),
            polls=self._polls(),
        )
        room = self._reserve([(Value(0), self.ctx.names.extent(self.var))])
        return block(*_declarations(walkers), *room, self._shared(loop, scope, self.parts))

    def position(self, driver: Access) -> p.Block:
        """for (p = pos[parent]; p < pos[parent + 1]; p++) { j = crd[p]; body }"""
        part = next(part for part in self.parts if part.access == driver)
        shared = isinstance(self.ctx.plan.assembly, Shared)
        scope = self._completeness(shared and driver == _shared_operand(self.ctx.plan))
        unique = driver.tensor.format.levels[part.walk or 0].unique
        scope = self._threads(scope, alone=unique)
        (walker,), scope = self._walkers([part], scope, declared=not unique)
        if walker.segment is not None:
            room = self._reserve([(walker.position, walker.end)])
            return block(*walker.declare(), *room, self._merge_loop([walker], scope))
        begin, end = walker.bounds()
        var, scope = scope.fresh(self.name)
        scope = scope.bind(self.var, var)
        here = Declare(var, walker.coordinate_at(walker.position), fixed=True)
        visit = self._visit({driver: None}, [walker], scope)
        # At the end: control flow ahead of them keeps gcc from vectorizing register tiles.
        body = block(here, visit, *prefetches(self.ctx, self.parts, self.scope, walker, var))
        tensor = self.ctx.names.of(driver.tensor)
        comment = f"stored {self.name} of {tensor}"
        loop = p.For(walker.position, begin, end, body, comment, polls=self._polls())
        return block(*self._reserve([(begin, end)]), self._shared(loop, scope, [part]))

    def merge(self, walked: set[Access]) -> p.Block:
        """while (pA < pA_end && pB < pB_end) { i = min(iA, iB); cases; advance }, and so on"""
        scope = self._completeness(False)
        parts = [part for part in self.parts if part.access in walked and part.walk is not None]
        walkers, scope = self._walkers(parts, scope)
        groups: list[frozenset[Access]] = []
        for point in self.cases:
            driver = frozenset(point.present & walked)
            if driver not in groups:
                groups.append(driver)
        code = [*_declarations(walkers), *self._reserve([(w.position, w.end) for w in walkers])]
        for group in groups:
            some = [w for w in walkers if w.part.access in group]
            code.append(self._merge_loop(some, scope))
        return block(*code)

    def _merge_loop(self, walkers: list[Walker], scope: Scope) -> p.Stmt:
        """One loop of a merge: all of `walkers` have entries left, the others have none."""
        more = every([compare("<", w.position, w.end) for w in walkers])
        if more is None:
            raise InternalError("a merge loop without operands")
        var, scope = scope.fresh(self.name)
        scope = scope.bind(self.var, var)
        alone = len(walkers) == 1
        code: list[p.Stmt] = []
        least: Expr | None = None
        for w in walkers:
            here = w.coordinate_at(w.position)
            if not alone:
                code.append(Declare(w.coordinate, here, fixed=True))
                here = w.coordinate
            least = here if least is None else p.arithmetic("min", least, here)
        if least is None:
            raise InternalError("a merge loop without coordinates")
        if len(walkers) == 2 and not any(w.segment or w.part.searched for w in walkers):
            code.append(self._pair(walkers, var, least, scope))
        else:
            code.append(Declare(var, least, fixed=True))
            code += self._each(walkers, self.cases, var, scope).body
        named = " and ".join(self.ctx.names.of(w.part.access.tensor) for w in walkers)
        comment = f"{self.name} of {named}, in order" if not alone else f"rest of {named}"
        return p.While(more, block(*code), comment, polls=self._polls())

    def _each(self, walkers: list[Walker], cases: list[Point], var: Name, scope: Scope) -> p.Block:
        """Do what the operands at coordinate `var` ask for, and step over them."""
        code: list[p.Stmt] = []
        alone = len(walkers) == 1
        present: dict[Access, Expr | None] = {}
        for w in walkers:
            present[w.part.access] = None if alone else compare("==", w.coordinate, var)
            code += w.find_segment(var)
        code += self._visit(present, walkers, scope, cases=cases).body
        for w in walkers:
            matched = present[w.part.access]
            code.append(w.advance(Value(1) if matched is None else matched))
        return block(*code)

    def _pair(self, walkers: list[Walker], var: Name, least: Expr, scope: Scope) -> p.Stmt:
        """if (iA == iB) { both; pA++; pB++; } else { the lesser one; advance it }

        Whether two operands meet is easily predicted where their patterns are alike, and seldom
        happens where they are not; which one is ahead is anybody's guess.
        """
        one, other = walkers
        both = {w.part.access for w in walkers}
        steps = [w.advance(Value(1)) for w in walkers]
        meet = [point for point in self.cases if point.present >= both]
        apart = [point for point in self.cases if not point.present >= both]
        certain: dict[Access, Expr | None] = dict.fromkeys(both)
        together = block(
            Declare(var, one.coordinate, fixed=True),
            self._visit(certain, walkers, scope, cases=meet or apart),
            *steps,
        )
        lesser = block(Declare(var, least, fixed=True), self._each(walkers, apart, var, scope))
        return p.If(compare("==", one.coordinate, other.coordinate), together, lesser)

    def tile(self, tile: Tile) -> p.Block:
        """for (at = 0; at < width; at++) { j = first + at; body }"""
        scope = self.scope
        if tile.width == 1:
            return self._visit({}, [], scope.bind(self.var, tile.first))
        at, scope = scope.fresh(f"{tile.first.name}_at")
        body = self._visit({}, [], scope.bind(self.var, tile.first + at))
        return block(p.For(at, Value(0), Value(tile.width), body, unrolled=True))

    # -- what happens at a coordinate -----------------------------------------------------------

    def _visit(
        self,
        present: Mapping[Access, Expr | None],
        walkers: list[Walker],
        scope: Scope,
        everywhere: bool = False,
        cases: list[Point] | None = None,
    ) -> p.Block:
        """Reach all operands, do the first case whose operands are present, close the result."""
        code: list[p.Stmt] = []
        conditions: dict[Access, Expr | None] = {}
        reached = {w.part.access: w for w in walkers}
        for part in self.parts:
            access = part.access
            condition: Expr | None = None
            if part.walk is not None:
                if access not in reached:
                    continue
                scope = scope.reach(access, reached[access].place())
                condition = present[access]
            found, condition, scope = take_steps(
                without_walk(part), condition, scope, self.ctx.names, self.ctx.workspaces
            )
            code += found
            if part.sparse:
                conditions[access] = condition
        scope, after = self._reach_full_result(scope, everywhere)
        points = self.cases if cases is None else cases
        cases = [point for point in points if point.present <= set(conditions)]
        certain = {a for a, condition in conditions.items() if condition is None}
        return block(*code, self._chain(cases, conditions, certain, scope, walkers), *after)

    def _chain(
        self,
        cases: list[Point],
        conditions: dict[Access, Expr | None],
        certain: set[Access],
        scope: Scope,
        walkers: list[Walker],
    ) -> p.Stmt | None:
        """if (all of A, B present) ... else if (A present) ... else ..."""
        tests: list[Expr | None] = []
        for point in cases:
            needed = [conditions[a] for a in conditions if a in point.present and a not in certain]
            tests.append(every([c for c in needed if c is not None]))
        if self._exhaustive(cases, conditions, walkers):
            tests[-1] = None
            choice = as_choice([point.body for point in cases], tests)
            if choice is not None:
                return self._case(choice, scope)
        result: p.Stmt | None = None
        for point, test in zip(reversed(cases), reversed(tests), strict=True):
            body = block() if point.body is None else self._case(point.body, scope)
            result = body if test is None else p.If(test, body, result)
        return result

    def _exhaustive(
        self, cases: list[Point], conditions: dict[Access, Expr | None], walkers: list[Walker]
    ) -> bool:
        """Whether the last case is all that can be left, so that it needs no test.

        The coordinate is the least of those of the walkers, so at least one of them is there,
        unless its entry has still to be searched for.
        """
        walked = frozenset(w.part.access for w in walkers)
        if len(walkers) < 2 or set(conditions) != walked or any(w.part.searched for w in walkers):
            return False
        sets = {point.present for point in cases}
        singles = {frozenset([access]) for access in walked}
        apart = len(walkers) == 2 and sets == singles  # two that do not meet
        return apart or (len(sets) == 2 ** len(walkers) - 1 and all(sets))

    def _case(self, body: Stmt, scope: Scope) -> p.Block:
        """The body of a case, with the result's level reached and kept."""
        lhs = self.lhs
        plan, appender = self.ctx.plan, self.ctx.appender
        level = len(scope.reached(lhs))
        here = level < lhs.tensor.ndim and lhs.level_vars[level] == self.var
        if not here or not self.ctx.is_result(lhs) or lhs.tensor.format.levels[level].full:
            return self.lower(body, scope)
        if isinstance(plan.assembly, Shared):
            place = scope.reached(plan.assembly.operand)[level]
            scope = self.ctx.reach_further(scope.reach(lhs, place), lhs)
            return self.lower(body, scope)
        if appender is None:
            raise InternalError(f"{lhs} has no assembly")
        before, position = appender.enter(level), appender.count(level)
        below = appender.below(level)
        start = kept = None
        if below is not None:
            start, scope = scope.fresh(f"nR{below + 1}_start")
            before = [*before, Declare(start, appender.count(below), fixed=True)]
        elif any(isinstance(node, Where) and node.guarded for node in walk(body)):
            kept, scope = scope.fresh("R_any", "bool")
            scope = scope.flag(lhs.tensor, kept)
            before = [*before, Declare(kept, Value(False, "bool"))]
        scope = self.ctx.reach_further(scope.reach(lhs, Place(position)), lhs)
        inner = self.lower(body, scope)
        commit = appender.commit(level, scope.coords[self.var], start)
        return block(*before, inner, *(commit if kept is None else [p.If(kept, block(*commit))]))

    def _reach_full_result(self, scope: Scope, everywhere: bool) -> tuple[Scope, list[p.Stmt]]:
        """Reach the full levels of what is written; afterwards close the runs right below them."""
        lhs, appender = self.lhs, self.ctx.appender
        start = len(scope.reached(lhs))
        scope = self.ctx.reach_further(scope, lhs)
        level = len(scope.reached(lhs)) - 1
        if appender is None or not self.ctx.is_result(lhs) or level < start:
            return scope, []
        below = appender.below(level)
        if below is None:
            return scope, []
        # The runs right below are closed at every coordinate that is visited; those further down
        # only where there is something to do.
        closes = below == level + 1
        if not everywhere or not (closes or self._always_works):
            appender.gaps.add(below)
        if not closes:
            return scope, []
        return scope, appender.close(below, scope.reached(lhs)[-1].position)

    @property
    def _always_works(self) -> bool:
        """Whether there is something to do at every coordinate."""
        return all(point.body is not None for point in self.lattice.points)

    # -- helpers --------------------------------------------------------------------------------

    def _walkers(
        self, parts: list[Participant], scope: Scope, declared: bool = True
    ) -> tuple[list[Walker], Scope]:
        walkers = []
        for part in parts:
            walker, scope = make_walker(
                part, self.name, scope, self.ctx.names, self.ctx.workspaces, declared
            )
            walkers.append(walker)
        return walkers, scope

    def _reserve(self, runs: list[tuple[Expr, Expr]]) -> list[p.Stmt]:
        """Room for all that a loop over `runs` can append to the result."""
        lhs, appender = self.lhs, self.ctx.appender
        level = len(self.scope.reached(lhs))
        if appender is None or not self.ctx.is_result(lhs) or level not in appender.sparse:
            return []
        if lhs.level_vars[level] != self.var:
            return []
        more: Expr = Value(0)
        for begin, end in runs:
            more = more + (end - begin)
        return [appender.reserve(level, more)]

    def _completeness(self, complete: bool) -> Scope:
        """A loop over a result variable that skips coordinates leaves entries unwritten."""
        skips = self.var in self.lhs.vars and not complete
        return replace(self.scope, whole=self.scope.whole and not skips)

    def _polls(self) -> bool:
        return self.scope.depth == 1 and any(isinstance(n, Forall) for n in walk(self.loop.body))

    def _independent(self, walkers: list[Walker]) -> bool:
        """Whether no iteration depends on another and the body is straight-line code."""
        body, lhs = self.loop.body, self.lhs
        return (
            isinstance(body, Assign)
            and not walkers
            and not any(part.sparse for part in self.parts)
            and lhs not in self.scope.accumulators
            and bool(lhs.level_vars)
            and lhs.level_vars[-1] == self.var
            and lhs.tensor.format.levels[-1].full
            and not self.ctx.lists(lhs)
        )

    def _shared(self, loop: p.For, scope: Scope, counted: list[Participant]) -> p.For:
        """The loop, shared among threads if it is the outermost one that can be."""
        begins_here = scope.parallel and not self.scope.parallel
        return share(loop, self.ctx, counted) if begins_here else loop

    def _threads(self, scope: Scope, alone: bool) -> Scope:
        """Threads can share a loop whose iterations are counted by its own variable `alone`."""
        return replace(scope, parallel=scope.parallel or (self.loop.tag is not None and alone))


def _declarations(walkers: list[Walker]) -> list[p.Stmt]:
    return [stmt for walker in walkers for stmt in walker.declare()]


def _shared_operand(plan: Plan) -> Access | None:
    return plan.assembly.operand if isinstance(plan.assembly, Shared) else None
