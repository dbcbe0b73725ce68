"""Tensors of known contents: zeros, one value, the identity, diagonals, random entries."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from openwork.algebra.entries import Entry
from openwork.algebra.types import Number, as_dtype, as_element
from openwork.errors import ShapeError
from openwork.format.formats import Format, as_format
from openwork.tensor.convert.pack import unpack
from openwork.tensor.create import empty, tensor
from openwork.tensor.exchange.interop import usual
from openwork.tensor.exchange.numpy_functions import implements
from openwork.tensor.exchange.records import as_records
from openwork.tensor.exchange.validate import check_shape
from openwork.tensor.rearrange.shape import unraveled
from openwork.tensor.tensor import Tensor


def zeros(shape: object, dtype: object = "float64", format: Format | str | None = None) -> Tensor:
    """A tensor of zeros: dense, or a sparse one without entries.

    >>> zeros((2, 3), format="CSR")
    <Tensor ...: 2x3 float64, ow.CSR, 0 stored>
    """
    return empty(shape, dtype, format)


def ones(shape: object, dtype: object = "float64", format: Format | str | None = None) -> Tensor:
    """A tensor of ones: dense, or a sparse one without entries, whose fill is 1."""
    return full(shape, 1, dtype, format)


def from_dense(array: object, format: Format | str = "CSR", fill: Number | None = None) -> Tensor:
    """The elements of a dense array that differ from `fill`, in a sparse format.

    >>> from_dense([[0, 3], [4, 0]], "CSC").nnz
    2
    """
    return tensor(array, format, fill=fill)


def full(
    shape: object, value: Number, dtype: object = None, format: Format | str | None = None
) -> Tensor:
    """A tensor of one value: dense, or a sparse one without entries, whose fill it is.

    >>> full((2, 2), np.inf, format="CSR").fill
    inf
    """
    if format is None or as_format(format, len(check_shape(shape))).is_dense:
        kind = None if dtype is None else as_dtype(dtype)
        if isinstance(kind, Entry):
            return tensor(np.full(check_shape(shape), _record(value, kind)), format)
        return tensor(np.full(check_shape(shape), value, dtype), format)  # type: ignore[call-overload]
    return empty(shape, np.asarray(value).dtype if dtype is None else dtype, format, fill=value)


def _record(value: Any, entry: Entry) -> np.ndarray[Any, Any]:
    """An element from a number, so many times one, or from its components."""
    if np.ndim(value) == 0 and not isinstance(value, np.void):
        return as_element(value, entry)
    return as_records(np.asarray(value), entry, "the value")


def _like(prototype: Any, dtype: Any, shape: Any) -> tuple[Any, Any, Any]:
    """The shape, type and format of a tensor like `prototype`."""
    given = prototype if isinstance(prototype, Tensor) else Tensor.wrap(prototype)
    wanted = given.shape if shape is None else check_shape(shape)
    same = len(wanted) == given.order and not given.format.is_dense
    return wanted, given.dtype if dtype is None else dtype, given.format if same else None


@implements(np.full_like)
def full_like(a: Any, fill_value: Number, dtype: Any = None, *, shape: Any = None) -> Tensor:
    """One value, in the shape, type and format of another tensor."""
    wanted, kind, format = _like(a, dtype, shape)
    return full(wanted, fill_value, kind, format)


@implements(np.zeros_like, np.empty_like)
def zeros_like(a: Any, dtype: Any = None, *, shape: Any = None) -> Tensor:
    """Zeros in the shape, type and format of another tensor: a sparse one without entries.

    >>> zeros_like(eye(3)).nnz
    0
    """
    return full_like(a, 0, dtype, shape=shape)


@implements(np.ones_like)
def ones_like(a: Any, dtype: Any = None, *, shape: Any = None) -> Tensor:
    """Ones in the shape, type and format of another tensor."""
    return full_like(a, 1, dtype, shape=shape)


def eye(
    rows: int,
    columns: int | None = None,
    k: int = 0,
    dtype: object = "float64",
    format: Format | str = "CSR",
) -> Tensor:
    """Ones on the `k`-th diagonal.

    >>> eye(2, 3, k=1).to_numpy()
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """
    shape = check_shape((rows, rows if columns is None else columns))
    row = np.arange(max(0, -k), max(0, -k, min(shape[0], shape[1] - k)))
    kind = as_dtype(dtype)
    values = np.full(len(row), as_element(1, kind))
    return tensor((np.stack([row, row + k]), values), format, shape=shape, dtype=kind)


# NumPy calls these for its own functions with like=; `more` are order= and device= of an array.
implements(np.zeros, np.empty)(lambda shape, dtype=float, **more: zeros(shape, dtype))
implements(np.ones)(lambda shape, dtype=float, **more: ones(shape, dtype))
implements(np.full)(lambda shape, value, dtype=None, **more: full(shape, value, dtype))
implements(np.eye)(lambda N, M=None, k=0, dtype=float, **more: eye(N, M, k, dtype))
implements(np.identity)(lambda n, dtype=float: eye(n, dtype=dtype))
implements(np.arange)(lambda *args, **more: tensor(np.arange(*args, **more)))


@implements(np.array, np.asarray, np.asanyarray)
def like_array(a: Any, dtype: Any = None, **more: Any) -> Tensor:
    """An array as a tensor; a tensor as it is."""
    made = a if isinstance(a, Tensor) else Tensor.wrap(a).copy()
    return made if dtype is None else made.astype(dtype)


@implements(np.diag)
def diag(v: Any, k: int = 0) -> Tensor:
    """The matrix with a vector on its `k`-th diagonal, stored as CSR; the diagonal of a matrix.

    >>> diag([1.0, 2.0])
    <Tensor ...: 2x2 float64, ow.CSR, 2 stored>
    >>> diag(diag([1.0, 2.0])).to_numpy()
    array([1., 2.])
    """
    given = v if isinstance(v, Tensor) else Tensor.wrap(v)
    if given.order == 2:
        return given.diagonal(k)
    if given.order != 1:
        raise ShapeError(f"{given.name} has {given.order} modes: diag takes 1 or 2", code="E204")
    coordinates, values = unpack(given.storage.host())
    place = coordinates[0]
    size = given.shape[0] + abs(k)
    coords = np.stack([place, place]).astype(np.int64)
    coords[1 if k > 0 else 0] += abs(k)
    return tensor((coords, values), "CSR", shape=(size, size), dtype=given.dtype)


@implements(np.diagflat)
def diagflat(v: Any, k: int = 0) -> Tensor:
    """The matrix with all elements of a tensor on its `k`-th diagonal, stored as CSR."""
    return diag((v if isinstance(v, Tensor) else Tensor.wrap(v)).ravel(), k)


def random(
    shape: object,
    density: float = 0.01,
    *,
    rng: Any = None,
    dtype: object = "float64",
    format: Format | str | None = None,
) -> Tensor:
    """Entries at random places, with values between 0 and 1.

    Args:
        shape: the extents.
        density: the fraction of elements that are stored.
        rng: a generator of NumPy, or a seed for one.
        dtype: the element type.
        format: by default CSR for matrices, CSF otherwise.

    >>> random((100, 50), 0.1, rng=1).nnz
    500
    """
    extents = check_shape(shape)
    if not 0 <= density <= 1:
        raise ShapeError(f"a density of {density} is not between 0 and 1", code="E205")
    chance = np.random.default_rng(rng)
    count = round(density * prod(extents))
    flat = chance.choice(prod(extents), count, replace=False)
    wanted = usual(extents, count) if format is None else as_format(format, len(extents))
    values = chance.random(count).astype(dtype)  # type: ignore[call-overload]
    return tensor((unraveled(flat, extents), values), wanted, shape=extents)
