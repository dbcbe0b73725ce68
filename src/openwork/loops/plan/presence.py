"""Where an absent temporary differs from one that holds the identity."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain, combinations

from openwork.algebra.operators import Op
from openwork.algebra.types import number
from openwork.format.formats import Format
from openwork.format.levels import KeyLevel
from openwork.index.absence import without
from openwork.index.nodes import Absent, Access, Apply, Expr, IndexVar, TensorVar
from openwork.loops.plan.assembly import accesses_of
from openwork.tree import walk

_MOST_OTHERS = 8


def presence_matters(
    lhs: Access,
    op: Op | None,
    rhs: Expr,
    read: Access,
    appends: bool,
    temporaries: Collection[TensorVar],
) -> bool:
    """Whether `lhs op= rhs` differs between `read` being absent and at its identity.

    If it is absent, a result that is appended to gets no entry, and even NaN and infinity are
    annihilated. The identity does neither. In `b + read` the entry hinges on both.
    """
    if appends and op is None and _hinges(rhs, [read], temporaries):
        left = without(rhs, [read, *_others(rhs, [read], temporaries)])
        if isinstance(left, Absent) and left.value == number(lhs.tensor.fill, left.typed):
            return True
    return any(
        isinstance(node, Apply)
        and (node.op.annihilator is not None or node.op.left_annihilator is not None)
        and any(_hinges(a, [read], temporaries) for a in node.args if _reads(a, read))
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


def sparse_along(
    expr: Expr, variables: Collection[IndexVar], temporaries: Collection[TensorVar]
) -> bool:
    """Whether `expr` may have an entry at some values of `variables` and none at others."""
    sparse = [
        a for a in accesses_of(expr) if any(not level.full for level in a.levels_along(variables))
    ]
    return _hinges(expr, sparse, temporaries)


def _hinges(expr: Expr, some: Collection[Access], temporaries: Collection[TensorVar]) -> bool:
    """Whether `expr` may have no entry because `some` have none.

    Others may have to be absent for that too, as `b` in `a + b` or in `max(a, b)`; temporaries
    may be, as empty sums.
    """
    others = _others(expr, some, temporaries)
    if not some or not isinstance(without(expr, [*some, *others]), Absent):
        return False
    if len(others) > _MOST_OTHERS:
        return True  # too many cases to look at; presence is then kept for nothing
    cases = chain.from_iterable(combinations(others, n) for n in range(len(others) + 1))
    return any(
        isinstance(without(expr, [*some, *gone]), Absent)
        and not isinstance(without(expr, gone), Absent)
        for gone in cases
    )


def _others(
    expr: Expr, some: Collection[Access], temporaries: Collection[TensorVar]
) -> list[Access]:
    """The accesses of `expr` besides `some` that may be absent as well."""
    return [
        a
        for a in accesses_of(expr)
        if a not in some and (a.tensor in temporaries or not a.tensor.format.is_dense)
    ]
