"""Recovery: the values of index variables from those that are known.

One function per question, one case per relation: what a variable runs over (`values`, in
`ranges.py`), the value of a derived variable from those it derives from (`value`), the value of a
parent from its children (`original`). Positions are absolute: they index the arrays of their level.
"""

from __future__ import annotations

from dataclasses import dataclass

from openwork.errors import InternalError, ScheduleError
from openwork.index.nodes import Access, IndexVar
from openwork.loops.relations import (
    Bound,
    BoundType,
    Coord,
    Divide,
    Fuse,
    Pos,
    Split,
)
from openwork.program.lower.base.scope import Range, Scope
from openwork.program.lower.derived.ranges import Ranges, ceiling
from openwork.program.nodes import (
    Expr,
    Name,
    Value,
    arithmetic,
    compare,
)


@dataclass(frozen=True)
class Recovery(Ranges):
    """Values of the variables of one kernel from those that are known."""

    def value(self, var: IndexVar, scope: Scope) -> Expr | None:
        """The value of `var`, if it follows from what is known here."""
        if var in scope.coords:
            return scope.coords[var]
        relation = self.provenance.above.get(var)
        match relation:
            case None:
                return None
            case Fuse(outer=outer, inner=inner):
                a, b = self.value(outer, scope), self.value(inner, scope)
                if a is None or b is None:
                    return None
                first, second = self._known(outer, scope), self._known(inner, scope)
                return (a - first.lo) * second.size + (b - second.lo)
            case Pos(access=access, parent=parent):
                last = self.provenance.underived(parent)[-1]
                level = access.level_vars.index(last)
                reached = self.ctx.reach_further(scope, access).reached(access)
                if level >= len(reached):
                    return None
                kind, at = access.tensor.format.levels[level], self.value(last, scope)
                if kind.strided and kind.locates and at is not None:
                    above = self.ctx.parent_place(access, level, scope).position
                    begin: Expr = kind.begin(self.ctx.view(access, level), above)
                    return begin + at
                self._check_places(access, level)
                return reached[level].position
            case Coord(parent=parent):
                pos = self.space(parent)
                fuse = self.fused(pos)
                underived = self.provenance.underived(pos.parent)[-1]
                return self.value(underived if fuse is None else fuse.fused, scope)
        value = self.value(relation.parents[0], scope)
        if value is None or not isinstance(relation, (Split, Divide)):
            return value
        return self._place_in_run(relation, var, value, scope)

    def _check_places(self, access: Access, level: int) -> None:
        """That the place of an entry is its position, where only the place is known."""
        kind, probe = access.tensor.format.levels[level], Name("probe")
        if kind.place(self.ctx.view(access, level), Value(0), probe) != probe:
            raise ScheduleError(
                f"entries of {access} do not lie at their positions, so that what is kept for each "
                "position is not found again",
                code="E308",
                hint="leave out the workspace over positions, or store it in another format",
            )

    def _place_in_run(
        self, relation: Split | Divide, var: IndexVar, value: Expr, scope: Scope
    ) -> Expr | None:
        """Which run `value` is in, or where in its run."""
        whole = self._known(relation.parent, scope)
        even = isinstance(relation, Split) or (relation.balance is None and relation.points is None)
        if var == relation.inner and relation.outer in scope.coords:
            return value - self.run(relation, whole, scope).lo
        if not even:
            return None
        sign = "/" if var == relation.outer else "%"
        return arithmetic(sign, value - whole.lo, self.length(relation, whole))

    def _known(self, var: IndexVar, scope: Scope) -> Range:
        if var in scope.ranges:
            return scope.ranges[var]
        _, found, _ = self._values(var, scope)
        return found

    def original(self, relation: Split | Divide, scope: Scope) -> tuple[Expr, Expr]:
        """The value of a split variable from those of its parts, and whether it exists."""
        whole = self._known(relation.parent, scope)
        at, inner = scope.coords[relation.outer], scope.coords[relation.inner]
        uneven = isinstance(relation, Divide) and (
            relation.balance is not None or relation.points is not None
        )
        if uneven:
            run = self.run(relation, whole, scope)
            return run.lo + inner, compare("<", run.lo + inner, run.hi)
        value = whole.lo + at * self.length(relation, whole) + inner
        return value, compare("<", value, whole.hi)

    def complete(self, relation: Split, scope: Scope) -> bool:
        """Whether runs of a split are complete here, so that each place in one has a value."""
        if relation.inner in scope.full:
            return True
        return self._known(relation.parent, scope).multiple % relation.factor == 0

    def most(self, var: IndexVar) -> Expr:
        """How many values `var` can have at most, from what is known before any loop."""
        relation = self.provenance.above.get(var)
        match relation:
            case None:
                return self.ctx.names.extent(var)
            case Pos(access=access, parent=parent):
                last = self.provenance.underived(parent)[-1]
                return self.ctx.positions(access, access.level_vars.index(last))
            case Fuse(outer=outer, inner=inner):
                return self.most(outer) * self.most(inner)
            case Coord(parent=parent):
                pos = self.space(parent)
                fuse = self.fused(pos)
                underived = self.provenance.underived(pos.parent)[-1]
                return self.most(underived if fuse is None else fuse.fused)
            case Bound(value=value, kind=BoundType.MaxExact):
                return Value(value)
            case Split(inner=inner, factor=factor) if inner == var:
                return Value(factor)
            case Divide(outer=outer, parts=parts) if outer == var:
                return Value(parts)
        if relation is None:
            raise InternalError(f"{var} has no relation")
        whole = self.most(relation.parents[0])
        match relation:
            case Split(factor=factor):
                return _ceil(whole, factor)
            case Divide(parts=parts, balance=None, points=None):
                return _ceil(whole, parts)
        return whole


def _ceil(size: Expr, n: int) -> Expr:
    if isinstance(size, Value):
        return Value(-(-int(size.value.real) // n))
    return ceiling(size, n)
