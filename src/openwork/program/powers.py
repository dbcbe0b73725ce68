"""Integers have no negative powers: where a kernel must check the sign of an exponent."""

from __future__ import annotations

import numpy as np

from openwork.algebra.types import is_signed
from openwork.errors import ParseError
from openwork.program import nodes as p
from openwork.tree import walk


def may_be_negative(e: p.Apply) -> bool:
    """Whether an argument that must not be negative has a signed type and is not a constant."""
    if e.op.natural is None or not is_signed(e.type):
        return False
    return not _is_natural(e.args[e.op.natural])


def _is_natural(e: p.Expr) -> bool:
    match e:
        case p.Value(value=value):
            return value.real >= 0
        case p.Convert(expr=inner) if np.can_cast(inner.type, e.type):
            return _is_natural(inner)
    return not is_signed(e.type)


def check_powers(program: p.Program) -> None:
    """Refuse a GPU program that needs such a check: its kernels cannot report it.

    Raises:
        ParseError: E108.
    """
    if any(isinstance(node, p.Apply) and may_be_negative(node) for node in walk(program.body)):
        raise ParseError(
            "on a GPU, an integer is raised to a signed integer, which may be negative",
            code="E108",
            hint="cast the exponent to an unsigned type: a ** ow.cast('uint8', b)",
        )
