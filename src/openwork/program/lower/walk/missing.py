"""Coordinates without entries, which are counted instead of visited.

    sum = max over the stored entries;  if (there are fewer than coordinates) sum = max(sum, 0);

A loop has to visit each coordinate if something is left to do where its operands have no entries.
But what is left may not depend on the coordinate: then it is done once where doing it again changes
nothing, as in a minimum, and a sum adds a multiple of it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from openwork.algebra import operators as ops
from openwork.algebra.entries import Entry
from openwork.algebra.operators import Op
from openwork.algebra.types import FLOAT64, DType
from openwork.frozen import frozen
from openwork.index.nodes import Absent, Access, Apply, Cast, Expr, IndexVar, Literal
from openwork.index.show import show
from openwork.loops.nodes import Assign, Forall, Stmt
from openwork.program import nodes as p
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.walk.cases import Cases
from openwork.program.lower.walk.lattice import Lattice, Point
from openwork.program.lower.walk.shapes import Shape
from openwork.program.nodes import Declare, Name, Value, block, compare
from openwork.tree import replace, walk

# Stands for a number of coordinates in an expression; no user's variable has a space in its name.
_TIMES = IndexVar("missing coordinates")


@frozen
class Repeated:
    """What is done at each coordinate without entries: `assign`, in `loops`, outermost first.

    `times`: loops around it whose iterations are all the same, too.
    """

    assign: Assign
    loops: tuple[Forall, ...]
    times: tuple[Forall, ...]

    def around(self, stmt: Stmt) -> Stmt:
        """`stmt` in the loops."""
        for loop in reversed(self.loops):
            stmt = replace(loop, body=stmt)
        return stmt


def counted(
    shape: Shape, drivers: Sequence[frozenset[Access]], walked: Collection[Access]
) -> p.Block | None:
    """The loop over stored entries alone, and what the missing ones add; None: visit them all.

    `drivers`: the operands that are walked in each case; those of the last case are none.
    """
    cases = shape.cases
    ctx, scope = cases.ctx, cases.scope
    if not walked:
        return None
    why = _obstacle(cases, drivers)
    repeated = None if why else _repeated(cases)
    if repeated is None:
        ctx.note(_visited(cases, why or f"what it computes there depends on {cases.var}"))
        return None
    points = cases.lattice.points[:-1] if cases.lattice is not None else ()
    lattice = Lattice((*points, Point(frozenset(), None)))
    met, scope = scope.fresh(f"{cases.name}_met", lasting=True)
    coordinates = shape.window or ctx.everything(cases.var, scope)
    those = sorted({show(access) for access in walked})
    ctx.note(
        f"{cases.var}: coordinates without entries of {' and '.join(those)} are counted, "
        "not visited"
    )
    loop = replace(shape, cases=replace(cases, lattice=lattice, scope=scope))
    walk_all, entries = loop.stored(met, drivers[:-1], set(walked))
    missing, scope = scope.fresh(f"{cases.name}_missing", lasting=True)
    rest = Declare(missing, coordinates.size - entries, fixed=True)
    return block(walk_all, rest, _afterwards(cases, repeated, missing, scope))


def _obstacle(cases: Cases, drivers: Sequence[frozenset[Access]]) -> str:
    """Why every coordinate has to be visited; empty if nothing is known against counting."""
    lattice, loop = cases.lattice, cases.loop
    if lattice is None:
        return "too many operands may be absent"
    walked = len(drivers) > 1 and all(drivers[:-1]) and not drivers[-1]
    if (
        lattice.everywhere is None
        or not walked
        or any(each.body is None for each in lattice.points)
    ):
        return "not every operand can be iterated over"
    if loop.tag is not None and loop.tag.unit.on_gpu:
        return "threads of a GPU share it"
    if any(node in cases.scope.perhaps for node in walk(loop) if isinstance(node, Access)):
        return "operands may be absent as a whole"
    return ""


def _repeated(cases: Cases) -> Repeated | None:
    """What is left to do without operands, if it is the same at every coordinate."""
    stmt = None if cases.lattice is None else cases.lattice.everywhere
    if stmt is None or not _invariant(stmt, cases.var, cases):
        return None
    loops: list[Forall] = []
    times: list[Forall] = []
    while type(stmt) is Forall:
        same = _invariant(stmt.body, stmt.var, cases) and _is_plain(stmt.var, cases)
        (times if same else loops).append(stmt)
        stmt = stmt.body
    if not isinstance(stmt, Assign) or stmt.op is None:
        return None
    if stmt.op.idempotent or _multiple(stmt, stmt.op) is not None:
        return Repeated(stmt, tuple(loops), tuple(times))
    return None


def _invariant(stmt: Stmt, var: IndexVar, cases: Cases) -> bool:
    """Whether `stmt` is the same for each value of `var`."""
    concerns = cases.ctx.provenance.concerns  # a workspace's variable, say, that `var` gives values
    return not any(
        (isinstance(node, IndexVar) and concerns(node, (var,)))
        or (isinstance(node, Forall) and not _is_plain(node.var, cases))
        for node in walk(stmt)
    )


def _is_plain(var: IndexVar, cases: Cases) -> bool:
    """Whether a loop over `var` runs over all its values, wherever it stands."""
    derived = var in cases.ctx.provenance.variables
    if derived or cases.ctx.names.ends_early(var):
        return False
    return not cases.scope.bounds.confined(var)


def _multiple(assign: Assign, op: Op) -> Expr | None:
    """What to combine once in place of `assign.rhs` so many times; None if there is no such."""
    rhs, kind = _literal(assign.rhs), assign.lhs.dtype
    if isinstance(kind, Entry) or isinstance(rhs.dtype, Entry):
        return None
    if op.multiplies:
        none = isinstance(rhs, Literal) and rhs.value == 0
        return rhs if none else None
    if not op.adds or kind.kind not in "iufc":
        return None
    return Apply(ops.MUL, (Cast(_wide(kind), _TIMES), rhs))


def _wide(kind: DType) -> DType:
    """A type in which a number of coordinates is multiplied."""
    return FLOAT64 if kind.kind in "fc" else kind


def _literal(expr: Expr) -> Expr:
    return Literal(expr.value, expr.typed) if isinstance(expr, Absent) else expr


def _afterwards(cases: Cases, repeated: Repeated, missing: Name, scope: Scope) -> p.Stmt:
    """if (coordinates are missing) combine what stands for them"""
    ctx, assign = cases.ctx, repeated.assign
    test: p.Expr = compare("<", Value(0), missing)
    times: p.Expr = missing
    for loop in repeated.times:
        extent = ctx.everything(loop.var, scope).size
        test = p.Binary("&&", test, compare("<", Value(0), extent))
        times = times * extent
    op = assign.op
    multiple = None if op is None or op.idempotent else _multiple(assign, op)
    if multiple is not None:
        # Within another loop's missing coordinates the assignment is a multiple already.
        around = scope.coords.get(_TIMES)
        assign = replace(assign, rhs=multiple) if around is None else assign
        scope = scope.bind(_TIMES, times if around is None else around * times)
    inside = replace(scope, depth=scope.depth + 1)
    return p.If(test, cases.lower(repeated.around(assign), inside))


def _visited(cases: Cases, why: str) -> str:
    those = sorted({show(part.access) for part in cases.parts if part.sparse})
    return (
        f"{cases.var}: every coordinate is visited, also those without an entry of "
        f"{' and '.join(those)}: {why}"
    )
