"""Precompute: a variable of the loops that fill a workspace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from openwork.loops.relations.relation import Renaming


@dataclass(frozen=True)
class Precompute(Renaming):
    """The same values, in the loops that fill a workspace."""

    renames: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"precompute({self.parent}, {self.child})"
