"""The schedule that a statement has on a GPU if the user gives none."""

from __future__ import annotations

from dataclasses import replace

from openwork.errors import ScheduleError
from openwork.index.nodes import IndexVar
from openwork.loops.commands.parallelize import parallelize
from openwork.loops.commands.pos import pos
from openwork.loops.commands.split import split
from openwork.loops.nest import loop_variables, provenance_of
from openwork.loops.nodes import Forall, OutputRaceStrategy, ParallelUnit, Stmt, Where, nest_of
from openwork.loops.nodes import Sequence as Then
from openwork.loops.parallel import walked_together
from openwork.loops.plan import Plan
from openwork.loops.result import Append
from openwork.trace import Trace
from openwork.tree import walk

THREADS = 256  # of a block


def for_gpu(plan: Plan, trace: Trace) -> Plan:
    """`plan` with its outermost loops shared by blocks and threads, as far as they can be."""
    for loop in _outermost(nest_of(plan.loops)):
        plan = _shared(plan, loop, trace)
    return plan


def serially_assembled(plan: Plan) -> Plan:
    """`plan` with a result that one thread appends to; pieces in parallel are for CPUs, so far."""
    if isinstance(plan.assembly, Append):
        return replace(plan, assembly=Append("serial"))
    return plan


def _outermost(stmt: Stmt) -> list[Forall]:
    match stmt:
        case Forall():
            return [stmt]
        case Where(consumer=consumer, producer=producer):
            return [*_outermost(producer), *_outermost(consumer)]
        case Then(first=first, then=then):
            return [*_outermost(first), *_outermost(then)]
    return []


def _shared(plan: Plan, loop: Forall, trace: Trace) -> Plan:
    """A thread for each iteration; writes that meet are atomic."""
    if any(isinstance(n, Forall) and n.tag is not None for n in walk(loop)):
        return plan
    taken = {n.name for n in walk(plan.loops) if isinstance(n, IndexVar)}
    taken |= {str(v) for v in loop_variables(plan)}
    position, outer, inner = (_fresh(f"{loop.var}{end}", taken) for end in ("p", "b", "t"))
    together = walked_together(loop, (), provenance_of(plan))
    why = ""
    for race in (OutputRaceStrategy.NoRaces, OutputRaceStrategy.Atomics):
        for along in (*together[:1], None):
            try:
                new = plan if along is None else pos(plan, loop.var, position, along)
                new = split(new, loop.var if along is None else position, outer, inner, THREADS)
                new = parallelize(new, outer, ParallelUnit.GPUBlock, race)
                new = parallelize(new, inner, ParallelUnit.GPUThread, race)
            except ScheduleError as error:
                why = why or error.message
                continue
            walked = "" if along is None else f"pos({loop.var},{position},{along.tensor}), "
            cut = loop.var if along is None else position
            trace.decide(
                f"schedule: {walked}split({cut},{outer},{inner},{THREADS}), "
                f"parallelize({outer},GPUBlock,{race.value}), "
                f"parallelize({inner},GPUThread,{race.value})"
            )
            return new
    trace.decide(f"one thread does all iterations of {loop.var}, slowly: {why}")
    return plan


def _fresh(base: str, taken: set[str]) -> IndexVar:
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    taken.add(name)
    return IndexVar(name)
