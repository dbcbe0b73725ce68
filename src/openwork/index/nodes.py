"""The nodes of index notation.

Expressions are built by Python's operators on accesses, index variables and numbers. Nodes
compare by structure, so `==` between expressions is equality of nodes; `ow.eq(a, b)` compares
elements.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from openwork.algebra import operators as ops
from openwork.algebra.operators import Op
from openwork.algebra.types import INT64, DType, Kind, Number, as_dtype, strong
from openwork.errors import InternalError, ParseError, Span
from openwork.format.formats import Format
from openwork.tree import Node


class Expr(Node):
    """An expression: has an element type, and combines with others by Python's operators."""

    __array_ufunc__ = None  # NumPy hands `array * expr` to us instead of looping over it

    @property
    def kind(self) -> Kind:
        """The element type, or the Python type of a number that has not met an array yet."""
        raise InternalError(f"{type(self).__name__} has no element type")

    @property
    def dtype(self) -> DType:
        """The element type of the value."""
        return strong(self.kind)

    def __openwork_apply__(self, op: Op, args: Sequence[object]) -> Expr:
        return Apply(op, tuple(as_expr(arg) for arg in args))

    def __add__(self, other: object) -> Expr:
        return apply(ops.ADD, self, other)

    def __radd__(self, other: object) -> Expr:
        return apply(ops.ADD, other, self)

    def __sub__(self, other: object) -> Expr:
        return apply(ops.SUB, self, other)

    def __rsub__(self, other: object) -> Expr:
        return apply(ops.SUB, other, self)

    def __mul__(self, other: object) -> Expr:
        return apply(ops.MUL, self, other)

    def __rmul__(self, other: object) -> Expr:
        return apply(ops.MUL, other, self)

    def __truediv__(self, other: object) -> Expr:
        return apply(ops.DIV, self, other)

    def __rtruediv__(self, other: object) -> Expr:
        return apply(ops.DIV, other, self)

    def __pow__(self, other: object) -> Expr:
        return apply(ops.POW, self, other)

    def __rpow__(self, other: object) -> Expr:
        return apply(ops.POW, other, self)

    def __and__(self, other: object) -> Expr:
        return apply(ops.AND, self, other)

    def __rand__(self, other: object) -> Expr:
        return apply(ops.AND, other, self)

    def __or__(self, other: object) -> Expr:
        return apply(ops.OR, self, other)

    def __ror__(self, other: object) -> Expr:
        return apply(ops.OR, other, self)

    def __xor__(self, other: object) -> Expr:
        return apply(ops.XOR, self, other)

    def __rxor__(self, other: object) -> Expr:
        return apply(ops.XOR, other, self)

    def __lt__(self, other: object) -> Expr:
        return apply(ops.LT, self, other)

    def __le__(self, other: object) -> Expr:
        return apply(ops.LE, self, other)

    def __gt__(self, other: object) -> Expr:
        return apply(ops.GT, self, other)

    def __ge__(self, other: object) -> Expr:
        return apply(ops.GE, self, other)

    def __neg__(self) -> Expr:
        return apply(ops.NEG, self)

    def __abs__(self) -> Expr:
        return apply(ops.ABS, self)

    def __bool__(self) -> bool:
        raise ParseError(
            "an expression has no truth value",
            code="E112",
            hint="compare elements with ow.select(a < b, x, y); `==` compares nodes",
        )


@dataclass(frozen=True, eq=True)
class IndexVar(Expr):
    """An index variable; in an expression it stands for its coordinate, an int64."""

    name: str

    @property
    def kind(self) -> Kind:
        return INT64

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class TensorVar(Node):
    """A tensor as expressions see it: name, format, element type, the value of absent entries.

    `shape` may hold None for extents that are only known when data is bound. `source` is the
    tensor with the data, if there is one; it is no part of the identity.
    """

    name: str
    format: Format
    dtype: DType
    fill: Number = 0
    shape: tuple[int | None, ...] = ()
    source: Any = field(default=None, compare=False, repr=False, metadata={"child": False})

    def __post_init__(self) -> None:
        if len(self.shape) != self.format.ndim:
            raise InternalError(f"{self.name}: shape {self.shape} for {self.format.ndim} modes")

    def __hash__(self) -> int:
        return hash(self.name)  # tensors of one statement differ in their names

    @property
    def ndim(self) -> int:
        """The number of modes."""
        return self.format.ndim

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Access(Expr):
    """The element of `tensor` at coordinates `vars`: written `A[i, j]`.

    Invariant: one variable per mode.
    """

    tensor: TensorVar
    vars: tuple[IndexVar, ...]
    span: Span | None = field(default=None, compare=False, repr=False, metadata={"child": False})

    def __post_init__(self) -> None:
        if len(self.vars) != self.tensor.ndim:
            raise InternalError(f"{self.tensor} has {self.tensor.ndim} modes, got {self.vars}")

    @property
    def kind(self) -> Kind:
        return self.tensor.dtype

    @cached_property
    def level_vars(self) -> tuple[IndexVar, ...]:
        """The variables in the order of the storage levels."""
        return tuple(self.vars[mode] for mode in self.tensor.format.order)

    def __str__(self) -> str:
        return f"{self.tensor}[{', '.join(map(str, self.vars))}]"


