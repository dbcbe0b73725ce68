"""Divide: a constant number of runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

from openwork.frozen import frozen
from openwork.index.nodes import Access
from openwork.loops.relations.relation import Cut


@frozen
class Divide(Cut):
    """`parts` runs: of equal length, with equal work, or between the user's split points.

    `balance`: the access whose entries are divided evenly. `points`: called with the tensors by
    name and the number of parts, it returns `parts + 1` values of `parent` that never decrease.
    """

    parts: int
    balance: Access | None = None
    points: Callable[..., Any] | None = field(default=None, metadata={"child": False})

    @property
    def even(self) -> bool:
        return self.balance is None and self.points is None

    def __str__(self) -> str:
        more = "" if self.balance is None else f", balanced by {self.balance.tensor}"
        if self.points is not None:
            more = ", at given points"
        return f"divide({self.parent}, {self.outer}, {self.inner}, {self.parts}{more})"
