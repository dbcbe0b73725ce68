"""From loops to a program: one place chooses the shape of each loop.

Three shapes, and no more: a *dimension loop* visits every coordinate, a *position loop* walks one
operand's run, a *merge loop* walks several together. Which one a loop gets follows from its merge
lattice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from openwork.algebra.types import Number, number
from openwork.errors import InternalError
from openwork.index.nodes import Access, IndexVar, TensorVar
from openwork.loops.nodes import Assign, Forall, Stmt, Where, written
from openwork.loops.nodes import Sequence as Then
from openwork.loops.plan import Plan
from openwork.loops.result import Append, Shared, accesses_of
from openwork.merge.lattice import Lattice, Point, build
from openwork.program import nodes as p
from openwork.program.assemble import Appender
from openwork.program.nodes import Declare, Expr, Name, Set, Store, Value, block, compare, every
from openwork.program.scope import Place, Scope
from openwork.program.tensors import Names, Widths
from openwork.program.values import combine, converted, lower_value
from openwork.program.walkers import (
    Participant,
    Walker,
    make_walker,
    participant,
    take_steps,
    without_walk,
)
from openwork.program.workspace import Workspace, Workspaces
from openwork.tree import Node, substitute, walk


@dataclass
class Lowering:
    """The lowering of one kernel: what it knows, and what it finds out on the way."""

    plan: Plan
    names: Names
    workspaces: Workspaces
    appender: Appender | None
    needs_initial: bool = False  # some entry of an in-place result may not be written
    private: list[Workspace] = field(default_factory=list)  # one for each thread

    # -- statements -----------------------------------------------------------------------------

    def lower(self, stmt: Stmt, scope: Scope) -> p.Block:
        """`stmt` at the place that `scope` describes."""
        match stmt:
            case Assign():
                return self._assign(stmt, scope)
            case Forall():
                return self._forall(stmt, scope)
            case Where():
                return self._where(stmt, scope)
            case Then(first=first, then=then):
                return block(self.lower(first, scope), self.lower(then, scope))
        raise InternalError(f"no lowering for {stmt}")

    def _assign(self, stmt: Assign, scope: Scope) -> p.Block:
        lhs, op = stmt.lhs, stmt.op
        value = converted(lower_value(stmt.rhs, scope, self._read), lhs.dtype.name)
        if lhs in scope.accumulators:
            name = scope.accumulators[lhs]
            value, op = (value, None) if op is None else combine(op, name, value)
            return block(Set(name, value, op))
        work = self.workspaces.table.get(lhs.tensor)
        if work is not None and work.lists:
            return block(*work.insert([scope.coords[v] for v in lhs.vars], value, op))
        if self._is_result(lhs):
            self.needs_initial |= op is not None or not scope.whole
        array, index = self.names.values(lhs.tensor), self._index(lhs, scope)
        if op is not None:
            value, op = combine(op, p.Load(array, index), value)
        return block(Store(array, index, value, op))

    def _where(self, stmt: Where, scope: Scope) -> p.Block:
        """Make the temporary, then read it."""
        temporary = stmt.temporary
        lhs = written(stmt.producer)
        if temporary.ndim == 0:
            base = f"{self.names.of(temporary)}_sum"
            name, scope = scope.fresh(base, temporary.dtype.name, lasting=True)
            scope = scope.accumulate(lhs, name)
            start = Value(temporary.fill, temporary.dtype.name)
            producer = self.lower(stmt.producer, replace(scope, reducing=False))
            return block(Declare(name, start), producer, self.lower(stmt.consumer, scope))
        work = self.workspaces.add(temporary, lhs.vars)
        if scope.parallel and work not in self.private:
            self.private.append(work)
        return block(
            *work.prepare(),
            self.lower(stmt.producer, scope),
            *work.finish(),
            self.lower(stmt.consumer, scope),
            *work.reset(),
        )

    # -- loops ----------------------------------------------------------------------------------

    def _forall(self, loop: Forall, scope: Scope) -> p.Block:
        """Accumulate in a scalar around the loop where its result stays in one place."""
        lhs = written(loop.body)
        scope = replace(scope, depth=scope.depth + 1)
        if loop.var in lhs.vars or lhs in scope.accumulators:
            return self._shape(loop, scope)
        inner = replace(scope, reducing=True)
        if not self._promotes(loop, lhs, scope):
            return self._shape(loop, inner)
        base = f"{self.names.of(lhs.tensor)}_sum"
        name, inner = inner.fresh(base, lhs.dtype.name, lasting=True)
        array, index = self.names.values(lhs.tensor), self._index(lhs, scope)
        first = self._is_fresh(lhs, scope)
        self.needs_initial |= self._is_result(lhs) and not (first and scope.whole)
        op = _operator(loop)
        start: Expr = p.Load(array, index)
        if first and op is not None:
            start = Value(op.identity_of(lhs.dtype), lhs.dtype.name)
        return block(
            Declare(name, start),
            self._shape(loop, inner.accumulate(lhs, name)),
            Store(array, index, name),
        )

    def _promotes(self, loop: Forall, lhs: Access, scope: Scope) -> bool:
        work = self.workspaces.table.get(lhs.tensor)
        listed = work is not None and work.lists
        return scope.is_reached(lhs) and _operator(loop) is not None and not listed

    def _is_fresh(self, lhs: Access, scope: Scope) -> bool:
        """Whether the accumulation starts from nothing, rather than from what is stored."""
        return self._is_result(lhs) and self.plan.assignment.op is None and not scope.reducing

    def _shape(self, loop: Forall, scope: Scope) -> p.Block:
        """Choose the shape of a loop by its lattice."""
        found = [participant(a, loop.var, scope) for a in self._operands(loop.body)]
        parts = [part for part in found if part is not None]
        sparse = [part for part in parts if part.sparse]
        lattice = build(loop.body, [part.access for part in sparse])
        walked = {part.access for part in sparse if part.walk is not None}
        shape = _Loop(self, loop, lattice, parts, scope)
        drivers = [point.present & walked for point in shape.cases]
        if not drivers:
            return block()
        if not all(drivers):
            return shape.dimension(walked)
        if len(set(drivers)) == 1 and len(drivers[0]) == 1:
            return shape.position(next(iter(drivers[0])))
        return shape.merge(walked)

    # -- accesses -------------------------------------------------------------------------------

    def _operands(self, stmt: Stmt) -> list[Access]:
        """The accesses that `stmt` reads, except to temporaries that it makes itself."""
        made = {n.temporary for n in walk(stmt) if isinstance(n, Where)}
        reads = [
            node
            for assign in walk(stmt)
            if isinstance(assign, Assign)
            for node in walk(assign.rhs)
            if isinstance(node, Access) and node.tensor not in made
        ]
        return [a for a in dict.fromkeys(reads) if a.vars]

    def _read(self, access: Access, scope: Scope) -> Expr:
        if access in scope.accumulators:
            return scope.accumulators[access]
        if access.tensor in self.workspaces.table:
            return self.workspaces.element(access, scope.reached(access)[-1])
        return p.Load(self.names.values(access.tensor), self._index(access, scope))

    def _index(self, access: Access, scope: Scope) -> Expr:
        reached = scope.reached(access)
        if len(reached) != access.tensor.ndim:
            raise InternalError(f"{access} is used before all its levels are reached")
        return reached[-1].position if reached else Value(0)

    def _is_result(self, access: Access) -> bool:
        return access.tensor == self.plan.result


@dataclass
class _Loop:
    """One loop being lowered."""

    low: Lowering
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
        return self.low.names.variables[self.var]

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
        scope = self._completeness(all(pt.body is not None for pt in self.lattice.points))
        parts = [part for part in self.parts if part.access in walked]
        scope = self._threads(scope, alone=not parts)
        walkers, scope = self._walkers(parts, scope)
        var, scope = scope.fresh(self.name)
        scope = scope.bind(self.var, var)
        code: list[p.Stmt] = []
        present: dict[Access, Expr] = {}
        for walker in walkers:
            here, scope = scope.fresh(f"in{self.low.names.of(walker.part.access.tensor)}", "bool")
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
            self.low.names.extent(self.var),
            block(body, *steps),
            f"every {self.name}",
            simd=self._independent(walkers),
            polls=self._polls(),
        )
        room = self._reserve([(Value(0), self.low.names.extent(self.var))])
        return block(*_declarations(walkers), *room, self._share(loop, scope))

    def position(self, driver: Access) -> p.Block:
        """for (p = pos[parent]; p < pos[parent + 1]; p++) { j = crd[p]; body }"""
        part = next(part for part in self.parts if part.access == driver)
        shared = isinstance(self.low.plan.assembly, Shared)
        scope = self._completeness(shared and driver == _shared_operand(self.low.plan))
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
        body = block(here, self._visit({driver: None}, [walker], scope))
        tensor = self.low.names.of(driver.tensor)
        comment = f"stored {self.name} of {tensor}"
        loop = p.For(walker.position, begin, end, body, comment, polls=self._polls())
        return block(*self._reserve([(begin, end)]), self._share(loop, scope))

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
        code.append(Declare(var, least, fixed=True))
        present: dict[Access, Expr | None] = {}
        for w in walkers:
            present[w.part.access] = None if alone else compare("==", w.coordinate, var)
            code += w.find_segment(var)
        code += self._visit(present, walkers, scope).body
        for w in walkers:
            matched = present[w.part.access]
            code.append(w.advance(Value(1) if matched is None else matched))
        named = " and ".join(self.low.names.of(w.part.access.tensor) for w in walkers)
        comment = f"{self.name} of {named}, in order" if not alone else f"rest of {named}"
        return p.While(more, block(*code), comment, polls=self._polls())

    # -- what happens at a coordinate -----------------------------------------------------------

    def _visit(
        self,
        present: dict[Access, Expr | None] | dict[Access, Expr],
        walkers: list[Walker],
        scope: Scope,
        everywhere: bool = False,
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
                without_walk(part), condition, scope, self.low.names, self.low.workspaces
            )
            code += found
            if part.sparse:
                conditions[access] = condition
        scope, after = self._reach_full_result(scope, everywhere)
        cases = [pt for pt in self.cases if pt.present <= set(conditions)]
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
        walked = [w.part.access for w in walkers]
        result: p.Stmt | None = None
        for point in reversed(cases):
            needed = [conditions[a] for a in conditions if a in point.present and a not in certain]
            condition = every([c for c in needed if c is not None])
            body = block() if point.body is None else self._case(point.body, scope)
            only_left = result is None and self._exhaustive(cases, conditions, walked)
            if condition is None or only_left:
                result = body
            else:
                result = p.If(condition, body, result)
        return result

    def _exhaustive(
        self, cases: list[Point], conditions: dict[Access, Expr | None], walked: list[Access]
    ) -> bool:
        """Whether the last case is all that can be left, so that it needs no test.

        The coordinate is the least of those of the walkers, so at least one of them is there.
        """
        sets = [pt.present for pt in cases]
        return (
            len(walked) > 1
            and set(conditions) == set(walked)
            and len(sets) == 2 ** len(walked) - 1
            and all(sets)
        )

    def _case(self, body: Stmt, scope: Scope) -> p.Block:
        """The body of a case, with the result's level reached and kept."""
        lhs = self.lhs
        plan, appender = self.low.plan, self.low.appender
        level = len(scope.reached(lhs))
        here = level < lhs.tensor.ndim and lhs.level_vars[level] == self.var
        if not here or not self.low._is_result(lhs) or lhs.tensor.format.levels[level].full:
            return self.low.lower(body, scope)
        if isinstance(plan.assembly, Shared):
            place = scope.reached(plan.assembly.operand)[level]
            scope = self._reach_further(scope.reach(lhs, place), lhs)
            return self.low.lower(body, scope)
        if appender is None:
            raise InternalError(f"{lhs} has no assembly")
        before, position = appender.enter(level), appender.count(level)
        below = appender.below(level)
        start = None
        if below is not None:
            start, scope = scope.fresh(f"nR{below + 1}_start")
            before = [*before, Declare(start, appender.count(below), fixed=True)]
        scope = self._reach_further(scope.reach(lhs, Place(position)), lhs)
        inner = self.low.lower(body, scope)
        return block(*before, inner, *appender.commit(level, scope.coords[self.var], start))

    def _reach_full_result(self, scope: Scope, everywhere: bool) -> tuple[Scope, list[p.Stmt]]:
        """Reach the full levels of what is written; afterwards close the runs right below them."""
        lhs, appender = self.lhs, self.low.appender
        start = len(scope.reached(lhs))
        scope = self._reach_further(scope, lhs)
        level = len(scope.reached(lhs)) - 1
        if appender is None or not self.low._is_result(lhs) or level < start:
            return scope, []
        if appender.below(level) != level + 1:
            return scope, []
        if not everywhere:
            appender.gaps.add(level + 1)
        return scope, appender.close(level + 1, scope.reached(lhs)[-1].position)

    def _reach_further(self, scope: Scope, lhs: Access) -> Scope:
        """Reach every further full level of `lhs` whose coordinate is known."""
        work = self.low.workspaces.table.get(lhs.tensor)
        if lhs in scope.accumulators or (work is not None and work.lists):
            return scope
        levels = lhs.tensor.format.levels
        at = len(scope.reached(lhs))
        while at < len(levels) and levels[at].locates and lhs.level_vars[at] in scope.coords:
            parent = (scope.reached(lhs) or (Place(Value(0)),))[-1]
            view = self.low.names.view(lhs, at)
            coordinate = scope.coords[lhs.level_vars[at]]
            scope = scope.reach(lhs, Place(levels[at].locate(view, parent.position, coordinate)))
            at += 1
        return scope

    # -- helpers --------------------------------------------------------------------------------

    def _walkers(
        self, parts: list[Participant], scope: Scope, declared: bool = True
    ) -> tuple[list[Walker], Scope]:
        walkers = []
        for part in parts:
            walker, scope = make_walker(
                part, self.name, scope, self.low.names, self.low.workspaces, declared
            )
            walkers.append(walker)
        return walkers, scope

    def _reserve(self, runs: list[tuple[Expr, Expr]]) -> list[p.Stmt]:
        """Room for all that a loop over `runs` can append to the result."""
        lhs, appender = self.lhs, self.low.appender
        level = len(self.scope.reached(lhs))
        if appender is None or not self.low._is_result(lhs) or level not in appender.sparse:
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
        work = self.low.workspaces.table.get(lhs.tensor)
        return (
            isinstance(body, Assign)
            and not walkers
            and not any(part.sparse for part in self.parts)
            and lhs not in self.scope.accumulators
            and bool(lhs.level_vars)
            and lhs.level_vars[-1] == self.var
            and lhs.tensor.format.levels[-1].full
            and not (work is not None and work.lists)
        )

    def _threads(self, scope: Scope, alone: bool) -> Scope:
        """Threads can share a loop whose iterations are counted by its own variable `alone`."""
        return replace(scope, parallel=scope.parallel or (self.loop.tag is not None and alone))

    def _share(self, loop: p.For, scope: Scope) -> p.For:
        """Share the iterations among threads, each with its own workspaces."""
        if self.scope.parallel or not scope.parallel:
            return loop
        private = self.low.private
        return replace(
            loop,
            parallel=True,
            balance=self._balance(),
            private=tuple(s for work in private for s in work.setup()),
            cleanup=tuple(s for work in private for s in work.cleanup()),
        )

    def _balance(self) -> p.Balance | None:
        """A position array that is indexed by the loop variable: it tells the work below."""
        for part in self.parts:
            access = part.access
            level = part.steps[-1] if part.steps else part.walk
            if level is None or level + 1 >= access.tensor.ndim or level != 0:
                continue
            for fact in access.tensor.format.levels[1].arrays:
                if fact.per == "parent" and fact.holds == "positions" and fact.extra == 1:
                    return p.Balance(self.low.names.array(access.tensor, 1, fact.name))
        return None


