"""Large blocks of memory that kernels and results have freed, kept for the next call.

The system takes large blocks back as soon as they are freed, and clears new ones page by page, so a
kernel that makes a large result, or has large workspaces, spends much of its time on memory that it
had a moment ago. The library that has the pool of threads also keeps such blocks (`kept.c`), and
each library that allocates brings a few functions that ask it first (`allocate.c`).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

from openwork.runtime.limits import memory_total

# For the linker: calls of the C library's functions become calls of those in allocate.c.
FLAGS = tuple(f"-Wl,--wrap={name}" for name in ("malloc", "calloc", "realloc", "free"))
_ALLOCATE = ("__builtin_malloc", "__builtin_calloc", "__builtin_realloc")
_MOST, _SHARE = 1 << 28, 16  # bytes that are kept, and of the memory there is one part in so many

_limit: Callable[[int], int] | None = None
free: Callable[[int], None] = ctypes.CDLL(None).free
free.argtypes, free.restype = [ctypes.c_void_p], None  # type: ignore[attr-defined]


@cache
def kept_source() -> str:
    """What keeps the blocks, for the library with the pool."""
    return Path(__file__).with_name("kept.c").read_text()


@cache
def allocate_source() -> str:
    """What is appended to the source of every library that allocates."""
    return Path(__file__).with_name("allocate.c").read_text()


def allocates(source: str) -> bool:
    """Whether `source` asks for memory."""
    return any(name in source for name in _ALLOCATE)


def start(keeper: ctypes.CDLL) -> None:
    """Keep blocks from now on; `free` gives them to `keeper`."""
    global free, _limit
    for function in (keeper.ow_kept_give, keeper.ow_kept_open):
        function.restype = None
    keeper.ow_kept_give.argtypes = [ctypes.c_void_p]
    keeper.ow_kept_limit.argtypes, keeper.ow_kept_limit.restype = [ctypes.c_size_t], ctypes.c_size_t
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=keeper.ow_kept_open)
    free, _limit = keeper.ow_kept_give, keeper.ow_kept_limit
    _limit(most_kept())


def most_kept() -> int:
    """How many bytes may be kept: those that `OPENWORK_KEPT_BYTES` says, else up to 256 MiB.

    >>> 0 <= most_kept() <= 2**28
    True
    """
    asked = os.environ.get("OPENWORK_KEPT_BYTES", "")
    if asked.isdecimal():
        return int(asked)
    return min(_MOST, (memory_total() or 0) // _SHARE)


def release() -> int:
    """Return the kept blocks to the system; how many bytes those were."""
    if _limit is None:
        return 0
    released = _limit(0)
    _limit(most_kept())
    return released


def connect(library: ctypes.CDLL, keeper: ctypes.CDLL) -> None:
    """Let `library` take and give its large blocks."""
    for name in ("take", "give"):
        function = getattr(keeper, f"ow_kept_{name}")
        address = ctypes.cast(function, ctypes.c_void_p).value
        ctypes.c_void_p.in_dll(library, f"openwork_{name}").value = address
