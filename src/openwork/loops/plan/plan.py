"""A plan for a statement: loops that compute it, and the conversions around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from openwork.algebra.types import DType, computed
from openwork.errors import ScheduleError
from openwork.format.formats import Format
from openwork.format.layouts import AOS, WITH_COORDINATES
from openwork.format.levels import Compressed, Dense, Level
from openwork.frozen import frozen
from openwork.index.checks import extents
from openwork.index.nodes import Access, Apply, Assignment, IndexVar, Reduce, TensorVar
from openwork.loops.absent import restrict
from openwork.loops.nodes import Assign, Forall, Stmt
from openwork.loops.plan.assembly import Append, Assembly, Shared, accesses_of, choose_assembly
from openwork.loops.plan.blocks import Block, tile
from openwork.loops.plan.concretize import Concretizer, fresh_names
from openwork.loops.plan.order import (
    Costs,
    Edge,
    Order,
    append_edges,
    choose_order,
    converted,
    walk_edges,
)
from openwork.loops.plan.select import Selection, with_selections
from openwork.loops.plan.sorted import rising, sorted_operands
from openwork.trace import Trace
from openwork.tree import substitute, walk


@frozen
class Derived:
    """An operand that is converted from another tensor before the kernel runs."""

    var: TensorVar
    source: str  # the tensor it is converted from; the result's own name for its old value
    selection: Selection | None = None  # it selects coordinates, and is made for each call


@frozen
class Plan:
    """Loops for one statement, which is `written` by the user and computed as the `assignment`.

    `result` is what the loops write; the user's result differs from it in format only when
    `converts_result`. `derived` operands are conversions of the user's. `otherwise`: the
    fallback for data that breaks this plan's bounds, if the compiler chose them. `kept`: an operand
    whose transpose repeated calls keep, and then compute the statement with; "" for none.
    """

    assignment: Assignment
    loops: Stmt
    assembly: Assembly
    derived: tuple[Derived, ...]
    result: TensorVar
    written: Assignment
    streams: bool = False  # the result is written by non-temporal stores
    blocks: tuple[Block, ...] = ()
    native: Format | None = None  # of the result as the user stores it, viewed through the blocks
    otherwise: Plan | None = None
    kept: str = field(default="", compare=False)

    @property
    def user_result(self) -> TensorVar:
        """The result as the user stores it."""
        return self.written.lhs.tensor

    @property
    def converts_result(self) -> bool:
        """Whether the result is computed in another format than asked for."""
        return self.result.format != (self.native or self.user_result.format)


def plan(
    assignment: Assignment,
    trace: Trace,
    sizes: Mapping[str, float] | None = None,
    wanted: tuple[IndexVar, ...] | None = None,
    by_rows: bool = False,
) -> Plan:
    """Choose assembly, loop order and conversions for an assignment with explicit reductions.

    `sizes` gives the number of stored entries of operands, where it is known. `wanted`: the order
    of the loops that a schedule fixes; then nothing is converted.
    """
    written = assignment
    derived: list[Derived] = []
    tensor = assignment.lhs.tensor
    if assignment.op is not None and not (tensor.format.is_dense and _is_plain(tensor.dtype)):
        assignment, old = _read_old_value(assignment)
        derived.append(old)
    assignment, selections = with_selections(assignment)
    derived += [Derived(each.var, each.source, each) for each in selections]
    assignment, in_order = sorted_operands(assignment, trace)
    derived += [Derived(new, old.name) for old, new in in_order]
    tiled = tile(assignment, trace)
    assignment = tiled.assignment
    derived += [Derived(new, old.name) for old, new in tiled.flat]
    if assignment.lhs.tensor.format.layout in WITH_COORDINATES:
        assignment = _with_records_in_order(assignment, trace)
    assembly = choose_assembly(assignment)
    if not isinstance(assembly, Shared):
        assignment = _with_appendable_result(assignment, trace)
    order = _order(assignment, assembly, sizes or {}, wanted, tiled.blocks, by_rows)
    if isinstance(assembly, Shared) and order.misfits & {assembly.operand, assignment.lhs}:
        assembly = Append()
        assignment = _with_appendable_result(assignment, trace)
        order = _order(assignment, assembly, sizes or {}, wanted, tiled.blocks, by_rows)
    assignment, more = _convert(assignment, order, trace)
    if isinstance(assembly, Append):
        # Converted to one format, the result may have an operand's pattern after all.
        converted_assembly = choose_assembly(assignment)
        if not isinstance(converted_assembly, Shared) or _shares(
            assignment, converted_assembly, order
        ):
            assembly = converted_assembly
    replaced = (*derived, *more)
    stored = _stored(assignment, sizes or {}, replaced)
    loops = _built(assignment, assembly, order, stored, selections)
    if isinstance(assembly, Shared) and not _walks(loops, assembly, assignment.lhs):
        assembly = Append()
        assignment = _with_appendable_result(assignment, trace)
        order = _order(assignment, assembly, sizes or {}, wanted, tiled.blocks, by_rows)
        loops = _built(assignment, assembly, order, stored, selections)
    _note(assembly, assignment, trace)
    result, blocks, native = assignment.lhs.tensor, tiled.blocks, tiled.native
    return Plan(
        assignment, loops, assembly, replaced, result, written, blocks=blocks, native=native
    )


def _with_appendable_result(assignment: Assignment, trace: Trace) -> Assignment:
    """Compute a result whose levels cannot be appended to in a format whose levels can."""
    if not assignment.lhs.tensor.format.is_dense:
        assignment = _with_records_in_order(assignment, trace)
    tensor = assignment.lhs.tensor
    levels = tensor.format.levels
    # Entries of the innermost level may be appended in any order.
    if _can_append((*levels[:-1], *map(rising, levels[-1:]))):
        return assignment
    kinds = [Dense if level.full else Compressed for level in levels]
    made = Format(kinds, tensor.format.order)
    trace.decide(f"{tensor}: computed as {made!r}, then converted to {tensor.format!r}")
    lhs = replace(assignment.lhs, tensor=replace(tensor, format=made))
    return replace(assignment, lhs=lhs)


def _with_records_in_order(assignment: Assignment, trace: Trace) -> Assignment:
    """Compute a result with its records one after another: arrays of other layouts do not grow."""
    tensor = assignment.lhs.tensor
    if tensor.format.layout == AOS:
        return assignment
    made = tensor.format.with_layout(AOS)
    trace.decide(
        f"{tensor}: computed with its records in order, then laid out as {tensor.format.layout}"
    )
    return replace(assignment, lhs=replace(assignment.lhs, tensor=replace(tensor, format=made)))


def _can_append(levels: tuple[Level, ...]) -> bool:
    return all((level.full and not level.arrays) or level.appends for level in levels)


def _stored(
    assignment: Assignment, sizes: Mapping[str, float], derived: tuple[Derived, ...]
) -> float | None:
    """How many entries all operands have together, if that is known."""
    origin = {d.var.name: d.source for d in derived}
    read = {access.tensor.name for access in accesses_of(assignment.rhs)}
    known = [sizes.get(origin.get(name, name)) for name in read]
    return None if None in known else sum(size or 0.0 for size in known)


def _built(
    assignment: Assignment,
    assembly: Assembly,
    order: Order,
    stored: float | None,
    selections: Sequence[Selection],
) -> Stmt:
    names = fresh_names(names_of(assignment))
    lhs = assignment.lhs
    place = {var: n for n, var in enumerate(order.vars)}
    single = frozenset(
        each.column
        for each in selections
        if each.is_single and all(place[row] < place[each.column] for row in each.rows)
    )
    sizes = extents(assignment)
    builder = Concretizer(order.vars, lhs.tensor, assembly, sizes, names, stored, single)
    return builder.build(0, lhs, assignment.op, assignment.rhs, frozenset())


def _walks(loops: Stmt, assembly: Shared, lhs: Access) -> bool:
    """Whether the operand whose pattern the result shares decides where the result is written.

    In a loop order that the user fixed, sums may go into temporaries first, which have patterns of
    their own.
    """
    innermost = lhs.level_vars[assembly.depth - 1]
    around = [
        loop
        for loop in walk(loops)
        if isinstance(loop, Forall) and loop.var == innermost and _writes(loop, lhs)
    ]
    written = sum(isinstance(n, Assign) and n.lhs == lhs for n in walk(loops))
    inside = sum(isinstance(n, Assign) and n.lhs == lhs for loop in around for n in walk(loop))
    return inside == written and all(
        restrict(loop.body, [assembly.operand]) is None for loop in around
    )


def _writes(loop: Forall, lhs: Access) -> bool:
    return any(isinstance(n, Assign) and n.lhs == lhs for n in walk(loop))


def names_of(assignment: Assignment) -> frozenset[str]:
    """The names of the tensors of a statement."""
    return frozenset(n.name for n in walk(assignment) if isinstance(n, TensorVar))


def _is_plain(dtype: DType) -> bool:
    """Whether elements are stored as they are computed, so that loops can update them."""
    return computed(dtype) == dtype


def _read_old_value(assignment: Assignment) -> tuple[Assignment, Derived]:
    """`C op= e`  =>  `C = op(C', e)`, where C' is the old value of C, as it was stored."""
    lhs, op = assignment.lhs, assignment.op
    assert op is not None  # noqa: S101 - the caller asked
    old = lhs.tensor.converted("", lhs.tensor.format)
    rhs = Apply(op, (Access(old, lhs.vars), assignment.rhs))
    return Assignment(lhs, rhs, None, assignment.span), Derived(old, lhs.tensor.name)


