"""SpMV on two CPUs, of which one is busy with something else: two threads against one.

    python bench/busy_core.py [--openmp]

Both CPUs are free first; then a process that computes forever is bound to the second; then also one
to the first. Two threads run on Openwork's pool, or, with --openmp, on GNU's OpenMP, as where
another library has brought it. One and two threads take turns. Medians say what a call takes,
means what a program that makes many takes.
"""

from __future__ import annotations

import argparse
import ctypes
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
ROUNDS, SECONDS = 12, 0.08
# Rows, and entries of each.
SIZES = {
    "50 thousand": (5_000, 10),
    "200 thousand": (20_000, 10),
    "2 million": (200_000, 10),
    "8 million": (400_000, 20),
}
BUSY = "import os\nos.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"
Calls = dict[int, Callable[[], object]]


def product(rows: int, row: int) -> Calls:
    """SpMV with `row` entries in each row, anywhere, by the number of threads."""
    draw = np.random.default_rng(0)
    i, j = np.repeat(np.arange(rows), row), draw.integers(0, rows, rows * row)
    matrix = sp.csr_array(sp.coo_array((np.ones(len(i)), (i, j)), shape=(rows, rows)))
    A, x = ow.tensor(matrix, name="A"), ow.tensor(np.ones(rows), name="x")
    kernel = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(rows), A=A, x=x).compile()
    return {threads: on(threads, kernel) for threads in (1, 2)}


def on(threads: int, kernel: Callable[[], object]) -> Callable[[], object]:
    """`kernel` on so many threads."""

    def call() -> object:
        ow.set_num_threads(threads)
        return kernel()

    return call


def seconds(calls: Calls) -> dict[int, list[float]]:
    """The times of calls, which take turns."""
    found: dict[int, list[float]] = {threads: [] for threads in calls}
    for _ in range(ROUNDS):
        for threads, call in calls.items():
            call()
            end = time.perf_counter() + SECONDS
            while time.perf_counter() < end:
                start = time.perf_counter()
                call()
                found[threads].append(time.perf_counter() - start)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--openmp", action="store_true")
    if parser.parse_args().openmp:
        ctypes.CDLL("libgomp.so.1", mode=ctypes.RTLD_GLOBAL)
    os.sched_setaffinity(0, CPUS)
    products = {name: product(*size) for name, size in SIZES.items()}
    print("| busy CPUs | entries | one thread, ms | two over one: median | mean |")
    print("|---|---|---|---|---|")
    for busy in (0, 1, 2):
        hogs = [
            subprocess.Popen([sys.executable, "-c", BUSY.format(cpu=cpu)])
            for cpu in CPUS[::-1][:busy]
        ]
        time.sleep(0.2)
        try:
            for name, calls in products.items():
                one, two = seconds(calls).values()
                ratios = (
                    f"{of(two) / of(one):.2f}" for of in (statistics.median, statistics.fmean)
                )
                row = (busy, name, f"{1e3 * statistics.median(one):.3f}", *ratios)
                print(f"| {' | '.join(map(str, row))} |")
        finally:
            for hog in hogs:
                hog.kill()


if __name__ == "__main__":
    main()
