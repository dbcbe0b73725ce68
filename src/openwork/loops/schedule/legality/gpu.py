"""Legality on a GPU: how units nest, and what groups of threads may reduce."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from openwork.errors import ScheduleError
from openwork.loops.nodes import Forall, OutputRaceStrategy, ParallelUnit, Stmt, Where
from openwork.loops.plan.nest import Path, completed
from openwork.loops.plan.plan import Plan
from openwork.loops.provenance import Provenance
from openwork.tree import walk

# The nesting depth of a unit; threads and groups of them have the same.
_DEPTH = {
    ParallelUnit.GPUBlock: 0,
    ParallelUnit.GPUWarp: 1,
    ParallelUnit.GPUThread: 2,
    ParallelUnit.GPUGroup: 2,
}
_MOST_BLOCK_LOOPS = 2  # a grid has three dimensions, but two suffice
_COMBINED = (OutputRaceStrategy.Temporary, OutputRaceStrategy.ParallelReduction)


def check_gpu(path: Path, provenance: Provenance) -> None:
    """Raise E315 unless the tagged loops of `path` are nested as a GPU's units are."""
    tagged = [loop for loop in path.loops if loop.tag is not None]
    on_gpu = [loop for loop in tagged if loop.tag is not None and loop.tag.unit.on_gpu]
    if not on_gpu:
        return
    for loop in tagged:
        if loop not in on_gpu:
            raise ScheduleError(
                f"{loop.var} is for {_unit(loop)}, but {on_gpu[0].var} for {_unit(on_gpu[0])}",
                code="E315",
                hint="one nest runs on a CPU or on a GPU",
            )
    for outer, inner in pairwise(on_gpu):
        mine, below = _depth(outer), _depth(inner)
        blocks = _blocks(on_gpu)
        if mine < below or (mine == below == 0 and len(blocks) <= _MOST_BLOCK_LOOPS):
            continue
        if mine == below and _unit(outer) == "GPUThread" and _unit(inner) == "GPUGroup":
            _check_beside(outer, inner, path)
            continue
        raise ScheduleError(
            f"{inner.var} is inside of {outer.var}, but {_unit(inner)} is not inside of "
            f"{_unit(outer)}",
            code="E315",
            hint="from the outside in: at most two loops for GPUBlock, one for GPUWarp, one for "
            "GPUThread, and one for GPUGroup",
        )
    chunked = [loop for loop in _blocks(on_gpu) if loop.tag is not None and loop.tag.chunk]
    if chunked and len(_blocks(on_gpu)) > 1:
        raise ScheduleError(
            f"blocks over {chunked[0].var} take chunks, but there is another loop for GPUBlock",
            code="E315",
            hint="fuse the two loops, or leave out the chunk",
        )
    for loop in on_gpu:
        _check_combined(loop, path, provenance)
        if _depth(loop) == 0:
            _check_workspaces(loop)


def _check_beside(outer: Forall, inner: Forall, path: Path) -> None:
    """Groups beside a loop for threads: what they sum is a workspace of each of its threads."""
    sums = [
        n
        for n in walk(outer.body)
        if isinstance(n, Where) and n.temporary == path.assign.lhs.tensor and n.producer == inner
    ]
    in_warps = any(_unit(loop) == "GPUWarp" for loop in path.loops)
    if not sums or not in_warps or inner.tag is None or inner.tag.reduction != "parallel":
        raise ScheduleError(
            f"{inner.var} is inside of {outer.var}, where groups of threads can only sum into a "
            f"workspace of each thread over {outer.var}, within a loop for GPUWarp",
            code="E315",
            hint="reduction=parallel, and precompute the sum within that loop, by loops of which "
            f"{inner.var} is the outermost",
        )


def _blocks(loops: list[Forall]) -> list[Forall]:
    """The loops for blocks."""
    return [loop for loop in loops if _depth(loop) == 0]


