"""hand.c as a library: its functions, argument passing, and measurements of the machine."""

from __future__ import annotations

import ctypes
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import openmp

HAND = openmp.load(Path(__file__).with_name("hand.c").read_text(encoding="utf-8"))

BANDWIDTH_TURNS = 9


def address(array: Any) -> ctypes.c_void_p:
    """The address of the array's data."""
    return ctypes.c_void_p(array.ctypes.data)


def addresses(arrays: Any) -> Any:
    """The addresses of several arrays, as a C array."""
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def count(*numbers: int) -> list[ctypes.c_int64]:
    """Integers for a function of hand.c."""
    return [ctypes.c_int64(number) for number in numbers]


def arrays(matrix: Any) -> list[ctypes.c_void_p]:
    """The arrays of a CSR matrix for a function of hand.c."""
    assert matrix.indptr.dtype == matrix.indices.dtype == np.int32
    return [address(a) for a in (matrix.indptr, matrix.indices, matrix.data)]


def room_for_two() -> float:
    """How much more work two threads do than one, for work limited by the core alone."""
    rounds = ctypes.c_int64(10_000_000)
    start = time.perf_counter()
    HAND.spin(rounds)
    alone = time.perf_counter() - start
    threads = [threading.Thread(target=HAND.spin, args=(rounds,)) for _ in range(2)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 2 * alone / (time.perf_counter() - start)


def bandwidth(threads: int, megabytes: int) -> dict[str, float]:
    """Bytes per second of `threads` threads: reading, and in the triad `a = b + 3 c`.

    The arrays take `megabytes` in total, which should far exceed the caches. The best of several
    turns counts: a roofline is what the machine can do, not what it did under load.
    """
    HAND.read_all.restype = ctypes.c_double
    length = (megabytes << 20) // 8 // 3 // 16 * 16
    a, b, c = (np.full(length, value) for value in (0.0, 1.0, 2.0))
    whole = np.full(3 * length, 1.0)
    seconds: dict[str, list[float]] = {"read": [], "triad": []}
    for _ in range(BANDWIDTH_TURNS):
        start = time.perf_counter()
        total = HAND.read_all(*count(threads, whole.size), address(whole))
        seconds["read"].append(time.perf_counter() - start)
        start = time.perf_counter()
        HAND.triad(*count(threads, length), *map(address, (a, b, c)))
        seconds["triad"].append(time.perf_counter() - start)
    assert total == whole.size and a[0] == a[-1] == 7.0
    return {name: whole.nbytes / min(times) for name, times in seconds.items()}
