"""Declarations that nobody needs in the rest of their block."""

from __future__ import annotations

from typing import cast

from openwork.program import nodes as p
from openwork.tree import Node, map_children, walk


def without_dead(body: p.Block) -> p.Block:
    """`body` without fixed scalars that are never used where they are known.

    Names are used again in blocks beside each other, so that it takes a look at each block.
    """
    return cast(p.Block, _live(body))


def _live(node: Node) -> Node:
    if isinstance(node, p.Expr):
        return node
    node = map_children(node, _live)
    if not isinstance(node, p.Block):
        return node
    used: set[str] = set()
    kept: list[p.Stmt] = []
    for s in reversed(node.body):
        if isinstance(s, p.Declare) and s.fixed and s.name.name not in used and _pure(s.value):
            continue
        own = s.name if isinstance(s, p.Declare) else None
        names = {n.name for n in walk(s) if isinstance(n, p.Name) and n is not own}
        used = (used - {own.name} if own is not None else used) | names
        kept.insert(0, s)
    return node if len(kept) == len(node.body) else p.Block(tuple(kept))


def _pure(value: p.Expr) -> bool:
    """Whether nothing happens when a value is computed; a hash table may grow."""
    return not any(isinstance(n, p.Helper) and n.name == "find" for n in walk(value))
