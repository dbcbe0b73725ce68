"""Dot products along memory, in the default schedule: summed in lanes, one row in registers.

`C(i,j) = A(i,j) * U(i,k) * V(j,k)` is the case in point. The sum over `k` is taken in several
lanes, which do not wait for each other, and the rows of `V` are asked for some entries ahead. Where
the extent of `k` is known and small, the row of `U` is loaded once for all entries of a row of `A`
and stays in registers; data of other extents gets the loops without that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from openwork.algebra.operators import Op
from openwork.errors import ScheduleError
from openwork.index.nodes import Access, Apply, Expr, IndexVar
from openwork.index.show import show
from openwork.loops.nodes import OutputRaceStrategy, ParallelUnit
from openwork.loops.plan.assembly import Append, accesses_of
from openwork.loops.plan.nest import Path, paths
from openwork.loops.plan.plan import Plan
from openwork.loops.relations import BoundType
from openwork.loops.schedule.commands.bound import bound
from openwork.loops.schedule.commands.parallelize import parallelize
from openwork.loops.schedule.commands.precompute import precompute
from openwork.loops.schedule.commands.reorder import reorder
from openwork.loops.schedule.commands.split import split
from openwork.loops.schedule.commands.tags import prefetch, unroll
from openwork.trace import Trace
from openwork.tree import walk

# Bytes that the lanes take: four vector registers of 16 bytes.
_LANES = 64
# Bytes of a row that stays in registers, at most: half of those that there are.
_ROW = 256
# How many iterations ahead rows are asked for.
_DISTANCE = 6


def with_lanes(plan: Plan, trace: Trace) -> Plan:
    """`plan` with the dot products along memory in lanes."""
    for path in list(paths(plan.loops)):
        expr = _dot(path)
        lanes = _LANES // path.assign.lhs.dtype.itemsize
        if expr is None or any(
            b.inner == path.variables[-1] and b.size < 2 * lanes for b in plan.blocks
        ):
            continue
        try:
            new, said = _in_lanes(plan, path, path.variables[-1], expr, lanes)
        except ScheduleError:
            continue
        for access in accesses_of(expr):
            new, more = _ahead(new, access)
            said += more
        try:
            plan, said = _with_row(plan, path, expr, lanes, new)
        except ScheduleError:
            plan = new
        trace.decide(f"schedule: {', '.join(said)}")
    return plan


def _in_lanes(
    plan: Plan, path: Path, var: IndexVar, expr: Apply, lanes: int
) -> tuple[Plan, list[str]]:
    """Sum `expr` over `var` in lanes, and multiply by the rest once."""
    outer, inner, own = (IndexVar(f"{var}{end}") for end in ("0", "1", "1w"))
    text, said = show(expr), []
    if len(terms_of(path.assign.rhs, expr.op)) > 2:
        plan = precompute(plan, expr, [], [])
        said.append(f"precompute({text},[],[])")
    plan = split(plan, var, outer, inner, lanes)
    plan = unroll(precompute(plan, expr, [inner], [own]), own)
    lane = ParallelUnit.CPUVector, OutputRaceStrategy.ParallelReduction
    plan = parallelize(unroll(plan, inner), inner, *lane)
    said += [
        f"split({var},{outer},{inner},{lanes})",
        f"precompute({text},{inner},{own})",
        f"unroll({own})",
        f"unroll({inner})",
        f"parallelize({inner},CPUVector,ParallelReduction)",
    ]
    return plan, said


def _with_row(
    plan: Plan, path: Path, expr: Apply, lanes: int, otherwise: Plan
) -> tuple[Plan, list[str]]:
    """The row that the loop around does not change in registers, for data of this extent.

    Raises:
        ScheduleError: that is not possible, or not worth it.
    """
    if len(path.loops) < 2 or isinstance(plan.assembly, Append) or plan.otherwise is not None:
        raise ScheduleError("the rows of no loop around can be kept", code="E308")
    around, var = path.variables[-2:]
    still = [a for a in accesses_of(expr) if around not in a.vars]
    moving = [a for a in accesses_of(expr) if around in a.vars]
    extent = extent_of(still, var)
    fits = len(still) == len(moving) == 1 and extent * path.assign.lhs.dtype.itemsize <= _ROW
    if not fits or extent == 0 or extent % lanes:
        raise ScheduleError(f"the rows along {var} are too long, or end in a rest", code="E308")
    exact, own = IndexVar(f"{var}b"), IndexVar(f"{var}r")
    plan = bound(plan, var, exact, extent, BoundType.MaxExact)
    plan = precompute(reorder(plan, [exact, around]), still[0], [exact], [own])
    plan = unroll(reorder(plan, [around, exact]), own)
    said = [
        f"bound({var},{exact},{extent},MaxExact)",
        f"reorder({exact},{around})",
        f"precompute({show(still[0])},{exact},{own})",
        f"reorder({around},{exact})",
        f"unroll({own})",
    ]
    path = next(p for p in paths(plan.loops) if p.assign.lhs == path.assign.lhs)
    left, right = (t for t in terms_of(path.assign.rhs, expr.op) if vars_of(t) & {exact, var})
    product = Apply(expr.op, (left, right))
    plan, more = _in_lanes(plan, path, exact, product, lanes)
    plan, ahead = _ahead(unroll(plan, IndexVar(f"{exact}0")), moving[0])
    if not ahead:
        raise ScheduleError(f"{moving[0]} is not gathered", code="E308")
    said += [*more, f"unroll({exact}0)", *ahead]
    return replace(plan, otherwise=otherwise), said


def extent_of(accesses: Sequence[Access], var: IndexVar) -> int:
    """How far `var` runs, 0 if that is not known."""
    for access in accesses:
        for mode, extent in zip(access.vars, access.tensor.shape, strict=True):
            if mode == var:
                return extent or 0
    return 0


def _ahead(plan: Plan, access: Access) -> tuple[Plan, list[str]]:
    """Ask early for rows that a loop along a sparse operand gathers."""
    said = []
    for var in dict.fromkeys(v for path in paths(plan.loops) for v in path.variables):
        if var in access.vars:
            try:
                plan = prefetch(plan, access, var, _DISTANCE)
            except ScheduleError:
                continue
            said.append(f"prefetch({show(access)},{var},{_DISTANCE})")
    return plan, said


def _dot(path: Path) -> Apply | None:
    """The product that the innermost loop sums along memory, if that is all it does."""
    assign = path.assign
    rhs, op = assign.rhs, assign.op
    if not path.loops or op is None or not op.adds or assign.lhs.dtype.kind != "f":
        return None
    var = path.variables[-1]
    if var in assign.lhs.vars or not isinstance(rhs, Apply) or not rhs.op.multiplies:
        return None
    terms = [t for t in terms_of(rhs, rhs.op) if var in vars_of(t)]
    along = all(
        isinstance(t, Access)
        and t.level_vars[-1] == var
        and t.level_vars.count(var) == 1
        and t.tensor.format.levels[-1].full
        and t.dtype == assign.lhs.dtype
        for t in terms
    )
    if len(terms) != 2 or not along:
        return None
    return Apply(rhs.op, (terms[0], terms[1]))


def terms_of(expr: Expr, op: Op) -> list[Expr]:
    """What `expr` joins by `op`."""
    if isinstance(expr, Apply) and expr.op == op:
        return [term for arg in expr.args for term in terms_of(arg, op)]
    return [expr]


def vars_of(expr: Expr) -> set[IndexVar]:
    """The variables in `expr`."""
    return {n for n in walk(expr) if isinstance(n, IndexVar)}
