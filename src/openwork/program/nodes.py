"""The program: a small imperative representation that C and CUDA are written from.

Types are names of element types ("int64", "float32", "bool", ...). Index arithmetic is int64
throughout and cannot overflow for tensors that fit in memory; arithmetic on elements is an `Apply`
of an operator of the algebra, in the operator's own types. Names are ours, never the user's.

    e ::= name | number | array[e] | e + e | ... | op(e, ...) | (type) e | helper(e, ...)
    s ::= type name = e; | name = e; | array[e] = e; | array[e] op= e; | { s ... }
        | for (...) s | while (e) s | if (e) s else s | allocate, grow, free | helper(e, ...);
"""

from __future__ import annotations

from dataclasses import dataclass

from openwork.algebra.operators import Op
from openwork.algebra.types import Number
from openwork.tree import Node

INDEX = "int64"


class Expr(Node):
    """A value; `+ - * / %` on expressions is int64 index arithmetic."""

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

    def __mod__(self, other: object) -> Expr:
        return arithmetic("%", self, expr(other))


@dataclass(frozen=True)
class Name(Expr):
    """A scalar variable."""

    name: str
    type: str = INDEX


@dataclass(frozen=True)
class Value(Expr):
    """A constant of an element type."""

    value: Number
    type: str = INDEX


@dataclass(frozen=True)
class Array(Node):
    """An array in memory; `array[e]` in Python builds a load."""

    name: str
    type: str

    def __getitem__(self, index: object) -> Load:
        return Load(self, expr(index))


@dataclass(frozen=True)
class Load(Expr):
    """`array[index]`"""

    array: Array
    index: Expr

    @property
    def type(self) -> str:  # type: ignore[override]
        """The element type of the array."""
        return self.array.type


@dataclass(frozen=True)
class Binary(Expr):
    """Index arithmetic or logic: `+ - * / % < <= == != && || min max`."""

    sign: str
    left: Expr
    right: Expr

    @property
    def type(self) -> str:  # type: ignore[override]
        """int64 for arithmetic, bool for comparisons and logic."""
        return INDEX if self.sign in _ARITHMETIC else "bool"


@dataclass(frozen=True)
class Apply(Expr):
    """An operator of the algebra on elements; arguments already have the operator's types."""

    op: Op
    args: tuple[Expr, ...]
    type: str


@dataclass(frozen=True)
class Convert(Expr):
    """`expr` converted to an element type."""

    expr: Expr
    type: str


@dataclass(frozen=True)
class Helper(Expr):
    """A call of one of the small functions that accompany generated code."""

    name: str
    args: tuple[Expr | Array, ...]
    type: str = INDEX


class Stmt(Node):
    """Something done."""


@dataclass(frozen=True)
class Block(Stmt):
    """Statements in order."""

    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class Declare(Stmt):
    """`type name = value;` a new scalar, `fixed` if it never changes."""

    name: Name
    value: Expr
    fixed: bool = False


@dataclass(frozen=True)
class Set(Stmt):
    """`name = value;`, or `name = op(name, value);`"""

    name: Name
    value: Expr
    op: Op | None = None


@dataclass(frozen=True)
class Store(Stmt):
    """`array[index] = value;`, or `array[index] = op(array[index], value);`"""

    array: Array
    index: Expr
    value: Expr
    op: Op | None = None


@dataclass(frozen=True)
class Balance(Node):
    """Cut a loop so that each thread has as many positions below it: `pos` says how many."""

    pos: Array


@dataclass(frozen=True)
class For(Stmt):
    """`for (var = begin; var < end; var++) body`

    `parallel`: threads share the iterations in contiguous runs, cut evenly or by `balance`, and
    each first does `private` (allocations) and at last `cleanup`. `simd`: no iteration depends on
    another. `unrolled`: the number of iterations is constant, and all are written out. `polls`:
    look at the interrupt flag before each iteration.
    """

    var: Name
    begin: Expr
    end: Expr
    body: Stmt
    comment: str = ""
    parallel: bool = False
    balance: Balance | None = None
    private: tuple[Stmt, ...] = ()
    cleanup: tuple[Stmt, ...] = ()
    simd: bool = False
    unrolled: bool = False
    polls: bool = False


