"""The default schedule on a CPU, as commands.

Four things pay off on every machine. A sum of products over several loops is factored, so that
loop-invariant terms are multiplied once (the MTTKRP of the thesis' appendix). A dot product along
memory is summed in several independent lanes, and so is a whole operand. Interleaved rows become
vector lanes. And where columns are few, their number is compiled in, so that a row of them is a
handful of vectors; data of other extents falls back to loops without that.

Then threads take the outermost loop, or pieces of a sparse result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from openwork.algebra.entries import Entry
from openwork.errors import ScheduleError
from openwork.index.nodes import Access, Apply, IndexVar
from openwork.loops.nodes import (
    Forall,
    OutputRaceStrategy,
    ParallelUnit,
    Stmt,
    Tag,
    Where,
    nest_of,
)
from openwork.loops.plan.assembly import Append, accesses_of
from openwork.loops.plan.nest import Path, paths, provenance_of, with_nest
from openwork.loops.plan.pieces import whole
from openwork.loops.plan.plan import Plan
from openwork.loops.relations import BoundType, Divide
from openwork.loops.schedule.default.cpu_dot import extent_of, terms_of, vars_of, with_lanes
from openwork.loops.schedule.default.cpu_gather import with_gathers
from openwork.loops.schedule.default.cpu_sums import with_whole_sums
from openwork.loops.schedule.draft import Draft
from openwork.loops.schedule.legality.parallel import entangled
from openwork.loops.schedule.machines import Cpu

_THREADS = ParallelUnit.CPUThread, OutputRaceStrategy.NoRaces
_LANES = ParallelUnit.CPUVector, OutputRaceStrategy.NoRaces


def default_cpu(draft: Draft, cpu: Cpu, runs: Mapping[str, float]) -> Draft:
    """`draft` with the default schedule, as far as it applies.

    `runs`: the mean entries of a run, such as a row, of the operands that have data, by name.
    """
    draft = _side_by_side(_in_lists(draft), cpu)
    draft = _counted_columns(with_lanes(_factored(draft, cpu), cpu), cpu)
    draft = with_whole_sums(with_gathers(draft, cpu, runs), cpu)
    if draft.otherwise is not None:
        other = in_pieces(shared_by_threads(draft.otherwise, cpu))
        draft = replace(draft, otherwise=other)
    return in_pieces(shared_by_threads(draft, cpu))


def _side_by_side(draft: Draft, cpu: Cpu) -> Draft:
    """Vectorize over rows whose runs are interleaved.

    Not those of records: their sums fill registers already. Written out for several rows they are
    slower, up to three times, and compilers take a minute or more for large records.
    """
    (path, *more) = paths(draft.plan.loops)
    lhs = path.assign.lhs
    if more or len(path.loops) != 2 or not lhs.tensor.format.is_dense or draft.plan.blocks:
        return draft
    if isinstance(lhs.dtype, Entry):
        return draft
    row, along = path.variables
    for access in accesses_of(path.assign.rhs):
        if access.level_vars != (row, along) or lhs.vars != (row,):
            continue
        most, least = (n // lhs.dtype.itemsize for n in (cpu.most_row_sums, cpu.least_row_sums))
        count = most
        while count > 1 and not access.tensor.format.levels[1].abreast(count):
            count //= 2
        if count < max(least, 2):
            continue
        outer, inner = IndexVar(f"{row}0"), IndexVar(f"{row}1")
        try:
            new = draft.then("split", row, outer, inner, count)
            new = new.then("parallelize", outer, *_THREADS).then("parallelize", inner, *_LANES)
        except ScheduleError:
            continue
        return new.since(draft)
    return draft


def _counted_columns(draft: Draft, cpu: Cpu) -> Draft:
    """Compile in the number of columns, where they are a few whole vectors."""
    plan = draft.plan
    (path, *more) = paths(plan.loops)
    if more or draft.otherwise is not None or plan.blocks or isinstance(plan.assembly, Append):
        return draft
    reduced, column = _reductions(path)
    if not reduced or column is None:
        return draft
    extent = extent_of((path.assign.lhs, *accesses_of(path.assign.rhs)), column)
    size = extent * path.assign.lhs.dtype.itemsize
    if not 0 < size <= cpu.most_columns or size % cpu.column_vector:
        return draft
    exact = IndexVar(f"{column}b")
    try:
        new = draft.then("bound", column, exact, extent, BoundType.MaxExact)
    except ScheduleError:
        return draft
    return replace(new.since(draft), otherwise=draft)


def _in_lists(draft: Draft) -> Draft:
    """Traverse the entries of a block that lists its coordinates in one loop, across rows.

    Rows within a block are short, so that a loop for each would cost more than it saves.
    """
    for path in paths(draft.plan.loops) if draft.plan.blocks else ():
        for access in accesses_of(path.assign.rhs):
            listed = _listed(access)
            around = path.variables[-len(listed) :]
            others = [a for a in accesses_of(path.assign.rhs) if a != access]
            walked = any(not kind.locates for a in others for kind in a.levels_along(listed))
            if not listed or listed != around or walked:
                continue
            fused = IndexVar("".join(v.name for v in listed))
            try:
                draft = draft.then("fuse", *listed, fused).since(draft)
            except ScheduleError:
                continue
    return draft


def _listed(access: Access) -> tuple[IndexVar, ...]:
    """The two innermost variables of an operand that lists the coordinates of both."""
    levels = access.tensor.format.levels
    if len(levels) < 3 or levels[-2].unique or not levels[-1].unique:
        return ()
    return access.level_vars[-2:]


def _factored(draft: Draft, cpu: Cpu) -> Draft:
    """Multiply by loop-invariant factors once, after the inner loops are summed."""
    for path in paths(draft.plan.loops):
        reduced, column = _reductions(path)
        if column is None or len(reduced) < cpu.least_factored:
            continue
        op = path.assign.rhs.op if isinstance(path.assign.rhs, Apply) else None
        if op is None or not (op.commutes and op.associates):
            continue
        for n in range(1, len(reduced)):
            inner = set(reduced[n:])
            terms = [t for t in terms_of(path.assign.rhs, op) if vars_of(t) & inner]
            if len(terms) == len(terms_of(path.assign.rhs, op)) or len(terms) < 2:
                continue
            expr = terms[0]
            for term in terms[1:]:
                expr = Apply(op, (expr, term))
            try:
                draft = draft.then("precompute", expr, (column,), (column,)).since(draft)
            except ScheduleError:
                break
    return draft


def _reductions(path: Path) -> tuple[list[IndexVar], IndexVar | None]:
    """The reduction loops directly around the innermost one, if that runs along dense columns."""
    lhs = path.assign.lhs
    if not path.loops or not lhs.tensor.format.is_dense or path.assign.op is None:
        return [], None
    column = path.variables[-1]
    reduced: list[IndexVar] = []
    for var in reversed(path.variables[:-1]):
        if var in lhs.vars:
            break
        reduced.insert(0, var)
    dense = all(
        kind.locates
        for access in (lhs, *accesses_of(path.assign.rhs))
        for kind, var in zip(access.tensor.format.levels, access.level_vars, strict=True)
        if var == column
    )
    return reduced, column if column in lhs.vars and dense else None


def shared_by_threads(draft: Draft, cpu: Cpu) -> Draft:
    """Parallelize the outermost loop if its iterations write to different places.

    Iterations of a merge loop depend on each other. It is cut, and threads take runs of it.
    """
    plan, loop = draft.plan, _outermost(nest_of(draft.plan.loops))
    if isinstance(plan.assembly, Append) or loop is None or loop.tag is not None:
        return draft
    provenance = provenance_of(plan)
    relation = provenance.above.get(loop.var)
    var = relation.parent if isinstance(relation, Divide) else loop.var
    if var not in plan.assignment.lhs.vars:
        return draft.said(f"serial: iterations of {loop.var} write to the same entries")
    if entangled(loop, (), provenance):
        outer, inner = IndexVar(f"{var}0"), IndexVar(f"{var}1")
        try:
            draft = draft.then("divide", var, outer, inner, cpu.runs).since(draft)
        except ScheduleError:
            return draft.said(f"serial: iterations of {loop.var} depend on each other")
        plan, loop = draft.plan, _outermost(nest_of(draft.plan.loops)) or loop
    tagged = _with_outermost(nest_of(plan.loops), replace(loop, tag=Tag(*_THREADS)))
    sentence = f"{loop.var}: parallel over threads, no two iterations write to the same entry"
    shared = with_nest(plan, tagged)
    made = _by_command(draft, shared, sentence, "parallelize", loop.var, *_THREADS)
    if made.commands == draft.commands:  # other loops over it fill temporaries
        options = (None, None, None, None, plan.result.name)
        arguments = (loop.var, *_THREADS, *options)
        made = _by_command(draft, shared, sentence, "parallelize", *arguments)
    return made


def _by_command(draft: Draft, plan: Plan, sentence: str, name: str, *arguments: Any) -> Draft:
    """`draft` with another plan: by a command, if the scheduling language has one that makes it."""
    try:
        made = draft.then(name, *arguments)
    except ScheduleError:
        made = None
    if made is not None and made.plan == plan:
        return made.said(sentence)
    return draft.decided(plan, sentence)


def _outermost(stmt: Stmt) -> Forall | None:
    """The outermost loop of the last consumer."""
    while isinstance(stmt, Where):
        stmt = stmt.consumer
    return stmt if isinstance(stmt, Forall) else None


def _with_outermost(stmt: Stmt, loop: Forall) -> Stmt:
    """`stmt` with another outermost loop of the last consumer."""
    if isinstance(stmt, Where):
        return replace(stmt, consumer=_with_outermost(stmt.consumer, loop))
    return loop


def in_pieces(draft: Draft) -> Draft:
    """Assemble a sparse result in parallel pieces, where it can be cut."""
    if not isinstance(draft.plan.assembly, Append):
        return draft
    fault = whole(draft.plan)
    if fault is not None:
        name = draft.plan.result.name
        return draft.said(f"{name}: assembled by appending in one serial pass: {fault}")
    pieces = "schedule: assemble(append): threads append to pieces, which are concatenated"
    plan = replace(draft.plan, assembly=Append("append"))
    return _by_command(draft, plan, pieces, "assemble", "append")
