"""Windows of positions, and of their coordinates."""

from __future__ import annotations

from types import SimpleNamespace

from openwork.algebra.operators import SELECT
from openwork.errors import InternalError
from openwork.index.nodes import Access
from openwork.loops.relations import Cut, Pos
from openwork.program.lower.base.context import Context
from openwork.program.lower.base.ranges import Range
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.derived.recovery import ZERO, Ends, Found, Recovery, named_ends
from openwork.program.lower.walk.walkers import searchable
from openwork.program.nodes import (
    INDEX,
    Apply,
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
from openwork.tree import replace


def positions(recovery: Recovery, relation: Pos, scope: Scope) -> Found:
    """The positions of a level below the reached place and within the parent's range."""
    ctx, access = recovery.ctx, relation.access
    variables = recovery.provenance.underived(relation.parent)
    first = access.level_vars.index(variables[0])
    if len(scope.reached(access)) < first:
        return [], Range(ZERO, ZERO, pos=relation, missing=True), scope
    code, window, scope = recovery.outermost_window(relation.parent, scope)
    ends = _positions_below(ctx, access, first, scope)
    if window is not None:
        ends = _search_run(ctx, access, first, ends, window, scope)
    levels = []
    for level in range(first, first + len(variables)):
        if level > first:
            kind, view = access.tensor.format.levels[level], ctx.view(access, level)
            # Of consecutive segments; if there are none, there is no last one to read. The places
            # of others begin at zero: these levels are the outermost ones.
            begin = kind.begin(view, ends[0]) if kind.contiguous else ZERO
            ends = begin, kind.children(view, ends[1])
        if access in scope.perhaps:
            ends = _where_present(scope.perhaps[access], ends)
        more, ends, scope = named_ends(f"p{ctx.names.of(access.tensor)}{level + 1}", ends, scope)
        code += more
        levels.append(ends)
    return code, Range(*ends, pos=relation, levels=tuple(levels)), scope


def _where_present(present: Expr, ends: Ends) -> Ends:
    """No positions where the operand is absent, and has no place to read them from."""
    first, last = (Apply(SELECT, (present, end, ZERO), INDEX) for end in ends)
    return first, last


def dimension(recovery: Recovery, pos: Pos, scope: Scope) -> Found:
    """The coordinates that all positions together cover; numbers of tuples where fused."""
    origin = recovery.provenance.origin(pos)
    if origin in recovery.provenance.above:
        return recovery.values(origin, scope)
    code, confined, scope = recovery.outermost_window(pos.parent, scope)
    if confined is not None:
        return code, Range(*confined), scope
    return code, replace(recovery.ctx.everything(origin, scope), everything=False), scope


def coordinate_window(recovery: Recovery, window: Range, scope: Scope) -> Found:
    """The coordinates from the first position of `window` to the first one of the next window.

    The first window begins at the start of the dimension, and the last ends at its end, so that the
    windows together cover it.
    """
    pos = window.pos
    if pos is None:
        raise InternalError("a window of coordinates is one already")
    everything = scope.bounds.ranges[pos.child]
    code, whole, scope = dimension(recovery, pos, scope)
    ends: list[Expr] = []
    base = recovery.ctx.names.variables[recovery.provenance.underived(pos.parent)[-1]]
    for position, outermost, at_end, side in (
        (window.lo, whole.lo, window.edges.first, "from"),
        (window.hi, whole.hi, window.edges.last, "to"),
    ):
        if at_end is None:
            ends.append(outermost)
            continue
        name, scope = scope.fresh(f"{base}_{side}", lasting=True)
        there, at, scope = _coordinate_at(recovery, pos, everything, position, scope)
        stored = If(compare("<", position, everything.hi), block(*there, Set(name, at)))
        outside = If(at_end, block(Set(name, outermost)), stored)
        code += [Declare(name, whole.hi), outside]
        ends.append(name)
    return code, Range(ends[0], ends[1]), scope


def _coordinate_at(
    recovery: Recovery, pos: Pos, everything: Range, position: Expr, scope: Scope
) -> tuple[list[Stmt], Expr, Scope]:
    """The coordinate at a position; for fused variables, the number of the tuple."""
    ctx, access = recovery.ctx, pos.access
    variables = recovery.provenance.underived(pos.parent)
    first = access.level_vars.index(variables[0])
    code, places, scope = places_above(ctx, access, first, everything, position, scope)
    number: Expr = ZERO
    for n, var in enumerate(variables):
        kind = access.tensor.format.levels[first + n]
        view = ctx.view(access, first + n)
        parent = places[n - 1] if n else ctx.parent_place(access, first, scope).position
        at = kind.coordinate(view, parent, places[n])
        if n == 0 and len(variables) > 1:
            # Tuples are numbered from the first value that the outermost variable is confined to.
            more, confined, scope = recovery.outermost_window(pos.parent, scope)
            code += more
            at = at if confined is None else at - confined[0]
        if n > 0:  # tuples are numbered by this extent: a block may reach beyond the shape
            more, inner, scope = recovery.values(var, scope)
            code += more
            at = number * inner.size + at
        number = at
    return code, number, scope


def parents_within(recovery: Recovery, relation: Cut, window: Range, scope: Scope) -> Found:
    """`window`, a run of positions, with the parents of its own positions alone.

    They are searched for; for the runs of a whole level, an inspector has found them.
    """
    ctx, pos = recovery.ctx, window.pos
    if pos is None or len(window.levels) < 2:
        return [], window, scope
    if any(not kind.contiguous for kind in pos.access.tensor.format.levels):
        return [], window, scope  # the places of a run are apart
    access, code, levels = pos.access, list[Stmt](), list(window.levels)
    first = access.level_vars.index(recovery.provenance.underived(pos.parent)[0])
    ends = (window.lo, window.hi)  # the next run's too: coordinates reach up to it
    whole = first == 0 and scope.depth == 1
    whole = whole and recovery.provenance.above.get(relation.parent) == pos
    for n in reversed(range(1, len(levels))):
        level = first + n
        kind, view = access.tensor.format.levels[level], ctx.view(access, level)
        base = f"p{ctx.names.of(access.tensor)}{level}"
        names: list[Name] = []
        for end, side in zip(ends, ("from", "to"), strict=True):
            parent = kind.parent(view, end)
            if parent is None and whole and relation.length is not None:
                last = first + len(levels) - 1
                starts = ctx.tile_starts(access, level - 1, last, relation.length)
                parent = starts[scope.coords[relation.outer] + len(names)]
            if parent is None:
                lo, hi = levels[n - 1]
                array = ctx.boundaries(access, level)
                parent = Helper("last_at_most", (array, names[0] if names else lo, hi, end))
            name, scope = scope.fresh(f"{base}_{side}", lasting=True)
            code.append(Declare(name, parent, fixed=True))
            names.append(name)
        levels[n - 1] = (names[0], names[1] + 1)
        ends = (names[0], names[1])
    everything = replace(scope.bounds.ranges[pos.child], levels=tuple(levels))
    return code, replace(window, levels=tuple(levels)), scope.remember(pos.child, everything)


def places_above(
    ctx: Context,
    access: Access,
    first: int,
    everything: Range,
    position: Expr,
    scope: Scope,
    moving: bool = False,
) -> tuple[list[Stmt], list[Expr], Scope]:
    """The ancestors of `position` at the levels above, found by search, and `position` itself.

    `moving`: the code will advance them.
    """
    places = [position]
    code: list[Stmt] = []
    for n in reversed(range(1, len(everything.levels))):
        level = first + n
        kind, view = access.tensor.format.levels[level], ctx.view(access, level)
        some = SimpleNamespace(**vars(view))
        some.extent = arithmetic("max", view.extent, Value(1))  # there may be no positions
        parent = kind.parent(some, places[0])
        if parent is None:
            lo, hi = everything.levels[n - 1]
            pos = ctx.boundaries(access, level)
            parent = Helper("last_at_most", (pos, lo, hi, places[0]))
        base = f"p{ctx.names.of(access.tensor)}{level}"
        name, scope = scope.fresh(base, lasting=moving)
        code.append(Declare(name, parent, fixed=not moving))
        places.insert(0, name)
    return code, places, scope


def _positions_below(ctx: Context, access: Access, level: int, scope: Scope) -> Ends:
    """The positions of `level` below the reached place above it."""
    kind, view = access.tensor.format.levels[level], ctx.view(access, level)
    parent = ctx.parent_place(access, level, scope)
    return _expr(kind.begin(view, parent.position)), _expr(kind.end(view, parent.last))


def _search_run(
    ctx: Context,
    access: Access,
    level: int,
    run: Ends,
    window: Ends,
    scope: Scope,
) -> Ends:
    """The part of `run` whose coordinates lie in `window`."""
    kind, view = access.tensor.format.levels[level], ctx.view(access, level)
    parent = ctx.parent_place(access, level, scope).position
    if kind.spans:
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
