"""Precompute: a variable of the loops that fill a workspace."""

from __future__ import annotations

from typing import ClassVar

from openwork.frozen import frozen
from openwork.loops.relations.relation import Renaming


@frozen
class Precompute(Renaming):
    """The same values, in the loops that fill a workspace."""

    renames: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"precompute({self.parent}, {self.child})"
