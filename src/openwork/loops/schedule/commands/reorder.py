"""reorder and order: the same loops in another order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
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
    """Nest loops in the order given, from the outermost in.

    forall i: forall j: forall k: S   =>   forall k: forall i: forall j: S

    Loops that are not named stay where they are: of `i, j, k`, `order(k,i)` makes `k, j, i`. If
    that is not legal, they follow the named ones: `k, i, j`. Legal where `reorder` is. In a
    statement with workspaces every nest takes those of its loops that are named.
    """
    if not variables:
        raise ScheduleError("order names no loop", code="E303", hint="order(i, j)")
    try:
        return _nested_as(plan, variables, exactly=False)
    except ScheduleError:
        if set(variables) < set(loop_variables(plan)):
            with suppress(ScheduleError):
                return _nested_as(plan, variables, exactly=False, first=True)
        raise


def completed_orders(
    given: Sequence[IndexVar], present: Sequence[IndexVar]
) -> tuple[list[IndexVar], list[IndexVar]]:
    """Two orders of all loops that have some in the order `given`.

    In the first the others stay where they are, in the second they follow.

    >>> i, j, k, l = map(IndexVar, "ijkl")
    >>> for order in completed_orders([k, j], [i, j, l, k]):
    ...     print(*order)
    i k l j
    i k j l
    """
    named = [var for var in given if var in present]
    places = iter(named)
    others = [var for var in present if var not in named]
    start = min((n for n, var in enumerate(present) if var in named), default=0)
    stay = [next(places) if var in named else var for var in present]
    return stay, [*others[:start], *named, *others[start:]]


def _nested_as(
    plan: Plan, variables: Sequence[IndexVar], exactly: bool, first: bool = False
) -> Plan:
    """The loops over `variables` in this order; others stay, or follow if these come `first`."""
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
        loops = {loop.var: loop for loop in span}
        for var in reversed(completed_orders(variables, variables_here)[first]):
            body = replace(loops[var], body=cast(Stmt, body))
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
