"""Affine: one coordinate below each parent, which follows from the parent's place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from openwork.format.levels.base import Level


@dataclass(frozen=True, repr=False)
class AffineLevel(Level):
    """The coordinate `start + step * p` below the parent at place `p`; no array is stored.

    Under a dense level it relates two variables, as in `x(i+1)`; alone it is one coordinate. Not
    for users' formats: whoever makes one sees to it that coordinates lie within their mode.
    """

    start: int
    step: int = 1
    name = "Affine"
    proven = True
    finds = True

    @property
    def only(self) -> int:
        return self.start

    def begin(self, a: Any, parent: Any) -> Any:
        return parent

    def end(self, a: Any, parent: Any) -> Any:
        return parent + 1

    def coordinate(self, a: Any, parent: Any, position: Any) -> Any:
        return position * self.step + self.start

    def find(self, a: Any, parent: Any, coordinate: Any) -> tuple[Any, Any]:
        there = parent * self.step + self.start
        return parent, (there <= coordinate) & (coordinate <= there)

    def children(self, a: Any, parents: Any) -> Any:
        return parents

    def parent(self, a: Any, position: Any) -> Any:
        return position

    def __str__(self) -> str:
        return f"Affine({self.start}, {self.step})"
