"""Expressions as Python calls: what `ow.sum`, `ow.sqrt`, `ow.select` and their kin do.

The names of Python's own functions that this module takes over (`sum`, `min`, ...) work on
expressions only. Apart from reductions, everything here also takes whole tensors where they
support it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any
from typing import cast as typed_as

from openwork.algebra import operators as ops
from openwork.algebra.operators import Op, Semiring
from openwork.algebra.types import Number, as_dtype
from openwork.errors import ParseError
from openwork.index import define
from openwork.index.checks import wrong_order
from openwork.index.define import WEIGHTS, operator
from openwork.index.nodes import Access, Cast, Expr, IndexVar, Reduce, TensorVar, apply, as_expr
from openwork.index.under import under

__all__ = [
    "index", "indices", "access",
    "abs_", "sqrt", "exp", "log", "sin", "cos", "tan", "tanh", "floor", "ceil",
    "conj", "real", "imag", "pow", "minimum", "maximum", "select", "cast",
    "eq", "ne", "lt", "le", "gt", "ge",
    "logical_and", "logical_or", "logical_xor", "logical_not",
    "sum", "prod", "min", "max", "any", "all", "reduce",
    "operator", "semiring", "under",
]  # fmt: skip


# Variables and accesses.


def index(name: str) -> IndexVar:
    """One index variable.

    >>> index("i")
    IndexVar(name='i')
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise ParseError(
            f"{name!r} is not the name of an index variable",
            code="E101",
            hint="a name is letters, digits and underscores, and starts with no digit",
        )
    return IndexVar(name)


def indices(names: str) -> tuple[IndexVar, ...]:
    """Index variables, one for each name in a text.

    >>> i, j, k = indices("i j k")
    >>> indices("i, j, k") == (i, j, k)
    True
    """
    if not isinstance(names, str):
        raise ParseError(
            f"{names!r} is not a text of names", code="E101", hint='for example ow.indices("i j")'
        )
    return tuple(index(name) for name in re.split(r"[\s,]+", names) if name)


def access(tensor: TensorVar, variables: IndexVar | Sequence[IndexVar]) -> Access:
    """The element of `tensor` at `variables`: what `A[i, j]` makes.

    Raises:
        ParseError: E104 if there are more or fewer variables than modes, E112 if one of them is
            not an index variable.
    """
    given = (variables,) if isinstance(variables, IndexVar) else tuple(variables)
    for var in given:
        if not isinstance(var, IndexVar):
            raise ParseError(
                f"{tensor.name} is indexed with {var!r}, which is not an index variable",
                code="E112",
                hint='make variables with i, j = ow.indices("i j")',
            )
    if len(given) != tensor.ndim:
        raise ParseError(wrong_order(tensor, len(given)), code="E104")
    return Access(tensor, given)


# Functions of elements.


def _apply(op: Op, *args: object) -> Expr:
    """`op` on expressions and numbers, or on whole tensors if there is no expression."""
    expressions = [arg for arg in args if isinstance(arg, Expr)]
    for arg in () if expressions else args:
        build = getattr(arg, "__openwork_apply__", None)
        if build is not None:
            return typed_as(Expr, build(op, args))
    return apply(op, *args)


def abs_(e: object) -> Expr:
    """The absolute value; of complex numbers, the modulus."""
    return _apply(ops.ABS, e)


def sqrt(e: object) -> Expr:
    """The square root; not a number for negative elements."""
    return _apply(ops.SQRT, e)


def exp(e: object) -> Expr:
    """The exponential.

    >>> i, j = indices("i j")
    >>> print(sum(j, exp(i - j)))
    sum(j, exp(sub(i, j)))
    """
    return _apply(ops.EXP, e)


def log(e: object) -> Expr:
    """The natural logarithm."""
    return _apply(ops.LOG, e)


def sin(e: object) -> Expr:
    """The sine."""
    return _apply(ops.SIN, e)


def cos(e: object) -> Expr:
    """The cosine."""
    return _apply(ops.COS, e)


