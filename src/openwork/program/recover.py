"""Recovery: the values and bounds of index variables from those that are known.

One function per question, one case per relation: what a variable runs over (`values`), the value of a
derived variable from those it derives from (`value`), the value of a parent from its children
(`original`). Positions are absolute: they index the arrays of their level.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from openwork.errors import InternalError
from openwork.index.nodes import Access, IndexVar
from openwork.loops.provenance import Provenance
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
from openwork.program.context import Context
from openwork.program.nodes import (
    BROKEN_BOUND,
    Binary,
    Declare,
    Expr,
    Fail,
    Helper,
    If,
    Name,
    Set,
    Stmt,
    Value,
    arithmetic,
    block,
    compare,
)
from openwork.program.positions import positions_below, search_run
from openwork.program.scope import Range, Scope

Found = tuple[list[Stmt], Range, Scope]
ZERO = Value(0)


def ceiling(size: Expr, factor: int) -> Expr:
    """size / factor, rounded up."""
    return (size + (factor - 1)) / factor


@dataclass(frozen=True)
class Recovery:
    """Questions about the variables of one kernel."""

    ctx: Context

    @property
    def provenance(self) -> Provenance:
        """What each variable derives from."""
        return self.ctx.provenance

    # -- what a variable runs over --------------------------------------------------------------

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
                whole = Range(ZERO, self.ctx.names.extent(var), everything=True)
                return [], whole, scope
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
        if whole.pos is not None and not self.ctx.drives(whole.pos.access):
            # Where there is work without an entry, one run covers it even if there are none.
            fixed = None if fixed is None else max(1, fixed)
            hi = arithmetic("max", hi, Value(1)) if fixed is None else Value(fixed)
        multiple = whole.multiple // n if whole.multiple % n == 0 else 1
        return Range(ZERO, hi, fixed=fixed, multiple=fixed or multiple)

    def _within(self, relation: Split | Divide, whole: Range, scope: Scope) -> Range:
        """The places within a run: this run, if it is known which, else the longest."""
        if whole.missing:
            return Range(ZERO, ZERO, missing=True)
        if relation.outer in scope.coords:
            run = self.run(relation, whole, scope)
            if run.fixed is not None:
                return Range(ZERO, Value(run.fixed), fixed=run.fixed, multiple=run.fixed)
            return Range(ZERO, run.hi - run.lo)
        if isinstance(relation, Split):
            n = relation.factor
            return Range(ZERO, Value(n), fixed=n, multiple=n)
        uneven = relation.balance is not None or relation.points is not None
        return Range(ZERO, whole.size if uneven else self.length(relation, whole))

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
            first=_both(whole.first, compare("==", at, ZERO)),
            last=_both(whole.last, compare("==", at, last)),
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
        sure = whole.pos is None or self.ctx.drives(whole.pos.access)
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

    # -- positions and coordinates --------------------------------------------------------------

    def positions(self, relation: Pos, scope: Scope) -> Found:
        """The positions of a level that lie below what is reached and within the parent's range."""
        access = relation.access
        variables = self.provenance.underived(relation.parent)
        first = access.level_vars.index(variables[0])
        reached = scope.reached(access)
        if len(reached) < first:
            return [], Range(ZERO, ZERO, pos=relation, missing=True), scope
        code, window, scope = self.outermost_window(relation.parent, scope)
        begin, end = positions_below(self.ctx, access, first, scope)
        if window is not None:
            begin, end = search_run(self.ctx, access, first, (begin, end), window, scope)
        levels = []
        for level in range(first, first + len(variables)):
            if level > first:
                kind, view = access.tensor.format.levels[level], self.ctx.view(access, level)
                begin, end = kind.begin(view, begin), kind.end(view, end - 1)
            bounds: list[Expr] = []
            for bound, side in ((begin, "begin"), (end, "end")):
                if isinstance(bound, (Name, Value)):
                    bounds.append(bound)
                    continue
                base = f"p{self.ctx.names.of(access.tensor)}{level + 1}_{side}"
                name, scope = scope.fresh(base, lasting=True)
                code.append(Declare(name, bound, fixed=True))
                bounds.append(name)
            begin, end = bounds
            levels.append((begin, end))
        return code, Range(begin, end, pos=relation, levels=tuple(levels)), scope

    def outermost_window(
        self, var: IndexVar, scope: Scope
    ) -> tuple[list[Stmt], tuple[Expr, Expr] | None, Scope]:
        """The coordinates that the outermost underived variable of `var` is confined to."""
        match self.provenance.above.get(var):
            case None:
                return [], None, scope
            case Fuse(outer=outer):
                return self.outermost_window(outer, scope)
            case Precompute(parent=parent) | Bound(parent=parent):
                return self.outermost_window(parent, scope)
            case (Split() | Divide()) as relation if relation.inner == var:
                code, whole, scope = self.values(relation.parent, scope)
                if relation.outer not in scope.coords or whole.pos is not None:
                    raise InternalError(f"the window of {var} is not known")
                run = self.run(relation, whole, scope)
                more, up, scope = self._window_above(relation.parent, run, scope)
                return [*code, *more], up, scope
        raise InternalError(f"{var} has no window of coordinates")

    def _window_above(
        self, var: IndexVar, window: Range, scope: Scope
    ) -> tuple[list[Stmt], tuple[Expr, Expr], Scope]:
        """A window of `var` as one of the underived variable it comes from."""
        match self.provenance.above.get(var):
            case None:
                return [], (window.lo, window.hi), scope
            case Precompute(parent=parent) | Bound(parent=parent):
                return self._window_above(parent, window, scope)
            case (Split() | Divide()) as relation if relation.inner == var:
                code, whole, scope = self.values(relation.parent, scope)
                run = self.run(relation, whole, scope)
                end = arithmetic("min", run.lo + window.hi, run.hi)
                shifted = Range(run.lo + window.lo, end)
                more, up, scope = self._window_above(relation.parent, shifted, scope)
                return [*code, *more], up, scope
        raise InternalError(f"{var} has no window of coordinates")

    def _coordinates(self, relation: Coord, scope: Scope) -> Found:
        """The coordinates that belong to positions.

        They reach from the first position's up to that of the position after the last; at either
        end of the whole they reach to the end of the dimension, so that all runs together miss
        nothing.
        """
        code, window, scope = self.position_window(relation.parent, scope)
        pos = self.space(relation.parent)
        more, whole, scope = self.dimension(pos, scope)
        code += more
        if window is None or window.missing:
            return code, whole, scope
        more, found, scope = self.coordinate_window(window, scope)
        return [*code, *more], found, scope

    def space(self, var: IndexVar) -> Pos:
        """The relation that put `var` into position space."""
        pos = self.provenance.space(var)
        if pos is None:
            raise InternalError(f"{var} is not in position space")
        return pos

    def dimension(self, pos: Pos, scope: Scope) -> Found:
        """The coordinates that all positions together belong to; numbers of tuples where fused."""
        fuse = self.fused(pos)
        if fuse is not None:
            return self.values(fuse.fused, scope)
        code, confined, scope = self.outermost_window(pos.parent, scope)
        if confined is not None:
            return code, Range(*confined), scope
        (var,) = self.provenance.underived(pos.parent)
        return [*code], Range(ZERO, self.ctx.names.extent(var)), scope

    def fused(self, pos: Pos) -> Fuse | None:
        """The relation that fused the variables whose positions are counted, if several were."""
        var = pos.parent
        while not isinstance(relation := self.provenance.above.get(var), Fuse):
            if not isinstance(relation, (Bound, Precompute)):
                return None
            var = relation.parent
        return relation

    def position_window(
        self, var: IndexVar, scope: Scope
    ) -> tuple[list[Stmt], Range | None, Scope]:
        """The positions that `var` is confined to by the runs that are known; None: to none."""
        relation = self.provenance.above.get(var)
        match relation:
            case Pos():
                return [], None, scope
            case Precompute(parent=parent) | Bound(parent=parent):
                return self.position_window(parent, scope)
            case Split() | Divide() if relation.inner == var:
                code, whole, scope = self.values(relation.parent, scope)
                run = self.run(relation, whole, scope)
                more, outer, scope = self.position_window(relation.parent, scope)
                if outer is not None:  # runs of runs count from the outer run's begin
                    shifted = arithmetic("min", outer.lo + run.hi, outer.hi)
                    run = replace(
                        outer, lo=outer.lo + run.lo, hi=shifted,
                        first=ends_there(outer.first, run.first),
                        last=ends_there(outer.last, run.last),
                    )  # fmt: skip
                return [*code, *more], run, scope
        raise InternalError(f"{var} has no window of positions")

    def coordinate_window(self, window: Range, scope: Scope) -> Found:
        """The coordinates from the first position of `window` to that of the next window's.

        The first window begins where the dimension does, and the last ends where it does, so that
        all together miss nothing.
        """
        pos = window.pos
        if pos is None:
            raise InternalError("a window of coordinates is one already")
        everything = scope.ranges[pos.child]
        code, whole, scope = self.dimension(pos, scope)
        ends: list[Expr] = []
        base = self.ctx.names.variables[self.provenance.underived(pos.parent)[-1]]
        for position, outermost, at_end, side in (
            (window.lo, whole.lo, window.first, "from"),
            (window.hi, whole.hi, window.last, "to"),
        ):
            if at_end is None:
                ends.append(outermost)
                continue
            name, scope = scope.fresh(f"{base}_{side}", lasting=True)
            there, at, scope = self._coordinate_at(pos, everything, position, scope)
            stored = If(compare("<", position, everything.hi), block(*there, Set(name, at)))
            outside = If(at_end, block(Set(name, outermost)), stored)
            code += [Declare(name, whole.hi), outside]
            ends.append(name)
        return code, Range(ends[0], ends[1]), scope

    def _coordinate_at(
        self, pos: Pos, everything: Range, position: Expr, scope: Scope
    ) -> tuple[list[Stmt], Expr, Scope]:
        """The coordinate at a position; of fused variables, the number of the tuple."""
        access = pos.access
        variables = self.provenance.underived(pos.parent)
        first = access.level_vars.index(variables[0])
        code, places, scope = self.places(access, first, everything, position, scope)
        number: Expr = ZERO
        for n, var in enumerate(variables):
            kind = access.tensor.format.levels[first + n]
            view = self.ctx.view(access, first + n)
            parent = places[n - 1] if n else self.ctx.parent_place(access, first, scope).position
            at = kind.coordinate(view, parent, places[n])
            if n == 0 and len(variables) > 1:
                # Tuples are numbered from the first that the outermost variable is confined to.
                more, confined, scope = self.outermost_window(pos.parent, scope)
                code += more
                at = at if confined is None else at - confined[0]
            number = at if n == 0 else number * self.ctx.names.extent(var) + at
        return code, number, scope

    def places(
        self,
        access: Access,
        first: int,
        everything: Range,
        position: Expr,
        scope: Scope,
        moving: bool = False,
    ) -> tuple[list[Stmt], list[Expr], Scope]:
        """The positions at the levels above `position`, found by search, and itself.

        `moving`: they will be moved on from there.
        """
        places = [position]
        code: list[Stmt] = []
        for n in reversed(range(1, len(everything.levels))):
            level = first + n
            kind, view = access.tensor.format.levels[level], self.ctx.view(access, level)
            parent = kind.parent(view, places[0])
            if parent is None:
                lo, hi = everything.levels[n - 1]
                pos = self.ctx.boundaries(access, level)
                parent = Helper("last_at_most", (pos, lo, hi, places[0]))
            base = f"p{self.ctx.names.of(access.tensor)}{level}"
            name, scope = scope.fresh(base, lasting=moving)
            code.append(Declare(name, parent, fixed=not moving))
            places.insert(0, name)
        return code, places, scope

    # -- the value of one variable from others --------------------------------------------------

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
                return reached[level].position if level < len(reached) else None
            case Coord(parent=parent):
                pos = self.space(parent)
                fuse = self.fused(pos)
                underived = self.provenance.underived(pos.parent)[-1]
                return self.value(underived if fuse is None else fuse.fused, scope)
        value = self.value(relation.parents[0], scope)
        if value is None or not isinstance(relation, (Split, Divide)):
            return value
        return self._place_in_run(relation, var, value, scope)

    def _place_in_run(
        self, relation: Split | Divide, var: IndexVar, value: Expr, scope: Scope
    ) -> Expr | None:
        """Which run `value` is in, or where in its run."""
        whole = self._known(relation.parent, scope)
        even = isinstance(relation, Split) or (
            relation.balance is None and relation.points is None
        )
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
        """The value of a split variable from those of its parts, and whether it is within bounds."""
        whole = self._known(relation.parent, scope)
        at, inner = scope.coords[relation.outer], scope.coords[relation.inner]
        value = whole.lo + at * self.length(relation, whole) + inner
        return value, compare("<", value, whole.hi)

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


def ends_there(outer: Expr | None, inner: Expr | None) -> Expr | None:
    """Whether a run of a run is at an end of the whole; None: it is."""
    return outer if inner is None else _both(outer, inner)


def _both(one: Expr | None, other: Expr) -> Expr:
    return other if one is None else Binary("&&", one, other)


def _ceil(size: Expr, n: int) -> Expr:
    if isinstance(size, Value):
        return Value(-(-int(size.value.real) // n))
    return ceiling(size, n)


def _constant(value: Expr) -> int | None:
    return int(value.value.real) if isinstance(value, Value) else None


