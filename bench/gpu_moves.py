"""Conversions on a GPU against CuPy: CSR to CSC, COO and dense, and back.

    python bench/gpu_moves.py [--dtype float32,float64] [--only NAMES]

Times are medians between two device events; every result is compared with CuPy's first.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cupy as cp
import cupyx.scipy.sparse as cps
import numpy as np
from gpu_matrices import from_lengths, matrices, real

import openwork as ow
from gpu import geometric, median

OUT = Path(os.environ.get("OUT", "bench/out"))
HEAD = ["matrix", "move", "dtype", "entries", "cupy_ms", "openwork_ms", "ratio"]
FEWEST = 1 << 18  # entries; smaller tensors go through host memory
DENSE = 1 << 29  # at most so many elements of a dense matrix


def moves(A: Any) -> Iterator[tuple[str, Callable[[], Any], Callable[[], Any]]]:
    """The conversions, with CuPy and with Openwork."""
    rows, coo = ow.tensor(A), A.tocoo()
    places = cp.stack([coo.row, coo.col])
    listed = ow.tensor((cp.asnumpy(places), cp.asnumpy(coo.data)), shape=A.shape, format=ow.COO(2))
    listed = listed.to("cuda")
    yield "CSR to CSC", A.tocsc, lambda: rows.to(ow.CSC)
    yield "CSR to COO", A.tocoo, lambda: rows.to(ow.COO(2))
    yield "COO to CSR", coo.tocsr, lambda: listed.to(ow.CSR)
    if A.shape[0] * A.shape[1] <= DENSE:
        dense = cp.asarray(A.toarray())
        full = ow.tensor(dense)
        yield "CSR to dense", A.toarray, lambda: rows.to(ow.dense(2))
        yield "dense to CSR", lambda: cps.csr_matrix(dense), lambda: full.to(ow.CSR)


def check(made: Any, expected: Any) -> None:
    """The same entries."""
    if isinstance(expected, cp.ndarray):
        assert bool((made.storage.values.reshape(expected.shape) == expected).all())
        return
    back = cps.csr_matrix(made.to(ow.CSR).to_cupy())
    expected = expected.tocsr()
    expected.sort_indices()
    for name in ("indptr", "indices", "data"):
        assert bool((getattr(back, name) == getattr(expected, name)).all()), name


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="float32,float64")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    only, rows = args.only.split(",") if args.only else [], []
    print(*HEAD)
    for name in args.dtype.split(","):
        dtype = np.dtype(name)
        small = [("even_8k", from_lengths(np.full(8_000, 400), 8_000, dtype))]
        for matrix, A in (*small, *matrices(dtype, True), *real(dtype)):
            if A.nnz < FEWEST or (only and matrix not in only):
                continue
            for move, theirs, ours in moves(A):
                check(ours(), theirs())
                times = median(theirs, reps=5), median(ours, reps=5)
                rows.append((matrix, move, name, A.nnz, *times, times[0] / times[1]))
                print(*(f"{v:.4g}" if isinstance(v, float) else v for v in rows[-1]), flush=True)
            cp.get_default_memory_pool().free_all_blocks()
    OUT.mkdir(parents=True, exist_ok=True)
    lines = [",".join(map(str, row)) for row in (HEAD, *rows)]
    (OUT / "gpu_moves.csv").write_text("\n".join(lines) + "\n")
    for move in dict.fromkeys(row[1] for row in rows):
        ratios = [row[-1] for row in rows if row[1] == move]
        print(f"{move}: {geometric(ratios):.2f}x CuPy, worst {min(ratios):.2f}x")


if __name__ == "__main__":
    main()
