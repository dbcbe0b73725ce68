"""unroll, mergeby, prefetch, stream: how a loop is implemented, not what it computes."""

from __future__ import annotations

from dataclasses import replace

from openwork.errors import ScheduleError
from openwork.index.nodes import Access, IndexVar
from openwork.loops.absent import restrict, vanishes
from openwork.loops.nodes import Ahead, Forall, Stmt
from openwork.loops.plan.nest import find_loops, paths, positive, provenance_of, rewrite
from openwork.loops.plan.plan import Plan
from openwork.loops.schedule.legality.parallel import walked_together

MERGES = ("two_finger", "gallop")


def unroll(plan: Plan, var: IndexVar, factor: int | None = None) -> Plan:
    """Unroll a loop by `factor`, or completely.

    forall i: S   =>   forall i: S  [unroll factor]

    Always legal. A loop within a run of a split is cloned: complete runs have a constant length,
    and the remainder keeps its own loop. Buys independent instructions.
    """
    find_loops(plan, var)
    count = 0 if factor is None else positive(factor, "the unroll factor")
    return rewrite(plan, lambda loop: _if(loop, var, replace(loop, unroll=count)))


def mergeby(plan: Plan, var: IndexVar, strategy: str) -> Plan:
    """Choose how sparse operands are intersected.

    forall i: S   =>   forall i: S  [gallop]

    "two_finger" steps through both; "gallop" searches in doubling steps for the coordinate that
    the others are at. Legal where there is work only at coordinates that all operands have.
    Galloping buys much where one operand has far fewer entries than the other.
    """
    if strategy not in MERGES:
        raise ScheduleError(
            f"there is no merge strategy {strategy!r}",
            code="E303",
            hint=f"the strategies are {' and '.join(MERGES)}",
        )
    provenance = provenance_of(plan)
    find_loops(plan, var)
    for path in paths(plan.loops):
        for n, loop in enumerate(path.loops):
            if loop.var != var:
                continue
            together = walked_together(loop, path.loops[:n], provenance)
            meets = len(together) > 1 and all(
                restrict(loop.body, [access]) is None for access in together
            )
            if not meets and strategy == "gallop":
                raise ScheduleError(
                    f"{var} does not intersect several sparse operands, so there is nothing to "
                    "gallop over",
                    code="E308",
                    hint="mergeby is for products of sparse operands",
                )
    return rewrite(plan, lambda loop: _if(loop, var, replace(loop, merge=strategy)))


def prefetch(plan: Plan, access: Access, var: IndexVar, distance: int) -> Plan:
    """Prefetch an operand's entry some iterations of a loop before it is needed.

    forall i: S   =>   forall i: S  [prefetch B[j, k] 16 ahead]

    Legal where the loop traverses one sparse operand and the entry can be located by coordinates.
    Hides the latency of memory where rows are gathered from an operand larger than the cache.
    """
    distance = positive(distance, "the prefetch distance")
    provenance = provenance_of(plan)
    find_loops(plan, var)
    for path in paths(plan.loops):
        for n, loop in enumerate(path.loops):
            if loop.var != var:
                continue
            together = walked_together(loop, path.loops[:n], provenance)
            alone = len(together) == 1 and vanishes(loop.body, together[0], provenance)
            if not alone or not access.tensor.format.is_dense:
                raise ScheduleError(
                    f"{access.tensor} cannot be located ahead of a loop over {var}",
                    code="E308",
                    hint="prefetch a dense operand in a loop along one sparse operand",
                )
            walked = together[0].level_vars
            if not set(walked) & set(access.vars):
                raise ScheduleError(
                    f"{access} does not change with {var}",
                    code="E308",
                    hint="name an operand that the loop gathers from",
                )
    ahead = Ahead(access, distance)
    return rewrite(plan, lambda loop: _if(loop, var, replace(loop, ahead=(*loop.ahead, ahead))))


def stream(plan: Plan) -> Plan:
    """Write the result by non-temporal stores.

    forall i: y[i] = e   =>   the same, with stores that leave the cache to the operands

    Always legal. Buys bandwidth where the result is large and not read again soon.
    """
    return replace(plan, streams=True)


def _if(loop: Forall, var: IndexVar, new: Forall) -> Stmt | None:
    return new if loop.var == var else None
