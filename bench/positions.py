"""Chunks of positions against rows: `fuse, pos, split, parallelize` on a CPU, interleaved.

python bench/positions.py [threads]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
from measure import interleave

import openwork as ow

SIZES = (64, 1024)
BUDGET = 4.0  # seconds for each line
CHUNKS = "pos(f,p,X), split(p,p0,p1,{}), parallelize(p0,CPUThread,Atomics)"
MATRIX, CUBE = "fuse(i,k,f), ", "fuse(k,l,kl), fuse(i,kl,f), "


def operand(shape: tuple[int, ...], entries: int) -> ow.Tensor:
    """A tensor of random entries, compressed below its first mode."""
    rng = np.random.default_rng(0)
    coords = np.unique(np.stack([rng.integers(0, n, entries) for n in shape]), axis=1)
    levels = ow.CSR if len(shape) == 2 else ow.CSF(len(shape))
    return ow.tensor((coords, rng.random(coords.shape[1])), shape=shape, format=levels, name="X")


def cases() -> Iterator[tuple[str, ow.Statement, str, str]]:
    """Names, statements, the order of their loops, and how positions are fused."""
    rng = np.random.default_rng(1)
    for size, entries in (((20000, 20000), 200000), ((2000, 20000), 600000)):
        X, rows = operand(size, entries), f"{entries // size[0]} a row"
        x, B = rng.random(size[1]), rng.random((size[1], 32))
        given = {"X": X, "x": ow.tensor(x), "y": ow.empty(size[0])}
        yield f"SpMV, {rows}", ow.parse("y(i) = X(i,k) * x(k)", **given), "order(i,k)", MATRIX
        given = {"X": X, "B": ow.tensor(B), "Y": ow.empty((size[0], 32))}
        spmm = ow.parse("Y(i,j) = X(i,k) * B(k,j)", **given)
        yield f"SpMM, 32 columns, {rows}", spmm, "order(i,k,j)", MATRIX
    for size, entries, fibres in (((1000,) * 3, 1000000, "short"), ((100,) * 3, 400000, "long")):
        X = operand(size, entries)
        a, b = (ow.tensor(rng.random(size[0])) for _ in range(2))
        B, C = (ow.tensor(rng.random((size[0], 32))) for _ in range(2))
        given = {"X": X, "a": a, "b": b, "y": ow.empty(size[0])}
        slices = ow.parse("y(i) = X(i,k,l) * a(k) * b(l)", **given)
        yield f"sums of slices, {fibres} fibres", slices, "order(i,k,l)", CUBE
        given = {"X": X, "B": B, "C": C, "Y": ow.empty((size[0], 32))}
        mttkrp = ow.parse("Y(i,j) = X(i,k,l) * B(k,j) * C(l,j)", **given)
        yield f"MTTKRP, 32 columns, {fibres} fibres", mttkrp, "order(i,k,l,j)", CUBE
        given = {"X": X, "B": B, "Z": ow.empty((size[0], size[1], 32))}
        ttm = ow.parse("Z(i,k,j) = X(i,k,l) * B(l,j)", **given)
        yield f"TTM, 32 columns, {fibres} fibres", ttm, "order(i,k,l,j)", CUBE


def main() -> None:
    """Print a table: the time by rows, and the ratio of each chunk size to it."""
    ow.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    print("| statement | rows, ms |" + "".join(f" chunks of {n} |" for n in SIZES))
    print("|---|---:|" + "---:|" * len(SIZES))
    for name, stmt, order, fuse in cases():
        ways = {"rows": stmt.schedule(f"{order}, parallelize(i,CPUThread,NoRaces)")}
        for size in SIZES:
            ways[str(size)] = stmt.schedule(f"{order}, {fuse}{CHUNKS.format(size)}")
        calls = {way: made.compile() for way, made in ways.items()}
        turns = interleave(calls, BUDGET)
        ratios = "".join(f" {1 / turns.speed(str(n), 'rows'):.2f} |" for n in SIZES)
        print(f"| {name} | {1e3 * turns.median('rows'):.2f} |{ratios}", flush=True)


if __name__ == "__main__":
    main()
