"""Load balance: where to partition a parallel loop so that all threads have equal work."""

from __future__ import annotations

from collections.abc import Sequence

from openwork.index.nodes import Access
from openwork.loops.nodes import Stmt
from openwork.loops.relations import Cut
from openwork.program import nodes as p
from openwork.program.lower.base.context import Context
from openwork.program.lower.base.ranges import Range
from openwork.program.lower.walk.walkers import Participant
from openwork.tree import walk


def balance_runs(ctx: Context, relation: Cut, body: Stmt, whole: Range) -> p.Balance | None:
    """The same for a loop that counts runs of a variable, if all runs have equally many values."""
    (var, *more) = ctx.provenance.underived(relation.parent)
    if more or not whole.everything or relation.length is None:
        return None
    for access in walk(body):
        if not isinstance(access, Access) or access.tensor not in ctx.names.operands:
            continue
        if access.tensor.ndim < 2 or access.level_vars[0] != var:
            continue
        outer, inner = access.tensor.format.levels[:2]
        if outer.full and inner.boundaries is not None:
            return p.Balance(ctx.boundaries(access, 1), relation.length, whole.hi)
    return None


def balance(ctx: Context, counted: Sequence[Participant]) -> p.Balance | None:
    """A position array that is indexed by the loop variable: it counts the work below.

    `counted` are the operands whose outermost level has a position for each iteration.
    """
    for part in counted:
        access = part.access
        reached = part.steps[-1] if part.steps else part.walk
        if reached != 0 or access.tensor.ndim < 2:
            continue
        if access.tensor.format.levels[1].boundaries is not None:
            return p.Balance(ctx.boundaries(access, 1))
    return None
