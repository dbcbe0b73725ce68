"""The namespace of the array API standard over tensors: what `A.__array_namespace__()` gives.

>>> from openwork.tensor.create import tensor
>>> A = tensor([[0.0, 3.0], [4.0, 0.0]], format="CSR")
>>> xp = A.__array_namespace__()
>>> float(xp.sum(xp.sqrt(xp.abs(A)) * A))
13.196152422706632
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import broadcast_shapes, e, inf, isdtype, nan, newaxis, pi

from openwork.algebra import operators as ops
from openwork.algebra.operators import Op
from openwork.algebra.types import as_dtype
from openwork.errors import ParseError
from openwork.tensor.create import tensor
from openwork.tensor.functions import sorted as in_order, special
from openwork.tensor.functions.einsum import einsum as einsum  # xarray looks for it here
from openwork.tensor.functions.elements import (
    isfinite,
    isin,
    isinf,
    isnan,
    logaddexp,
    reciprocal,
    rounded,
    signbit,
)
from openwork.tensor.functions.join import (
    as_tensor,
    concatenate,
    expand_dims as with_modes,
    flip,
    moveaxis,
    roll,
    stack,
    take as taken,
    tensordot as product_over,
    tile,
    tril,
    triu,
    where as chosen,
)
from openwork.tensor.functions.norms import (
    matrix_norm,
    matrix_power,
    vecdot,
    vector_norm,
)
from openwork.tensor.functions.parts import (
    broadcast_arrays,
    broadcast_to,
    pad as pad,  # for xarray, too
    repeat,
    unstack,
)
from openwork.tensor.functions.sorted import (
    cumulative_prod,
    cumulative_sum,
    unique_counts,
    unique_values,
)
from openwork.tensor.rearrange.broadcast import check_axes
from openwork.tensor.tensor import Tensor

__array_api_version__ = "2024.12"
VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


_DTYPES = {
    name: np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float32", "float64", "complex64", "complex128"),
    )
}


def _applied(op: Op) -> Callable[..., Tensor]:
    def call(x1: Any, /, *others: Any) -> Tensor:
        args = (x1, *others)
        first = next((each for each in args if isinstance(each, Tensor)), None)
        made: Tensor = (as_tensor(x1) if first is None else first).__openwork_apply__(op, args)
        return made

    call.__name__ = call.__qualname__ = op.name
    call.__doc__ = f"The operator {op.name}, element by element."
    return call


def _whole(op: Op) -> Callable[[Any], Tensor]:
    """A function that leaves whole numbers as they are."""

    def call(x: Any, /) -> Tensor:
        given = as_tensor(x)
        return given if given.dtype.kind in "iu" else _applied(op)(given)

    call.__doc__ = f"The operator {op.name} on fractions; whole numbers stay."
    return call


acos, acosh, asin, asinh = map(_applied, (ops.ACOS, ops.ACOSH, ops.ASIN, ops.ASINH))
atan, atan2, atanh = map(_applied, (ops.ATAN, ops.ATAN2, ops.ATANH))
add, subtract, multiply, divide = map(_applied, (ops.ADD, ops.SUB, ops.MUL, ops.DIV))
floor_divide, remainder = map(_applied, (ops.FLOOR_DIVIDE, ops.REMAINDER))
bitwise_and, bitwise_or, bitwise_xor = map(
    _applied, (ops.BITWISE_AND, ops.BITWISE_OR, ops.BITWISE_XOR)
)
bitwise_invert, bitwise_left_shift, bitwise_right_shift = map(
    _applied, (ops.INVERT, ops.LEFT_SHIFT, ops.RIGHT_SHIFT)
)
conj, copysign, cos, cosh = map(_applied, (ops.CONJ, ops.COPYSIGN, ops.COS, ops.COSH))
equal, not_equal, less, less_equal = map(_applied, (ops.EQ, ops.NE, ops.LT, ops.LE))
greater, greater_equal = map(_applied, (ops.GT, ops.GE))
exp, expm1, hypot, imag = map(_applied, (ops.EXP, ops.EXPM1, ops.HYPOT, ops.IMAG))
log, log1p, log2, log10 = map(_applied, (ops.LOG, ops.LOG1P, ops.LOG2, ops.LOG10))
logical_and, logical_not = map(_applied, (ops.AND, ops.NOT))
logical_or, logical_xor = map(_applied, (ops.OR, ops.XOR))
maximum, minimum, negative = map(_applied, (ops.MAX, ops.MIN, ops.NEG))
real, sign, sin, sinh, sqrt = map(_applied, (ops.REAL, ops.SIGN, ops.SIN, ops.SINH, ops.SQRT))
tan, tanh = map(_applied, (ops.TAN, ops.TANH))
ceil, floor, trunc = map(_whole, (ops.CEIL, ops.FLOOR, ops.TRUNC))


abs, pow = map(_applied, (ops.ABS, ops.POW))


def round(x: Any, /) -> Tensor:
    """The nearest whole numbers, the even ones of two."""
    return rounded(x)


def positive(x: Any, /) -> Tensor:
    """The elements."""
    return as_tensor(x)


def square(x: Any, /) -> Tensor:
    """Every element times itself."""
    return as_tensor(x) * as_tensor(x)


def clip(x: Any, /, min: Any = None, max: Any = None) -> Tensor:
    """The elements within bounds, in the type of `x`."""
    given = as_tensor(x)
    return given.clip(min, max).astype(given.dtype)


# Creation


def asarray(
    obj: Any, /, *, dtype: Any = None, device: Any = None, copy: builtins.bool | None = None
) -> Tensor:
    """A tensor of anything that `ow.tensor` takes."""
    made = obj if isinstance(obj, Tensor) else tensor(obj)
    made = made if dtype is None else made.astype(dtype)
    made = made.copy() if copy and made is obj else made
    return made if device is None else made.to(device)


def from_dlpack(x: Any, /, *, device: Any = None, copy: builtins.bool | None = None) -> Tensor:
    """A tensor of an object with `__dlpack__`."""
    return asarray(x, device=device, copy=copy)


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """Numbers of equal distance, as many as are below `stop`."""
    array = np.arange(start, step=step) if stop is None else np.arange(start, stop, step)
    return asarray(array, dtype=dtype, device=device)


def linspace(
    start: Any, stop: Any, /, num: builtins.int, *, dtype: Any = None, device: Any = None,
    endpoint: builtins.bool = True,
) -> Tensor:  # fmt: skip
    """So many numbers of equal distance."""
    return asarray(np.linspace(start, stop, num, endpoint), dtype=dtype, device=device)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A dense tensor of zeros."""
    return full(shape, 0.0, dtype=dtype, device=device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A dense tensor of ones."""
    return full(shape, 1.0, dtype=dtype, device=device)


empty = zeros


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A dense tensor of one value."""
    return asarray(special.full(shape, fill_value, dtype), device=device)


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """One value, in the shape, type and format of `x`."""
    return asarray(special.full_like(x, fill_value, dtype), device=device)


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros in the shape, type and format of `x`."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones in the shape, type and format of `x`."""
    return full_like(x, 1, dtype=dtype, device=device)


empty_like = zeros_like


def eye(
    n_rows: builtins.int,
    n_cols: builtins.int | None = None,
    /,
    *,
    k: builtins.int = 0,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Ones on the `k`-th diagonal, stored as CSR."""
    made = special.eye(n_rows, n_cols, k, "float64" if dtype is None else dtype)
    return asarray(made, device=device)


def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Vectors as grids: each along a mode of its own, and repeated along the others."""
    given = [as_tensor(each).ravel() for each in arrays]
    order = list(range(len(given)))
    if indexing == "xy":
        order[:2] = reversed(order[:2])
    shape = [given[n].size for n in order]
    wide = [v.reshape([-1 if m == n else 1 for m in order]) for n, v in enumerate(given)]
    return tuple(broadcast_to(each, shape) for each in wide)


# Types


def astype(x: Any, dtype: Any, /, *, copy: builtins.bool = True, device: Any = None) -> Tensor:
    """The elements in another type."""
    given = as_tensor(x)
    if given.dtype.kind == "c" and as_dtype(dtype).kind not in "c":
        raise ParseError(
            f"{given.dtype} has no value in {dtype}", code="E108", hint="xp.real(x) is a part of it"
        )
    return asarray(given, dtype=dtype, copy=copy, device=device)


def can_cast(from_: Any, to: Any, /) -> builtins.bool:
    """Whether one type goes into another by the rules of promotion."""
    return np.can_cast(getattr(from_, "dtype", from_), to)


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The type that others have together."""
    return np.result_type(
        *(each.dtype if isinstance(each, Tensor) else each for each in arrays_and_dtypes)
    )


class Limits(NamedTuple):
    """The limits of a type of fractions, as Python's numbers."""

    bits: builtins.int
    eps: builtins.float
    max: builtins.float
    min: builtins.float
    smallest_normal: builtins.float
    dtype: Any


def finfo(type: Any, /) -> Limits:
    """The limits of a type of fractions."""
    found = np.finfo(getattr(type, "dtype", type))
    eps, most, least, normal = map(
        builtins.float, (found.eps, found.max, found.min, found.smallest_normal)
    )
    return Limits(found.bits, eps, most, least, normal, found.dtype)


def iinfo(type: Any, /) -> Any:
    """The limits of a type of whole numbers."""
    return np.iinfo(getattr(type, "dtype", type))


# Shapes


def concat(arrays: Sequence[Any], /, *, axis: builtins.int | None = 0) -> Tensor:
    """Tensors one behind the other along a mode that they have."""
    return concatenate(arrays, axis)


def expand_dims(x: Any, /, *, axis: Any = 0) -> Tensor:
    """The tensor with another mode of extent 1."""
    return with_modes(x, axis)


def permute_dims(x: Any, /, axes: Sequence[builtins.int]) -> Tensor:
    """The tensor with its modes in another order; nothing is copied."""
    return as_tensor(x).transpose(tuple(axes))


def matrix_transpose(x: Any, /) -> Tensor:
    """The tensor with its last two modes swapped; nothing is copied."""
    return as_tensor(x).mT


def reshape(x: Any, /, shape: Any, *, copy: builtins.bool | None = None) -> Tensor:
    """The elements in row-major order in another shape."""
    made = as_tensor(x).reshape(shape)
    return made.copy() if copy else made


def squeeze(x: Any, /, axis: Any) -> Tensor:
    """The tensor without modes of extent 1."""
    return as_tensor(x).squeeze(axis)


# Elements by place and by value


def take(x: Any, indices: Any, /, *, axis: builtins.int | None = None) -> Tensor:
    """The elements at these places along a mode."""
    return taken(x, as_tensor(indices).to_numpy(), axis)


def take_along_axis(x: Any, indices: Any, /, *, axis: builtins.int = -1) -> Tensor:
    """For each place of `indices`, the element there along a mode."""
    given, places = as_tensor(x), as_tensor(indices).to_numpy()
    (mode,) = check_axes(axis, given.order, given.name)
    shape = np.broadcast_shapes(
        places.shape, tuple(1 if n == mode else extent for n, extent in enumerate(given.shape))
    )
    grid = list(np.ogrid[tuple(slice(extent) for extent in shape)])
    grid[mode] = np.broadcast_to(places, shape)
    made: Tensor = given[tuple(grid)]
    return made


def nonzero(x: Any, /) -> tuple[Tensor, ...]:
    """The coordinates of all elements that are not zero, a vector for each mode."""
    return tuple(map(as_tensor, as_tensor(x).nonzero()))


def argmax(
    x: Any, /, *, axis: builtins.int | None = None, keepdims: builtins.bool = False
) -> Tensor:
    """The first coordinate of the greatest element."""
    return as_tensor(x).argmax(axis, keepdims=keepdims)


def argmin(
    x: Any, /, *, axis: builtins.int | None = None, keepdims: builtins.bool = False
) -> Tensor:
    """The first coordinate of the least element."""
    return as_tensor(x).argmin(axis, keepdims=keepdims)


def count_nonzero(x: Any, /, *, axis: Any = None, keepdims: builtins.bool = False) -> Tensor:
    """How many elements are not zero."""
    return as_tensor(in_order.count_nonzero(x, axis, keepdims=keepdims))


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Tensor:
    """Where elements belong in a sorted vector; dense."""
    order = None if sorter is None else as_tensor(sorter).to_numpy()
    places = np.searchsorted(as_tensor(x1).to_numpy(), as_tensor(x2).to_numpy(), side, order)  # type: ignore[call-overload]
    return as_tensor(np.asarray(places, np.int64))


def where(condition: Any, x1: Any, x2: Any, /) -> Tensor:
    """`x1` where the condition holds, `x2` elsewhere."""
    made: Tensor = chosen(condition, x1, x2)
    return made


def unique_inverse(x: Any, /) -> tuple[Tensor, Tensor]:
    """The different elements, and for each element which of them it is; dense."""
    found = np.unique_inverse(as_tensor(x).to_numpy())
    return as_tensor(found.values), as_tensor(found.inverse_indices)


def unique_all(x: Any, /) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The different elements, where each is first, which each element is, and how often; dense."""
    values, indices, inverse, counts = map(as_tensor, np.unique_all(as_tensor(x).to_numpy()))
    return values, indices, inverse, counts


def sort(
    x: Any,
    /,
    *,
    axis: builtins.int = -1,
    descending: builtins.bool = False,
    stable: builtins.bool = True,
) -> Tensor:
    """Elements in order along a mode."""
    return in_order.sort(x, axis, descending=descending)


def argsort(
    x: Any,
    /,
    *,
    axis: builtins.int = -1,
    descending: builtins.bool = False,
    stable: builtins.bool = True,
) -> Tensor:
    """The coordinates along a mode that put the elements in order."""
    return in_order.argsort(x, axis, descending=descending)


# Reductions


def _reduced(name: str) -> Callable[..., Tensor]:
    def call(
        x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: builtins.bool = False
    ) -> Tensor:
        more = {} if dtype is None else {"dtype": dtype}
        made: Tensor = getattr(as_tensor(x), name)(axis, keepdims=keepdims, **more)
        return made

    call.__name__, call.__doc__ = name, getattr(Tensor, name).__doc__
    return call


def std(
    x: Any,
    /,
    *,
    axis: Any = None,
    correction: builtins.float = 0.0,
    keepdims: builtins.bool = False,
) -> Tensor:
    """The standard deviation over modes."""
    return as_tensor(x).std(axis, ddof=correction, keepdims=keepdims)


def var(
    x: Any,
    /,
    *,
    axis: Any = None,
    correction: builtins.float = 0.0,
    keepdims: builtins.bool = False,
) -> Tensor:
    """The variance over modes."""
    return as_tensor(x).var(axis, ddof=correction, keepdims=keepdims)


all, any, max, mean, min, prod, sum = map(
    _reduced, ("all", "any", "max", "mean", "min", "prod", "sum")
)


def diff(
    x: Any,
    /,
    *,
    axis: builtins.int = -1,
    n: builtins.int = 1,
    prepend: Any = None,
    append: Any = None,
) -> Tensor:
    """The differences of neighbours along a mode."""
    around = [as_tensor(each) for each in (prepend, x, append) if each is not None]
    return in_order.diff(concatenate(around, axis) if len(around) > 1 else around[0], n, axis)


# Linear algebra


def matmul(x1: Any, x2: Any, /) -> Tensor:
    """Matrix products."""
    return as_tensor(x1) @ x2  # type: ignore[no-any-return]


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Tensor:
    """The sum of products over modes of both."""
    return product_over(x1, x2, axes)


class _Linalg:
    """The functions of the standard's extension that sparse tensors have."""

    matmul, tensordot, vecdot = staticmethod(matmul), staticmethod(tensordot), staticmethod(vecdot)
    matrix_transpose, matrix_norm = staticmethod(matrix_transpose), staticmethod(matrix_norm)
    matrix_power, vector_norm = staticmethod(matrix_power), staticmethod(vector_norm)

    @staticmethod
    def diagonal(x: Any, /, *, offset: builtins.int = 0) -> Tensor:
        """The diagonals of the matrices in the last two modes."""
        return as_tensor(x).diagonal(offset, -2, -1)

    @staticmethod
    def trace(x: Any, /, *, offset: builtins.int = 0, dtype: Any = None) -> Tensor:
        """The sums of the diagonals of the matrices in the last two modes."""
        return as_tensor(x).diagonal(offset, -2, -1).sum(-1, dtype)

    @staticmethod
    def outer(x1: Any, x2: Any, /) -> Tensor:
        """The product of every element of one vector with every element of another."""
        return as_tensor(x1).reshape(-1, 1) * as_tensor(x2)


linalg = _Linalg()


# What there is


class _Info:
    """Inspection, as the standard has it."""

    def capabilities(self) -> dict[str, Any]:
        """Whether shapes may depend on data."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> str:
        """Where new tensors are."""
        return "cpu"

    def devices(self) -> list[str]:
        """Where tensors may be."""
        return ["cpu", "cuda"]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The types of Python's numbers."""
        return {
            "real floating": _DTYPES["float64"],
            "complex floating": _DTYPES["complex128"],
            "integral": _DTYPES["int64"],
            "indexing": _DTYPES["int64"],
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The element types of a kind, or all of them."""
        return {
            name: dtype for name, dtype in _DTYPES.items() if kind is None or isdtype(dtype, kind)
        }


def __array_namespace_info__() -> _Info:
    """What this namespace offers."""
    return _Info()


bool, float32, float64, complex64, complex128 = (
    _DTYPES[name] for name in ("bool", "float32", "float64", "complex64", "complex128")
)
int8, int16, int32, int64 = (_DTYPES[f"int{bits}"] for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (_DTYPES[f"uint{bits}"] for bits in (8, 16, 32, 64))

__all__ = [
    "__array_api_version__", "__array_namespace_info__", "abs", "acos", "acosh", "add", "all",
    "any", "arange", "argmax", "argmin", "argsort", "asarray", "asin", "asinh", "astype",
    "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert", "bitwise_left_shift",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "bool", "broadcast_arrays",
    "broadcast_shapes", "broadcast_to", "can_cast", "ceil", "clip", "complex128", "complex64",
    "concat", "conj", "copysign", "cos", "cosh", "count_nonzero", "cumulative_prod",
    "cumulative_sum", "diff", "divide", "e", "empty", "empty_like", "equal", "exp",
    "expand_dims", "expm1", "eye", "finfo", "flip", "float32", "float64", "floor",
    "floor_divide", "from_dlpack", "full", "full_like", "greater", "greater_equal", "hypot",
    "iinfo", "imag", "inf", "int16", "int32", "int64", "int8", "isdtype", "isfinite", "isin",
    "isinf", "isnan", "less", "less_equal", "linalg", "linspace", "log", "log10", "log1p",
    "log2", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "matmul",
    "matrix_transpose", "max", "maximum", "mean", "meshgrid", "min", "minimum", "moveaxis",
    "multiply", "nan", "negative", "newaxis", "nonzero", "not_equal", "ones", "ones_like",
    "permute_dims", "pi", "positive", "pow", "prod", "real", "reciprocal", "remainder",
    "repeat", "reshape", "result_type", "roll", "round", "searchsorted", "sign", "signbit",
    "sin", "sinh", "sort", "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum",
    "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "tril", "triu", "trunc",
    "uint16", "uint32", "uint64", "uint8", "unique_all", "unique_counts", "unique_inverse",
    "unique_values", "unstack", "var", "vecdot", "where", "zeros", "zeros_like",
]  # fmt: skip
