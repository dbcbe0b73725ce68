"""split: runs of a constant length."""

from __future__ import annotations

from dataclasses import replace

from openwork.index.nodes import IndexVar
from openwork.loops.nodes import Forall, Stmt
from openwork.loops.plan.nest import new_variables, positive, rewrite, untagged
from openwork.loops.plan.plan import Plan
from openwork.loops.relations import Relation, Split
from openwork.loops.schedule.legality.loops import check_nest


def split(plan: Plan, var: IndexVar, outer: IndexVar, inner: IndexVar, factor: int) -> Plan:
    """Cut a loop into runs of `factor` values.

    forall i: S   =>   forall i0: forall i1: S   such that i = i0 * factor + i1

    Legal for any loop that is not parallel. In coordinate space the runs have equally many
    coordinates, and a sparse operand is searched for the start of a run; in position space they
    have equally many stored entries. Buys tiles that stay in the cache, chunks for threads and runs
    of a constant length for vector units.
    """
    untagged(plan, var)
    new_variables(plan, outer, inner)
    relation = Split(var, outer, inner, positive(factor, "the split factor"))
    return check_nest(replace_by_two(plan, var, outer, inner, relation))


def replace_by_two(
    plan: Plan, var: IndexVar, outer: IndexVar, inner: IndexVar, *relations: Relation
) -> Plan:
    """The plan with every loop over `var` replaced by two."""

    def change(loop: Forall) -> Stmt | None:
        return Forall(outer, replace(loop, var=inner)) if loop.var == var else None

    return rewrite(plan, change, *relations)