@dataclass(frozen=True)
class While(Stmt):
    """`while (condition) body`"""

    condition: Expr
    body: Stmt
    comment: str = ""
    polls: bool = False


@dataclass(frozen=True)
class If(Stmt):
    """`if (condition) then else otherwise`"""

    condition: Expr
    then: Stmt
    otherwise: Stmt | None = None


@dataclass(frozen=True)
class Local(Stmt):
    """A small array of constant size, meant to stay in registers."""

    array: Array
    count: int


@dataclass(frozen=True)
class Allocate(Stmt):
    """A new local array of `count` elements, all zero bytes if `zeroed`."""

    array: Array
    count: Expr
    zeroed: bool = False


@dataclass(frozen=True)
class Grow(Stmt):
    """Make room for `needed` elements in every array of a list, at least doubling `capacity`.

    Each array gets `capacity * per + extra` elements; new memory is zeroed where `zeroed`.
    """

    capacity: Name
    needed: Expr
    arrays: tuple[Growing, ...]


@dataclass(frozen=True)
class Growing(Node):
    """An array that grows with a list, and how many elements it has per entry."""

    array: Array
    per: Expr
    extra: int = 0
    zeroed: bool = False


@dataclass(frozen=True)
class Free(Stmt):
    """Give an array back."""

    array: Array


@dataclass(frozen=True)
class Prefetch(Stmt):
    """Ask for the memory at `array[index]`, which will be needed soon."""

    array: Array
    index: Expr


@dataclass(frozen=True)
class Fail(Stmt):
    """Give up with a status, and hand nothing back."""

    status: int


@dataclass(frozen=True)
class Do(Stmt):
    """A helper called for its effect."""

    call: Helper


@dataclass(frozen=True)
class Comment(Stmt):
    """A line for the reader."""

    text: str


_ARITHMETIC = ("+", "-", "*", "/", "%", "min", "max")


def expr(value: object) -> Expr:
    """`value` as an expression."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, int):
        return Value(value)
    raise TypeError(f"{value!r} is not an expression")


def arithmetic(sign: str, left: Expr, right: Expr) -> Expr:
    """`left sign right` with the trivial cases computed: x + 0, x * 1, x * 0, x / 1, constants.

    Sums lean to the left, as compilers address memory best by a base and a constant offset.
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
        case "+", Value(value=int(a)), Value(value=int(b)):
            return Value(a + b)
        case "+", Binary(sign="-", left=other, right=Value(value=a)), Value(value=b) if a == b:
            return other
    return Binary(sign, left, right)


def compare(sign: str, left: object, right: object) -> Expr:
    """A comparison or logic of two expressions."""
    return Binary(sign, expr(left), expr(right))


def every(conditions: list[Expr]) -> Expr | None:
    """All of `conditions`, or None if there are none."""
    if not conditions:
        return None
    result = conditions[0]
    for condition in conditions[1:]:
        result = Binary("&&", result, condition)
    return result


def block(*parts: Stmt | None) -> Block:
    """Statements in order; nested blocks are flattened and None is left out."""
    body: list[Stmt] = []
    for part in parts:
        if isinstance(part, Block):
            body.extend(part.body)
        elif part is not None:
            body.append(part)
    return Block(tuple(body))


@dataclass(frozen=True)
class Argument(Node):
    """An array that comes with the call: which tensor's, which level's (-1: values), which one.

    `role` is "operand", "result" (written in place) or "made" (allocated by the kernel and handed
    back, with `count` elements).
    """

    array: Array
    tensor: str
    level: int
    name: str
    role: str
    count: Expr | None = None


@dataclass(frozen=True)
class Program(Node):
    """A kernel: the arrays and sizes it is called with, and what it does."""

    arguments: tuple[Argument, ...]
    sizes: tuple[Name, ...]  # extents, in the order of `size_vars`
    body: Block
    title: str = ""
