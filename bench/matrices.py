"""Inputs of the benchmarks: seeded random matrices, and real ones if available.

Everything is float64, matrices in CSR with 32-bit indices, tensors in CSF.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import openwork as ow

REAL_MATRICES = ("web-NotreDame", "email-Enron", "cage10", "wave", "fem_wheelset_elastic")
QUICK_MATRICES = ("cage10", "ca-CondMat", "beacxc")
REAL_TENSORS = ("debian_contents_3d", "splatt_med")
DEEP_TENSORS = ("flights_nyc13_5d", "splatt_med5")
# Smaller matrices measure call overhead, which is the job of costs.py.
FEWEST = 50_000

# -- generators ---------------------------------------------------------------------------------


def uniform(rows: int, per_row: int, seed: int = 0, columns: int | None = None) -> Any:
    """`per_row` entries in each row, at uniformly random columns; duplicates are merged."""
    rng = np.random.default_rng(seed)
    columns = rows if columns is None else columns
    drawn = rng.integers(0, columns, rows * per_row)
    return _csr(np.repeat(np.arange(rows), per_row), drawn, (rows, columns), rng)


def banded(rows: int, width: int, seed: int = 1) -> Any:
    """The `width` diagonals around the main one."""
    rng = np.random.default_rng(seed)
    offsets = range(-(width // 2), width - width // 2)
    lines = [rng.random(rows - abs(offset)) for offset in offsets]
    return sp.diags_array(lines, offsets=list(offsets), format="csr")


def rmat(scale: int, per_row: int, seed: int = 2) -> Any:
    """A power-law graph with 2**scale vertices (R-MAT, .57 .19 .19 .05)."""
    rng = np.random.default_rng(seed)
    count = per_row << scale
    rows, columns = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for _ in range(scale):
        draw = rng.random(count)
        rows = 2 * rows + (draw >= 0.76)
        columns = 2 * columns + (((draw >= 0.57) & (draw < 0.76)) | (draw >= 0.95))
    return _csr(rows, columns, (1 << scale, 1 << scale), rng)


def blocks(rows: int, side: int, per_row: int, seed: int = 5) -> Any:
    """Dense blocks of `side` by `side`, `per_row` of them in each block row."""
    rng = np.random.default_rng(seed)
    pattern = uniform(rows // side, per_row, seed)
    whole = sp.kron(pattern, np.ones((side, side)), format="csr")
    return sp.csr_array((rng.random(whole.nnz), whole.indices, whole.indptr), whole.shape)


def skewed(rows: int, columns: int, entries: int, factor: float, seed: int = 6) -> Any:
    """Row i has k * factor**i entries, `entries` in all, and then the rows are shuffled.

    The matrix of figure 8-7 of the thesis: at factor 1 all rows have equal length.
    """
    rng = np.random.default_rng(seed)
    shares = np.cumsum(factor ** -np.arange(float(rows)))
    ends = np.round(entries * shares / shares[-1]).astype(np.int64)
    lengths = rng.permutation(np.minimum(np.diff(ends, prepend=0), columns))
    drawn = [rng.choice(columns, n, replace=False, shuffle=False) for n in lengths]
    return _csr(np.repeat(np.arange(rows), lengths), np.concatenate(drawn), (rows, columns), rng)


def _csr(rows: Any, columns: Any, shape: tuple[int, int], rng: np.random.Generator) -> Any:
    where = rows.astype(np.int32), columns.astype(np.int32)
    matrix = sp.coo_array((rng.random(rows.size), where), shape=shape).tocsr()
    matrix.sum_duplicates()
    return matrix


# -- inputs of a run ---------------------------------------------------------------------------


def matrices(quick: bool) -> Iterator[tuple[str, Any]]:
    """The matrices of the core page, with names."""
    if quick:
        yield "uniform 20k x 10", uniform(20_000, 10)
        return
    yield "uniform 300k x 10", uniform(300_000, 10)
    yield "banded 300k x 27", banded(300_000, 27)
    yield "R-MAT 2^17 x 16", rmat(17, 16)
    yield from real_matrices(REAL_MATRICES)


def all_matrices(quick: bool) -> Iterator[tuple[str, Any]]:
    """The matrices of the page of peers: all generators, and the collection from FEWEST entries."""
    if quick:
        yield "uniform 20k x 10", uniform(20_000, 10)
        yield "R-MAT 2^14 x 16", rmat(14, 16)
        yield "short-wide 64 x 200k", uniform(64, 4_000, columns=200_000)
        yield from real_matrices(QUICK_MATRICES)
        return
    yield "uniform 300k x 10", uniform(300_000, 10)
    yield "banded 300k x 27", banded(300_000, 27)
    yield "R-MAT 2^17 x 16", rmat(17, 16)
    yield "blocks 4x4, 100k x 32", blocks(100_000, 4, 8)
    yield "short-wide 64 x 1M", uniform(64, 30_000, columns=1_000_000)
    yield "skewed 1.001, 20k x 1M", skewed(20_000, 1_000_000, 2_000_000, 1.001)
    yield "skewed 1.1, 20k x 1M", skewed(20_000, 1_000_000, 2_000_000, 1.1)
    yield from real_matrices(collection())


def real_matrices(names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Matrices of the collection; missing ones are skipped."""
    for name in names:
        path = _data(f"{name}.mtx.gz")
        if path is not None:
            yield name, sp.csr_array(ow.read(path).to_scipy()).astype(np.float64)


