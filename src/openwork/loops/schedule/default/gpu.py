"""The schedule that a statement has on a GPU if the user gives none."""

from __future__ import annotations

from dataclasses import replace
from math import inf, prod
from typing import cast

from openwork.errors import ScheduleError
from openwork.index.checks import extents
from openwork.index.nodes import Access, IndexVar, TensorVar
from openwork.loops.absent import vanishes
from openwork.loops.fresh import take_name
from openwork.loops.nodes import (
    Assign,
    Forall,
    OutputRaceStrategy,
    ParallelUnit,
    Sequence as Then,
    Stmt,
    Tag,
    Where,
    nest_of,
    written,
)
from openwork.loops.plan.assembly import Append
from openwork.loops.plan.nest import loop_variables, provenance_of
from openwork.loops.plan.pieces import can_be_shared, measured, whole
from openwork.loops.plan.plan import Plan
from openwork.loops.schedule.commands.parallelize import parallelize
from openwork.loops.schedule.commands.pos import pos
from openwork.loops.schedule.commands.split import split
from openwork.loops.schedule.legality.gpu import uses_gpu
from openwork.loops.schedule.legality.parallel import walked_together
from openwork.trace import Trace
from openwork.tree import Node, bottom_up, walk

THREADS = 256  # of a block
SHARE = 32  # rows and entries that a thread merges, if some rows have that many
_USUAL_ROW = 10.0  # entries of a row, where nobody knows
_MANY_THREADS = 256, 1024  # of a block that makes a long row; the more, if there are
_FEW_ROWS = 1024  # only so many
_MOST_MAPPED = 1 << 22  # keys of which a block may have a map of its own
_SLOTS = 64, 512  # the fewest and the most that a table in shared memory has


def for_gpu(plan: Plan, trace: Trace, exact: bool = False) -> Plan:
    """`plan` with its outermost loops shared by blocks and threads, as far as they can be.

    `exact`: without atomics, which add in an order that changes from call to call.
    """
    loops = _outermost(nest_of(plan.loops))
    taken: set[IndexVar] = set()  # by a thread or a few, for each piece of the result
    if isinstance(plan.assembly, Append) and plan.assembly.lanes > 0:
        pieces = [loop for loop in loops if written(loop.body).tensor == plan.result]
        taken = {n.var for loop in pieces for n in walk(loop) if isinstance(n, Forall)}
    for loop in loops:
        if loop.var not in taken:
            plan = _shared(plan, loop, trace, exact)
    return plan


def assembled(
    plan: Plan,
    trace: Trace,
    sizes: dict[str, float],
    longest: dict[str, int],
    serial: bool = False,
    exact: bool = False,
) -> Plan:
    """`plan` with a sparse result that a GPU counts and fills in pieces, where it can be cut.

    `sizes`: stored entries of operands, and `longest`: those of a row, where they are known.
    `serial`: the user has it that one thread appends to it. `exact`: without atomics.
    """
    if not isinstance(plan.assembly, Append):
        return plan
    why = "the schedule has it so" if serial else _whole(plan)
    if why is None and _differ(plan, longest):
        trace.decide(
            f"schedule: assemble(count): for each {SHARE} rows and entries of operands, which rows "
            f"are cut for, a thread of the GPU: the entries of {plan.result} are counted, then "
            "computed into place"
        )
        return replace(plan, assembly=Append("count", 1, share=SHARE))
    if why is None:
        tabled, rows = _tabled(plan, sizes)
        lanes = lanes_for(rows[-1]) if rows else 1
        who = "a thread" if lanes == 1 else f"{lanes} threads"
        row = _outermost(nest_of(plan.loops))[-1].var
        trace.decide(
            f"schedule: assemble(count): for each {row}, "
            f"{who} of the GPU: the entries of {plan.result} are counted, then computed into place"
        )
        slots, mapped = slots_for(prod(rows)), _few_keys(plan)
        few = (extents(plan.assignment).get(row) or inf) <= _FEW_ROWS
        many = _MANY_THREADS[few]
        made = Append("count", lanes, slots, many=many, atomic=not exact, mapped=mapped)
        return replace(tabled, assembly=made)
    trace.decide(f"{plan.result}: one thread appends to it, slowly: {why}")
    return replace(plan, assembly=Append("serial"))


def _differ(plan: Plan, longest: dict[str, int]) -> bool:
    """Whether rows that are merged may be so long that threads had better share them."""
    merged = measured(nest_of(plan.loops))
    return can_be_shared(plan) and any(longest.get(a.tensor.name, SHARE) >= SHARE for a in merged)


def _few_keys(plan: Plan) -> bool:
    """Whether the workspaces that list their keys may as well have a place for every one."""
    known = extents(plan.assignment)
    return all(
        0 < (known.get(var) or 0) <= _MOST_MAPPED
        for n in walk(plan.loops)
        if isinstance(n, Where) and not n.temporary.format.is_dense
        for var in written(n.producer).vars
    )


def lanes_for(mean: float) -> int:
    """Threads that insert a row of `mean` keys side by side."""
    return next((n for n in (8, 16) if mean <= n), 32)


