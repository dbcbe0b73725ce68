"""Loads that leave the cache to others: of operands that the threads of a block read side by side.

    for (at = thread; at < 1024; at += threads) w[at] = A[first + at] * x[A_crd[first + at]];

Each element of A is read once, and all of a line of memory at once. It is loaded so that it is the
first to leave the cache, where the elements of x stay, which are read again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from openwork.program import nodes as p
from openwork.program.device import BLOCK_X, THREAD
from openwork.program.nodes import Expr
from openwork.program.vectors import spelled, terms
from openwork.tree import Node, map_children, walk

# Element types that CUDA has such a load for.
_TYPES = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_TYPES |= {"float32", "float64"}


@dataclass(frozen=True)
class StreamLoad(p.Load):
    """An element that is not needed again soon."""


def streamed(body: p.Block, operands: set[str]) -> p.Block:
    """`body` with such loads of `operands`, which nobody writes to."""
    known = {n.name.name: n.value for n in walk(body) if isinstance(n, p.Declare) and n.fixed}
    blocks = {n.var for n in walk(body) if isinstance(n, p.For) and BLOCK_X in terms(n.begin)}

    def node(each: Node) -> Node:
        if isinstance(each, p.For) and THREAD in terms(each.begin):
            return map_children(each, lambda n: within(n, each.var))
        return map_children(each, node)

    def within(each: Node, at: p.Name) -> Node:
        if type(each) is p.Load and each.array.name in operands and each.array.type in _TYPES:
            return (StreamLoad if once(each.index, at) else p.Load)(
                each.array, cast(Expr, within(each.index, at))
            )
        return map_children(each, lambda n: within(n, at))

    def once(index: Expr, at: p.Name) -> bool:
        """Whether threads take neighbours, and blocks take others."""
        parts = terms(spelled(index, known))
        rest = [part for part in parts if part != at]
        names = {n for part in rest for n in walk(part)}
        return parts.count(at) == 1 and at not in names and bool(names & blocks)

    return cast(p.Block, node(body))
