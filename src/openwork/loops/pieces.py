"""Whether a sparse result can be assembled in pieces of its outermost loop, and how it is best."""

from __future__ import annotations

from dataclasses import replace

from openwork.loops.nodes import Forall, ParallelUnit, Stmt, Where, nest_of, relations_of
from openwork.loops.plan import Plan
from openwork.loops.provenance import Provenance
from openwork.loops.relations import Split
from openwork.loops.result import Append
from openwork.trace import Trace
from openwork.tree import walk


def whole(plan: Plan, nest: Stmt | None = None) -> str | None:
    """Why the outermost loop cannot be cut into pieces; None if it can.

    `nest`: the loops around the result, if others come before them.
    """
    loop: Stmt = nest_of(plan.loops) if nest is None else nest
    if isinstance(loop, Where):
        return f"{loop.temporary} is made before, by one thread"
    if not isinstance(loop, Forall):
        return "there is no loop around it"
    if any(
        isinstance(n, Forall) and n.tag is not None and n.tag.unit is ParallelUnit.CPUThread
        for n in walk(loop)
    ):
        return "the schedule gives a loop to threads already"
    provenance, var = Provenance(relations_of(plan.loops)), loop.var
    relation = provenance.above.get(var)
    first = plan.assignment.lhs.level_vars[0]
    if relation is None and var == first:
        return None
    if isinstance(relation, Split) and relation.outer == var and relation.parent == first:
        return None
    if provenance.underived(var) != (first,):
        return f"the outermost loop, over {var}, is not over its first mode, {first}"
    return f"the loop over {var} is in no order that a piece could begin in"


def in_pieces(plan: Plan, trace: Trace) -> Plan:
    """Assemble a sparse result in pieces where that can be done."""
    if not isinstance(plan.assembly, Append):
        return plan
    name, fault = plan.result.name, whole(plan)
    if fault is not None:
        trace.decide(f"{name}: assembled by appending in one serial pass: {fault}")
        return plan
    trace.decide("schedule: assemble(append): threads append to pieces, which are put together")
    return replace(plan, assembly=Append("append"))
