"""Sparse results on a GPU against cuSPARSE through CuPy: A * A, A * A^T, A + B and A .* B.

    python bench/gpu_results.py [spgemm spgemm_t add mul] [--dtype float32,float64] [--only NAMES]

Times are of the GPU, between two events, medians; both sides find the pattern anew at each call.
Every result is compared with CuPy's, index by index, before it is timed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cupy as cp
import numpy as np

import openwork as ow
from gpu import from_lengths, geometric, matrices, median

OUT = Path(os.environ.get("OUT", "bench/out"))
HEAD = "matrix kernel dtype entries cupy_ms openwork_ms ratio"
MOST = 600_000_000  # products of a matrix by a matrix that are tried


def cases(A: Any, kernels: list[str]) -> Iterator[tuple[str, str, Any, Callable[[], Any]]]:
    """The name of a kernel, its statement, the second operand, and what CuPy computes."""
    square = A.shape[0] == A.shape[1]
    lengths = cp.diff(A.indptr).astype(cp.int64)
    if "spgemm" in kernels and square and int(lengths[A.indices].sum()) <= MOST:
        yield "spgemm", "C(i,k) = A(i,j) * B(j,k)", A, lambda: A @ A
    if "spgemm_t" in kernels:
        T = A.T.tocsr()
        T.sort_indices()
        if int(cp.diff(T.indptr).astype(cp.int64)[A.indices].sum()) <= MOST:
            yield "spgemm_t", "C(i,k) = A(i,j) * B(j,k)", T, lambda: A @ T
    B = A.copy()
    # Half of the entries are at the places of A's, the others beside them.
    B.indices = cp.where(cp.arange(A.nnz) % 2 == 0, A.indices, A.shape[1] - 1 - A.indices)
    B.has_canonical_format = B.has_sorted_indices = False
    B.sum_duplicates()
    if "add" in kernels:
        yield "add", "C(i,j) = A(i,j) + B(i,j)", B, lambda: A + B
    if "mul" in kernels:
        yield "mul", "C(i,j) = A(i,j) * B(i,j)", B, lambda: A.multiply(B)


def check(made: Any, expected: Any) -> None:
    """Entries at the same places, in order, and with the same values, but for rounding."""
    expected.sort_indices()
    pos, crd, values = made.levels[1]["pos"], made.levels[1]["crd"], made.values
    assert values.size == expected.nnz, (values.size, expected.nnz)
    assert bool((pos == expected.indptr).all()), "other rows"
    assert bool((crd == expected.indices).all()), "other columns"
    scale = float(cp.abs(expected.data).max()) if expected.nnz else 1.0
    error = float(cp.abs(values - expected.data).max()) / scale if expected.nnz else 0.0
    assert error < (1e-4 if values.dtype.itemsize <= 4 else 1e-11), error


def run(name: str, A: Any, kernels: list[str]) -> Iterator[tuple[Any, ...]]:
    """Rows of the table for one matrix."""
    for kernel, text, B, library in cases(A, kernels):
        shape = (A.shape[0], B.shape[1])
        C = ow.empty(shape, format=ow.CSR, dtype=A.dtype, name="C")
        stmt = ow.parse(text, C=C, A=ow.tensor(A, name="A"), B=ow.tensor(B, name="B"))
        compiled = stmt.compile("cuda")
        try:
            expected = library()
            check(compiled().storage, expected)
            entries = expected.nnz
            del expected
            theirs, ours = median(library, reps=7), median(compiled, reps=7)
        except (MemoryError, cp.cuda.memory.OutOfMemoryError):
            print(f"{name} {kernel}: too much memory", flush=True)
            continue
        finally:
            cp.get_default_memory_pool().free_all_blocks()
        yield name, kernel, A.dtype.name, entries, theirs, ours, theirs / ours


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kernels", nargs="*", default=[])
    parser.add_argument("--dtype", default="float32,float64")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    kernels = args.kernels or ["spgemm", "spgemm_t", "add", "mul"]
    print(HEAD)
    rows = []
    for dtype in args.dtype.split(","):
        every = [("uniform_1M", lambda d: from_lengths(np.full(200_000, 5), 200_000, d))]
        found = [(n, make(np.dtype(dtype))) for n, make in every]
        for name, A in (*found, *matrices(np.dtype(dtype), True)):
            if args.only and name not in args.only.split(","):
                continue
            for row in run(name, A, kernels):
                rows.append(row)
                print(*(f"{v:.4g}" if isinstance(v, float) else v for v in row), flush=True)
    OUT.mkdir(parents=True, exist_ok=True)
    lines = [",".join(HEAD.split()), *(",".join(map(str, row)) for row in rows)]
    (OUT / "gpu_results.csv").write_text("\n".join(lines) + "\n")
    for kernel in kernels:
        ratios = [row[-1] for row in rows if row[1] == kernel]
        if ratios:
            print(f"{kernel}: {geometric(ratios):.2f}x CuPy, worst {min(ratios):.2f}x")


if __name__ == "__main__":
    sys.exit(main())
