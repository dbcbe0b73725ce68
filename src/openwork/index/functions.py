"""Functions of elements as Python calls: `ow.sqrt`, `ow.select`, `ow.bitwise_and` and their kin.

Each takes expressions and numbers, or whole tensors.
"""

from __future__ import annotations

from typing import cast as typed_as

import numpy as np

from openwork.algebra import operators as ops
from openwork.algebra.operators import Op
from openwork.algebra.overloads import choice, conversion, of_one, of_two
from openwork.algebra.types import as_dtype
from openwork.index.nodes import Cast, check_condition
from openwork.index.terms import Term, any_terms, applied, as_expr

__all__ = [
    "abs_", "sqrt", "exp", "log", "sin", "cos", "tan", "tanh", "floor", "ceil",
    "exp2", "expm1", "log2", "log10", "log1p", "cbrt", "asin", "acos", "atan", "atan2",
    "sinh", "cosh", "asinh", "acosh", "atanh", "hypot", "trunc", "round", "sign", "copysign",
    "conj", "real", "imag", "pow", "minimum", "maximum", "select", "cast",
    "eq", "ne", "lt", "le", "gt", "ge",
    "logical_and", "logical_or", "logical_xor", "logical_not",
    "bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift",
    "floor_divide", "remainder",
]  # fmt: skip


def elements(op: Op, *args: object) -> Term:
    """`op` on terms and numbers, or on whole tensors if there is no term."""
    for arg in () if any_terms(args) else args:
        build = getattr(arg, "__openwork_apply__", None)
        if build is not None:
            return typed_as(Term, build(op, args))
    return applied(op, *args)


@of_one
def abs_(e: object) -> Term:
    """The absolute value; of complex numbers, the modulus."""
    return elements(ops.ABS, e)


@of_one
def sqrt(e: object) -> Term:
    """The square root; not a number for negative elements."""
    return elements(ops.SQRT, e)


@of_one
def exp(e: object) -> Term:
    """The exponential.

    >>> from openwork.index.build import indices
    >>> i, j = indices("i j")
    >>> print(exp(i - j))
    exp(sub(i, j))
    """
    return elements(ops.EXP, e)


@of_one
def log(e: object) -> Term:
    """The natural logarithm."""
    return elements(ops.LOG, e)


@of_one
def sin(e: object) -> Term:
    """The sine."""
    return elements(ops.SIN, e)


@of_one
def cos(e: object) -> Term:
    """The cosine."""
    return elements(ops.COS, e)


@of_one
def tan(e: object) -> Term:
    """The tangent."""
    return elements(ops.TAN, e)


@of_one
def tanh(e: object) -> Term:
    """The hyperbolic tangent."""
    return elements(ops.TANH, e)


@of_one
def floor(e: object) -> Term:
    """The nearest integer that is not above."""
    return elements(ops.FLOOR, e)


@of_one
def ceil(e: object) -> Term:
    """The nearest integer that is not below."""
    return elements(ops.CEIL, e)


@of_one
def exp2(e: object) -> Term:
    """Two to the power of an element."""
    return elements(ops.EXP2, e)


@of_one
def expm1(e: object) -> Term:
    """The exponential less 1, exact for small elements."""
    return elements(ops.EXPM1, e)


@of_one
def log2(e: object) -> Term:
    """The logarithm to base 2."""
    return elements(ops.LOG2, e)


@of_one
def log10(e: object) -> Term:
    """The logarithm to base 10."""
    return elements(ops.LOG10, e)


@of_one
def log1p(e: object) -> Term:
    """The logarithm of 1 more than an element, exact for small ones."""
    return elements(ops.LOG1P, e)


@of_one
def cbrt(e: object) -> Term:
    """The cube root."""
    return elements(ops.CBRT, e)


@of_one
def asin(e: object) -> Term:
    """The inverse sine."""
    return elements(ops.ASIN, e)


@of_one
def acos(e: object) -> Term:
    """The inverse cosine."""
    return elements(ops.ACOS, e)


@of_one
def atan(e: object) -> Term:
    """The inverse tangent."""
    return elements(ops.ATAN, e)


@of_one
def sinh(e: object) -> Term:
    """The hyperbolic sine."""
    return elements(ops.SINH, e)


@of_one
def cosh(e: object) -> Term:
    """The hyperbolic cosine."""
    return elements(ops.COSH, e)


@of_one
def asinh(e: object) -> Term:
    """The inverse hyperbolic sine."""
    return elements(ops.ASINH, e)


@of_one
def acosh(e: object) -> Term:
    """The inverse hyperbolic cosine."""
    return elements(ops.ACOSH, e)


@of_one
def atanh(e: object) -> Term:
    """The inverse hyperbolic tangent."""
    return elements(ops.ATANH, e)


@of_one
def trunc(e: object) -> Term:
    """The nearest integer towards zero."""
    return elements(ops.TRUNC, e)


@of_one
def round(e: object) -> Term:
    """The nearest integer; the even one of two."""
    return elements(ops.ROUND, e)


@of_one
def sign(e: object) -> Term:
    """1, 0 or -1, as an element is above, at or below zero."""
    return elements(ops.SIGN, e)


@of_two
def atan2(y: object, x: object) -> Term:
    """The angle of the point with these coordinates."""
    return elements(ops.ATAN2, y, x)


@of_two
def hypot(a: object, b: object) -> Term:
    """The length of the hypotenuse: `sqrt(a * a + b * b)`, without overflow."""
    return elements(ops.HYPOT, a, b)


