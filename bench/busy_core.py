"""SpMV on two CPUs, of which one is busy with something else: two threads against one.

    python bench/busy_core.py

Both CPUs are free first; then a process that computes forever is bound to the second; then also one
to the first. Two threads run on Openwork's pool, and, by the same text, on the compiler's OpenMP.
All take turns. Medians say what a call takes, means what a program that makes many takes.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import openmp
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
Calls = dict[str, Callable[[], object]]


def product(rows: int, row: int) -> Calls:
    """SpMV with `row` entries in each row, anywhere; each with its number of threads."""
    draw = np.random.default_rng(0)
    i, j = np.repeat(np.arange(rows), row), draw.integers(0, rows, rows * row)
    matrix = sp.csr_array(sp.coo_array((np.ones(len(i)), (i, j)), shape=(rows, rows)))
    A, x = ow.tensor(matrix, name="A"), ow.tensor(np.ones(rows), name="x")
    statement = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(rows), A=A, x=x)
    ours, theirs = statement.compile(), statement.compile(loader=by_openmp)
    return {"one": on(1, ours), "pool": on(2, ours), "OpenMP": on(2, theirs)}


def on(threads: int, kernel: Callable[[], object]) -> Callable[[], object]:
    """`kernel` on so many threads."""

    def call() -> object:
        ow.set_num_threads(threads)
        return kernel()

    return call


def by_openmp(compiled: Any) -> Any:
    """The function of a kernel whose threads are the compiler's own."""
    return openmp.load(compiled.source).kernel


def seconds(calls: Calls) -> dict[str, list[float]]:
    """The times of calls, which take turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            call()
            end = time.perf_counter() + SECONDS
            while time.perf_counter() < end:
                start = time.perf_counter()
                call()
                found[name].append(time.perf_counter() - start)
    return found


def main() -> None:
    os.sched_setaffinity(0, CPUS)
    products = {name: product(*size) for name, size in SIZES.items()}
    print("| busy CPUs | entries | one thread, ms | pool: median | mean | OpenMP: median | mean |")
    print("|---|---|---|---|---|---|---|")
    for busy in (0, 1, 2):
        hogs = [
            subprocess.Popen([sys.executable, "-c", BUSY.format(cpu=cpu)])
            for cpu in CPUS[::-1][:busy]
        ]
        time.sleep(0.2)
        try:
            for name, calls in products.items():
                times = seconds(calls)
                median, mean = (
                    {n: of(t) for n, t in times.items()}
                    for of in (statistics.median, statistics.fmean)
                )
                ratios = (
                    f"{of[n] / of['one']:.2f}" for n in ("pool", "OpenMP") for of in (median, mean)
                )
                print(f"| {busy} | {name} | {1e3 * median['one']:.3f} | {' | '.join(ratios)} |")
        finally:
            for hog in hogs:
                hog.kill()


if __name__ == "__main__":
    main()
