"""Elements in order: sorted, the different ones, running sums; and how many are not zero.

Sorting moves entries of a sparse tensor around the absent ones. Running sums have a value
everywhere, so they are dense.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from openwork.algebra.entries import Entry
from openwork.algebra.operators import SELECT as _SELECT
from openwork.algebra.types import as_dtype
from openwork.errors import ParseError, ShapeError
from openwork.runtime.storage import Array
from openwork.tensor.convert.pack import to_dense
from openwork.tensor.exchange.numpy_functions import implements
from openwork.tensor.functions.join import as_tensor
from openwork.tensor.rearrange.broadcast import check_axes
from openwork.tensor.rearrange.shape import of_array, on_device_of, raveled, rearranged
from openwork.tensor.tensor import Tensor


class Unique(NamedTuple):
    """The different elements, in order, and how often each is there."""

    values: Tensor
    counts: Tensor


@implements(np.unique_counts)
def unique_counts(x: Any) -> Unique:
    """The different elements in ascending order, and how often each is there.

    Absent entries count as so many times the fill.

    >>> unique_counts(as_tensor([[0, 3], [0, 0]]).to("CSR")).counts.to_numpy()
    array([3, 1])
    """
    given = as_tensor(x)
    values, counts = _counted(given, False)
    return Unique(_dense(given, values), _dense(given, counts))


@implements(np.unique_values)
def unique_values(x: Any) -> Tensor:
    """The different elements in ascending order.

    >>> unique_values(as_tensor([[0, 3], [2, 0]]).to("CSR")).to_numpy()
    array([0, 2, 3])
    """
    return unique_counts(x).values


@implements(np.unique)
def unique(ar: Any, return_counts: bool = False) -> Any:
    """The different elements, and with `return_counts` how often each is there."""
    given = as_tensor(ar)
    values, counts = (_dense(given, each) for each in _counted(given, True))
    return (values, counts) if return_counts else values


def _counted(given: Tensor, equal_nan: bool) -> tuple[Array, Array]:
    _check_ordered(given, "unique")
    _, stored = given.to_coo()
    values, counts = np.unique(stored, return_counts=True, equal_nan=equal_nan)
    absent = given.size - len(stored)
    if absent:
        at = np.flatnonzero(values == given.fill)
        if len(at):
            counts[at[0]] += absent
        else:
            values = np.append(values, np.asarray(given.fill, values.dtype))
            counts = np.append(counts, absent)
            order = np.argsort(values, kind="stable")
            values, counts = values[order], counts[order]
    return values, counts.astype(np.int64)


def _dense(like: Tensor, array: Array) -> Tensor:
    return Tensor.of(on_device_of(like.storage, of_array(array, like.storage)))


@implements(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """How many elements are not zero, stored zeros left out.

    >>> int(count_nonzero(as_tensor([[0, 3], [2, 0]]).to("CSR")))
    2
    """
    made = (as_tensor(a) != 0).sum(axis, keepdims=keepdims)
    return int(made) if axis is None and not keepdims else made


# Sorted


@implements(np.sort)
def sort(
    a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None,
    descending: bool = False,
) -> Tensor:  # fmt: skip
    """Elements in ascending order along a mode; a sparse tensor stays sparse.

    >>> sort(as_tensor([[3, 0, -1]]).to("CSR")).to_numpy()
    array([[-1,  0,  3]])
    """
    given = as_tensor(a)
    _check_ordered(given, "sort")
    if axis is None:
        return sort(given.ravel(), 0, descending=descending)
    (mode,) = check_axes(axis, given.order, given.name)
    extent, shape = given.shape[mode], given.shape

    def on_array(array: Array) -> Array:
        made = np.sort(array, mode)
        return np.flip(made, mode) if descending else made

    def move(coords: Array, values: Array) -> tuple[Array, Array]:
        rest = np.delete(coords, mode, axis=0)
        cell = raveled(rest, tuple(e for n, e in enumerate(shape) if n != mode))
        by = np.lexsort((values, cell))
        coords, values, cell = coords[:, by].astype(np.int64), values[by], cell[by]
        start = np.searchsorted(cell, cell, side="left")
        stop = np.searchsorted(cell, cell, side="right")
        rank, after = np.arange(len(cell)) - start, stop - np.arange(len(cell))
        # Where the fill is in between, absent entries are; NaN comes last.
        before = (values < given.fill) | (given.fill != given.fill)
        place = np.where(before, rank, extent - after)
        coords[mode] = extent - 1 - place if descending else place
        return coords, values

    return Tensor.of(rearranged(given.storage, shape, on_array, move))


@implements(np.argsort)
def argsort(
    a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None,
    descending: bool = False,
) -> Tensor:  # fmt: skip
    """The coordinates along a mode that put the elements in ascending order; dense."""
    given = as_tensor(a)
    _check_ordered(given, "argsort")
    if axis is None:
        return argsort(given.ravel(), 0, descending=descending)
    (mode,) = check_axes(axis, given.order, given.name)
    array = to_dense(given.storage.host())
    if descending:  # equal elements keep their order
        turned = np.flip(np.argsort(np.flip(array, mode), mode, kind="stable"), mode)
        return _dense(given, array.shape[mode] - 1 - turned)
    return _dense(given, np.argsort(array, mode, kind="stable"))


# Elements in order are parted at every place.
implements(np.partition)(lambda a, kth, axis=-1, kind=None, order=None: sort(a, axis))
implements(np.argpartition)(lambda a, kth, axis=-1, kind=None, order=None: argsort(a, axis))


# Running sums and products


def _running(function: Any, a: Any, axis: int | None, dtype: Any, initial: bool) -> Tensor:
    given = as_tensor(a)
    if axis is None and given.order != 1 and initial:
        raise ShapeError(
            f"{given.name} has {given.order} modes: along which one?",
            code="E204",
            hint="axis=0",
        )
    mode = 0 if axis is None else check_axes(axis, given.order, given.name)[0]
    array = to_dense(given.storage.host())
    array = array.reshape(-1) if axis is None else array
    if isinstance(given.dtype, Entry):
        return _dense(given, _running_records(function, array, mode, given.dtype, dtype))
    made = function(array, axis=mode, dtype=None if dtype is None else as_dtype(dtype))
    return _dense(given, made)


def _running_records(function: Any, array: Array, mode: int, given: Entry, dtype: Any) -> Array:
    """Sums of records, number by number; other types have no NumPy function."""
    wanted = given.decoded if dtype is None else as_dtype(dtype)
    if function is not np.cumsum or given.sum is not None or not isinstance(wanted, Entry):
        raise ParseError(
            f"running {'sums' if function is np.cumsum else 'products'} are not defined for "
            f"{given}" + ("" if dtype is None else f" as {wanted}"),
            code="E108",
        )
    return wanted.joined([np.cumsum(each, axis=mode) for each in wanted.split(wanted.cast(array))])


def _check_ordered(given: Tensor, what: str) -> None:
    """Refuse records, which have no order."""
    if isinstance(given.dtype, Entry):
        raise ParseError(
            f"{what} is not defined for {given.dtype}, whose elements have no order",
            code="E108",
            hint="of one of their numbers: A.to_numpy()[..., 0]",
        )


@implements(np.cumsum)
def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Tensor:
    """The sum of all elements up to each, along a mode or in row-major order; dense.

    >>> cumsum(as_tensor([0, 3, 0, 1]).to("Compressed")).to_numpy()
    array([0, 3, 3, 4])
    """
    return _running(np.cumsum, a, axis, dtype, False)


@implements(np.cumprod)
def cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Tensor:
    """The product of all elements up to each, along a mode or in row-major order; dense."""
    return _running(np.cumprod, a, axis, dtype, False)


def _cumulative(function: Any, identity: int) -> Any:
    def call(
        x: Any, /, *, axis: int | None = None, dtype: Any = None, out: None = None,
        include_initial: bool = False,
    ) -> Tensor:  # fmt: skip
        made = _running(function, x, axis, dtype, True)
        if not include_initial:
            return made
        array = to_dense(made.storage.host())
        mode = 0 if axis is None else axis % array.ndim
        first = np.full((*array.shape[:mode], 1, *array.shape[mode + 1 :]), identity, array.dtype)
        return _dense(made, np.concatenate([first, array], mode))

    call.__doc__ = f"The running {'product' if identity else 'sum'} of the array API standard."
    return call


cumulative_sum = implements(np.cumulative_sum)(_cumulative(np.cumsum, 0))
cumulative_prod = implements(np.cumulative_prod)(_cumulative(np.cumprod, 1))


@implements(np.diff)
def diff(a: Any, n: int = 1, axis: int = -1) -> Tensor:
    """The difference of each element and the one before it along a mode, `n` times.

    Of bools it is whether they differ, as in NumPy.

    >>> diff(as_tensor([0, 3, 0, 1]).to("Compressed")).to_numpy()
    array([ 3, -3,  1])
    """
    made = as_tensor(a)
    (mode,) = check_axes(axis, made.order, made.name)
    for _ in range(n):
        whole = (slice(None),) * mode
        later, earlier = made[(*whole, slice(1, None))], made[(*whole, slice(None, -1))]
        made = later != earlier if made.dtype.kind == "b" else later - earlier
    return made


@implements(np.ptp)
def ptp(a: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Tensor:
    """The greatest less the least element."""
    given = as_tensor(a)
    return given.max(axis, keepdims=keepdims) - given.min(axis, keepdims=keepdims)


@implements(np.average)
def average(a: Any, axis: Any = None, weights: Any = None) -> Tensor:
    """The mean, of elements that count as often as `weights` says."""
    given = as_tensor(a)
    if weights is None:
        return given.mean(axis)
    by = as_tensor(weights)
    if by.shape != given.shape and by.order == 1 and axis is not None:
        (mode,) = check_axes(axis, given.order, given.name)
        by = by.reshape(tuple(-1 if n == mode else 1 for n in range(given.order)))
    total = (given * by).sum(axis)
    if by.shape == given.shape:
        return total / by.sum(axis)
    return total / by.sum()


@implements(np.nansum)
def nansum(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum of the elements that are numbers."""
    return _numbers(as_tensor(a), 0).sum(axis, dtype, keepdims=keepdims)


