"""Loops that threads share: contiguous parts with equal work, and workspaces of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from openwork.program import nodes as p
from openwork.program.context import Context
from openwork.program.walkers import Participant


def share(loop: p.For, ctx: Context, counted: Sequence[Participant]) -> p.For:
    """Give `loop` to threads.

    `counted` are the operands whose outermost level has a position for each iteration.
    """
    return replace(
        loop,
        parallel=True,
        balance=_balance(ctx, counted),
        private=tuple(s for work in ctx.private for s in work.setup()),
        cleanup=tuple(s for work in ctx.private for s in work.cleanup()),
    )


def _balance(ctx: Context, counted: Sequence[Participant]) -> p.Balance | None:
    """A position array that is indexed by the loop variable: it tells the work below."""
    for part in counted:
        access = part.access
        reached = part.steps[-1] if part.steps else part.walk
        if reached != 0 or access.tensor.ndim < 2:
            continue
        for fact in access.tensor.format.levels[1].arrays:
            if fact.per == "parent" and fact.holds == "positions" and fact.extra == 1:
                return p.Balance(ctx.names.array(access.tensor, 1, fact.name))
    return None
