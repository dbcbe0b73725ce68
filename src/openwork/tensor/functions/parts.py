"""Parts of tensors, and tensors with more around them: split, repeat, pad, delete, broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from operator import index
from typing import Any

import numpy as np

from openwork.errors import ParseError, ShapeError
from openwork.tensor.exchange.numpy_functions import implements
from openwork.tensor.functions.join import as_tensor, concatenate, expand_dims, flip
from openwork.tensor.functions.special import full
from openwork.tensor.rearrange.broadcast import check_axes
from openwork.tensor.rearrange.shape import rearranged, tiled
from openwork.tensor.tensor import Tensor


def _along(given: Tensor, mode: int, subscript: Any) -> Tensor:
    made: Tensor = given[(slice(None),) * mode + (subscript,)]
    return made


@implements(np.array_split)
def array_split(ary: Any, parts: Any, axis: int = 0) -> list[Tensor]:
    """A tensor cut along a mode: into so many parts, or in front of these coordinates."""
    given = as_tensor(ary)
    (mode,) = check_axes(axis, given.order, given.name)
    extent = given.shape[mode]
    if isinstance(parts, Sequence | np.ndarray):
        ends = [0, *(index(each) for each in parts), extent]
    else:
        short, long = divmod(extent, index(parts))
        ends = np.cumsum([0] + [short + (n < long) for n in range(parts)]).tolist()
    return [_along(given, mode, slice(a, b)) for a, b in pairwise(ends)]


@implements(np.split)
def split(ary: Any, parts: Any, axis: int = 0) -> list[Tensor]:
    """A tensor cut along a mode into parts of equal extent, or in front of these coordinates.

    >>> [each.shape for each in split(as_tensor([[1, 0], [0, 2]]), 2)]
    [(1, 2), (1, 2)]
    """
    given = as_tensor(ary)
    (mode,) = check_axes(axis, given.order, given.name)
    if not isinstance(parts, Sequence | np.ndarray) and given.shape[mode] % index(parts):
        raise ShapeError(
            f"{given.shape[mode]} cannot be cut into {parts} equal parts",
            code="E204",
            hint="np.array_split cuts into parts that differ by one",
        )
    return array_split(given, parts, mode)


@implements(np.unstack)
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The tensors that make up one along a mode."""
    given = as_tensor(x)
    (mode,) = check_axes(axis, given.order, given.name)
    return tuple(_along(given, mode, n) for n in range(given.shape[mode]))


@implements(np.repeat)
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Tensor:
    """Every element so many times in a row, along a mode or in row-major order."""
    given = as_tensor(a)
    if axis is None:
        given, axis = given.ravel(), 0
    (mode,) = check_axes(axis, given.order, given.name)
    times = as_tensor(repeats).to_numpy()
    if times.shape not in ((), (1,), (given.shape[mode],)) or (times < 0).any():
        raise ShapeError(
            f"{times.tolist()} repetitions of {given.shape[mode]} elements", code="E204",
            hint="one number for all, or one for each, which is not negative",
        )  # fmt: skip
    return _along(given, mode, np.repeat(np.arange(given.shape[mode]), times))


@implements(np.delete)
def delete(arr: Any, obj: Any, axis: int | None = None) -> Tensor:
    """The tensor without the elements at these coordinates of a mode."""
    given = as_tensor(arr)
    if axis is None:
        given, axis = given.ravel(), 0
    (mode,) = check_axes(axis, given.order, given.name)
    kept = np.arange(given.shape[mode])
    try:
        kept = np.delete(kept, obj)
    except (IndexError, ValueError) as error:
        raise ShapeError(f"{obj!r} of {given.name}: {error}", code="E204") from error
    return _along(given, mode, kept)


@implements(np.append)
def append(arr: Any, values: Any, axis: int | None = None) -> Tensor:
    """Two tensors one behind the other, along a mode or in row-major order."""
    return concatenate([arr, values], axis)


@implements(np.insert)
def insert(arr: Any, obj: int, values: Any, axis: int | None = None) -> Tensor:
    """The tensor with elements in front of one coordinate of a mode."""
    given = as_tensor(arr)
    if axis is None:
        given, axis = given.ravel(), 0
    (mode,) = check_axes(axis, given.order, given.name)
    head, tail = array_split(given, [index(obj) % (given.shape[mode] + 1)], mode)
    new = as_tensor(values).astype(given.dtype)
    if new.order < given.order:
        new = expand_dims(broadcast_to(new, tuple(np.delete(given.shape, mode).tolist())), mode)
    return concatenate([head, new, tail], mode)


