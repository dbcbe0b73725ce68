"""From loops to a program: statements, accumulators, and the choice of each loop's shape.

There are three shapes: a *dimension loop* visits every coordinate, a *position loop* iterates over
one operand's segment, a *merge loop* co-iterates over several. The merge lattice of a loop decides
which one it gets. Accumulators stay in registers: a scalar where a reduction has a single result,
a tile of columns where its result is a row.
"""

from __future__ import annotations

from collections.abc import Iterator

from openwork.algebra.types import number
from openwork.errors import InternalError
from openwork.frozen import frozen
from openwork.index.nodes import Access, Expr as IndexExpr, Literal
from openwork.loops.absent import followers, reads_of, restrict, vanishes
from openwork.loops.nodes import Assign, Forall, Sequence as Then, Stmt, Where, written
from openwork.loops.plan.assembly import accesses_of
from openwork.loops.relations import Pos
from openwork.program import nodes as p
from openwork.program.elements import combine, converted, lower_value
from openwork.program.lower.base.accumulate import (
    Accumulators,
    atomically,
    element,
    must_begin,
    operator_of,
    streamed,
    update,
)
from openwork.program.lower.base.context import Context
from openwork.program.lower.base.header import keeps_sums, separates
from openwork.program.lower.base.nodes import At, Shaped
from openwork.program.lower.base.ranges import Count, Range
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.derived.driver import Driver
from openwork.program.lower.derived.iterate import Iteration
from openwork.program.lower.derived.recovery import Recovery
from openwork.program.lower.derived.relations.table import LOOPS
from openwork.program.lower.derived.tracked import Tracked
from openwork.program.lower.derived.windows import coordinate_window
from openwork.program.lower.result.gpu_pieces import pieces_of
from openwork.program.lower.result.gpu_table import Table
from openwork.program.lower.walk.branchless import Choice, choose
from openwork.program.lower.walk.cases import Cases, cases_of
from openwork.program.lower.walk.missing import counted
from openwork.program.lower.walk.presence import (
    Lowered,
    Valued,
    condition,
    dispensable,
    known,
    works,
)
from openwork.program.lower.walk.rows_as_lanes import RowsAsLanes
from openwork.program.lower.walk.shapes import Shape
from openwork.program.nodes import Declare, Expr, Set, Value, block
from openwork.tree import Node, bottom_up, replace, substitute, walk


