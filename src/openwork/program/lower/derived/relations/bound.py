"""Bound: the values of the parent, with a promise that is checked."""

from __future__ import annotations

from openwork.index.nodes import IndexVar
from openwork.loops.nodes import Forall
from openwork.loops.relations import Bound, BoundType
from openwork.program import nodes as p
from openwork.program.contract import BROKEN_BOUND
from openwork.program.lower.base.ranges import Range
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.derived.recovery import ZERO, Found
from openwork.program.lower.derived.relations.precompute import SameLoops, SameValues
from openwork.program.nodes import Expr, Fail, If, Value, block, compare
from openwork.tree import replace


class BoundValues(SameValues[Bound]):
    """The promised bounds of a variable."""

    def values(self, var: IndexVar, scope: Scope) -> Found:
        code, whole, scope = self.recovery.values(self.relation.parent, scope)
        if whole.missing:
            return code, whole, scope
        holds, bounded = self._promised(whole)
        return [*code, If(holds, block(), block(Fail(BROKEN_BOUND)))], bounded, scope

    def most(self, var: IndexVar) -> Expr:
        if self.relation.kind is BoundType.MaxExact:
            return Value(self.relation.value)
        return super().most(var)

    def _promised(self, whole: Range) -> tuple[Expr, Range]:
        """The condition to check, and `whole` under it; positions count from their run."""
        bound, value = self.relation, Value(self.relation.value)
        lo, hi = (ZERO, whole.size) if whole.pos else (whole.lo, whole.hi)
        match bound.kind:
            case BoundType.MaxExact:
                first = 0 if whole.pos else _constant(whole.lo)
                fixed = None if first is None else max(0, bound.value - first)
                end = whole.lo + value if whole.pos else value
                new = whole.part(whole.lo, end, fixed)
                return compare("==", hi, value), new
            case BoundType.MaxConstraint:
                return compare("<=", hi, value), whole
            case BoundType.MinExact:
                new = whole if whole.pos else replace(whole, lo=value)
                return compare("==", lo, value), new
            case BoundType.MinConstraint:
                return compare("<=", value, lo), whole
            case BoundType.Divisible:
                count = replace(whole.count, multiple=bound.value)
                return compare("==", whole.size % value, ZERO), replace(whole, count=count)


class BoundLoops(SameLoops[Bound]):
    """A loop over a bounded variable, from its promised begin to its promised end."""

    def iterate(self, loop: Forall, var: IndexVar, window: Range | None, scope: Scope) -> p.Block:
        code, whole, scope = self.recovery.values(var, scope)
        inner = self.iteration.iterate(loop, self.relation.parent, window or whole, scope)
        return block(*code, inner)


def _constant(value: Expr) -> int | None:
    return int(value.value.real) if isinstance(value, Value) else None
