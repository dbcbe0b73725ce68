"""Simplification: dead code is removed, and loop-invariant loads are hoisted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from openwork.loops.fresh import take_name
from openwork.program import nodes as p
from openwork.program.simplify.dead import without_dead
from openwork.tree import Node, children, map_children, walk


def simplify(program: p.Program) -> p.Program:
    """`program` without dead code, and with invariant loads hoisted."""
    constant = {a.array.name for a in program.arguments if a.role == "operand"}
    body = without_dead(program.body)
    taken = set(p.names_in(body))
    changes: list[set[str]] = []
    _declared(body, changes)
    loads = {n for n in walk(body) if isinstance(n, p.Load) and n.array.role is p.Role.VALUE}
    names = {n: p.names_in(n) for n in loads if n.array.name in constant}
    if names:
        hoisted = _hoist(body, names, taken, iter(changes))
        body = body if hoisted is body else without_dead(cast(p.Block, hoisted))
    return program if body is program.body else replace(program, body=body)


def _hoist(
    node: Node, names: dict[p.Load, frozenset[str]], taken: set[str], changes: Iterator[set[str]]
) -> Node:
    """Hoist loads of operands out of the outermost loop in which they are invariant.

    `names`: of those loads. `changes`: for each loop, in preorder, the names that change in it.
    """
    if isinstance(node, (p.For, p.While)):
        before: list[p.Stmt] = []
        table: dict[Node, Node] = {}
        changed = next(changes)
        if not _is_spread(node) and any(map(changed.isdisjoint, names.values())):
            for load in dict.fromkeys(_values(node.body, changed)):
                if load in names and changed.isdisjoint(names[load]):
                    name = p.Name(take_name(f"{load.array.stem}_val", taken), load.type)
                    before.append(p.Declare(name, load, fixed=True))
                    table[load] = name
        new = map_children(node, lambda n: _hoist(_replace(n, table), names, taken, changes))
        return p.block(*before, new) if before else new
    if isinstance(node, p.Expr):
        return node
    return map_children(node, lambda n: _hoist(n, names, taken, changes))


def _is_spread(loop: p.For | p.While) -> bool:
    """Whether CPU threads or GPU blocks execute the iterations of `loop`."""
    return isinstance(loop, p.For) and (isinstance(loop.by, p.Threads) or loop.unit == "block")


def _replace(node: Node, table: dict[Node, Node]) -> Node:
    if not table:
        return node
    if isinstance(node, p.Load) and node in table:
        return table[node]
    return map_children(node, lambda n: _replace(n, table))


def _values(node: Node, changed: set[str]) -> Iterator[p.Load]:
    """The loads of elements in `node`; loads of index arrays stay where they are.

    Those under a test that is as invariant as they are may be valid only where it holds.
    """
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, p.Expr):
            found = (n for n in walk(node) if isinstance(n, p.Load))
            yield from (load for load in found if load.array.role is p.Role.VALUE)
            continue
        if isinstance(node, p.If) and _tests_invariant(node.condition, changed):
            continue
        waiting += children(node)[::-1]


def _tests_invariant(condition: p.Expr, changed: set[str]) -> bool:
    """Whether a part of a condition is decided before the loop in which names have `changed`."""
    if isinstance(condition, p.Binary) and condition.sign in ("&&", "||"):
        return any(_tests_invariant(c, changed) for c in (condition.left, condition.right))
    names = p.names_in(condition)
    return bool(names) and not names & changed


def _declared(node: Node, loops: list[set[str]]) -> set[str]:
    """The names declared or assigned in `node`; those of each loop are appended to `loops`."""
    found: set[str] = set()
    place = len(loops)
    if isinstance(node, (p.For, p.While)):
        loops.append(found)
    for child in children(node):
        if not isinstance(child, p.Expr):
            found |= _declared(child, loops)
    if isinstance(node, (p.Declare, p.Set)):
        found.add(node.name.name)
    elif isinstance(node, p.For):
        found.add(node.var.name)
    elif isinstance(node, p.Grow):
        found.add(node.capacity.name)
    if isinstance(node, (p.For, p.While)):
        loops[place] = found
    return found