def collection() -> tuple[str, ...]:
    """The real matrices of the manifest with at least FEWEST entries, fewest first."""
    path = _data("MANIFEST.tsv")
    if path is None:
        return ()
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["kind"] == "matrix"]
    rows = [r for r in rows if r["field"] != "complex" and int(r["nnz"]) >= FEWEST]
    return tuple(row["name"] for row in sorted(rows, key=lambda row: int(row["nnz"])))


def tensors(quick: bool) -> Iterator[tuple[str, ow.Tensor]]:
    """Tensors of order 3, with names."""
    yield _uniform_tensor(*(((100, 80, 60), 20_000) if quick else ((1000, 800, 600), 1_000_000)))
    yield from real_tensors(() if quick else REAL_TENSORS, 3)


def all_tensors(quick: bool) -> Iterator[tuple[str, ow.Tensor]]:
    """Tensors of orders 3 to 5; order 4 includes the first four modes of order-5 ones."""
    yield from tensors(quick)
    if quick:
        yield _uniform_tensor((60, 40, 30, 20), 20_000)
        yield _uniform_tensor((60, 20, 15, 10, 10), 20_000)
        return
    yield _uniform_tensor((600, 400, 100, 50), 1_000_000)
    yield from real_tensors(DEEP_TENSORS, 4)
    yield _uniform_tensor((600, 100, 50, 20, 20), 1_000_000)
    yield from real_tensors(DEEP_TENSORS, 5)


def real_tensors(names: tuple[str, ...], order: int) -> Iterator[tuple[str, ow.Tensor]]:
    """Tensors of the collection, summed over the modes beyond `order`."""
    for name in names:
        path = _data(f"{name}.tns.gz")
        if path is None:
            continue
        tensor = ow.read(path).astype("float64")
        coords, values = tensor.to_coo()
        yield _csf(name, coords[:order], values, tensor.shape[:order])


def _uniform_tensor(shape: tuple[int, ...], count: int) -> tuple[str, ow.Tensor]:
    rng = np.random.default_rng(3)
    coords = np.array([rng.integers(0, extent, count) for extent in shape])
    return _csf("uniform", coords, rng.random(count), shape)


def _csf(name: str, coords: Any, values: Any, shape: Any) -> tuple[str, ow.Tensor]:
    tensor = ow.tensor((coords, values), shape=shape, format=ow.CSF(len(shape)))
    return f"{name} {'x'.join(map(str, shape))}", tensor


def _data(name: str) -> Path | None:
    named = os.environ.get("OPENWORK_DATA")
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = (Path(named) if named else beside) / name
    return path if path.is_file() else None
