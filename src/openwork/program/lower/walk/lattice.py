"""Merge lattices: what a loop computes for each combination of operands that are present.

A point says: where exactly these operands have an entry, this is what remains of the loop's body.
Points follow from the operators' laws alone. Redundant points are dropped: a product keeps one
point, a sum of two keeps three, and `a` where not `b` keeps two. A sum of n keeps 2^n - 1; beyond
a few, a loop has no lattice, and its code asks for each operand whether it is present
(`presence.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations

from openwork.frozen import frozen
from openwork.index.nodes import Access
from openwork.loops.absent import restrict
from openwork.loops.nodes import Stmt

# Cases of one loop, and operands of which any number may be absent: more are not told apart.
_MOST_POINTS, _MOST_OPTIONAL = 8, 6


@frozen
class Point:
    """Where the operands in `present` have entries and the others do not, execute `body`."""

    present: frozenset[Access]
    body: Stmt | None  # None: no work


@frozen
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
) -> Lattice | None:
    """The lattice of a loop whose operands `sparse` may have no entry at a coordinate.

    `followers` are absent together with an operand. None: there are too many cases.
    """

    together = {access: (access, *followers(access)) for access in sparse}

    def left(absent: Iterable[Access]) -> Stmt | None:
        return restrict(body, frozenset(f for a in absent for f in together[a]))

    nothing = Point(frozenset(), left(sparse))
    required: list[Access] = []
    optional: list[Access] = []
    for access in sparse:
        alone = nothing.body is None and left([access]) is None
        (required if alone else optional).append(access)
        if len(optional) > _MOST_OPTIONAL:
            return None
    kept = [nothing]
    for size in range(len(optional) + 1):
        for some in combinations(optional, size):
            present = frozenset((*required, *some))
            rest = left(a for a in optional if a not in some)
            below = _maximal([p for p in kept if p.present < present])
            if below and any(p.body != rest for p in below):
                kept.append(Point(present, rest))
    return Lattice(tuple(reversed(kept))) if len(kept) <= _MOST_POINTS else None


def _maximal(points: list[Point]) -> list[Point]:
    return [p for p in points if not any(p.present < q.present for q in points)]
