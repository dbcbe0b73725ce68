"""The process's pool of threads, and how a library's parallel loops reach it.

Generated C says `#pragma omp parallel for`. gcc makes a function of the loop's body and calls
OpenMP's library to run it on threads. That library has a barrier at the end of the loop, which
waits for every thread, even for one that has not begun and for which nothing is left: beside a busy
process that is a time slice, many times a short loop. So each library brings its own few functions
of OpenMP (`parallel.c`), which hand the loop to a pool (`pool.c`) that waits only for threads that
have begun. Where another library has brought GNU's OpenMP, the pool leaves its loops to that one's
threads: two pools that spin would hinder each other.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import re
from functools import cache
from pathlib import Path

LIBRARIES = ("-lpthread", "-ldl", "-lc")  # that the pool needs besides the compiler's own

# Vector loops (`omp simd`) call nothing.
_CALLS = re.compile(r'(?:#pragma |_Pragma\(")omp (?:parallel|atomic|critical)\b')


@cache
def pool_source() -> str:
    """The pool, a library of its own."""
    return Path(__file__).with_name("pool.c").read_text()


def has_threads(source: str) -> bool:
    """Whether `source` calls OpenMP's library: for threads, or for what only one of them may do."""
    return _CALLS.search(source) is not None


@cache
def parallel_source() -> str:
    """What is appended to the source of every library with parallel loops."""
    return Path(__file__).with_name("parallel.c").read_text()


def start(pool: ctypes.CDLL) -> None:
    """Prepare the pool, which has no threads yet.

    A forked child has none of the threads, and starts its own.
    """
    pool.ow_pool_open()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=pool.ow_pool_open)
    atexit.register(pool.ow_pool_close)


def connect(library: ctypes.CDLL, pool: ctypes.CDLL) -> None:
    """Let the parallel loops of `library` run on the pool."""
    run = ctypes.cast(pool.ow_pool_run, ctypes.c_void_p).value
    ctypes.c_void_p.in_dll(library, "openwork_run").value = run
