"""Groups of threads for rows: a block for each few rows, or as many blocks as a GPU holds.

    python bench/gpu_strided.py [--seconds 20]

SpMV over generated and real matrices with many rows; times in microseconds, and the ratio of the
constant grid (`grid_rows`, whose blocks stride over the rows) to blocks for all rows.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from itertools import product

import cupy as cp
import numpy as np
from gpu_matrices import from_lengths, rmat, stencil
from gpu_space import median, statement

import openwork as ow
from openwork import recipes as r

GROUPS = (4, 8, 16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=20)
    until = time.perf_counter() + parser.parse_args().seconds
    kinds = {
        "uniform 400k x 10": lambda d: from_lengths(np.full(400_000, 10), 400_000, d),
        "uniform 200k x 20": lambda d: from_lengths(np.full(200_000, 20), 200_000, d),
        "uniform 100k x 40": lambda d: from_lengths(np.full(100_000, 40), 100_000, d),
        "near 400k x 27": lambda d: from_lengths(np.full(400_000, 27), 400_000, d, near=200),
        "stencil 54^3": lambda d: stencil(54, 3, d),
        "R-MAT 2^17 x 8": lambda d: rmat(17, 8, d),
        "2 to 60 in a row": lambda d: from_lengths(
            np.random.default_rng(0).integers(2, 60, 150_000), 150_000, d
        ),
    }
    kernels: dict[str, dict[str, object]] = {}
    for dtype, (name, make) in product(("float64", "float32"), kinds.items()):
        if time.perf_counter() > until:
            return
        A = make(np.dtype(dtype))
        stmt, a, x = statement(A, 0, cp)
        if dtype not in kernels:
            grids = {g: partial(r.grid_rows, blocks=8, threads=256, group=g) for g in GROUPS}
            made = {f"rows {g}": r.group_per_row(stmt, g) for g in GROUPS}
            made |= {f"grid {g}": grids[g](stmt) for g in GROUPS}
            kernels[dtype] = {n: s.compile("cuda") for n, s in made.items()}
        b = ow.tensor(x, name="x")
        times = {}
        for label, kernel in kernels[dtype].items():
            call = partial(kernel, A=a, x=b)  # type: ignore[arg-type]
            call()
            call()
            times[label] = 1e3 * median(call, 7)
        call = stmt.compile("cuda")
        call()
        call()
        told = " ".join(f"{n}={t:.1f}" for n, t in times.items())
        ratios = " ".join(f"{times[f'grid {g}'] / times[f'rows {g}']:.2f}" for g in GROUPS)
        print(f"{name}\t{dtype}\tdefault={1e3 * median(call, 7):.1f}\t{told}\t{ratios}", flush=True)


if __name__ == "__main__":
    main()
