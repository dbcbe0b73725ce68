"""Immutable trees: a copy with other fields is the node that its class would make."""

from __future__ import annotations

from dataclasses import dataclass, replace as checked
from functools import cached_property

import pytest

from openwork.tree import Node, children, replace, walk


@dataclass(frozen=True)
class Leaf(Node):
    """A node with a number."""

    number: int


@dataclass(frozen=True)
class Pair(Node):
    """A node with two children, and something cached."""

    left: Node
    right: Node

    @cached_property
    def sizes(self) -> int:
        return len(list(walk(self)))


@dataclass(frozen=True)
class Even:
    """A class that checks its field."""

    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ValueError("odd")


def test_nothing_cached_is_copied() -> None:
    pair = Pair(Leaf(1), Leaf(2))
    assert pair.sizes == 3 and hash(pair) and len(children(pair)) == 2
    made = replace(pair, right=pair)
    wanted = checked(pair, right=pair)
    assert made == wanted and hash(made) == hash(wanted)
    assert made.sizes == 5 and children(made) == (Leaf(1), pair)
    assert pair == Pair(Leaf(1), Leaf(2))


def test_only_fields_can_be_replaced() -> None:
    with pytest.raises(TypeError, match="not all fields of Leaf: nmber"):
        replace(Leaf(1), nmber=2)


def test_checks_are_made_again() -> None:
    assert replace(Even(2), number=4) == Even(4)
    with pytest.raises(ValueError, match="odd"):
        replace(Even(2), number=3)
