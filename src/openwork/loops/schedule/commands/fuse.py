"""fuse: two nested loops as one."""

from __future__ import annotations

from dataclasses import replace

from openwork.errors import ScheduleError
from openwork.index.nodes import Access, IndexVar
from openwork.loops.nodes import Forall, Stmt, SuchThat, nest_of, relations_of
from openwork.loops.plan.nest import (
    find_loops,
    fresh_variable,
    new_variables,
    provenance_of,
    rewrite,
    untagged,
)
from openwork.loops.plan.plan import Plan
from openwork.loops.relations import Fuse, Pos
from openwork.loops.schedule.commands.pos import pos
from openwork.loops.schedule.legality.loops import check_nest
from openwork.tree import walk


def fuse(plan: Plan, outer: IndexVar, inner: IndexVar, fused: IndexVar) -> Plan:
    """Collapse two loops, one directly inside the other.

    forall i: forall j: S   =>   forall f: S   such that f = i * |j| + j

    Legal where the outer is in coordinate space. Where the inner counts an operand's positions
    below the outer, the fused one counts all of them, as `fuse` and then `pos` would. The order of
    iteration stays. Buys one loop to cut into parts of equal size, and with `pos` into parts with
    equally many entries, across rows.
    """
    untagged(plan, outer)
    untagged(plan, inner)
    new_variables(plan, fused)
    provenance = provenance_of(plan)
    counted = provenance.space(outer)
    if counted is not None:
        raise ScheduleError(
            f"{outer} counts positions of {counted.access.tensor}, which cannot be fused",
            code="E305",
            hint="fuse the coordinates first, and then use pos on the fused variable",
        )
    _check_nested(plan, outer, inner)
    if provenance.space(inner) is not None:
        return _with_positions(plan, outer, inner, fused)

    def change(loop: Forall) -> Stmt | None:
        if loop.var == outer and isinstance(loop.body, Forall):
            return replace(loop.body, var=fused)
        return None

    return check_nest(rewrite(plan, change, Fuse(outer, inner, fused)))


def _check_nested(plan: Plan, outer: IndexVar, inner: IndexVar) -> None:
    """Raise unless every loop over `inner` is directly inside of one over `outer`."""
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


def _with_positions(plan: Plan, outer: IndexVar, inner: IndexVar, fused: IndexVar) -> Plan:
    """fuse(i, p, f), where p are positions for j   =>   fuse(i, j, f_coord), pos(f_coord, f, A)"""
    provenance = provenance_of(plan)
    made = provenance.above[inner]
    used = {v for r in relations_of(plan.loops) for v in r.parents}
    used |= {v for n in walk(plan.loops) if isinstance(n, Access) for v in n.vars}
    if not isinstance(made, Pos) or inner in used:
        raise ScheduleError(
            f"{inner} counts only some positions of "
            f"{provenance.position_space(inner).access.tensor}, which cannot be fused",
            code="E305",
            hint="fuse the coordinates first, and then use pos on the fused variable",
        )
    levels = made.access.level_vars
    first = levels.index(provenance.underived(made.parent)[0])
    if not first or levels[first - 1] != provenance.underived(outer)[-1]:
        raise ScheduleError(
            f"{inner} counts positions of {made.access.tensor}, which are not below one {outer}",
            code="E305",
            hint=f"fuse {inner} with the loop over the level above, or fuse before pos",
        )

    def back(loop: Forall) -> Stmt | None:
        return replace(loop, var=made.parent) if loop.var == inner else None

    pairs = fresh_variable(plan, f"{fused}_coord")
    without = tuple(r for r in relations_of(plan.loops) if r != made)
    plan = rewrite(replace(plan, loops=SuchThat(nest_of(plan.loops), without)), back)
    return pos(fuse(plan, outer, made.parent, pairs), pairs, fused, made.access)
