"""Coord: coordinates in place of positions."""

from __future__ import annotations

from typing import ClassVar

from openwork.frozen import frozen
from openwork.loops.relations.relation import Renaming


@frozen
class Coord(Renaming):
    """Coordinates in place of positions."""

    to_coordinates: ClassVar[bool] = True

    def names(self, base: str) -> tuple[str, ...]:
        return ("c",)

    def __str__(self) -> str:
        return f"coord({self.parent}, {self.child})"
