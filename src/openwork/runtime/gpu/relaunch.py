"""Relaunch a kernel with little overhead: for small kernels.

CuPy converts the arguments at every launch. A repeated launch differs only in the address of the
result, so the arguments stay as the driver takes them and one is changed, while the GPU still runs
the launch before. The driver starts a graph faster than launches, so they become one if possible.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from openwork.runtime.gpu.graph import Graph, Kernel, NoGraph

_ALIGNED = 256  # bytes, as for CuPy's arrays
# Bytes of a slab, which is freed with the last result in it, and the most results in one.
_PIECE, _MOST = 1 << 18, 32
_KINDS = {1: ctypes.c_int8, 2: ctypes.c_int16, 4: ctypes.c_int32, 8: ctypes.c_int64}


class Relaunch:
    """A launch that can be repeated, with its arguments in memory.

    Args:
        cp: CuPy.
        function: the kernel, as CuPy's function.
        grid: the number of blocks.
        threads: the number of threads per block.
        args: NumPy scalars and CuPy arrays.
        counters: those of `args` that only one launch at a time may use; zero before and after it.
    """

    def __init__(
        self,
        cp: Any,
        function: Any,
        grid: tuple[int, int],
        threads: int,
        args: Sequence[Any],
        counters: Sequence[Any] = (),
    ) -> None:
        self._cp, self._counters = cp, tuple(counters)
        self._launch: Any = getattr(cp.cuda.driver, "launchKernel", _no_driver)
        runtime = getattr(cp.cuda, "runtime", None)
        self.launch_graph: Any = getattr(runtime, "graphLaunch", _no_driver)
        self._function, self._args = function, tuple(args)
        self._pointer, self._grid, self._threads = getattr(function, "ptr", 0), (*grid, 1), threads

    @cached_property
    def _values(self) -> list[Any]:
        """The arguments as the driver takes them; lazy, for most launches are never repeated."""
        return [_value(arg) for arg in self._args]

    def own(self) -> Relaunch:
        """The same launch with counters of its own, so that two streams may run it at once."""
        if not self._counters:
            return self
        fresh = [(old, self._cp.zeros(old.shape, old.dtype)) for old in self._counters]
        args = [next((new for old, new in fresh if arg is old), arg) for arg in self._args]
        grid, counters = self._grid[:2], [new for _, new in fresh]
        return Relaunch(self._cp, self._function, grid, self._threads, args, counters)

    def places(self, old: Any, address: Any) -> Any:
        """Where the driver finds each argument, with an address in place of `old`."""
        return (ctypes.c_void_p * len(self._values))(
            *[
                ctypes.addressof(address if arg is old else value)
                for arg, value in zip(self._args, self._values, strict=True)
            ]
        )

    def on(self, stream: int, places: Any) -> Callable[[], None]:
        """The launch on a stream with the arguments at `places`, which must stay valid."""
        shape = (*self._grid, self._threads, 1, 1, 0)
        return partial(self._launch, self._pointer, *shape, stream, ctypes.addressof(places), 0)

    def node(self, places: Any) -> Kernel:
        """The launch as a node of a graph."""
        block = (self._threads, 1, 1)
        return Kernel(self._pointer, self._grid, block, 0, ctypes.addressof(places), None)

    def slowly(self, old: Any, new: int) -> None:
        """Launch through CuPy, which first initializes the thread for CUDA."""
        args = tuple([np.uint64(new) if arg is old else arg for arg in self._args])
        self._function(self._grid, (self._threads, 1, 1), args)


class Ready:
    """Launches on a stream that write to another result each time; one thread at a time.

    On the default stream they become a graph at the first repetition. Other streams may be
    captured into a graph of the user's, which must not contain one of ours.

    Args:
        launched: the launches to repeat.
        old: the result of those launches.
        stream: CuPy's stream, which lives as long as this object.
        tried: calls a function, and translates CUDA's errors.
    """

    __slots__ = ("_address", "_graph", "_held", "_launches", "_plain", "_tried", "place", "stream")

    def __init__(
        self, launched: Sequence[Relaunch], old: Any, stream: Any, tried: Callable[[Any], Any]
    ) -> None:
        self.stream, self._tried = stream, tried
        self.place: Any = None
        self._address = ctypes.c_uint64()  # memory that the driver reads
        own = [each.own() for each in launched]
        self._held = [(each, each.places(old, self._address)) for each in own]
        self._launches = self._plain = [
            (each.on(stream.ptr, places), partial(each.slowly, old)) for each, places in self._held
        ]
        self._graph: Graph | None = None

    def into(self, place: Any) -> None:
        """Set where the next result goes."""
        first = self.place is None
        self.place = place
        self._address.value = place.ptr
        if self._graph is not None:
            if not self._graph.changed():
                self._graph, self._launches = None, list(self._plain)  # for good
        elif not first and self.stream.ptr == 0 and self._launches is self._plain and self._held:
            self._launches = self._as_graph()

    def go(self) -> None:
        """Launch them; a named method, because Python is slower at calling an object."""
        for launch, slowly in self._launches:
            try:
                launch()
            except Exception:  # for example in a thread that has not used the GPU before
                self._tried(partial(slowly, self.place.ptr))

    def _as_graph(self) -> list[tuple[Any, Any]]:
        """The launches as one graph, if possible."""
        try:
            nodes = [each.node(places) for each, places in self._held]
            self._graph = Graph(self._held[0][0].launch_graph, nodes)
        except NoGraph:
            return list(self._plain)  # do not try again
        return [(self._graph.launch, partial(_all_slowly, self._plain))]


class Slices:
    """Memory for small results, cut from slabs: CuPy's pool takes longer per allocation.

    Args:
        cp: CuPy.
        array: a result of the same size and type.
        alloc: allocates memory.
    """

    def __init__(self, cp: Any, array: Any, alloc: Callable[[int], Any]) -> None:
        self._ndarray, self._shape, self._dtype = cp.ndarray, array.shape, array.dtype
        self._alloc = alloc
        self._size = max(1, -(-array.nbytes // _ALIGNED)) * _ALIGNED
        self._each = max(1, min(_MOST, _PIECE // self._size))
        self._places: list[Any] = []

    def __call__(self) -> Any:
        """A new address; taking one is atomic, so threads may call concurrently."""
        try:
            return self._places.pop()
        except IndexError:
            piece = self._alloc(self._size * self._each)
            places = [piece + n * self._size for n in range(self._each)]
            place = places.pop()
            self._places = places
            return place

    def array(self, place: Any) -> Any:
        """The array at an address; creating it takes as long as the smallest kernels."""
        return self._ndarray(self._shape, self._dtype, place)


def _all_slowly(launches: Sequence[tuple[Any, Any]], new: int) -> None:
    for _, slowly in launches:
        slowly(new)


def _no_driver(*args: Any) -> None:
    """Stands for a function that this CuPy lacks; the launch then goes through CuPy."""
    raise NoGraph


def _value(arg: Any) -> Any:
    if isinstance(arg, np.generic):
        kind = _KINDS[arg.dtype.itemsize]
        return kind.from_buffer_copy(arg.tobytes())
    return ctypes.c_uint64(arg.data.ptr)
