"""parallelize: run a loop on threads, vector lanes, or the units of a GPU."""

from __future__ import annotations

from dataclasses import replace

from openwork.errors import ScheduleError
from openwork.index.nodes import IndexVar
from openwork.loops.nodes import (
    Forall,
    OutputRaceStrategy,
    ParallelUnit,
    Stmt,
    Tag,
    nest_of,
    written,
)
from openwork.loops.plan.assembly import Append
from openwork.loops.plan.nest import check_untagged, find_loops, positive, rewrite
from openwork.loops.plan.pieces import last_of, whole
from openwork.loops.plan.plan import Plan
from openwork.loops.schedule.legality.loops import check_nest

GROUP_SIZES = (2, 4, 8, 16, 32)
REDUCTIONS = ("parallel", "segment")
WARP, MOST_THREADS = 32, 1024  # threads of a block
MOST_RESIDENT, MOST_BLOCKS = 2048, 32  # threads, and blocks, of a multiprocessor


def parallelize(
    plan: Plan,
    var: IndexVar,
    unit: ParallelUnit,
    race: OutputRaceStrategy | None = None,
    chunk: int | None = None,
    group_size: int | None = None,
    reduction: str | None = None,
    resident: int | None = None,
    writes: str | None = None,
    threads: int | None = None,
    blocks_per_sm: int | None = None,
) -> Plan:
    """Run the iterations of a loop in parallel.

    forall i: S   =>   forall i: S  [CPUThread, NoRaces]

    Legal where the loop is not a while loop over several sparse operands (split it, and take the
    outer part), and where writes do not race: `NoRaces` is proven or refused, `Atomics`,
    `Temporary` and `ParallelReduction` need a reduction that commutes. A sparse result that is
    appended to has no races along its outermost loop: threads then take pieces of it, as
    `assemble("append")` has it. `chunk`: dynamic scheduling, by so many iterations at a time. On a
    GPU, as many blocks as can be resident take chunks from a counter, for the only loop for
    `GPUBlock`.

    `GPUGroup` is for the threads of a GPU, like `GPUThread`, which it may come on top of: groups of
    `group_size` adjacent threads combine what they write before one of them writes it. `resident`
    gives launch bounds to `GPUBlock`, in threads per multiprocessor. Fewer threads have more
    registers each, and more loads in flight. `threads` is how many a block has, and `blocks_per_sm`
    gives launch bounds in blocks per multiprocessor.

    A workspace is filled by loops of its own, maybe over the same variable. Of these, `writes`
    names the result, or the workspace, whose loops are meant; without it all are.
    """
    tag = _tag(var, unit, race, chunk, group_size, reduction)
    tag = replace(tag, resident=resident, threads=threads, blocks=blocks_per_sm)
    _check_block(var, tag)
    meant = _meant(plan, var, writes)
    over = unit is ParallelUnit.GPUGroup and all(
        loop.tag is not None and loop.tag.unit is ParallelUnit.GPUThread for loop in meant
    )
    if not over:
        for loop in meant:
            check_untagged(loop)
    if isinstance(plan.assembly, Append) and _takes_pieces(plan, meant, tag):
        strategy = plan.assembly.strategy
        pieces = Append("append" if strategy == "serial" else strategy)
        return check_nest(replace(plan, assembly=pieces))

    def change(loop: Forall) -> Stmt | None:
        here = loop.var == var and writes in (None, written(loop).tensor.name)
        return replace(loop, tag=tag) if here else None

    return check_nest(rewrite(plan, change))


def _takes_pieces(plan: Plan, meant: list[Forall], tag: Tag) -> bool:
    """Whether a parallel loop is the one that pieces of a sparse result are cut from."""
    plain = tag == Tag(ParallelUnit.CPUThread, OutputRaceStrategy.NoRaces)
    return plain and last_of(nest_of(plan.loops)) in meant and whole(plan) is None


