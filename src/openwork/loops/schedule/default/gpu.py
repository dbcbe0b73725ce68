"""The default schedule on a GPU, sparse results included.

Blocks and threads take the outermost loops. For a sparse result, the units of the GPU count each
row and then fill it. The scheduling language cannot say that yet, so `assembled` records it on the
plan: as `Append`, and as tags of the loops whose threads insert into hash tables.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from openwork.loops.plan.pieces import can_be_shared, last_of, measured, whole
from openwork.loops.plan.plan import Plan
from openwork.loops.schedule.draft import Draft
from openwork.loops.schedule.legality.gpu import uses_gpu
from openwork.loops.schedule.legality.parallel import walked_together
from openwork.loops.schedule.machines import Gpu, SparseResult
from openwork.loops.schedule.statistics import Statistics
from openwork.tree import Node, bottom_up, walk


def default_gpu(
    draft: Draft, statistics: Mapping[str, Statistics], gpu: Gpu, exact: bool = False
) -> Draft:
    """`draft` with its outermost loops on blocks and threads, as far as that is legal.

    `statistics`: of the operands, where they are known. `exact`: bit-reproducible, so without
    atomics, whose order changes from call to call. Loops that have a GPU unit already keep it.
    """
    appended = isinstance(draft.plan.assembly, Append)
    fault = _one_piece(draft) if appended else None
    if not uses_gpu(draft.plan.loops):
        loops = _outermost(nest_of(draft.plan.loops))
        taken: set[IndexVar] = set()  # by the units that assemble the rows of the result
        if appended and fault is None:
            pieces = [loop for loop in loops if written(loop.body).tensor == draft.plan.result]
            taken = {n.var for loop in pieces for n in walk(loop) if isinstance(n, Forall)}
        for loop in loops:
            if loop.var not in taken:
                draft = _shared(draft, loop, gpu, exact)
    return assembled(draft, fault, statistics, gpu.result, exact)


def assembled(
    draft: Draft,
    fault: str | None,
    statistics: Mapping[str, Statistics],
    numbers: SparseResult,
    exact: bool = False,
) -> Draft:
    """`draft` with a sparse result that a GPU counts and fills in pieces, where it can be cut.

    `fault`: why it cannot be cut, so that one thread appends to it.
    """
    plan = draft.plan
    if not isinstance(plan.assembly, Append):
        return draft
    if fault is not None:
        serial = replace(plan, assembly=Append("serial"))
        return draft.decided(serial, f"{plan.result}: one thread appends to it, slowly: {fault}")
    if _differ(plan, statistics, numbers.share):
        return draft.decided(
            replace(plan, assembly=Append("count", 1, share=numbers.share)),
            f"schedule: assemble(count): a thread of the GPU per {numbers.share} rows and entries "
            f"of operands, cut by merge path: counts the entries of {plan.result}, then computes "
            "them in place",
        )
    tabled, rows = _tabled(plan, statistics, numbers)
    lanes = _lanes_for(rows[-1], numbers) if rows else 1
    row = _outermost(nest_of(plan.loops))[-1].var
    few = (extents(plan.assignment).get(row) or inf) <= numbers.few_rows
    made = Append(
        "count",
        lanes,
        slots=_slots_for(prod(rows), numbers),
        many=numbers.long_row_of_few if few else numbers.long_row,
        atomic=not exact,
        mapped=_few_keys(plan, numbers.most_mapped),
    )
    who = "a thread" if lanes == 1 else f"{lanes} threads"
    return draft.decided(
        replace(tabled, assembly=made),
        f"schedule: assemble(count): {who} of the GPU per {row}: the entries of {plan.result} are "
        "counted, then computed in place",
    )


def _differ(plan: Plan, statistics: Mapping[str, Statistics], share: int) -> bool:
    """Whether merged rows may be so long that threads should split them by merge path."""
    known = (statistics.get(a.tensor.name) for a in measured(nest_of(plan.loops)))
    rows = (None if one is None else one.rows for one in known)
    return can_be_shared(plan) and any(one is None or one.longest >= share for one in rows)


def _few_keys(plan: Plan, most: int) -> bool:
    """Whether workspaces that list their keys have few enough for a dense array."""
    known = extents(plan.assignment)
    return all(
        0 < (known.get(var) or 0) <= most
        for n in walk(plan.loops)
        if isinstance(n, Where) and not n.temporary.format.is_dense
        for var in written(n.producer).vars
    )


def _lanes_for(mean: float, numbers: SparseResult) -> int:
    """Threads that insert a row of `mean` keys together."""
    *fewer, most = numbers.lanes
    return next((n for n in fewer if mean <= n), most)


def _slots_for(keys: float, numbers: SparseResult) -> int:
    """Slots of a table in shared memory, for rows of about so many keys."""
    least, most = numbers.slots
    return min(most, max(least, 1 << int(keys * 4 / 3).bit_length()))


def _mean(access: Access, plan: Plan, statistics: Mapping[str, Statistics], usual: float) -> float:
    """Entries per row of an operand, on average."""
    known = extents(plan.assignment).get(access.level_vars[0])
    mine = statistics.get(access.tensor.name)
    return usual if not known or mine is None else mine.entries / known


def _tabled(
    plan: Plan, statistics: Mapping[str, Statistics], numbers: SparseResult
) -> tuple[Plan, list[float]]:
    """`plan` with threads that insert keys in parallel, where workspaces list their keys.

    Also the mean lengths of the rows that are multiplied; none if no workspace lists its keys.
    """
    rows: list[float] = []
    provenance, done = provenance_of(plan), dict[Node, Node]()
    for where in walk(plan.loops):
        if not isinstance(where, Where) or where.temporary.format.is_dense:
            continue
        done[where] = where
        reads = _accesses_in(where.producer)
        sparse = [a for a in reads if a.vars and not a.tensor.format.is_dense]
        usual = numbers.usual_row
        mine = [max(1.0, _mean(a, plan, statistics, usual)) for a in sparse] or [usual]
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


def _accesses_in(stmt: Stmt) -> list[Access]:
    """What a statement reads of operands."""
    reads = (a.rhs for a in walk(stmt) if isinstance(a, Assign))
    return list(dict.fromkeys(n for rhs in reads for n in walk(rhs) if isinstance(n, Access)))


def _whole(plan: Plan) -> str | None:
    """Why a result is not assembled in pieces on a GPU; None if it is."""
    nest = last_of(nest_of(plan.loops))
    if uses_gpu(nest):
        return "the schedule already has loops on the GPU"
    before = [made for made in _lists(plan.loops) if made not in _lists(nest)]
    if before:
        return f"{before[0]}, which lists its keys, is computed first"
    return whole(plan)


def _lists(stmt: Stmt) -> list[TensorVar]:
    """The workspaces that list their keys."""
    made = (n.temporary for n in walk(stmt) if isinstance(n, Where))
    return [temporary for temporary in made if not temporary.format.is_dense]


def by_units(plan: Plan) -> bool:
    """Whether the units of a GPU can assemble a result, each a piece of it."""
    return _whole(plan) is None


def _one_piece(draft: Draft) -> str | None:
    """Why one thread makes the result of a draft; None if the units of a GPU do."""
    if any(c.name == "assemble" and c.arguments == ("serial",) for c in draft.commands):
        return "the schedule says so"
    return _whole(draft.plan)


def _outermost(stmt: Stmt) -> list[Forall]:
    match stmt:
        case Forall():
            return [stmt]
        case Where(consumer=consumer, producer=producer):
            return [*_outermost(producer), *_outermost(consumer)]
        case Then(first=first, then=then):
            return [*_outermost(first), *_outermost(then)]
    return []


def _shared(draft: Draft, loop: Forall, gpu: Gpu, exact: bool) -> Draft:
    """A thread per iteration; conflicting writes are atomic, unless `exact`."""
    plan = draft.plan
    if any(isinstance(n, Forall) and n.tag is not None for n in walk(loop)):
        return draft
    taken = {n.name for n in walk(plan.loops) if isinstance(n, IndexVar)}
    taken |= {str(v) for v in loop_variables(plan)}
    position, outer, inner = (
        IndexVar(take_name(f"{loop.var}{end}", taken)) for end in ("p", "b", "t")
    )
    together = walked_together(loop, (), provenance_of(plan))
    why = ""
    for race in (OutputRaceStrategy.NoRaces, OutputRaceStrategy.Atomics)[: 1 if exact else 2]:
        for along in (*together[:1], None):
            cut = loop.var if along is None else position
            try:
                new = draft if along is None else draft.then("pos", loop.var, position, along)
                new = new.then("split", cut, outer, inner, gpu.block)
                new = new.then("parallelize", outer, ParallelUnit.GPUBlock, race)
                new = new.then("parallelize", inner, ParallelUnit.GPUThread, race)
            except ScheduleError as error:
                why = why or error.message
                continue
            return new.since(draft)
    return draft.said(f"one thread executes all iterations of {loop.var}, slowly: {why}")
