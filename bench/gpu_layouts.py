"""Layouts on a GPU: all triples of format, layout of A, layout of x and y, per matrix and type.

    python bench/gpu_layouts.py [folder with dirac_spot_4x4.mtx.gz and other real matrices]

As tables 1 to 6 of the paper: {CSR, ELL, SELL(16), SELL(32)} x {AoS, SoA} x {AoS, SoA}, and beyond
it AoSoA(32) and packed. Each result is checked first. CSR has the default schedule, other formats a
thread per row. `gain` is the time of CSR-AoS-AoS with the best of several schedules over that of
the best triple; `cuSPARSE` is the ratio over its BSR kernel on the expansion (for complex numbers,
over CSR through CuPy). `bw` is relative to the bandwidth of a copy; it counts each record,
coordinate and position once. What the time limit (SECONDS, default 140) leaves out is named.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cupy as cp
import cupyx.scipy.sparse as cps
import cusparse
import numpy as np
import scipy.sparse as sp

import openwork as ow
from gpu import copy_bandwidth, median
from openwork import recipes as r
from openwork.runtime.storage import Storage

ENTRY = ow.entry
FORMATS = {"CSR": ow.CSR, "ELL": ow.ELL, "Sl-16": ow.SELL(16), "Sl-32": ow.SELL(32)}
GROUPS = (2, 4, 8, 32)
LIMIT = float(os.environ.get("SECONDS", "140"))
STARTED = time.monotonic()
REPS = 7


def kinds() -> Iterator[tuple[str, str, Any, Any]]:
    """The family, the precision, and the types of the matrix and the vector."""
    for scalar in ("float32", "float64"):
        yield "quaternion", scalar, ENTRY.quaternion(scalar), ENTRY.quaternion(scalar)
        yield "block 3x3", scalar, ENTRY.block(3, 3, scalar), ENTRY.vector(3, scalar)
        yield "complex", scalar, ENTRY.complex(scalar), ENTRY.complex(scalar)


def patterns(folder: str | None) -> Iterator[tuple[str, sp.csr_array, tuple[str, ...]]]:
    """Patterns with the families that they stand for: a mesh, scattered columns, uneven rows."""
    rng = np.random.default_rng(0)
    rows = 150_000
    every = ("quaternion", "block 3x3", "complex")
    yield "near", scattered(np.full(rows, 15), rng, near=200), every
    uneven = np.minimum(rng.zipf(1.8, rows) + 3, 48)
    yield "uneven", scattered(uneven, rng, near=5000), every
    if folder is not None:
        for name, size, family in (
            ("dirac_spot_4x4", 4, "quaternion"), ("fem_wheelset_elastic", 3, "block 3x3"),
            ("ybus_ACTIVSg25k", 1, "complex"),
        ):  # fmt: skip
            path = Path(folder) / f"{name}.mtx.gz"
            if path.exists():
                read = ow.read(path).to("CSR").to_scipy()
                blocks = read.tobsr((size, size))
                ones = np.ones(len(blocks.indices))
                shape = tuple(n // size for n in read.shape)
                yield (
                    name,
                    sp.csr_array((ones, blocks.indices, blocks.indptr), shape=shape),
                    (family,),
                )


def scattered(lengths: Any, rng: Any, near: int) -> sp.csr_array:
    """Rows of these lengths, with columns so near to the diagonal."""
    rows = len(lengths)
    row = np.repeat(np.arange(rows), lengths)
    column = np.clip(row + rng.integers(-near, near + 1, len(row)), 0, rows - 1)
    made = sp.csr_array((np.ones(len(row)), (row, column)), shape=(rows, rows))
    made.sum_duplicates()
    return made


class Matrix:
    """A pattern, with the places of its entries in each format."""

    def __init__(self, pattern: sp.csr_array) -> None:
        self.shape, self.nnz = pattern.shape, pattern.nnz
        self.pos, self.crd = pattern.indptr, pattern.indices
        numbers = np.arange(1, pattern.nnz + 1, dtype=np.int32)
        numbered = ow.tensor(sp.csr_array((numbers, pattern.indices, pattern.indptr), self.shape))
        self.stored = {name: numbered.to(format) for name, format in FORMATS.items()}

    def tensor(self, name: str, kind: Any, records: Any) -> Any:
        """The matrix in a format, with record after record, on the GPU."""
        pattern = self.stored[name].storage
        placed = np.concatenate([np.zeros(1, kind.dtype), records])[pattern.values]
        made = Storage.of_values(self.shape, FORMATS[name], pattern.levels, placed, 0)
        return ow.Tensor.of(made, "A").to("cuda")


def triples(kind: Any) -> Iterator[tuple[str, str, str]]:
    """The paper's, and then the further ones."""
    for name in FORMATS:
        for inner in ("AoS", "SoA"):
            yield from ((name, inner, vector) for vector in ("AoS", "SoA"))
    yield from ((name, "packed", "AoS") for name in ("CSR", "ELL", "Sl-32"))
    yield from ((name, "AoSoA(32)", "AoS") for name in ("CSR", "Sl-32"))
    yield "Sl-32", "AoSoA(32)", "AoSoA(32)"


