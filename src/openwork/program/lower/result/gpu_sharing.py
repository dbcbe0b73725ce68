"""Parallelizes loops that append one entry in each iteration.

   for (p = a; p < b; p++) { crd[n] = e; n++; }
=> for (p = a; p < b; p++) crd[n + (p - a)] = e;  n += b - a;
"""

from __future__ import annotations

from functools import partial
from typing import TypeVar, cast

from openwork.program import nodes as p
from openwork.program.nodes import (
    Array,
    Declare,
    Expr,
    For,
    Name,
    Set,
    Stmt,
    Store,
    arithmetic,
    block,
)
from openwork.program.simplify.dead import without_dead
from openwork.tree import Node, bottom_up, map_children, replace, substitute, walk


def side_by_side(code: p.Block, lanes: int) -> p.Block:
    """`code` with such loops distributed over `lanes` threads."""

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
    by = p.Unit("thread", count=lanes)
    return block(replace(loop, body=block(*done), by=by, simd=False, polls=0), *after)


def _step(counter: Name) -> Set:
    return Set(counter, counter + 1)


def _is_simple(s: Stmt, counters: list[Name]) -> bool:
    """Whether iterations execute `s` on different elements."""
    match s:
        case Declare(fixed=True) | Set():
            return True
        case Store(index=index, op=None, atomic=False):
            return any(n in counters for n in walk(index))
    return False


N = TypeVar("N", bound=Node)


def by_warps(code: p.Block, values: Array, warps: int, lanes: int) -> p.Block:
    """`code` with its outermost loops distributed over warps, where they only add to `values`."""

    def given(node: Node) -> Node:
        match node:
            case For(by=None) if _only_inserts(node, values):
                shared = replace(node, body=shared_by(lanes, node.body))
                return replace(shared, by=p.Unit("warp", count=warps), simd=False, polls=0)
            case p.Block() | p.If():
                return map_children(node, given)
        return node

    return cast(p.Block, given(code))


def _only_inserts(loop: For, values: Array) -> bool:
    """Whether iterations may run in any order, and contain a loop for threads."""
    inner = list(walk(loop.body))
    own = {n.name for n in inner if isinstance(n, p.Declare)}
    for n in inner:
        match n:
            case p.Set(name=name) if name not in own:
                return False
            case p.Store(array=array, atomic=atomic) if array != values or not atomic:
                return False
            case p.Helper(facts=facts) if not (facts.reads or facts.inserts):
                return False
            case p.Local() | p.Allocate() | p.Grow() | p.Fail() | p.Break():
                return False
    return any(isinstance(n, For) and n.unit == "thread" for n in inner) and not loop.reductions


def shared_by(lanes: int, node: N) -> N:
    """With so many units for thread loops; loops of warps keep their own number."""
    match node:
        case For(by=p.Unit(kind="warp")):
            return node
        case For(by=p.Unit(kind="thread") as by):
            return replace(node, by=replace(by, count=lanes))
    return map_children(node, partial(shared_by, lanes))
