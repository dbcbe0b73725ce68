"""Pos: positions in place of coordinates."""

from __future__ import annotations

from openwork.frozen import frozen
from openwork.index.nodes import Access
from openwork.loops.relations.relation import Renaming


@frozen
class Pos(Renaming):
    """The positions of a level of `access` in place of coordinates.

    `stored`: GPU threads look up the parents of a position, which an inspector has stored with the
    operand; else they track them, by increments.
    """

    access: Access
    stored: bool = False

    def names(self, base: str) -> tuple[str, ...]:
        return ("p",)

    def __str__(self) -> str:
        more = ", parents=stored" if self.stored else ""
        return f"pos({self.parent}, {self.child}, {self.access}{more})"
