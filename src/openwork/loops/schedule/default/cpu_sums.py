"""Sums of a whole operand, in the default schedule: `s = A(i,j)`.

An addition waits for the one before it, and rows are short: entries are summed in lanes, one row
after the other as if they were one.
"""

from __future__ import annotations

from openwork.errors import ScheduleError
from openwork.index.nodes import Access, Expr, IndexVar
from openwork.loops.absent import restrict
from openwork.loops.plan.assembly import accesses_of
from openwork.loops.plan.nest import Path, paths
from openwork.loops.schedule.default.cpu_dot import REDUCED, vars_of
from openwork.loops.schedule.draft import Draft
from openwork.loops.schedule.machines import Cpu
from openwork.tree import walk


def with_whole_sums(draft: Draft, cpu: Cpu) -> Draft:
    """`draft` with the sum of all entries of an operand in lanes."""
    (path, *more) = paths(draft.plan.loops)
    access = None if more or draft.plan.blocks else _summed(path)
    if access is None:
        return draft
    try:
        if all(level.full for level in access.tensor.format.levels):
            return draft.then("parallelize", path.variables[-1], *REDUCED).since(draft)
        return _along_positions(draft, access, cpu).since(draft)
    except ScheduleError:
        return draft


def _summed(path: Path) -> Access | None:
    """The operand whose entries are summed to one number, in the order of its levels, if any."""
    assign = path.assign
    op, found = assign.op, list(dict.fromkeys(accesses_of(assign.rhs)))
    if assign.lhs.vars or op is None or not (op.commutes and op.associates):
        return None
    walked = [access for access in found if access.level_vars]
    if len(walked) != 1:
        return None
    (access,) = walked
    if assign.lhs.dtype.kind not in "fiu" or access.level_vars != tuple(path.variables):
        return None
    if not vars_of(access):
        return None
    if all(level.full for level in access.tensor.format.levels):
        # What is exact in any order may depend on the place, as where an extreme is.
        return access if op.idempotent or _is_alone(access, assign.rhs) else None
    last = access.tensor.format.levels[-1]
    runs = last.full or (last.compact and not last.strided and not last.locates)
    if not runs or not _is_alone(access, assign.rhs):
        return None
    # Absent entries that take part are counted row by row.
    return access if restrict(assign, [access]) is None else None


def _is_alone(access: Access, rhs: Expr) -> bool:
    """Whether an expression reads this access and nothing else, variables included."""
    within = sum(node == access for node in walk(rhs)) * len(access.vars)
    named = sum(isinstance(node, IndexVar) for node in walk(rhs))
    return named == within and set(accesses_of(rhs)) == {access}


def _along_positions(draft: Draft, access: Access, cpu: Cpu) -> Draft:
    """All entries in one loop, cut into runs so that Ctrl-C is looked for between them."""
    var, *others = access.level_vars
    for inner in others:
        fused = IndexVar(f"{var}{inner}")
        draft, var = draft.then("fuse", var, inner, fused), fused
    position, outer, inner = (IndexVar(f"{var}p{end}") for end in ("", "0", "1"))
    draft = draft.then("pos", var, position, access)
    draft = draft.then("split", position, outer, inner, cpu.summed_run)
    return draft.then("parallelize", inner, *REDUCED)
