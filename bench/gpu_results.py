"""Sparse results on a GPU against cuSPARSE through CuPy: A * A, A * A^T, A + B and A .* B.

    python bench/gpu_results.py [spgemm spgemm_t add mul] [--dtype float32,float64] [--only NAMES]
        [--data FOLDER] [--share 0,16,32]

`--data`: a folder of more matrices, *.mtx.gz; by default `$OPENWORK_DATA`.
`--share`: entries that a thread merges in A + B and A .* B, one line each; 0: a whole row.

Times are medians between two device events; both sides recompute the pattern at each call.
Every result is compared with CuPy's, index by index, before it is timed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cupy as cp
import cupyx.scipy.sparse as cps
import numpy as np
import scipy.sparse as sp
from cupy_backends.cuda.libs.cusparse import CuSparseError
from gpu_matrices import from_lengths, matrices, rmat, skewed

import openwork as ow
from gpu import geometric, median
from openwork.recipes.devices.tables import H200
from openwork.tensor.kernel.gpu import GpuTarget

OUT = Path(os.environ.get("OUT", "bench/out"))
HEAD = "matrix kernel dtype entries cupy_ms openwork_ms ratio"
_ROWS = 1 << 62  # more entries than any row has
MOST = 600_000_000  # at most so many multiplications per SpGEMM


def products(dtype: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Matrices whose products fit, by name."""
    yield "uniform_1M", lambda: from_lengths(np.full(200_000, 5), 200_000, dtype)
    yield "uniform_2M", lambda: from_lengths(np.full(500_000, 4), 500_000, dtype)
    yield "rmat16_1M", lambda: rmat(16, 16, dtype)
    yield "band27_5M", lambda: from_lengths(np.full(200_000, 27), 200_000, dtype, near=200)
    lengths = skewed(1.0005, 40_000, 2_000_000)
    yield "skew1.0005_2M", lambda: from_lengths(np.minimum(lengths, 40_000), 40_000, dtype)


def real(folder: str, dtype: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The real-valued matrices of a folder, by name."""

    def read(path: Path) -> Any:
        A = sp.csr_matrix(ow.read(path).to(ow.CSR).to_scipy().astype(dtype))
        A.sort_indices()
        return cps.csr_matrix(A)

    complex_ones = ("ybus_ACTIVSg25k", "mhd1280a", "mhd1280b", "qc324")
    for path in sorted(Path(folder).glob("*.mtx.gz")) if folder else ():
        name = path.name.removesuffix(".mtx.gz")
        if name not in complex_ones:
            yield name, lambda path=path: read(path)


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
    # Half of the entries coincide with A's, the others lie beside them.
    B.indices = cp.where(cp.arange(A.nnz) % 2 == 0, A.indices, A.shape[1] - 1 - A.indices)
    B.has_canonical_format = B.has_sorted_indices = False
    B.sum_duplicates()
    if "add" in kernels:
        yield "add", "C(i,j) = A(i,j) + B(i,j)", B, lambda: A + B
    if "mul" in kernels:
        yield "mul", "C(i,j) = A(i,j) * B(i,j)", B, lambda: A.multiply(B)


def check(made: Any, expected: Any) -> None:
    """Same coordinates, sorted, and same values up to rounding."""
    expected.sort_indices()
    pos, crd, values = made.levels[1]["pos"], made.levels[1]["crd"], made.values
    assert values.size == expected.nnz, (values.size, expected.nnz)
    assert bool((pos == expected.indptr).all()), "other rows"
    assert bool((crd == expected.indices).all()), "other columns"
    scale = float(cp.abs(expected.data).max()) if expected.nnz else 1.0
    error = float(cp.abs(values - expected.data).max()) / scale if expected.nnz else 0.0
    assert error < (1e-4 if values.dtype.itemsize <= 4 else 1e-11), error


def run(name: str, A: Any, kernels: list[str], shares: list[int]) -> Iterator[tuple[Any, ...]]:
    """Rows of the table for one matrix."""
    for kernel, text, B, library in cases(A, kernels):
        shape = (A.shape[0], B.shape[1])
        C = ow.empty(shape, format=ow.CSR, dtype=A.dtype, name="C")
        stmt = ow.parse(text, C=C, A=ow.tensor(A, name="A"), B=ow.tensor(B, name="B"))
        theirs = None
        for share in shares if kernel in ("add", "mul") else shares[:1]:
            numbers = replace(H200.result, share=share or _ROWS)
            GpuTarget.table = replace(H200, result=numbers)
            compiled = stmt.compile("cuda")
            try:
                expected = library()
                check(compiled().storage, expected)
                entries = expected.nnz
                del expected
                theirs = theirs or median(library, reps=7)
                ours = median(compiled, reps=7)
            except (MemoryError, cp.cuda.memory.OutOfMemoryError, CuSparseError) as error:
                print(f"{name} {kernel}: {type(error).__name__}", flush=True)
                continue
            finally:
                cp.get_default_memory_pool().free_all_blocks()
            which = kernel if len(shares) == 1 or kernel.startswith("sp") else f"{kernel}/{share}"
            yield name, which, A.dtype.name, entries, theirs, ours, theirs / ours


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kernels", nargs="*", default=[])
    parser.add_argument("--dtype", default="float32,float64")
    parser.add_argument("--only", default="")
    parser.add_argument("--data", default=os.environ.get("OPENWORK_DATA", ""))
    parser.add_argument("--share", default=str(H200.result.share))
    args = parser.parse_args()
    args.kernels = args.kernels or ["spgemm", "spgemm_t", "add", "mul"]
    shares = [int(n) for n in args.share.split(",")]
    print(HEAD)
    rows = []
    for name in args.dtype.split(","):
        for row in _table(np.dtype(name), args.only.split(",") if args.only else [], args, shares):
            rows.append(row)
            print(*(f"{v:.4g}" if isinstance(v, float) else v for v in row), flush=True)
    OUT.mkdir(parents=True, exist_ok=True)
    lines = [",".join(HEAD.split()), *(",".join(map(str, row)) for row in rows)]
    (OUT / "gpu_results.csv").write_text("\n".join(lines) + "\n")
    for kernel in dict.fromkeys(row[1] for row in rows):
        ratios = [row[-1] for row in rows if row[1] == kernel]
        print(f"{kernel}: {geometric(ratios):.2f}x CuPy, worst {min(ratios):.2f}x")


def _table(dtype: Any, only: list[str], args: Any, shares: list[int]) -> Iterator[tuple[Any, ...]]:
    """Rows for all matrices, each generated when needed."""
    for name, make in (*products(dtype), *real(args.data, dtype)):
        if not only or name in only:
            yield from run(name, make(), args.kernels, shares)
    for name, A in matrices(dtype, True):
        if not only or name in only:
            yield from run(name, A, args.kernels, shares)


if __name__ == "__main__":
    sys.exit(main())
