"""Bound: a promise about where a variable begins or ends."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from openwork.frozen import frozen
from openwork.loops.relations.relation import Renaming


class BoundType(Enum):
    """What a bound promises about the values of a variable, from `min` up to below `max`."""

    MinExact = "MinExact"
    MinConstraint = "MinConstraint"
    MaxExact = "MaxExact"
    MaxConstraint = "MaxConstraint"
    Divisible = "Divisible"


@frozen
class Bound(Renaming):
    """The same values under a promise, which a kernel checks first."""

    renames: ClassVar[bool] = True

    value: int
    kind: BoundType

    def __str__(self) -> str:
        return f"bound({self.parent}, {self.child}, {self.value}, {self.kind.value})"