def tan(e: object) -> Expr:
    """The tangent."""
    return _apply(ops.TAN, e)


def tanh(e: object) -> Expr:
    """The hyperbolic tangent."""
    return _apply(ops.TANH, e)


def floor(e: object) -> Expr:
    """The nearest integer that is not above."""
    return _apply(ops.FLOOR, e)


def ceil(e: object) -> Expr:
    """The nearest integer that is not below."""
    return _apply(ops.CEIL, e)


def conj(e: object) -> Expr:
    """The complex conjugate."""
    return _apply(ops.CONJ, e)


def real(e: object) -> Expr:
    """The real part."""
    return _apply(ops.REAL, e)


def imag(e: object) -> Expr:
    """The imaginary part."""
    return _apply(ops.IMAG, e)


def pow(base: object, exponent: object) -> Expr:
    """`base ** exponent`; a negative power of an integer is truncated to an integer."""
    return _apply(ops.POW, base, exponent)


def minimum(a: object, b: object) -> Expr:
    """The lesser of two elements; unlike `min`, also where `a` is an index variable."""
    return _apply(ops.MIN, a, b)


def maximum(a: object, b: object) -> Expr:
    """The greater of two elements; unlike `max`, also where `a` is an index variable."""
    return _apply(ops.MAX, a, b)


def select(condition: object, yes: object, no: object) -> Expr:
    """`yes` where `condition` holds, `no` elsewhere.

    >>> i, j = indices("i j")
    >>> print(select(i < j, 1, 0))
    select(lt(i, j), 1, 0)
    """
    return _apply(ops.SELECT, condition, yes, no)


def cast(dtype: object, e: object) -> Expr:
    """`e` converted to an element type, information lost or not.

    >>> print(cast("float32", index("i")))
    float32(i)
    """
    return Cast(as_dtype(dtype), as_expr(e))


def eq(a: object, b: object) -> Expr:
    """Whether two elements are equal; `a == b` would compare the expressions themselves."""
    return _apply(ops.EQ, a, b)


def ne(a: object, b: object) -> Expr:
    """Whether two elements differ."""
    return _apply(ops.NE, a, b)


def lt(a: object, b: object) -> Expr:
    """`a < b`, element by element."""
    return _apply(ops.LT, a, b)


def le(a: object, b: object) -> Expr:
    """`a <= b`, element by element."""
    return _apply(ops.LE, a, b)


def gt(a: object, b: object) -> Expr:
    """`a > b`, element by element."""
    return _apply(ops.GT, a, b)


def ge(a: object, b: object) -> Expr:
    """`a >= b`, element by element."""
    return _apply(ops.GE, a, b)


def logical_and(a: object, b: object) -> Expr:
    """Whether both elements are nonzero; written `a & b` as well."""
    return _apply(ops.AND, a, b)


def logical_or(a: object, b: object) -> Expr:
    """Whether one of the elements is nonzero; written `a | b` as well."""
    return _apply(ops.OR, a, b)


def logical_xor(a: object, b: object) -> Expr:
    """Whether exactly one of the elements is nonzero; written `a ^ b` as well."""
    return _apply(ops.XOR, a, b)


def logical_not(e: object) -> Expr:
    """Whether the element is zero."""
    return _apply(ops.NOT, e)


# Reductions.


def _reduction(op: Op, word: str, args: tuple[object, ...]) -> Expr:
    """`op` over the variables that come before the last of `args`, the first one outermost."""
    variables: list[IndexVar] = []
    for arg in args[:-1]:
        for var in arg if isinstance(arg, (tuple, list)) else (arg,):
            if not isinstance(var, IndexVar):
                raise ParseError(
                    f"{word} runs over index variables, not over {type(var).__name__}",
                    code="E112",
                    hint=f"for example ow.{word}(j, A[i, j])",
                )
            variables.append(var)
    if not variables:
        raise ParseError(
            f"{word} needs an index variable and an expression",
            code="E112",
            hint=f"for example ow.{word}(j, A[i, j])",
        )
    expr = as_expr(args[-1])
    for var in reversed(variables):
        expr = Reduce(op, var, expr)
    _ = expr.kind
    return expr


