"""A loop of one iteration: the body at a value of a variable that is known."""

from __future__ import annotations

from dataclasses import dataclass

from openwork.loops.nodes import Forall
from openwork.program.nodes import Expr


@dataclass(frozen=True)
class At(Forall):
    """`body` for one value of `var`: the one that is known, or `value`, from which more follows."""

    value: Expr | None = None
