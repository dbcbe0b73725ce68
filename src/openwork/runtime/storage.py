"""Storage: the arrays that hold a tensor in its format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from types import SimpleNamespace
from typing import Any, Self

import numpy as np

from openwork.algebra.encodings import Ternary
from openwork.algebra.entries import Complex, Entry
from openwork.algebra.meaning import is_held
from openwork.algebra.types import DType, Number, as_dtype, number, numbers_of
from openwork.errors import DataError, FormatError, InternalError
from openwork.format.formats import Format
from openwork.format.layouts import (
    AOS,
    PACKED,
    TERNARY,
    WITH_COORDINATES,
    Bits,
    Placement,
    coordinate_placement,
    moved,
    placement,
)
from openwork.format.levels.base import Level
from openwork.format.levels.width import index_dtype
from openwork.runtime.memory import address, aligned_copy, zeros

Array = np.ndarray[Any, Any]
Move = Callable[[Array, Placement, Array, Placement, int], None]  # see `moved`
Levels = tuple[Mapping[str, Array], ...]  # the index arrays of each level, by their names


class ArrayType:
    """What plain arrays of numbers are alike by: element type, order of modes, and shape.

    Equal ones are one object, which is found by identity: to hash the three takes as long as a
    small kernel. `element`: what is known of single elements of such arrays.
    """

    __slots__ = ("dtype", "element", "order", "shape")

    def __init__(self, dtype: DType, order: tuple[int, ...], shape: tuple[int, ...]) -> None:
        self.dtype, self.order, self.shape = dtype, order, shape
        self.element: Any = None


array_type = lru_cache(maxsize=1 << 14)(ArrayType)


@dataclass(eq=False)
class Storage:
    """A tensor's arrays: the index arrays of each level, and the values.

    `levels[l]` maps the array names of level `l` ("pos", "crd") to one-dimensional, contiguous
    arrays; `values` is one-dimensional and contiguous, in the order of the last level's positions.
    Where elements are records, `values` has their numbers, as kernels address them: `placement`
    says where. Packed coordinates are a view of the same memory; ternary ones are a copy of their
    bits, which kernels do not read. `values` with coordinates among them are read-only: one that
    was overwritten would lead a kernel out of bounds.
    The arrays are trusted here: arrays from outside are validated first. `borrowed`: the index
    arrays belong to a caller, who may change them after the call; results copy them.
    """

    shape: tuple[int, ...]
    format: Format
    dtype: DType
    levels: Levels
    values: Array
    fill: Number = 0
    borrowed: bool = False

    def __post_init__(self) -> None:
        if self.format.layout in WITH_COORDINATES and isinstance(self.values, np.ndarray):
            self.values = _read_only(self.values.view())

    @classmethod
    def of_values(
        cls, shape: tuple[int, ...], format: Format, levels: Levels, values: Array, fill: Number
    ) -> Self:
        """The storage of an array of elements, which may be records."""
        dtype = as_dtype(values.dtype)
        if isinstance(dtype, Entry):
            values = values.view(dtype.scalar)
        return cls(shape, format, dtype, levels, values, fill)

    @property
    def elements(self) -> Array:
        """The values as an array of elements: numbers, or records, copied from other layouts."""
        values = self.values
        if self.format.layout != AOS:
            values = self.laid_out(AOS).values
        return values.view(self.dtype.dtype) if isinstance(self.dtype, Entry) else values

    @cached_property
    def placement(self) -> Placement:
        """Where the numbers of the elements lie in `values`."""
        return placement_of(self.format, self.dtype, self._beside)

    @property
    def _beside(self) -> np.dtype[Any] | None:
        """The type of coordinates that are packed with the values."""
        packed = self.format.layout in WITH_COORDINATES and self.format.packed_array
        return self.levels[-1][packed].dtype if packed else None

    @property
    def stride(self) -> int:
        """How far apart the numbers of an element are, where each has an array of its own."""
        return self.placement.stride(int(self.values.size))

    @cached_property
    def places(self) -> int:
        """The number of elements that there is memory for, without padding for a layout."""
        if self.format.layout == TERNARY:
            return int(self.values.size)
        if self.format.layout not in (AOS, PACKED):
            return self.positions(len(self.format.levels) - 1)
        size = self.dtype.size if isinstance(self.dtype, Entry) else 1
        step = size if self.format.layout == AOS else int(self.placement.room(1))
        return int(self.values.size) // step

    def laid_out(self, layout: str, move: Move = moved) -> Self:
        """The same elements in another layout; `move` copies them, if there is a faster way."""
        format = self.format.with_layout(layout).of(self.dtype)
        if format == self.format:
            return self
        if self.format.layout == TERNARY:
            return replace(self._without_bits(), format=format.with_layout(AOS)).laid_out(layout)
        if format.layout == TERNARY:
            return self.laid_out(AOS)._with_bits(format)
        beside, levels = self._beside, self.levels
        if format.layout == PACKED and format.packed_array is not None:
            beside = levels[-1][format.packed_array].dtype
        made = placement_of(format, self.dtype, beside)
        values = self._zeros(int(made.room(self.places)), self.values.dtype)
        move(self.values, self.placement, values, made, self.places)
        laid = replace(self, format=format, values=values)
        if self.format.layout == PACKED and format.packed_array is not None:
            own = levels[-1][format.packed_array].copy()
            laid.levels = (*levels[:-1], {**levels[-1], format.packed_array: own})
        laid.levels = laid.with_packed(laid.levels, values)
        return laid

    def _with_bits(self, format: Format) -> Self:
        """Numbers, which are -1, 0 and 1, in the first two bits of their coordinates.

        Raises:
            DataError: E505 if there are others.
        """
        name, values, levels = format.packed_array or "", self.values, self.levels
        crd = self.levels[-1][name]
        if len(crd) != len(values):
            raise _unpaired(self.format, len(crd), len(values), TERNARY)
        self._check_signs()
        narrow = crd.dtype.itemsize == 4 and max(self.shape, default=0) <= 1 << 30
        if not narrow:
            crd = crd.astype("int64")
            levels = (*levels[:-1], {**levels[-1], name: crd})
        laid = replace(self, format=format, levels=levels)
        where = laid._bits
        laid.values = _read_only((values.astype(where.words) << where.shift) | (crd & where.mask))
        return laid

    def _check_signs(self) -> None:
        values = self.values
        if not bool(((values == 0) | (values == 1) | (values == -1)).all()):
            raise DataError(
                "the tensor has elements other than -1, 0 and 1",
                code="E505",
                hint=f"tensor.to({self.format!r}) has all numbers",
            )

    def _without_bits(self) -> Self:
        """The numbers of a ternary layout as an array of their own."""
        numbers = (self.values >> self._bits.shift).astype(self.dtype)
        return replace(self, values=numbers)

    @property
    def _bits(self) -> Bits:
        """Which bits of `values` the numbers of a ternary layout are."""
        if not isinstance(self.placement, Bits):
            raise InternalError(f"{self.format!r} is not ternary")
        return self.placement

    def with_packed(self, levels: Levels, values: Array) -> Levels:
        """The index arrays, with the packed coordinates moved to where they belong in `values`."""
        name, beside = self.format.packed_array, self._beside
        if name is None or beside is None or self.format.layout == TERNARY:
            return levels
        crd = coordinates_in(values, beside, self.dtype)
        if len(crd) != len(levels[-1][name]):
            raise _unpaired(self.format, len(levels[-1][name]), len(crd), PACKED)
        crd[...] = levels[-1][name]
        return (*levels[:-1], {**levels[-1], name: _read_only(crd)})

    @staticmethod
    def _zeros(count: int, dtype: np.dtype[Any]) -> Array:
        return zeros(count, dtype)

    def put(self, places: Array, elements: Array) -> None:
        """Write elements, which may be records, where the layout has them."""
        if isinstance(self.dtype, Entry):
            where, parts = self.placement, self.dtype.split(elements)
            for n, numbers in enumerate(parts):
                self.values[where.at(places, n, self.stride)] = numbers
        else:
            self.values[places] = elements

    @property
    def addressed(self) -> list[Array]:
        """All arrays as kernels address them: index arrays level by level, and then the values."""
        arrays = [each[name] for each in self.levels for name in sorted(each)]
        if self._beside is not None:
            names = sorted(self.levels[-1])
            last = len(arrays) - len(names) + names.index(self.format.packed_array or "")
            arrays[last] = self.values.view(self._beside)
        return [*arrays, self.values]

    @cached_property
    def nnz(self) -> int:
        """The number of stored entries, with explicit zeros and without padding."""
        if all(level.compact for level in self.format.levels) and not self.overhangs:
            return self.places
        levels, parts = self.format.levels, self.format.parts
        depth = max(
            (n + 1 for n, each in enumerate(levels) if not each.full or each.arrays), default=0
        )
        walked = self._walk(depth)[1]
        # Below the last sparse level every coordinate is stored: count them, do not iterate.
        count = np.ones(len(walked[0]) if walked else 1, dtype=np.int64)
        for mode, (extent, tile) in enumerate(zip(self.shape, self.format.tiles, strict=True)):
            known = [walked[n] for n in range(depth) if parts[n][0] == mode]
            if not known:
                count *= extent
            elif tile:
                left = extent - known[0].astype(np.int64) * tile
                count *= known[1] < left if len(known) == 2 else np.clip(left, 0, tile)
        return int(count.sum())

    def host(self) -> Storage:
        """The same storage in main memory: itself."""
        return self

    def copy(self) -> Self:
        """A deep copy; large arrays of numbers begin at a cache line."""
        plain = isinstance(self.values, np.ndarray) and self.values.dtype.names is None
        values = aligned_copy(self.values) if plain else self.values.copy()
        levels = self.with_packed(copied_levels(self.levels), values)
        return replace(self, levels=levels, values=values, borrowed=False)

    def astype(self, dtype: DType | Ternary) -> Self:
        """A storage with values of another element type that shares the index arrays.

        Complex values that become real keep their real parts, as in C.
        """
        if isinstance(dtype, Ternary):
            plain = self.laid_out(AOS)
            if not isinstance(self.dtype, Entry):
                plain._check_signs()  # before anything is rounded
            return plain.astype(dtype.scalar).laid_out(TERNARY)
        if dtype == self.dtype:
            return self
        if self.format.layout in WITH_COORDINATES:  # which depend on the size of the numbers
            return self.laid_out(AOS).astype(dtype).laid_out(self.format.layout)
        if isinstance(dtype, Entry) or isinstance(self.dtype, Entry):
            return self._with_records(dtype)
        drops = self.values.dtype.kind == "c" and dtype.kind not in "cb"
        with np.errstate(all="ignore"):
            values = (self.values.real if drops else self.values).astype(dtype)
        return replace(self, dtype=dtype, values=values, fill=number(self.fill, dtype))

    def _with_records(self, dtype: DType) -> Self:
        """Records in another precision; complex numbers as records of two, and back."""
        if isinstance(self.dtype, Complex) and dtype.kind == "c":
            if self.dtype.decoded != self.dtype:
                return self.astype(self.dtype.decoded).astype(dtype)
            plain, type = self.laid_out(AOS), as_complex(self.dtype)
            return replace(plain, dtype=type, values=plain.values.view(type)).astype(dtype)
        if isinstance(dtype, Complex) and self.dtype.kind == "c":
            if dtype.decoded != dtype:
                return self.astype(dtype.decoded).astype(dtype)
            plain = self.astype(as_complex(dtype))
            return replace(plain, dtype=dtype, values=plain.values.view(dtype.scalar))
        held = isinstance(self.dtype, Entry) and is_held(self.dtype, dtype)
        if not held or not isinstance(self.dtype, Entry) or not isinstance(dtype, Entry):
            raise FormatError(
                f"{self.dtype} cannot become {dtype}",
                code="E402",
                hint="give arrays with component axes: ow.tensor(array, dtype=ow.entry...)",
            )
        if dtype.family == self.dtype.family:
            return replace(self, dtype=dtype, values=self.values.astype(dtype.scalar))
        plain, size = self.laid_out(AOS), dtype.size
        given = plain.values.reshape(-1, self.dtype.size)
        values = self._zeros(len(given) * size, np.dtype(dtype.scalar))
        numbers = self.dtype.decode([given[:, n] for n in range(self.dtype.size)])
        with np.errstate(all="ignore"):
            for n, each in enumerate(dtype.encode(numbers)):
                values[n::size] = each
        return replace(plain, dtype=dtype, values=values).laid_out(self.format.layout)

    @cached_property
    def asked(self) -> dict[object, bool]:
        """Cached facts about the index arrays, which do not change, by question."""
        return {}

    @cached_property
    def permuted(self) -> dict[tuple[int, ...], Storage]:
        """Views of the same arrays with the modes in another order, by order."""
        return {}

    @cached_property
    def alike(self) -> ArrayType | None:
        """What a plain array of numbers shares with others that kernels take in its place.

        None for all other tensors.
        """
        plain = self.format.plain and not isinstance(self.dtype, Entry) and not self.fill
        in_memory = isinstance(self.values, np.ndarray)
        return (
            array_type(self.dtype, self.format.order, self.shape) if plain and in_memory else None
        )

    @property
    def overhangs(self) -> bool:
        """Whether blocks reach beyond the shape."""
        pairs = zip(self.format.tiles, self.shape, strict=True)
        return any(tile and extent % tile for tile, extent in pairs)

    @cached_property
    def widths(self) -> tuple[str, ...]:
        """The element types of all index arrays, level by level: kernels depend on them."""
        return tuple(arrays[name].dtype.name for arrays in self.levels for name in sorted(arrays))

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """The extent of each level."""
        return self.format.extents(self.shape)

    def level_view(self, level: int) -> SimpleNamespace:
        """The inputs of a level's formulas: arrays, extent, number of parents."""
        parents = self.positions(level - 1)
        return SimpleNamespace(extent=self.extents[level], parents=parents, **self.levels[level])

    def positions(self, level: int) -> int:
        """The number of positions of level `level`; level -1 is the root, with one."""
        count = 1
        for n in range(level + 1):
            view = SimpleNamespace(extent=self.extents[n], parents=count, **self.levels[n])
            count = int(self.format.levels[n].children(view, np.int64(count)))  # in 64 bits
        return count

    def runs(self) -> Iterator[tuple[Array, Array, Array]]:
        """Level by level, for each entry: the number of its parent entry, its coordinate on the
        level, and its position.

        Entries come in storage order: run after run on every level.
        """
        places = np.zeros(1, dtype=np.int64)
        for n in range(len(self.format.levels)):
            run, column, places = self.below(places, n)
            yield run, column, places

    def below(
        self, parents: Array, n: int, ends: tuple[int, int] | None = None
    ) -> tuple[Array, Array, Array]:
        """The entries of level `n` below these parent positions: the index of each one's parent
        among them, its coordinate, and its position.

        `ends`: the least and the greatest coordinate that is wanted. In a single run the entries
        beyond them are not walked; in several, they may be.
        """
        level, view = self.format.levels[n], self.level_view(n)
        begin = np.asarray(level.begin(view, parents), dtype=np.int64)
        end = np.asarray(level.end(view, parents), dtype=np.int64)
        if ends is not None and len(parents) == 1:
            begin, end = _between(level, view, begin, end, ends)
        counts = end - begin
        run = np.repeat(np.arange(len(parents)), counts)
        first = np.cumsum(counts) - counts
        at = np.arange(len(run))
        if (begin != first).any():
            at += (begin - first)[run]
        parent = parents[run]
        column = np.asarray(level.coordinate(view, parent, at))
        places = np.asarray(level.place(view, parent, at), dtype=np.int64)
        if not level.walks:
            there = np.flatnonzero(level.find(view, parent, column)[1])
            run, column, places = run[there], column[there], places[there]
        return run, column, places

    def entries(self, depth: int | None = None) -> tuple[Array, list[Array]]:
        """The position of every entry's value, and its coordinate on each level.

        `depth`: of the first so many levels instead of all.
        """
        return self._walk(len(self.format.levels) if depth is None else depth)

    def _walk(self, depth: int) -> tuple[Array, list[Array]]:
        """The entries of the level at `depth`: their positions, and the coordinates so far."""
        places = np.zeros(1, dtype=np.int64)
        columns: list[Array] = []
        for run, column, below in islice(self.runs(), depth):
            columns, places = [*(each[run] for each in columns), column], below
        return places, columns

    def within(
        self,
        wanted: Mapping[int, Callable[[Array], Array]],
        ends: Mapping[int, tuple[int, int]],
    ) -> tuple[Array, list[Array]]:
        """As `entries`, of those alone whose coordinate in some modes is wanted.

        `ends`: the least and the greatest coordinate that is, by modes. What is not wanted is left
        out level by level, so a row is found without all others. Modes that are stored in blocks
        are not looked at.
        """
        places = np.zeros(1, dtype=np.int64)
        columns: list[Array] = []
        for n, (mode, part) in enumerate(self.format.parts):
            run, column, below = self.below(places, n, None if part is not None else ends.get(mode))
            if mode in wanted and part is None:
                kept = np.flatnonzero(wanted[mode](column))
                run, column, below = run[kept], column[kept], below[kept]
            columns, places = [*(each[run] for each in columns), column], below
        return places, columns

    def coordinates(self, entries: tuple[Array, list[Array]] | None = None) -> tuple[Array, Array]:
        """The coordinates of all entries, of shape (modes, entries), and their positions.

        `entries`: those to give the coordinates of, instead of all.
        """
        places, columns = self.entries() if entries is None else entries
        shape, format = self.shape, self.format
        most = max((*shape, 1)) - 1 + max((*format.tiles, 0))  # blocks may reach beyond the shape
        coords = np.empty((len(shape), len(places)), dtype=index_dtype(most))
        for (mode, part), column in zip(format.parts, columns, strict=True):
            if part == 1:
                coords[mode] += column.astype(coords.dtype)
            else:
                coords[mode] = column
                coords[mode] *= format.tiles[mode] if part == 0 else 1
        if self.overhangs:
            inside = (coords < np.array(shape)[:, None]).all(axis=0)
            coords, places = coords[:, inside], places[inside]
        return coords, places

    @cached_property
    def pointers(self) -> tuple[int, ...]:
        """The addresses of all arrays, as kernels take them."""
        return tuple([address(array) for array in self.addressed])


