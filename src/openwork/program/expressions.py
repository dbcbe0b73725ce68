"""Expressions of the program: index arithmetic, loads, operators of the algebra, helpers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from enum import Enum
from typing import cast

from openwork.algebra.operators import Op
from openwork.algebra.types import Number
from openwork.errors import InternalError
from openwork.format.layouts import Placement
from openwork.frozen import frozen
from openwork.program.helpers import HELPERS, Facts
from openwork.tree import Node, children, walk

INDEX = "int64"
Mentioned = tuple[frozenset[str], "frozenset[tuple[str, Role]]"]
_ARITHMETIC = ("+", "-", "*", "/", "%", "min", "max")


class Expr(Node):
    """A value; `+ - * / // %` on expressions is int64 index arithmetic, `< <= > &` are tests."""

    type: str

    def __add__(self, other: object) -> Expr:
        return arithmetic("+", self, expr(other))

    def __radd__(self, other: object) -> Expr:
        return arithmetic("+", expr(other), self)

    def __sub__(self, other: object) -> Expr:
        return arithmetic("-", self, expr(other))

    def __mul__(self, other: object) -> Expr:
        return arithmetic("*", self, expr(other))

    def __rmul__(self, other: object) -> Expr:
        return arithmetic("*", expr(other), self)

    def __truediv__(self, other: object) -> Expr:
        return arithmetic("/", self, expr(other))

    def __floordiv__(self, other: object) -> Expr:
        return arithmetic("/", self, expr(other))

    def __mod__(self, other: object) -> Expr:
        return arithmetic("%", self, expr(other))

    def __lt__(self, other: object) -> Expr:
        return compare("<", self, expr(other))

    def __le__(self, other: object) -> Expr:
        return compare("<=", self, expr(other))

    def __gt__(self, other: object) -> Expr:
        return compare("<", expr(other), self)

    def __and__(self, other: object) -> Expr:
        return Binary("&&", self, expr(other))


@frozen(repr=False)
class Name(Expr):
    """A scalar variable."""

    name: str
    type: str = INDEX


@frozen(repr=False)
class Value(Expr):
    """A constant of an element type."""

    value: Number
    type: str = INDEX


class Role(Enum):
    """What an array holds."""

    VALUE = "values"  # of a tensor or a workspace
    PARTIAL = "partial values"  # partial sums of some threads, combined later
    POSITION = "positions"  # of a level: where segments begin
    COORDINATE = "coordinates"  # of a level
    NUMBER = "numbers"  # of a level: lengths, offsets, flags
    START = "tile starts"  # found by an inspector, cached with the operand
    CUT = "cuts"  # where the pieces of loops and results begin, and lists of pieces
    TABLE = "a hash table"  # which moves when it grows
    SCRATCH = "scratch"  # temporary data of a kernel


@frozen(repr=False)
class Array(Node):
    """An array in memory; `array[e]` in Python builds a load.

    `role`: what it holds. `tensor`: the tensor or workspace that it belongs to, by its name in the
    code; "" for none. Arrays of the same name agree in both, so comparisons ignore them.
    `placement`: where the numbers of its elements lie, if not at the element's own place; addresses
    take its place once elements are numbers. `vectors`: declared as SIMD vectors of at most this
    many bytes; 0: as scalars.
    """

    name: str
    type: str
    role: Role = field(default=Role.SCRATCH, compare=False)
    tensor: str = field(default="", compare=False)
    placement: Placement | None = field(default=None, compare=False)
    vectors: int = 0

    def __getitem__(self, index: object) -> Expr:
        at = expr(index)
        if self.role is Role.POSITION and at == Value(0):
            return at  # the first segment begins at 0: every array is checked for it
        return Load(self, at)

    @property
    def stem(self) -> str:
        """The prefix of names for its elements and copies; for values, the tensor's name."""
        return self.tensor if self.role is Role.VALUE else self.name

    def of(self, tensor: str) -> Array:
        """The corresponding array of `tensor`."""
        name = tensor + self.name.removeprefix(self.tensor)
        return Array(name, self.type, self.role, tensor, self.placement, self.vectors)

    @property
    def stride(self) -> Name:
        """How far apart the numbers of an element are, where each has an array of its own."""
        return Name(f"{self.tensor}_stride")


