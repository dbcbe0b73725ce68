"""Loops that only lowering makes: at a known value of a variable, and of a known shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from openwork.frozen import frozen
from openwork.index.nodes import IndexVar
from openwork.loops.nodes import Forall, Stmt
from openwork.program.nodes import Block, Expr


@frozen
class At(Forall):
    """`body` for one value of `var`: the known one, or `value`, from which others follow."""

    value: Expr | None = None


def at_each(variables: Sequence[IndexVar], body: Stmt) -> Stmt:
    """`body` for the known values of `variables`."""
    for var in reversed(variables):
        body = At(var, body)
    return body


@frozen
class Shaped(Forall):
    """A loop that `shape` lowers at the point that a scope describes."""

    shape: Callable[[Any], Block] = field(default=lambda scope: Block(()), compare=False)
