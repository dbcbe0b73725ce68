"""A kernel that was launched before, launched again with little ado: for small kernels.

CuPy takes a launch apart each time. What a second one needs is the same but for the place of the
result, so that the arguments stay as the driver wants them, and one of them is changed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from threading import Lock
from typing import Any

import numpy as np

_ALIGNED = 256  # bytes: as CuPy's own arrays are
# Bytes that stay taken as long as one of the results in them does, and how many those are at most.
_PIECE, _MOST = 1 << 18, 32
_KINDS = {1: ctypes.c_int8, 2: ctypes.c_int16, 4: ctypes.c_int32, 8: ctypes.c_int64}


class Relaunch:
    """A launch, with its arguments in memory.

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
        self._launch: Any = getattr(cp.cuda.driver, "launchKernel", None)
        self._function, self._args = function, tuple(args)
        self._shape = (getattr(function, "ptr", 0), *grid, 1, threads, 1, 1, 0)
        self._lock = Lock()  # from the change of an argument until the driver has taken it
        self._again: tuple[Any, int, list[Any], Callable[[], Any]] = (None, 0, [], int)

    @cached_property
    def _values(self) -> list[Any]:
        """The arguments as the driver wants them; most launches are never repeated."""
        return [_value(arg) for arg in self._args]

    @cached_property
    def _places(self) -> Any:
        places = [ctypes.addressof(value) for value in self._values]
        return (ctypes.c_void_p * len(places))(*places)

    @cached_property
    def _all(self) -> int:
        return ctypes.addressof(self._places)

    def __call__(self, old: Any, new: Any, stream: int) -> None:
        """Launch with the array `new` in the place of `old`."""
        known, on, values, launch = self._again
        if known is not old or on != stream:
            pairs = zip(self._args, self._values, strict=True)
            values = [value for arg, value in pairs if arg is old]
            launch = partial(self._launch, *self._shape, stream, self._all, 0)
            self._again = old, stream, values, launch
        address = new.data.ptr
        with self._lock:
            for value in values:
                value.value = address
            launch()

    def slowly(self, old: Any, new: Any) -> None:
        """The same through CuPy, which sees to all that a thread needs first."""
        _, x, y, z, threads, *_ = self._shape
        args = tuple([new if arg is old else arg for arg in self._args])
        self._function((x, y, z), (threads, 1, 1), args)


class Slices:
    """Memory for small results, cut from larger pieces: a pool takes longer to give and take back.

    Args:
        cp: CuPy.
        array: what the results are like.
    """

    def __init__(self, cp: Any, array: Any) -> None:
        self._cp, self._shape, self._dtype = cp, array.shape, array.dtype
        self._size = max(1, -(-array.nbytes // _ALIGNED)) * _ALIGNED
        self._each = max(1, min(_MOST, _PIECE // self._size))
        self._places: list[Any] = []

    def __call__(self) -> Any:
        """A new array; taking a place is a single step, so that threads may call at once."""
        try:
            place = self._places.pop()
        except IndexError:
            piece = self._cp.cuda.alloc(self._size * self._each)
            places = [piece + n * self._size for n in range(self._each)]
            place = places.pop()
            self._places = places
        return self._cp.ndarray(self._shape, self._dtype, place)


def _value(arg: Any) -> Any:
    if isinstance(arg, np.generic):
        kind = _KINDS[arg.dtype.itemsize]
        return kind.from_buffer_copy(arg.tobytes())
    return ctypes.c_uint64(arg.data.ptr)
