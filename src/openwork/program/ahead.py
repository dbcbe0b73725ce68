"""Merges that look ahead: what may come next is read before it is known which operand moves on.

Where two operands stand next depends on which of them is first now. A coordinate that is read
only then is late, and nothing can be done meanwhile. So both that can follow are read at once, and
what is known of the present ones decides which of them to take over:

    ahead = pA_end < A_size && pB_end < B_size;    // beyond the last run there is nothing to read
    if (ahead) { jA = A_crd[pA]; jB = B_crd[pB]; }
    while (pA < pA_end && pB < pB_end) {
      if (ahead == 0) { jA = A_crd[pA]; jB = B_crd[pB]; }
      if (jA == jB) { ...; jA = A_crd[pA + ahead]; jB = B_crd[pB + ahead]; pA++; pB++; }
      else { ...; pA += jA < jB; pB += jB < jA; jA = jA < jB ? A_crd[pA + 1] : jA; ... }
    }

Compilers make two loops of it, one for each value of `ahead`. Coordinates have the width they are
stored in, which saves an instruction for each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from openwork.algebra.operators import SELECT
from openwork.errors import InternalError
from openwork.index.nodes import Access
from openwork.program.context import Context
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
    Value,
    block,
    compare,
    every,
)
from openwork.program.scope import Scope
from openwork.program.walkers import Walker


@dataclass(frozen=True)
class Ahead:
    """Two walkers with their coordinates in registers.

    `tried`: which of them has the case that is tried first. Compilers see that one comparison
    decides everything if all choices are spelled by that one, or else may put a branch there.
    `can`: 1 if what follows their runs, as `fits` says, can be read, else 0. `nexts`: the
    coordinates that follow; `then`: what one of them will be.
    """

    walkers: tuple[Walker, Walker]
    tried: int
    can: Name
    fits: Expr
    nexts: tuple[Name, Name]
    then: Name

    def begin(self) -> list[Stmt]:
        """Before the loop: the first coordinates, which may not be there."""
        first = [Declare(w.coordinate, Value(0)) for w in self.walkers]
        told = Comment("coordinates are read one ahead if something lies beyond both runs")
        return [told, Declare(self.can, self.fits, fixed=True), *first, If(self.can, self._here())]

    def again(self) -> Stmt:
        """At the begin of an iteration: in the last run nothing was read beforehand."""
        return If(compare("==", self.can, Value(0)), self._here())

    def load(self) -> list[Stmt]:
        """What may come next."""
        pairs = zip(self.nexts, self.walkers, strict=True)
        return [Declare(name, self._following(w), fixed=True) for name, w in pairs]

    def both(self) -> list[Stmt]:
        """Both move on, before their positions do."""
        return [Set(w.coordinate, self._following(w)) for w in self.walkers]

    def first(self) -> dict[Access, Expr | None]:
        """Which of the two is first, where they are apart."""
        one, other = self.walkers
        return {
            one.part.access: compare("<", one.coordinate, other.coordinate),
            other.part.access: compare("<", other.coordinate, one.coordinate),
        }

    def step(self) -> list[Stmt]:
        """The first of the two moves on, where they are apart."""
        (one, one_next), (other, other_next) = (
            (self.walkers[n].coordinate, self.nexts[n]) for n in (self.tried, 1 - self.tried)
        )
        less = compare("<", one, other)
        return [
            Declare(self.then, _select(less, one_next, one), fixed=True),
            Set(other, _select(less, other, other_next)),
            Set(one, self.then),
        ]

    def _here(self) -> Stmt:
        return block(*(Set(w.coordinate, Load(_stored(w), w.position)) for w in self.walkers))

    def _following(self, walker: Walker) -> Expr:
        return Load(_stored(walker), walker.position + self.can)


def look_ahead(
    ctx: Context, walkers: list[Walker], tried: int, scope: Scope
) -> tuple[Ahead, Scope]:
    """Let two walkers look ahead, of which that number `tried` has the case that is tried first."""
    can, scope = scope.fresh("ahead", lasting=True)
    (one, other), scope = renamed(walkers, scope, lasting=True)
    fits = every([compare("<", w.end, ctx.positions(w.part.access, w.level)) for w in walkers])
    if fits is None:
        raise InternalError("nobody looks ahead")
    names: list[Name] = []
    for w, what in ((one, "next"), (other, "next"), ((one, other)[tried], "then")):
        name, scope = scope.fresh(f"{w.coordinate.name}_{what}", w.coordinate.type)
        names.append(name)
    return Ahead((one, other), tried, can, fits, (names[0], names[1]), names[2]), scope


def renamed(
    walkers: list[Walker], scope: Scope, lasting: bool = False
) -> tuple[list[Walker], Scope]:
    """The walkers with names for their coordinates that no loop beside this one has declared.

    `lasting`: they are declared before the loop, in the width of what is stored.
    """
    found: list[Walker] = []
    for w in walkers:
        base = w.coordinate.name
        type = _stored(w).type if lasting else w.coordinate.type
        scope = replace(scope, taken=scope.taken - {base})
        name, scope = scope.fresh(base, type, lasting=lasting)
        found.append(replace(w, coordinate=name))
    return found, scope


def _stored(walker: Walker) -> Array:
    if walker.stored is None:
        raise InternalError(f"the coordinates of {walker.part.access} are not stored")
    return walker.stored


def _select(condition: Expr, yes: Name, no: Name) -> Expr:
    return Apply(SELECT, (condition, yes, no), yes.type)
