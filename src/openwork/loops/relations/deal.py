"""Deal: turns take the next values while they run."""

from __future__ import annotations

from openwork.frozen import frozen
from openwork.loops.relations.relation import Cut


@frozen
class Deal(Cut):
    """Each of `parts` turns (`outer`) takes the next `chunk` values, until there are none.

    Every value belongs to one turn; which one is known only while the loop runs. So the loop over
    turns cannot be apart from the one over their values: together they are a loop over the parent,
    which units share (`loops/plan/undealt.py`), and no later stage has this relation.
    """

    parts: int
    chunk: int

    @property
    def even(self) -> bool:
        return False

    def __str__(self) -> str:
        names = f"{self.parent}, {self.outer}, {self.inner}"
        return f"divide({names}, {self.parts}, assign=dynamic, chunk={self.chunk})"
