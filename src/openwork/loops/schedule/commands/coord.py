"""coord: from positions back to coordinates."""

from __future__ import annotations

from dataclasses import replace

from openwork.errors import ScheduleError
from openwork.index.nodes import IndexVar
from openwork.loops.nodes import Forall, Stmt
from openwork.loops.plan.nest import find_loops, new_variables, provenance_of, rewrite
from openwork.loops.plan.plan import Plan
from openwork.loops.relations import Coord
from openwork.loops.schedule.legality.loops import check_nest


def coord(plan: Plan, var: IndexVar, new: IndexVar) -> Plan:
    """Move a variable from position space back to coordinates.

    forall p: S   =>   forall c: S   such that c are the coordinates at the positions p

    Legal for a variable in position space whose positions follow each other. Alone it changes no
    code. Buys tiles of coordinates within a run of entries.
    """
    find_loops(plan, var)
    new_variables(plan, new)
    provenance = provenance_of(plan)
    if provenance.space(var) is None:
        raise ScheduleError(
            f"{var} is already in coordinate space",
            code="E305",
            hint=f"pos({var}, ...) goes to positions",
        )
    if provenance.strided(var):
        raise ScheduleError(
            f"{var} counts runs of positions, which have no coordinates",
            code="E305",
            hint="use coord on the variable within a run",
        )

    def change(loop: Forall) -> Stmt | None:
        return replace(loop, var=new) if loop.var == var else None

    return check_nest(rewrite(plan, change, Coord(var, new)))