def _check_workspaces(loop: Forall) -> None:
    """A workspace that is private to a block cannot be filled by other blocks."""
    for where in walk(loop.body):
        if not isinstance(where, Where):
            continue
        for inner in walk(where.producer):
            if isinstance(inner, Forall) and inner.tag is not None and _depth(inner) == 0:
                raise ScheduleError(
                    f"{inner.var} fills {where.temporary}, which is private to each block over "
                    f"{loop.var}, and blocks cannot synchronize",
                    code="E315",
                    hint=f"parallelize {inner.var} for GPUWarp or GPUThread",
                )


def _check_combined(loop: Forall, path: Path, provenance: Provenance) -> None:
    """Without atomics, threads reduce into one entry, which is known outside their loop."""
    tag, lhs = loop.tag, path.assign.lhs
    made = {n.temporary for n in walk(loop.body) if isinstance(n, Where)}
    if tag is None or lhs.tensor in made:
        return
    around = [outer.var for outer in path.loops[: path.loops.index(loop)]]
    known = {*completed(provenance, around), *around}
    if loop.var in provenance.recoverable({*lhs.vars, *known}):
        if tag.reduction == "parallel":
            raise ScheduleError(
                f"threads over {loop.var} write to different entries of {lhs.tensor}, so there is "
                "nothing to combine",
                code="E307",
                hint="parallelize it for GPUThread",
            )
        return
    one_place = set(lhs.vars) <= provenance.recoverable(known)
    if tag.reduction == "parallel" and not provenance.roots(loop.var).isdisjoint(
        provenance.roots_of(lhs.vars)
    ):
        raise ScheduleError(
            f"threads over {loop.var} write to several entries of {lhs.tensor}, but a parallel "
            "reduction gives one",
            code="E307",
            hint="use reduction=segment",
        )
    blocks = tag.unit is ParallelUnit.GPUBlock
    outermost = path.loops.index(loop) == 0
    if blocks and outermost and tag.race is OutputRaceStrategy.Temporary:
        return  # each block has a copy, and another kernel combines them
    if tag.race in _COMBINED and (blocks or not one_place):
        why = f"{lhs} is not a single entry outside the loop"
        if blocks:
            why = "blocks cannot synchronize, and only those of an outermost loop have copies"
        raise ScheduleError(
            f"iterations of {loop.var} cannot be combined by {tag.race.value}: {why}",
            code="E307",
            hint=f"use Atomics, or move the loop over {loop.var} inside those of {lhs}",
        )


def _depth(loop: Forall) -> int:
    return 0 if loop.tag is None else _DEPTH[loop.tag.unit]


def _unit(loop: Forall) -> str:
    return "" if loop.tag is None else loop.tag.unit.value


def uses_gpu(loops: Stmt) -> bool:
    """Whether a nest has loops on a GPU."""
    return any(
        isinstance(n, Forall) and n.tag is not None and n.tag.unit.on_gpu for n in walk(loops)
    )


def check_for_gpu(plan: Plan, suggested: Callable[[], str | None]) -> None:
    """Raise E315 if a loop is for a unit of a CPU; `suggested`: a recipe to take instead."""
    for node in walk(plan.loops):
        if isinstance(node, Forall) and node.tag is not None and not node.tag.unit.on_gpu:
            recipe, way = suggested(), "leave the schedule out for the default"
            raise ScheduleError(
                f"{node.var} is for {node.tag.unit.value}, but the target is a GPU",
                code="E315",
                hint=way if recipe is None else f"ow.recipes.{recipe}(stmt), or {way}",
            )


def check_for_cpu(plan: Plan) -> None:
    """Raise E315 if a loop is for a unit of a GPU."""
    for node in walk(plan.loops):
        if isinstance(node, Forall) and node.tag is not None and node.tag.unit.on_gpu:
            raise ScheduleError(
                f"{node.var} is for {node.tag.unit.value}, but the target is a CPU",
                code="E315",
                hint='compile(target="cuda"), or "cuda-emulated" where there is no GPU',
            )
