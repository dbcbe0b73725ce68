"""divide: a constant number of runs, of equal length or work, at given points, or dealt out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from openwork.errors import ScheduleError
from openwork.index.nodes import Access, IndexVar
from openwork.loops.nodes import Forall, Stmt
from openwork.loops.plan.nest import (
    MOST_PARTS,
    find_loops,
    fresh_variable,
    new_variables,
    positive,
    provenance_of,
    rewrite,
    untagged,
)
from openwork.loops.plan.plan import Plan
from openwork.loops.provenance import Provenance
from openwork.loops.relations import Cut, Deal, Divide, Fuse, Pos, Stride
from openwork.loops.schedule.commands.pos import check_run, no_run
from openwork.loops.schedule.commands.split import replace_by_two
from openwork.loops.schedule.legality.loops import check_nest
from openwork.tree import walk

ASSIGNMENTS = ("stride", "dynamic")


def divide(
    plan: Plan,
    var: IndexVar,
    outer: IndexVar,
    inner: IndexVar,
    parts: int,
    balance: str | None = None,
    split_points: Callable[..., Any] | None = None,
    assign: str | None = None,
    chunk: int | None = None,
) -> Plan:
    """Cut a loop into `parts` runs.

    forall i: S   =>   forall i0: forall i1: S   such that i0 runs over `parts` values

    The runs are equally long; with `balance="nnz"` the entries stored below them are divided
    evenly instead, by a search; with `split_points` they run from point to point. Legal for any
    loop that is not parallel; to balance, an operand has to store a run of entries below each
    value. Buys parts for a known number of threads.

    With `assign`, a part is no run. "stride": i = i1 * parts + i0, as `split(i,i1,i0,parts)` with
    i0 outside. "dynamic": i0 takes the next `chunk` values of i while it runs; i1 has to stay
    directly inside. Both buy a grid of a constant number of blocks.
    """
    untagged(plan, var)
    parts = positive(parts, "the number of parts", MOST_PARTS)
    _check_choice(balance, split_points, assign, chunk)
    if assign is not None:
        new_variables(plan, outer, inner)
        relation: Cut = Stride(var, inner, outer, parts)
        if assign == "dynamic":
            relation = Deal(var, outer, inner, parts, 1 if chunk is None else chunk)
        return check_nest(replace_by_two(plan, var, outer, inner, relation))
    if split_points is not None:
        _check_known_before(plan, var)
    if balance is None:
        new_variables(plan, outer, inner)
        relation = Divide(var, outer, inner, parts, None, split_points)
        return check_nest(replace_by_two(plan, var, outer, inner, relation))
    if balance != "nnz":
        raise ScheduleError(
            f"there is no balance {balance!r}", code="E303", hint='the only one is "nnz"'
        )
    return _balanced(plan, var, outer, inner, parts)


def _balanced(plan: Plan, var: IndexVar, outer: IndexVar, inner: IndexVar, parts: int) -> Plan:
    """Cut a loop so that the same number of entries lies below each part."""
    provenance = provenance_of(plan)
    pos = provenance.space(var)
    access = _counted(plan, var) if pos is None else pos.access
    fault = no_run(var, provenance) if pos is None else _no_balance(var, pos, provenance)
    if fault is not None:
        raise ScheduleError(
            f"the work of {var} cannot be balanced: {fault}",
            code="E305",
            hint=f"divide {var} evenly, or balance it before it is cut",
        )
    if pos is None:
        check_run(plan, var, access, access.level_vars.index(provenance.underived(var)[0]))
        hidden = fresh_variable(plan, f"{var}_pos")
        new_variables(plan, outer, inner, hidden)
        plan = rewrite(plan, _renamed(var, hidden), Pos(var, hidden, access))
        var = hidden
    else:
        new_variables(plan, outer, inner)
    relation = Divide(var, outer, inner, parts, access)
    return check_nest(replace_by_two(plan, var, outer, inner, relation))


def _check_choice(
    balance: str | None,
    split_points: Callable[..., Any] | None,
    assign: str | None,
    chunk: int | None,
) -> None:
    """A loop is cut in one way, and `split_points` is a function."""
    given = {"balance": balance, "split_points": split_points, "assign": assign}
    ways = [name for name, value in given.items() if value is not None]
    if len(ways) > 1:
        raise ScheduleError(
            f"a loop is cut by {' or by '.join(ways)}, not by both",
            code="E303",
            hint="leave one of them out",
        )
    if assign not in (None, *ASSIGNMENTS):
        raise ScheduleError(
            f"values cannot be assigned by {assign!r}",
            code="E303",
            hint=f"there are {' and '.join(ASSIGNMENTS)}",
        )
    if chunk is not None and assign != "dynamic":
        raise ScheduleError(
            "only values that are assigned dynamically are taken in chunks",
            code="E303",
            hint="add assign=dynamic, or leave out the chunk",
        )
    if chunk is not None:
        positive(chunk, "the chunk")
    if split_points is not None and not callable(split_points):
        raise ScheduleError(
            f"split_points is {split_points!r}, which cannot be called",
            code="E303",
            hint="give a function of the tensors and the number of parts",
        )


def _no_balance(var: IndexVar, pos: Pos, provenance: Provenance) -> str | None:
    """Why the entries below values of `var` cannot be counted, or None if they can."""
    var = provenance.unrenamed(var)
    relation = provenance.above.get(var)
    if isinstance(relation, Cut):
        counts = "runs" if relation.outer == var else "places in a run"
        return f"{var} counts {counts} of {relation.parent}"
    levels = pos.access.tensor.format.levels
    at = pos.access.level_vars.index(pos.parent) if pos.parent in pos.access.level_vars else -1
    if at < 0 or at + 1 >= len(levels) or levels[at + 1].boundaries is None:
        return f"{pos.access.tensor} stores no run of entries below each of its positions"
    return None


def _check_known_before(plan: Plan, var: IndexVar) -> None:
    """Split points are computed before a kernel runs, so the loop's ends must be known then."""
    provenance = provenance_of(plan)
    above = provenance.above.get(provenance.unrenamed(var))
    plain = above is None
    if isinstance(above, Pos):
        variables = provenance.underived(above.parent)
        plain = above.access.level_vars.index(variables[0]) == 0
        plain = plain and _fuses_all(above.parent, provenance)
    elif isinstance(above, Fuse):
        plain = _fuses_all(above.fused, provenance)
    if not plain:
        raise ScheduleError(
            f"where {var} begins and ends is known only inside the kernel, so it cannot be cut at "
            "points that are computed before",
            code="E305",
            hint="use split_points on a loop over a whole dimension, or over all positions",
        )