def vendor(kind: Any, matrix: Matrix, records: Any, x: Any) -> Callable[[], Any] | None:
    """cuSPARSE's product of the same matrix, if it has one; called once, it returns the result."""
    numbers = kind.components(records)
    if kind.family == "complex":
        wide = np.result_type(kind.scalar, "complex64")
        arrays = (
            cp.asarray(numbers).view(wide).reshape(-1),
            cp.asarray(matrix.crd),
            cp.asarray(matrix.pos),
        )
        A = cps.csr_matrix(arrays, shape=matrix.shape)
        vector = cp.asarray(x).view(wide).reshape(-1)
        return lambda: (A @ vector).view(kind.scalar)
    blocks = kind.matrices(records)
    try:
        return cusparse.bsrmv(matrix.shape, matrix.pos, matrix.crd, blocks, x.reshape(-1))
    except (cusparse.Missing, AttributeError):
        return None


def spmv(A: Any, x: Any, y: Any) -> Any:
    return ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=x)


def measure(
    label: str, family: str, kind: Any, other: Any, matrix: Matrix, bandwidth: float
) -> str:
    """A row of the table, and below it all times."""
    rng = np.random.default_rng(1)
    records = kind.records(rng.standard_normal((matrix.nnz, *kind.shape)))
    numbers = rng.standard_normal((matrix.shape[1], *other.shape)).astype(other.scalar)
    tolerance = 2e-3 if kind.scalar == "float32" else 1e-9
    times: dict[str, float] = {}
    wanted, lib = None, None
    call = vendor(kind, matrix, records, numbers)
    if call is not None:
        wanted = cp.asnumpy(call()).reshape(-1)
        lib = median(call, REPS)
    vectors = {}
    for layout in ("AoS", "SoA", "AoSoA(32)"):
        format = ow.dense(1).with_layout(layout)
        x = ow.tensor(numbers, dtype=other, name="x").to("cuda").to(format)
        vectors[layout] = x, ow.empty(matrix.shape[0], dtype=other, format=format, name="y")
    base, last = None, None
    for name, inner, vector in triples(kind):
        if time.monotonic() - STARTED > LIMIT:
            print(f"  left out from {name}-{inner}-{vector} on: the time is up")
            break
        if name != last:
            base, last = matrix.tensor(name, kind, records), name
        A = base.to(base.format.with_layout(inner))
        x, y = vectors[vector]
        stmt = spmv(A, x, y)
        # A thread computes a row of what is stored for that, as in the paper.
        ways = {"": stmt if name == "CSR" else r.thread_per_row(stmt)}
        if (name, inner, vector) == ("CSR", "AoS", "AoS"):
            ways |= {f" g{g}": r.group_per_row(stmt, g) for g in GROUPS}
        for suffix, stmt in ways.items():
            kernel = stmt.compile(target="cuda")
            got = kernel().to("cpu").to_numpy().reshape(-1)
            if wanted is None:
                wanted = got
            np.testing.assert_allclose(got, wanted, tolerance, tolerance * np.abs(wanted).max())
            times[f"{name}-{inner}-{vector}{suffix}"] = median(kernel, REPS)
    plain = min(t for key, t in times.items() if key.startswith("CSR-AoS-AoS"))
    best = min((key for key in times if " " not in key), key=times.__getitem__)
    best_of_csr = min(
        (key for key in times if key.startswith("CSR-AoS-AoS")), key=times.__getitem__
    )
    size = matrix.nnz * (kind.itemsize + 4) + (matrix.shape[0] + matrix.shape[1]) * other.itemsize
    size += 4 * matrix.shape[0]
    ratio = "-" if lib is None else f"{lib / times[best]:.2f}"
    without = "-" if lib is None else f"{lib / plain:.2f}"
    share = size / times[best] / 1e6 / bandwidth
    WON[best] += 1
    row = f"| {label} | {kind} | {best} | {times[best]:.4f} | {plain / times[best]:.2f} "
    row += f"| {best_of_csr} {plain:.4f} | {ratio} | {without} | {share:.0%} |"
    everything = "  ".join(f"{key} {t:.4f}" for key, t in sorted(times.items(), key=lambda p: p[1]))
    return f"{row}\n<!-- {everything} -->"


WON: Counter[str] = Counter()


def main(folder: str | None = None) -> None:
    """Print the table."""
    bandwidth = copy_bandwidth()
    print(f"copy bandwidth {bandwidth:.0f} GB/s; ms, medians of {REPS}")
    print("| matrix | entries | best | ms | gain | CSR-AoS-AoS | cuSPARSE | with CSR-AoS | bw |")
    print("|---|---|---|---|---|---|---|---|---|")
    for label, pattern, families in patterns(folder):
        matrix = Matrix(pattern)
        for family, _, kind, other in kinds():
            if family not in families:
                continue
            if time.monotonic() - STARTED > LIMIT:
                print(f"left out: {label}, {kind}: the time is up")
                continue
            print(measure(label, family, kind, other, matrix, bandwidth), flush=True)
    print("won:", ", ".join(f"{key} {n}" for key, n in WON.most_common()))


if __name__ == "__main__":
    main(*sys.argv[1:2])
