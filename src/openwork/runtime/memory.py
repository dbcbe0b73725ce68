"""Memory for results: large blocks are used again, and impossible ones are refused.

A fresh block from the system costs as much to touch for the first time as many kernels take to fill
it. C libraries keep small blocks for the next request, but give large ones back at once; so large
blocks of results that are gone are kept for the next result of about that size, up to a limit. An
allocation that cannot succeed is refused before the system kills the process for it.
"""

from __future__ import annotations

import math
import os
from collections import deque
from ctypes import addressof, c_char
from typing import Any

import numpy as np

from openwork.algebra.types import DType

Array = np.ndarray[Any, Any]

_SMALL = 1 << 28
LARGE = 1 << 25  # blocks below this size are the allocator's business
_KEPT_BYTES = 1 << 28
# Where Linux tells a container what it may take.
_CONTAINER = tuple(f"/sys/fs/cgroup/memory.{name}" for name in ("max", "current", "stat"))
# Blocks that nobody uses, by size. Taking from a queue and adding to one are each a single step, so
# threads, and finalizers that run in the middle of anything, need no lock.
_kept: dict[int, deque[Array]] = {}


class _Block:
    """A block in use; when the last array over it is gone, it is kept for the next result."""

    __slots__ = ("__array_interface__", "_block")

    def __init__(self, block: Array, count: int, dtype: DType) -> None:
        self._block = block
        self.__array_interface__ = {
            "data": (block.__array_interface__["data"][0], False),
            "shape": (count,),
            "typestr": dtype.str,
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
    """An array of `count` elements that hold nothing in particular."""
    size = count * dtype.itemsize
    if size < LARGE or size > _KEPT_BYTES:
        check_memory(size, "the result")
        return np.empty(count, dtype)
    # Sizes are rounded up to an eighth of a power of two, so that similar results share blocks.
    step = 1 << max(0, math.frexp(size)[1] - 4)
    rounded = -(-size // step) * step
    try:
        block = _kept[rounded].pop()
    except (KeyError, IndexError):
        block = np.empty(rounded, np.uint8)
    return np.asarray(_Block(block, count, dtype))


def address(array: Array) -> int:
    """Where an array begins."""
    if array.size and array.flags.writeable:  # the same for a third of the time
        return addressof(c_char.from_buffer(array))  # type: ignore[arg-type]
    return int(array.__array_interface__["data"][0])


def release() -> None:
    """Give the blocks that are kept back to the system."""
    _kept.clear()


def check_memory(size: int, what: str) -> None:
    """Raise `MemoryError` if `size` bytes for `what` are more than the machine has left."""
    if size < _SMALL:
        return
    left = available()
    if left is not None and size > left:
        raise MemoryError(
            f"{what} needs {size / 2**30:.1f} GiB, and {left / 2**30:.1f} GiB are free"
        )


def available() -> int | None:
    """Memory that can be had without swapping, in bytes; None where the system does not say."""
    left = _of_system()
    within = _of_container(*_CONTAINER)
    return left if within is None else within if left is None else min(left, within)


def installed() -> int:
    """The memory of the machine, in bytes; 0 where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 0


def _of_system() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return installed() or None


def _of_container(limit: str, used: str, details: str) -> int | None:
    """What a container may still take; None if there is none, or it has no limit."""
    try:
        with open(limit, encoding="ascii") as file:
            most = int(file.read())  # the word "max" where there is no limit
        with open(used, encoding="ascii") as file:
            taken = int(file.read())
        with open(details, encoding="ascii") as file:  # pages of files make room when asked to
            given_up = [int(line.split()[1]) for line in file if line.startswith("inactive_file ")]
    except (OSError, ValueError):
        return None
    return max(0, most - taken + sum(given_up))
