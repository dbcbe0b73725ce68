"""Positions of a level: those below a known parent, and those within a window of coordinates."""

from __future__ import annotations

from openwork.errors import InternalError
from openwork.index.nodes import Access
from openwork.program.context import Context
from openwork.program.nodes import Expr, Helper, Value
from openwork.program.scope import Scope
from openwork.program.walkers import searchable


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