@of_two
def copysign(a: object, b: object) -> Term:
    """The size of one element with the sign of another."""
    return elements(ops.COPYSIGN, a, b)


@of_one
def conj(e: object) -> Term:
    """The complex conjugate."""
    return elements(ops.CONJ, e)


@of_one
def real(e: object) -> Term:
    """The real part."""
    return elements(ops.REAL, e)


@of_one
def imag(e: object) -> Term:
    """The imaginary part."""
    return elements(ops.IMAG, e)


@of_two
def pow(base: object, exponent: object) -> Term:
    """`base ** exponent`; integers have no negative powers, as in NumPy.

    Raises:
        ParseError: E108 if the exponent is a negative number and both are integers. If it is an
            element, the kernel finds out: DataError, E515.
    """
    return elements(ops.POW, base, exponent)


@of_two
def minimum(a: object, b: object) -> Term:
    """The lesser of two elements; unlike `min`, also where `a` is an index variable."""
    return elements(ops.MIN, a, b)


@of_two
def maximum(a: object, b: object) -> Term:
    """The greater of two elements; unlike `max`, also where `a` is an index variable."""
    return elements(ops.MAX, a, b)


@choice
def select(condition: object, yes: object, no: object) -> Term:
    """`yes` where `condition` holds, `no` elsewhere.

    Raises:
        ParseError: E112 if the condition is a bool of Python or NumPy, decided before any element
            was looked at.

    >>> from openwork.index.build import indices
    >>> i, j = indices("i j")
    >>> print(select(i < j, 1, 0))
    select(lt(i, j), 1, 0)
    """
    if isinstance(condition, (bool, np.bool_)):
        check_condition(as_expr(condition))
    return elements(ops.SELECT, condition, yes, no)


@conversion
def cast(dtype: object, e: object) -> Term:
    """An expression or a tensor, converted to an element type, information lost or not.

    >>> from openwork.index.build import index
    >>> print(cast("float32", index("i")))
    float32(i)
    """
    convert = None if isinstance(e, Term) else getattr(e, "astype", None)
    if convert is not None and not isinstance(e, np.generic):
        return typed_as(Term, convert(dtype))
    return Term(Cast(as_dtype(dtype), as_expr(e)))


@of_two
def eq(a: object, b: object) -> Term:
    """Whether two elements are equal; written `a == b` as well, of expressions."""
    return elements(ops.EQ, a, b)


@of_two
def ne(a: object, b: object) -> Term:
    """Whether two elements differ; written `a != b` as well, of expressions."""
    return elements(ops.NE, a, b)


@of_two
def lt(a: object, b: object) -> Term:
    """`a < b`, element by element."""
    return elements(ops.LT, a, b)


@of_two
def le(a: object, b: object) -> Term:
    """`a <= b`, element by element."""
    return elements(ops.LE, a, b)


@of_two
def gt(a: object, b: object) -> Term:
    """`a > b`, element by element."""
    return elements(ops.GT, a, b)


@of_two
def ge(a: object, b: object) -> Term:
    """`a >= b`, element by element."""
    return elements(ops.GE, a, b)


@of_two
def logical_and(a: object, b: object) -> Term:
    """Whether both elements are nonzero; of bools, `a & b` is the same."""
    return elements(ops.AND, a, b)


@of_two
def logical_or(a: object, b: object) -> Term:
    """Whether one of the elements is nonzero; of bools, `a | b` is the same."""
    return elements(ops.OR, a, b)


@of_two
def logical_xor(a: object, b: object) -> Term:
    """Whether exactly one of the elements is nonzero; of bools, `a ^ b` is the same."""
    return elements(ops.XOR, a, b)


@of_one
def logical_not(e: object) -> Term:
    """Whether the element is zero; of a bool, `~e` is the same."""
    return elements(ops.NOT, e)


@of_two
def bitwise_and(a: object, b: object) -> Term:
    """The bits that both integers have, `a & b`; of bools, whether both are true.

    >>> from openwork.index.build import indices
    >>> i, j = indices("i j")
    >>> print(bitwise_and(i, 7) << j)
    left_shift(bitwise_and(i, 7), j)
    """
    return elements(ops.BITWISE_AND, a, b)


@of_two
def bitwise_or(a: object, b: object) -> Term:
    """The bits that one of the integers has, `a | b`; of bools, whether one is true."""
    return elements(ops.BITWISE_OR, a, b)


@of_two
def bitwise_xor(a: object, b: object) -> Term:
    """The bits that exactly one of the integers has, `a ^ b`; of bools, whether they differ."""
    return elements(ops.BITWISE_XOR, a, b)


@of_one
def invert(e: object) -> Term:
    """The bits that an integer does not have, `~e`; of a bool, whether it is false."""
    return elements(ops.INVERT, e)


@of_two
def left_shift(a: object, b: object) -> Term:
    """`a << b`: 0 once `b` is as many bits as the type has, or negative, as in NumPy."""
    return elements(ops.LEFT_SHIFT, a, b)


@of_two
def right_shift(a: object, b: object) -> Term:
    """`a >> b`: only the sign is left, 0 or -1, where `b` shifts all bits out or is negative."""
    return elements(ops.RIGHT_SHIFT, a, b)


@of_two
def floor_divide(a: object, b: object) -> Term:
    """`a // b`, rounded down; of integers, 0 where `b` is 0, as in NumPy."""
    return elements(ops.FLOOR_DIVIDE, a, b)


@of_two
def remainder(a: object, b: object) -> Term:
    """`a % b`, with the sign of `b`; of integers, 0 where `b` is 0, as in NumPy."""
    return elements(ops.REMAINDER, a, b)
