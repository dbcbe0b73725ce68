"""Masks: an expression where a tensor has entries, whatever their values."""

from __future__ import annotations

from openwork.algebra.operators import Op
from openwork.index.nodes import Access, Apply, Expr, Parameter


def within(pattern: Access, expr: Expr, follows: bool = False) -> Expr:
    """`expr` where `pattern` has entries, whatever their values.

    `follows`: it is absent where `expr` is, too, if that is the pattern's fill there.
    """
    dtype, fill = pattern.dtype, pattern.tensor.fill
    op = Op(
        "within",
        annihilator=fill if follows else None,
        left_annihilator=fill,
        definition=Parameter(1, dtype),
        ufunc=lambda _, value: value,
    )
    return Apply(op, (pattern, expr))
