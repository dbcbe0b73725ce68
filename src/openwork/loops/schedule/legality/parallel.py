"""Legality of parallel loops: iterations are independent, and do not race."""

from __future__ import annotations

from openwork.errors import ScheduleError
from openwork.index.nodes import Access, IndexVar
from openwork.loops.absent import vanishes
from openwork.loops.nodes import (
    Assign,
    Forall,
    OutputRaceStrategy,
    ParallelUnit,
    Stmt,
    Where,
    nest_of,
)
from openwork.loops.plan.assembly import Append
from openwork.loops.plan.nest import Path, completed
from openwork.loops.plan.pieces import last_of
from openwork.loops.plan.plan import Plan
from openwork.loops.provenance import Provenance
from openwork.loops.schedule.legality.gpu import check_gpu
from openwork.tree import walk


def check_tags(plan: Plan, path: Path, provenance: Provenance) -> None:
    check_gpu(path, provenance)
    threads = [loop for loop in path.loops if _runs_on(loop, ParallelUnit.CPUThread)]
    if len(threads) > 1:
        raise ScheduleError(
            f"{threads[1].var} is inside of {threads[0].var}, and both are for CPUThread",
            code="E308",
            hint="parallelize one of them, or fuse them first",
        )
    for n, loop in enumerate(path.loops):
        if loop.tag is not None:
            check_parallel(plan, loop, path.loops[:n], provenance)
        if _has_copies(loop) and _may_not_run(plan, loop):
            raise ScheduleError(
                f"blocks of {loop.var} reduce into copies, but an earlier statement decides "
                "whether they run",
                code="E307",
                hint="use Atomics",
            )


def _has_copies(loop: Forall) -> bool:
    tag = loop.tag
    return (
        tag is not None
        and tag.unit is ParallelUnit.GPUBlock
        and tag.race is OutputRaceStrategy.Temporary
    )


def _may_not_run(plan: Plan, loop: Forall) -> bool:
    """Whether a loop is skipped where a temporary that is computed before has no entry."""
    made = [n for n in walk(plan.loops) if isinstance(n, Where) and n.guarded]
    return any(loop in walk(where.consumer) for where in made)


def _instead(nest: Stmt) -> str:
    """How threads can share the assembly of a sparse result."""
    if isinstance(nest, Where):
        made = nest.temporary
        return f"one thread computes {made} first; write a statement of its own for {made}"
    return (
        "parallelize the outermost loop with NoRaces, or use assemble(append): threads then take "
        "pieces of it"
    )


def _runs_on(loop: Forall, unit: ParallelUnit) -> bool:
    return loop.tag is not None and loop.tag.unit is unit


def check_parallel(
    plan: Plan, loop: Forall, around: tuple[Forall, ...], provenance: Provenance
) -> None:
    """Raise unless the iterations of a tagged `loop`, inside `around`, can run in parallel."""
    tag = loop.tag
    if tag is None:
        return
    if isinstance(plan.assembly, Append) and plan.result in {
        n.lhs.tensor for n in walk(loop.body) if isinstance(n, Assign)
    }:
        raise ScheduleError(
            f"{plan.result} is sparse and appended to in order, which only one thread can do",
            code="E308",
            hint=_instead(last_of(nest_of(plan.loops))),
        )
    together = entangled(loop, around, provenance)
    if together:
        names = " and ".join(str(access.tensor) for access in together)
        raise ScheduleError(
            f"{loop.var} traverses {names} in a while loop, whose iterations depend on each other",
            code="E308",
            hint=f"split {loop.var} and parallelize the outer part",
        )
    if tag.unit.on_gpu:
        _check_positions(loop, around, provenance)
        hashed = [
            node.temporary
            for node in walk(loop.body)
            if isinstance(node, Where)
            and node.temporary.ndim > 1
            and not node.temporary.format.is_dense
        ]
        if hashed:
            raise ScheduleError(
                f"{loop.var} has a workspace with a hash table inside, which has to grow",
                code="E308",
                hint="parallelize a loop further in, or choose formats that need none",
            )
    _check_races(loop, around, provenance)


def _check_positions(loop: Forall, around: tuple[Forall, ...], provenance: Provenance) -> None:
    """Raise if threads of a GPU take positions, but there is work between positions, too.

    Along several fused variables, each thread takes single positions.
    """
    before = completed(provenance, [outer.var for outer in around])
    after = completed(provenance, [*(outer.var for outer in around), loop.var])
    now = [u for u in after if u not in before and u not in provenance.above]
    pos = provenance.space(loop.var)
    if len(now) > 1 and pos is not None and not vanishes(loop.body, pos.access, provenance):
        raise ScheduleError(
            f"{loop.var} goes along positions of {pos.access.tensor}, but there is also work where "
            "that has no entry",
            code="E308",
            hint=f"parallelize a loop around that over {loop.var}, or do without pos",
        )


