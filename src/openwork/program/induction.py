"""Loops that append one entry in each iteration, which threads can then share.

   for (p = a; p < b; p++) { crd[n] = e; n++; }
=> for (p = a; p < b; p++) crd[n + (p - a)] = e;  n += b - a;
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from openwork.program import nodes as p
from openwork.program.dead import without_dead
from openwork.program.nodes import Declare, Expr, For, Name, Set, Stmt, Store, arithmetic, block
from openwork.tree import Node, bottom_up, substitute, walk


def side_by_side(code: p.Block, lanes: int) -> p.Block:
    """`code` with such loops shared by `lanes` threads."""

    def rule(node: Node) -> Node | None:
        return _shared(node, lanes) if isinstance(node, For) and not node.unit else None

    return cast(p.Block, bottom_up(rule)(code))


def _shared(loop: For, lanes: int) -> p.Block | None:
    body = without_dead(block(loop.body)).body
    counters = [s.name for s in body if isinstance(s, Set)]
    if not counters or any(s != _step(s.name) for s in body if isinstance(s, Set)):
        return None
    if len(set(counters)) < len(counters) or not all(_is_simple(s, counters) for s in body):
        return None
    passed = loop.var if loop.begin == p.Value(0) else loop.var - loop.begin
    now: dict[Node, Node] = {c: c + passed for c in counters}
    done: list[Stmt] = []
    for s in body:
        if isinstance(s, Set):
            now[s.name] = cast(Expr, now[s.name]) + 1
        else:
            done.append(substitute(s, now))
    count = arithmetic("max", loop.end - loop.begin, p.Value(0))
    after = [Set(c, c + count) for c in counters]
    if not done:
        return block(*after)
    shared = replace(loop, body=block(*done), unit="thread", units=lanes, simd=False, polls=False)
    return block(shared, *after)


def _step(counter: Name) -> Set:
    return Set(counter, counter + 1)


def _is_simple(s: Stmt, counters: list[Name]) -> bool:
    """Whether iterations do `s` to different places."""
    match s:
        case Declare(fixed=True) | Set():
            return True
        case Store(index=index, op=None, atomic=False):
            return any(n in counters for n in walk(index))
    return False