@implements(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Tensor:
    """The tensor repeated along modes where it has extent 1, or none.

    >>> broadcast_to(as_tensor([0, 3]).to("Compressed"), (2, 2)).to_numpy()
    array([[0, 3],
           [0, 3]])
    """
    given = as_tensor(array)
    wanted = (index(shape),) if not isinstance(shape, Sequence) else tuple(map(index, shape))
    more = len(wanted) - given.order
    own = (1,) * more + given.shape
    if more < 0 or any(have not in (1, want) for have, want in zip(own, wanted, strict=False)):
        raise ShapeError(
            f"{given.name} of shape {given.shape} cannot be broadcast to {wanted}",
            code="E204",
            hint="extents must agree from the last mode on; an extent of 1 is broadcast",
        )
    times = [want if have != want else 1 for have, want in zip(own, wanted, strict=True)]
    return Tensor.of(tiled(given.reshape(own).storage, times, given.name))


@implements(np.broadcast_arrays)
def broadcast_arrays(*arrays: Any) -> tuple[Tensor, ...]:
    """Tensors of the shape that they have together."""
    given = [as_tensor(each) for each in arrays]
    shape = np.broadcast_shapes(*(each.shape for each in given))
    return tuple(broadcast_to(each, shape) for each in given)


@implements(np.pad)
def pad(array: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Tensor:
    """The tensor with more elements around it: one value for all.

    >>> pad(as_tensor([[5]]).to("CSR"), 1).to_numpy().tolist()
    [[0, 0, 0], [0, 5, 0], [0, 0, 0]]
    """
    given = as_tensor(array)
    if mode != "constant":
        raise ParseError(
            f"pad has no mode {mode!r} for tensors", code="E112", hint='mode="constant"'
        )
    if not given.order:
        return given
    try:
        widths = np.broadcast_to(as_tensor(pad_width).to_numpy(), (given.order, 2)).tolist()
    except ValueError as error:
        raise ShapeError(f"widths {pad_width} of {given.name}: {error}", code="E204") from error
    if any(width < 0 for each in widths for width in each):
        raise ShapeError(f"pad by {pad_width} would cut elements off", code="E205", hint="A[1:-1]")
    value = constant_values
    if value != given.fill and (value == value or given.fill == given.fill):  # not both are NaN
        for n, (before, after) in enumerate(widths):
            around = [
                full((*given.shape[:n], width, *given.shape[n + 1 :]), value, given.dtype)
                for width in (before, after)
            ]
            given = concatenate([around[0], given, around[1]], n)
        return given
    shape = tuple(e + sum(w) for e, w in zip(given.shape, widths, strict=True))

    def move(coords: Any, values: Any) -> tuple[Any, Any]:
        return coords.astype(np.int64) + np.array([[w[0]] for w in widths]), values

    def on_array(dense: Any) -> Any:
        return np.pad(dense, widths, constant_values=value)

    return Tensor.of(rearranged(given.storage, shape, on_array, move))


# Tensors of at least so many modes, side by side


def _at_least(order: int) -> Any:
    def call(*tensors: Any) -> Any:
        made = []
        for each in map(as_tensor, tensors):
            if order == 3 and each.order in (1, 2):
                each = each.reshape((1,) * (2 - each.order) + each.shape + (1,))
            made.append(each.reshape((1,) * (order - each.order) + each.shape))
        return made[0] if len(made) == 1 else tuple(made)

    call.__doc__ = f"Tensors of at least {order} modes."
    return call


atleast_1d = implements(np.atleast_1d)(_at_least(1))
atleast_2d = implements(np.atleast_2d)(_at_least(2))
atleast_3d = implements(np.atleast_3d)(_at_least(3))


@implements(np.dstack)
def dstack(tensors: Sequence[Any]) -> Tensor:
    """Tensors one behind the other along their third mode."""
    return concatenate([atleast_3d(each) for each in tensors], 2)


@implements(np.column_stack)
def column_stack(tensors: Sequence[Any]) -> Tensor:
    """Vectors as the columns of a matrix, and matrices side by side."""
    given = [as_tensor(each) for each in tensors]
    return concatenate([each.reshape(-1, 1) if each.order < 2 else each for each in given], 1)


@implements(np.rot90)
def rot90(m: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """The tensor turned by `k` right angles in the plane of two modes."""
    given = as_tensor(m)
    first, second = check_axes(tuple(axes), given.order, given.name)
    for _ in range(k % 4):
        given = flip(given.swapaxes(first, second), first)
    return given


implements(np.fliplr)(lambda m: flip(m, 1))
implements(np.flipud)(lambda m: flip(m, 0))
