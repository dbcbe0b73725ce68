"""Stride: every n-th value belongs to the same turn."""

from __future__ import annotations

from openwork.frozen import frozen
from openwork.loops.relations.split import Split


@frozen
class Stride(Split):
    """`factor` turns (`inner`) take the values of a round (`outer`) one after the other.

    It is a split whose inner variable has the outer loop.
    """

    def __str__(self) -> str:
        names = f"{self.parent}, {self.inner}, {self.outer}"
        return f"divide({names}, {self.factor}, assign=stride)"
