"""reorder and order: the same loops in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from openwork.errors import ScheduleError
from openwork.index.nodes import IndexVar
from openwork.loops.nodes import Assign, Forall, Stmt, nest_of, written
from openwork.loops.plan.nest import find_loops, loop_variables, provenance_of, with_nest
from openwork.loops.plan.plan import Plan
from openwork.loops.schedule.legality.loops import check_nest
from openwork.tree import Node, map_children, walk


def reorder(plan: Plan, variables: Sequence[IndexVar]) -> Plan:
    """Nest loops that lie directly inside each other in another order.

    forall i: forall j: S   =>   forall j: forall i: S

    Legal where every operand can still be traversed: a compressed level below its parents,
    positions below the coordinates they belong to. Sums may be reordered, as they commute. Buys
    locality, and moves a loop to where it can be parallelized or vectorized.
    """
    if len(variables) < 2:
        raise ScheduleError("reorder takes two loops or more", code="E303", hint="reorder(i, j)")
    return _nested_as(plan, variables, exactly=True)


def order(plan: Plan, variables: Sequence[IndexVar]) -> Plan:
    """Nest all loops in the order given, from the outermost in.

    forall i: forall j: forall k: S   =>   forall k: forall i: forall j: S

    Legal where `reorder` is. In a statement with workspaces every nest takes those of its loops
    that are named.
    """
    known = loop_variables(plan)
    missing = [var for var in known if var not in variables]
    if missing:
        raise ScheduleError(
            f"order leaves out {', '.join(map(str, missing))}",
            code="E306",
            hint=f"name every loop: {', '.join(map(str, known))}; reorder takes only some",
        )
    return _nested_as(plan, variables, exactly=False)


def _nested_as(plan: Plan, variables: Sequence[IndexVar], exactly: bool) -> Plan:
    wanted = set(variables)
    if len(wanted) != len(variables):
        raise ScheduleError("a loop is named twice", code="E303", hint="name each loop once")
    for var in variables:
        find_loops(plan, var)
    found: list[set[IndexVar]] = []

    def nested(stmt: Node) -> Node:
        if not isinstance(stmt, Forall) or stmt.var not in wanted:
            return map_children(stmt, nested)
        chain = _chain(stmt)
        last = max(n for n, loop in enumerate(chain) if loop.var in wanted)
        span, body = chain[: last + 1], nested(chain[last].body)
        variables_here = [loop.var for loop in span]
        if exactly and set(variables_here) != wanted:
            return replace(stmt, body=cast(Stmt, nested(stmt.body)))
        found.append(set(variables_here))
        _check_sums(stmt, variables_here, plan)
        for loop in sorted(span, key=lambda loop: -variables.index(loop.var)):
            body = replace(loop, body=cast(Stmt, body))
        return body

    new = with_nest(plan, cast(Stmt, nested(nest_of(plan.loops))))
    if exactly and not found:
        raise ScheduleError(
            f"{', '.join(map(str, variables))} are not directly inside each other",
            code="E306",
            hint=f"the loops are {', '.join(map(str, loop_variables(plan)))}",
        )
    return check_nest(new)


def _chain(loop: Forall) -> list[Forall]:
    """The loop and those directly inside of it."""
    chain = [loop]
    while isinstance(chain[-1].body, Forall):
        chain.append(chain[-1].body)
    return chain


def _check_sums(loop: Forall, span: Sequence[IndexVar], plan: Plan) -> None:
    """The terms of a reduction are reordered only if its operator commutes."""
    provenance = provenance_of(plan)
    lhs = written(loop)
    reduced = [v for v in span if not provenance.roots(v) <= provenance.roots_of(lhs.vars)]
    for assign in walk(loop):
        if isinstance(assign, Assign) and assign.op and not assign.op.commutes and reduced:
            raise ScheduleError(
                f"{assign.op} does not commute, so the loop over {reduced[0]} cannot move",
                code="E306",
                hint="keep the loops of the reduction in their order",
            )
