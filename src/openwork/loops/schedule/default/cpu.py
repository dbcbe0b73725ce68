"""The schedule that a statement has if the user gives none, in the scheduling language itself.

Four things are worth more than they cost on every machine. A sum of products over several loops is
factored, so that what does not change further in is multiplied once (the MTTKRP of the thesis'
appendix). A dot product along memory is summed in several lanes, which do not wait for each other.
Rows that are stored side by side are the lanes of vectors. And columns that are few are counted on,
so that a row of them is a handful of vectors; data of other extents gets the loops without that.
"""

from __future__ import annotations

from dataclasses import replace

from openwork.errors import ScheduleError
from openwork.index.nodes import Access, Apply, IndexVar
from openwork.index.show import show
from openwork.loops.nodes import (
    Forall,
    OutputRaceStrategy,
    ParallelUnit,
    Stmt,
    SuchThat,
    Tag,
    nest_of,
    relations_of,
)
from openwork.loops.plan.assembly import Append, accesses_of
from openwork.loops.plan.concretize import tag_outermost
from openwork.loops.plan.nest import Path, paths, provenance_of
from openwork.loops.plan.plan import Plan
from openwork.loops.relations import BoundType, Divide
from openwork.loops.schedule.commands.bound import bound
from openwork.loops.schedule.commands.divide import divide
from openwork.loops.schedule.commands.fuse import fuse
from openwork.loops.schedule.commands.parallelize import parallelize
from openwork.loops.schedule.commands.precompute import precompute
from openwork.loops.schedule.commands.split import split
from openwork.loops.schedule.default.cpu_dot import extent_of, terms_of, vars_of, with_lanes
from openwork.loops.schedule.legality.parallel import entangled
from openwork.trace import Trace

# Bytes that the sums of rows side by side take, at most and at least. Long stretches are read fast.
_MOST_ROWS, _LEAST_ROWS = 1024, 32
# Bytes of columns that are counted on, at most, and of a vector that they are multiples of.
_MOST_COLUMNS, _VECTOR = 256, 32
# From so many reduction loops on, factoring beats a tile of columns in registers.
_LEAST_FACTORED = 3


def scheduled(plan: Plan, trace: Trace) -> Plan:
    """`plan` with the default schedule, as far as it applies."""
    plan = _side_by_side(_in_lists(plan, trace), trace)
    return _counted_columns(with_lanes(_factored(plan, trace), trace), trace)