def _declarations(walkers: list[Walker]) -> list[p.Stmt]:
    return [stmt for walker in walkers for stmt in walker.declare()]


def _shared_operand(plan: Plan) -> Access | None:
    return plan.assembly.operand if isinstance(plan.assembly, Shared) else None


def _operator(stmt: Stmt) -> p.Op | None:
    """The operator by which `stmt` accumulates into what it finally writes."""
    while not isinstance(stmt, Assign):
        stmt = stmt.body if isinstance(stmt, Forall) else _consumer(stmt)
    return stmt.op


def _consumer(stmt: Stmt) -> Stmt:
    if isinstance(stmt, Where):
        return stmt.consumer
    if isinstance(stmt, Then):
        return stmt.then
    raise InternalError(f"unexpected {stmt}")


def initial_value(plan: Plan) -> Number:
    """What an in-place result holds before anything is written."""
    result = plan.result
    op = _operator(plan.loops)
    if op is not None and plan.assignment.op is None:
        return op.identity_of(result.dtype)
    return number(result.fill, result.dtype)


@dataclass(frozen=True)
class Lowered:
    """A program, the variables whose extents it is called with, and how its result must begin.

    `initial`: what an in-place result must hold before the call; None if every entry is written,
    or if the statement adds to what is there.
    """

    program: p.Program
    variables: tuple[IndexVar, ...]
    initial: Number | None


