"""User-defined operators and semirings, whose laws are tested on examples."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from openwork.algebra.entries import Entry
from openwork.algebra.meaning import has_records, meaning
from openwork.algebra.operators import BUILTIN, Op, Semiring
from openwork.algebra.types import BOOL, DType, Kind, Number, as_dtype, as_element, number
from openwork.errors import InternalError, ParseError
from openwork.index.nodes import Apply, Cast, Expr, Literal, Parameter
from openwork.index.terms import Term, as_expr
from openwork.index.words import RESERVED
from openwork.tree import walk

# Laws are tested on these: sums of a few powers of two, so that arithmetic is exact.
NUMBERS: tuple[Number, ...] = (-2.5, -1.0, 0.0, 0.5, 1.0, 3.0)
# Semirings are often over nonnegative weights: (max, *) and (max, min) with zero 0.
WEIGHTS: tuple[Number, ...] = (0.0, 0.25, 0.5, 1.0, 3.0)


def operator(
    name: str,
    function: Callable[..., Any],
    *,
    identity: Number | None = None,
    annihilator: Number | None = None,
    right_identity: Number | None = None,
    left_annihilator: Number | None = None,
    commutative: bool = False,
    associative: bool = False,
    idempotent: bool = False,
    domain: Sequence[Number] = NUMBERS,
) -> Op:
    """Define an operator by an expression over its arguments.

    Its laws decide how sparse operands are merged: an absent entry that is the annihilator skips
    the computation, one that is the identity leaves the other operand as it is.

    Args:
        name: what texts call it.
        function: takes expressions and returns one; it is called once.
        identity: `e` with `f(x, e) == x == f(e, x)`; reductions need it.
        annihilator: `z` with `f(x, z) == z == f(z, x)`.
        right_identity: `e` with `f(x, e) == x`.
        left_annihilator: `z` with `f(z, x) == z`.
        commutative: `f(x, y) == f(y, x)`.
        associative: `f(f(x, y), z) == f(x, f(y, z))`; reductions need it.
        idempotent: `f(x, x) == x`; a reduction then combines all absent entries at once.
        domain: numbers the laws are tested on, if they do not hold for all numbers.

    Raises:
        ParseError: E111 if a law is false for some numbers of `domain`, E112 if `function` does
            not return an expression of its arguments.

    >>> either = operator("either", lambda a, b: a + b - a * b, identity=0, annihilator=1,
    ...                   commutative=True, associative=True)
    >>> either(0.5, 0.5)
    array(0.75)
    >>> operator("mean", lambda a, b: (a + b) / 2, identity=0)
    Traceback (most recent call last):
    ...
    openwork.errors.ParseError: E111: identity 0 of mean is false: mean(-2.5, 0) is -1.25, not -2.5
    """
    _check_name(name)
    definition = _definition(name, function)
    op = Op(
        name,
        _arity(name, function),
        identity=identity,
        annihilator=annihilator,
        right_identity=right_identity,
        left_annihilator=left_annihilator,
        commutes=commutative,
        associates=associative,
        idempotent=idempotent,
        definition=definition,
        ufunc=partial(_defined, definition),
    )
    _check_laws(op, domain)
    return op


def _check_name(name: object) -> None:
    """Reject what texts cannot call an operator."""
    if not isinstance(name, str) or not name.isidentifier() or name in RESERVED:
        why = "has another meaning already" if name in RESERVED else "is not a name"
        raise ParseError(f"{name!r} cannot be an operator: it {why}", code="E111")


def semiring(
    name: str, add: Op | str, mul: Op | str, zero: Number, *, domain: Sequence[Number] = WEIGHTS
) -> Semiring:
    """A semiring: what `+` and `*` mean, and the value `zero` of an entry that is absent.

    Args:
        name: what messages call it.
        add: takes the place of `+` and of sums; an operator, or the name of a built-in one.
        mul: takes the place of `*`.
        zero: the identity of `add` and the annihilator of `mul`.
        domain: numbers on which these laws are tested, unless the operators declare them.

    Raises:
        ParseError: E111 if `zero` violates these laws, or `add` cannot reduce.

    >>> semiring("bottleneck", "max", "min", 0).mul.annihilator
    0
    """
    plus, times = named_operator(add), named_operator(mul)
    if plus.arity != 2 or times.arity != 2 or not plus.associates:
        raise ParseError(
            f"semiring {name}: {plus} and {times} must take two arguments, "
            f"and {plus} must be associative",
            code="E111",
        )
    if plus.identity != zero:
        plus = replace(plus, identity=zero)
        _check_laws(replace(plus, annihilator=None), domain)
    if times.annihilator != zero:
        times = replace(times, annihilator=zero)
        _check_laws(replace(times, identity=None, right_identity=None), domain)
    return Semiring(name, plus, times, zero)


def named_operator(spec: Op | str) -> Op:
    """`spec` itself, or the built-in operator that it names or whose sign it is.

    >>> named_operator("min").name, named_operator("+").name
    ('min', 'add')
    """
    if isinstance(spec, Op):
        return spec
    for op in BUILTIN.values():
        if spec == op.name or (spec == op.symbol and op.arity == 2):
            return op
    raise ParseError(
        f"{spec!r} is not an operator",
        code="E103",
        hint=f"the built-in ones are {', '.join(BUILTIN)}; ow.operator(...) defines others",
    )


def _defined(definition: Expr, *args: Any) -> Any:
    """A user-defined operator as a function; unlike a lambda, it can be pickled."""
    return evaluate(definition, args)


def evaluate(expr: Expr, args: Sequence[Any]) -> Any:
    """The value of a definition for arguments that are numbers or NumPy arrays.

    >>> evaluate((Term(Parameter(0)) * 2 + Term(Parameter(1))).node, (np.array([1, 2]), 10))
    array([12, 14])
    """
    match expr:
        case Parameter(position=position):
            return args[position]
        case Literal(value=value, typed=typed):
            return value if typed is None else np.array(value, typed)
        case Cast(to=to, expr=inner):
            with np.errstate(all="ignore"):
                return np.asarray(evaluate(inner, args)).astype(to)
        case Apply(op=op, args=inner_args):
            values = [evaluate(arg, args) for arg in inner_args]
            if op.definition is not None:
                return op.ufunc(*values)
            kinds = [_kind(value) for value in values]
            types = [op.argument_type(kinds, n) for n in range(len(values))]
            with np.errstate(all="ignore"):
                arrays = [_as(np.asarray(v), t) for v, t in zip(values, types, strict=True)]
                if has_records(kinds) and not op.selects:
                    return meaning(op.name, tuple(kinds)).on_arrays(arrays)
                return _as(np.asarray(op.ufunc(*arrays)), op.result(kinds))
    raise InternalError(f"{expr} cannot stand in a definition")


def _as(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    if not isinstance(dtype, Entry):
        return array.astype(dtype)
    if array.dtype.names is None:  # a number, so many times one
        return np.broadcast_to(as_element(array.item(), dtype), array.shape)
    return dtype.cast(array)


def _kind(value: Any) -> Kind:
    """The kind of an argument: Python's own numbers are weak."""
    if isinstance(value, bool):
        return BOOL
    if type(value) in (int, float, complex):
        return type(value)
    return as_dtype(np.asarray(value).dtype)


