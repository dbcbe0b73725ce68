"""Dead code: statements without effect, and names that nobody uses.

{ a; { b } }                        =>  { a; b }
for (...) {}                        =>
if (c) {}                           =>
if (c) s else {}                    =>  if (c) s
{ const n = e; s }                  =>  s                where s does not use n
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from operator import is_
from typing import cast

from openwork.program import nodes as p
from openwork.tree import Node, map_children, walk


def without_dead(body: p.Block) -> p.Block:
    """`body` without dead code.

    The branches of a test and the bodies of loops reuse names, so each is examined by itself. A
    block directly inside another has no scope of its own.
    """
    return cast(p.Block, _live(body, set()))


def _live(node: p.Stmt, used: set[str]) -> p.Stmt:
    """`node` without what is dead; the names that it uses are added to `used`."""
    if isinstance(node, p.Block):
        return _live_block(node, used)
    mine: set[str] = set()

    def part(child: Node) -> Node:
        if isinstance(child, p.Stmt):
            return _live(child, mine)
        mine.update(p.names_in(child))
        return child

    node = map_children(node, part)
    match node:
        case p.For(body=p.Block(body=())) | p.If(then=p.Block(body=()), otherwise=None):
            return p.Block(())
        case p.If(then=p.Block(body=()), otherwise=p.Block(body=())):
            return p.Block(())
        case p.If(otherwise=p.Block(body=())):
            node = replace(node, otherwise=None)
    used |= mine
    return node


def _live_block(node: p.Block, used: set[str]) -> p.Block:
    kept: list[p.Stmt] = []  # from the last to the first
    mine: set[str] = set()
    for s in reversed(list(_statements(node))):
        if isinstance(s, p.Declare):
            name = s.name.name
            if s.fixed and name not in mine and _pure(s.value):
                continue
            mine.discard(name)
            mine.update(p.names_in(s.value))
            kept.append(s)
            continue
        live = _live(s, mine)
        kept += reversed(live.body) if isinstance(live, p.Block) else (live,)
    used |= mine
    kept.reverse()
    if len(kept) == len(node.body) and all(map(is_, kept, node.body)):
        return node
    return p.Block(tuple(kept))


def _statements(node: p.Block) -> Iterator[p.Stmt]:
    """The statements of a block and of those directly inside it."""
    for s in node.body:
        if isinstance(s, p.Block):
            yield from _statements(s)
        else:
            yield s


def _pure(value: p.Expr) -> bool:
    """Whether computing a value has no side effect; a hash table may grow."""
    return not any(isinstance(n, p.Helper) and n.facts.grows for n in walk(value))
