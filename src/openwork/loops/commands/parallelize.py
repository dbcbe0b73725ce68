"""parallelize: give the iterations of a loop to threads or vector lanes."""

from __future__ import annotations

from dataclasses import replace

from openwork.index.nodes import IndexVar
from openwork.loops.legality import check_nest
from openwork.loops.nest import positive, rewrite, untagged
from openwork.loops.nodes import Forall, OutputRaceStrategy, ParallelUnit, Stmt, Tag
from openwork.loops.plan import Plan


def parallelize(
    plan: Plan,
    var: IndexVar,
    unit: ParallelUnit,
    race: OutputRaceStrategy | None = None,
    chunk: int | None = None,
) -> Plan:
    """Run the iterations of a loop at once.

    forall i: S   =>   forall i: S  [CPUThread, NoRaces]

    Legal where the loop is no while loop over several sparse operands (split it, and take the outer
    part), where no result is appended to, and where writes to one place are kept apart: `NoRaces`
    is proven or refused, `Atomics`, `Temporary` and `ParallelReduction` need a reduction that
    commutes. `chunk`: threads take so many iterations at a time, whoever is free.
    """
    untagged(plan, var)
    if chunk is not None:
        positive(chunk, "the chunk")
    tag = Tag(unit, race or OutputRaceStrategy.NoRaces, chunk)

    def change(loop: Forall) -> Stmt | None:
        return replace(loop, tag=tag) if loop.var == var else None

    return check_nest(rewrite(plan, change))
