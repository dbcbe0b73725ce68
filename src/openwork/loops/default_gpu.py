"""The schedule that a statement has on a GPU if the user gives none."""

from __future__ import annotations

from dataclasses import replace

from openwork.errors import ScheduleError
from openwork.format.levels import is_hashed
from openwork.index.nodes import IndexVar
from openwork.loops.commands.parallelize import parallelize
from openwork.loops.commands.pos import pos
from openwork.loops.commands.split import split
from openwork.loops.gpu import uses_gpu
from openwork.loops.legality import walked_together
from openwork.loops.nest import loop_variables, provenance_of
from openwork.loops.nodes import Forall, OutputRaceStrategy, ParallelUnit, Stmt, Where, nest_of
from openwork.loops.nodes import Sequence as Then
from openwork.loops.pieces import whole
from openwork.loops.plan import Plan
from openwork.loops.result import Append
from openwork.trace import Trace
from openwork.tree import walk

THREADS = 256  # of a block


def for_gpu(plan: Plan, trace: Trace) -> Plan:
    """`plan` with its outermost loops shared by blocks and threads, as far as they can be."""
    if isinstance(plan.assembly, Append) and plan.assembly.lanes:
        return plan
    for loop in _outermost(nest_of(plan.loops)):
        plan = _shared(plan, loop, trace)
    return plan


def assembled(plan: Plan, trace: Trace, serial: bool = False) -> Plan:
    """`plan` with a sparse result that a GPU counts and fills in pieces, where it can be cut.

    `serial`: the user has it that one thread appends to it.
    """
    if not isinstance(plan.assembly, Append):
        return plan
    why = "the schedule has it so" if serial else _whole(plan)
    if why is None:
        trace.decide(
            f"schedule: assemble(count): a thread of the GPU counts the entries of {plan.result} "
            f"for a {_outermost(nest_of(plan.loops))[0].var}, and then computes them into place"
        )
        return replace(plan, assembly=Append("count", lanes=1))
    trace.decide(f"{plan.result}: one thread appends to it, slowly: {why}")
    return replace(plan, assembly=Append("serial"))


def _whole(plan: Plan) -> str | None:
    """Why a result is not assembled in pieces on a GPU; None if it is."""
    if uses_gpu(plan):
        return "the schedule gives loops to the GPU already"
    tables = [
        node.temporary
        for node in walk(plan.loops)
        if isinstance(node, Where)
        and not node.temporary.format.is_dense
        and is_hashed(node.temporary.format.levels)
    ]
    if tables:
        return f"{tables[0]} is a hash table, which grows on the way"
    return whole(plan)


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
