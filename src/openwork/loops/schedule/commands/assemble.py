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
                       for each piece of i, in parallel: append, then put together  [append]
                       for all of i: append  [serial]

    Legal where the result has no operand's pattern and is not dense, and where the outermost loop
    is over its outermost mode, or the outer part of a split of that, and runs on no threads yet.
    "count" needs no memory but the result's, and computes values once; "append" walks the operands
    once. Buys threads; the result is the same, bit for bit, on any number of them.
    """
    if strategy not in STRATEGIES:
        raise ScheduleError(
            f"there is no way to assemble a result called {strategy!r}",
            code="E303",
            hint=f"the ways are {', '.join(STRATEGIES)}",
        )
    if not isinstance(plan.assembly, Append):
        dense = plan.result.format.is_dense
        why = "is dense" if dense else "has the pattern of an operand, whose index arrays it shares"
        raise ScheduleError(
            f"{plan.result} {why}, so there is nothing to assemble",
            code="E313",
            hint="leave assemble out; its values are written in place, by threads",
        )
    return check_nest(replace(plan, assembly=Append(strategy)))
