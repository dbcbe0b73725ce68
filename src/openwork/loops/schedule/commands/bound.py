"""bound: a promise about the values of a variable."""

from __future__ import annotations

from dataclasses import replace

from openwork.errors import ScheduleError
from openwork.index.nodes import IndexVar
from openwork.loops.nodes import Forall, Stmt
from openwork.loops.plan.nest import MOST, find_loops, new_variables, positive, rewrite
from openwork.loops.plan.plan import Plan
from openwork.loops.relations import Bound, BoundType
from openwork.loops.schedule.legality.loops import check_nest


def bound(plan: Plan, var: IndexVar, new: IndexVar, value: int, kind: BoundType) -> Plan:
    """Promise something about where `var` begins or ends.

    forall i: S   =>   forall ib: S   such that ib = i, and its values begin or end as said

    `MinExact` and `MaxExact`: they begin at `value`, or end right below it. `MinConstraint` and
    `MaxConstraint`: they begin there or later, or end there or earlier. `Divisible`: their number
    is a multiple of it. A kernel checks the promise, and refuses data that breaks it.
    Legal for any loop; a parallel one stays so. Buys constant trip counts and no remainders.
    """
    find_loops(plan, var)
    new_variables(plan, new)
    least = 1 if kind is BoundType.Divisible else 0
    if isinstance(value, int) and value > MOST:
        positive(value, "the bound")
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ScheduleError(
            f"the bound is {value!r}, but must be a whole number of at least {least}",
            code="E303",
            hint="such as 32",
        )

    def change(loop: Forall) -> Stmt | None:
        return replace(loop, var=new) if loop.var == var else None

    return check_nest(rewrite(plan, change, Bound(var, new, value, kind)))
