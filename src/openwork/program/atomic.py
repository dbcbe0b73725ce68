"""Updates that several threads may make of one place."""

from __future__ import annotations

from openwork.algebra.operators import Op
from openwork.program.nodes import Apply, Array, Expr, Stmt, Store
from openwork.program.values import combine


def atomic_update(
    array: Array, index: Expr, value: Expr, op: Op | None, scope_name: str = ""
) -> Stmt:
    """`array[index] = op(array[index], value);`, or without `op` a plain write, indivisibly.

    `scope_name` is not used: what a compare-exchange needs beside has a scope of its own in C.
    """
    return Store(array, index, value, op, atomic=True)


def applied(op: Op, old: Expr, value: Expr) -> Expr:
    """`op(old, value)` for elements of one type; a user's own operator is spelled out."""
    new, left = combine(op, old, value)
    return new if left is None else Apply(left, (old, new), old.type)
