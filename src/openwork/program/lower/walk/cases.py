"""The body of a loop at one coordinate: reach all operands, pick the case, close the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from openwork.algebra.operators import ADD
from openwork.errors import InternalError
from openwork.frozen import frozen
from openwork.index.nodes import Access, IndexVar
from openwork.loops.absent import followers
from openwork.loops.nodes import Assign, Forall, Stmt, Where, written
from openwork.loops.plan.assembly import Shared
from openwork.loops.relations import Pos
from openwork.program import nodes as p
from openwork.program.lower.base.context import Context
from openwork.program.lower.base.scope import Place, Scope
from openwork.program.lower.walk.branchless import as_choice
from openwork.program.lower.walk.lattice import Lattice, Point, build
from openwork.program.lower.walk.presence import condition as condition_of, known, works
from openwork.program.lower.walk.walkers import (
    Participant,
    Walker,
    participant,
    take_steps,
    without_walk,
)
from openwork.program.nodes import Declare, Expr, Name, Set, Value, block, every
from openwork.program.remarks import named
from openwork.tree import replace, walk

Lower = Callable[[Stmt, Scope], p.Block]


@frozen
class Cases:
    """A loop being lowered: its lattice, its participating operands, and the scope around it.

    Without a lattice, one piece of code serves all cases, and asks which operands are present.
    `tally` counts the coordinates where one of the cases applies.
    """

    ctx: Context
    lower: Lower
    loop: Forall
    lattice: Lattice | None
    parts: list[Participant]
    scope: Scope
    tally: Name | None = None

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
    def said(self) -> str:
        """The name of the variable, in a comment."""
        return named(self.name)

    @property
    def points(self) -> list[Point]:
        """The points in the order they are tried; trailing ones without a body are dropped."""
        points = [] if self.lattice is None else list(self.lattice.points)
        while points and points[-1].body is None:
            points.pop()
        return points

    def point(self) -> p.Block:
        """The body at the one known coordinate; every operand is looked up there."""
        return self.at({}, [], self.completeness(self.always_works))

    def completeness(self, complete: bool) -> Scope:
        """A loop over a result variable that skips coordinates leaves entries unwritten."""
        skips = self.var in self.ctx.provenance.roots_of(self.lhs.vars) and not complete
        return replace(self.scope, whole=self.scope.whole and not skips)

    def at(
        self,
        present: Mapping[Access, Expr | None],
        walkers: list[Walker],
        scope: Scope,
        everywhere: bool = False,
        points: list[Point] | None = None,
    ) -> p.Block:
        """Reach all operands, execute the first case that applies, close the result."""
        code: list[p.Stmt] = []
        conditions: dict[Access, Expr | None] = {}
        reached = {w.part.access: w for w in walkers}
        for part in self.parts:
            access = part.access
            condition = scope.perhaps.get(access)
            if part.walk is not None:
                if access not in reached:
                    continue
                scope = self._standing(reached[access], scope)
                scope = scope.reach(access, reached[access].place())
                condition = present[access]
            found, condition, scope = take_steps(
                without_walk(part), condition, scope, self.ctx.names, self.ctx.workspaces
            )
            code += found
            if part.sparse or condition is not None:
                conditions[access] = condition
        walked = {part.access for part in self.parts if part.walk is not None}
        for access in _loose(self.loop.body, scope):
            if access not in walked - set(reached):  # which has no entries left
                conditions.setdefault(access, scope.perhaps[access])
        scope, after = self._reach_full_result(scope, everywhere)
        if self.lattice is None:
            met = [] if everywhere else walkers  # one of them is present wherever a merge stops
            return block(*code, self._whatever(conditions, scope, met), *after)
        tried = self.points if points is None else points
        possible = [point for point in tried if point.present <= set(conditions)]
        certain = {a for a, condition in conditions.items() if condition is None}
        sure = scope.given(dict.fromkeys(conditions))
        return block(*code, self._chain(possible, conditions, certain, sure, walkers), *after)

    def _whatever(
        self, conditions: dict[Access, Expr | None], scope: Scope, walkers: list[Walker]
    ) -> p.Stmt:
        """The body for all cases, where there is work."""
        body = self.loop.body
        for access in list(conditions):
            for other in followers(body, access, self.ctx.provenance):
                conditions[other] = conditions[access]
        scope = scope.given(conditions)
        when = works(body, known(scope.perhaps))
        own = {condition for w in walkers if (condition := conditions[w.part.access]) is not None}
        every_one = bool(walkers) and len(own) == len(walkers)
        if every_one and not isinstance(when, bool) and own <= set(when):
            when = True
        test = condition_of(when)
        made = self._case(body, replace(scope, settled=body))
        return made if test is None else p.If(test, made)

    def _standing(self, walker: Walker, scope: Scope) -> Scope:
        """With the position bound to its variable, where an entry's place does not imply it."""
        if walker.place().position == walker.position:
            return scope
        provenance = self.ctx.provenance
        for relation in (r for r in provenance.relations if isinstance(r, Pos)):
            last = provenance.underived(relation.parent)[-1]
            if relation.access == walker.part.access and last == self.var:
                scope = scope.bind(relation.child, walker.position)
        return scope

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
                return self._tallied(choice, scope)
        result: p.Stmt | None = None
        for point, test in zip(reversed(cases), reversed(tests), strict=True):
            absent = set(conditions) - point.present - certain
            here = scope.without(absent) if absent else scope
            body = block() if point.body is None else self._tallied(point.body, here)
            result = body if test is None else p.If(test, body, result)
        return result

    def _exhaustive(
        self, cases: list[Point], conditions: dict[Access, Expr | None], walkers: list[Walker]
    ) -> bool:
        """Whether the last case is the only one left, so that it needs no test.

        The coordinate is the minimum over the walkers, so at least one of them is present, unless
        its entry must still be searched for.
        """
        walked = frozenset(w.part.access for w in walkers)
        if len(walkers) < 2 or set(conditions) != walked or any(w.part.searched for w in walkers):
            return False
        sets = {point.present for point in cases}
        singles = {frozenset([access]) for access in walked}
        apart = len(walkers) == 2 and sets == singles  # two disjoint walkers
        return apart or (len(sets) == 2 ** len(walkers) - 1 and all(sets))

    def _tallied(self, body: Stmt, scope: Scope) -> p.Block:
        """The body of a case, which is counted if the loop asks for that."""
        count = None if self.tally is None else Set(self.tally, Value(1), ADD)
        return block(count, self._case(body, scope))

    def _case(self, body: Stmt, scope: Scope) -> p.Block:
        """The body of a case, with the result's level reached and committed."""
        lhs = self.lhs
        plan, appender = self.ctx.plan, scope.appender
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
        at, parent = scope.coords[self.var], scope.reached(lhs)[-1].position if level else None
        if level in appender.resumed:
            position, scope = scope.fresh(f"{position.name}_at")
            before = [*before, *appender.resume(level, at, parent, position)]
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
        commit = appender.commit(level, at, parent, start, position)
        return block(*before, inner, *(commit if kept is None else [p.If(kept, block(*commit))]))

    def _reach_full_result(self, scope: Scope, everywhere: bool) -> tuple[Scope, list[p.Stmt]]:
        """Reach the full levels of the result; afterwards close the segments right below them."""
        lhs, appender = self.lhs, scope.appender
        start = len(scope.reached(lhs))
        scope = self.ctx.reach_further(scope, lhs)
        level = len(scope.reached(lhs)) - 1
        if appender is None or not self.ctx.is_result(lhs) or level < start:
            return scope, []
        below = appender.below(level)
        if below is None:
            return scope, []
        # The segments right below are closed at every visited coordinate; those further down
        # only where there is work.
        closes = below == level + 1
        if not everywhere or not (closes or self.always_works):
            appender.gaps.add(below)
        if not closes:
            return scope, []
        return scope, appender.close(below, scope.reached(lhs)[-1].position)

    @property
    def always_works(self) -> bool:
        """Whether there is work at every coordinate."""
        if self.lattice is None:
            return self.works_without(_sparse(self.loop.body, self.parts, self.scope))
        return all(point.body is not None for point in self.lattice.points)

    def works_without(self, absent: Iterable[Access]) -> bool:
        """Whether there is work even where the operands in `absent` are."""
        gone = {
            access: False
            for a in absent
            for access in (a, *followers(self.loop.body, a, self.ctx.provenance))
        }
        return works(self.loop.body, {**known(self.scope.perhaps), **gone}) is not False


