"""Memory for results: large blocks are reused, and impossible allocations refused.

The first touch of a fresh block takes as long as many kernels. C libraries reuse small blocks, but
return large ones to the system immediately. So the large blocks of freed results are kept for the
next result of about that size, up to a limit. An allocation that cannot succeed is refused before
the system kills the process.
"""

from __future__ import annotations

import math
from collections import deque
from ctypes import addressof, c_char
from typing import Any

import numpy as np

from openwork.algebra.entries import Entry
from openwork.algebra.types import DType, Number, as_element
from openwork.format.layouts import Placement
from openwork.runtime.limits import memory_left, memory_total
from openwork.runtime.promised import promised, remember, unwritten

Array = np.ndarray[Any, Any]

LARGE = 1 << 25  # smaller blocks are left to the C library
_KEPT_BYTES = 1 << 28
# Arrays of so many bytes begin at a cache line: rows of whole lines are then gathered in as few.
ALIGNED, LINE = 1 << 16, 64
# Reserved for the rest of the system: far more than threads fill between two checks.
_SHARE, _LEAST, _LARGEST_SHARE = 32, 1 << 28, 4
# Up to this part of free memory, arrays count as unwritten, whether they are or not.
_LITTLE = 8
# Unused blocks, by size. Appending to a deque and popping from it are atomic, so threads, and
# finalizers that run at any time, need no lock.
_kept: dict[int, deque[Array]] = {}


class _Block:
    """A block in use; it is kept for the next result when its last array is gone."""

    __slots__ = ("__array_interface__", "_block")

    def __init__(self, block: Array, size: int) -> None:
        self._block = block
        self.__array_interface__ = {
            "data": (block.__array_interface__["data"][0], False),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        _kept.setdefault(self._block.size, deque()).append(self._block)
        queues = list(_kept.items())
        excess = sum(size * len(queue) for size, queue in queues) - _KEPT_BYTES
        for size, queue in queues:
            while excess > 0 and queue:
                excess -= size
                queue.popleft()


def allocate(count: int, dtype: DType) -> Array:
    """An uninitialized array of `count` elements."""
    size = count * dtype.itemsize
    if size < LARGE or size > _KEPT_BYTES:
        check_memory(size, "the result")
        return _promised(np.empty(count, dtype) if size < ALIGNED else _aligned(count, dtype))
    # Sizes are rounded up to an eighth of a power of two, so that similar results share blocks.
    step = 1 << max(0, math.frexp(size)[1] - 4)
    rounded = -(-size // step) * step
    try:
        block = _kept[rounded].pop()
    except (KeyError, IndexError):
        check_memory(rounded, "the result")
        block = _promised(_aligned(rounded, np.dtype(np.uint8)))
    return np.asarray(_Block(block, size)).view(np.dtype(dtype))


def _aligned(count: int, dtype: DType) -> Array:
    """An array that begins at a cache line."""
    block = np.empty(count * dtype.itemsize + LINE, np.uint8)
    return np.ndarray(count, dtype, block, -address(block) % LINE)


def aligned_copy(array: Array) -> Array:
    """A copy of numbers that begins at a cache line, if it is large."""
    made = allocate(array.size, array.dtype)
    made[...] = array.reshape(-1)
    return made.reshape(array.shape)


def at_line(array: Array) -> bool:
    """Whether an array begins at a cache line."""
    return address(array) % LINE == 0


def zeros(count: int, dtype: DType, what: str = "the result") -> Array:
    """An array of `count` zeros, whose pages are not touched yet."""
    check_memory(count * dtype.itemsize, what)
    return _promised(np.zeros(count, dtype))


def filled(count: int, value: Number, dtype: DType, what: str = "the result") -> Array:
    """An array of `count` elements, all of them `value`."""
    check_memory(count * dtype.itemsize, what)
    return np.full(count, as_element(value, dtype))


def fill_with(values: Array, value: Number, dtype: DType, where: Placement) -> None:
    """Set every element, which may be a record with its numbers at `where`, to `value`."""
    if isinstance(dtype, Entry):
        where.apart(values)[...] = dtype.numbers(value)
    else:
        values[...] = as_element(value, dtype)


def _promised(array: Array) -> Array:
    return array if array.nbytes < LARGE else remember(array)


def address(array: Array) -> int:
    """The address of an array."""
    if array.size and array.flags.writeable:  # the same in a third of the time
        return addressof(c_char.from_buffer(array))  # type: ignore[arg-type]
    return int(array.__array_interface__["data"][0])


def release() -> None:
    """Return the kept blocks to the system."""
    _kept.clear()


_unseen = 0  # bytes requested since memory was last checked


def check_memory(size: int, what: str) -> None:
    """Raise `MemoryError` if this process cannot have `size` bytes for `what`.

    Small requests are added up, and memory is checked when the sum is large.
    """
    global _unseen
    _unseen += size
    if _unseen < LARGE:
        return
    _unseen = 0
    rest = min(size, headroom())
    left = available(size + rest)
    if left is not None and size + rest > left:
        kept = f", of which {_shown(rest)} are reserved for the system" if size <= left else ""
        raise MemoryError(f"{what} needs {_shown(size)}, but {_shown(left)} are free{kept}")


def available(enough: int | None = None) -> int | None:
    """Memory available without swapping, in bytes; None where the system does not say.

    Memory that was allocated but not written to is not counted. Finding out what was written is
    slow; if `enough` is available in any case, a lower estimate is returned instead.
    """
    left, owed = memory_left(), promised()
    if left is None or not owed:
        return left
    if owed <= left // _LITTLE or (enough is not None and enough <= left - owed):
        return left - owed
    return max(0, left - unwritten())


def headroom() -> int:
    """The memory reserved for the rest of the system, in bytes."""
    total = memory_total() or 0
    return min(max(_LEAST, total // _SHARE), total // _LARGEST_SHARE)


def _shown(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 1 << 27 else f"{size / 2**20:.1f} MiB"
