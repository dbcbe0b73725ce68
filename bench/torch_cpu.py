"""Default CPU kernels against torch, whose sparse products are MKL's: float64 CSR, by threads.

    python bench/torch_cpu.py --data FOLDER [--threads 1,2,16] [--columns 0,4,32,128] [--only NAMES]

A vector is 0 columns. Each library is measured alone, after a pause in which the other's threads
go to sleep, and with --turns also in turns, call after call. Torch's time over ours is printed.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.io import mmread

import openwork as ow

PAUSE = 0.02  # seconds: longer than threads spin
LEAST = 80_000  # entries of a matrix
MOST_ROWS = 500_000  # of a matrix with more than 32 columns beside it
RNG = np.random.default_rng(1)


def from_pairs(i: Any, j: Any, m: int, n: int) -> sp.csr_array:
    """A matrix with entries at these coordinates; duplicates are summed."""
    return sp.csr_array(sp.coo_array((RNG.standard_normal(len(i)), (i, j)), shape=(m, n)))


def uniform(m: int, n: int, row: int) -> sp.csr_array:
    """`row` entries in each row, anywhere."""
    return from_pairs(np.repeat(np.arange(m), row), RNG.integers(0, n, m * row), m, n)


def banded(n: int, row: int, width: int) -> sp.csr_array:
    """`row` entries in each row, near the diagonal."""
    i = np.repeat(np.arange(n), row)
    j = np.clip(i + RNG.integers(-width, width + 1, n * row), 0, n - 1)
    return from_pairs(i, j, n, n)


GENERATED: dict[str, Callable[[], sp.csr_array]] = {
    "uniform": lambda: uniform(200_000, 200_000, 10),
    "banded": lambda: banded(150_000, 20, 60),
    "wide": lambda: uniform(100, 100_000, 6_000),
    "rows40": lambda: uniform(60_000, 60_000, 40),
    "uniform16M": lambda: uniform(1_000_000, 1_000_000, 16),
    "band20M": lambda: banded(1_000_000, 20, 60),
}


def matrices(folder: Path, only: list[str]) -> Iterator[tuple[str, sp.csr_array]]:
    """The generated matrices, and those of a folder of .mtx.gz."""
    for name, make in GENERATED.items():
        if not only or name in only:
            yield name, make()
    for path in sorted(folder.glob("*.mtx.gz")):
        name = path.name[: -len(".mtx.gz")]
        if only and name not in only:
            continue
        matrix = sp.csr_array(mmread(path))
        if matrix.nnz >= LEAST or only:
            real = matrix.real if matrix.dtype.kind == "c" else matrix
            yield name, sp.csr_array(real.astype(float))


def alone(call: Callable[[], object], seconds: float) -> float:
    """The median time of a call, in milliseconds, after a warm-up."""
    time.sleep(PAUSE)
    end = time.perf_counter() + seconds / 2
    while time.perf_counter() < end:
        call()
    return statistics.median(timed(call, seconds)) * 1e3


def timed(call: Callable[[], object], seconds: float) -> list[float]:
    """The seconds of each of at least three calls."""
    found: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(found) < 3:
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return found


def in_turns(ours: Callable[[], object], theirs: Callable[[], object], seconds: float) -> float:
    """Torch's time over ours, where each call of one follows a call of the other."""
    pairs: list[tuple[float, float]] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(pairs) < 3:
        start = time.perf_counter()
        ours()
        middle = time.perf_counter()
        theirs()
        pairs.append((middle - start, time.perf_counter() - middle))
    mine, other = (statistics.median(column) for column in zip(*pairs, strict=True))
    return other / mine


def products(matrix: sp.csr_array, columns: int) -> tuple[ow.Statement, Callable[[], object]]:
    """Our statement, and torch's product."""
    m, n = matrix.shape
    A = ow.tensor(matrix, name="A")
    pos, crd = (torch.from_numpy(a.astype(np.int32)) for a in (matrix.indptr, matrix.indices))
    other = torch.sparse_csr_tensor(pos, crd, torch.from_numpy(matrix.data), size=(m, n))
    dense = RNG.standard_normal((n, columns) if columns else n)
    B, right = ow.tensor(dense, name="B"), torch.from_numpy(dense)
    if columns:
        stmt = ow.parse("C(i,k) = A(i,j) * B(j,k)", C=ow.empty((m, columns)), A=A, B=B)
    else:
        stmt = ow.parse("C(i) = A(i,j) * B(j)", C=ow.empty(m), A=A, B=B)
    return stmt, lambda: other @ right


def numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("--threads", type=numbers, default=[1, 2, 16])
    parser.add_argument("--columns", type=numbers, default=[0, 4, 32, 128])
    parser.add_argument("--only", type=lambda text: text.split(","), default=[])
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--turns", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    ratios: dict[tuple[str, int, int], list[tuple[float, str]]] = {}
    for name, matrix in matrices(options.data, options.only):
        line = [f"{name} {matrix.shape[0]}x{matrix.shape[1]} {matrix.nnz}"]
        for columns in options.columns:
            if columns > 32 and matrix.shape[0] > MOST_ROWS:
                continue
            stmt, theirs = products(matrix, columns)
            for threads in options.threads:
                torch.set_num_threads(threads)
                ow.set_num_threads(threads)
                ours = stmt.compile()
                mine, other = (alone(call, options.seconds) for call in (ours, theirs))
                found = {"alone": other / mine}
                if options.turns:
                    found["in turns"] = in_turns(ours, theirs, options.seconds)
                shown = " ".join(f"{ratio:.2f}" for ratio in found.values())
                line.append(f"k{columns} t{threads} {mine:.3f} ms {shown}")
                for how, ratio in found.items():
                    ratios.setdefault((how, columns, threads), []).append((ratio, name))
        print(" | ".join(line), flush=True)
    for (how, columns, threads), pairs in ratios.items():
        mean = math.exp(statistics.fmean(math.log(ratio) for ratio, _ in pairs))
        low = ", ".join(f"{name} {ratio:.2f}" for ratio, name in sorted(pairs)[:4])
        losses = sum(ratio < 0.95 for ratio, _ in pairs)
        print(
            f"{how}, columns {columns}, threads {threads}: mean {mean:.2f}, "
            f"{losses} of {len(pairs)} below 0.95; lowest {low}"
        )


if __name__ == "__main__":
    main()
