"""What expressions become while they are lowered: numbers, pairs, views of arrays, late reductions.

A view computes its elements where they are asked for, so that patterns fuse by themselves. It runs
over places `begin`, `begin + step`, ... of what it was made from: the rows of a flat array are
ranges of its places, as in loops written by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from openwork.frozen import frozen
from openwork.program import nodes as p
from openwork.skeletons.language.nodes import Atom, Fn, Nat, divided, nat

ONE = nat(1)
WEAK: dict[type, str] = {int: "int64", float: "float64", bool: "bool"}  # Python's numbers


@frozen(repr=False)
class Code(Atom):
    """An index that the program computes."""

    name: str
    expr: p.Expr

    def __str__(self) -> str:
        return self.name


class Value:
    """The value of an expression."""


@frozen
class Number(Value):
    """A scalar; `weak`: a Python number, which takes the type of what it meets."""

    expr: p.Expr
    weak: bool = False


@frozen
class Two(Value):
    """A pair."""

    first: Value
    second: Value


@frozen
class View(Value):
    """An array: the elements at the places `begin`, `begin + step`, ... below `end`.

    `how`: on which unit its elements are computed. `outer`: the array of arrays that is joined.
    """

    begin: Nat
    end: Nat
    at: Callable[[Nat], Value]
    length: Nat
    step: Nat = ONE
    how: str = ""
    outer: View | None = None

    def get(self, index: Nat) -> Value:
        """The element of this index."""
        return self.at(self.begin + index * self.step)

    def index(self, place: Nat) -> Nat:
        """The index of the element at a place."""
        return divided(place - self.begin, self.step)

    def mapped(self, change: Callable[[Value], Value], how: str = "") -> View:
        """The array of changed elements."""
        outer = None
        if self.outer is not None:
            outer = self.outer.mapped(lambda row: _rows(row).mapped(change), self.outer.how)
        return View(
            self.begin, self.end, lambda place: change(self.at(place)), self.length, self.step,
            how or self.how, outer,
        )  # fmt: skip

    def from_zero(self) -> View:
        """The same array, whose places are its indices."""
        if not self.begin.terms and self.step == nat(1):
            return self
        return View(nat(0), self.length, self.get, self.length, how=self.how)


@frozen
class Late(Value):
    """A reduction that is not computed yet: another one may go on with its sum."""

    fn: Fn
    init: Value
    view: View
    how: str
    env: Mapping[str, Value]


def _rows(value: Value) -> View:
    assert isinstance(value, View)  # noqa: S101 - the checker knows
    return value


def zipped(one: View, other: View) -> View:
    """Two arrays of one length as one; over the same places, if they have the same."""
    how = one.how or other.how
    if one.outer is not None and other.outer is not None:
        outer = zipped(one.outer, other.outer)
        pairs = outer.mapped(lambda t: zipped(_rows(_two(t).first), _rows(_two(t).second)))
        return View(
            one.begin, one.end, lambda place: Two(one.at(place), other.at(place)), one.length,
            how=how, outer=pairs,
        )  # fmt: skip
    if (one.begin, one.end, one.step) != (other.begin, other.end, other.step):
        one, other = one.from_zero(), other.from_zero()
    return View(
        one.begin, one.end, lambda place: Two(one.at(place), other.at(place)), one.length,
        one.step, how,
    )  # fmt: skip


def numbers_in(value: Value) -> list[p.Expr]:
    """The numbers of a value; none where it has other parts."""
    match value:
        case Number(expr=expr):
            return [expr]
        case Two(first=first, second=second):
            one, other = numbers_in(first), numbers_in(second)
            return [*one, *other] if one and other else []
    return []


def _two(value: Value) -> Two:
    assert isinstance(value, Two)  # noqa: S101 - the checker knows
    return value


Env = Mapping[str, Value]


def type_of(value: object) -> type:
    """The type of a Python number."""
    return bool if isinstance(value, bool) else float if isinstance(value, float) else int
