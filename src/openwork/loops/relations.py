"""Relations between index variables: the history of a schedule.

A variable that tensors are indexed by is *underived*; a command replaces variables by new ones that
derive from them. Every variable has at most one relation above it, the one that made it.

    split(i, i0, i1, n)     i  = i0 * n + i1           i1 runs over n values
    divide(i, i0, i1, n)    i  = i0 * ceil(|i| / n) + i1, or from cut to cut; i0 runs over n values
    fuse(i, j, f)           f  = i * |j| + j
    pos(i, p, A[i])         p  the positions of A's level, in place of the coordinates
    coord(p, c)             c  the coordinates again
    bound(i, ib, n, kind)   ib = i, with something known about where it begins or ends
    precompute(i, ip)       ip = i, in the loops that fill a workspace
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from openwork.index.nodes import Access, IndexVar
from openwork.tree import Node


class BoundType(Enum):
    """What a bound says about the values of a variable, which run from `min` up to below `max`."""

    MinExact = "MinExact"
    MinConstraint = "MinConstraint"
    MaxExact = "MaxExact"
    MaxConstraint = "MaxConstraint"
    Divisible = "Divisible"


class Relation(Node):
    """One step of a derivation: `parents` were replaced by `children`."""

    @property
    def parents(self) -> tuple[IndexVar, ...]:
        """The variables that were replaced."""
        raise NotImplementedError

    @property
    def children(self) -> tuple[IndexVar, ...]:
        """The variables that came in their place."""
        raise NotImplementedError


@dataclass(frozen=True)
class Cut(Relation):
    """Runs of a variable: `outer` counts them, `inner` runs within one."""

    parent: IndexVar
    outer: IndexVar
    inner: IndexVar

    @property
    def parents(self) -> tuple[IndexVar, ...]:
        return (self.parent,)

    @property
    def children(self) -> tuple[IndexVar, ...]:
        return (self.outer, self.inner)


@dataclass(frozen=True)
class Renaming(Relation):
    """One variable in place of another, for the same iterations."""

    parent: IndexVar
    child: IndexVar

    @property
    def parents(self) -> tuple[IndexVar, ...]:
        return (self.parent,)

    @property
    def children(self) -> tuple[IndexVar, ...]:
        return (self.child,)


@dataclass(frozen=True)
class Split(Cut):
    """Runs of `factor` values: `outer` counts them, `inner` runs within one."""

    factor: int

    def __str__(self) -> str:
        return f"split({self.parent}, {self.outer}, {self.inner}, {self.factor})"


@dataclass(frozen=True)
class Divide(Cut):
    """`parts` runs: of equal length, with equal work, or from cut to cut of a user's function.

    `balance`: the access whose entries are to be shared out evenly. `points`: called with the
    tensors by name and the number of parts, it gives `parts + 1` rising values of `parent`.
    """

    parts: int
    balance: Access | None = None
    points: Callable[..., Any] | None = field(default=None, metadata={"child": False})

    def __str__(self) -> str:
        more = "" if self.balance is None else f", balanced by {self.balance.tensor}"
        if self.points is not None:
            more = ", at given points"
        return f"divide({self.parent}, {self.outer}, {self.inner}, {self.parts}{more})"


@dataclass(frozen=True)
class Fuse(Relation):
    """All pairs of `outer` and `inner`, in order."""

    outer: IndexVar
    inner: IndexVar
    fused: IndexVar

    @property
    def parents(self) -> tuple[IndexVar, ...]:
        return (self.outer, self.inner)

    @property
    def children(self) -> tuple[IndexVar, ...]:
        return (self.fused,)

    def __str__(self) -> str:
        return f"fuse({self.outer}, {self.inner}, {self.fused})"


@dataclass(frozen=True)
class Pos(Renaming):
    """The positions of a level of `access` in place of coordinates."""

    access: Access

    def __str__(self) -> str:
        return f"pos({self.parent}, {self.child}, {self.access})"


@dataclass(frozen=True)
class Coord(Renaming):
    """Coordinates in place of positions."""

    def __str__(self) -> str:
        return f"coord({self.parent}, {self.child})"


@dataclass(frozen=True)
class Bound(Renaming):
    """The same values, about which something is promised; a kernel checks it first."""

    value: int
    kind: BoundType

    def __str__(self) -> str:
        return f"bound({self.parent}, {self.child}, {self.value}, {self.kind.value})"


@dataclass(frozen=True)
class Precompute(Renaming):
    """The same values, in the loops that fill a workspace."""

    def __str__(self) -> str:
        return f"precompute({self.parent}, {self.child})"
