"""assemble: how a result whose pattern is not known beforehand is built."""

from __future__ import annotations

from dataclasses import replace

from openwork.errors import ScheduleError
from openwork.loops.plan.assembly import STRATEGIES, Append
from openwork.loops.plan.plan import Plan
from openwork.loops.schedule.legality.loops import check_nest


def assemble(plan: Plan, strategy: str) -> Plan:
    """Choose how a sparse result is assembled.

    forall i: S   =>   for each piece of i, in parallel: count, then compute in place  [count]
                       for each piece of i, in parallel: append, then concatenate  [append]
                       for all of i: append  [serial]

    Legal where the result has no operand's pattern and is not dense, and where the outermost loop
    is over its outermost mode, or the outer part of a split of that, and is not parallel yet.
    "count" needs no memory but the result's, and computes values once; "append" traverses the
    operands once. Buys parallelism; the result is bit-identical for any number of threads.
    """
    if strategy not in STRATEGIES:
        raise ScheduleError(
            f"there is no assembly strategy {strategy!r}",
            code="E303",
            hint=f"the strategies are {', '.join(STRATEGIES)}",
        )
    if not isinstance(plan.assembly, Append):
        dense = plan.result.format.is_dense
        why = "is dense" if dense else "has the pattern of an operand, whose index arrays it shares"
        raise ScheduleError(
            f"{plan.result} {why}, so there is nothing to assemble",
            code="E313",
            hint="leave assemble out; its values are written in place, in parallel",
        )
    return check_nest(replace(plan, assembly=Append(strategy)))
