"""What is left of an expression where operands are absent, by the operators' laws alone."""

from __future__ import annotations

from collections.abc import Collection

from openwork.algebra.meaning import stays
from openwork.algebra.operators import Op
from openwork.algebra.types import DType, Kind, Number, number, strong
from openwork.index.nodes import Absent, Access, Apply, Cast, Expr, Literal, Parameter, Reduce
from openwork.tree import Node, map_children


def without(expr: Expr, absent: Collection[Access]) -> Expr:
    """`expr` at a coordinate where the accesses in `absent` have no entry.

    `b * absent(0)` is `absent(0)`, `b + absent(0)` is `b`, `cos(absent(0))` is `absent(1)`: a
    result that is `Absent` needs no computation at all.
    """

    def left(node: Node) -> Node:
        if isinstance(node, Access):
            if node in absent:
                return Absent(number(node.tensor.fill, node.dtype), node.dtype)
            return node
        node = map_children(node, left)
        new = _left(node)
        return node if new is None else new

    new = left(expr)
    assert isinstance(new, Expr)  # noqa: S101 - the rules map expressions to expressions
    return new


def _left(node: Node) -> Node | None:
    """What is left of an expression, some of whose arguments may be absent; None: all of it."""
    match node:
        case Apply(op=op, args=args):
            kinds_of = set(map(type, args))
            if Absent in kinds_of:
                return _apply(op, args, node)
            if kinds_of <= {Literal}:  # constant folding
                values = [arg.value for arg in args if isinstance(arg, Literal)]
                kinds = [arg.kind for arg in args]
                return Literal(op.compute(values, kinds, node.dtype), node.dtype)
        case Cast(to=to, expr=Absent(value=value)):
            return Absent(number(value, to), to)
        case Cast(to=to, expr=Literal(value=value)):
            return Literal(number(value, to), to)
        case Reduce(op=op, expr=Absent(value=value, typed=typed)):
            if value == op.identity_of(typed):
                return Absent(value, typed)
            return Reduce(op, node.var, Literal(value, typed))
    return None


def applied(node: Apply, args: tuple[Expr, ...]) -> Expr:
    """What is left of an application if its arguments are `args`, some of them absent."""
    if any(isinstance(arg, Absent) for arg in args):
        return _apply(node.op, args, node)
    return Apply(node.op, args, node.span)


def _apply(op: Op, args: tuple[Expr, ...], node: Apply) -> Expr:
    """The application `node` with at least one absent argument."""
    result = node.dtype
    kinds = [arg.kind for arg in args]
    # Laws hold for the values that the operator sees, so arguments are converted first.
    seen = tuple(
        converted(arg, _argument_type(op, kinds, n)) if isinstance(arg, Absent) else arg
        for n, arg in enumerate(args)
    )
    for position, arg in enumerate(seen):
        law = _annihilator(op, position, arg) if isinstance(arg, Absent) else None
        if law is not None:  # an infinity is the extreme value of the result's type, too
            return Absent(number(law, result), result)
    if all(isinstance(arg, (Absent, Literal)) for arg in args):
        values = [arg.value for arg in args if isinstance(arg, (Absent, Literal))]
        return Absent(op.compute(values, kinds, result), result)
    if op.selects and isinstance(seen[0], Absent):
        picked = args[1] if seen[0].value else args[2]
        if isinstance(picked, Literal):  # as if the branch not taken were absent
            return Absent(number(picked.value, result), result)
        return converted(picked, result)
    if len(args) == 2:
        for position, arg in enumerate(seen):
            other = args[1 - position].kind
            if isinstance(arg, Absent) and _is_identity(op, position, arg) and stays(other, result):
                return converted(args[1 - position], result)
    return node if node.args is args else Apply(op, args, node.span)


def _argument_type(op: Op, kinds: list[Kind], position: int) -> DType:
    if op.definition is not None:
        return strong(kinds[position])
    return op.argument_type(kinds, position)


def _equals(law: Number | None, arg: Absent) -> bool:
    return law is not None and number(law, arg.typed) == arg.value


def _annihilator(op: Op, position: int, arg: Absent) -> Number | None:
    """The law by which `arg` decides the result; None if there is none."""
    laws = (op.annihilator, op.left_annihilator if position == 0 else None)
    return next((law for law in laws if _equals(law, arg)), None)


def _is_identity(op: Op, position: int, arg: Absent) -> bool:
    return _equals(op.identity, arg) or (position == 1 and _equals(op.right_identity, arg))


def converted(expr: Expr, dtype: DType) -> Expr:
    """`expr` as an element of type `dtype`."""
    if isinstance(expr, Absent) and expr.typed != dtype:
        return Absent(number(expr.value, dtype), dtype)
    if isinstance(expr, Literal) and expr.typed != dtype:
        return Literal(number(expr.value, dtype), dtype)
    return expr if expr.dtype == dtype else Cast(dtype, expr)


def within(pattern: Access, expr: Expr, follows: bool = False) -> Expr:
    """`expr` where `pattern` has entries, whatever their values.

    `follows`: it is absent where `expr` is, too, if that is the pattern's fill there.
    """
    dtype, fill = pattern.dtype, pattern.tensor.fill
    op = Op(
        "within",
        annihilator=fill if follows else None,
        left_annihilator=fill,
        definition=Parameter(1, dtype),
        ufunc=lambda _, value: value,
    )
    return Apply(op, (pattern, expr))
