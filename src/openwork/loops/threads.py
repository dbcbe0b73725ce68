"""The outermost loop as threads share it, if the user gives no schedule."""

from __future__ import annotations

from dataclasses import replace

from openwork.errors import ScheduleError
from openwork.index.nodes import IndexVar
from openwork.loops.commands.divide import divide
from openwork.loops.concretize import tag_outermost
from openwork.loops.nest import provenance_of
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
from openwork.loops.parallel import entangled
from openwork.loops.plan import Plan
from openwork.loops.relations import Divide
from openwork.loops.result import Append
from openwork.trace import Trace

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