def _arity(name: str, function: Callable[..., Any]) -> int:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # not a function, or one written in C
        parameters = []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p for p in parameters if p.default is p.empty]
    if not needed or any(p.kind not in kinds for p in needed):
        raise ParseError(
            f"the arguments of {name} cannot be counted",
            code="E112",
            hint="define it by a function such as lambda a, b: a + b - a * b",
        )
    return len(needed)


def _definition(name: str, function: Callable[..., Any]) -> Expr:
    """The expression that `function` returns for symbolic parameters."""
    parameters = tuple(Parameter(n) for n in range(_arity(name, function)))
    definition = as_expr(function(*map(Term, parameters)))
    for node in walk(definition):
        if not isinstance(node, (Parameter, Literal, Apply, Cast)):
            raise ParseError(
                f"{name} is defined with {node}, which is not one of its arguments",
                code="E112",
                hint="pass it as an argument, and give it where the operator is applied",
            )
    return definition


def _check_laws(op: Op, domain: Sequence[Number]) -> None:
    """Test every law that `op` declares on the numbers of `domain`."""
    given = (op.identity, op.annihilator, op.right_identity, op.left_annihilator)
    declared = op.commutes or op.associates or op.idempotent
    declared |= any(law is not None for law in given)
    if not declared:
        return
    if op.arity != 2:
        raise ParseError(
            f"{op} takes {op.arity} argument{'s' * (op.arity != 1)}: "
            "only operators of two arguments have laws",
            code="E111",
        )
    x = np.array(list(domain))
    for law, side, value, result in (
        ("identity", "both", op.identity, None),
        ("annihilator", "both", op.annihilator, op.annihilator),
        ("right_identity", "right", op.right_identity, None),
        ("left_annihilator", "left", op.left_annihilator, op.left_annihilator),
    ):
        if value is None:
            continue
        law_text = f"{law} {value}"
        constant = np.full_like(x, number(value, as_dtype(x.dtype)))
        expected = x if result is None else constant
        if side != "left":
            _compare(op, law_text, (x, value), op.ufunc(x, constant), expected)
        if side != "right":
            _compare(op, law_text, (value, x), op.ufunc(constant, x), expected)
    a, b, c = (axis.ravel() for axis in np.meshgrid(x, x, x))
    if op.commutes:
        _compare(op, "commutative law", (a, b), op.ufunc(a, b), op.ufunc(b, a))
    if op.idempotent:
        _compare(op, "idempotent law", (x, x), op.ufunc(x, x), x)
    if op.associates:
        left, right = op.ufunc(op.ufunc(a, b), c), op.ufunc(a, op.ufunc(b, c))
        _compare(op, "associative law", (a, b, c), left, right)


def _compare(op: Op, law: str, args: tuple[Any, ...], got: Any, wanted: Any) -> None:
    """Raise with the first point at which `got` is not `wanted`."""
    got, wanted = np.broadcast_arrays(got, wanted, args[0], args[1])[:2]
    wrong = np.flatnonzero(~np.isclose(got, wanted, equal_nan=True))
    if wrong.size == 0:
        return
    at = wrong[0]
    point = [arg[at].item() if isinstance(arg, np.ndarray) else arg for arg in args]
    call = f"{op}({', '.join(map(str, point))})"
    if len(point) == 3:
        call = f"{op}({op}({point[0]}, {point[1]}), {point[2]})"
    raise ParseError(
        f"{law} of {op} is false: {call} is {got[at].item()}, not {wanted[at].item()}",
        code="E111",
    )
