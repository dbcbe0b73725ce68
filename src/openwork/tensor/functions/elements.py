"""Functions of elements that are compositions of operators, under NumPy's names.

Each is an operator with a definition, so that it is one statement over stored entries; absent ones
become what the function makes of the fill.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from openwork.algebra import operators as ops
from openwork.algebra.entries import Entry
from openwork.algebra.operators import Op
from openwork.errors import ParseError
from openwork.index import functions as of
from openwork.index.define import operator
from openwork.tensor.exchange.numpy_functions import implements
from openwork.tensor.functions.join import as_tensor
from openwork.tensor.rearrange.components import components
from openwork.tensor.rearrange.shape import on_device_of
from openwork.tensor.tensor import Tensor

_INF = float("inf")

# `x - x` is not a number where x is infinite or none itself, in every part of a complex number.
_ISNAN = operator("isnan", lambda x: x != x)
_ISFINITE = operator("isfinite", lambda x: (x - x) == 0)
_ISINF = operator(
    "isinf", lambda x: of.logical_or(abs(of.real(x)) == _INF, abs(of.imag(x)) == _INF)
)
_SIGNBIT = operator("signbit", lambda x: of.copysign(1.0, x) < 0)
_LOGADDEXP = operator(
    "logaddexp",
    lambda a, b: of.select(
        a == b,  # equal infinities, too, whose difference is not a number
        a + of.log(2.0),
        of.maximum(a, b) + of.log1p(of.exp(-abs(a - b))),
    ),
)
_NEAR = operator(
    "isclose",
    lambda a, b, rtol, atol: of.logical_or(
        a == b, of.logical_and(abs(a - b) <= atol + rtol * abs(b), abs(b) < _INF)
    ),
)
_NEAR_OR_NAN = operator(
    "isclose_nan",
    lambda a, b, rtol, atol: of.logical_or(_NEAR(a, b, rtol, atol), of.logical_and(a != a, b != b)),
)


def _applied(op: Op, *args: Any) -> Tensor:
    made: Tensor = next(each for each in args if isinstance(each, Tensor)).__openwork_apply__(
        op, args
    )
    return made


def _is_inexact(x: Tensor) -> bool:
    return x.dtype.kind in "fc"


def _constant(x: Tensor, value: bool) -> Tensor:
    """One truth value everywhere, stored as `x` is."""
    return _applied(ops.EQ if value else ops.NE, x, x)


@implements(np.isnan)
def isnan(x: Any) -> Tensor:
    """Whether elements are not a number.

    >>> isnan(as_tensor([1.0, float("nan")])).to_numpy()
    array([False,  True])
    """
    return _applied(_ISNAN, as_tensor(x))


@implements(np.isinf)
def isinf(x: Any) -> Tensor:
    """Whether elements are infinite."""
    given = as_tensor(x)
    return _applied(_ISINF, given) if _is_inexact(given) else _constant(given, False)


@implements(np.isfinite)
def isfinite(x: Any) -> Tensor:
    """Whether elements are neither infinite nor not a number; absent entries are, too."""
    given = as_tensor(x)
    return _applied(_ISFINITE, given) if _is_inexact(given) else _constant(given, True)


@implements(np.signbit)
def signbit(x: Any) -> Tensor:
    """Whether elements have a minus sign, -0.0 among them."""
    given = as_tensor(x)
    return _applied(_SIGNBIT, given) if _is_inexact(given) else given < 0


@implements(np.logaddexp)
def logaddexp(a: Any, b: Any) -> Tensor:
    """The logarithm of `exp(a) + exp(b)`, without overflow."""
    return _applied(_LOGADDEXP, as_tensor(a), as_tensor(b))


@implements(np.reciprocal)
def reciprocal(x: Any) -> Tensor:
    """1 divided by elements; of integers the whole part, as in NumPy."""
    given = _counted(as_tensor(x))
    made: Tensor = 1 / given
    return made.astype(given.dtype) if given.dtype.kind in "iu" else made


@implements(np.round, np.around)
def rounded(x: Any, decimals: int = 0) -> Tensor:
    """Elements rounded to so many decimals, halves to even digits."""
    given = as_tensor(x)
    if given.dtype.kind in "iub" and decimals >= 0:
        return given
    if given.dtype.kind == "c":
        parts = (rounded(given.real, decimals), rounded(given.imag, decimals))
        return parts[0] + parts[1] * 1j
    if decimals == 0:
        return _applied(ops.ROUND, given)
    factor = 10.0 ** abs(decimals)
    if decimals > 0:
        return _applied(ops.ROUND, given * factor) / factor
    return (_applied(ops.ROUND, given / factor) * factor).astype(given.dtype)


@implements(np.nan_to_num)
def nan_to_num(
    x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None
) -> Tensor:
    """Elements that are not finite become numbers: by default 0, and the extreme ones."""
    given = as_tensor(x)
    if not _is_inexact(given):
        return given.copy()
    if given.dtype.kind == "c":
        raise ParseError(
            "nan_to_num takes real numbers", code="E108", hint="apply it to A.real and A.imag"
        )
    most = float(np.finfo(np.dtype(str(given.dtype))).max)
    made = _applied(ops.SELECT, isnan(given), nan, given)
    for far, value in ((_INF, most if posinf is None else posinf),
                       (-_INF, -most if neginf is None else neginf)):  # fmt: skip
        made = _applied(ops.SELECT, made == far, value, made)
    return made.astype(given.dtype).prune()


@implements(np.isclose)
def isclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Whether elements are equal within `atol + rtol * abs(b)`; records, number by number.

    >>> isclose(as_tensor([1.0, 2.0]), [1.0, 2.1]).to_numpy()
    array([ True, False])
    """
    left, right = as_tensor(a), as_tensor(b)
    if isinstance(left.dtype, Entry) and isinstance(right.dtype, Entry):
        near = isclose(_numbers(left), _numbers(right), rtol, atol, equal_nan)
        return near.all(axis=-1)
    if left.dtype.kind not in "fc" and right.dtype.kind not in "fc":
        left = left.astype("float64")
    op = _NEAR_OR_NAN if equal_nan else _NEAR
    return _applied(op, left, right, rtol, atol)