def _meant(plan: Plan, var: IndexVar, writes: str | None) -> list[Forall]:
    """The loops over `var`, or those of them that compute the tensor `writes`."""
    found = find_loops(plan, var)
    names = [written(loop).tensor.name for loop in found]
    if writes is not None and writes not in names:
        raise ScheduleError(
            f"no loop over {var} computes {writes}",
            code="E301",
            hint=f"they compute {', '.join(dict.fromkeys(names))}",
        )
    pairs = zip(found, names, strict=True)
    return [loop for loop, name in pairs if writes in (None, name)]


def _check_block(var: IndexVar, tag: Tag) -> None:
    """The shape of a block, and its launch bounds, are for `GPUBlock`, and what a GPU can have."""
    resident, threads, blocks = tag.resident, tag.threads, tag.blocks
    given = {"resident": resident, "threads": threads, "blocks_per_sm": blocks}
    names = [name for name, value in given.items() if value is not None]
    if names and tag.unit is not ParallelUnit.GPUBlock:
        raise ScheduleError(
            f"{var} is for {tag.unit.value}, which has no launch bounds",
            code="E303",
            hint=f"set {names[0]} on the loop for GPUBlock",
        )
    if resident is not None and blocks is not None:
        raise ScheduleError(
            "launch bounds are given in threads and in blocks",
            code="E303",
            hint="leave out resident or blocks_per_sm",
        )
    if threads is not None and (
        isinstance(threads, bool) or threads % WARP or not WARP <= threads <= MOST_THREADS
    ):
        raise ScheduleError(
            f"a block cannot have {threads} threads",
            code="E303",
            hint=f"a block has whole warps: {WARP}, {2 * WARP}, ... or {MOST_THREADS} threads",
        )
    most = MOST_RESIDENT // (threads or MOST_RESIDENT // MOST_BLOCKS)
    if blocks is not None and (isinstance(blocks, bool) or not 1 <= blocks <= most):
        raise ScheduleError(
            f"{blocks} blocks cannot be on a multiprocessor at the same time",
            code="E303",
            hint=f"1 to {most} can, of {threads or 'few'} threads",
        )
    if resident is None:
        return
    if isinstance(resident, bool) or not WARP <= resident <= MOST_RESIDENT:
        raise ScheduleError(
            f"{resident} threads cannot be resident",
            code="E303",
            hint=f"a multiprocessor has {WARP} to {MOST_RESIDENT} threads",
        )


def _tag(
    var: IndexVar,
    unit: ParallelUnit,
    race: OutputRaceStrategy | None,
    chunk: int | None,
    group_size: int | None,
    reduction: str | None,
) -> Tag:
    """What the arguments say, if they fit the unit."""
    if chunk is not None:
        positive(chunk, "the chunk")
    if chunk is not None and unit.on_gpu and unit is not ParallelUnit.GPUBlock:
        raise ScheduleError(
            f"{var} is for {unit.value}, which takes no chunks",
            code="E303",
            hint="chunks are for the loop for GPUBlock",
        )
    if unit is not ParallelUnit.GPUGroup:
        if group_size is not None or reduction is not None:
            raise ScheduleError(
                f"{var} is for {unit.value}, which has no groups",
                code="E303",
                hint="group_size and reduction are for GPUGroup",
            )
        return Tag(unit, race or OutputRaceStrategy.NoRaces, chunk)
    if race not in (None, OutputRaceStrategy.NoRaces, OutputRaceStrategy.Atomics):
        raise ScheduleError(
            f"a group combines what it writes by its reduction, not by {race and race.value}",
            code="E303",
            hint="leave the strategy out",
        )
    group_size = 32 if group_size is None else group_size
    reduction = "parallel" if reduction is None else reduction
    if isinstance(group_size, bool) or group_size not in GROUP_SIZES:
        raise ScheduleError(
            f"a group cannot have {group_size} threads",
            code="E303",
            hint=f"a group has {', '.join(map(str, GROUP_SIZES))} threads",
        )
    if reduction not in REDUCTIONS:
        raise ScheduleError(
            f"groups have no reduction {reduction}",
            code="E303",
            hint=f"there are {' and '.join(REDUCTIONS)}",
        )
    return Tag(unit, OutputRaceStrategy.Atomics, None, group_size, reduction)
