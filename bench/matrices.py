"""What the benchmarks compute with: seeded random matrices, and real ones where they are found."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import openwork as ow

REAL_MATRICES = ("web-NotreDame", "email-Enron", "cage10", "wave", "fem_wheelset_elastic")
REAL_TENSORS = ("debian_contents_3d", "splatt_med")


def uniform(rows: int, per_row: int, seed: int = 0) -> Any:
    """`per_row` entries in each row, at columns drawn alike from all; a double draw becomes one."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, rows, rows * per_row)
    return _csr(np.repeat(np.arange(rows), per_row), columns, rows, rng)


def banded(rows: int, width: int, seed: int = 1) -> Any:
    """The `width` diagonals around the main one."""
    rng = np.random.default_rng(seed)
    offsets = range(-(width // 2), width - width // 2)
    lines = [rng.random(rows - abs(offset)) for offset in offsets]
    return sp.diags_array(lines, offsets=list(offsets), format="csr")


def rmat(scale: int, per_row: int, seed: int = 2) -> Any:
    """A graph of 2**scale vertices with few large and many small ones (R-MAT, .57 .19 .19 .05)."""
    rng = np.random.default_rng(seed)
    count = per_row << scale
    rows, columns = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for _ in range(scale):
        draw = rng.random(count)
        rows = 2 * rows + (draw >= 0.76)
        columns = 2 * columns + (((draw >= 0.57) & (draw < 0.76)) | (draw >= 0.95))
    return _csr(rows, columns, 1 << scale, rng)


def _csr(rows: Any, columns: Any, size: int, rng: np.random.Generator) -> Any:
    where = rows.astype(np.int32), columns.astype(np.int32)
    matrix = sp.coo_array((rng.random(rows.size), where), shape=(size, size)).tocsr()
    matrix.sum_duplicates()
    return matrix


def matrices(quick: bool) -> Iterator[tuple[str, Any]]:
    """The matrices of a run, in CSR and float64, with what to call them."""
    if quick:
        yield "uniform 20k x 10", uniform(20_000, 10)
        return
    yield "uniform 300k x 10", uniform(300_000, 10)
    yield "banded 300k x 27", banded(300_000, 27)
    yield "R-MAT 2^17 x 16", rmat(17, 16)
    for name in REAL_MATRICES:
        path = _data(f"{name}.mtx.gz")
        if path is not None:
            yield name, sp.csr_array(ow.read(path).to_scipy()).astype(np.float64)


def tensors(quick: bool) -> Iterator[tuple[str, ow.Tensor]]:
    """Tensors of order 3, in CSF and float64, with what to call them."""
    rng = np.random.default_rng(3)
    shape, count = ((100, 80, 60), 20_000) if quick else ((1000, 800, 600), 1_000_000)
    coords = np.array([rng.integers(0, extent, count) for extent in shape])
    values = rng.random(count)
    name = f"uniform {'x'.join(map(str, shape))}"
    yield name, ow.tensor((coords, values), shape=shape, format=ow.CSF(3))
    for name in () if quick else REAL_TENSORS:
        path = _data(f"{name}.tns.gz")
        if path is not None:
            tensor = ow.read(path).to(ow.CSF(3)).astype("float64")
            yield f"{name} {'x'.join(map(str, tensor.shape))}", tensor


def _data(name: str) -> Path | None:
    named = os.environ.get("OPENWORK_DATA")
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = (Path(named) if named else beside) / name
    return path if path.is_file() else None
