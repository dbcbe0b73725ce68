"""Fuse: two variables as one."""

from __future__ import annotations

from typing import ClassVar

from openwork.frozen import frozen
from openwork.index.nodes import IndexVar
from openwork.loops.relations.relation import Relation


@frozen
class Fuse(Relation):
    """All pairs of `outer` and `inner`, in order."""

    to_coordinates: ClassVar[bool] = True

    outer: IndexVar
    inner: IndexVar
    fused: IndexVar

    @property
    def parents(self) -> tuple[IndexVar, ...]:
        return (self.outer, self.inner)

    @property
    def children(self) -> tuple[IndexVar, ...]:
        return (self.fused,)

    def names(self, base: str) -> tuple[str, ...]:
        return ("f",)

    def __str__(self) -> str:
        return f"fuse({self.outer}, {self.inner}, {self.fused})"