def _fuses_all(var: IndexVar, provenance: Provenance) -> bool:
    """Whether `var` is a variable of the statement, or fuses such."""
    above = provenance.above.get(var)
    if isinstance(above, Fuse):
        return all(_fuses_all(parent, provenance) for parent in above.parents)
    return above is None


def _renamed(var: IndexVar, new: IndexVar) -> Callable[[Forall], Stmt | None]:
    return lambda loop: replace(loop, var=new) if loop.var == var else None


def _counted(plan: Plan, var: IndexVar) -> Access:
    """The operand whose entries below `var` are counted: the one with the most levels below it."""
    provenance = provenance_of(plan)
    variables = provenance.underived(var)
    best: tuple[int, Access] | None = None
    for loop in find_loops(plan, var):
        for access in walk(loop.body):
            if not isinstance(access, Access) or access.tensor in {plan.result}:
                continue
            levels, order = access.tensor.format.levels, access.level_vars
            if variables[-1] not in order or any(kind.lists for kind in levels):
                continue
            at = order.index(variables[-1])
            below = levels[at + 1] if at + 1 < len(levels) else None
            counts = below is not None and below.boundaries is not None
            if counts and (best is None or len(levels) > best[0]):
                best = (len(levels), access)
    if best is None or len(variables) > 1:
        raise ScheduleError(
            f"no operand stores a run of entries below each value of {var}, so its work cannot be "
            "balanced",
            code="E305",
            hint=f"divide {var} evenly, or give split_points",
        )
    return best[1]
