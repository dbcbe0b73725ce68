"""Immutable trees, and the few combinators that rewrite them.

Every representation in Openwork (index notation, loops, program) is made of frozen dataclasses
derived from `Node`. A rule maps a node to its replacement, or to None when it does not apply; an
unchanged tree comes back as the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import fields
from operator import is_
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from openwork.errors import InternalError


class Node:
    """A tree node: a frozen dataclass whose children are its `Node` fields and tuples of them."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        """Hash every node once: `dataclass` keeps a method that the class has itself."""
        super().__init_subclass__()
        if "__hash__" not in cls.__dict__:
            cls.__hash__ = Node.__hash__  # type: ignore[method-assign]

    def __hash__(self) -> int:
        held = self.__dict__
        known: int | None = held.get("_hash")
        if known is None:
            known = held["_hash"] = hash(tuple([held[name] for name in _compared(type(self))]))
        return known

    def __repr__(self) -> str:
        """What a dataclass would write: one method for all, since making methods is slow."""
        held = ", ".join(f"{name}={value!r}" for name, value in self.__getstate__().items())
        return f"{type(self).__qualname__}({held})"

    def __getstate__(self) -> dict[str, object]:
        """Pickle the fields, without what is cached on the node."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy field by field: the default of `copy` recurses too deeply on a long sum."""
        made = object.__new__(type(self))
        for name, value in self.__getstate__().items():
            parts = [deepcopy(v, memo) for v in value] if type(value) is tuple else None
            made.__dict__[name] = deepcopy(value, memo) if parts is None else tuple(parts)
        return made


N = TypeVar("N", bound=Node)
Rule = Callable[[Node], "Node | None"]
Rewrite = Callable[[Node], Node]

_MAX_ROUNDS = 50


# Declared types of fields that hold no nodes; most nodes are names and numbers.
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
        "Role",
        "int | None",
        "str | None",
    )
)
_ALL_FIELDS: dict[type, tuple[str, ...]] = {}
_FIELD_NAMES: dict[type, tuple[str, ...]] = {}
_COMPARED: dict[type, tuple[str, ...]] = {}


def _compared(cls: Any) -> tuple[str, ...]:
    """The fields that decide whether two nodes are equal."""
    names = _COMPARED.get(cls)
    if names is None:
        names = _COMPARED[cls] = tuple(f.name for f in fields(cls) if f.compare)
    return names


def _field_names(cls: Any) -> tuple[str, ...]:
    """The fields that may hold nodes."""
    names = _FIELD_NAMES.get(cls)
    if names is None:
        names = tuple(
            f.name for f in fields(cls) if f.metadata.get("child", True) and f.type not in _PLAIN
        )
        _ALL_FIELDS[cls] = tuple(f.name for f in fields(cls))
        _FIELD_NAMES[cls] = names
    return names


def children(node: Node) -> tuple[Node, ...]:
    """The direct children of `node`, in the order of its fields.

    Cached on the node: trees are immutable, and traversed far more often than built.
    """
    known: tuple[Node, ...] | None = node.__dict__.get("_children")
    return _find_children(node) if known is None else known


def _find_children(node: Node) -> tuple[Node, ...]:
    held, kind = node.__dict__, type(node)
    names = _FIELD_NAMES.get(kind)
    found: list[Node] = []
    for name in _field_names(kind) if names is None else names:
        value = held[name]
        if isinstance(value, Node):
            found.append(value)
        elif isinstance(value, tuple):
            found += [item for item in value if isinstance(item, Node)]
    held["_children"] = below = tuple(found)
    return below


def walk(node: Node) -> Iterator[Node]:
    """`node` and everything below it, parents first.

    Cached on the node, because the same tree is traversed many times, and a rewritten one has many
    of its old parts.
    """
    known: tuple[Node, ...] | None = node.__dict__.get("_below")
    return iter(_walk(node) if known is None else known)


def _walk(root: Node) -> tuple[Node, ...]:
    waiting = [root]
    seen: list[Node] = []
    while waiting:
        node = waiting.pop()
        held = node.__dict__
        below = held.get("_below")
        if below is not None:
            seen += below
            continue
        seen.append(node)
        below = held.get("_children")
        if below is None:
            below = _find_children(node)
        if below:
            waiting += below[::-1]
    root.__dict__["_below"] = found = tuple(seen)
    return found


def map_children(node: N, change: Rewrite) -> N:
    """`node` with `change` applied to each direct child; the same object if nothing changed."""
    held = node.__dict__
    below = held.get("_children")
    if below is None:
        below = _find_children(node)
    if not below:
        return node
    new = [change(child) for child in below]
    if all(map(is_, new, below)):
        return node
    kind, rest = type(node), iter(new)
    names = _field_names(kind)
    changed = {name: held[name] for name in _ALL_FIELDS[kind]}
    for name in names:
        value = changed[name]
        if isinstance(value, Node):
            changed[name] = next(rest)
        elif isinstance(value, tuple):
            changed[name] = tuple([next(rest) if isinstance(v, Node) else v for v in value])
    if hasattr(kind, "__post_init__"):
        return kind(**changed)
    made = object.__new__(kind)  # sets a frozen field in a third of the time
    made.__dict__.update(changed)
    return made


if TYPE_CHECKING:
    from dataclasses import replace as replace  # which type checkers know
else:

    def replace(value, /, **changes):
        """What `dataclasses.replace` makes, in a fifth of the time.

        For classes without slots, whose `__init__` is that of a dataclass.
        """
        held, made = value.__dict__, object.__new__(type(value))
        kind, new = type(value), made.__dict__
        if kind not in _ALL_FIELDS:
            _field_names(kind)
        for name in _ALL_FIELDS[kind]:  # and nothing that is cached beside them
            new[name] = held[name]
        count = len(new)
        new.update(changes)
        if len(new) != count:
            raise TypeError(f"not all fields of {kind.__name__}: {', '.join(changes)}")
        if hasattr(kind, "__post_init__"):
            made.__post_init__()
        return made


def bottom_up(rule: Rule) -> Rewrite:
    """Apply `rule` once to every node, children before parents."""

    def rewrite(node: Node) -> Node:
        below = node.__dict__.get("_children")
        if below is None or below:
            node = map_children(node, rewrite)
        new = rule(node)
        return node if new is None else new

    return rewrite


def top_down(rule: Rule) -> Rewrite:
    """Apply `rule` to a node before its children; a replacement is not traversed again."""

    def rewrite(node: Node) -> Node:
        new = rule(node)
        return map_children(node, rewrite) if new is None else new

    return rewrite


def first_of(*rules: Rule) -> Rule:
    """The first of `rules` that applies."""

    def rule(node: Node) -> Node | None:
        for each in rules:
            new = each(node)
            if new is not None:
                return new
        return None

    return rule


def repeated(rule: Rule) -> Rule:
    """Apply `rule` at one node for as long as it applies."""

    def again(node: Node) -> Node | None:
        new = rule(node)
        for _ in range(_MAX_ROUNDS):
            more = None if new is None else rule(new)
            if more is None:
                return new
            new = more
        raise InternalError(f"rewriting did not settle after {_MAX_ROUNDS} rounds: {node}")

    return again


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
    if not table:
        return node
    kinds = frozenset(map(type, table))  # hashing a tree costs more than asking for its type
    return cast(N, top_down(lambda n: table.get(n) if type(n) in kinds else None)(node))
