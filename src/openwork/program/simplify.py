"""Simplification: dead code is removed, and loop-invariant loads are hoisted."""

from __future__ import annotations

from collections.abc import Iterator
from operator import is_
from typing import cast

from openwork.index.nodes import IndexVar
from openwork.loops.fresh import take_name
from openwork.loops.nodes import relations_of
from openwork.loops.plan.plan import Plan
from openwork.loops.provenance import Provenance
from openwork.loops.relations import Bound, BoundType
from openwork.program import nodes as p
from openwork.program.nodes import Value
from openwork.tree import (
    Node,
    Rewrite,
    Rule,
    bottom_up,
    children,
    first_of,
    map_children,
    repeated,
    replace,
    substitute,
    walk,
)


def flatten(node: Node) -> Node | None:
    """{ a; { b } } => { a; b }"""
    if isinstance(node, p.Block) and any(isinstance(s, p.Block) for s in node.body):
        return p.block(*node.body)
    return None


def drop_empty(node: Node) -> Node | None:
    """for (...) {} => {}, if (c) {} => {}"""
    match node:
        case p.For(body=p.Block(body=())) | p.If(then=p.Block(body=()), otherwise=None):
            return p.Block(())
        case p.If(otherwise=p.Block(body=())):
            return replace(node, otherwise=None)
    return None


def _in_statements(rule: Rule) -> Rewrite:
    """`rule` applied bottom-up to statements alone: most of a program is expressions."""

    def rewrite(node: Node) -> Node:
        if isinstance(node, p.Expr):
            return node
        node = map_children(node, rewrite)
        new = rule(node)
        return node if new is None else new

    return rewrite


# Each rule inspects only a node and its children, so that one bottom-up round reaches a fixpoint.
_tidy = _in_statements(repeated(first_of(flatten, drop_empty)))
_flatten = _in_statements(repeated(flatten))


def simplify(program: p.Program) -> p.Program:
    """`program` without dead code, and with invariant loads hoisted."""
    constant = {a.array.name for a in program.arguments if a.role == "operand"}
    body = _tidy(program.body)
    taken = {n.name for n in walk(body) if isinstance(n, p.Name)}
    changes: list[set[str]] = []
    _declared(body, changes)
    loads = {n for n in walk(body) if isinstance(n, p.Load) and n.array.role is p.Role.VALUE}
    names = {n: _names(n) for n in loads if n.array.name in constant}
    body = _hoist(body, names, taken, iter(changes)) if names else body
    return replace(program, body=without_dead(cast(p.Block, _flatten(body))))


def _hoist(
    node: Node, names: dict[p.Load, set[str]], taken: set[str], changes: Iterator[set[str]]
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
    names = _names(condition)
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


def _names(node: Node) -> set[str]:
    return {n.name for n in walk(node) if isinstance(n, p.Name)}


def without_dead(body: p.Block) -> p.Block:
    """`body` without fixed scalars that are never used in their scope.

    Sibling blocks reuse names, so each block is examined by itself.
    """
    return cast(p.Block, _live(body, set()))


def _live(node: Node, used: set[str]) -> Node:
    """`node` without what is dead; the names that it uses are added to `used`."""
    if isinstance(node, p.Block):
        return _live_block(node, used)

    def part(child: Node) -> Node:
        if isinstance(child, p.Stmt):
            return _live(child, used)
        used.update([n.name for n in walk(child) if isinstance(n, p.Name)])
        return child

    return map_children(node, part)


def _live_block(node: p.Block, used: set[str]) -> p.Block:
    kept: list[p.Stmt] = []
    mine: set[str] = set()
    for s in reversed(node.body):
        if isinstance(s, p.Declare):
            name = s.name.name
            if s.fixed and name not in mine and _pure(s.value):
                continue
            mine.discard(name)
            mine.update([n.name for n in walk(s.value) if isinstance(n, p.Name)])
            kept.append(s)
            continue
        kept.append(cast(p.Stmt, _live(s, mine)))
    used |= mine
    kept.reverse()
    if len(kept) == len(node.body) and all(map(is_, kept, node.body)):
        return node
    return p.Block(tuple(kept))


def _pure(value: p.Expr) -> bool:
    """Whether computing a value has no side effect; a hash table may grow."""
    return not any(isinstance(n, p.Helper) and n.facts.grows for n in walk(value))


def with_promised_extents(
    program: p.Program, plan: Plan, variables: tuple[IndexVar, ...]
) -> p.Program:
    """`program` for the extents that bounds give exactly; every call checks them first."""
    provenance = Provenance(relations_of(plan.loops))
    sizes = dict(zip(variables, program.sizes, strict=True))
    promised = promised_extents(provenance)
    table: dict[Node, Node] = {sizes[v]: Value(n) for v, n in promised.items() if v in sizes}
    if not table:
        return program
    body = _fold(substitute(program.body, table))
    return replace(program, body=cast(p.Block, body))


def promised_extents(provenance: Provenance) -> dict[IndexVar, int]:
    """The extents of variables of the statement that bounds give exactly."""
    found: dict[IndexVar, int] = {}
    for relation in provenance.relations:
        if not isinstance(relation, Bound) or relation.kind is not BoundType.MaxExact:
            continue
        var = provenance.unrenamed(relation.parent)
        if var not in provenance.above:
            found[var] = relation.value
    return found


def _known(node: Node) -> Node | None:
    """2 + 3 => 5, if (3 == 3) a else b => a"""
    match node:
        case p.Binary(sign=sign, left=p.Value() as a, right=p.Value() as b) if (
            sign in ("==", "!=", "<", "<=") and a.type == b.type == p.INDEX
        ):
            holds = {
                "==": a.value == b.value,
                "!=": a.value != b.value,
                "<": a.value.real < b.value.real,
                "<=": a.value.real <= b.value.real,
            }[sign]
            return Value(holds, "bool")
        case p.Binary(sign="+" | "-" | "*" | "/" | "min" | "max" as sign, left=left, right=right):
            new = p.arithmetic(sign, left, right)
            return None if new == node else new
        case p.If(condition=p.Value(value=True), then=then):
            return then
        case p.If(condition=p.Value(value=False), otherwise=otherwise):
            return p.Block(()) if otherwise is None else otherwise
    return None


_fold = bottom_up(_known)
