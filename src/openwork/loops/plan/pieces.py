"""Whether a sparse result can be assembled in pieces of its outermost loop."""

from __future__ import annotations

from openwork.index.nodes import Access, IndexVar
from openwork.loops.absent import restrict
from openwork.loops.nodes import Assign, Forall, ParallelUnit, Stmt, Where, nest_of, relations_of
from openwork.loops.plan.nest import paths
from openwork.loops.plan.plan import Plan
from openwork.loops.provenance import Provenance
from openwork.loops.relations import Coord, Cut, Divide, Fuse, Pos, Relation, Split
from openwork.tree import walk


def whole(plan: Plan) -> str | None:
    """Why the outermost loop cannot be cut into pieces; None if it can."""
    loop = last_of(nest_of(plan.loops))
    return _uncut(plan, loop) or _renumbered(plan, loop)


def last_of(nest: Stmt) -> Stmt:
    """The statement after all dense workspaces that are computed first, and always."""
    match nest:
        case Where(temporary=made, consumer=consumer, guarded=False, swept=False) if (
            made.ndim and made.format.is_dense
        ):
            return last_of(consumer)
    return nest


def _renumbered(plan: Plan, nest: Stmt) -> str | None:
    """Why a workspace that is computed first cannot be read in pieces; None if each can.

    Loops that follow from the values of a piece count from its beginning.
    """
    provenance = Provenance(relations_of(plan.loops))
    if not isinstance(nest, Forall) or (cut := cut_variable(provenance, nest.var)) == nest.var:
        return None
    made = {n.temporary for n in walk(plan.loops) if isinstance(n, Where)}
    made -= {n.temporary for n in walk(nest) if isinstance(n, Where)}
    right = [n for a in walk(nest) if isinstance(a, Assign) for n in walk(a.rhs)]
    for access in (n for n in right if isinstance(n, Access)):
        for var in access.vars if access.tensor in made else ():
            if var != cut and cut in provenance.ancestors(var):
                return f"{access.tensor} is computed first, by {var}, which pieces number anew"
    return None


def _uncut(plan: Plan, loop: Stmt) -> str | None:
    """Why pieces cannot be cut from `loop`; None if they can."""
    if isinstance(loop, Where):
        return f"one thread computes {loop.temporary} first"
    if not isinstance(loop, Forall):
        return "there is no loop around it"
    if any(
        isinstance(n, Forall) and n.tag is not None and n.tag.unit is ParallelUnit.CPUThread
        for n in walk(loop)
    ):
        return "the schedule already parallelizes a loop"
    provenance, var = Provenance(relations_of(plan.loops)), loop.var
    relation = provenance.above.get(var)
    first = plan.assignment.lhs.level_vars[0]
    if relation is None and var == first:
        return None
    if isinstance(relation, Split) and relation.outer == var and relation.parent == first:
        return None
    if cut_variable(provenance, var) == first:
        return _unsearchable(provenance, var, first)
    if isinstance(relation, Divide) and relation.points is not None:
        return f"the loop over {var} goes from point to point, which are points of all rows"
    if provenance.underived(var) != (first,):
        return f"the outermost loop, over {var}, is not over its first mode, {first}"
    return f"the loop over {var} is not sorted, so that no piece can start inside it"


def _unsearchable(provenance: Provenance, var: IndexVar, first: IndexVar) -> str | None:
    """Why the positions below some values of `first` cannot be found; None if they can."""
    relation: Relation | None = provenance.above.get(var)
    while relation is not None and not isinstance(relation, Pos):
        relation = provenance.above.get(relation.parents[0])
    if relation is None or first not in relation.access.vars:
        return None
    access = relation.access
    level = access.tensor.format.levels[access.level_vars.index(first)]
    if level.spans or (level.searches and level.ordered):
        return None
    return f"a part of the run of a level {level}, in {access.tensor}, cannot be searched for"


def cut_variable(provenance: Provenance, var: IndexVar) -> IndexVar:
    """The variable whose values pieces of a loop over `var` are cut from.

    A loop over fused variables, over positions, over runs of either, or over a number of runs, runs
    anew for the values of the outermost variable that belong to a piece. Others are cut themselves.
    """
    relation, at = provenance.above.get(var), var
    if isinstance(relation, Cut) and relation.outer == var:
        if isinstance(relation, Divide) and relation.points is not None:
            return var
        at = relation.parent
    if at not in provenance.above:
        return at if isinstance(relation, Divide) else var
    if isinstance(relation := provenance.above.get(at), Pos):
        at = relation.parent
    while isinstance(relation := provenance.above.get(at), Fuse):
        at = relation.outer
    return var if at in provenance.above else at


def atoms(var: IndexVar, provenance: Provenance) -> list[IndexVar]:
    """The variables that a fused one stands for, in order; all positions are all coordinates."""
    var = provenance.unrenamed(var)
    while isinstance(whole := provenance.above.get(var), (Pos, Coord)):
        var = provenance.unrenamed(whole.parent)
    fuse = provenance.above.get(var)
    if not isinstance(fuse, Fuse):
        return [var]
    return [*atoms(fuse.outer, provenance), *atoms(fuse.inner, provenance)]


def resumed(plan: Plan, provenance: Provenance) -> frozenset[int]:
    """The appended levels of the result whose segments a loop may leave and come back to.

    That is so for runs of fused variables: a run may end within a row, which the next continues.
    """
    found: set[int] = set()
    for path in paths(plan.loops):
        result = path.assign.lhs
        if result.tensor != plan.result:
            continue
        place = {var: n for n, var in enumerate(result.level_vars)}
        for var in (atom for loop in path.variables for atom in atoms(loop, provenance)):
            mine = [place[u] for u in provenance.underived(var) if u in place]
            found |= {n for n in mine[:-1] if not result.tensor.format.levels[n].full}
    return frozenset(found)


def measured(loop: Stmt) -> list[Access]:
    """The operands that two nested loops traverse: sorted runs, one for each outer value."""
    match loop:
        case Forall(var=row, body=Forall(var=column, body=Assign(rhs=rhs))):
            found = dict.fromkeys(n for n in walk(rhs) if isinstance(n, Access))
            return [a for a in found if _in_rows(a) and a.level_vars == (row, column)]
    return []


def _in_rows(access: Access) -> bool:
    """Whether an access has a run of its own, in order, for each coordinate of its first level."""
    levels = access.tensor.format.levels
    if len(levels) != 2 or levels[0].strided:
        return False
    return levels[0].full and levels[0].locates and levels[1].appends


def can_be_shared(plan: Plan) -> bool:
    """Whether each row of the result is merely a merge of operands' rows."""
    nest = nest_of(plan.loops)
    operands = measured(nest)
    if not operands or relations_of(plan.loops) or plan.blocks:
        return False
    match nest:
        case Forall(var=row, tag=None, body=Forall(var=column, tag=None, body=Assign() as assign)):
            lhs = assign.lhs
            if not _in_rows(lhs) or lhs.level_vars != (row, column):
                return False
            others = [a for a in walk(assign.rhs) if isinstance(a, Access) and a not in operands]
            dense = all(a.tensor.format.is_dense for a in others)
            return dense and restrict(assign, operands) is None
    return False