def slots_for(keys: float) -> int:
    """Slots of a table in shared memory, for rows of about so many keys."""
    least, most = _SLOTS
    return min(most, max(least, 1 << int(keys * 4 / 3).bit_length()))


def _mean(access: Access, plan: Plan, sizes: dict[str, float]) -> float:
    """Entries of a row of an operand, about."""
    known = extents(plan.assignment).get(access.level_vars[0])
    entries = sizes.get(access.tensor.name)
    return _USUAL_ROW if not known or entries is None else entries / known


def _tabled(plan: Plan, sizes: dict[str, float]) -> tuple[Plan, list[float]]:
    """`plan` with threads that insert keys into its lists side by side, where there are lists.

    With them come the lengths of the rows that are multiplied; none: there are no lists.
    """
    rows: list[float] = []
    provenance, done = provenance_of(plan), dict[Node, Node]()
    for where in walk(plan.loops):
        if not isinstance(where, Where) or where.temporary.format.is_dense:
            continue
        done[where] = where
        sparse = [a for a in accesses_in(where.producer) if a.vars and not a.tensor.format.is_dense]
        mine = [max(1.0, _mean(a, plan, sizes)) for a in sparse] or [_USUAL_ROW]
        rows = max(rows, mine, key=lambda lengths: (bool(lengths), prod(lengths)))
        around: list[Forall] = []
        node = where.producer
        while isinstance(node, Forall):
            around.append(node)
            node = node.body
        if not isinstance(node, Assign) or not around:
            continue
        loop = around.pop()
        known = {*node.lhs.vars, *(outer.var for outer in around)}
        together = walked_together(loop, tuple(around), provenance)
        counted = not together or vanishes(loop.body, together[0], provenance)
        if len(together) > 1 or not counted or loop.var not in provenance.recoverable(known):
            continue
        tag = Tag(ParallelUnit.GPUThread, OutputRaceStrategy.NoRaces)
        producer: Stmt = replace(loop, tag=tag)
        for outer in reversed(around):
            producer = replace(outer, body=producer)
        done[where] = replace(where, producer=producer)
    loops = cast(Stmt, bottom_up(lambda node: done.get(node))(plan.loops))
    return replace(plan, loops=loops), rows


def accesses_in(stmt: Stmt) -> list[Access]:
    """What a statement reads of operands."""
    reads = (a.rhs for a in walk(stmt) if isinstance(a, Assign))
    return list(dict.fromkeys(n for rhs in reads for n in walk(rhs) if isinstance(n, Access)))


def _whole(plan: Plan) -> str | None:
    """Why a result is not assembled in pieces on a GPU; None if it is."""
    if uses_gpu(plan):
        return "the schedule gives loops to the GPU already"
    nest = _last(nest_of(plan.loops))
    before = [made for made in _lists(plan.loops) if made not in _lists(nest)]
    if before:
        return f"{before[0]} is made before, with a list of its keys"
    return whole(plan, nest)


def _lists(stmt: Stmt) -> list[TensorVar]:
    """The workspaces that list their keys."""
    made = (n.temporary for n in walk(stmt) if isinstance(n, Where))
    return [temporary for temporary in made if not temporary.format.is_dense]


def by_units(plan: Plan) -> bool:
    """Whether the units of a GPU can assemble a result, each a piece of it."""
    return _whole(plan) is None


def _last(nest: Stmt) -> Stmt:
    """What comes after all dense temporaries are made, each by kernels of its own."""
    match nest:
        case Where(temporary=made, consumer=consumer, guarded=False) if (
            made.ndim and made.format.is_dense
        ):
            return _last(consumer)
    return nest


def _outermost(stmt: Stmt) -> list[Forall]:
    match stmt:
        case Forall():
            return [stmt]
        case Where(consumer=consumer, producer=producer):
            return [*_outermost(producer), *_outermost(consumer)]
        case Then(first=first, then=then):
            return [*_outermost(first), *_outermost(then)]
    return []


def _shared(plan: Plan, loop: Forall, trace: Trace, exact: bool) -> Plan:
    """A thread for each iteration; writes that meet are atomic, unless `exact`."""
    if any(isinstance(n, Forall) and n.tag is not None for n in walk(loop)):
        return plan
    taken = {n.name for n in walk(plan.loops) if isinstance(n, IndexVar)}
    taken |= {str(v) for v in loop_variables(plan)}
    position, outer, inner = (
        IndexVar(take_name(f"{loop.var}{end}", taken)) for end in ("p", "b", "t")
    )
    together = walked_together(loop, (), provenance_of(plan))
    assembly, why = plan.assembly, ""
    if isinstance(assembly, Append):  # what comes before does not concern its pieces
        plan = replace(plan, assembly=Append())
    for race in (OutputRaceStrategy.NoRaces, OutputRaceStrategy.Atomics)[: 1 if exact else 2]:
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
            return replace(new, assembly=assembly)
    trace.decide(f"one thread does all iterations of {loop.var}, slowly: {why}")
    return replace(plan, assembly=assembly)
