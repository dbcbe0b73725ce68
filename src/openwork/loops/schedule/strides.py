"""Blocks that stride over values, as one loop with a grid of a constant size.

    forall turn: [GPUBlock]                   forall i: [GPUBlock, by n]
      forall i1: S                     =>       S
    such that divide(i, turn, i1, n, assign=stride)

The iterations of a loop for blocks are known to be independent, so that no barrier is between them.
"""

from __future__ import annotations

from dataclasses import replace

from openwork.errors import ScheduleError
from openwork.loops.nodes import Forall, ParallelUnit, Stmt, SuchThat, nest_of, relations_of
from openwork.loops.plan.nest import loops_of, rewrite
from openwork.loops.plan.plan import Plan
from openwork.loops.relations import Stride
from openwork.loops.schedule.legality.loops import check_nest


def in_strides(plan: Plan) -> Plan:
    """`plan` with such loops, where all that is inside can be shared by blocks."""
    for relation in relations_of(plan.loops):
        if isinstance(relation, Stride):
            plan = _joined(plan, relation) or plan
    return plan


def _joined(plan: Plan, stride: Stride) -> Plan | None:
    children = {stride.outer, stride.inner}
    others = tuple(r for r in relations_of(plan.loops) if r != stride)
    if any(children & set(r.parents) for r in others):
        return None

    def change(loop: Forall) -> Stmt | None:
        tag, inner = loop.tag, loop.body
        if loop.var != stride.inner or tag is None or tag.unit is not ParallelUnit.GPUBlock:
            return None
        if not isinstance(inner, Forall) or inner.var != stride.outer or inner.tag is not None:
            return None
        if tag.chunk is not None:
            return None
        return replace(inner, var=stride.parent, tag=replace(tag, turns=stride.factor))

    changed = rewrite(plan, change)
    if any(loop.var in children for loop in loops_of(changed)):
        return None
    nest = nest_of(changed.loops)
    joined = replace(changed, loops=SuchThat(nest, others) if others else nest)
    try:
        return check_nest(joined)
    except ScheduleError:  # such as a merge, of which a turn looks up single values
        return None
