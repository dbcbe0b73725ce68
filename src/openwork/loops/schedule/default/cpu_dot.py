"""Dot products along memory, in the default schedule: summed in lanes, one row in registers.

`C(i,j) = A(i,j) * U(i,k) * V(j,k)` (SDDMM) is the case in point. The sum over `k` is taken in
several independent lanes, and the rows of `V` are prefetched. Where the extent of `k` is known and
small, the row of `U` is loaded once for all entries of a row of `A` and stays in registers; data of
other extents falls back to loops without that.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from openwork.algebra.operators import Op
from openwork.errors import ScheduleError
from openwork.index.nodes import Access, Apply, Expr, IndexVar
from openwork.loops.nodes import OutputRaceStrategy, ParallelUnit
from openwork.loops.plan.assembly import Append, accesses_of
from openwork.loops.plan.nest import Path, paths
from openwork.loops.relations import BoundType
from openwork.loops.schedule.draft import Draft
from openwork.loops.schedule.machines import Cpu
from openwork.tree import walk

REDUCED = ParallelUnit.CPUVector, OutputRaceStrategy.ParallelReduction


def with_lanes(draft: Draft, cpu: Cpu) -> Draft:
    """`draft` with the dot products along memory in lanes."""
    for path in list(paths(draft.plan.loops)):
        expr = _dot(path)
        lanes = cpu.dot_lanes // path.assign.lhs.dtype.itemsize
        if expr is None or any(
            b.inner == path.variables[-1] and b.size < 2 * lanes for b in draft.plan.blocks
        ):
            continue
        try:
            new = _in_lanes(draft, path, path.variables[-1], expr, lanes)
        except ScheduleError:
            continue
        for access in accesses_of(expr):
            new = _ahead(new, access, cpu)
        with suppress(ScheduleError):  # then the row stays in memory
            new = replace(_with_row(draft, path, expr, lanes, cpu), otherwise=new)
        draft = new.since(draft)
    return draft


def _in_lanes(draft: Draft, path: Path, var: IndexVar, expr: Apply, lanes: int) -> Draft:
    """Sum `expr` over `var` in lanes, and multiply by the rest once."""
    outer, inner, own = (IndexVar(f"{var}{end}") for end in ("0", "1", "1w"))
    if len(terms_of(path.assign.rhs, expr.op)) > 2:
        draft = draft.then("precompute", expr, (), ())
    return (
        draft.then("split", var, outer, inner, lanes)
        .then("precompute", expr, (inner,), (own,))
        .then("unroll", own)
        .then("unroll", inner)
        .then("parallelize", inner, *REDUCED)
    )


def _with_row(draft: Draft, path: Path, expr: Apply, lanes: int, cpu: Cpu) -> Draft:
    """Keep the row that is invariant in the enclosing loop in registers, for this extent.

    Raises:
        ScheduleError: that is not possible, or not worth it.
    """
    once = isinstance(draft.plan.assembly, Append) or draft.otherwise is not None
    if len(path.loops) < 2 or once:
        raise ScheduleError("no enclosing loop has an invariant row", code="E308")
    around, var = path.variables[-2:]
    still = [a for a in accesses_of(expr) if around not in a.vars]
    moving = [a for a in accesses_of(expr) if around in a.vars]
    extent = extent_of(still, var)
    size = extent * path.assign.lhs.dtype.itemsize
    fits = len(still) == len(moving) == 1 and size <= cpu.row_in_registers
    if not fits or extent == 0 or extent % lanes:
        raise ScheduleError(f"the rows along {var} are too long, or leave a remainder", code="E308")
    exact, own = IndexVar(f"{var}b"), IndexVar(f"{var}r")
    draft = (
        draft.then("bound", var, exact, extent, BoundType.MaxExact)
        .then("reorder", (exact, around))
        .then("precompute", still[0], (exact,), (own,))
        .then("reorder", (around, exact))
        .then("unroll", own)
    )
    path = next(p for p in paths(draft.plan.loops) if p.assign.lhs == path.assign.lhs)
    left, right = (t for t in terms_of(path.assign.rhs, expr.op) if vars_of(t) & {exact, var})
    draft = _in_lanes(draft, path, exact, Apply(expr.op, (left, right)), lanes)
    draft = draft.then("unroll", IndexVar(f"{exact}0"))
    ahead = _ahead(draft, moving[0], cpu)
    if ahead is draft:
        raise ScheduleError(f"{moving[0]} is not gathered", code="E308")
    return ahead


def extent_of(accesses: Sequence[Access], var: IndexVar) -> int:
    """The extent of `var`; 0 if it is not known."""
    for access in accesses:
        for mode, extent in zip(access.vars, access.tensor.shape, strict=True):
            if mode == var:
                return extent or 0
    return 0


def _ahead(draft: Draft, access: Access, cpu: Cpu) -> Draft:
    """Prefetch rows that a loop along a sparse operand gathers."""
    for var in dict.fromkeys(v for path in paths(draft.plan.loops) for v in path.variables):
        if var in access.vars:
            try:
                draft = draft.then("prefetch", access, var, cpu.prefetch_distance)
            except ScheduleError:
                continue
    return draft


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
    """The terms that `expr` combines by `op`."""
    if isinstance(expr, Apply) and expr.op == op:
        return [term for arg in expr.args for term in terms_of(arg, op)]
    return [expr]


def vars_of(expr: Expr) -> set[IndexVar]:
    """The variables in `expr`."""
    return {n for n in walk(expr) if isinstance(n, IndexVar)}
