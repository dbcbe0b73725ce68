"""Operators applied element by element, to tensors and numbers, with NumPy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from inspect import isfunction
from typing import Any

import numpy as np

from openwork.algebra.entries import Entry, widest
from openwork.algebra.meaning import has_records
from openwork.algebra.operators import BUILTIN, Op
from openwork.algebra.overloads import Overloaded
from openwork.algebra.types import (
    SUPPORTED,
    DType,
    Kind,
    Number,
    as_element,
    computed,
    holds,
    number,
    strong,
)
from openwork.errors import ParseError
from openwork.format.formats import dense
from openwork.index.nodes import Access, Apply, Expr, Literal, Parameter, apply, check_natural
from openwork.index.terms import as_expr
from openwork.runtime.storage import Storage
from openwork.tensor.eager import (
    KERNELS,
    Result,
    around,
    called,
    method_of_two,
    run,
    stand_in,
    variables,
)
from openwork.tensor.exchange.facts import Facts, facts_for
from openwork.tensor.operand import Operand
from openwork.tensor.rearrange.broadcast import broadcast
from openwork.tensor.result_format import absent_value, fill_of, result_format, sparse_accesses

NUMBERS = (bool, int, float, complex, np.generic)
ARGUMENTS = (Operand, *NUMBERS)  # what operators are applied to
_SCALAR = dense(0)


class Operation:
    """An operator as a key: hashed by identity, because hashing its laws takes longer."""

    def __init__(self, op: Op) -> None:
        self.op = op


_BUILT_IN = {id(op): Operation(op) for op in BUILTIN.values()}
_defined = lru_cache(maxsize=256)(Operation)


def operation(op: Op) -> Operation:
    """The key of an operator."""
    return _BUILT_IN.get(id(op)) or _defined(op)


def elementwise(operation: Operation, args: Sequence[Any]) -> Operand:
    """`operation` on tensors and numbers, with at least one tensor among them.

    A number becomes a scalar operand, so that `2 * A` and `3 * A` share a kernel; unless its value
    decides whether the result is sparse, as in `A ** 2`.
    """
    again = KERNELS.again(Operand, operation, args)
    if again is not None:
        return again
    op = operation.op
    kinds = tuple(arg.facts.dtype if isinstance(arg, Operand) else _kind(arg) for arg in args)
    types = _types(operation, kinds)
    literals: tuple[Literal | None, ...] = (None,) * len(args)
    if len(kinds) > 1 and any(not isinstance(arg, Operand) for arg in args):
        if op.compares and not all(map(_fits, args, types)):
            return elementwise(operation, list(map(_exact, args, types)))
        if op.natural is not None and types[-1].kind in "iu":
            exponent = args[op.natural]
            check_natural(op, as_expr(0 if isinstance(exponent, Operand) else exponent))
        unchanged = _unchanged(op, args)
        if unchanged is not None:
            return around(unchanged.storage.astype(types[-1]).copy())
        literals = _literals(operation, args, types)
    tensors = [
        arg if isinstance(arg, Operand) else around(_number(arg, types[n]))
        for n, arg in enumerate(args)
        if literals[n] is None
    ]
    layout = broadcast(
        tuple(t.storage.shape for t in tensors), tuple(t.name for t in tensors), op.name
    )

    def build(accesses: Sequence[Access]) -> Result:
        rest = iter(accesses)
        rhs = Apply(op, tuple(next(rest) if given is None else given for given in literals))
        return Result(rhs, result_format(rhs, variables(layout.result), fill_of(rhs)), rhs.dtype)

    # An exponent is checked at each call, and then is a number that the kernel knows.
    checked = len(tensors) < len(args) or (op.natural is not None and types[-1].kind in "iu")
    key = () if checked else called(operation, args)
    return run((operation, *map(_key, literals)), layout, tensors, build, key)


def _kind(value: Any) -> Kind:
    """The element type of a number; Python numbers adapt to the other operand."""
    plain = type(value)
    return plain if plain in (int, float, complex) else as_expr(value).kind


@lru_cache(maxsize=1024)
def _types(operation: Operation, kinds: tuple[Kind, ...]) -> tuple[DType, ...]:
    """The type that each argument is converted to, and that of the result."""
    if operation.op.definition is not None and has_records(kinds):
        return _types_of_defined(operation.op, kinds)
    arguments = (operation.op.argument_type(kinds, n) for n in range(len(kinds)))
    return (*arguments, operation.op.result(kinds))


def _types_of_defined(op: Op, kinds: tuple[Kind, ...]) -> tuple[DType, ...]:
    """Those of a user's operator on records: Python's numbers are as precise as these."""
    scalar = SUPPORTED[widest(*(kind.decoded.scalar for kind in kinds if isinstance(kind, Entry)))]
    types = tuple(scalar if kind in (int, float) else computed(strong(kind)) for kind in kinds)
    return (*types, apply(op, *(Parameter(n, each) for n, each in enumerate(types))).dtype)


def _key(literal: Literal | None) -> object:
    return None if literal is None else (repr(literal.value), literal.typed)


def _unchanged(op: Op, args: Sequence[Any]) -> Any:
    """The tensor, if the other argument is a number that leaves it unchanged: `0 + A`.

    It keeps its format then. An array is added to like any other: 0 + -0.0 is 0.0.
    """
    if len(args) != 2:
        return None
    for position, (arg, other) in enumerate(zip(args, reversed(args), strict=True)):
        if isinstance(arg, Operand) and not isinstance(other, Operand) and not arg.storage.alike:
            laws = (op.identity, op.right_identity if position == 0 else None)
            if any(law is not None and other == law for law in laws):
                return arg
    return None


def _literals(
    operation: Operation, args: Sequence[Any], types: tuple[DType, ...]
) -> tuple[Literal | None, ...]:
    """The numbers that must be literals of the statement; None for operands."""
    facts = tuple(arg.facts if isinstance(arg, Operand) else None for arg in args)
    none: tuple[Literal | None, ...] = (None,) * len(args)
    if not _value_matters(operation, facts, types):
        return none
    numbers = tuple(
        None if isinstance(arg, Operand) else _literal(arg, types[n]) for n, arg in enumerate(args)
    )
    return numbers if _keeps_fill(operation, facts, numbers) else none


@lru_cache(maxsize=1024)
def _value_matters(
    operation: Operation, facts: tuple[Facts | None, ...], types: tuple[DType, ...]
) -> bool:
    """Whether it depends on a number's value if absent entries stay the fill."""
    args = tuple(
        _access(n, facts_for(_SCALAR, types[n]) if each is None else each)
        for n, each in enumerate(facts)
    )
    rhs = Apply(operation.op, args)
    return bool(sparse_accesses(rhs)) and absent_value(rhs) is None


