"""A grid of recipe points for SpMV and SpMM on a GPU, against cuSPARSE's best prepared algorithm.

`gpu_points.py [--columns 32] [MATRIX ...]`: kernels are compiled once, and called for each matrix.
It shows what is reachable; the default is chosen by what it finds (`recipes/choose.py`).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, product
from typing import Any

import cupy as cp
import cupyx.scipy.sparse as cps
import cusparse
import numpy as np
import scipy.sparse as sp
from cusparse import fastest
from gpu_clock import median
from gpu_matrices import from_lengths, held_out, matrices
from matrices import collection, real_matrices

import openwork as ow
from openwork import recipes as r

Point = Callable[[Any], Any]
USUAL = (
    "bcsstk13", "net25", "pose2d_w10000_H", "fem_wheelset_elastic", "web-NotreDame", "email-Enron",
    "documents_5M", "lognormal_3M", "pruned_4096", "pruned_1024x8192", "rmat18_4M", "ratings_4M",
    "hubs_3M", "arrow_600k", "few_rows_1M", "uniform_4M",
)  # fmt: skip


def points(dtype: str, columns: int) -> Iterator[tuple[str, Point]]:
    """The grid."""
    vectors = (4, 2, 1) if dtype == "float32" else (2, 1)
    if not columns:
        for each, unroll in ((4, 4), (8, 4), (8, 8), (16, 8)):
            yield f"split{each} u{unroll}", partial(r.position_split, each=each, unroll=unroll)
        for each, group in product((1, 2, 4, 8), (2, 4, 8, 32)):
            yield f"staged{each} g{group}", partial(r.position_staged, each=each, group=group)
        for group in (2, 4, 8, 32):
            yield f"group{group}", partial(r.group_per_row, group=group)
        return
    for vector, unroll, resident in product(vectors, (4, 8, 16), (None, 1024, 512)):
        more = {"vector": vector, "unroll": unroll, "resident": resident}
        yield f"rows v{vector} u{unroll} r{resident}", partial(r.spmm_rows, **more)
    for vector, unroll, at_once, threads in product(vectors[:2], (4, 8), (1, 2, 4), (64, 256)):
        more = {"vector": vector, "unroll": unroll, "at_once": at_once, "threads": threads}
        if -(-columns // vector) * at_once <= 32:
            yield f"rows v{vector} u{unroll} o{at_once} t{threads}", partial(r.spmm_rows, **more)
    for each, unroll, resident in product((4, 8, 16, 32, 64), (4, 8, 16), (None, 1024, 512)):
        if each >= unroll:
            more = {"unroll": unroll, "resident": resident}
            yield f"pos{each} u{unroll} r{resident}", partial(r.spmm_positions, each=each, **more)


def statement(A: Any, columns: int) -> tuple[Any, Any]:
    """A product with A, and its dense operand."""
    dtype = A.dtype.name
    shape = (A.shape[1], columns) if columns else (A.shape[1],)
    x = cp.random.standard_normal(shape).astype(dtype)
    y = ow.placeholder("y", order=len(shape), dtype=dtype)
    text = "y(i,k) = A(i,j) * x(j,k)" if columns else "y(i) = A(i,j) * x(j)"
    return ow.parse(text, y=y, A=ow.tensor(A, name="A"), x=ow.tensor(x, name="x")), x


def measure(name: str, A: Any, columns: int, kernels: dict[str, Any]) -> None:
    """One line: cuSPARSE, the default, and the best points."""
    stmt, x = statement(A, columns)
    want = cp.ascontiguousarray(A @ x)
    library = cusparse.spmm if columns else cusparse.spmv
    made = cp.empty_like(want)
    direct = fastest(library(A, x, made), want, made)
    a, b = ow.tensor(A, name="A"), ow.tensor(x, name="x")
    calls = {"default": stmt.compile("cuda")} | {
        n: partial(k, A=a, x=b) for n, k in kernels.items()
    }
    times = {}
    for label, call in calls.items():
        got = call().storage.values.reshape(want.shape)
        error = float(abs(got - want).max()) / (float(abs(want).max()) or 1.0)
        right = error < (1e-3 if A.dtype.itemsize <= 4 else 1e-9)
        times[label] = median(call, reps=5, wait_us=150) if right else math.inf
    best = sorted(times, key=lambda n: times[n])[:8]
    told = " ".join(
        f"{n}={times[n]:.4f} ({direct / times[n]:.2f})" for n in dict.fromkeys(["default", *best])
    )
    print(f"{name}\t{columns}\t{A.dtype.name}\tdirect={direct:.4f}\t{told}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("matrices", nargs="*", default=[])
    parser.add_argument("--columns", default="0,32,128", help="0 for a vector")
    parser.add_argument("--dtype", default="float32,float64")
    args = parser.parse_args()
    wanted = args.matrices or USUAL
    every = wanted == ["all"]
    names = tuple(name for name in collection() if every or name in wanted)
    for dtype in args.dtype.split(","):
        kind = np.dtype(dtype)
        tiny = from_lengths(np.full(300, 7), 300, kind)
        compiled = {
            columns: {
                name: point(statement(tiny, columns)[0]).compile("cuda")
                for name, point in points(dtype, columns)
            }
            for columns in map(int, args.columns.split(","))
        }
        real = ((n, cps.csr_matrix(sp.csr_matrix(m).astype(kind))) for n, m in real_matrices(names))
        for name, A in chain(real, held_out(kind), matrices(kind, small=True)):
            for columns in compiled if every or name in wanted else ():
                measure(name, A, columns, compiled[columns])


if __name__ == "__main__":
    main()
