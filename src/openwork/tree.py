"""Immutable trees and the few combinators that rewrite them.

Every representation in Openwork (index notation, loops, program) is made of frozen dataclasses
derived from `Node`. A rule maps a node to its replacement, or to None when it has nothing to say;
an unchanged tree comes back as the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeVar, cast

from openwork.errors import InternalError


class Node:
    """A tree node: a frozen dataclass whose children are its `Node` fields and tuples of them."""

    __slots__ = ()


N = TypeVar("N", bound=Node)
Rule = Callable[[Node], "Node | None"]
Rewrite = Callable[[Node], Node]

_MAX_ROUNDS = 50


# What fields that hold no nodes are declared as: most nodes are names and numbers.
_PLAIN = frozenset(
    (
        "str",
        "int",
        "bool",
        "float",
        "Number",
        "DType",
        "Op",
        "Op | None",
        "int | None",
        "str | None",
    )
)
_FIELD_NAMES: dict[type, tuple[str, ...]] = {}


def _field_names(cls: Any) -> tuple[str, ...]:
    names = _FIELD_NAMES.get(cls)
    if names is None:
        names = tuple(
            f.name for f in fields(cls) if f.metadata.get("child", True) and f.type not in _PLAIN
        )
        _FIELD_NAMES[cls] = names
    return names


_VALUES: dict[type, Callable[[Any], tuple[object, ...]]] = {}


def _values(cls: Any) -> Callable[[Any], tuple[object, ...]]:
    """What reads all fields of a node at once: a third of the time of reading them by name."""
    names = _field_names(cls)
    read: Callable[[Any], Any] = attrgetter(*names) if names else lambda node: ()
    _VALUES[cls] = (lambda node: (read(node),)) if len(names) == 1 else read
    return _VALUES[cls]


def children(node: Node) -> list[Node]:
    """The direct children of `node`, in the order of its fields."""
    found: list[Node] = []
    cls = type(node)
    for value in (_VALUES.get(cls) or _values(cls))(node):
        if isinstance(value, Node):
            found.append(value)
        elif isinstance(value, tuple):
            found += [item for item in value if isinstance(item, Node)]
    return found


def walk(node: Node) -> Iterator[Node]:
    """`node` and everything below it, parents first."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(children(node))


def map_children(node: N, change: Rewrite) -> N:
    """`node` with `change` applied to each direct child; the same object if nothing changed."""
    changed: dict[str, object] = {}
    for name in _field_names(type(node)):
        value = getattr(node, name)
        if isinstance(value, Node):
            new: object = change(value)
            if new is not value:
                changed[name] = new
        elif isinstance(value, tuple) and value:
            items = tuple(change(v) if isinstance(v, Node) else v for v in value)
            if any(a is not b for a, b in zip(items, value, strict=True)):
                changed[name] = items
    if not changed:
        return node
    everything = {f.name: getattr(node, f.name) for f in fields(node)}  # type: ignore[arg-type]
    return type(node)(**{**everything, **changed})


def bottom_up(rule: Rule) -> Rewrite:
    """Apply `rule` once to every node, children before parents."""

    def rewrite(node: Node) -> Node:
        node = map_children(node, rewrite)
        new = rule(node)
        return node if new is None else new

    return rewrite


def top_down(rule: Rule) -> Rewrite:
    """Apply `rule` to a node before its children; what it returns is not entered again."""

    def rewrite(node: Node) -> Node:
        new = rule(node)
        return map_children(node, rewrite) if new is None else new

    return rewrite


def first_of(*rules: Rule) -> Rule:
    """The first rule that has something to say."""

    def rule(node: Node) -> Node | None:
        for each in rules:
            new = each(node)
            if new is not None:
                return new
        return None

    return rule


def until_stable(rewrite: Rewrite) -> Rewrite:
    """Repeat `rewrite` until the tree stays the same object."""

    def settle(node: Node) -> Node:
        for _ in range(_MAX_ROUNDS):
            new = rewrite(node)
            if new is node:
                return node
            node = new
        raise InternalError(f"rewriting did not settle after {_MAX_ROUNDS} rounds: {node}")

    return settle


def substitute(node: N, table: dict[Node, Node]) -> N:
    """`node` with every subtree that is a key of `table` replaced by its value."""
    return cast(N, top_down(lambda n: table.get(n))(node)) if table else node