def _between(
    level: Level, view: Any, begin: Array, end: Array, ends: tuple[int, int]
) -> tuple[Array, Array]:
    """The part of a run from `begin` to `end` in which coordinates between `ends` lie."""
    low, high = ends
    if high < low:
        return begin, begin
    if level.spans:
        return np.maximum(begin, begin + low), np.minimum(end, begin + high + 1)
    if not (level.ordered and level.searches):
        return begin, end
    crd = view.crd[begin[0] : end[0]]
    least, greatest = np.array(ends, crd.dtype)  # of another type, all of `crd` would be converted
    first, last = np.searchsorted(crd, least), np.searchsorted(crd, greatest, side="right")
    return begin + first, begin + last


def as_complex(entry: Complex) -> np.dtype[Any]:
    """NumPy's complex type with parts of the type of a record's."""
    return np.result_type(entry.scalar, np.complex64)


def placement_of(format: Format, dtype: DType, beside: np.dtype[Any] | None = None) -> Placement:
    """Where a format has the numbers of elements; `beside`: the type of packed coordinates."""
    size, scalar = numbers_of(1, dtype)
    return placement(format.layout, size, scalar.itemsize, 0 if beside is None else beside.itemsize)


def room_of(format: Format, dtype: DType, count: int) -> tuple[int, np.dtype[Any]]:
    """How many numbers the memory for so many elements has, and their type."""
    made, scalar = numbers_of(count, dtype)
    if format.layout != AOS:
        made = int(placement_of(format, dtype).room(count))
    return made, scalar


def coordinates_in(values: Array, beside: np.dtype[Any], dtype: DType) -> Array:
    """The coordinates of packed records, as a view of the array that holds them."""
    size, scalar = numbers_of(1, dtype)
    where = coordinate_placement(PACKED, size, scalar.itemsize, beside.itemsize)
    return where.apart(values.view(beside)).reshape(-1)


def _unpaired(format: Format, coordinates: int, values: int, layout: str) -> FormatError:
    return FormatError(
        f"{format!r} cannot be {layout}: it has {coordinates} coordinates and {values} values",
        code="E401",
    )


def _read_only(array: Array) -> Array:
    if hasattr(array.flags, "writeable"):
        array.flags.writeable = False
    return array


def copied_levels(levels: Levels) -> Levels:
    """A copy of the index arrays."""
    return tuple({name: a.copy() for name, a in arrays.items()} for arrays in levels)