def sum(*args: object) -> Expr:
    """The sum over index variables: `sum(j, e)`, `sum(j, k, e)` or `sum((j, k), e)`.

    >>> i, j, k = indices("i j k")
    >>> print(sum(j, k, i * j * k))
    sum(j, sum(k, mul(mul(i, j), k)))
    """
    return _reduction(ops.ADD, "sum", args)


def prod(*args: object) -> Expr:
    """The product over index variables, as `sum`."""
    return _reduction(ops.MUL, "prod", args)


def any(*args: object) -> Expr:
    """Whether an element is nonzero for some value of the index variables."""
    return _reduction(ops.OR, "any", args)


def all(*args: object) -> Expr:
    """Whether an element is nonzero for every value of the index variables."""
    return _reduction(ops.AND, "all", args)


def min(*args: object) -> Expr:
    """The minimum over index variables, `min(j, e)`; of two elements otherwise, `min(a, b)`.

    The first argument decides: an index variable, or a tuple of them, is what the minimum runs
    over. To compare an index variable's value, write `minimum(i, e)`.

    >>> i, j = indices("i j")
    >>> print(min(j, i * j), min(i * j, 3), sep="; ")
    min(j, mul(i, j)); min(mul(i, j), 3)
    """
    return _extreme(ops.MIN, "min", args)


def max(*args: object) -> Expr:
    """The maximum over index variables, `max(j, e)`; of two elements otherwise, `max(a, b)`.

    The first argument decides, as for `min`; `maximum(i, e)` compares an index variable's value.
    """
    return _extreme(ops.MAX, "max", args)


def _extreme(op: Op, word: str, args: tuple[object, ...]) -> Expr:
    if args and isinstance(args[0], (IndexVar, tuple, list)):
        return _reduction(op, word, args)
    if len(args) != 2:
        raise ParseError(f"{word} takes 2 arguments, got {len(args)}", code="E102")
    return _apply(op, *args)


def reduce(op: Op | str | Callable[..., Expr], *args: object) -> Expr:
    """The reduction over index variables with any operator: `reduce(op, j, e)`.

    Args:
        op: an operator with an identity that is associative, the name of a built-in one, or a
            function of this module such as `maximum`.
        args: variables and an expression, as for `sum`.

    >>> print(reduce("xor", index("j"), index("j") < 3))
    xor(j, lt(j, 3))
    """
    return _reduction(_operator(op), "reduce", args)


# Operators.


def semiring(
    name: str,
    add: Op | str | Callable[..., Expr],
    mul: Op | str | Callable[..., Expr],
    zero: Number,
    *,
    domain: Sequence[Number] = WEIGHTS,
) -> Semiring:
    """A semiring: what `+` and `*` mean, and the value `zero` of an entry that is absent.

    Args:
        name: what messages call it.
        add: takes the place of `+` and of sums.
        mul: takes the place of `*`.
        zero: the identity of `add` and the annihilator of `mul`.
        domain: numbers on which that is tried, unless the operators declare it themselves.

    >>> widest = semiring("widest", max, min, 0)
    >>> widest.add.name, widest.mul.name
    ('max', 'min')
    """
    return define.semiring(name, _operator(add), _operator(mul), zero, domain=domain)


_OPERATOR_OF: dict[object, Op] = {
    **{sum: ops.ADD, prod: ops.MUL, min: ops.MIN, max: ops.MAX, any: ops.OR, all: ops.AND},
    **{minimum: ops.MIN, maximum: ops.MAX, pow: ops.POW},
    **{logical_and: ops.AND, logical_or: ops.OR, logical_xor: ops.XOR},
}


def _operator(spec: Any) -> Op:
    known = _OPERATOR_OF.get(spec) if callable(spec) and not isinstance(spec, Op) else None
    return define.named_operator(spec) if known is None else known
