"""NumPy's indices: which elements a subscript names, of dense and of sparse tensors.

Numbers and slices keep a window of a mode, and arrays of integers gather along one or several. For
a sparse tensor the window is applied level by level, so a row is found without all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from operator import index
from typing import Any, TypeVar

import numpy as np

from openwork.algebra.entries import Entry
from openwork.errors import ParseError, ShapeError
from openwork.format.formats import Format
from openwork.frozen import frozen
from openwork.runtime.storage import Array, Levels, Storage, array_type
from openwork.tensor.convert.pack import differs, to_dense
from openwork.tensor.exchange.facts import Facts, facts_of_rows
from openwork.tensor.exchange.records import as_records
from openwork.tensor.rearrange.shape import of_array, on_device_of, packed, raveled, unraveled

Shape = tuple[int, ...]
T = TypeVar("T")

_ENDS = {int, type(None)}


@frozen
class Gather:
    """Arrays of integers for several modes, which are read together; all have this shape."""

    modes: tuple[int, ...]
    arrays: tuple[Array, ...]  # flat
    shape: Shape


@frozen
class Selection:
    """A subscript of a tensor: a window or a number for each mode, and perhaps a gather.

    `result`: the modes of the result. Each is an old mode, None for a new one of extent 1, or the
    text "gather", which stands for all modes of the gather's shape.
    """

    windows: dict[int, range]
    numbers: dict[int, int]
    gather: Gather | None
    result: tuple[int | str | None, ...]

    @property
    def shape(self) -> Shape:
        """The shape of the result."""
        found: list[int] = []
        for each in self.result:
            if isinstance(each, int):
                found.append(len(self.windows[each]))
            else:
                found += [1] if each is None else self.gather.shape if self.gather else ()
        return tuple(found)


def window(kind: type[T], storage: Storage, subscript: Any) -> T | None:
    """The elements of an array in memory that usual subscripts name, as a `kind` of operand.

    None where `select` has more to do. A loop over elements is not to wait for constructors.
    """
    like = storage.alike
    if like is None:
        return None
    made: Any = _new(kind)
    made._storage = found = _new(Storage)
    found.dtype = storage.dtype
    if type(subscript) is int and len(storage.shape) == 1:
        if not -storage.shape[0] <= subscript < storage.shape[0]:
            return None
        found.values = values = np.empty(1, storage.dtype)
        values[0] = storage.values[subscript]
        if like.element is None:
            facts, format, levels = _rows_like(storage.dtype, 0)
            like.element = facts, format, levels, array_type(storage.dtype, (), ())
        made._facts, found.format, found.levels, found.alike = like.element
        made._shape = found.shape = ()
    else:
        array = _rows(storage, subscript)
        if array is None:
            return None
        made._facts, found.format, found.levels = _rows_like(storage.dtype, array.ndim)
        found.values = array if array.ndim == 1 else array.reshape(-1)
        made._shape = found.shape = array.shape
    window: T = made
    return window


_new: Any = object.__new__


def _rows(storage: Storage, subscript: Any) -> Array | None:
    """The array that a usual subscript names, if it is contiguous."""
    if len(storage.shape) == 1 and type(subscript) is slice and _is_plain(subscript):
        return storage.values[subscript]
    if not _is_usual(subscript, storage.shape):
        return None
    whole = storage.values if len(storage.shape) == 1 else to_dense(storage)
    array = np.asarray(whole[subscript])
    return array if array.flags.c_contiguous else None


@lru_cache(maxsize=256)
def _rows_like(dtype: Any, order: int) -> tuple[Facts, Format, Levels]:
    """What all arrays of numbers by rows have in common: facts, format, and no index arrays."""
    facts = facts_of_rows(dtype, order)
    return facts, facts.format, ({},) * order


def _is_plain(item: slice) -> bool:
    """Whether a slice is of neighbours, between integers."""
    return item.step is None and type(item.start) in _ENDS and type(item.stop) in _ENDS


def select(storage: Storage, subscript: Any, name: str) -> Storage:
    """The elements that a subscript names, as NumPy has it."""
    host = storage.host()
    given = normalized(subscript, host.shape, name)
    selection = parsed(given, host.shape)
    if host.format.is_dense:
        return on_device_of(storage, of_array(to_dense(host)[given], host))
    coords, places = selected(host, selection)
    return on_device_of(storage, packed(coords, host.elements[places], selection.shape, host))


def assign(storage: Storage, subscript: Any, value: Any, name: str) -> bool:
    """Write elements in place; False if one is absent, and has no place.

    Absent elements may be assigned the fill, which they are already.
    """
    given, elements = normalized(subscript, storage.shape, name), _elements(value, storage, name)
    selection = parsed(given, storage.shape)
    values = _fitting(elements, selection.shape, name)
    if storage.format.plain:
        to_dense(storage)[given] = values
        return True
    values = values.reshape(-1)
    values = values if values.dtype.names else values.astype(storage.values.dtype)
    coords, places = selected(storage, selection)
    at = raveled(coords, selection.shape)
    absent = np.ones(len(values), dtype=bool)
    absent[at] = False
    if differs(values[absent], storage.fill).any():
        return False
    storage.put(places, values[at])
    return True


def _fitting(elements: Array, shape: Shape, name: str) -> Array:
    """What is assigned, in the shape of what it is assigned to; NumPy drops modes of extent 1."""
    while elements.ndim > len(shape) and elements.shape[0] == 1:
        elements = elements[0]
    try:
        return np.broadcast_to(elements, shape)
    except ValueError as error:
        raise ShapeError(
            f"elements of shape {elements.shape} do not fit {shape} of {name}", code="E204"
        ) from error


def _elements(value: Any, storage: Storage, name: str) -> Array:
    """What is assigned, as elements: records may have component axes, or be a number."""
    entry, given = storage.dtype, np.asarray(value)
    if not isinstance(entry, Entry):
        return given
    if given.ndim == 0 and given.dtype.kind in "biuf":
        return entry.record(complex(given))
    return as_records(given, entry, name)


# What subscripts mean


def _is_usual(subscript: Any, shape: Shape) -> bool:
    """Whether a subscript is integers and slices that are right, and mean what they do in NumPy."""
    if type(subscript) is int:
        return bool(shape) and -shape[0] <= subscript < shape[0]
    items = subscript if type(subscript) is tuple else (subscript,)
    if len(items) > len(shape):
        return False
    for item, extent in zip(items, shape, strict=False):
        if type(item) is slice:
            if not _is_plain(item):
                return False
        elif type(item) is not int or not -extent <= item < extent:
            return False
    return True


def normalized(subscript: Any, shape: Shape, name: str) -> tuple[Any, ...]:
    """A subscript with an item for each mode, and `None`s: checked, without masks.

    An ellipsis remains where it stands for no modes: it parts the arrays of integers beside it.
    """
    items = list(subscript) if isinstance(subscript, tuple) else [subscript]
    items = [_plain(item, name) for item in items]
    used = sum(_modes_of(item) for item in items)
    dots = [n for n, item in enumerate(items) if item is Ellipsis]
    if used > len(shape) or len(dots) > 1:
        reason = "two ellipses" if len(dots) > 1 else f"{used} indices"
        raise ShapeError(f"{name} has {len(shape)} modes, but {reason}", code="E204")
    at = dots[0] if dots else len(items)
    others: list[Any] = [slice(None)] * (len(shape) - used)
    items[at : at + len(dots)] = others or [Ellipsis] * len(dots)
    found: list[Any] = []
    mode = 0
    for item in items:
        if item is None or item is Ellipsis:
            found.append(item)
            continue
        checked = _checked(item, shape[mode : mode + _modes_of(item)], mode, name)
        found += checked
        mode += len(checked)
    return tuple(found)


def _plain(item: Any, name: str) -> Any:
    """An item as a number, a slice, None, an ellipsis, or an array of integers or bools."""
    if item is None or item is Ellipsis or type(item) in (int, slice):
        return item
    if hasattr(item, "to_coo"):  # a tensor, whose entries are the mask's
        item = item.to_numpy()
    elif hasattr(item, "toarray"):
        item = item.toarray()
    elif hasattr(item, "todense"):  # of PyData/sparse
        item = item.todense()
    array = np.asarray(item)
    if array.size == 0 and not isinstance(item, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iub" or isinstance(item, str) or _is_truth(array):
        raise ParseError(
            f"{name} is indexed with {item!r}",
            code="E112",
            hint="a number, a slice, None, ..., integers, or bools; or index variables in "
            'expressions: i, j = ow.indices("i j"), then A[i, j]',
        )
    return index(item) if array.ndim == 0 else array


def _is_truth(array: Array) -> bool:
    """Whether it is a single bool: NumPy makes a mode of it, of one element or of none."""
    return array.ndim == 0 and array.dtype.kind == "b"


def _modes_of(item: Any) -> int:
    """How many modes an item is for."""
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if isinstance(item, np.ndarray) and item.dtype.kind == "b" else 1


def _checked(item: Any, extents: Shape, mode: int, name: str) -> list[Any]:
    """An item within the extents of its modes; a mask as the integers that it stands for."""
    if isinstance(item, slice):
        try:
            item.indices(0)
        except (TypeError, ValueError) as error:
            raise ParseError(f"{name} is indexed with {item}: {error}", code="E112") from error
        return [item]
    if isinstance(item, np.ndarray) and item.dtype.kind == "b":
        if item.shape != extents:
            raise ShapeError(
                f"a mask of shape {item.shape} for modes of extent {extents} of {name}",
                code="E204",
            )
        return list(np.nonzero(item))
    (extent,) = extents
    numbers = np.asarray(item)
    if numbers.size and not -extent <= int(numbers.min()) <= int(numbers.max()) < extent:
        wrong = int(numbers.max() if int(numbers.max()) >= extent else numbers.min())
        raise ShapeError(
            f"{wrong} is outside mode {mode} of {name}, of extent {extent}", code="E204"
        )
    if isinstance(item, int):
        return [item % extent]
    return [numbers.astype(np.int64) % max(extent, 1)]


def parsed(items: tuple[Any, ...], shape: Shape) -> Selection:
    """A normalized subscript as a selection."""
    arrays = any(isinstance(item, np.ndarray) for item in items)
    windows, numbers, gathered = {}, {}, {}
    result: list[int | str | None] = []
    at: list[int] = []  # where items of the gather stand
    mode = 0
    for n, item in enumerate(items):
        if item is None:
            result.append(None)
        if item is None or item is Ellipsis:
            continue
        if isinstance(item, slice):
            windows[mode] = range(*item.indices(shape[mode]))
            result.append(mode)
        elif arrays:
            gathered[mode] = np.asarray(item)
            at.append(n)
            if len(at) == 1:
                result.append("gather")
        else:
            numbers[mode] = item
        mode += 1
    if not arrays:
        return Selection(windows, numbers, None, tuple(result))
    if at[-1] - at[0] >= len(at):  # something stands between them, so their modes come first
        result = ["gather", *(each for each in result if each != "gather")]
    try:
        flat = np.broadcast_arrays(*gathered.values())
    except ValueError as error:
        raise ShapeError(f"arrays of integers do not fit: {error}", code="E204") from error
    whole = Gather(tuple(gathered), tuple(each.reshape(-1) for each in flat), flat[0].shape)
    return Selection(windows, numbers, whole, tuple(result))


# What is stored of a selection


def selected(storage: Storage, selection: Selection) -> tuple[Array, Array]:
    """The entries of a selection: their coordinates in the result, and their positions."""
    wanted: dict[int, Callable[[Array], Array]] = {}
    ends: dict[int, tuple[int, int]] = {}
    for mode, window in selection.windows.items():
        if len(window) != storage.shape[mode]:
            wanted[mode], ends[mode] = partial(_in_window, window), _ends(window)
    for mode, number in selection.numbers.items():
        wanted[mode], ends[mode] = partial(np.equal, number), (number, number)
    gather = selection.gather
    if gather is not None:
        for mode, array in zip(gather.modes, gather.arrays, strict=True):
            each = np.unique(array)
            wanted[mode], ends[mode] = partial(_among, each), _ends(each)
    coords, places = storage.coordinates(storage.within(wanted, ends))
    kept = np.ones(len(places), dtype=bool)
    for mode, test in wanted.items():  # modes in blocks are not tested before
        kept &= test(coords[mode])
    coords, places = coords[:, kept].astype(np.int64), places[kept]
    where = np.zeros(len(places), dtype=np.int64)
    if gather is not None:
        source, where = _gathered(coords, gather)
        coords, places = coords[:, source], places[source]
    return _renumbered(coords, where, selection), places


def _ends(numbers: Sequence[int] | Array) -> tuple[int, int]:
    """The least and the greatest of numbers that rise or fall; (0, -1) if there are none."""
    low, high = sorted((numbers[0], numbers[-1])) if len(numbers) else (0, -1)
    return int(low), int(high)


def _in_window(window: range, column: Array) -> Array:
    low, high = _ends(window)
    inside: Array = (column >= low) & (column <= high)
    if abs(window.step) > 1:
        inside &= (column.astype(np.int64) - low) % abs(window.step) == 0
    return inside


def _among(values: Array, column: Array) -> Array:
    """Which of `column` are in `values`, which are sorted."""
    if not len(values):
        return np.zeros(len(column), dtype=bool)
    at = np.minimum(np.searchsorted(values, column), len(values) - 1)
    found: Array = values[at] == column
    return found


def _gathered(coords: Array, gather: Gather) -> tuple[Array, Array]:
    """Which entry goes to which place of the gather: an entry may go to several, or to none."""
    key, wanted = np.zeros(coords.shape[1], np.int64), np.zeros(len(gather.arrays[0]), np.int64)
    known = np.ones(coords.shape[1], dtype=bool)
    for mode, array in zip(gather.modes, gather.arrays, strict=True):
        each, rank = np.unique(array, return_inverse=True)
        known &= _among(each, coords[mode])
        # Pairs of the ranks so far and those of this mode, numbered again to stay small.
        pairs = wanted * max(len(each), 1) + rank
        mine = key * max(len(each), 1) + np.searchsorted(each, coords[mode])
        numbers, wanted = np.unique(pairs, return_inverse=True)
        known &= _among(numbers, mine)
        key = np.searchsorted(numbers, mine)
    order = np.argsort(wanted, kind="stable")
    sorted_places = wanted[order]
    entries = np.flatnonzero(known)
    first = np.searchsorted(sorted_places, key[entries], side="left")
    count = np.searchsorted(sorted_places, key[entries], side="right") - first
    source = np.repeat(entries, count)
    offset = np.arange(len(source)) - np.repeat(np.cumsum(count) - count, count)
    return source, order[np.repeat(first, count) + offset]


def _renumbered(coords: Array, where: Array, selection: Selection) -> Array:
    """Coordinates in the result."""
    columns: list[Array] = []
    for each in selection.result:
        if isinstance(each, int):
            window = selection.windows[each]
            columns.append((coords[each] - window.start) // window.step)
        elif each is None:
            columns.append(np.zeros(coords.shape[1], dtype=np.int64))
        elif selection.gather is not None:
            columns += list(unraveled(where, selection.gather.shape))
    return np.stack(columns) if columns else np.zeros((0, coords.shape[1]), dtype=np.int64)
