"""Divide: a constant number of runs, equal, balanced, or cut at given points."""

from __future__ import annotations

from openwork.index.nodes import Access, IndexVar
from openwork.loops.relations import Divide
from openwork.program.lower.base.ranges import Range, first_values
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.derived.recovery import ZERO, ceiling
from openwork.program.lower.derived.relations.cut import CutValues
from openwork.program.nodes import Expr, Helper, Value, arithmetic


class DivideValues(CutValues[Divide]):
    """A constant number of runs, some of which may be empty."""

    def runs(self, whole: Range) -> Range:
        return first_values(self.relation.parts)

    def longest(self, whole: Range) -> Range:
        return Range(ZERO, self.length(whole) if self.relation.even else whole.size)

    def length(self, whole: Range) -> Expr:
        size = whole.size if whole.count.fixed is None else Value(whole.count.fixed)
        return ceiling(size, self.relation.parts)

    def run_at(self, whole: Range, at: Expr, scope: Scope) -> Range:
        relation = self.relation
        lo: Expr
        hi: Expr
        if relation.points is not None:
            cuts = self.ctx.cuts(relation)
            lo, hi = cuts[at], cuts[at + 1]
        elif relation.balance is not None:
            lo, hi = (self._balanced(relation.balance, whole, n) for n in (at, at + 1))
        else:
            length = self.length(whole)
            begin = whole.lo + at * length
            # The last runs may lie beyond the end.
            lo = arithmetic("min", begin, whole.hi)
            hi = arithmetic("min", begin + length, whole.hi)
        return whole.part(lo, hi)

    def _balanced(self, access: Access, whole: Range, part: Expr) -> Expr:
        """Where a part begins, if the entries below are distributed evenly."""
        var = self.recovery.provenance.underived(self.relation.parent)[-1]
        boundaries = self.ctx.boundaries(access, access.level_vars.index(var) + 1)
        parts = Value(self.relation.parts)
        return Helper("balanced_cut", (boundaries, whole.lo, whole.hi, part, parts))

    def most(self, var: IndexVar) -> Expr:
        if var == self.relation.outer:
            return Value(self.relation.parts)
        whole = self.recovery.most(self.relation.parent)
        return ceiling(whole, self.relation.parts) if self.relation.even else whole
