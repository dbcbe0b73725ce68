"""From which mean length of rows on SpMV sums them in lanes, where processors gather slowly.

    python bench/cpu_lanes.py [--types float64 float32] [--pairs 15] [--generated | --real]

Both kernels are called in turns, one right after the other. A row of the table has the median of
the ratios of pairs, with quartiles. Below it: what the default's threshold (`Cpu.least_filled`)
loses over the faster of both, and what a threshold loses on kinds that it was not fitted to.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np
from matrices import banded, blocks, collection, real_matrices, rmat, skewed, uniform
from measure import environment, geometric_mean

import openwork as ow
from openwork.loops.schedule.machines import ANY_CPU

PLAIN = "parallelize(i,CPUThread,NoRaces)"
LANES = f"parallelize(j,CPUVector,ParallelReduction), {PLAIN}"
SAMPLE = 5e-4  # seconds of a measurement, at least
THRESHOLDS = (8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 1e9)
Case = tuple[str, float, float]  # the kind of matrix, its mean row, and plain over lanes


def generated() -> Iterator[tuple[str, Any]]:
    for rows, mean in ((2000, 4), (2000, 30), (2000, 200), (20_000, 8), (20_000, 20), (20_000, 60)):
        yield "uniform, small", uniform(rows, mean)
    for rows, mean in ((100_000, 5), (100_000, 30), (50_000, 40), (300_000, 4), (300_000, 12)):
        yield "uniform, large", uniform(rows, mean)
    for rows, width in ((100_000, 27), (30_000, 9), (20_000, 81), (100_000, 3)):
        yield "banded", banded(rows, width)
    for scale, mean in ((12, 16), (15, 16), (16, 8), (13, 40)):
        yield "R-MAT", rmat(scale, mean)
    for rows, side, mean in ((40_000, 4, 8), (20_000, 3, 10), (60_000, 2, 4)):
        yield "blocks", blocks(rows, side, mean)
    yield "short and wide", uniform(64, 10_000, columns=300_000)
    yield "short and wide", uniform(2000, 300, columns=200_000)
    yield "tall", uniform(200_000, 8, columns=2000)
    yield "tall", uniform(40_000, 40, columns=3000)
    yield "skewed", skewed(20_000, 200_000, 1_000_000, 1.001)
    yield "skewed", skewed(20_000, 20_000, 400_000, 1.2)


def sampled(kernel: Any, about: float) -> float:
    """Seconds of a call, averaged over as many as a measurement needs."""
    count = max(1, min(200, int(SAMPLE / about))) if about else 1
    start = perf_counter()
    for _ in range(count):
        kernel()
    return (perf_counter() - start) / count


def compared(kind: str, matrix: Any, dtype: str, pairs: int) -> Case:
    """Print a row."""
    rng = np.random.default_rng(0)
    A = ow.tensor(matrix.astype(dtype), name="A")
    x = ow.tensor(rng.random(matrix.shape[1]).astype(dtype), name="x")
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(matrix.shape[0], dtype=dtype), A=A, x=x)
    kernels = [stmt.schedule(text).compile() for text in (PLAIN, LANES)]
    about, ratios = [0.0, 0.0], list[float]()
    for turn in range(pairs + 2):  # the first two prepare what repeated calls use
        for n in (0, 1) if turn % 2 else (1, 0):
            about[n] = sampled(kernels[n], about[n])
        ratios.append(about[0] / about[1])
    low, middle, high = np.quantile(ratios[2:], (0.25, 0.5, 0.75))
    mean = matrix.nnz / matrix.shape[0]
    chosen = "lanes" if "CPUVector" in stmt.default_schedule() else ""
    print(
        f"| {kind} | {dtype} | {matrix.shape[0]} x {matrix.shape[1]} | {mean:.1f} "
        f"| {1e3 * about[0]:.3f} | {middle:.2f} ({low:.2f}-{high:.2f}) | {chosen} |",
        flush=True,
    )
    return kind, mean, float(middle)


def losses(cases: list[Case], threshold: float) -> list[float]:
    """For each case, the time of what a threshold chooses over the shorter one."""
    found = []
    for _, mean, gain in cases:
        found.append(max(1.0, 1 / gain) if mean >= threshold else max(1.0, gain))
    return found


def report(cases: list[Case]) -> None:
    """What the default loses, and what it would lose on kinds that it has not seen."""
    own, never = losses(cases, ANY_CPU.least_filled), losses(cases, np.inf)
    print(f"\nfrom {ANY_CPU.least_filled:g}: {geometric_mean(own):.3f}, at worst {max(own):.2f}")
    print(f"never: {geometric_mean(never):.3f}, at worst {max(never):.2f}")
    slower = [gain for _, mean, gain in cases if mean >= ANY_CPU.least_filled]
    if slower:
        told = f"{geometric_mean(slower):.2f}, {min(slower):.2f} at worst"
        print(f"gain where rows are in lanes: {told}, of {len(slower)}")
    apart = []
    for kind in dict.fromkeys(kind for kind, *_ in cases):
        others = [case for case in cases if case[0] != kind]
        best = min(THRESHOLDS, key=lambda t: geometric_mean(losses(others, t)))
        apart += losses([case for case in cases if case[0] == kind], best)
    print(f"fitted without the kind: {geometric_mean(apart):.3f}, at worst {max(apart):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--types", nargs="+", default=["float64", "float32"])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--generated", action="store_true")
    parser.add_argument("--real", action="store_true")
    chosen = parser.parse_args()
    print(environment())
    print(
        "\n| matrix | type | shape | mean row | ms, one after the other | gain of lanes | default |"
    )
    print("|---|---|---|---|---|---|---|")
    matrices: list[tuple[str, Any]] = []
    if not chosen.real:
        matrices += generated()
    if not chosen.generated:
        matrices += real_matrices(tuple(collection()))
    known = [(kind, m) for kind, m in matrices if m.nnz and m.dtype.kind != "c"]
    for dtype in chosen.types:
        report([compared(kind, matrix, dtype, chosen.pairs) for kind, matrix in known])
        print()


if __name__ == "__main__":
    main()
