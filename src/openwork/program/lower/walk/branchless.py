"""Branchless merge cases: which operand comes next in a merge is unpredictable."""

from __future__ import annotations

from openwork.algebra.operators import SELECT
from openwork.frozen import frozen
from openwork.index import nodes as index
from openwork.loops.nodes import Assign, Stmt
from openwork.program import nodes as p
from openwork.program.lower.base.scope import Scope
from openwork.tree import Node, substitute, walk

_MOST_OPERATORS = 6


@frozen
class Choice(Stmt):
    """`lhs op= c1 ? e1 : c2 ? e2 : ... : en`; every operand may be read, whichever holds."""

    assign: Assign
    conditions: tuple[p.Expr, ...]
    values: tuple[index.Expr, ...]


def as_choice(bodies: list[Stmt | None], conditions: list[p.Expr | None]) -> Choice | None:
    """The cases of a merge as one statement, if they are assignments of cheap expressions.

    The last case needs no condition.
    """
    assigns = [body for body in bodies if isinstance(body, Assign)]
    known = [condition for condition in conditions[:-1] if condition is not None]
    if len(assigns) != len(bodies) or len(known) != len(conditions) - 1:
        return None
    first = assigns[0]
    same = all(
        (a.lhs, a.op, a.rhs.dtype) == (first.lhs, first.op, first.rhs.dtype) for a in assigns
    )
    if not same or not all(_is_cheap(a.rhs) for a in assigns):
        return None
    return Choice(first, tuple(known), tuple(a.rhs for a in assigns))


def _is_cheap(expr: index.Expr) -> bool:
    applied = [node for node in walk(expr) if isinstance(node, index.Apply)]
    builtin = all(node.op.cheap and node.op.definition is None for node in applied)
    return builtin and len(applied) <= _MOST_OPERATORS


def choose(
    conditions: tuple[p.Expr, ...], values: list[p.Expr], scope: Scope
) -> tuple[list[p.Stmt], p.Expr]:
    """Code that loads every operand, and the value that the conditions select from `values`."""
    code: list[p.Stmt] = []
    table: dict[Node, Node] = {}
    for load in (n for v in values for n in walk(v) if isinstance(n, p.Load)):
        if load not in table and load.array.role is p.Role.VALUE:
            name, scope = scope.fresh(f"{load.array.stem}_val", load.type)
            code.append(p.Declare(name, load, fixed=True))
            table[load] = name
    picked = substitute(values[-1], table)
    for condition, value in zip(reversed(conditions), reversed(values[:-1]), strict=True):
        picked = p.Apply(SELECT, (condition, substitute(value, table), picked), value.type)
    return code, picked