@frozen(repr=False)
class Load(Expr):
    """`array[index]`"""

    array: Array
    index: Expr

    @property
    def type(self) -> str:  # type: ignore[override]
        """The element type of the array."""
        return self.array.type


@frozen(repr=False)
class Binary(Expr):
    """Index arithmetic or logic: `+ - * / % < <= == != && || min max`."""

    sign: str
    left: Expr
    right: Expr

    @property
    def type(self) -> str:  # type: ignore[override]
        """int64 for arithmetic, bool for comparisons and logic."""
        return INDEX if self.sign in _ARITHMETIC else "bool"


@frozen(repr=False)
class Apply(Expr):
    """An operator of the algebra applied to elements; arguments have the operator's types."""

    op: Op
    args: tuple[Expr, ...]
    type: str


@frozen(repr=False)
class Convert(Expr):
    """`expr` converted to an element type."""

    expr: Expr
    type: str


@frozen(repr=False)
class Helper(Expr):
    """A call of a small runtime function that accompanies the generated code."""

    name: str
    args: tuple[Expr | Array, ...]
    type: str = INDEX

    @property
    def facts(self) -> Facts:
        """The properties of the function."""
        known = HELPERS.get(self.name)
        if known is None:
            raise InternalError(f"no helper {self.name}")
        return known


def names_in(node: Node) -> frozenset[str]:
    """The names in `node`, used or declared."""
    known: Mentioned | None = node.__dict__.get("_mentioned")
    return (_mentioned(node) if known is None else known)[0]


def arrays_in(node: Node) -> frozenset[tuple[str, Role]]:
    """The arrays in `node`: their names, and what they hold."""
    known: Mentioned | None = node.__dict__.get("_mentioned")
    return (_mentioned(node) if known is None else known)[1]


def _mentioned(node: Node) -> Mentioned:
    """The names and the arrays in `node`; cached on it, since the statements around it ask, too."""
    names: set[str] = set()
    arrays: set[tuple[str, Role]] = set()
    if isinstance(node, (Expr, Array)):  # which may be deep, and is rarely asked for its parts
        for part in walk(node):
            kind = type(part)
            if kind is Name:
                names.add(cast(Name, part).name)
            elif kind is Array:
                array = cast(Array, part)
                arrays.add((array.name, array.role))
    else:
        for child in children(node):
            more = child.__dict__.get("_mentioned") or _mentioned(child)
            names |= more[0]
            arrays |= more[1]
    node.__dict__["_mentioned"] = known = frozenset(names), frozenset(arrays)
    return known


def expr(value: object) -> Expr:
    """`value` as an expression."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, int):
        return Value(value)
    raise TypeError(f"{value!r} is not an expression")


_CONSTANT: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b if a >= 0 else -(-a // b),  # towards zero, as in C
    "min": min,
    "max": max,
}


def arithmetic(sign: str, left: Expr, right: Expr) -> Expr:
    """`left sign right`, folding the trivial cases: x + 0, x * 1, x * 0, x / 1, constants.

    Sums associate to the left: compilers address memory best by a base and a constant offset.
    """
    match sign, left, right:
        case "+", _, Binary(sign="+", left=first, right=second):
            return arithmetic("+", arithmetic("+", left, first), second)
        case "+", Value(value=0), other:
            return other
        case (("+" | "-"), other, Value(value=0)):
            return other
        case "*", Value(value=0), _:
            return left
        case "*", _, Value(value=0):
            return right
        case "*", Value(value=1), other:
            return other
        case (("*" | "/"), other, Value(value=1)):
            return other
        case _, Value(value=int(a), type="int64"), Value(value=int(b), type="int64") if (
            sign in _CONSTANT and (b > 0 or sign != "/")
        ):
            return Value(_CONSTANT[sign](a, b))
        case "+", Binary(sign="-", left=other, right=Value(value=a)), Value(value=b) if a == b:
            return other
    return Binary(sign, left, right)


def compare(sign: str, left: object, right: object) -> Expr:
    """A comparison or logical operation on two expressions."""
    return Binary(sign, expr(left), expr(right))


def every(conditions: list[Expr]) -> Expr | None:
    """The conjunction of `conditions`, or None if there are none."""
    if not conditions:
        return None
    result = conditions[0]
    for condition in conditions[1:]:
        result = Binary("&&", result, condition)
    return result
