"""Sparse results, conversions and products against SciPy, on one thread and on all.

    python bench/scaling.py [--quick] [--budget SECONDS] [--only OPERATIONS] [--out PAGE]

SciPy has one thread for all of these. Its products leave rows unsorted; ours are measured sorted
(CSR) and unsorted.
"""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matrices
import numpy as np
from measure import environment, geometric_mean, interleave

import openwork as ow

UNSORTED = ow.Format([ow.Dense, ow.Compressed(ordered=False)])
REAL = ("cage10", "wave", "email-Enron", "delaunay_n15", "usroads", "bcsstk16")
Call = Callable[[], object]

PAGE = """\
# Sparse results and products on one thread and on {threads}, {date}

{environment}

Repeat with `.venv/bin/python bench/scaling.py`.

Whole calls that return a new result, float64 with 32-bit indices, medians over turns in which every
contestant runs once. A ratio is the median of the ratios within a turn to SciPy, which has one
thread; above 1 Openwork is the faster. SciPy's products leave rows unsorted.

{table}
"""


def inputs(quick: bool) -> Iterator[tuple[str, Any]]:
    """Square matrices: of each kind, and real ones."""
    if quick:
        yield "uniform 5k x 8", matrices.uniform(5_000, 8)
        return
    yield "uniform 100k x 8", matrices.uniform(100_000, 8)
    yield "uniform 200k x 8", matrices.uniform(200_000, 8)
    yield "uniform 200k x 3", matrices.uniform(200_000, 3)
    yield "banded 100k x 13", matrices.banded(100_000, 13)
    yield "R-MAT 2^14 x 8", matrices.rmat(14, 8)
    yield from matrices.real_matrices(REAL)


def operations(matrix: Any) -> dict[str, tuple[Call, Call]]:
    """Each operation: SciPy's call, and ours."""
    i, j, k = ow.indices("i j k")
    shape, per_row = matrix.shape, max(1, matrix.nnz // matrix.shape[0])
    other = matrices.uniform(shape[0], per_row, seed=9)
    rng = np.random.default_rng(3)
    vector, columns = rng.random(shape[1]), rng.random((shape[1], 32))
    A, B = ow.tensor(matrix, name="A"), ow.tensor(other, name="B")
    x, X = ow.tensor(vector, name="x"), ow.tensor(columns, name="X")
    C, L = ow.empty(shape, format=ow.CSR, name="C"), ow.empty(shape, format=UNSORTED, name="L")
    y, Y = ow.empty(shape[:1], name="y"), ow.empty((shape[0], 32), name="Y")
    square = lambda: matrix @ matrix  # noqa: E731
    return {
        "A*A": (square, ow.assign(C[i, k], A[i, j] * A[j, k]).compile()),
        "A*A unsorted": (square, ow.assign(L[i, k], A[i, j] * A[j, k]).compile()),
        "A+B": (lambda: matrix + other, ow.assign(C[i, j], A[i, j] + B[i, j]).compile()),
        "A.*B": (lambda: matrix.multiply(other), ow.assign(C[i, j], A[i, j] * B[i, j]).compile()),
        "CSR to CSC": (matrix.tocsc, lambda: A.to(ow.CSC)),
        "to_coo": (matrix.tocoo, A.to_coo),
        "SpMM 32": (lambda: matrix @ columns, ow.assign(Y[i, k], A[i, j] * X[j, k]).compile()),
        "SpMV": (lambda: matrix @ vector, ow.assign(y[i], A[i, j] * x[j]).compile()),
    }


def on(threads: int, call: Call) -> Call:
    """`call` on so many threads."""

    def run() -> object:
        ow.set_num_threads(threads)
        return call()

    return run


def table(quick: bool, budget: float, threads: int, only: list[str]) -> str:
    """A row for each input and operation, with geometric means below."""
    lines = [
        f"| operation | input | SciPy, ms | 1 thread, ms | x SciPy | {threads} threads, ms "
        "| x SciPy |",
        "|---|---|---|---|---|---|---|",
    ]
    speeds: dict[str, list[tuple[float, float]]] = {}
    for name, matrix in inputs(quick):
        for operation, (theirs, ours) in operations(matrix).items():
            if only and operation not in only:
                continue
            calls = {"SciPy": theirs, "one": on(1, ours), "all": on(threads, ours)}
            turns = interleave(calls, budget)
            found = turns.speed("one", "SciPy"), turns.speed("all", "SciPy")
            speeds.setdefault(operation, []).append(found)
            ms = [f"{turns.median(n) * 1e3:.3g}" for n in calls]
            cells = (ms[0], ms[1], f"{found[0]:.2f}", ms[2], f"{found[1]:.2f}")
            lines.append(f"| {operation} | {name} | {' | '.join(cells)} |")
    for operation, pairs in speeds.items():
        one, all_of = (geometric_mean(column) for column in zip(*pairs, strict=True))
        told = f"geometric mean of {len(pairs)} | | | {one:.2f} | | {all_of:.2f}"
        lines.append(f"| **{operation}** | {told} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--budget", type=float, default=1.0)
    parser.add_argument("--only", type=lambda text: text.split(","), default=[])
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    ow.set_num_threads(None)
    threads = ow.thread_count()
    made = table(args.quick, args.budget, threads, args.only)
    ow.set_num_threads(None)
    date = datetime.date.today().isoformat()
    page = PAGE.format(threads=threads, date=date, environment=environment(), table=made)
    if args.out is not None:
        args.out.write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
