"""Merges that look ahead: load the next coordinates before knowing which operand advances.

Which operand advances depends on the current coordinates. Loading the next coordinate only then
puts its latency on the critical path. So both candidates are loaded early, and a comparison of the
current coordinates selects between them:

    if (pA_end < A_size && pB_end < B_size) {    // beyond the last segment there is nothing to read
      jA = A_crd[pA]; jB = B_crd[pB];
      while (pA < pA_end && pB < pB_end) {
        if (jA == jB) { ...; jA = A_crd[pA + 1]; jB = B_crd[pB + 1]; pA++; pB++; }
        else { ...; pA += jA < jB; pB += jB < jA; jA = jA < jB ? A_crd[pA + 1] : jA; ... }
      }
    } else while (pA < pA_end && pB < pB_end) { jA = A_crd[pA]; ... }

Coordinates keep the width they are stored in, which saves a conversion for each.
"""

from __future__ import annotations

from openwork.algebra.operators import SELECT
from openwork.errors import InternalError
from openwork.frozen import frozen
from openwork.index.nodes import Access
from openwork.program.lower.base.context import Context
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.walk.walkers import Walker
from openwork.program.nodes import (
    Apply,
    Array,
    Comment,
    Declare,
    Expr,
    If,
    Load,
    Name,
    Set,
    Stmt,
    block,
    compare,
    every,
)
from openwork.tree import replace


@frozen
class Ahead:
    """Two walkers with their coordinates in registers.

    `tried`: the walker whose case is tried first. If all selections use that one comparison, the
    compiler sees that it decides everything; otherwise it may insert a branch. `fits`: whether it
    is safe to load past the ends of their segments. `nexts`: the coordinates that follow; `then`:
    the next coordinate of the walker that is tried first.
    """

    walkers: tuple[Walker, Walker]
    tried: int
    fits: Expr
    nexts: tuple[Name, Name]
    then: Name

    def around(self, loop: Stmt, plain: Stmt) -> Stmt:
        """The loop after loading the first coordinates, and `plain` where it must not run."""
        told = Comment("coordinates are read one ahead, as something lies beyond both runs")
        first = [Declare(w.coordinate, Load(_stored(w), w.position)) for w in self.walkers]
        return If(self.fits, block(told, *first, loop), block(plain))

    def load(self) -> list[Stmt]:
        """Load both candidates for the next coordinates."""
        pairs = zip(self.nexts, self.walkers, strict=True)
        return [Declare(name, self._following(w), fixed=True) for name, w in pairs]

    def both(self) -> list[Stmt]:
        """Advance both coordinates, before their positions advance."""
        return [Set(w.coordinate, self._following(w)) for w in self.walkers]

    def first(self) -> dict[Access, Expr | None]:
        """Which of the two comes first, where they differ."""
        one, other = self.walkers
        return {
            one.part.access: compare("<", one.coordinate, other.coordinate),
            other.part.access: compare("<", other.coordinate, one.coordinate),
        }

    def step(self) -> list[Stmt]:
        """Advance the coordinate that comes first, where they differ."""
        (one, one_next), (other, other_next) = (
            (self.walkers[n].coordinate, self.nexts[n]) for n in (self.tried, 1 - self.tried)
        )
        less = compare("<", one, other)
        return [
            Declare(self.then, _select(less, one_next, one), fixed=True),
            Set(other, _select(less, other, other_next)),
            Set(one, self.then),
        ]

    def _following(self, walker: Walker) -> Expr:
        return Load(_stored(walker), walker.position + 1)


def look_ahead(
    ctx: Context, walkers: list[Walker], tried: int, scope: Scope
) -> tuple[Ahead, Scope]:
    """Let two walkers look ahead; the case of number `tried` is tried first."""
    (one, other), scope = renamed(walkers, scope, stored=True)
    fits = every([compare("<", w.end, ctx.positions(w.part.access, w.level)) for w in walkers])
    if fits is None:
        raise InternalError("nobody looks ahead")
    names: list[Name] = []
    for w, what in ((one, "next"), (other, "next"), ((one, other)[tried], "then")):
        name, scope = scope.fresh(f"{w.coordinate.name}_{what}", w.coordinate.type)
        names.append(name)
    return Ahead((one, other), tried, fits, (names[0], names[1]), names[2]), scope


def renamed(
    walkers: list[Walker], scope: Scope, stored: bool = False
) -> tuple[list[Walker], Scope]:
    """The walkers with names for their coordinates that no sibling loop has declared.

    `stored`: the names have the type of the stored coordinates.
    """
    found: list[Walker] = []
    for w in walkers:
        base = w.coordinate.name
        type = _stored(w).type if stored else w.coordinate.type
        name, scope = scope.without_name(base).fresh(base, type)
        found.append(replace(w, coordinate=name))
    return found, scope


def _stored(walker: Walker) -> Array:
    if walker.stored is None:
        raise InternalError(f"the coordinates of {walker.part.access} are not stored")
    return walker.stored


def _select(condition: Expr, yes: Name, no: Name) -> Expr:
    return Apply(SELECT, (condition, yes, no), yes.type)
