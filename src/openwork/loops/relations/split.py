"""Split: runs of a constant length."""

from __future__ import annotations

from openwork.frozen import frozen
from openwork.loops.relations.relation import Cut


@frozen
class Split(Cut):
    """Runs of `factor` values: `outer` counts them, `inner` runs within one."""

    factor: int

    @property
    def length(self) -> int:
        return self.factor

    def __str__(self) -> str:
        return f"split({self.parent}, {self.outer}, {self.inner}, {self.factor})"
