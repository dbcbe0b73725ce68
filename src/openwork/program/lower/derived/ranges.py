"""What index variables run over: bounds, from those of the variables they derive from."""

from __future__ import annotations

from dataclasses import dataclass, replace

from openwork.errors import InternalError
from openwork.index.nodes import IndexVar
from openwork.loops.relations import (
    Bound,
    BoundType,
    Coord,
    Divide,
    Fuse,
    Pos,
    Precompute,
    Split,
)
from openwork.program.contract import BROKEN_BOUND
from openwork.program.lower.base.scope import Range, Scope
from openwork.program.lower.derived.windows import ZERO, Found, Windows, both
from openwork.program.nodes import (
    Declare,
    Expr,
    Fail,
    Helper,
    If,
    Name,
    Stmt,
    Value,
    arithmetic,
    block,
    compare,
)

# Runs of more values are counted only as far as there are any.
_MOST_STRIDES = 1024


def ceiling(size: Expr, factor: int) -> Expr:
    """size / factor, rounded up."""
    return (size + (factor - 1)) / factor


@dataclass(frozen=True)
class Ranges(Windows):
    """What the variables of one kernel run over."""

    def values(self, var: IndexVar, scope: Scope) -> Found:
        """What `var` runs over at this place: code to work it out, the range, and who knows it."""
        if var in scope.ranges:
            return [], scope.ranges[var], scope
        code, found, scope = self._values(var, scope)
        more, found, scope = self._named(var, found, scope)
        return [*code, *more], found, scope.remember(var, found)

    def _named(self, var: IndexVar, found: Range, scope: Scope) -> Found:
        """Give bounds that take some computing a name."""
        code: list[Stmt] = []
        ends: list[Expr] = []
        for end, side in ((found.lo, "begin"), (found.hi, "end")):
            if isinstance(end, (Name, Value)):
                ends.append(end)
                continue
            name, scope = scope.fresh(f"{self.ctx.names.variables[var]}_{side}", lasting=True)
            code.append(Declare(name, end, fixed=True))
            ends.append(name)
        return code, replace(found, lo=ends[0], hi=ends[1]), scope

    def _values(self, var: IndexVar, scope: Scope) -> Found:
        relation = self.provenance.above.get(var)
        match relation:
            case None:
                return [], self.ctx.everything(var, scope), scope
            case Pos():
                return self.positions(relation, scope)
            case Coord():
                return self._coordinates(relation, scope)
            case Fuse(outer=outer, inner=inner):
                code, a, scope = self.values(outer, scope)
                more, b, scope = self.values(inner, scope)
                fixed = None if a.fixed is None or b.fixed is None else a.fixed * b.fixed
                size = a.size * b.size if fixed is None else Value(fixed)
                multiple = a.multiple * b.multiple
                pairs = Range(ZERO, size, fixed=fixed, multiple=multiple)
                return [*code, *more], pairs, scope
        if relation is None:
            raise InternalError(f"{var} has no relation")
        code, whole, scope = self.values(relation.parents[0], scope)
        match relation:
            case Precompute():
                return code, whole, scope
            case Bound():
                checks, bounded = self._bounded(relation, whole)
                return [*code, *checks], bounded, scope
            case Split() | Divide() if relation.outer == var:
                return code, self._runs(relation, whole), scope
            case Split() | Divide():
                return code, self._within(relation, whole, scope), scope
        raise InternalError(f"no values of {var}")

    def _runs(self, relation: Split | Divide, whole: Range) -> Range:
        """How many runs there are."""
        if whole.missing:
            return Range(ZERO, Value(1), fixed=1)
        if isinstance(relation, Divide):
            return Range(ZERO, Value(relation.parts), fixed=relation.parts, multiple=relation.parts)
        n = relation.factor
        fixed = None if whole.fixed is None else -(-whole.fixed // n)
        hi = ceiling(whole.size, n) if fixed is None else Value(fixed)
        if not self._decides(whole):
            # Where there is work without an entry, one run covers it even if there are none.
            fixed = None if fixed is None else max(1, fixed)
            hi = arithmetic("max", hi, Value(1)) if fixed is None else Value(fixed)
        multiple = whole.multiple // n if whole.multiple % n == 0 else 1
        return Range(ZERO, hi, fixed=fixed, multiple=fixed or multiple)

    def _decides(self, whole: Range) -> bool:
        """Whether there is work only at the positions themselves, if these are positions."""
        pos = whole.pos or whole.within
        return pos is None or self.ctx.drives(pos.access)

    def _within(self, relation: Split | Divide, whole: Range, scope: Scope) -> Range:
        """The places within a run: this run, if it is known which, else the longest."""
        if whole.missing:
            return Range(ZERO, ZERO, missing=True)
        pos = whole.pos or whole.within
        if relation.outer in scope.coords:
            run = self.run(relation, whole, scope)
            if run.fixed is not None:
                return Range(
                    ZERO, Value(run.fixed), fixed=run.fixed, multiple=run.fixed, within=pos
                )
            return Range(ZERO, run.hi - run.lo, within=pos)
        if isinstance(relation, Split):
            n = relation.factor
            if n > _MOST_STRIDES:
                size = arithmetic("min", Value(n), whole.size)
                return Range(ZERO, size, within=pos, longest=True)
            return Range(ZERO, Value(n), fixed=n, multiple=n, within=pos, longest=True)
        uneven = relation.balance is not None or relation.points is not None
        size = whole.size if uneven else self.length(relation, whole)
        return Range(ZERO, size, within=pos, longest=True)

    def length(self, relation: Split | Divide, whole: Range) -> Expr:
        """The length of all runs but the last, where they are equal."""
        if isinstance(relation, Split):
            return Value(relation.factor)
        if whole.fixed is not None:
            return Value(-(-whole.fixed // relation.parts))
        return ceiling(whole.size, relation.parts)

    def run(self, relation: Split | Divide, whole: Range, scope: Scope) -> Range:
        """The values of the parent in the run whose number is known."""
        if relation.inner in scope.runs:
            return scope.runs[relation.inner]
        at = scope.coords[relation.outer]
        most = relation.factor if isinstance(relation, Split) else None
        run = replace(self._run(relation, whole, at, scope), everything=False, most=most)
        if relation.outer not in scope.ranges:
            return run
        last = scope.ranges[relation.outer].hi - 1
        return replace(
            run,
            first=both(whole.first, compare("==", at, ZERO)),
            last=both(whole.last, compare("==", at, last)),
        )

    def _run(self, relation: Split | Divide, whole: Range, at: Expr, scope: Scope) -> Range:
        if isinstance(relation, Divide) and relation.points is not None:
            cuts = self.ctx.cuts(relation)
            return replace(whole, lo=cuts[at], hi=cuts[at + 1], fixed=None, multiple=1)
        if isinstance(relation, Divide) and relation.balance is not None:
            return self._balanced(relation, whole, at)
        length = self.length(relation, whole)
        lo = whole.lo + at * length
        # The one run of an operand without entries is not complete.
        sure = self._decides(whole)
        if relation.inner in scope.full or (
            isinstance(relation, Split) and whole.multiple % relation.factor == 0 and sure
        ):
            assert isinstance(length, Value)  # noqa: S101 - only runs of a constant length are full
            n = int(length.value.real)
            return replace(whole, lo=lo, hi=lo + length, fixed=n, multiple=n)
        hi = arithmetic("min", lo + length, whole.hi)
        if isinstance(relation, Divide):  # runs at the end may lie beyond it
            lo = arithmetic("min", lo, whole.hi)
        return replace(whole, lo=lo, hi=hi, fixed=None, multiple=1)

    def _balanced(self, relation: Divide, whole: Range, at: Expr) -> Range:
        """The run from cut to cut, where the entries below are shared out evenly."""
        access = relation.balance
        if access is None:
            raise InternalError(f"{relation} is not balanced")
        var = self.provenance.underived(relation.parent)[-1]
        level = access.level_vars.index(var)
        pos = self.ctx.boundaries(access, level + 1)

        def cut(part: Expr) -> Expr:
            return Helper("balanced_cut", (pos, whole.lo, whole.hi, part, Value(relation.parts)))

        return replace(whole, lo=cut(at), hi=cut(at + 1), fixed=None, multiple=1)

    def _bounded(self, bound: Bound, whole: Range) -> tuple[list[Stmt], Range]:
        """`whole` with what `bound` promises, which is checked; positions count from their run."""
        value, size = Value(bound.value), whole.size
        lo, hi = (ZERO, size) if whole.pos else (whole.lo, whole.hi)
        holds: Expr
        match bound.kind:
            case BoundType.MaxExact:
                holds = compare("==", hi, value)
                first = 0 if whole.pos else _constant(whole.lo)
                fixed = None if first is None else max(0, bound.value - first)
                end = whole.lo + value if whole.pos else value
                new = replace(whole, hi=end, fixed=fixed, multiple=fixed or 1)
            case BoundType.MaxConstraint:
                holds, new = compare("<=", hi, value), whole
            case BoundType.MinExact:
                holds = compare("==", lo, value)
                new = whole if whole.pos else replace(whole, lo=value)
            case BoundType.MinConstraint:
                holds, new = compare("<=", value, lo), whole
            case BoundType.Divisible:
                holds = compare("==", size % value, ZERO)
                new = replace(whole, multiple=bound.value)
        if whole.missing:
            return [], whole
        return [If(holds, block(), block(Fail(BROKEN_BOUND)))], new


def _constant(value: Expr) -> int | None:
    return int(value.value.real) if isinstance(value, Value) else None
