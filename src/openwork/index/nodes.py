"""The nodes of index notation.

Nodes compare by structure, because the compiler looks them up. Users hold terms (`terms.py`), which
wrap nodes and overload Python's operators.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import field, replace
from functools import cached_property
from typing import Any

from openwork.algebra import operators as ops
from openwork.algebra.entries import Entry
from openwork.algebra.operators import Op
from openwork.algebra.types import (
    INT64,
    UINT64,
    DType,
    Kind,
    Number,
    as_dtype,
    holds,
    strong,
)
from openwork.errors import InternalError, ParseError, Span
from openwork.format.formats import Format
from openwork.format.levels import Level
from openwork.frozen import frozen
from openwork.tree import Node, walk


class Expr(Node):
    """An expression: it has an element type."""

    @property
    def kind(self) -> Kind:
        """The element type, or the Python type of a weak number."""
        raise InternalError(f"{type(self).__name__} has no element type")

    @property
    def dtype(self) -> DType:
        """The element type of the value."""
        return strong(self.kind)


@frozen(repr=False)
class IndexVar(Expr):
    """An index variable; in an expression it stands for its coordinate, an int64."""

    name: str

    @property
    def kind(self) -> Kind:
        return INT64

    def __str__(self) -> str:
        return self.name


@frozen(repr=False)
class TensorVar(Node):
    """A tensor as expressions see it: name, format, element type, the value of absent entries.

    `shape` holds None for extents that are unknown until data is bound. `source` is the tensor with
    the data, if there is one; `copy_of` names the user's tensor that this one is a conversion of.
    Neither takes part in comparisons.
    """

    name: str
    format: Format
    dtype: DType
    fill: Number = 0
    shape: tuple[int | None, ...] = ()
    source: Any = field(default=None, compare=False, repr=False, metadata={"child": False})
    copy_of: str | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.shape) != self.format.ndim:
            raise InternalError(f"{self.name}: shape {self.shape} for {self.format.ndim} modes")

    def __hash__(self) -> int:
        return hash(self.name)  # tensors of one statement differ in their names

    def converted(self, mark: str, format: Format) -> TensorVar:
        """This tensor, converted before a kernel runs, as `A'mark`."""
        name, original = f"{self.name}'{mark}", self.copy_of or self.name
        return replace(self, name=name, format=format, source=None, copy_of=original)

    @property
    def ndim(self) -> int:
        """The number of modes."""
        return self.format.ndim

    def __str__(self) -> str:
        return self.name


@frozen(repr=False)
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

    def levels_along(self, variables: Container[IndexVar]) -> list[Level]:
        """The storage levels that `variables` index."""
        levels = zip(self.tensor.format.levels, self.level_vars, strict=True)
        return [level for level, var in levels if var in variables]

    def __str__(self) -> str:
        return f"{self.tensor}[{', '.join(map(str, self.vars))}]"


@frozen(repr=False)
class Affine(Node):
    """The coordinate `start + step * var`; `start` alone without a variable.

    `count`: of a window, the number of values that `var` takes; None where other accesses say.
    """

    start: int
    step: int = 0
    var: IndexVar | None = None
    count: int | None = None

    def __str__(self) -> str:
        if self.var is None:
            return str(self.start)
        if self.count is not None:
            stop = self.start + self.step * (self.count - 1) + 1
            return f"{self.var}({self.start},{stop}{f',{self.step}' * (self.step != 1)})"
        term = {1: f"{self.var}", -1: f"-{self.var}"}.get(self.step, f"{self.step}*{self.var}")
        sign = "-" if self.start < 0 else "+"
        return f"{term}{sign}{abs(self.start)}" if self.start else term


@frozen(repr=False)
class Selected(Expr):
    """An element of `tensor` at coordinates that need not be variables: `x(i+1)`, `A(rows(i), j)`.

    Each coordinate is a variable, an `Affine`, or an access to a tensor of integers. `border`: the
    value beyond the extents; None where nothing beyond them may be read.
    """

    tensor: TensorVar
    coordinates: tuple[IndexVar | Affine | Access, ...]
    border: Number | None = None
    span: Span | None = field(default=None, compare=False, repr=False, metadata={"child": False})

    @property
    def kind(self) -> Kind:
        return self.tensor.dtype

    def __str__(self) -> str:
        text = f"{self.tensor}[{', '.join(map(str, self.coordinates))}]"
        return text if self.border is None else f"border({text}, {self.border!r})"


@frozen(repr=False)
class Literal(Expr):
    """A number. A Python number is weak (`typed` is None); a NumPy scalar keeps its type."""

    value: Number
    typed: DType | None = None

    @property
    def kind(self) -> Kind:
        if self.typed is not None:
            return self.typed
        return as_dtype(bool) if isinstance(self.value, bool) else type(self.value)

    @property
    def dtype(self) -> DType:
        """The element type of the value; that of a Python number is wide enough for it."""
        kind = self.kind
        return UINT64 if kind is int and not holds(INT64, self.value) else strong(kind)

    def __eq__(self, other: object) -> bool:
        # 1 and 1.0 and True are different literals, and a NaN is the same literal as itself.
        return isinstance(other, Literal) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    @cached_property
    def _text(self) -> str:
        return repr(self)

    def __str__(self) -> str:
        return repr(self.value) if self.typed is None else f"{self.typed}({self.value!r})"


@frozen(repr=False)
class Absent(Expr):
    """The value of an entry that is not stored: it obeys operators' laws, not IEEE arithmetic.

    Users never write it. The compiler uses it to simplify an expression where an operand has no
    entry.
    """

    value: Number
    typed: DType

    @property
    def kind(self) -> Kind:
        return self.typed

    def __str__(self) -> str:
        return f"absent({self.value!r})"


@frozen(repr=False)
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

    @property
    def commutes(self) -> bool:
        """Whether the arguments may change places: records need not commute in products."""
        kinds = (arg.kind for arg in self.args) if self.op.multiplies else ()
        return self.op.commutes and all(not isinstance(k, Entry) or k.commutes for k in kinds)

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


@frozen(repr=False)
class Cast(Expr):
    """`expr` converted to an element type."""

    to: DType
    expr: Expr

    @property
    def kind(self) -> Kind:
        return self.to

    def __str__(self) -> str:
        return f"{self.to}({self.expr})"


@frozen(repr=False)
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
        if self.op.commutes and not Apply(self.op, (self.expr, self.expr)).commutes:
            raise ParseError(
                f"{self.op} of {self.expr.dtype} depends on the order of factors, so it cannot "
                "reduce: loops have no order that a statement could rely on",
                code="E111",
                span=self.span,
                hint="multiply by one factor after the other, each in a statement of its own",
            )

    @cached_property
    def _kind(self) -> Kind:
        return Apply(self.op, (self.expr, self.expr)).dtype  # "or" over numbers gives a bool

    @property
    def kind(self) -> Kind:
        return self._kind

    def __str__(self) -> str:
        return f"{'sum' if self.op is ops.ADD else self.op}({self.var}, {self.expr})"


@frozen(repr=False)
class Parameter(Expr):
    """Argument `position` of a user's operator, in the expression that defines it."""

    position: int
    typed: DType | None = None

    @property
    def kind(self) -> Kind:
        return INT64 if self.typed is None else self.typed

    def __str__(self) -> str:
        return f"${self.position}"


