"""Windows of positions, and of the coordinates that belong to them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

from openwork.errors import InternalError
from openwork.index.nodes import Access, IndexVar
from openwork.loops.provenance import Provenance
from openwork.loops.relations import Bound, Coord, Divide, Fuse, Pos, Precompute, Split
from openwork.program.lower.base.context import Context
from openwork.program.lower.base.scope import Range, Scope
from openwork.program.lower.walk.walkers import searchable
from openwork.program.nodes import (
    Binary,
    Declare,
    Expr,
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

Found = tuple[list[Stmt], Range, Scope]
ZERO = Value(0)


@dataclass(frozen=True)
class Windows:
    """Questions about positions in one kernel."""

    ctx: Context

    @property
    def provenance(self) -> Provenance:
        """What each variable derives from."""
        return self.ctx.provenance

    def values(self, var: IndexVar, scope: Scope) -> Found:
        """What `var` runs over at this place."""
        raise NotImplementedError

    def run(self, relation: Split | Divide, whole: Range, scope: Scope) -> Range:
        """The values of the parent in the run whose number is known."""
        raise NotImplementedError

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
                # Of runs one after another; there may be none that a last one could be asked.
                begin, end = kind.begin(view, begin), kind.children(view, end)
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
        return [*code], replace(self.ctx.everything(var, scope), everything=False), scope

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
            if n > 0:  # as many as tuples are numbered by: a block may reach beyond the shape
                more, inner, scope = self.values(var, scope)
                code += more
                at = number * inner.size + at
            number = at
        return code, number, scope

    def parents_within(self, relation: Split | Divide, window: Range, scope: Scope) -> Found:
        """`window`, a run of positions, with the parents of its own positions alone.

        They are searched for; those of all runs of a whole level have been found by an inspector.
        """
        pos = window.pos
        if pos is None or len(window.levels) < 2:
            return [], window, scope
        access, code, levels = pos.access, list[Stmt](), list(window.levels)
        first = access.level_vars.index(self.provenance.underived(pos.parent)[0])
        ends = (window.lo, window.hi)  # that of the next run, too: coordinates reach up to it
        whole = isinstance(relation, Split) and first == 0 and scope.depth == 1
        whole = whole and self.provenance.above.get(relation.parent) == pos
        for n in reversed(range(1, len(levels))):
            level = first + n
            kind, view = access.tensor.format.levels[level], self.ctx.view(access, level)
            base = f"p{self.ctx.names.of(access.tensor)}{level}"
            names: list[Name] = []
            for end, side in zip(ends, ("from", "to"), strict=True):
                parent = kind.parent(view, end)
                if parent is None and whole and isinstance(relation, Split):
                    last = first + len(levels) - 1
                    starts = self.ctx.tile_starts(access, level - 1, last, relation.factor)
                    parent = starts[scope.coords[relation.outer] + len(names)]
                if parent is None:
                    lo, hi = levels[n - 1]
                    array = self.ctx.boundaries(access, level)
                    parent = Helper("last_at_most", (array, names[0] if names else lo, hi, end))
                name, scope = scope.fresh(f"{base}_{side}", lasting=True)
                code.append(Declare(name, parent, fixed=True))
                names.append(name)
            levels[n - 1] = (names[0], names[1] + 1)
            ends = (names[0], names[1])
        everything = replace(scope.ranges[pos.child], levels=tuple(levels))
        return code, replace(window, levels=tuple(levels)), scope.remember(pos.child, everything)

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
            some = SimpleNamespace(**vars(view))
            some.extent = arithmetic("max", view.extent, Value(1))  # there may be no positions
            parent = kind.parent(some, places[0])
            if parent is None:
                lo, hi = everything.levels[n - 1]
                pos = self.ctx.boundaries(access, level)
                parent = Helper("last_at_most", (pos, lo, hi, places[0]))
            base = f"p{self.ctx.names.of(access.tensor)}{level}"
            name, scope = scope.fresh(base, lasting=moving)
            code.append(Declare(name, parent, fixed=not moving))
            places.insert(0, name)
        return code, places, scope


def ends_there(outer: Expr | None, inner: Expr | None) -> Expr | None:
    """Whether a run of a run is at an end of the whole; None: it is."""
    return outer if inner is None else both(outer, inner)


def both(one: Expr | None, other: Expr) -> Expr:
    return other if one is None else Binary("&&", one, other)


def positions_below(ctx: Context, access: Access, level: int, scope: Scope) -> tuple[Expr, Expr]:
    """The positions of `level` below the place that is reached above it."""
    kind, view = access.tensor.format.levels[level], ctx.view(access, level)
    parent = ctx.parent_place(access, level, scope)
    return _expr(kind.begin(view, parent.position)), _expr(kind.end(view, parent.last))


def search_run(
    ctx: Context,
    access: Access,
    level: int,
    run: tuple[Expr, Expr],
    window: tuple[Expr, Expr],
    scope: Scope,
) -> tuple[Expr, Expr]:
    """The part of `run` whose coordinates lie in `window`."""
    kind, view = access.tensor.format.levels[level], ctx.view(access, level)
    parent = ctx.parent_place(access, level, scope).position
    if kind.locates:
        begin = _expr(kind.begin(view, parent))
        return begin + window[0], begin + window[1]
    stored = searchable(kind, view, parent)
    if stored is None:
        raise InternalError(f"level {level} of {access} cannot be searched")
    begin, end = run
    return (
        Helper("lower_bound", (stored, begin, end, window[0])),
        Helper("lower_bound", (stored, begin, end, window[1])),
    )


def _expr(value: object) -> Expr:
    if isinstance(value, Expr):
        return value
    if isinstance(value, int):
        return Value(value)
    raise InternalError(f"a level's formula gave {value!r}")