def lower_plan(plan: Plan, widths: Widths) -> Lowered:
    """The program of `plan`, for index arrays of the given element types."""
    loops = list(dict.fromkeys(n.var for n in walk(plan.loops) if isinstance(n, Forall)))
    operands = tuple(dict.fromkeys(a.tensor for a in accesses_of(plan.assignment.rhs)))
    temporaries = tuple(n.temporary for n in walk(plan.loops) if isinstance(n, Where))
    variables = [*loops, *(v for v in plan.assignment.lhs.vars if v not in loops)]
    names = Names(plan.result, operands, temporaries, variables, widths)
    workspaces = Workspaces(names, {})
    appender = Appender(plan.assignment.lhs, names) if isinstance(plan.assembly, Append) else None
    low = Lowering(plan, names, workspaces, appender)
    body = low.lower(plan.loops, Scope())
    body = block(
        *(s for work in workspaces.table.values() if work not in low.private for s in work.setup()),
        *(appender.prologue() if appender else ()),
        body,
        *(appender.epilogue() if appender else ()),
    )
    sizes = tuple(names.extent(v) for v in variables)
    program = p.Program(tuple(_arguments(low, operands)), sizes, body, canonical(plan.loops, names))
    keeps = plan.assignment.op is not None or not low.needs_initial or appender is not None
    return Lowered(program, tuple(variables), None if keeps else initial_value(plan))


def _arguments(low: Lowering, operands: tuple[TensorVar, ...]) -> Iterator[p.Argument]:
    """Every array of every operand, then those of the result."""
    names = low.names
    for tensor in operands:
        for level, kind in enumerate(tensor.format.levels):
            for fact in sorted(kind.arrays, key=lambda fact: fact.name):
                array = names.array(tensor, level, fact.name)
                yield p.Argument(array, tensor.name, level, fact.name, "operand")
        yield p.Argument(names.values(tensor), tensor.name, -1, "values", "operand")
    if low.appender is not None:
        yield from low.appender.arguments()
    else:
        result = low.plan.result
        yield p.Argument(names.values(result), result.name, -1, "values", "result")


def canonical(loops: Stmt, names: Names) -> str:
    """The loops with the names of the code in place of the user's."""
    tensors = {t for t in walk(loops) if isinstance(t, TensorVar)}
    table: dict[Node, Node] = {t: replace(t, name=names.of(t)) for t in tensors}
    table |= {v: IndexVar(name) for v, name in names.variables.items()}
    return str(substitute(loops, table))
