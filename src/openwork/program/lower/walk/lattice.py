"""Merge lattices: what a loop computes for each combination of operands that are present.

A point says: where exactly these operands have an entry, this is what remains of the loop's body.
Points follow from the operators' laws alone. Redundant points are dropped: a product keeps one
point, a sum of two keeps three, and `a` where not `b` keeps two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

from openwork.errors import InternalError
from openwork.index.nodes import Access
from openwork.loops.absent import restrict
from openwork.loops.nodes import Stmt

_MOST_OPERANDS = 14


@dataclass(frozen=True)
class Point:
    """Where the operands in `present` have entries and the others do not, execute `body`."""

    present: frozenset[Access]
    body: Stmt | None  # None: no work


@dataclass(frozen=True)
class Lattice:
    """The points of a loop, the largest first.

    At a coordinate, the first point applies whose operands are all present. The last point has no
    operands: if it has a body, every coordinate of the dimension must be visited.
    """

    points: tuple[Point, ...]

    @property
    def everywhere(self) -> Stmt | None:
        """The work even where no operand is present."""
        return self.points[-1].body


def build(
    body: Stmt,
    sparse: Sequence[Access],
    followers: Callable[[Access], Sequence[Access]] = lambda access: (),
) -> Lattice:
    """The lattice of a loop whose operands `sparse` may have no entry at a coordinate.

    `followers` are absent together with an operand.
    """
    if len(sparse) > _MOST_OPERANDS:
        raise InternalError(f"{len(sparse)} sparse operands in one loop")
    kept: list[Point] = []
    for size in range(len(sparse) + 1):
        for present in map(frozenset, combinations(sparse, size)):
            absent = [a for a in sparse if a not in present]
            left = restrict(body, [*absent, *(f for a in absent for f in followers(a))])
            below = _maximal([p for p in kept if p.present < present])
            if not below or any(p.body != left for p in below):
                kept.append(Point(present, left))
    return Lattice(tuple(reversed(kept)))


def _maximal(points: list[Point]) -> list[Point]:
    return [p for p in points if not any(p.present < q.present for q in points)]
