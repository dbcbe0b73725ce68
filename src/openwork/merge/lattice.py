"""Merge lattices: what a loop has to compute at each combination of operands that are present.

A point says: where exactly these operands have an entry, this is what is left of the loop's body.
Points come from the operators' laws alone. A point that says nothing new is dropped, so that a
product keeps one point, a sum of two keeps three, and `a` where not `b` keeps two.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from openwork.algebra.types import number
from openwork.errors import InternalError
from openwork.index.absence import without
from openwork.index.nodes import Absent, Access, TensorVar
from openwork.loops.nodes import Assign, Forall, Stmt, Where
from openwork.loops.nodes import Sequence as Then
from openwork.tree import walk

_MOST_OPERANDS = 14


@dataclass(frozen=True)
class Point:
    """Where the operands in `present` have entries and the others do not, do `body`."""

    present: frozenset[Access]
    body: Stmt | None  # None: nothing to do


@dataclass(frozen=True)
class Lattice:
    """The points of a loop, the largest first.

    At a coordinate, the first point applies whose operands are all present. The last point has no
    operands: if it has a body, every coordinate of the dimension must be visited.
    """

    points: tuple[Point, ...]

    @property
    def everywhere(self) -> Stmt | None:
        """What there is to do even where no operand is present."""
        return self.points[-1].body


def build(body: Stmt, sparse: Sequence[Access]) -> Lattice:
    """The lattice of a loop whose operands `sparse` may have no entry at a coordinate."""
    if len(sparse) > _MOST_OPERANDS:
        raise InternalError(f"{len(sparse)} sparse operands in one loop")
    kept: list[Point] = []
    for size in range(len(sparse) + 1):
        for present in map(frozenset, combinations(sparse, size)):
            left = restrict(body, [a for a in sparse if a not in present])
            below = _maximal([p for p in kept if p.present < present])
            if not below or any(p.body != left for p in below):
                kept.append(Point(present, left))
    return Lattice(tuple(reversed(kept)))


def _maximal(points: list[Point]) -> list[Point]:
    return [p for p in points if not any(p.present < q.present for q in points)]


def restrict(stmt: Stmt, absent: Collection[Access]) -> Stmt | None:
    """What is left of `stmt` where the accesses in `absent` have no entry; None if nothing."""
    match stmt:
        case Assign(lhs=lhs, rhs=rhs, op=op):
            left = without(rhs, absent)
            if isinstance(left, Absent):
                nothing = lhs.tensor.fill if op is None else op.identity_of(lhs.dtype)
                if number(left.value, lhs.dtype) == number(nothing, lhs.dtype):
                    return None
            return stmt if left is rhs else replace(stmt, rhs=left)
        case Forall(body=body):
            inner = restrict(body, absent)
            return None if inner is None else replace(stmt, body=inner)
        case Where(consumer=consumer, producer=producer, temporary=temporary):
            made = restrict(producer, absent)
            if made is None:
                return restrict(consumer, [*absent, *reads_of(consumer, temporary)])
            used = restrict(consumer, absent)
            return None if used is None else replace(stmt, consumer=used, producer=made)
        case Then(first=first, then=then):
            a, b = restrict(first, absent), restrict(then, absent)
            if a is None or b is None:
                return b if a is None else a
            return Then(a, b)
    raise InternalError(f"no lattice rule for {stmt}")


def reads_of(stmt: Stmt, tensor: TensorVar) -> list[Access]:
    """The different accesses to `tensor` in `stmt`."""
    found = (n for n in walk(stmt) if isinstance(n, Access) and n.tensor == tensor)
    return list(dict.fromkeys(found))
