"""Elements: from index expressions at given coordinates to expressions of the program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from openwork.algebra.operators import AND, LT, NOT, OR, Op
from openwork.algebra.types import SUPPORTED, is_integer, is_record, is_unsigned, named, number
from openwork.errors import InternalError
from openwork.index import nodes as index
from openwork.program.nodes import Apply, Convert, Expr, Value

Read = Callable[[index.Access], Expr]
_NOTHING: Mapping[int, Expr] = MappingProxyType({})


def combine(op: Op, old: Expr, value: Expr) -> tuple[Expr, Op | None]:
    """The value to store for `old op= value`, and the operator that the store still applies.

    A store applies built-in operators itself; a user-defined operator is inlined into the value.
    """
    if op.definition is None:
        return value, op
    dtype = named(value.type)
    given = {0: old, 1: value}
    node = index.Apply(op, (index.Parameter(0, dtype), index.Parameter(1, dtype)))
    definition = index.definition_of(node)

    def read(access: index.Access) -> Expr:
        raise InternalError(f"{op} reads {access}")

    return converted(lower_value(definition, {}, read, given), value.type), None


def lower_value(
    expr: index.Expr,
    coords: Mapping[index.IndexVar, Expr],
    read: Read,
    given: Mapping[int, Expr] = _NOTHING,
) -> Expr:
    """`expr` at `coords` as an expression of the program; `read` gives the element of an access."""
    match expr:
        case index.Access():
            return read(expr)
        case index.Parameter(position=position):
            return given[position]
        case index.Literal() | index.Absent():
            dtype = expr.dtype
            return Value(number(expr.value, dtype), dtype.name)
        case index.IndexVar():
            return coords[expr]
        case index.Cast(to=to, expr=inner):
            return converted(lower_value(inner, coords, read, given), to.name)
        case index.Apply(op=op, args=args):
            if op.definition is not None:
                return lower_value(index.definition_of(expr), coords, read, given)
            kinds = [arg.kind for arg in args]
            lowered = tuple(
                converted(lower_value(arg, coords, read, given), op.argument_type(kinds, n).name)
                for n, arg in enumerate(args)
            )
            records = any(is_record(arg.type) for arg in lowered)
            if op.compares and lowered[0].type != lowered[1].type and not records:
                return _compared_exactly(op, *lowered)
            return Apply(op, lowered, expr.dtype.name)
    raise InternalError(f"no value for {expr}")


def _compared_exactly(op: Op, left: Expr, right: Expr) -> Expr:
    """A comparison of a signed with an unsigned integer: C would convert both to unsigned.

    A negative number is less than every unsigned one: s < 0 || (uint64)s < u.
    """
    if is_unsigned(left.type):
        return _compared_exactly(op.mirrored, right, left)
    rest = Apply(op, (converted(left, right.type), right), "bool")
    below = Apply(LT, (left, Value(0, left.type)), "bool")
    if op.when_less:
        return Apply(OR, (below, rest), "bool")
    return Apply(AND, (Apply(NOT, (below,), "bool"), rest), "bool")


def converted(value: Expr, type: str) -> Expr:
    """`value` converted to an element type; constants are converted right here."""
    if value.type == type:
        return value
    if isinstance(value, Value) and not isinstance(value.value, complex) and type in SUPPORTED:
        from_float_to_int = isinstance(value.value, float) and is_integer(type)
        if not from_float_to_int:
            return Value(number(value.value, SUPPORTED[type]), type)
    if isinstance(value, Value) and is_record(type):
        return Value(value.value, type)
    return Convert(value, type)


def applied(op: Op, old: Expr, value: Expr) -> Expr:
    """`op(old, value)` for elements of one type; a user-defined operator is inlined."""
    new, left = combine(op, old, value)
    return new if left is None else Apply(left, (old, new), old.type)
