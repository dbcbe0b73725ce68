"""Coord: the coordinates of positions."""

from __future__ import annotations

from openwork.index.nodes import IndexVar
from openwork.loops.nodes import Forall, Stmt
from openwork.loops.relations import Coord
from openwork.program import nodes as p
from openwork.program.lower.base.ranges import Range
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.derived.iterate import Loops
from openwork.program.lower.derived.recovery import Ends, Found, Values
from openwork.program.lower.derived.windows import coordinate_window, dimension
from openwork.program.nodes import Expr


class CoordValues(Values[Coord]):
    """Coordinates in place of positions."""

    def values(self, var: IndexVar, scope: Scope) -> Found:
        """The coordinates of positions.

        They reach from the first position's up to that of the position after the last; at either
        end they extend to the end of the dimension, so that all runs together cover it.
        """
        code, window, scope = self.recovery.position_window(self.relation.parent, scope)
        pos = self.recovery.provenance.position_space(self.relation.parent)
        more, whole, scope = dimension(self.recovery, pos, scope)
        code += more
        if window is None or window.missing:
            return code, whole, scope
        more, found, scope = coordinate_window(self.recovery, window, scope)
        return [*code, *more], found, scope

    def value(self, var: IndexVar, scope: Scope) -> Expr | None:
        return self.recovery.value(self._origin, scope)

    def most(self, var: IndexVar) -> Expr:
        return self.recovery.most(self._origin)

    def outermost_window(
        self, var: IndexVar, scope: Scope
    ) -> tuple[list[p.Stmt], Ends | None, Scope]:
        code, window, scope = self.recovery.values(var, scope)
        return code, (window.lo, window.hi), scope

    def window_above(
        self, var: IndexVar, window: Ends, scope: Scope
    ) -> tuple[list[p.Stmt], Ends, Scope]:
        return [], window, scope

    @property
    def _origin(self) -> IndexVar:
        provenance = self.recovery.provenance
        return provenance.origin(provenance.position_space(self.relation.parent))


class CoordLoops(Loops[Coord]):
    """Loops over the coordinates of positions."""

    def iterate(self, loop: Forall, var: IndexVar, window: Range | None, scope: Scope) -> p.Block:
        """A loop over all coordinates of a range of positions is a loop over the positions."""
        over = self.relation.parent if window is None else self._origin
        return self.iteration.iterate(loop, over, window, scope)

    def known_value(self, body: Stmt, var: IndexVar, value: p.Name, scope: Scope) -> p.Block:
        return self.iteration.known_value(body, self._origin, value, scope)

    @property
    def _origin(self) -> IndexVar:
        provenance = self.ctx.provenance
        return provenance.origin(provenance.position_space(self.relation.parent))
