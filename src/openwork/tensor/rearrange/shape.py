"""Other shapes for the same elements: reshaping, joining, repeating, rolling, triangles.

Dense tensors are rearranged by NumPy, without a copy where that is possible. Sparse ones have the
coordinates of their entries mapped: absent entries stay absent, and nothing becomes dense.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from operator import index
from typing import Any

import numpy as np

from openwork.algebra.entries import Entry
from openwork.algebra.types import Number, promote
from openwork.errors import ShapeError
from openwork.format.formats import dense
from openwork.runtime.gpu.cuda import DeviceStorage
from openwork.runtime.storage import Array, Storage
from openwork.tensor.convert.convert import convert
from openwork.tensor.convert.pack import differs, pack, to_dense, unpack
from openwork.tensor.exchange.interop import Wish, from_numpy, usual
from openwork.tensor.rearrange.broadcast import check_axes

Shape = tuple[int, ...]
Move = Callable[[Array, Array], tuple[Array, Array]]


def rearranged(
    storage: Storage, shape: Shape, on_array: Callable[[Array], Array], on_entries: Move
) -> Storage:
    """The storage of another shape.

    Args:
        storage: what to rearrange; from a GPU it goes by way of main memory.
        shape: the shape of the result.
        on_array: does it to a dense array.
        on_entries: does it to the coordinates and values of entries.
    """
    host = storage.host()
    if host.format.is_dense:
        return on_device_of(storage, of_array(on_array(to_dense(host)), host))
    coords, values = on_entries(*unpack(host))
    return on_device_of(storage, packed(coords, values, shape, host))


def of_array(array: Array, storage: Storage) -> Storage:
    """A dense array as a storage with the fill of `storage`, by rows or columns as in memory."""
    if storage.alike and array.flags.c_contiguous and array.dtype == storage.dtype:
        format, values = dense(array.ndim), array.reshape(-1)
        return Storage(array.shape, format, storage.dtype, ({},) * array.ndim, values)
    return from_numpy(np.asarray(array), Wish("", fill=storage.fill))


def packed(coords: Array, values: Array, shape: Shape, storage: Storage) -> Storage:
    """Entries as a sparse storage: in the format of `storage` if it has as many modes."""
    format = storage.format
    if format.ndim != len(shape) or format.tiled or format.is_dense:
        format = usual(shape, len(values))
    return pack(coords, values, shape, format, storage.fill)


def on_device_of(storage: Storage, made: Storage) -> Storage:
    """`made` where `storage` is: in main memory, or on a GPU."""
    return DeviceStorage.of(made) if isinstance(storage, DeviceStorage) else made


# One tensor


def reshaped(storage: Storage, shape: Any, name: str = "the tensor") -> Storage:
    """The elements in row-major order in another shape; -1 stands for the extent that fits."""
    wanted = _resolved(shape, storage.shape, name)
    if wanted == storage.shape:
        return storage

    def move(coords: Array, values: Array) -> tuple[Array, Array]:
        flat = raveled(coords, storage.shape)
        return unraveled(flat, wanted), values

    return rearranged(storage, wanted, lambda array: array.reshape(wanted), move)


def _resolved(shape: Any, old: Shape, name: str) -> Shape:
    """The new shape, with an extent for -1."""
    given = shape if isinstance(shape, Sequence) else (shape,)
    try:
        extents = [index(each) for each in given]
    except TypeError as error:
        raise ShapeError(f"{shape!r} is not a shape: {error}", code="E205") from error
    count, open_modes = prod(old), [n for n, extent in enumerate(extents) if extent == -1]
    known = prod(extent for extent in extents if extent != -1)
    if len(open_modes) == 1 and known and count % known == 0:
        extents[open_modes[0]] = count // known
    if len(open_modes) > 1 or any(extent < 0 for extent in extents) or prod(extents) != count:
        raise ShapeError(
            f"{name} of shape {old} has {count} elements and cannot become {tuple(extents)}",
            code="E204",
            hint="the product of the extents stays the same; one of them may be -1",
        )
    return tuple(extents)


def raveled(coords: Array, shape: Shape) -> Array:
    """The place of each entry in row-major order, which must fit into 64 bits."""
    if prod(shape) >= 2**63:
        raise ShapeError(f"{shape} has more elements than 64 bits can count", code="E204")
    flat = np.zeros(coords.shape[1], dtype=np.int64)
    for column, extent in zip(coords, shape, strict=True):
        flat *= extent
        flat += column
    return flat


def unraveled(flat: Array, shape: Shape) -> Array:
    """The coordinates of places in row-major order."""
    coords = np.empty((len(shape), len(flat)), dtype=np.int64)
    for mode in reversed(range(len(shape))):
        flat, coords[mode] = np.divmod(flat, max(shape[mode], 1))
    return coords


def rolled(storage: Storage, shift: Any, axis: Any, name: str) -> Storage:
    """The elements moved along modes; those that leave at one end come in at the other."""
    shape = storage.shape
    if axis is None:
        flat = rolled(reshaped(storage, (prod(shape),)), shift, 0, name)
        return reshaped(flat, shape)
    axes = check_axes(axis, len(shape), name)
    shifts = tuple(shift) if isinstance(shift, Sequence) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise ShapeError(f"{len(shifts)} shifts for {len(axes)} modes", code="E204")

    def move(coords: Array, values: Array) -> tuple[Array, Array]:
        coords = coords.astype(np.int64)
        for each, mode in zip(shifts, axes, strict=True):
            coords[mode] = (coords[mode] + index(each)) % max(shape[mode], 1)
        return coords, values

    return rearranged(storage, shape, lambda array: np.roll(array, shifts, axes), move)


def flipped(storage: Storage, axis: Any, name: str) -> Storage:
    """The elements in reverse order along modes."""
    shape = storage.shape
    axes = check_axes(axis, len(shape), name)

    def move(coords: Array, values: Array) -> tuple[Array, Array]:
        coords = coords.copy()
        for mode in axes:
            coords[mode] = shape[mode] - 1 - coords[mode]
        return coords, values

    return rearranged(storage, shape, lambda array: np.flip(array, axes), move)


def triangle(storage: Storage, k: int, lower: bool, name: str) -> Storage:
    """What lies on and below the `k`-th diagonal of the last two modes, or on and above it."""
    if len(storage.shape) < 2:
        raise ShapeError(f"{name} has {len(storage.shape)} modes and no diagonal", code="E204")

    def move(coords: Array, values: Array) -> tuple[Array, Array]:
        above = coords[-1].astype(np.int64) - coords[-2]
        kept = above <= k if lower else above >= k
        return coords[:, kept], values[kept]

    take = np.tril if lower else np.triu
    return rearranged(storage, storage.shape, lambda array: take(array, k), move)


def tiled(storage: Storage, repeats: Any, name: str) -> Storage:
    """The tensor side by side with itself, so many times along each mode."""
    times = list(repeats) if isinstance(repeats, Sequence) else [repeats]
    counts = [index(each) for each in times]
    if any(count < 0 for count in counts):
        raise ShapeError(f"{name} cannot be repeated {counts} times", code="E205")
    order = max(len(counts), len(storage.shape))
    made = reshaped(storage, (1,) * (order - len(storage.shape)) + storage.shape)
    counts = [1] * (order - len(counts)) + counts
    for mode, count in enumerate(counts):
        if count == 0:
            made = _emptied(made, mode)
        elif count > 1:
            made = joined([made] * count, mode)
    return made


def _emptied(storage: Storage, mode: int) -> Storage:
    """No element along `mode`."""
    shape = (*storage.shape[:mode], 0, *storage.shape[mode + 1 :])
    return rearranged(
        storage, shape, lambda array: array.take([], mode), lambda c, v: (c[:, :0], v[:0])
    )


def diagonal(storage: Storage, offset: int, axes: Sequence[int], name: str) -> Storage:
    """The elements whose coordinates in two modes are `offset` apart; their mode comes last."""
    first, second = axes
    shape = storage.shape
    rest = [mode for mode in range(len(shape)) if mode not in axes]
    start = min(shape[first], shape[second] - offset) if offset >= 0 else None
    length = start if start is not None else min(shape[first] + offset, shape[second])
    wanted = (*(shape[mode] for mode in rest), max(length, 0))

    def move(coords: Array, values: Array) -> tuple[Array, Array]:
        on = coords[second].astype(np.int64) - coords[first] == offset
        along = coords[first] if offset >= 0 else coords[second]
        return np.stack([*(coords[mode][on] for mode in rest), along[on]]), values[on]

    return rearranged(storage, wanted, lambda a: a.diagonal(offset, first, second), move)


# Several tensors


def joined(storages: Sequence[Storage], axis: int) -> Storage:
    """Tensors one behind the other along a mode: sparse if one of them is, with its fill."""
    first = storages[0]
    dtype = first.dtype
    if any(each.dtype != dtype for each in storages):
        dtype = promote(*(each.dtype for each in storages))
    hosts = [each.host().astype(dtype) for each in storages]
    extents = [each.shape[axis] for each in hosts]
    shape = (*first.shape[:axis], sum(extents), *first.shape[axis + 1 :])
    sparse = [each for each in hosts if not each.format.is_dense]
    if not sparse:
        array = np.concatenate([to_dense(each) for each in hosts], axis)
        return on_device_of(first, of_array(array, hosts[0]))
    largest = max(sparse, key=lambda each: prod(each.shape))  # whose background stays one
    lists = [_entries_beside(each, largest.fill) for each in hosts]
    ends = np.cumsum([0, *extents])
    coords = np.concatenate([coords for coords, _ in lists], axis=1).astype(np.int64)
    counts = [len(values) for _, values in lists]
    coords[axis] += np.repeat(ends[:-1], counts)
    values = np.concatenate([values for _, values in lists])
    return on_device_of(first, packed(coords, values, shape, largest))


def _entries_beside(storage: Storage, fill: Number) -> tuple[Array, Array]:
    """The entries of a tensor in one whose absent entries are `fill`."""
    if not storage.format.is_dense and not differs(np.asarray(storage.fill), fill):
        return unpack(storage)
    array = to_dense(storage)
    places = np.nonzero(differs(array, fill))
    return np.stack(places), array[places]


def stacked_shape(shape: Shape, axis: int) -> Shape:
    """`shape` with a mode of extent 1 in front of mode `axis`."""
    return (*shape[:axis], 1, *shape[axis:])


def without_fill(storage: Storage, tolerance: float) -> Storage:
    """The entries that differ from the fill by more than `tolerance`."""
    host = storage.host()
    if host.format.is_dense or isinstance(host.dtype, Entry):
        return convert(storage, storage.format)
    coords, values = unpack(host)
    with np.errstate(invalid="ignore"):
        kept = ~(values == host.fill)
        if host.dtype.kind != "b":
            kept &= ~(np.abs(values - host.fill) <= tolerance)
    if host.fill != host.fill:
        kept &= values == values
    return on_device_of(
        storage, pack(coords[:, kept], values[kept], host.shape, host.format, host.fill)
    )
