"""Where it makes a difference whether a temporary has an entry or only its identity."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain, combinations

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


def key_format(modes: int) -> Format:
    """The storage of a workspace that lists the keys of its entries."""
    return Format([KeyLevel(owns=n == 0, unique=n == modes - 1) for n in range(modes)])


def sparse_along(expr: Expr, variables: Collection[IndexVar]) -> bool:
    """Whether `expr` may have an entry at some values of `variables` and none at others.

    It has none where operands that are sparse along `variables` are absent; which of the others
    are there by then may decide, as in `max(a(i), b(j))` along `j` alone.
    """
    operands = [a for a in accesses_of(expr) if not a.tensor.format.is_dense]
    sparse = [a for a in operands if any(v in variables for v in _sparse_vars(a))]
    others = [a for a in operands if set(_sparse_vars(a)) - set(variables)]
    if not sparse or not isinstance(without(expr, [*sparse, *others]), Absent):
        return False
    cases = chain.from_iterable(combinations(others, n) for n in range(len(others) + 1))
    return any(
        isinstance(without(expr, [*sparse, *gone]), Absent)
        and not isinstance(without(expr, gone), Absent)
        for gone in cases
    )


def _sparse_vars(access: Access) -> list[IndexVar]:
    levels = zip(access.tensor.format.levels, access.level_vars, strict=True)
    return [var for level, var in levels if not level.full]
