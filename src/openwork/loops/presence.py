"""Where it makes a difference whether a temporary has an entry or only its identity."""

from __future__ import annotations

from openwork.algebra.operators import Op
from openwork.algebra.types import number
from openwork.format.formats import Format
from openwork.format.levels import KeyLevel
from openwork.index.absence import without
from openwork.index.nodes import Absent, Access, Apply, Expr, IndexVar
from openwork.loops.result import accesses_of
from openwork.tree import walk


def presence_matters(lhs: Access, op: Op | None, rhs: Expr, read: Access, appends: bool) -> bool:
    """Whether `lhs op= rhs` does something else where `read` is absent than at its identity.

    A result that is appended to gets no entry; and an absent operand annihilates even what is
    not finite, where the identity, computed with, would not.
    """
    if appends and op is None:
        left = without(rhs, (read,))
        if isinstance(left, Absent) and left.value == number(lhs.tensor.fill, left.typed):
            return True
    return any(
        isinstance(node, Apply)
        and (node.op.annihilator is not None or node.op.left_annihilator is not None)
        and any(isinstance(without(a, (read,)), Absent) for a in node.args if _reads(a, read))
        for node in walk(rhs)
    )


def _reads(expr: Expr, access: Access) -> bool:
    return any(node == access for node in walk(expr))


def key_format(modes: int, hashed: bool = False) -> Format:
    """The storage of a workspace that lists the keys of its entries."""
    hashed |= modes > 1
    return Format(
        [KeyLevel(owns=n == 0, unique=n == modes - 1, hashed=hashed) for n in range(modes)]
    )


def sparse_along(expr: Expr, var: IndexVar) -> bool:
    """Whether nothing is left of `expr` where operands that are sparse along `var` are absent."""
    sparse = [
        access
        for access in accesses_of(expr)
        if any(
            v == var and not level.full
            for level, v in zip(access.tensor.format.levels, access.level_vars, strict=True)
        )
    ]
    return bool(sparse) and isinstance(without(expr, sparse), Absent)