@frozen
class Lowering:
    """The lowering of one kernel."""

    recovery: Recovery

    @property
    def ctx(self) -> Context:
        """What stays the same throughout the kernel."""
        return self.recovery.ctx

    # -- statements -----------------------------------------------------------------------------

    def lower(self, stmt: Stmt, scope: Scope) -> p.Block:
        """`stmt` at the point that `scope` describes."""
        match stmt:
            case Assign():
                return self._assign(stmt, scope)
            case Choice():
                return self._choice(stmt, scope)
            case Forall() if scope.perhaps and (needed := self._needed(stmt, scope)):
                return self._if_present(stmt, needed, scope)
            case Forall() if scope.perhaps and (driver := self._counts_along(stmt, scope)):
                return self._by_presence(stmt, driver, scope)
            case At(value=None):
                return cases_of(self.ctx, self.lower, stmt, scope, known=True).point()
            case At(var=var, body=body, value=Expr() as value):
                return self._iteration.known_value(body, var, value, scope)
            case Forall():
                return self._forall(stmt, scope)
            case Where():
                return self._where(stmt, scope)
            case Then(first=first, then=then):
                return block(self.lower(first, scope), self.lower(then, scope))
        raise InternalError(f"no lowering for {stmt}")

    def _choice(self, stmt: Choice, scope: Scope) -> p.Block:
        if scope.counting:
            return self._noted(stmt.assign, scope)
        type = stmt.assign.lhs.dtype.name
        values = [converted(self._value(v, scope), type) for v in stmt.values]
        code, value = choose(stmt.conditions, values, scope)
        return block(*code, self._write(stmt.assign, value, scope))

    def _needed(self, loop: Forall, scope: Scope) -> list[Access]:
        """The operands that may be absent, and without which the loop has nothing to do."""
        if dispensable(loop, scope.perhaps):
            return []
        found = (n for n in walk(loop) if isinstance(n, Access) and n in scope.perhaps)
        provenance = self.ctx.provenance
        return [a for a in dict.fromkeys(found) if vanishes(loop, a, provenance)]

    def _if_present(self, stmt: Stmt, needed: list[Access], scope: Scope) -> p.Block:
        """if (all that are needed are present) loop"""
        test = p.every(list(dict.fromkeys(scope.perhaps[a] for a in needed)))
        self._leave_gaps(written(stmt), scope)
        inner = replace(scope.given(dict.fromkeys(needed)), whole=False)
        body = self.lower(stmt, inner)
        return body if test is None else block(p.If(test, body))

    def _counts_along(self, loop: Forall, scope: Scope) -> Access | None:
        """An operand that may be absent, and whose positions the loop takes for coordinates.

        They stand for all coordinates of a level that stores each, but only where there are any.
        """
        provenance = self.ctx.provenance
        over = {loop.var, *provenance.ancestors(loop.var)}
        for relation in provenance.relations:
            if not isinstance(relation, Pos) or relation.child not in over:
                continue
            access, (*more, last) = relation.access, provenance.underived(relation.parent)
            kind = access.tensor.format.levels[access.level_vars.index(last)]
            if access in scope.perhaps and kind.spans and not more:
                return access
        return None

    def _by_presence(self, loop: Forall, access: Access, scope: Scope) -> p.Block:
        """if (the operand is present) loop else the loop without it"""
        gone = [access, *followers(loop, access, self.ctx.provenance)]
        sure = scope.given(dict.fromkeys(gone))
        present, left = self.lower(loop, sure), restrict(loop, gone)
        absent = None if left is None else self.lower(left, sure.without(set(gone)))
        return block(p.If(scope.perhaps[access], present, absent))

    def _assign(self, stmt: Assign, scope: Scope) -> p.Block:
        if any(n in scope.perhaps for n in walk(stmt) if isinstance(n, Access)):
            return self._assign_present(stmt, scope)
        if scope.counting:
            return self._noted(stmt, scope)
        type = stmt.lhs.dtype.name
        return self._write(stmt, converted(self._value(stmt.rhs, scope), type), scope)

    def _assign_present(self, stmt: Assign, scope: Scope) -> p.Block:
        """An assignment some of whose operands may be absent, where there is work."""
        given = known(scope.perhaps)
        test = condition(works(stmt, given))
        settled = test is None or scope.settled is stmt
        scope = scope if settled else replace(scope, whole=False)
        if scope.counting:
            made = self._noted(stmt, scope)
        else:
            base = f"{self.ctx.names.of(stmt.lhs.tensor)}_val"
            valued = Valued(given, self._lowered(scope), scope, base)
            code, value = valued.value(stmt)
            type = stmt.lhs.dtype.name
            made = block(*code, self._write(stmt, converted(value, type), valued.scope))
        return made if settled or test is None else block(p.If(test, made))

    def _lowered(self, scope: Scope) -> Lowered:
        return lambda expr, given: lower_value(
            expr, scope.coords, lambda access: self._read(access, scope), given
        )

    def _write(self, stmt: Assign, value: Expr, scope: Scope) -> p.Block:
        """Store `value` where `stmt` writes it, and set the flag of the tensor that it writes."""
        flag = scope.flags.get(stmt.lhs.tensor)
        raised = None if flag is None else Set(flag, Value(True, "bool"))
        return block(self._store(stmt, value, scope), raised)

    def _noted(self, stmt: Assign, scope: Scope) -> p.Block:
        """Record that `stmt` would write something, in a pass that only counts entries."""
        flag = scope.flags.get(stmt.lhs.tensor)
        raised = None if flag is None else Set(flag, Value(True, "bool"))
        if not self.ctx.lists(stmt.lhs):
            return block(raised)
        work = self.ctx.workspaces.at(stmt.lhs.tensor, scope.tier)
        return block(*work.insert(self._coordinates(stmt.lhs, scope), None, None), raised)

    def _store(self, stmt: Assign, value: Expr, scope: Scope) -> p.Block:
        lhs, op = stmt.lhs, stmt.op
        if lhs in scope.accumulators:
            place = scope.accumulators[lhs]
            value, op = (value, None) if op is None else combine(op, place, value)
            return block(update(place, value, op))
        if self.ctx.lists(lhs):
            work = self.ctx.workspaces.at(lhs.tensor, scope.tier)
            return block(*work.insert(self._coordinates(lhs, scope), value, op))
        if op is not None or not scope.whole:
            must_begin(self.ctx, lhs)
        place = element(self.ctx, lhs, scope)
        if op is not None and lhs.tensor in scope.sharing.atomic:
            return block(atomically(place, value, op, scope.sharing.last))
        if op is not None:
            value, op = combine(op, place, value)
        return block(streamed(self.ctx, lhs, update(place, value, op)))

    def _coordinates(self, access: Access, scope: Scope) -> list[Expr]:
        found = [self.ctx.recover(v, scope) for v in access.vars]
        known = [value for value in found if value is not None]
        if len(known) != len(found):
            raise InternalError(f"{access} is used before all its coordinates are known")
        return known

    def _where(self, stmt: Where, scope: Scope) -> p.Block:
        """Compute the temporary, then read it."""
        temporary = stmt.temporary
        lhs = written(stmt.producer)
        before: list[p.Stmt] = []
        flag = None
        made = works(stmt.producer, known(scope.perhaps)) if scope.perhaps else True
        if made is False:  # an empty sum
            return self._consume(stmt, None, scope.given(self._reads(stmt, Value(False, "bool"))))
        if made is not True and not stmt.guarded:
            scope = scope.given(self._reads(stmt, condition(made)))
        if stmt.guarded:
            base = f"{self.ctx.names.of(temporary)}_any"
            flag, scope = scope.fresh(base, "bool", lasting=True)
            scope = scope.flag(temporary, flag)
            before.append(Declare(flag, Value(False, "bool")))
        if temporary.ndim == 0 and scope.counting:
            return block(
                *before, self.lower(stmt.producer, scope), self._consume(stmt, flag, scope)
            )
        if temporary.ndim == 0:
            base = f"{self.ctx.names.of(temporary)}_sum"
            name, scope = scope.fresh(base, temporary.dtype.name, lasting=True)
            scope = scope.accumulate(lhs, name)
            before.append(Declare(name, Value(temporary.fill, temporary.dtype.name)))
            producer = self.lower(stmt.producer, replace(scope, reducing=False))
            return block(*before, producer, self._consume(stmt, flag, scope))
        work = self.ctx.workspaces.add(temporary, lhs.vars, stmt.swept).at(scope.tier)
        if scope.sharing.parallel:
            self.ctx.private.add(temporary)
            self.ctx.inside += [work] if work not in self.ctx.inside else []
        self.ctx.unclear.discard(temporary)
        producer = self.lower(stmt.producer, replace(scope, reducing=False, whole=True))
        if isinstance(work, Table) and work.lists:
            consumer = self._consume(stmt, flag, scope)
            return block(*before, *work.around(producer, consumer, scope.counting))
        return block(
            *before,
            *(() if scope.counting else work.declare()),
            *(work.prepare() if temporary in self.ctx.unclear and not scope.counting else ()),
            producer,
            *work.finish(ordered=not _in_any_order(stmt, self.ctx, scope.counting)),
            self._consume(stmt, flag, scope),
            *work.reset(valued=not scope.counting),
            self.lower(_sweep(stmt), scope) if stmt.swept else None,
        )

    def _consume(self, stmt: Where, flag: p.Name | None, scope: Scope) -> p.Block:
        """Read the temporary; if `flag` is not set, it is absent."""
        if flag is None:
            return self.lower(stmt.consumer, scope)
        others = any(isinstance(n, Where) and n.guarded for n in walk(stmt.consumer))
        if scope.perhaps or others:
            # Cases of several temporaries would multiply.
            return self.lower(stmt.consumer, scope.given(self._reads(stmt, flag)))
        without = restrict(stmt.consumer, reads_of(stmt.consumer, stmt.temporary))
        if without is None:
            self._leave_gaps(written(stmt.consumer), scope)
            inner = self.lower(stmt.consumer, replace(scope, whole=False))
            return block(p.If(flag, inner))
        return block(p.If(flag, self.lower(stmt.consumer, scope), self.lower(without, scope)))

    def _reads(self, stmt: Where, present: Expr | None) -> dict[Access, Expr | None]:
        """The consumer's accesses to the temporary, which are present on a condition."""
        return dict.fromkeys(reads_of(stmt.consumer, stmt.temporary), present)

    def _leave_gaps(self, lhs: Access, scope: Scope) -> None:
        """Record which segments of an appended result may be unvisited; the end closes them."""
        appender = scope.appender
        if appender is not None and self.ctx.is_result(lhs):
            levels = lhs.tensor.format.levels
            open_levels = range(max(1, len(scope.reached(lhs))), len(levels))
            appender.gaps |= {n for n in open_levels if n in appender.sparse and levels[n - 1].full}

    # -- accumulators ---------------------------------------------------------------------------

    def _forall(self, loop: Forall, scope: Scope) -> p.Block:
        """Accumulate in registers around the loop where the result stays in place."""
        lhs = written(loop.body)
        pieces = pieces_of(self.recovery, self.lower)
        if pieces.cut(loop, scope):
            return pieces.loops(loop, scope)
        if scope.counting and not self._counts(loop, scope):
            return block()
        scope = replace(scope, depth=scope.depth + 1)
        if loop.var in scope.tiles:
            tile = scope.tiles[loop.var]
            return Shape(self._cases(replace(loop, var=tile.var), scope)).tile(tile)
        reduces = not separates(self.ctx, loop, lhs, scope)
        inner = replace(scope, reducing=scope.reducing or reduces)
        if self.ctx.provenance.concerns(loop.var, lhs.vars) or lhs in scope.accumulators:
            return self._shape(loop, inner)
        if operator_of(loop) is None or self.ctx.lists(lhs) or scope.counting:
            return self._shape(loop, inner)
        if not keeps_sums(self.ctx, loop):
            return self._shape(loop, inner)
        summed = Accumulators(self.ctx, self._shape).around(loop, lhs, scope)
        return self._shape(loop, inner) if summed is None else summed

    def _counts(self, loop: Forall, scope: Scope) -> bool:
        """Whether a loop affects which entries the result has."""
        return any(
            assign.lhs.tensor in scope.flags
            or any(not kind.full for kind in assign.lhs.tensor.format.levels[reached:])
            for assign in walk(loop)
            if isinstance(assign, Assign)
            for reached in [len(scope.reached(assign.lhs))]
        )

    # -- loops ----------------------------------------------------------------------------------

    @property
    def _iteration(self) -> Iteration:
        return Iteration(self.recovery, LOOPS, self.lower, self._walk)

    def _shape(self, loop: Forall, scope: Scope) -> p.Block:
        if isinstance(loop, Shaped):
            return loop.shape(scope)
        return self._iteration.forall(loop, scope)

    def _cases(self, loop: Forall, scope: Scope) -> Cases:
        return cases_of(self.ctx, self.lower, loop, scope)

    def _walk(self, loop: Forall, window: Range | None, scope: Scope) -> p.Block:
        """Choose the shape of a loop over an underived variable by its lattice."""
        vectors = RowsAsLanes(self.ctx, self.lower).loop(loop, window, scope)
        if vectors is not None:
            return vectors
        cases = self._cases(loop, scope)
        only = None if window is not None or loop.tag is not None else self._only(cases)
        if only is not None:
            made = self.lower(At(loop.var, loop.body), scope.bind(loop.var, Value(only)))
            scope.taken.lasting.update(_declared(made))  # outside of any loop
            return made
        walked = {part.access for part in cases.parts if part.walk is not None}
        drivers = [point.present & walked for point in cases.points]
        if cases.lattice is None:
            drivers = [frozenset() if cases.works_without(walked) else frozenset(walked)]
        if not drivers:
            return block()
        if window is not None and window.pos is not None:
            return self._walk_positions(cases, window, drivers, walked)
        return _shaped(Shape(cases, window), drivers, walked)

    def _only(self, cases: Cases) -> int | None:
        """The only coordinate that an operand has, where nothing is left without it."""
        for part in cases.parts:
            only = part.access.tensor.format.levels[0].only
            if only is None or part.access.level_vars[0] != cases.var:
                continue
            if vanishes(cases.loop.body, part.access, self.ctx.provenance):
                return only
        return None

    def _walk_positions(
        self, cases: Cases, window: Range, drivers: list[frozenset[Access]], walked: set[Access]
    ) -> p.Block:
        """A loop confined to some positions of one operand."""
        if window.pos is None:
            raise InternalError("a window of coordinates")
        access, var, scope = window.pos.access, cases.var, cases.scope
        if access in walked and all(driver == {access} for driver in drivers):
            return Shape(cases, positions=window).position(access)
        if access not in walked and vanishes(cases.loop.body, access, self.ctx.provenance):
            # What is computed was looked up before, for these positions alone.
            driver = Driver(access, access.level_vars.index(var), (var,), var)
            if not access.tensor.format.levels[driver.first].spans:
                return Tracked(self.recovery, self.lower).loop(cases.loop, driver, window, scope)
        code: list[p.Stmt] = []
        level = access.level_vars.index(var)
        kind = access.tensor.format.levels[level]
        if kind.spans:
            view, parent = self.ctx.view(access, level), self.ctx.parent_place(access, level, scope)
            ends = [kind.coordinate(view, parent.position, end) for end in (window.lo, window.hi)]
            count = Count(window.count.fixed, window.count.multiple)
            own = Range(ends[0], ends[1], count)
        else:
            code, own, scope = coordinate_window(self.recovery, window, scope)
        shape = Shape(replace(cases, scope=scope), own, window)
        return block(*code, _shaped(shape, drivers, walked))

    # -- accesses -------------------------------------------------------------------------------

    def _value(self, expr: IndexExpr, scope: Scope) -> Expr:
        return lower_value(expr, scope.coords, lambda access: self._read(access, scope))

    def _read(self, access: Access, scope: Scope) -> Expr:
        if access in scope.accumulators:
            return scope.accumulators[access]
        if access.tensor in self.ctx.workspaces.table:
            scope = self.ctx.reach_further(scope, access)
            return self.ctx.workspaces.element(access, scope.reached(access)[-1], scope.tier)
        return element(self.ctx, access, scope)