@frozen(repr=False)
class Assignment(Node):
    """`lhs = rhs`, or `lhs op= rhs` when `op` is given."""

    lhs: Access
    rhs: Expr
    op: Op | None = None
    span: Span | None = field(default=None, compare=False, repr=False, metadata={"child": False})

    def __str__(self) -> str:
        sign = "=" if self.op is None else f"{self.op.symbol or self.op.name}="
        return f"{self.lhs} {sign} {self.rhs}"


def apply(op: Op, *args: Expr, span: Span | None = None) -> Apply:
    """`op` applied to expressions, with its types and literals checked.

    Raises:
        ParseError: E108 if `op` does not exist for these types, E112 for a number that the type of
            the other operand cannot hold.
    """
    node = Apply(op, args, span)
    _ = node.kind
    if op.definition is not None or not any(isinstance(arg, Literal) for arg in args):
        return node
    kinds = [arg.kind for arg in args]
    checked = tuple(
        _fitted(op, op.argument_type(kinds, n), arg) if isinstance(arg, Literal) else arg
        for n, arg in enumerate(args)
    )
    if op.natural is not None and node.dtype.kind in "iu" and not _is_open(node):
        check_natural(op, checked[op.natural], span)
    return node if checked == args else Apply(op, checked, span)


def _fitted(op: Op, to: DType, literal: Literal) -> Literal:
    """A Python number as an element of `to`; in a comparison, it may have another type."""
    value = literal.value
    if isinstance(to, Entry) and op.selects and not to.has(value):
        raise ParseError(
            f"{value} is no {to.family}", code="E112", hint="only 0 is an entry of every type"
        )
    if literal.typed is not None or not isinstance(value, int) or holds(to, value):
        return literal
    if op.compares:
        return Literal(value, INT64 if holds(INT64, value) else UINT64)
    raise ParseError(
        f"{value} does not fit into {to}",
        code="E112",
        hint=f"convert the other operand: ow.cast('int64', ...), or the number: np.{to}(...)",
    )


def check_natural(op: Op, argument: Expr, span: Span | None = None) -> None:
    """Refuse a negative number where integers have none: `n ** -1`."""
    if isinstance(argument, Literal) and argument.value.real < 0:
        raise ParseError(
            f"{op} of integers takes no negative exponent, as in NumPy: {argument.value}",
            code="E108",
            span=span,
            hint="compute with floats: ow.cast('float64', e) ** -1, or 1 / e",
        )


def check_condition(condition: Expr) -> None:
    """Refuse a condition that Python has evaluated already: `ow.select(1 < 2, x, y)`."""
    if isinstance(condition, Literal) and isinstance(condition.value, bool):
        raise ParseError(
            f"the condition is the constant {condition.value}",
            code="E112",
            hint="compare elements or index variables, as in ow.select(i == j, x, y); "
            "`is`, `and`, `or` and `not` are Python's own and build no expression",
        )


def _is_open(expr: Node) -> bool:
    """Whether the types in `expr` are not known yet: it defines an operator."""
    return any(isinstance(node, Parameter) and node.typed is None for node in walk(expr))


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
            return apply(op, *(fill_parameters(arg, args) for arg in inner))
        case Cast(to=to, expr=inner):
            return Cast(to, fill_parameters(inner, args))
    return expr
