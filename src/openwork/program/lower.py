"""From loops to a program: statements, accumulators, and the choice of each loop's shape.

Three shapes, and no more: a *dimension loop* visits every coordinate, a *position loop* walks one
operand's run, a *merge loop* walks several together. Which one a loop gets follows from its merge
lattice. Accumulators stay in registers: a scalar where a reduction leaves the result in one place,
a tile of columns where it leaves it in one row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

from openwork.algebra.operators import BUILTIN, Op
from openwork.algebra.types import Number, number
from openwork.errors import InternalError
from openwork.index.nodes import Access, IndexVar, TensorVar
from openwork.loops.nodes import Assign, Forall, Stmt, Where, written
from openwork.loops.nodes import Sequence as Then
from openwork.loops.plan import Plan
from openwork.loops.result import Append, accesses_of
from openwork.merge.lattice import build, reads_of, restrict
from openwork.program import nodes as p
from openwork.program.assemble import Appender
from openwork.program.choice import Choice, choose
from openwork.program.context import Context
from openwork.program.nodes import Declare, Expr, Set, Store, Value, block, compare
from openwork.program.scope import Scope, Tile
from openwork.program.shapes import Loop
from openwork.program.tensors import Names, Widths
from openwork.program.values import combine, converted, lower_value
from openwork.program.walkers import participant
from openwork.program.workspace import Workspaces
from openwork.tree import Node, bottom_up, substitute, walk

# Columns of a row that are accumulated in registers together, widest first, by element size.
_TILE_BYTES, _NARROW_TILE = 256, 4


@dataclass(frozen=True)
class Lowering:
    """The lowering of one kernel."""

    ctx: Context

    # -- statements -----------------------------------------------------------------------------

    def lower(self, stmt: Stmt, scope: Scope) -> p.Block:
        """`stmt` at the place that `scope` describes."""
        match stmt:
            case Assign():
                return self._assign(stmt, scope)
            case Choice():
                return self._choice(stmt, scope)
            case Forall():
                return self._forall(stmt, scope)
            case Where():
                return self._where(stmt, scope)
            case Then(first=first, then=then):
                return block(self.lower(first, scope), self.lower(then, scope))
        raise InternalError(f"no lowering for {stmt}")

    def _choice(self, stmt: Choice, scope: Scope) -> p.Block:
        type = stmt.assign.lhs.dtype.name
        values = [converted(lower_value(v, scope, self._read), type) for v in stmt.values]
        code, value = choose(stmt.conditions, values, scope)
        return block(*code, self._write(stmt.assign, value, scope))

    def _assign(self, stmt: Assign, scope: Scope) -> p.Block:
        type = stmt.lhs.dtype.name
        return self._write(stmt, converted(lower_value(stmt.rhs, scope, self._read), type), scope)

    def _write(self, stmt: Assign, value: Expr, scope: Scope) -> p.Block:
        """Put `value` where `stmt` wants it, and raise the flag of what it writes to."""
        flag = scope.flags.get(stmt.lhs.tensor)
        raised = None if flag is None else Set(flag, Value(True, "bool"))
        return block(self._store(stmt, value, scope), raised)

    def _store(self, stmt: Assign, value: Expr, scope: Scope) -> p.Block:
        lhs, op = stmt.lhs, stmt.op
        if lhs in scope.accumulators:
            place = scope.accumulators[lhs]
            value, op = (value, None) if op is None else combine(op, place, value)
            return block(_update(place, value, op))
        if self.ctx.lists(lhs):
            work = self.ctx.workspaces.table[lhs.tensor]
            return block(*work.insert([scope.coords[v] for v in lhs.vars], value, op))
        if self.ctx.is_result(lhs):
            self.ctx.needs_initial |= op is not None or not scope.whole
        place = self._element(lhs, scope)
        if op is not None:
            value, op = combine(op, place, value)
        return block(_update(place, value, op))

    def _where(self, stmt: Where, scope: Scope) -> p.Block:
        """Make the temporary, then read it."""
        temporary = stmt.temporary
        lhs = written(stmt.producer)
        before: list[p.Stmt] = []
        flag = None
        if stmt.guarded:
            base = f"{self.ctx.names.of(temporary)}_any"
            flag, scope = scope.fresh(base, "bool", lasting=True)
            scope = scope.flag(temporary, flag)
            before.append(Declare(flag, Value(False, "bool")))
        if temporary.ndim == 0:
            base = f"{self.ctx.names.of(temporary)}_sum"
            name, scope = scope.fresh(base, temporary.dtype.name, lasting=True)
            scope = scope.accumulate(lhs, name)
            before.append(Declare(name, Value(temporary.fill, temporary.dtype.name)))
            producer = self.lower(stmt.producer, replace(scope, reducing=False))
            return block(*before, producer, self._consume(stmt, flag, scope))
        work = self.ctx.workspaces.add(temporary, lhs.vars)
        if scope.parallel and work not in self.ctx.private:
            self.ctx.private.append(work)
        return block(
            *before,
            *work.prepare(),
            self.lower(stmt.producer, scope),
            *work.finish(),
            self._consume(stmt, flag, scope),
            *work.reset(),
        )

    def _consume(self, stmt: Where, flag: p.Name | None, scope: Scope) -> p.Block:
        """Read the temporary; if `flag` was not raised, it is absent."""
        if flag is None:
            return self.lower(stmt.consumer, scope)
        without = restrict(stmt.consumer, reads_of(stmt.consumer, stmt.temporary))
        if without is None:
            self._leave_gaps(written(stmt.consumer), scope)
            inner = self.lower(stmt.consumer, replace(scope, whole=False))
            return block(p.If(flag, inner))
        return block(p.If(flag, self.lower(stmt.consumer, scope), self.lower(without, scope)))

    def _leave_gaps(self, lhs: Access, scope: Scope) -> None:
        """Runs of an appended result that may never be visited are to be closed at the end."""
        appender = self.ctx.appender
        if appender is not None and self.ctx.is_result(lhs):
            levels = lhs.tensor.format.levels
            open_levels = range(max(1, len(scope.reached(lhs))), len(levels))
            appender.gaps |= {n for n in open_levels if n in appender.sparse and levels[n - 1].full}

    # -- accumulators ---------------------------------------------------------------------------

    def _forall(self, loop: Forall, scope: Scope) -> p.Block:
        """Accumulate in registers around the loop where its result stays in place."""
        lhs = written(loop.body)
        scope = replace(scope, depth=scope.depth + 1)
        if loop.var in scope.tiles:
            return self._loop(loop, scope).tile(scope.tiles[loop.var])
        if loop.var in lhs.vars or lhs in scope.accumulators:
            return self._shape(loop, scope)
        inner = replace(scope, reducing=True)
        if _operator(loop) is None or self.ctx.lists(lhs):
            return self._shape(loop, inner)
        if scope.is_reached(lhs):
            return self._in_scalar(loop, lhs, scope)
        column = self._column(loop, lhs, scope)
        if column is not None:
            return self._in_tiles(loop, lhs, column, scope)
        return self._shape(loop, inner)

    def _in_scalar(self, loop: Forall, lhs: Access, scope: Scope) -> p.Block:
        """sum = 0; loop { sum += ... } R[p] = sum;"""
        place = self._element(lhs, scope)
        base = f"{self.ctx.names.of(lhs.tensor)}_sum"
        name, inner = replace(scope, reducing=True).fresh(base, lhs.dtype.name, lasting=True)
        return block(
            Declare(name, self._start(loop, lhs, place, scope)),
            self._shape(loop, inner.accumulate(lhs, name)),
            _update(place, name, None),
        )

    def _in_tiles(self, loop: Forall, lhs: Access, column: IndexVar, scope: Scope) -> p.Block:
        """for each tile of columns { sums = 0; loop { sums += ... } R[row + tile] = sums; }"""
        size = self.ctx.names.extent(column)
        widths = (_TILE_BYTES // lhs.dtype.itemsize, _NARROW_TILE, 1)
        first, scope = scope.fresh(f"{self.ctx.names.variables[column]}_tile", lasting=True)
        code: list[p.Stmt] = [Declare(first, Value(0))]
        for width in widths:
            rest = compare("<=", first + width, size)
            body = self._one_tile(loop, lhs, Tile(column, first, width), scope)
            comment = "columns that are left" if width == 1 else f"{width} columns in registers"
            code.append(p.While(rest, block(body, Set(first, first + width)), comment))
        return block(*code)

    def _one_tile(self, loop: Forall, lhs: Access, tile: Tile, scope: Scope) -> p.Block:
        base = f"{self.ctx.names.of(lhs.tensor)}_sum"
        name, inner = scope.fresh(base, lhs.dtype.name)
        sums = p.Array(name.name, name.type)
        at, outer = scope.fresh(f"{tile.first.name}_at")
        outer = outer.bind(tile.var, tile.first + (at if tile.width > 1 else Value(0)))
        outer = self.ctx.reach_further(outer, lhs)
        place = self._element(lhs, outer)
        start = self._start(loop, lhs, place, scope)
        tiled = replace(inner, reducing=True, tiles={**scope.tiles, tile.var: tile})
        if tile.width == 1:
            work = self._shape(loop, tiled.accumulate(lhs, name))
            return block(Declare(name, start), work, _update(place, name, None))

        def each(body: p.Stmt) -> p.For:
            return p.For(at, Value(0), Value(tile.width), block(body), unrolled=True)

        work = self._shape(loop, tiled.accumulate(lhs, p.Load(sums, at)))
        return block(
            p.Local(sums, tile.width),
            each(Store(sums, at, start)),
            work,
            each(_update(place, p.Load(sums, at), None)),
        )

    def _column(self, loop: Forall, lhs: Access, scope: Scope) -> IndexVar | None:
        """The variable of the columns, if all that is left open of `lhs` is a row of them.

        The loops inside must be over reduction variables, and the innermost over the columns,
        along which no operand is sparse.
        """
        if len(scope.reached(lhs)) != lhs.tensor.ndim - 1:
            return None
        column, inner = lhs.level_vars[-1], loop.body
        while isinstance(inner, Forall) and inner.var != column and inner.var not in lhs.vars:
            inner = inner.body
        if not isinstance(inner, Forall) or not isinstance(inner.body, Assign):
            return None
        sparse = any(
            var == column and not level.full
            for access in (lhs, *accesses_of(inner.body.rhs))
            for level, var in zip(access.tensor.format.levels, access.level_vars, strict=True)
        )
        return None if sparse or inner.var != column else column

    def _start(self, loop: Forall, lhs: Access, place: Expr, scope: Scope) -> Expr:
        """Where an accumulation starts: from nothing, or from what is stored."""
        op = _operator(loop)
        fresh = (
            self.ctx.is_result(lhs) and self.ctx.plan.assignment.op is None and not scope.reducing
        )
        if self.ctx.is_result(lhs):
            self.ctx.needs_initial |= not (fresh and scope.whole)
        if fresh and op is not None:
            return Value(op.identity_of(lhs.dtype), lhs.dtype.name)
        return place

    # -- loops ----------------------------------------------------------------------------------

    def _loop(self, loop: Forall, scope: Scope) -> Loop:
        found = [participant(a, loop.var, scope) for a in self._operands(loop.body)]
        parts = [part for part in found if part is not None]
        lattice = build(loop.body, [part.access for part in parts if part.sparse])
        return Loop(self.ctx, self.lower, loop, lattice, parts, scope)

    def _shape(self, loop: Forall, scope: Scope) -> p.Block:
        """Choose the shape of a loop by its lattice."""
        shape = self._loop(loop, scope)
        walked = {part.access for part in shape.parts if part.walk is not None}
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
        if access.tensor in self.ctx.workspaces.table:
            return self.ctx.workspaces.element(access, scope.reached(access)[-1])
        return self._element(access, scope)

    def _element(self, access: Access, scope: Scope) -> p.Load:
        reached = scope.reached(access)
        if len(reached) != access.tensor.ndim:
            raise InternalError(f"{access} is used before all its levels are reached")
        index = reached[-1].position if reached else Value(0)
        return p.Load(self.ctx.names.values(access.tensor), index)


def _update(place: Expr, value: Expr, op: Op | None) -> p.Stmt:
    """`place op= value;`"""
    match place:
        case p.Name():
            return Set(place, value, op)
        case p.Load(array=array, index=index):
            return Store(array, index, value, op)
    raise InternalError(f"{place} cannot be written to")


def _operator(stmt: Stmt) -> Op | None:
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
    ctx = Context(plan, names, workspaces, appender)
    body = Lowering(ctx).lower(plan.loops, Scope())
    body = block(
        *(Declare(name, count, fixed=True) for name, count in ctx.sizes.items()),
        *(s for work in workspaces.table.values() if work not in ctx.private for s in work.setup()),
        *(appender.prologue() if appender else ()),
        body,
        *(appender.epilogue() if appender else ()),
    )
    sizes = tuple(names.extent(v) for v in variables)
    program = p.Program(tuple(_arguments(ctx, operands)), sizes, body, canonical(plan.loops, names))
    keeps = plan.assignment.op is not None or not ctx.needs_initial or appender is not None
    return Lowered(program, tuple(variables), None if keeps else initial_value(plan))


def _arguments(ctx: Context, operands: tuple[TensorVar, ...]) -> Iterator[p.Argument]:
    """Every array of every operand, then those of the result."""
    names = ctx.names
    for tensor in operands:
        for level, kind in enumerate(tensor.format.levels):
            for fact in sorted(kind.arrays, key=lambda fact: fact.name):
                array = names.array(tensor, level, fact.name)
                yield p.Argument(array, tensor.name, level, fact.name, "operand")
        yield p.Argument(names.values(tensor), tensor.name, -1, "values", "operand")
    if ctx.appender is not None:
        yield from ctx.appender.arguments()
    else:
        result = ctx.plan.result
        yield p.Argument(names.values(result), result.name, -1, "values", "result")


def canonical(loops: Stmt, names: Names) -> str:
    """The loops with the names of the code in place of the user's; the user's operators are f."""

    def rename(node: Node) -> Node | None:
        op = getattr(node, "op", None)
        if isinstance(op, Op) and BUILTIN.get(op.name) != op:
            return replace(node, op=replace(op, name="f", symbol=None))  # type: ignore[type-var]
        return None

    loops = cast(Stmt, bottom_up(rename)(loops))
    tensors = {t for t in walk(loops) if isinstance(t, TensorVar)}
    table: dict[Node, Node] = {t: replace(t, name=names.of(t)) for t in tensors}
    table |= {v: IndexVar(name) for v, name in names.variables.items()}
    return str(substitute(loops, table))
