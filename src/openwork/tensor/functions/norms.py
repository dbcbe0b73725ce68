"""Norms, inner products and powers of matrices, under the names of NumPy's linear algebra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from openwork.algebra import operators as ops
from openwork.algebra.entries import Complex, Entry, Quaternion
from openwork.errors import ParseError, ShapeError
from openwork.tensor.eager import once_more
from openwork.tensor.exchange.numpy_functions import implements
from openwork.tensor.functions.join import as_tensor, outer, tensordot
from openwork.tensor.functions.sorted import count_nonzero
from openwork.tensor.functions.special import eye
from openwork.tensor.rearrange.broadcast import check_axes
from openwork.tensor.reductions import Axis, root_of_squares
from openwork.tensor.tensor import Tensor


def _inexact(x: Any) -> Tensor:
    given = as_tensor(x)
    return given.astype("float64") if given.dtype.kind in "iub" else given


def _size(x: Tensor) -> Tensor:
    """The absolute values; of records, the roots of what they are times their conjugates."""
    if not isinstance(x.dtype, Entry):
        return abs(x)
    squares = x.conj() * x
    if isinstance(squares.dtype, Complex | Quaternion):
        squares = squares.real
    if isinstance(squares.dtype, Entry):
        raise ParseError(
            f"no norm is defined for {x.dtype}",
            code="E108",
            hint="of complex numbers, quaternions and vectors it is",
        )
    return squares._applied(ops.SQRT)


@implements(np.linalg.vector_norm)
def vector_norm(x: Any, *, axis: Axis = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """The length of vectors: the root of the sum of squares, or another norm.

    >>> float(vector_norm(as_tensor([3.0, 0.0, 4.0]).to("Compressed")))
    5.0
    """
    given = _inexact(x)
    real = not isinstance(given.dtype, Entry) and given.dtype.kind == "f"
    if ord == 2 and real and not given.fill and not keepdims and given.device == "cpu":
        return given.made(root_of_squares(given, axis))
    size = _size(given)
    if ord == np.inf:
        return size.max(axis, keepdims=keepdims)
    if ord == -np.inf:
        return size.min(axis, keepdims=keepdims)
    if ord == 0:
        made = count_nonzero(size, axis, keepdims=keepdims)
        return as_tensor(made).astype(size.dtype)
    if ord == 1:
        return size.sum(axis, keepdims=keepdims)
    if ord == 2:
        return (size * size).sum(axis, keepdims=keepdims)._applied(ops.SQRT)
    return (size**ord).sum(axis, keepdims=keepdims) ** (1 / ord)


@implements(np.linalg.matrix_norm)
def matrix_norm(x: Any, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """A norm of the matrices in the last two modes: `"fro"`, 1, -1, inf or -inf."""
    given = _inexact(x)
    if given.order < 2:
        raise ShapeError(f"{given.name} has {given.order} modes: no matrix", code="E204")
    rows, columns = given.order - 2, given.order - 1
    if ord in ("fro", None):
        return vector_norm(given, axis=(rows, columns), keepdims=keepdims)
    if ord not in (1, -1, np.inf, -np.inf):
        raise ParseError(
            f"the matrix norm {ord!r} needs singular values",
            code="E112",
            hint="scipy.sparse.linalg.svds(A, k=1) finds the greatest one",
        )
    mode = rows if abs(ord) == 1 else columns
    sums = _size(given).sum(mode, keepdims=True)
    made = sums.max((rows, columns)) if ord > 0 else sums.min((rows, columns))
    return made.reshape((*made.shape, 1, 1)) if keepdims else made


@implements(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """A norm of a vector, a matrix, or along modes, as `numpy.linalg.norm` has them."""
    if axis is None and ord is None and not keepdims and isinstance(x, Tensor):
        again = once_more(("length", None), x)
        if again is not None:
            return again
    given = as_tensor(x)
    if axis is None and ord is None:
        return vector_norm(given, keepdims=keepdims)
    axes = check_axes(axis, given.order, given.name)
    if len(axes) == 1:
        return vector_norm(given, axis=axes, keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ShapeError(f"a norm over {len(axes)} modes of {given.name}", code="E204")
    rest = [mode for mode in range(given.order) if mode not in axes]
    made = matrix_norm(given.transpose((*rest, *axes)), ord="fro" if ord is None else ord)
    if keepdims:
        made = made.reshape(tuple(1 if n in axes else e for n, e in enumerate(given.shape)))
    return made


@implements(np.linalg.vecdot, np.vecdot)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """The inner products of vectors along a mode, the first ones conjugated."""
    return (as_tensor(x1).conj() * as_tensor(x2)).sum(axis)


@implements(np.vdot)
def vdot(a: Any, b: Any) -> Tensor:
    """The inner product of all elements, the first ones conjugated."""
    return vecdot(as_tensor(a).ravel(), as_tensor(b).ravel())


@implements(np.inner)
def inner(a: Any, b: Any) -> Tensor:
    """The sums of products over the last modes of both."""
    left, right = as_tensor(a), as_tensor(b)
    if not (left.order and right.order):
        return left * right
    return tensordot(left, right, axes=(left.order - 1, right.order - 1))


def matvec(x1: Any, x2: Any, /) -> Tensor:
    """The products of matrices with vectors."""
    made: Tensor = (as_tensor(x1) @ as_tensor(x2)[..., None])[..., 0]
    return made


def vecmat(x1: Any, x2: Any, /) -> Tensor:
    """The products of vectors, which are conjugated, with matrices."""
    made: Tensor = (as_tensor(x1).conj()[..., None, :] @ as_tensor(x2))[..., 0, :]
    return made


if hasattr(np, "matvec"):  # since NumPy 2.2
    implements(np.matvec)(matvec)
    implements(np.vecmat)(vecmat)


@implements(np.linalg.matrix_power)
def matrix_power(a: Any, n: int) -> Tensor:
    """A square matrix multiplied with itself, `n` times; sparse ones stay sparse.

    >>> matrix_power(as_tensor([[0, 1], [1, 1]]).to("CSR"), 5).to_numpy()
    array([[3, 5],
           [5, 8]])
    """
    given = as_tensor(a)
    if given.order != 2 or given.shape[0] != given.shape[1]:
        raise ShapeError(f"{given.name} of shape {given.shape} is not square", code="E204")
    if n < 0:
        raise ParseError(
            "a sparse matrix has no sparse inverse",
            code="E112",
            hint="scipy.sparse.linalg.splu(A.to_scipy()) solves with it",
        )
    made = None
    power = given
    while n:
        if n & 1:
            made = power if made is None else made @ power
        n >>= 1
        power = power @ power if n else power
    if made is not None:
        return made
    format = "CSR" if not given.format.is_dense else "dense(2)"
    return eye(given.shape[0], dtype=given.dtype).to(format)


@implements(np.linalg.multi_dot)
def multi_dot(arrays: Sequence[Any]) -> Tensor:
    """The product of several matrices, from the left: for sparse ones, no order is known better."""
    given = [as_tensor(each) for each in arrays]
    made = given[0]
    for each in given[1:]:
        made = made @ each
    return made


implements(np.linalg.trace)(lambda x, /, *, offset=0, dtype=None: as_tensor(x).diagonal(
    offset, -2, -1).sum(-1, dtype))  # fmt: skip
implements(np.linalg.diagonal)(lambda x, /, *, offset=0: as_tensor(x).diagonal(offset, -2, -1))
implements(np.linalg.outer)(outer)
implements(np.linalg.matmul)(lambda a, b, /: as_tensor(a) @ as_tensor(b))
implements(np.linalg.matrix_transpose, np.matrix_transpose)(lambda x, /: as_tensor(x).mT)
implements(np.linalg.tensordot)(lambda a, b, /, *, axes=2: tensordot(a, b, axes))
