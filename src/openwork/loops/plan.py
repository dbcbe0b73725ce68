"""A plan for a statement: loops that compute it, and the conversions around them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from openwork.format.formats import Format
from openwork.format.levels import Compressed
from openwork.index.checks import extents
from openwork.index.nodes import Access, Apply, Assignment, IndexVar, TensorVar
from openwork.loops.concretize import Concretizer, fresh_names, tag_outermost
from openwork.loops.nodes import Forall, OutputRaceStrategy, ParallelUnit, Stmt, Tag
from openwork.loops.order import Order, append_edges, choose_order, walk_edges
from openwork.loops.result import Append, Assembly, Shared, accesses_of, choose_assembly
from openwork.trace import Trace
from openwork.tree import substitute, walk

_UNKNOWN_SIZE = 1000.0


@dataclass(frozen=True)
class Derived:
    """An operand that is made from another tensor before the kernel runs."""

    var: TensorVar
    source: str  # the tensor it is made from; the result's own name for its old value


@dataclass(frozen=True)
class Plan:
    """Loops for one statement.

    `result` is what the loops write; the user's result differs from it in format only when
    `converts_result`. `derived` operands are conversions of the user's.
    """

    assignment: Assignment
    loops: Stmt
    assembly: Assembly
    derived: tuple[Derived, ...]
    result: TensorVar
    user_result: TensorVar

    @property
    def converts_result(self) -> bool:
        """Whether the result is computed in another format than asked for."""
        return self.result.format != self.user_result.format


def plan(assignment: Assignment, trace: Trace, sizes: dict[str, float] | None = None) -> Plan:
    """Choose assembly, loop order and conversions for an assignment with explicit reductions.

    `sizes` gives the number of stored entries of operands, where it is known.
    """
    user_result = assignment.lhs.tensor
    derived: list[Derived] = []
    if assignment.op is not None and not user_result.format.is_dense:
        assignment, old = _read_old_value(assignment)
        derived.append(old)
    assembly = choose_assembly(assignment)
    order = _order(assignment, assembly, sizes or {})
    if isinstance(assembly, Shared) and assembly.operand in order.misfits:
        assembly = Append()
        order = _order(assignment, assembly, sizes or {})
    assignment, more = _convert(assignment, order, trace)
    assembly = choose_assembly(assignment) if isinstance(assembly, Append) else assembly
    _note(assembly, assignment, trace)
    names = fresh_names(frozenset(n.name for n in walk(assignment) if isinstance(n, TensorVar)))
    builder = Concretizer(order.vars, assignment.lhs.tensor, assembly, extents(assignment), names)
    loops = builder.build(0, assignment.lhs, assignment.op, assignment.rhs, frozenset())
    return Plan(
        assignment,
        _parallel(loops, assignment, assembly, trace),
        assembly,
        (*derived, *more),
        assignment.lhs.tensor,
        user_result,
    )


def _read_old_value(assignment: Assignment) -> tuple[Assignment, Derived]:
    """`C op= e` into a sparse result  =>  `C = op(C', e)`, where C' is the old value of C."""
    lhs, op = assignment.lhs, assignment.op
    assert op is not None  # noqa: S101 - the caller asked
    fill = lhs.tensor.fill
    old = replace(lhs.tensor, name=f"{lhs.tensor.name}'", fill=fill, source=None)
    rhs = Apply(op, (Access(old, lhs.vars), assignment.rhs))
    return Assignment(lhs, rhs, None, assignment.span), Derived(old, lhs.tensor.name)


def _order(assignment: Assignment, assembly: Assembly, sizes: dict[str, float]) -> Order:
    operands = accesses_of(assignment.rhs)
    result = assignment.lhs
    variables = list(dict.fromkeys(result.level_vars))
    variables += [
        v for v in dict.fromkeys(n for n in walk(assignment.rhs) if isinstance(n, IndexVar))
        if v not in variables
    ]  # fmt: skip
    constraints = {access: walk_edges(access) for access in operands}
    costs = {a: sizes.get(a.tensor.name, _UNKNOWN_SIZE) for a in operands}
    if isinstance(assembly, Append):
        constraints[result] = constraints.get(result, frozenset()) | append_edges(result)
        # Slightly below the sum of its operands, so that one conversion beats several.
        costs[result] = 0.9 * sum(costs.values()) + 1
    return choose_order(variables, constraints, costs, [*operands, result])


def _convert(
    assignment: Assignment, order: Order, trace: Trace
) -> tuple[Assignment, tuple[Derived, ...]]:
    """Replace each access that does not fit the loop order by one to a converted tensor."""
    table: dict[Access, Access] = {}
    derived: dict[TensorVar, Derived] = {}
    for access in sorted(order.misfits, key=str):
        tensor = access.tensor
        fitting = _fitting_format(access, order)
        new = replace(tensor, name=f"{tensor.name}'{len(derived) + 1}", format=fitting, source=None)
        if access == assignment.lhs:
            new = replace(new, name=tensor.name, source=tensor.source)
            trace.decide(f"{tensor}: computed as {fitting!r}, then converted to {tensor.format!r}")
        else:
            new = next((d for d in derived if _same(d, new, derived[d].source, tensor)), new)
            derived[new] = Derived(new, tensor.name)
            trace.decide(
                f"{tensor}: converted from {tensor.format!r} to {fitting!r}, because the other "
                f"operands are stored in the order {', '.join(map(str, order.vars))}"
            )
        table[access] = Access(new, access.vars, access.span)
    lhs = table.get(assignment.lhs, assignment.lhs)
    rhs = substitute(assignment.rhs, {a: b for a, b in table.items() if a != assignment.lhs})
    return Assignment(lhs, rhs, assignment.op, assignment.span), tuple(derived.values())


def _same(known: TensorVar, new: TensorVar, source: str, tensor: TensorVar) -> bool:
    return source == tensor.name and known.format == new.format


def _fitting_format(access: Access, order: Order) -> Format:
    """The same number of leading full levels, then compressed ones, in the order of the loops.

    A full level below a sparse one stores entries that nobody asked for; in another order of the
    modes those would be other entries, so such levels are not kept.
    """
    levels = access.tensor.format.levels
    modes = sorted(range(len(levels)), key=lambda m: (order.vars.index(access.vars[m]), m))
    leading = next((n for n, level in enumerate(levels) if not level.full), len(levels))
    return Format([*levels[:leading], *[Compressed] * (len(levels) - leading)], modes)


def _note(assembly: Assembly, assignment: Assignment, trace: Trace) -> None:
    name = assignment.lhs.tensor.name
    match assembly:
        case Shared(operand=operand):
            trace.decide(
                f"{name}: has the pattern of {operand.tensor}, whose index arrays it shares"
            )
        case Append():
            trace.decide(f"{name}: assembled by appending in one serial pass")
        case _:
            trace.decide(f"{name}: dense, written in place")


def _parallel(loops: Stmt, assignment: Assignment, assembly: Assembly, trace: Trace) -> Stmt:
    """Give the outermost loop to threads when its iterations write to different places."""

    def change(loop: Forall) -> Stmt:
        if isinstance(assembly, Append):
            trace.decide("serial: a result is appended to in order")
            return loop
        if loop.var not in assignment.lhs.vars:
            trace.decide(f"serial: iterations of {loop.var} write to the same entries")
            return loop
        trace.decide(f"{loop.var}: parallel over threads, no two iterations write to one entry")
        return replace(loop, tag=Tag(ParallelUnit.CPUThread, OutputRaceStrategy.NoRaces))

    return tag_outermost(loops, change)