@dataclass(frozen=True)
class Literal(Expr):
    """A number. A Python number is weak (`typed` is None); a NumPy scalar keeps its type."""

    value: Number
    typed: DType | None = None

    @property
    def kind(self) -> Kind:
        if self.typed is not None:
            return self.typed
        return as_dtype(bool) if isinstance(self.value, bool) else type(self.value)

    def __eq__(self, other: object) -> bool:
        # 1 and 1.0 and True are different literals, and a NaN is the same literal as itself.
        return isinstance(other, Literal) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __str__(self) -> str:
        return repr(self.value) if self.typed is None else f"{self.typed}({self.value!r})"


@dataclass(frozen=True)
class Absent(Expr):
    """The value of an entry that is not stored: it obeys operators' laws, not IEEE arithmetic.

    Users never write it; it appears while the compiler works out what is left of an expression
    where an operand has no entry.
    """

    value: Number
    typed: DType

    @property
    def kind(self) -> Kind:
        return self.typed

    def __str__(self) -> str:
        return f"absent({self.value!r})"


@dataclass(frozen=True)
class Apply(Expr):
    """An operator applied to expressions."""

    op: Op
    args: tuple[Expr, ...]
    span: Span | None = field(default=None, compare=False, repr=False, metadata={"child": False})

    def __post_init__(self) -> None:
        if len(self.args) != self.op.arity:
            raise ParseError(
                f"{self.op} takes {self.op.arity} arguments, got {len(self.args)}",
                code="E102",
                span=self.span,
            )

    @cached_property
    def _kind(self) -> Kind:
        kinds = [arg.kind for arg in self.args]
        if self.op.definition is not None:
            return definition_of(self).kind
        return self.op.result(kinds)

    @property
    def kind(self) -> Kind:
        return self._kind

    def __str__(self) -> str:
        return f"{self.op}({', '.join(map(str, self.args))})"


@dataclass(frozen=True)
class Cast(Expr):
    """`expr` converted to an element type."""

    to: DType
    expr: Expr

    @property
    def kind(self) -> Kind:
        return self.to

    def __str__(self) -> str:
        return f"{self.to}({self.expr})"


@dataclass(frozen=True)
class Reduce(Expr):
    """`expr` combined by `op` over every value of `var`: `sum(j, e)` is `Reduce(ADD, j, e)`."""

    op: Op
    var: IndexVar
    expr: Expr
    span: Span | None = field(default=None, compare=False, repr=False, metadata={"child": False})

    def __post_init__(self) -> None:
        if self.op.arity != 2 or self.op.identity is None or not self.op.associates:
            raise ParseError(
                f"{self.op} cannot reduce: it needs two arguments, an identity and associativity",
                code="E111",
                span=self.span,
                hint="declare them: ow.operator(..., identity=..., associative=True)",
            )

    @cached_property
    def _kind(self) -> Kind:
        return Apply(self.op, (self.expr, self.expr)).dtype  # "or" over numbers gives a bool

    @property
    def kind(self) -> Kind:
        return self._kind

    def __str__(self) -> str:
        return f"{'sum' if self.op is ops.ADD else self.op}({self.var}, {self.expr})"


@dataclass(frozen=True)
class Parameter(Expr):
    """Argument `position` of a user's operator, in the expression that defines it."""

    position: int
    typed: DType | None = None

    @property
    def kind(self) -> Kind:
        return INT64 if self.typed is None else self.typed

    def __str__(self) -> str:
        return f"${self.position}"


@dataclass(frozen=True)
class Assignment(Node):
    """`lhs = rhs`, or `lhs op= rhs` when `op` is given."""

    lhs: Access
    rhs: Expr
    op: Op | None = None
    span: Span | None = field(default=None, compare=False, repr=False, metadata={"child": False})

    def __str__(self) -> str:
        sign = "=" if self.op is None else f"{self.op.symbol or self.op.name}="
        return f"{self.lhs} {sign} {self.rhs}"


def as_expr(value: object) -> Expr:
    """`value` as an expression: expressions as they are, numbers as literals."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, np.generic):
        return Literal(value.item(), as_dtype(value.dtype))
    if isinstance(value, (bool, float, complex)):
        return Literal(value)
    if isinstance(value, numbers.Integral):
        if not -(2**63) <= int(value) < 2**64:
            raise ParseError("an integer of more than 64 bits", code="E112", hint="use a float")
        return Literal(int(value))
    access = getattr(value, "__openwork_access__", None)
    if access is not None:
        scalar = access(())
        if isinstance(scalar, Expr):
            return scalar
    raise ParseError(
        f"{type(value).__name__} cannot stand in an expression",
        code="E112",
        hint="wrap arrays with ow.tensor(...) and access them: x[i]",
    )


def apply(op: Op, *args: object) -> Expr:
    """`op` applied to expressions and numbers; the types are checked at once."""
    node = Apply(op, tuple(as_expr(arg) for arg in args))
    _ = node.kind
    return node


def definition_of(node: Apply) -> Expr:
    """The expression that a user's operator stands for, with the arguments filled in."""
    if not isinstance(node.op.definition, Expr):
        raise InternalError(f"{node.op} has no definition")
    return fill_parameters(node.op.definition, node.args)


def fill_parameters(expr: Expr, args: tuple[Expr, ...]) -> Expr:
    """`expr` with each parameter replaced by the argument at its position."""
    match expr:
        case Parameter(position=n):
            return args[n]
        case Apply(op=op, args=inner):
            return Apply(op, tuple(fill_parameters(arg, args) for arg in inner))
        case Cast(to=to, expr=inner):
            return Cast(to, fill_parameters(inner, args))
    return expr