@lru_cache(maxsize=1024)
def _keeps_fill(
    operation: Operation, facts: tuple[Facts | None, ...], numbers: tuple[Literal | None, ...]
) -> bool:
    """Whether absent entries stay the fill with these numbers, or get another than 0."""
    args: list[Expr] = []
    for n, (each, literal) in enumerate(zip(facts, numbers, strict=True)):
        if literal is not None:
            args.append(literal)
        elif each is not None:
            args.append(_access(n, each))
    rhs = Apply(operation.op, tuple(args))
    fills = {number(a.tensor.fill, rhs.dtype) for a in sparse_accesses(rhs)}
    value = absent_value(rhs)
    return value is not None and (fills == {value} or fills != {0})


def _access(position: int, facts: Facts) -> Access:
    """An access to any tensor with these facts."""
    return Access(stand_in(position, facts).tensor_var, variables(range(facts.format.ndim)))


def _literal(value: Any, dtype: DType) -> Literal:
    expr = as_expr(value)
    if not isinstance(expr, Literal):
        raise ParseError(f"{value!r} is not a number", code="E112")
    _check_fits(expr.value, dtype)
    return expr


def _number(value: Any, dtype: DType) -> Storage:
    """A number as the storage of a scalar tensor, of the type that the operator takes."""
    plain = value.item() if isinstance(value, np.generic) else value
    _check_fits(plain, dtype)
    return Storage.of_values((), _SCALAR, (), as_element(plain, dtype).reshape(1), 0)


def _fits(value: Any, dtype: DType) -> bool:
    """Whether an argument is a tensor, or a number that `dtype` can hold."""
    return isinstance(value, Operand) or holds(dtype, value)


def _exact(value: Any, dtype: DType) -> Any:
    """`value`, in a wider type if `dtype` cannot hold it: `A < 300` for int8."""
    if _fits(value, dtype):
        return value
    literal = as_expr(value)
    return np.dtype(literal.dtype).type(value)


def _check_fits(value: Number, dtype: DType) -> None:
    """Reject an integer that the tensor's element type cannot hold, as NumPy does."""
    if not holds(dtype, value):
        raise ParseError(
            f"{value} does not fit into {dtype}",
            code="E112",
            hint="convert the tensor first: A.astype('int64')",
        )


# Python's signs


class _Sign(Overloaded[Any]):
    """Says which operator one of Python's signs applies."""

    def __openwork_apply__(self, op: Op, args: Sequence[object]) -> tuple[Op, Sequence[object]]:
        return op, args


def operators() -> dict[str, Callable[..., Any]]:
    """The methods of Python's signs on two operands, by name: `__add__`, `__radd__`, ..."""
    sign, made = _Sign(), {}
    for name, method in vars(Overloaded).items():
        if isfunction(method) and method.__code__.co_varnames[:2] == ("self", "other"):
            op, args = method(sign, None)
            made[name] = method_of_two(operation(op), method, turned=args[0] is None)
    return made
