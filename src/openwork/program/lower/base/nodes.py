"""A loop of one iteration: the body at a known value of a variable."""

from __future__ import annotations

from dataclasses import dataclass

from openwork.loops.nodes import Forall
from openwork.program.nodes import Expr


@dataclass(frozen=True)
class At(Forall):
    """`body` for one value of `var`: the known one, or `value`, from which others follow."""

    value: Expr | None = None
