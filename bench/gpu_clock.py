"""A clock for kernels on a GPU: device time, with launches queued before what is timed begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy as cp
import numpy as np

WAIT = cp.RawKernel(
    r"""extern "C" __global__ void wait(long long n) {
  const long long start = clock64();
  while (clock64() - start < n) {}
}""",
    "wait",
)


def median(f: Callable[[], Any], reps: int = 11, wait_us: int = 400) -> float:
    """Median device time in milliseconds."""
    for _ in range(2):
        f()
    times = []
    for _ in range(reps):
        start, end = cp.cuda.Event(), cp.cuda.Event()
        WAIT((1,), (1,), (np.int64(wait_us * 1800),))
        start.record()
        f()
        end.record()
        end.synchronize()
        times.append(cp.cuda.get_elapsed_time(start, end))
    return float(np.median(times))


def copy_bandwidth() -> float:
    """GB/s, read and written."""
    a = cp.ones(1 << 28, dtype=cp.float32)
    b = cp.empty_like(a)
    return 2 * a.nbytes / median(lambda: cp.copyto(b, a)) / 1e6