def cases_of(ctx: Context, lower: Lower, loop: Forall, scope: Scope, known: bool = False) -> Cases:
    """The cases of `loop`; `known`: at the one coordinate that its variable has here."""
    found = [participant(a, loop.var, scope, known) for a in _operands(loop.body)]
    parts = [part for part in found if part is not None]
    lattice = build(
        loop.body,
        _sparse(loop.body, parts, scope),
        lambda access: followers(loop.body, access, ctx.provenance),
    )
    if lattice is None:
        ctx.note_many(loop.var, len(_sparse(loop.body, parts, scope)))
    return Cases(ctx, lower, loop, lattice, parts, scope)


def _sparse(body: Stmt, parts: list[Participant], scope: Scope) -> list[Access]:
    """The operands that may have no entry at a coordinate, or have none where the loop is."""
    found = [part.access for part in parts if part.sparse]
    return [*found, *(a for a in _loose(body, scope) if a not in found)]


def _loose(body: Stmt, scope: Scope) -> list[Access]:
    """The accesses in `body` that may be absent where the loop is."""
    if not scope.perhaps:
        return []
    found = (n for n in walk(body) if isinstance(n, Access) and n in scope.perhaps)
    return list(dict.fromkeys(found))


def _operands(stmt: Stmt) -> list[Access]:
    """The accesses that `stmt` reads, except to its own temporaries."""
    made = {n.temporary for n in walk(stmt) if isinstance(n, Where)}
    reads = [
        node
        for assign in walk(stmt)
        if isinstance(assign, Assign)
        for node in walk(assign.rhs)
        if isinstance(node, Access) and node.tensor not in made
    ]
    return [a for a in dict.fromkeys(reads) if a.vars]
