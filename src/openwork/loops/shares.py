"""Whether a sparse result can be cut within its rows, into pieces with equally many entries."""

from __future__ import annotations

from openwork.index.nodes import Access
from openwork.loops.nodes import Assign, Forall, Stmt, nest_of, relations_of
from openwork.loops.plan import Plan
from openwork.loops.restrict import restrict
from openwork.tree import walk


def measured(loop: Stmt) -> list[Access]:
    """The operands that a nest of two loops walks: sorted runs, one for each value of the outer."""
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
    """Whether all that is done for a row of the result is to merge rows of operands."""
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
