"""SpMV on two CPUs, of which one is busy with something else: two threads against one.

    python bench/busy_core.py

Both CPUs are free first; then a process that computes forever is bound to the second.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

import openwork as ow

CPUS = (0, 1)
ROUNDS, SECONDS = 6, 0.1
# Rows, and entries of each.
SIZES = {
    "200 thousand entries": (20_000, 10),
    "2 million": (200_000, 10),
    "8 million": (400_000, 20),
}
BUSY = f"import os\nos.sched_setaffinity(0, {{{CPUS[1]}}})\nwhile True: pass"


def product(rows: int, row: int) -> Callable[[], object]:
    """A compiled SpMV with `row` entries in each row, anywhere."""
    draw = np.random.default_rng(0)
    i, j = np.repeat(np.arange(rows), row), draw.integers(0, rows, rows * row)
    matrix = sp.csr_array(sp.coo_array((np.ones(len(i)), (i, j)), shape=(rows, rows)))
    A, x = ow.tensor(matrix, name="A"), ow.tensor(np.ones(rows), name="x")
    return ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(rows), A=A, x=x).compile()


def seconds(call: Callable[[], object]) -> dict[int, float]:
    """The median time of a call, by threads, which take turns."""
    found: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(ROUNDS):
        for threads, times in found.items():
            ow.set_num_threads(threads)
            end = time.perf_counter() + SECONDS
            while time.perf_counter() < end:
                start = time.perf_counter()
                call()
                times.append(time.perf_counter() - start)
    return {threads: statistics.median(times) for threads, times in found.items()}


def main() -> None:
    os.sched_setaffinity(0, CPUS)
    calls = {name: product(*size) for name, size in SIZES.items()}
    for state in ("both free", "the second busy"):
        busy = None
        if state != "both free":
            busy = subprocess.Popen([sys.executable, "-c", BUSY])
            time.sleep(0.2)
        for name, call in calls.items():
            one, two = seconds(call).values()
            print(f"{state}, {name}: {1e3 * one:.3f} ms, {1e3 * two:.3f} ms: {two / one:.2f}")
        if busy is not None:
            busy.kill()


if __name__ == "__main__":
    main()