def _shaped(shape: Shape, drivers: list[frozenset[Access]], walked: set[Access]) -> p.Block:
    """The shape of a loop, by which operands have to be walked in each of its cases."""
    if not all(drivers):
        made = counted(shape, drivers, walked)
        return shape.dimension(walked) if made is None else made
    if len(set(drivers)) == 1 and len(drivers[0]) == 1:
        return shape.position(next(iter(drivers[0])))
    return shape.merge(walked)


def _declared(code: p.Block) -> Iterator[str]:
    """The names that code declares, other than in loops and cases."""
    for stmt in code.body:
        if isinstance(stmt, p.Block):
            yield from _declared(stmt)
        elif isinstance(stmt, Declare):
            yield stmt.name.name


def _in_any_order(stmt: Where, ctx: Context, counting: bool) -> bool:
    """Whether the order in which the consumer reads the keys of the temporary does not matter.

    It does not if each key alone becomes an entry of the result, which is stored in no order, or
    only counted.
    """
    loop = stmt.consumer
    if not isinstance(loop, Forall) or not isinstance(loop.body, Assign):
        return False
    var, lhs, rhs = loop.var, loop.body.lhs, loop.body.rhs
    last = lhs.tensor.format.levels[-1:]
    others = [a for a in accesses_of(rhs) if a.tensor != stmt.temporary]
    return (
        bool(last)
        and (counting or not last[0].ordered)
        and lhs.level_vars[-1] == var
        and ctx.is_result(lhs)
        and not any(var in (*r.parents, *r.children) for r in ctx.provenance.relations)
        and all(kind.locates for a in others for kind in a.levels_along((var,)))
        and restrict(loop.body, reads_of(loop.body, stmt.temporary)) is None
    )


def _sweep(stmt: Where) -> Stmt:
    """The consumer once more, to put what it reads back to the identity."""
    temporary = stmt.temporary

    def reset(node: Node) -> Node | None:
        if not isinstance(node, Assign):
            return None
        (read,) = (a for a in walk(node.rhs) if isinstance(a, Access) and a.tensor == temporary)
        nothing = Literal(number(temporary.fill, temporary.dtype), temporary.dtype)
        return Assign(read, substitute(node.rhs, {read: nothing}))

    swept = bottom_up(reset)(stmt.consumer)
    if not isinstance(swept, Stmt):
        raise InternalError("a consumer has turned into something else")
    return swept
