"""The tuner on a GPU, against the default and cuSPARSE's best prepared algorithm, matrix by matrix.

    python bench/gpu_tuned.py [--columns 0,32] [--dtype float32] [--budget 3] [MATRIX ...]

Each search may change schedule and format. Afterwards the default, the choice and cuSPARSE are
timed once more, in one place. The last lines are geometric means and worst cases.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from itertools import chain
from typing import Any

import cupy as cp
import cupyx.scipy.sparse as cps
import cusparse
import numpy as np
import scipy.sparse as sp
from cusparse import fastest
from gpu_clock import median
from gpu_matrices import held_out, matrices
from gpu_points import USUAL, statement
from matrices import collection, real_matrices

import openwork as ow

HEAD = (
    "matrix", "kernel", "dtype", "cuSPARSE ms", "default ms", "tuned ms", "cuSPARSE / default",
    "cuSPARSE / tuned", "search, s", "choice",
)  # fmt: skip


def chosen(wanted: tuple[str, ...], kind: Any) -> Iterator[tuple[str, Any]]:
    """The matrices of these names."""
    names = tuple(name for name in collection() if name in wanted)
    real = ((n, cps.csr_matrix(sp.csr_matrix(m).astype(kind))) for n, m in real_matrices(names))
    for name, matrix in chain(real, held_out(kind), matrices(kind, small=True)):
        if name in wanted:
            yield name, matrix


def measure(name: str, A: Any, columns: int, budget: float) -> tuple[float, float, float]:
    """Print a row of the table; the times of cuSPARSE, the default and the choice."""
    stmt, x = statement(A, columns)
    want = cp.ascontiguousarray(A @ x)
    made = cp.empty_like(want)
    library = cusparse.spmm if columns else cusparse.spmv
    direct = fastest(library(A, x, made), want, made)
    began = time.perf_counter()
    best = ow.tune.search(stmt, budget=budget, target="cuda", again=True, progress=False)
    took = time.perf_counter() - began
    default = median(stmt.compile("cuda"))
    tuned = median(best.kernel)
    kernel = f"SpMM {columns}" if columns else "SpMV"
    text = best.text.replace("\n", "; ") or "the default"
    print(
        f"| {name} | {kernel} | {A.dtype.name} | {direct:.4f} | {default:.4f} | {tuned:.4f} "
        f"| {direct / default:.2f} | {direct / tuned:.2f} | {took:.1f} | `{text}` |",
        flush=True,
    )
    return direct, default, tuned


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("matrices", nargs="*", default=USUAL)
    parser.add_argument("--columns", default="0,32", help="0 for a vector")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--budget", type=float, default=3.0, help="seconds for each search")
    args = parser.parse_args()
    print(f"| {' | '.join(HEAD)} |\n{'|---' * len(HEAD)}|")
    found: dict[tuple[str, int], list[tuple[float, float, float]]] = {}
    for dtype in args.dtype.split(","):
        for name, A in chosen(tuple(args.matrices), np.dtype(dtype)):
            for columns in map(int, args.columns.split(",")):
                times = measure(name, A, columns, args.budget)
                found.setdefault((dtype, columns), []).append(times)
    for (dtype, columns), rows in found.items():
        for label, at in (("default", 1), ("tuned", 2)):
            ratios = [row[0] / row[at] for row in rows]
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"{dtype}, {columns} columns, {label}: {mean:.2f}, worst {min(ratios):.2f}")


if __name__ == "__main__":
    main()
