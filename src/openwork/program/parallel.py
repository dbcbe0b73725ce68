"""Loops that threads share in contiguous parts: where to cut so that the parts have equal work."""

from __future__ import annotations

from collections.abc import Sequence

from openwork.program import nodes as p
from openwork.program.context import Context
from openwork.program.walkers import Participant


def balance(ctx: Context, counted: Sequence[Participant]) -> p.Balance | None:
    """A position array that is indexed by the loop variable: it tells the work below.

    `counted` are the operands whose outermost level has a position for each iteration.
    """
    for part in counted:
        access = part.access
        reached = part.steps[-1] if part.steps else part.walk
        if reached != 0 or access.tensor.ndim < 2:
            continue
        if access.tensor.format.levels[1].boundaries is not None:
            return p.Balance(ctx.boundaries(access, 1))
    return None
