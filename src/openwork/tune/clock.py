"""How long calls take: wall time on a CPU, events on a GPU, with warm or cold caches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from openwork.runtime.gpu.cuda import cupy
from openwork.tensor.kernel.target import Target

_SAMPLE = 5e-4  # seconds that one measurement takes at least, so that the clock is exact enough
_MOST_CALLS = 200
_FLUSHED = 256 << 20  # bytes: more than caches hold

# A kernel that does nothing for so many nanoseconds, and how many the host needs to launch others.
_WAIT = """extern "C" __global__ void openwork_wait(long long nanoseconds) {
  long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  while (now - start < nanoseconds);
}"""
_BEFORE, _LAUNCH = 100_000, 15_000


class Clock(ABC):
    """Measures calls on one target."""

    def __init__(self, cold: bool) -> None:
        self.cold = cold

    def sample(self, call: Callable[[], Any], about: float) -> float:
        """Seconds of a call, averaged over as many as a measurement needs.

        `about`: what a call takes, roughly; 0 if that is not known.
        """
        if self.cold:
            self.flush()
            return self.timed(call, 1)
        count = 1 if not about else int(min(_MOST_CALLS, max(1, _SAMPLE / about)))
        return self.timed(call, count)

    @abstractmethod
    def timed(self, call: Callable[[], Any], count: int) -> float:
        """Seconds per call of `count` calls."""

    @abstractmethod
    def flush(self) -> None:
        """Fill the caches with something else."""


class HostClock(Clock):
    """For kernels that run on the CPU, emulated ones included."""

    def __init__(self, cold: bool) -> None:
        super().__init__(cold)
        self._other = np.ones(_FLUSHED // 8 if cold else 0)

    def timed(self, call: Callable[[], Any], count: int) -> float:
        """As for any clock."""
        start = perf_counter()
        for _ in range(count):
            call()
        return (perf_counter() - start) / count

    def flush(self) -> None:
        """As for any clock."""
        self._other += 1.0


class DeviceClock(Clock):
    """For kernels on a GPU: events around launches, all of which are queued before the first runs.

    Else small kernels would take as long as the host needs to launch them.
    """

    def __init__(self, cold: bool) -> None:
        super().__init__(cold)
        self._cp = cp = cupy()
        self._other = cp.ones(_FLUSHED // 4 if cold else 1, dtype="float32")
        self._wait = cp.RawKernel(_WAIT, "openwork_wait")

    def timed(self, call: Callable[[], Any], count: int) -> float:
        """As for any clock."""
        events = self._cp.cuda.Event(), self._cp.cuda.Event()
        self._wait((1,), (1,), (np.int64(_BEFORE + count * _LAUNCH),))
        events[0].record()
        for _ in range(count):
            call()
        events[1].record()
        events[1].synchronize()
        return float(self._cp.cuda.get_elapsed_time(*events)) / count / 1e3

    def flush(self) -> None:
        """As for any clock."""
        self._other += 1.0


def clock_for(target: Target, cold: bool) -> Clock:
    """The clock of a target.

    Raises:
        ToolchainError: E607 for `"cuda"` without a GPU.
    """
    return DeviceClock(cold) if target.name == "cuda" else HostClock(cold)