def _side_by_side(plan: Plan, trace: Trace) -> Plan:
    """Take several rows at once where their runs are stored side by side."""
    (path, *more) = paths(plan.loops)
    lhs = path.assign.lhs
    if more or len(path.loops) != 2 or not lhs.tensor.format.is_dense or plan.blocks:
        return plan
    row, along = path.variables
    for access in accesses_of(path.assign.rhs):
        if access.level_vars != (row, along) or lhs.vars != (row,):
            continue
        most, least = (n // lhs.dtype.itemsize for n in (_MOST_ROWS, _LEAST_ROWS))
        count = most
        while count > 1 and not access.tensor.format.levels[1].abreast(count):
            count //= 2
        if count < max(least, 2):
            continue
        outer, inner = IndexVar(f"{row}0"), IndexVar(f"{row}1")
        threads = ParallelUnit.CPUThread, OutputRaceStrategy.NoRaces
        lanes = ParallelUnit.CPUVector, OutputRaceStrategy.NoRaces
        try:
            new = parallelize(split(plan, row, outer, inner, count), outer, *threads)
            plan = parallelize(new, inner, *lanes)
        except ScheduleError:
            continue
        trace.decide(
            f"schedule: split({row},{outer},{inner},{count}), parallelize({outer},CPUThread,"
            f"NoRaces), parallelize({inner},CPUVector,NoRaces)"
        )
        break
    return plan


def _counted_columns(plan: Plan, trace: Trace) -> Plan:
    """Count on how many columns there are, where they are a few whole vectors."""
    (path, *more) = paths(plan.loops)
    if more or plan.otherwise is not None or plan.blocks or isinstance(plan.assembly, Append):
        return plan
    reduced, column = _reductions(path)
    if not reduced or column is None:
        return plan
    extent = extent_of((path.assign.lhs, *accesses_of(path.assign.rhs)), column)
    size = extent * path.assign.lhs.dtype.itemsize
    if not 0 < size <= _MOST_COLUMNS or size % _VECTOR:
        return plan
    exact = IndexVar(f"{column}b")
    try:
        new = bound(plan, column, exact, extent, BoundType.MaxExact)
    except ScheduleError:
        return plan
    trace.decide(f"schedule: bound({column},{exact},{extent},MaxExact)")
    return replace(new, otherwise=plan)


def _in_lists(plan: Plan, trace: Trace) -> Plan:
    """Walk the entries of a block that lists its coordinates in one loop, whatever their rows.

    Within a block a row has few entries, so that a loop for each would cost more than it saves.
    """
    for path in paths(plan.loops) if plan.blocks else ():
        for access in accesses_of(path.assign.rhs):
            listed = _listed(access)
            around = path.variables[-len(listed) :]
            others = [a for a in accesses_of(path.assign.rhs) if a != access]
            walked = any(not kind.locates for a in others for kind in a.levels_along(listed))
            if not listed or listed != around or walked:
                continue
            fused = IndexVar("".join(v.name for v in listed))
            try:
                new = fuse(plan, listed[0], listed[1], fused)
            except ScheduleError:
                continue
            plan = new
            trace.decide(f"schedule: fuse({listed[0]},{listed[1]},{fused})")
    return plan


def _listed(access: Access) -> tuple[IndexVar, ...]:
    """The two innermost variables of an operand that lists the coordinates of both."""
    levels = access.tensor.format.levels
    if len(levels) < 3 or levels[-2].unique or not levels[-1].unique:
        return ()
    return access.level_vars[-2:]


def _factored(plan: Plan, trace: Trace) -> Plan:
    """Multiply by what does not change in the inner loops once, after they are summed."""
    found = [path for path in paths(plan.loops) if _is_deep(path)]
    for path in found:
        reduced, column = _reductions(path)
        op = path.assign.rhs.op if isinstance(path.assign.rhs, Apply) else None
        if op is None or not (op.commutes and op.associates) or column is None:
            continue
        for n in range(1, len(reduced)):
            inner = set(reduced[n:])
            terms = [t for t in terms_of(path.assign.rhs, op) if vars_of(t) & inner]
            if len(terms) == len(terms_of(path.assign.rhs, op)) or len(terms) < 2:
                continue
            expr = terms[0]
            for term in terms[1:]:
                expr = Apply(op, (expr, term))
            try:
                plan = precompute(plan, expr, [column], [column])
            except ScheduleError:
                break
            trace.decide(f"schedule: precompute({show(expr)},{column},{column})")
    return plan


def _is_deep(path: Path) -> bool:
    reduced, column = _reductions(path)
    return column is not None and len(reduced) >= _LEAST_FACTORED


def _reductions(path: Path) -> tuple[list[IndexVar], IndexVar | None]:
    """The reduction loops directly around the innermost one, if that runs along dense columns."""
    lhs = path.assign.lhs
    if not path.loops or not lhs.tensor.format.is_dense or path.assign.op is None:
        return [], None
    column = path.variables[-1]
    reduced: list[IndexVar] = []
    for var in reversed(path.variables[:-1]):
        if var in lhs.vars:
            break
        reduced.insert(0, var)
    dense = all(
        kind.locates
        for access in (lhs, *accesses_of(path.assign.rhs))
        for kind, var in zip(access.tensor.format.levels, access.level_vars, strict=True)
        if var == column
    )
    return reduced, column if column in lhs.vars and dense else None


# How many runs a loop is cut into whose iterations depend on each other: enough for several a
# thread, each found by two searches.
_RUNS = 32


def shared_by_threads(plan: Plan, trace: Trace) -> Plan:
    """Give the outermost loop to threads when its iterations write to different places."""
    if isinstance(plan.assembly, Append):
        return plan
    written = plan.assignment.lhs.vars
    plan = _cut(plan, trace)
    above = provenance_of(plan).above

    def change(loop: Forall) -> Stmt:
        if loop.tag is not None:
            return loop
        relation = above.get(loop.var)
        var = relation.parent if isinstance(relation, Divide) else loop.var
        if var not in written:
            trace.decide(f"serial: iterations of {loop.var} write to the same entries")
            return loop
        new = replace(loop, tag=Tag(ParallelUnit.CPUThread, OutputRaceStrategy.NoRaces))
        if entangled(new, (), provenance_of(plan)):
            trace.decide(f"serial: iterations of {loop.var} depend on each other")
            return loop
        trace.decide(f"{loop.var}: parallel over threads, no two iterations write to one entry")
        return new

    relations = relations_of(plan.loops)
    tagged = tag_outermost(nest_of(plan.loops), change)
    return replace(plan, loops=SuchThat(tagged, relations) if relations else tagged)


def _cut(plan: Plan, trace: Trace) -> Plan:
    """Cut an outermost loop that steps through operands, so that threads can take its runs."""
    found: list[Forall] = []

    def note(loop: Forall) -> Stmt:
        found.extend([loop] if loop.tag is None else [])
        return loop

    tag_outermost(nest_of(plan.loops), note)
    for loop in found:
        var = loop.var
        if var not in plan.assignment.lhs.vars or not entangled(loop, (), provenance_of(plan)):
            continue
        outer, inner = IndexVar(f"{var}0"), IndexVar(f"{var}1")
        try:
            plan = divide(plan, var, outer, inner, _RUNS)
        except ScheduleError:
            continue
        trace.decide(f"schedule: divide({var},{outer},{inner},{_RUNS})")
    return plan
