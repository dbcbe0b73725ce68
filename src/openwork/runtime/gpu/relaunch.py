"""A kernel that was launched before, launched again with little ado: for small kernels.

CuPy takes a launch apart each time. What a second one needs is the same but for the place of the
result, so that the arguments stay as the driver wants them, and one of them is changed: while the
GPU is still busy with the launch before, so that nothing is left to do when the next is called for.
The driver needs less time for a graph than for a launch, so that it becomes one, where it can.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from openwork.runtime.gpu.graph import Graph, Kernel, NoGraph

_ALIGNED = 256  # bytes: as CuPy's own arrays are
# Bytes that stay taken as long as one of the results in them does, and how many those are at most.
_PIECE, _MOST = 1 << 18, 32
_KINDS = {1: ctypes.c_int8, 2: ctypes.c_int16, 4: ctypes.c_int32, 8: ctypes.c_int64}


class Relaunch:
    """A launch that can be made ready again, with its arguments in memory.

    Args:
        cp: CuPy.
        function: CuPy's function.
        grid: how many blocks.
        threads: of a block.
        args: NumPy's scalars and CuPy's arrays.
    """

    def __init__(
        self, cp: Any, function: Any, grid: tuple[int, int], threads: int, args: Sequence[Any]
    ) -> None:
        self._launch: Any = getattr(cp.cuda.driver, "launchKernel", _no_driver)
        runtime = getattr(cp.cuda, "runtime", None)
        self.launch_graph: Any = getattr(runtime, "graphLaunch", _no_driver)
        self._function, self._args = function, tuple(args)
        self._pointer, self._grid, self._threads = getattr(function, "ptr", 0), (*grid, 1), threads

    @cached_property
    def _values(self) -> list[Any]:
        """The arguments as the driver wants them; most launches are never repeated."""
        return [_value(arg) for arg in self._args]

    def places(self, old: Any, address: Any) -> Any:
        """Where the driver finds each argument, with an address in the place of `old`."""
        return (ctypes.c_void_p * len(self._values))(
            *[
                ctypes.addressof(address if arg is old else value)
                for arg, value in zip(self._args, self._values, strict=True)
            ]
        )

    def on(self, stream: int, places: Any) -> Callable[[], None]:
        """The launch on a stream with the arguments at places, which have to stay."""
        shape = (*self._grid, self._threads, 1, 1, 0)
        return partial(self._launch, self._pointer, *shape, stream, ctypes.addressof(places), 0)

    def node(self, places: Any) -> Kernel:
        """The same for a graph."""
        block = (self._threads, 1, 1)
        return Kernel(self._pointer, self._grid, block, 0, ctypes.addressof(places), None)

    def slowly(self, old: Any, new: int) -> None:
        """Through CuPy, which sees to all that a thread needs first."""
        args = tuple([np.uint64(new) if arg is old else arg for arg in self._args])
        self._function(self._grid, (self._threads, 1, 1), args)


class Ready:
    """Launches on a stream whose result may be put elsewhere each time, by one thread at a time.

    On the default stream they become a graph when they are made ready again. Other streams may be
    recorded for a graph of the user's, which is no place for one of ours.

    Args:
        launched: what was launched before.
        old: where the result was then.
        stream: where to launch: CuPy's, which stays as long as this does.
        tried: does what it is given, and says what a GPU's errors mean.
    """

    __slots__ = ("_address", "_graph", "_held", "_launches", "_plain", "_tried", "place", "stream")

    def __init__(
        self, launched: Sequence[Relaunch], old: Any, stream: Any, tried: Callable[[Any], Any]
    ) -> None:
        self.stream, self._tried = stream, tried
        self.place: Any = None
        self._address = ctypes.c_uint64()  # memory that the driver reads
        self._held = [(each, each.places(old, self._address)) for each in launched]
        self._launches = self._plain = [
            (each.on(stream.ptr, places), partial(each.slowly, old)) for each, places in self._held
        ]
        self._graph: Graph | None = None

    def into(self, place: Any) -> None:
        """Where the next result goes."""
        first = self.place is None
        self.place = place
        self._address.value = place.ptr
        if self._graph is not None:
            if not self._graph.changed():
                self._graph, self._launches = None, list(self._plain)  # for good
        elif not first and self.stream.ptr == 0 and self._launches is self._plain and self._held:
            self._launches = self._as_graph()

    def go(self) -> None:
        """Launch them; by a name, because Python calls objects themselves in a slower way."""
        for launch, slowly in self._launches:
            try:
                launch()
            except Exception:  # in a thread that has not used the GPU before, for one
                self._tried(partial(slowly, self.place.ptr))

    def _as_graph(self) -> list[tuple[Any, Any]]:
        """The launches as one, if that is possible."""
        try:
            nodes = [each.node(places) for each, places in self._held]
            self._graph = Graph(self._held[0][0].launch_graph, nodes)
        except NoGraph:
            return list(self._plain)  # not to be tried again
        return [(self._graph.launch, partial(_all_slowly, self._plain))]


class Slices:
    """Memory for small results, cut from larger pieces: a pool takes longer to give and take back.

    Args:
        cp: CuPy.
        array: what the results are like.
        alloc: gives memory.
    """

    def __init__(self, cp: Any, array: Any, alloc: Callable[[int], Any]) -> None:
        self._ndarray, self._shape, self._dtype = cp.ndarray, array.shape, array.dtype
        self._alloc = alloc
        self._size = max(1, -(-array.nbytes // _ALIGNED)) * _ALIGNED
        self._each = max(1, min(_MOST, _PIECE // self._size))
        self._places: list[Any] = []

    def __call__(self) -> Any:
        """A new place; taking one is a single step, so that threads may call at once."""
        try:
            return self._places.pop()
        except IndexError:
            piece = self._alloc(self._size * self._each)
            places = [piece + n * self._size for n in range(self._each)]
            place = places.pop()
            self._places = places
            return place

    def array(self, place: Any) -> Any:
        """The array at a place; making it takes as long as the smallest kernels do."""
        return self._ndarray(self._shape, self._dtype, place)


def _all_slowly(launches: Sequence[tuple[Any, Any]], new: int) -> None:
    for _, slowly in launches:
        slowly(new)


def _no_driver(*args: Any) -> None:
    """In place of a function that this CuPy has not; the launch is then made the slow way."""
    raise NoGraph


def _value(arg: Any) -> Any:
    if isinstance(arg, np.generic):
        kind = _KINDS[arg.dtype.itemsize]
        return kind.from_buffer_copy(arg.tobytes())
    return ctypes.c_uint64(arg.data.ptr)
