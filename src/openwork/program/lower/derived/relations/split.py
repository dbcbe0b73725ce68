"""Split: runs of a constant length."""

from __future__ import annotations

from openwork.index.nodes import IndexVar
from openwork.loops.relations import Split
from openwork.program.lower.base.ranges import Count, Range, first_values
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.derived.recovery import ZERO, ceiling
from openwork.program.lower.derived.relations.cut import CutValues
from openwork.program.nodes import Expr, Value, arithmetic

# For longer runs, strided loops count only the places that occur.
_MOST_STRIDES = 1024


class SplitValues(CutValues[Split]):
    """Runs of a constant length; the last may be shorter."""

    def runs(self, whole: Range) -> Range:
        n = self.relation.factor
        fixed = None if whole.count.fixed is None else -(-whole.count.fixed // n)
        hi = ceiling(whole.size, n) if fixed is None else Value(fixed)
        if not self.decides(whole):
            # If there is work without an entry, one run covers it even where there are no entries.
            fixed = None if fixed is None else max(1, fixed)
            hi = arithmetic("max", hi, Value(1)) if fixed is None else Value(fixed)
        multiple = whole.count.multiple // n if whole.count.multiple % n == 0 else 1
        return Range(ZERO, hi, Count(fixed, fixed or multiple))

    def longest(self, whole: Range) -> Range:
        n = self.relation.factor
        if n > _MOST_STRIDES:
            return Range(ZERO, arithmetic("min", Value(n), whole.size))
        return first_values(n)

    def length(self, whole: Range) -> Expr:
        return Value(self.relation.factor)

    def run_at(self, whole: Range, at: Expr, scope: Scope) -> Range:
        n, length = self.relation.factor, self.length(whole)
        lo = whole.lo + at * length
        # The single run of an operand without entries is incomplete.
        sure = whole.count.multiple % n == 0 and self.decides(whole)
        if sure or self.relation.inner in scope.bounds.full:
            return whole.part(lo, lo + length, n)
        return whole.part(lo, arithmetic("min", lo + length, whole.hi))

    def most(self, var: IndexVar) -> Expr:
        if var == self.relation.inner:
            return Value(self.relation.factor)
        return ceiling(self.recovery.most(self.relation.parent), self.relation.factor)