def _numbers(records: Tensor) -> Tensor:
    return Tensor.of(on_device_of(records.storage, components(records.storage)))


@implements(np.allclose)
def allclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all elements are equal within `atol + rtol * abs(b)`."""
    return bool(isclose(a, b, rtol, atol, equal_nan).all())


@implements(np.array_equal, np.array_equiv)
def array_equal(a: Any, b: Any, equal_nan: bool = False) -> bool:
    """Whether two tensors have the same shape and elements, in whatever formats."""
    left, right = as_tensor(a), as_tensor(b)
    if left.shape != right.shape:
        return False
    if not equal_nan:
        return left.equals(right)
    both = _applied(ops.AND, isnan(left), isnan(right))
    return bool(_applied(ops.OR, left == right, both).all())


@implements(np.isin)
def isin(
    x: Any, values: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None
) -> Tensor:
    """Whether elements are among `values`.

    >>> isin(as_tensor([1, 2, 3]), [3, 1]).to_numpy()
    array([ True, False,  True])
    """
    given, wanted = as_tensor(x), np.unique(as_tensor(values).to_numpy())
    found = _constant(given, False)
    for value in wanted:
        found = _applied(ops.OR, found, given == value.item())
    return _applied(ops.NOT, found) if invert else found


@implements(np.divmod)
def divided(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """The quotients that are rounded down, and what remains."""
    left = as_tensor(a)
    return left // b, left % b


@implements(np.modf)
def modf(x: Any) -> tuple[Tensor, Tensor]:
    """What follows the decimal point, and the whole numbers, with the signs of the elements."""
    given = as_tensor(x)
    whole = _applied(ops.TRUNC, given)
    return given - whole, whole


@implements(np.deg2rad, np.radians)
def deg2rad(x: Any) -> Tensor:
    """Degrees as radians."""
    return as_tensor(x) * (np.pi / 180)


@implements(np.rad2deg, np.degrees)
def rad2deg(x: Any) -> Tensor:
    """Radians as degrees."""
    return as_tensor(x) * (180 / np.pi)


@implements(np.square)
def square(x: Any) -> Tensor:
    """The product of elements with themselves; of bools as small integers, as in NumPy."""
    given = _counted(as_tensor(x))
    return given * given


def _counted(x: Tensor) -> Tensor:
    """Bools as small integers, in which NumPy computes what bools have not."""
    return x.astype("int8") if x.dtype.kind == "b" else x


implements(np.positive)(lambda x: as_tensor(x))
implements(np.fabs)(lambda x: abs(as_tensor(x)))
implements(np.float_power)(lambda a, b: as_tensor(a).astype("float64") ** b)
