"""Loops whose values are dealt out while they run, as one loop that units share.

    forall turn: [unit]                       forall i: [unit, c at a time, by n]
      forall i1: S                     =>       S
    such that divide(i, turn, i1, n, assign=dynamic, chunk=c)

Without a unit, the first turn takes all values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from openwork.errors import ScheduleError
from openwork.index.nodes import Access
from openwork.loops.nodes import (
    Forall,
    ParallelUnit,
    Stmt,
    SuchThat,
    Tag,
    Where,
    nest_of,
    relations_of,
)
from openwork.loops.plan.assembly import Append
from openwork.loops.plan.nest import loops_of, rewrite
from openwork.loops.plan.plan import Plan
from openwork.loops.relations import Deal
from openwork.tree import walk

_DEALING = (ParallelUnit.CPUThread, ParallelUnit.GPUBlock)


def undealt(plan: Plan) -> Plan:
    """`plan` without the relation `Deal`.

    Raises:
        ScheduleError: E306 if the loop over turns and that over their values are not one inside the
            other, or a workspace has elements for turns, E308 if units cannot share them, E313 if
            the result is assembled in pieces.
    """
    for relation in relations_of(plan.loops):
        if isinstance(relation, Deal):
            plan = _without(plan, relation)
    return plan


def _without(plan: Plan, deal: Deal) -> Plan:
    if isinstance(plan.assembly, Append):
        raise ScheduleError(
            f"{plan.result} is assembled in pieces, each of consecutive values of {deal.parent}",
            code="E313",
            hint="leave out assign=dynamic: threads take pieces one after the other in any case",
        )
    children = {deal.outer, deal.inner}
    others = tuple(r for r in relations_of(plan.loops) if r != deal)
    again = next((r for r in others if children & set(r.parents)), None)
    if again is not None:
        raise ScheduleError(
            f"{again} changes what {deal.outer} takes while it runs",
            code="E306",
            hint=f"change {deal.parent} first, and divide the result",
        )

    def change(loop: Forall) -> Stmt | None:
        return _together(loop, deal) if loop.var == deal.outer else None

    changed = rewrite(plan, change)
    if any(loop.var in children for loop in loops_of(changed)):
        raise _apart(deal)
    keyed = next((a for a in _workspaces(changed) if children & set(a.vars)), None)
    if keyed is not None:
        raise ScheduleError(
            f"{keyed.tensor} has an element for each turn of {deal.outer}, but which values a "
            "turn takes is known only while it runs",
            code="E306",
            hint=f"precompute along {deal.parent} before it is divided, or use assign=stride",
        )
    nest = nest_of(changed.loops)
    return replace(changed, loops=SuchThat(nest, others) if others else nest)


def _workspaces(plan: Plan) -> Iterator[Access]:
    """The accesses of workspaces, which loop variables may index."""
    made = {n.temporary for n in walk(plan.loops) if isinstance(n, Where)}
    return (n for n in walk(plan.loops) if isinstance(n, Access) and n.tensor in made)


def _together(loop: Forall, deal: Deal) -> Forall:
    """The loop over turns and the one over their values, as a loop over all values."""
    inner = loop.body
    if not isinstance(inner, Forall) or inner.var != deal.inner:
        raise _apart(deal)
    if loop.tag is None:
        return replace(inner, var=deal.parent)
    if inner.tag is not None:
        raise ScheduleError(
            f"{deal.outer} takes values of {deal.inner} while it runs, and both are parallel",
            code="E308",
            hint=f"split {deal.parent} first, divide the outer part and parallelize the inner one",
        )
    if loop.tag.unit not in _DEALING:
        raise ScheduleError(
            f"{deal.outer} is for {loop.tag.unit.value}, which cannot take values from a counter",
            code="E308",
            hint="parallelize it for CPUThread or GPUBlock, or use assign=stride",
        )
    if loop.tag.chunk is not None:
        raise ScheduleError(
            f"{deal.outer} takes {deal.chunk} values at a time already",
            code="E303",
            hint="give the chunk to divide",
        )
    return replace(inner, var=deal.parent, tag=_dealing(loop.tag, deal))


def _dealing(tag: Tag, deal: Deal) -> Tag:
    return replace(tag, chunk=deal.chunk, turns=deal.parts)


def _apart(deal: Deal) -> ScheduleError:
    return ScheduleError(
        f"which values {deal.outer} takes is known only while it runs, so the loop over "
        f"{deal.inner} has to be directly inside of it",
        code="E306",
        hint=f"keep {deal.outer}, {deal.inner} together, or use assign=stride",
    )
