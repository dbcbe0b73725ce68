"""Precompute: the same values as the parent; bound inherits from it."""

from __future__ import annotations

from typing import TypeVar

from openwork.index.nodes import IndexVar
from openwork.loops.nodes import Forall, Stmt
from openwork.loops.relations import Renaming
from openwork.program import nodes as p
from openwork.program.lower.base.ranges import Range
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.derived.iterate import Loops
from openwork.program.lower.derived.recovery import Ends, Found, Values
from openwork.program.nodes import Expr

N = TypeVar("N", bound=Renaming)


class SameValues(Values[N]):
    """A variable with the same values as its parent."""

    def values(self, var: IndexVar, scope: Scope) -> Found:
        return self.recovery.values(self.relation.parent, scope)

    def value(self, var: IndexVar, scope: Scope) -> Expr | None:
        return self.recovery.value(self.relation.parent, scope)

    def most(self, var: IndexVar) -> Expr:
        return self.recovery.most(self.relation.parent)

    def outermost_window(
        self, var: IndexVar, scope: Scope
    ) -> tuple[list[p.Stmt], Ends | None, Scope]:
        return self.recovery.outermost_window(self.relation.parent, scope)

    def window_above(
        self, var: IndexVar, window: Ends, scope: Scope
    ) -> tuple[list[p.Stmt], Ends, Scope]:
        return self.recovery.window_above(self.relation.parent, window, scope)

    def position_window(
        self, var: IndexVar, scope: Scope
    ) -> tuple[list[p.Stmt], Range | None, Scope]:
        return self.recovery.position_window(self.relation.parent, scope)


class SameLoops(Loops[N]):
    """A loop over a variable with the same values as its parent is a loop over the parent."""

    def iterate(self, loop: Forall, var: IndexVar, window: Range | None, scope: Scope) -> p.Block:
        return self.iteration.iterate(loop, self.relation.parent, window, scope)

    def known_value(self, body: Stmt, var: IndexVar, value: p.Name, scope: Scope) -> p.Block:
        return self.iteration.known_value(body, self.relation.parent, value, scope)