def _order(
    assignment: Assignment,
    assembly: Assembly,
    sizes: Mapping[str, float],
    wanted: tuple[IndexVar, ...] | None,
    blocks: tuple[Block, ...],
    by_rows: bool,
) -> Order:
    operands = accesses_of(assignment.rhs)
    result = assignment.lhs
    variables = list(dict.fromkeys(result.level_vars))
    variables += [
        v for v in dict.fromkeys(n for n in walk(assignment.rhs) if isinstance(n, IndexVar))
        if v not in variables
    ]  # fmt: skip
    constraints = {access: walk_edges(access) for access in operands}
    if isinstance(assembly, Append):
        constraints[result] = append_edges(result)
    elif isinstance(assembly, Shared) and wanted is None:
        constraints[result] = _sharing_edges(assignment, assembly)
    if wanted is not None and set(wanted) == set(variables):
        _check_wanted(wanted, constraints)
        return Order(wanted, frozenset())
    # Blocks are stored whole: all of their variables outside of all within.
    always = frozenset((one.outer, other.inner) for one in blocks for other in blocks)
    if by_rows and isinstance(assembly, Append):
        always |= {(variables[0], inner) for inner in variables[1:]}
    costs = Costs(extents(assignment), sizes)
    return choose_order(variables, constraints, operands, result, costs, always)


