"""Pos: positions of a level in place of coordinates."""

from __future__ import annotations

from openwork.errors import ScheduleError
from openwork.index.nodes import Access, IndexVar
from openwork.loops.nodes import Forall, Stmt
from openwork.loops.relations import Pos
from openwork.program import nodes as p
from openwork.program.lower.base.ranges import Range
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.derived.driver import driver_of
from openwork.program.lower.derived.iterate import Loops
from openwork.program.lower.derived.recovery import Found, Values
from openwork.program.lower.derived.tracked import Tracked
from openwork.program.lower.derived.windows import positions
from openwork.program.nodes import Expr, Name, Value, block
from openwork.tree import walk


class PosValues(Values[Pos]):
    """The positions of a level."""

    def values(self, var: IndexVar, scope: Scope) -> Found:
        return positions(self.recovery, self.relation, scope)

    def value(self, var: IndexVar, scope: Scope) -> Expr | None:
        access, level = self.relation.access, self._level
        kind = access.tensor.format.levels[level]
        reached = self.ctx.reach_further(scope, access).reached(access)
        # Entries that are looked up need not be there, but each coordinate has its position.
        spans = kind.spans and level == len(reached)
        if level >= len(reached) and not spans:
            return None
        at = self.recovery.value(access.level_vars[level], scope)
        if at is None and spans:
            return None
        if at is not None and (spans or (kind.strided and kind.locates)):
            above = self.ctx.parent_place(access, level, scope).position
            begin: Expr = kind.begin(self.ctx.view(access, level), above)
            return begin + at
        if len(self.recovery.provenance.underived(self.relation.parent)) == 1:
            self._check_places(access, level)
        return reached[level].position

    def most(self, var: IndexVar) -> Expr:
        return self.ctx.positions(self.relation.access, self._level)

    def position_window(
        self, var: IndexVar, scope: Scope
    ) -> tuple[list[p.Stmt], Range | None, Scope]:
        return [], None, scope

    @property
    def _level(self) -> int:
        """The level whose positions are counted."""
        last = self.recovery.provenance.underived(self.relation.parent)[-1]
        return self.relation.access.level_vars.index(last)

    def _check_places(self, access: Access, level: int) -> None:
        """Check that an entry's place is its position, where only the place is known."""
        kind, probe = access.tensor.format.levels[level], Name("probe")
        if kind.place(self.ctx.view(access, level), Value(0), probe) != probe:
            raise ScheduleError(
                f"{access} does not store entries at their positions, so a workspace over "
                "positions cannot be indexed by them",
                code="E308",
                hint="leave out the workspace over positions, or use another format",
            )


class PosLoops(Loops[Pos]):
    """Loops along positions."""

    def iterate(self, loop: Forall, var: IndexVar, window: Range | None, scope: Scope) -> p.Block:
        """A loop over some positions; all of them are a loop over all coordinates."""
        piece = scope.bounds.windows.get(self.relation.parent)  # of a result made in pieces
        if window is None and self._covers(loop, var):
            return self.iteration.iterate(loop, self.relation.parent, piece, scope)
        code, whole, scope = self.recovery.values(var, scope)
        origin, part = self.ctx.provenance.origin(self.relation), window or whole
        driven = not whole.missing and driver_of(self.ctx, loop.body, origin, part, scope)
        if whole.missing or (window is None and not driven and not self._counted(loop)):
            inner = self.iteration.iterate(loop, self.relation.parent, piece, scope)
        else:
            inner = self.iteration.iterate(loop, origin, part, scope)
        return block(*code, inner)

    def _covers(self, loop: Forall, var: IndexVar) -> bool:
        """Whether a loop over all positions of one level may go over the coordinates instead.

        Not where something else is indexed by positions, or where the operand was read before.
        """
        alone = len(self.ctx.provenance.underived(var)) == 1
        return alone and self.relation.access in set(walk(loop.body)) and not self._counted(loop)

    def _counted(self, loop: Forall) -> bool:
        """Whether something, a workspace, is indexed by positions."""
        reads = (node for node in walk(loop.body) if isinstance(node, Access))
        space = self.ctx.provenance.space
        return any(space(v) is not None for access in reads for v in access.vars)

    def known_value(self, body: Stmt, var: IndexVar, value: p.Name, scope: Scope) -> p.Block:
        return Tracked(self.recovery, self.iteration.lower).at(self.relation, body, value, scope)