def _check_races(loop: Forall, around: tuple[Forall, ...], provenance: Provenance) -> None:
    tag = loop.tag
    made = {n.temporary for n in walk(loop.body) if isinstance(n, Where)}
    outside = {v for outer in around for v in (outer.var,)}
    known = {*completed(provenance, [outer.var for outer in around]), *outside}
    for assign in walk(loop.body):
        if not isinstance(assign, Assign) or assign.lhs.tensor in made or tag is None:
            continue
        lhs = assign.lhs
        if any(kind.lists for kind in lhs.tensor.format.levels):
            raise ScheduleError(
                f"iterations of {loop.var} would race for the list of keys of {lhs.tensor}",
                code="E307",
                hint=f"parallelize a loop outside of the workspace {lhs.tensor}",
            )
        if loop.var in provenance.recoverable({*lhs.vars, *known}):
            continue
        if tag.race is OutputRaceStrategy.IgnoreRaces:
            continue
        if tag.race is OutputRaceStrategy.NoRaces:
            raise ScheduleError(
                f"iterations of {loop.var} write to the same entries of {lhs.tensor}, so NoRaces "
                "does not hold",
                code="E307",
                hint="use Atomics, Temporary or ParallelReduction, or parallelize a variable of "
                f"{lhs}",
            )
        if assign.op is not None and not assign.op.commutes:
            raise ScheduleError(
                f"{assign.op} does not commute, so its terms cannot be combined in any order",
                code="E307",
                hint=f"keep {loop.var} serial",
            )


def entangled(loop: Forall, around: tuple[Forall, ...], provenance: Provenance) -> list[Access]:
    """The operands that a loop steps through, so that an iteration depends on the one before.

    That is so for several operands, for one that does not decide alone where there is work, and
    for one with duplicate coordinates.
    """
    # Where nothing is complete yet, or several are, the loop is cut into parts.
    one = len(_completes(loop, around, provenance)) == 1
    return merged(loop, around, provenance) if one else []


def merged(loop: Forall, around: tuple[Forall, ...], provenance: Provenance) -> list[Access]:
    """The operands that are merged by the loop, or by the loops that a fused one becomes."""
    together = _walked(loop, around, provenance)
    alone = len(together) == 1 and vanishes(loop.body, together[0], provenance)
    return [] if alone and _comes_once(loop, together[0], provenance) else together


def _comes_once(loop: Forall, access: Access, provenance: Provenance) -> bool:
    roots = provenance.roots(loop.var)
    pairs = zip(access.tensor.format.levels, access.level_vars, strict=True)
    return all(kind.unique for kind, var in pairs if var in roots)


def walked_together(
    loop: Forall, around: tuple[Forall, ...], provenance: Provenance
) -> list[Access]:
    """The operands that the loop itself iterates, rather than looks up at its coordinate."""
    one = len(_completes(loop, around, provenance)) == 1
    return _walked(loop, around, provenance) if one else []


def _completes(loop: Forall, around: tuple[Forall, ...], provenance: Provenance) -> list[IndexVar]:
    """The variables of the statement that are known inside the loop, and not around it."""
    before = completed(provenance, [outer.var for outer in around])
    after = completed(provenance, [*(outer.var for outer in around), loop.var])
    return [u for u in after if u not in before and u not in provenance.above]


def _walked(loop: Forall, around: tuple[Forall, ...], provenance: Provenance) -> list[Access]:
    """The operands with a level that is iterated for a coordinate which the loop completes."""
    relation = provenance.above.get(loop.var)
    if relation is not None and relation.counts_runs(loop.var):
        return []  # strided: every operand is looked up
    before = completed(provenance, [outer.var for outer in around])
    now = _completes(loop, around, provenance)
    found: list[Access] = []
    for node in walk(loop.body):
        if not isinstance(node, Assign):
            continue
        for access in walk(node.rhs):
            if not isinstance(access, Access) or access in found or not access.vars:
                continue
            new = [
                (kind, var)
                for kind, var in zip(access.tensor.format.levels, access.level_vars, strict=True)
                if var not in before
            ]
            if len(now) == 1:
                new = new[:1]
            if any(var in now and not kind.locates for kind, var in new):
                found.append(access)
    return found