def _check_wanted(wanted: tuple[IndexVar, ...], constraints: dict[Access, frozenset[Edge]]) -> None:
    for access, edges in constraints.items():
        for outer, inner in sorted(edges, key=str):
            if wanted.index(outer) > wanted.index(inner):
                raise ScheduleError(
                    f"{access.tensor} is stored with {outer} outside of {inner}, but the loops "
                    f"bind {inner} first: {', '.join(map(str, wanted))}",
                    code="E304",
                    hint=f"keep {outer} outside of {inner}, or store {access.tensor} in the other "
                    "order",
                )


def _sharing_edges(assignment: Assignment, assembly: Shared) -> frozenset[Edge]:
    """Where the pattern is shared, the loops along its operand enclose all reductions."""
    shared = assignment.lhs.level_vars[: assembly.depth]
    summed = {node.var for node in walk(assignment.rhs) if isinstance(node, Reduce)}
    return frozenset((outer, inner) for outer in shared for inner in summed)


def _shares(assignment: Assignment, assembly: Shared, order: Order) -> bool:
    edges = _sharing_edges(assignment, assembly)
    return all(order.vars.index(a) < order.vars.index(b) for a, b in edges)


def _convert(
    assignment: Assignment, order: Order, trace: Trace
) -> tuple[Assignment, tuple[Derived, ...]]:
    """Replace each access that does not fit the loop order by one to a converted tensor."""
    table: dict[Access, Access] = {}
    derived: dict[TensorVar, Derived] = {}
    for access in sorted(order.misfits, key=str):
        tensor = access.tensor
        fitting = converted(access, order.vars).tensor.format
        if access == assignment.lhs:
            new = replace(tensor, format=fitting)
            trace.decide(f"{tensor}: computed as {fitting!r}, then converted to {tensor.format!r}")
        else:
            new = tensor.converted(str(len(derived) + 1), fitting)
            new = next((d for d in derived if _same(d, new, derived[d].source, tensor)), new)
            derived[new] = Derived(new, tensor.name)
            trace.decide(
                f"{tensor}: converted from {tensor.format!r} to {fitting!r} before each call, so "
                f"that all operands can be traversed in the order {', '.join(map(str, order.vars))}"
            )
        table[access] = Access(new, access.vars, access.span)
    lhs = table.get(assignment.lhs, assignment.lhs)
    rhs = substitute(assignment.rhs, {a: b for a, b in table.items() if a != assignment.lhs})
    return Assignment(lhs, rhs, assignment.op, assignment.span), tuple(derived.values())


def _same(known: TensorVar, new: TensorVar, source: str, tensor: TensorVar) -> bool:
    return source == tensor.name and known.format == new.format


def _note(assembly: Assembly, assignment: Assignment, trace: Trace) -> None:
    name = assignment.lhs.tensor.name
    match assembly:
        case Shared(operand=operand):
            trace.decide(
                f"{name}: has the pattern of {operand.tensor}, whose index arrays it shares"
            )
        case Append():
            trace.decide(f"{name}: its pattern is computed with its values")
        case _:
            trace.decide(f"{name}: dense, written in place")