@implements(np.nanprod)
def nanprod(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product of the elements that are numbers."""
    return _numbers(as_tensor(a), 1).prod(axis, dtype, keepdims=keepdims)


@implements(np.nanmin)
def nanmin(a: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The least of the elements that are numbers; infinite where there are none."""
    return _numbers(as_tensor(a), np.inf).min(axis, keepdims=keepdims)


@implements(np.nanmax)
def nanmax(a: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The greatest of the elements that are numbers; minus infinity where there are none."""
    return _numbers(as_tensor(a), -np.inf).max(axis, keepdims=keepdims)


@implements(np.nanmean)
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False
) -> Tensor:
    """The mean of the elements that are numbers."""
    given = as_tensor(a)
    if given.dtype.kind not in "fc":
        return given.mean(axis, dtype, out, keepdims)
    count = (given == given).sum(axis, None, out, keepdims)
    total = nansum(given, axis, dtype, keepdims)
    return (total / count).astype(total.dtype)


@implements(np.nanvar)
def nanvar(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: float = 0,
    keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """The variance of the elements that are numbers."""
    given = as_tensor(a) if dtype is None else as_tensor(a).astype(dtype)
    if given.dtype.kind not in "fc":
        return given.var(axis, None, out, ddof, keepdims)
    away = abs(given - nanmean(given, axis, keepdims=True))
    count = (given == given).sum(axis, None, out, keepdims)
    total = nansum(away * away, axis, None, keepdims)
    return (total / (count - ddof)).astype(total.dtype)


@implements(np.nanstd)
def nanstd(*args: Any, **more: Any) -> Tensor:
    """The standard deviation of the elements that are numbers."""
    return nanvar(*args, **more) ** 0.5


@implements(np.nancumsum)
def nancumsum(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    """The sum of the numbers up to each element."""
    return cumsum(_numbers(as_tensor(a), 0), axis, dtype)


@implements(np.nancumprod)
def nancumprod(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    """The product of the numbers up to each element."""
    return cumprod(_numbers(as_tensor(a), 1), axis, dtype)


@implements(np.nanargmin)
def nanargmin(
    a: Any, axis: int | None = None, out: None = None, *, keepdims: Any = False
) -> Tensor:
    """The first coordinate of the least element that is a number."""
    return _numbers(as_tensor(a), np.inf).argmin(axis, out, bool(keepdims))


@implements(np.nanargmax)
def nanargmax(
    a: Any, axis: int | None = None, out: None = None, *, keepdims: Any = False
) -> Tensor:
    """The first coordinate of the greatest element that is a number."""
    return _numbers(as_tensor(a), -np.inf).argmax(axis, out, bool(keepdims))


def _numbers(given: Tensor, instead: float) -> Tensor:
    """`given` with another value where it is not a number."""
    if given.dtype.kind not in "fc":
        return given
    number = np.dtype(str(given.dtype)).type(instead)
    made: Tensor = given.__openwork_apply__(_SELECT, (given == given, given, number))
    return made
