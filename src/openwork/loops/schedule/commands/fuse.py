"""fuse: two nested loops as one."""

from __future__ import annotations

from dataclasses import replace

from openwork.errors import ScheduleError
from openwork.index.nodes import IndexVar
from openwork.loops.nodes import Forall, Stmt
from openwork.loops.plan.nest import find_loops, new_variables, provenance_of, rewrite, untagged
from openwork.loops.plan.plan import Plan
from openwork.loops.relations import Fuse
from openwork.loops.schedule.legality.loops import check_nest


def fuse(plan: Plan, outer: IndexVar, inner: IndexVar, fused: IndexVar) -> Plan:
    """Collapse two loops, one directly inside the other.

    forall i: forall j: S   =>   forall f: S   such that f = i * |j| + j

    Legal where both are in coordinate space: positions of several levels are reached by fusing
    first and `pos` afterwards. The order of iteration stays. Buys one loop to cut into parts of
    equal size, and with `pos` into parts with equally many entries, across rows.
    """
    untagged(plan, outer)
    untagged(plan, inner)
    new_variables(plan, fused)
    provenance = provenance_of(plan)
    for var in (outer, inner):
        pos = provenance.space(var)
        if pos is not None:
            raise ScheduleError(
                f"{var} counts positions of {pos.access.tensor}, which cannot be fused",
                code="E305",
                hint="fuse the coordinates first, and then use pos on the fused variable",
            )
    for loop in find_loops(plan, outer):
        if not (isinstance(loop.body, Forall) and loop.body.var == inner):
            raise ScheduleError(
                f"{inner} is not directly inside of {outer}",
                code="E306",
                hint=f"reorder the loops so that {inner} follows {outer}",
            )
    if len(find_loops(plan, inner)) != len(find_loops(plan, outer)):
        raise ScheduleError(
            f"{inner} also has a loop that is not inside of {outer}",
            code="E306",
            hint="give the workspace's loop another name in precompute",
        )

    def change(loop: Forall) -> Stmt | None:
        if loop.var == outer and isinstance(loop.body, Forall):
            return replace(loop.body, var=fused)
        return None

    return check_nest(rewrite(plan, change, Fuse(outer, inner, fused)))
