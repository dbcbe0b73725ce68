"""Loops of a block whose iterations warps take: those that only insert into a table.

The threads of a warp share the loop further in. A row of a product, say, is made of rows of the
second operand, and a block that had all of its threads take each in turn would mostly wait.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TypeVar, cast

from openwork.program import nodes as p
from openwork.program.nodes import Array, For
from openwork.program.touched import READERS
from openwork.tree import Node, map_children, walk

N = TypeVar("N", bound=Node)

INSERTS = ("claim", "mark_bit")  # helpers that put a key into a table or a map


def by_warps(code: p.Block, values: Array, warps: int, lanes: int) -> p.Block:
    """`code` with its outermost loops given to warps, where they only add to `values`."""

    def given(node: Node) -> Node:
        match node:
            case For(unit="") if _only_inserts(node, values):
                shared = replace(node, body=shared_by(lanes, node.body))
                return replace(shared, unit="warp", units=warps, simd=False, polls=False)
            case p.Block() | p.If():
                return map_children(node, given)
        return node

    return cast(p.Block, given(code))


def _only_inserts(loop: For, values: Array) -> bool:
    """Whether iterations can be done in any order, and threads share a loop in each."""
    inner = list(walk(loop.body))
    own = {n.name for n in inner if isinstance(n, p.Declare)}
    for n in inner:
        match n:
            case p.Set(name=name) if name not in own:
                return False
            case p.Store(array=array, atomic=atomic) if array != values or not atomic:
                return False
            case p.Helper(name=name) if name not in READERS and name not in INSERTS:
                return False
            case p.Local() | p.Allocate() | p.Grow() | p.Fail() | p.Break():
                return False
    return any(isinstance(n, For) and n.unit == "thread" for n in inner) and not loop.reductions


def shared_by(lanes: int, node: N) -> N:
    """Loops for threads have so many of them, but for those of warps, which have their own."""
    if isinstance(node, For) and node.unit == "warp":
        return node
    if isinstance(node, For) and node.unit == "thread":
        return replace(node, units=lanes)
    return map_children(node, partial(shared_by, lanes))
