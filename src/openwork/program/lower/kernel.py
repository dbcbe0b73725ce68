"""A kernel: the program of a plan, with its arguments, memory and title."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from openwork.algebra.entries import Entry
from openwork.algebra.operators import BUILTIN, Op
from openwork.algebra.types import Number, number
from openwork.frozen import frozen
from openwork.index.nodes import Cast, IndexVar, TensorVar
from openwork.loops.nodes import Forall, Stmt, Where, nest_of, relations_of
from openwork.loops.plan.assembly import Append, accesses_of
from openwork.loops.plan.pieces import resumed
from openwork.loops.plan.plan import Plan
from openwork.loops.provenance import Provenance
from openwork.loops.relations import Divide
from openwork.program import nodes as p
from openwork.program.lower.base.accumulate import operator_of
from openwork.program.lower.base.append import Appender
from openwork.program.lower.base.context import Context
from openwork.program.lower.base.names import Names
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.base.specialization import Specialization
from openwork.program.lower.base.workspace import Workspace, Workspaces
from openwork.program.lower.derived.recovery import Recovery
from openwork.program.lower.derived.relations.table import VALUES
from openwork.program.lower.lower import Lowering
from openwork.program.lower.result.gpu_table import maker_of
from openwork.program.nodes import Declare, block
from openwork.program.remarks import named
from openwork.tree import Node, bottom_up, replace, substitute, walk


def initial_value(plan: Plan) -> Number:
    """The initial value of an in-place result."""
    result = plan.result
    op = operator_of(nest_of(plan.loops))
    if op is not None and plan.assignment.op is None:
        return op.identity_of(result.dtype)
    return number(result.fill, result.dtype)


@frozen
class Lowered:
    """A program, the variables whose extents are its arguments, and the result's initial value.

    `initial`: what an in-place result must hold before the call; None if every entry is written,
    or if the statement adds to what is there.
    """

    program: p.Program
    variables: tuple[IndexVar, ...]
    initial: Number | None
    strides: tuple[str, ...] = ()  # the tensors whose strides are arguments after the extents
    notes: tuple[str, ...] = ()  # for `explain()`
    merged: int = 0  # operands of the largest merge without a case for each set of them


def lower_plan(plan: Plan, facts: Specialization) -> Lowered:
    """The program of `plan`, specialized to data with the properties `facts`."""
    nest, provenance = nest_of(plan.loops), Provenance(relations_of(plan.loops))
    loops = [n.var for n in walk(nest) if isinstance(n, Forall)]
    roots = list(dict.fromkeys(u for var in loops for u in provenance.underived(var)))
    operands = tuple(dict.fromkeys(a.tensor for a in accesses_of(plan.assignment.rhs)))
    temporaries = tuple(n.temporary for n in walk(plan.loops) if isinstance(n, Where))
    variables = [*roots, *(v for v in plan.assignment.lhs.vars if v not in roots)]
    variables += [block.var for block in plan.blocks]
    names = Names(
        plan.result, operands, temporaries, variables, facts, provenance.relations,
        blocks=plan.blocks, narrow=_narrow(plan, facts, provenance),
    )  # fmt: skip
    made = plan.assembly if isinstance(plan.assembly, Append) else Append()
    make = maker_of(made) if made.lanes > 1 else Workspace
    workspaces = Workspaces(names, {}, make)
    appender = None
    if isinstance(plan.assembly, Append):
        appender = Appender(plan.assignment.lhs, names, resumed=resumed(plan, provenance))
    ctx = Context(plan, names, workspaces, appender)
    recovery = Recovery(ctx, VALUES)
    ctx.recover = recovery.value
    names.sizes.update({v: recovery.most(v) for v in provenance.above})
    body = Lowering(recovery).lower(nest, Scope(appender=appender))
    serial = isinstance(plan.assembly, Append) and plan.assembly.strategy == "serial"
    if appender is not None and provenance.relations and serial:
        # Derived loops may have no iterations; then they close none of the rows they would visit.
        levels = plan.result.format.levels
        appender.gaps |= {n for n in appender.sparse if n and levels[n - 1].full}
    body = block(
        *(Declare(name, count, fixed=True) for name, count in ctx.sizes.items()),
        *(
            s
            for work in workspaces.table.values()
            if work.tensor not in ctx.private
            for s in work.setup()
        ),
        *(s for code in ctx.inspected.values() for s in code),
        *(appender.prologue() if appender and serial else ()),
        body,
        *(appender.epilogue() if appender and serial else ()),
    )
    variables = [v for v in variables if v not in names.inner_blocks]
    sizes = (
        *(names.size_of(v) for v in variables),
        *(names.values(tensor).stride for tensor in names.strides),
    )
    # Nothing writes the padding of a block beyond the end of its mode.
    ctx.needs_initial |= bool(plan.blocks) and plan.native is not None
    arguments, title = tuple(_arguments(ctx, operands)), canonical(plan.loops, names)
    program = p.Program(arguments, sizes, body, title, names.words)
    keeps = plan.assignment.op is not None or not ctx.needs_initial or appender is not None
    initial = None if keeps else initial_value(plan)
    strides = tuple(tensor.name for tensor in names.strides)
    return Lowered(program, tuple(variables), initial, strides, tuple(ctx.notes), ctx.merged)


def _narrow(plan: Plan, facts: Specialization, provenance: Provenance) -> frozenset[IndexVar]:
    """The variables whose extents fit 32 bits: new coordinates of the result are stored so."""
    lhs = plan.assignment.lhs
    if not isinstance(plan.assembly, Append):
        return frozenset()  # the width of an operand's coordinates, which its pattern decides
    stored = {
        var
        for level, var in enumerate(lhs.level_vars)
        for fact in lhs.tensor.format.levels[level].arrays
        if fact.holds == "coordinates" and facts.width(lhs.tensor.name, level, fact.name) == "int32"
    }
    renamed = {
        child
        for relation in provenance.relations
        if relation.renames and stored.issuperset(relation.parents)
        for child in relation.children
    }
    return frozenset(stored | renamed)


def _arguments(ctx: Context, operands: tuple[TensorVar, ...]) -> Iterator[p.Argument]:
    """Every array of every operand, then those of the result."""
    names = ctx.names
    for tensor in operands:
        for level, kind in enumerate(tensor.format.levels):
            for fact in sorted(kind.arrays, key=lambda fact: fact.name):
                array = names.array(tensor, level, fact)
                yield p.Argument(array, tensor.name, level, fact.name, "operand")
        yield p.Argument(names.values(tensor), tensor.name, -1, "values", "operand")
    for relation in ctx.provenance.relations:
        if isinstance(relation, Divide) and relation.points is not None:
            yield p.Argument(ctx.cuts(relation), relation.outer.name, -1, "cuts", "operand")
    if ctx.appender is not None:
        yield from ctx.appender.arguments()
    else:
        result = ctx.plan.result
        yield p.Argument(names.values(result), result.name, -1, "values", "result")


def canonical(loops: Stmt, names: Names) -> str:
    """The loops as a title: names of the code, marked as such; user-defined operators are f."""

    def rename(node: Node) -> Node | None:
        op = getattr(node, "op", None)
        if isinstance(node, Cast) and isinstance(node.to, Entry):
            return replace(node, to=node.to.anonymous)
        if isinstance(op, Op) and BUILTIN.get(op.name) != op:
            return replace(node, op=replace(op, name="f", symbol=None))  # type: ignore[type-var]
        return None

    loops = cast(Stmt, bottom_up(rename)(loops))
    tensors = {t for t in walk(loops) if isinstance(t, TensorVar)}
    table: dict[Node, Node] = {t: replace(t, name=names.said(t)) for t in tensors}
    table |= {v: IndexVar(named(name)) for v, name in names.variables.items()}
    return str(substitute(loops, table))
