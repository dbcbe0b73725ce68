"""Pos: positions in place of coordinates."""

from __future__ import annotations

from dataclasses import dataclass

from openwork.index.nodes import Access
from openwork.loops.relations.relation import Renaming


@dataclass(frozen=True)
class Pos(Renaming):
    """The positions of a level of `access` in place of coordinates."""

    access: Access

    def names(self, base: str) -> tuple[str, ...]:
        return ("p",)

    def __str__(self) -> str:
        return f"pos({self.parent}, {self.child}, {self.access})"
