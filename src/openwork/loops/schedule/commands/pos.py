"""pos: from coordinates to the positions of an operand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from openwork.errors import ScheduleError
from openwork.format.levels import Level
from openwork.index.nodes import Access, IndexVar
from openwork.loops.nodes import Forall, Stmt
from openwork.loops.plan.nest import find_loops, new_variables, provenance_of, rewrite
from openwork.loops.plan.plan import Plan
from openwork.loops.provenance import Provenance
from openwork.loops.relations import Coord, Cut, Fuse, Pos
from openwork.loops.schedule.legality.loops import check_nest

PARENTS = ("stored", "tracked")


def pos(
    plan: Plan, var: IndexVar, new: IndexVar, access: Access, parents: str | None = None
) -> Plan:
    """Move a variable to the position space of an operand, where later commands cut it.

    forall i: S   =>   forall p: S   such that p are the positions of A's level

    Legal for a variable in coordinate space that indexes the operand; where it fuses several, the
    operand's levels must have them in the same order, one below the other. Alone it changes no
    code. Buys runs with equally many entries.

    Where positions run through several levels, threads track the parents of a position: the row is
    incremented as positions pass its end. `parents="stored"`: GPU threads with few positions each
    read them from an array, which is made once for each operand, and as long as its coordinates.
    """
    if parents is not None and parents not in PARENTS:
        raise ScheduleError(
            f"the parents of positions cannot be {parents}",
            code="E303",
            hint=f"they are {' or '.join(PARENTS)}",
        )
    find_loops(plan, var)
    new_variables(plan, new)
    provenance = provenance_of(plan)
    before = provenance.space(var)
    if before is not None:
        raise ScheduleError(
            f"{var} already counts positions of {before.access.tensor}",
            code="E305",
            hint=f"coord({var}, ...) goes back to coordinates",
        )
    variables = provenance.underived(var)
    tensor = access.tensor
    missing = [v for v in variables if v not in access.vars]
    if missing:
        raise ScheduleError(
            f"{tensor} is not indexed by {missing[0]}: it is {access}",
            code="E305",
            hint=f"name an operand that {var} indexes",
        )
    if len(set(access.level_vars)) != len(access.level_vars):
        raise ScheduleError(
            f"{access} has one variable twice, so its positions are not a run",
            code="E305",
            hint="name another operand",
        )
    first = access.level_vars.index(variables[0])
    if access.level_vars[first : first + len(variables)] != variables:
        raise ScheduleError(
            f"{tensor} does not store {', '.join(map(str, variables))} one below the other: its "
            f"levels are {', '.join(map(str, access.level_vars))}",
            code="E305",
            hint="fuse the variables in the order of the levels",
        )
    check_run(plan, var, access, first)

    def change(loop: Forall) -> Stmt | None:
        return replace(loop, var=new) if loop.var == var else None

    return check_nest(rewrite(plan, change, Pos(var, new, access, parents == "stored")))


def check_run(plan: Plan, var: IndexVar, access: Access, first: int) -> None:
    """Refuse a variable that has no run of positions in the levels of `access` from `first` on."""
    provenance = provenance_of(plan)
    variables = provenance.underived(var)
    tensor = access.tensor
    kinds = access.tensor.format.levels[first : first + len(variables)]
    part = _outermost(var, provenance) in provenance.above
    fault = _no_places(kinds, part or first > 0) if len(kinds) > 1 else None
    fault = fault or _no_positions(kinds, part)
    within = {block.inner for block in plan.blocks}
    if any(v in within and kind.full for v, kind in zip(variables, kinds, strict=True)):
        fault = "places of the last block may lie beyond the end of the mode"
    if fault is not None:
        raise ScheduleError(
            f"{var} has no run of positions in {tensor}: {fault}",
            code="E305",
            hint="name another operand, or store it in another format: .to(ow.CSR)",
        )
    fault = no_run(var, provenance)
    if fault is not None:
        raise ScheduleError(
            f"{var} has no run of positions in {tensor}: {fault}",
            code="E305",
            hint="use pos before the variable is cut",
        )


def _outermost(var: IndexVar, provenance: Provenance) -> IndexVar:
    """Of the variables that `var` fuses, the one whose level is the first."""
    while isinstance(relation := provenance.above.get(var), Fuse):
        var = relation.outer
    return var


def _no_positions(kinds: Sequence[Level], part: bool) -> str | None:
    """Why the positions of levels cannot be counted through, or None if they can.

    `part`: only some coordinates of the first level are meant, which have to be searched for.
    """
    for kind in kinds:
        if kind.lists:
            return "it is a workspace that lists its keys while it is filled"
        if not (kind.walks or kind.spans):
            return f"a level {kind} has no runs of positions"
    if not kinds[-1].unique:
        return f"a coordinate may have several positions in a level {kinds[-1]}"
    if part and not ((kinds[0].searches and kinds[0].ordered) or kinds[0].spans):
        return f"a part of the run of a level {kinds[0]} cannot be searched for"
    return None


def _no_places(kinds: Sequence[Level], part: bool) -> str | None:
    """Why the places of the last of several levels cannot be counted through, or None if they can.

    `part`: only places below some coordinates are meant.
    """
    *above, last = kinds
    for kind in above:
        if not kind.contiguous and last.contiguous:
            return f"the runs of a level {kind} do not lie one after another"
        if kind.gappy:
            return f"not every place of a level {kind} holds an entry"
    if last.contiguous:
        return None
    if not last.invertible or part:
        return f"the runs of a level {last} do not lie one after another"
    searched = [kind for kind in above[1:] if kind.boundaries is not None]
    if searched:
        return f"places of a level {last} do not come in the order of the level {searched[0]} above"
    return None


def no_run(var: IndexVar, provenance: Provenance, outermost: bool = True) -> str | None:
    """Why the values of `var` are not a run of coordinates, or None if they are."""
    var = provenance.unrenamed(var)
    match provenance.above.get(var):
        case None:
            return None
        case Fuse(outer=outer, inner=inner):
            return no_run(outer, provenance, outermost) or no_run(inner, provenance, False)
        case Cut() as relation:
            if relation.outer == var:
                return f"{var} counts runs of {relation.parent}"
            if not outermost:
                return f"{var} is only a part of {relation.parent}"
            above = provenance.above.get(provenance.unrenamed(relation.parent))
            if isinstance(above, Fuse):
                return f"{relation.parent} fuses {above.outer} and {above.inner}"
            if provenance.space(relation.parent) is not None:
                return f"{relation.parent} counts positions"
            return no_run(relation.parent, provenance, outermost)
        case Coord() if len(provenance.underived(var)) == 1:
            return None  # coordinates are absolute, whatever positions they come from
    return f"{var} went from positions of several levels back to coordinates"
