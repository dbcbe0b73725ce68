"""SpMV in many formats: the same statement and answer, different arrays.

Draws a corner of the matrix in each format, prints the bytes per entry, and times the product.
Formats that would store more than eight times as many values as there are entries are skipped: DIA,
for example, suits only matrices with few diagonals.
"""

import sys
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import compare, matrix

import openwork as ow

FORMATS = {
    "COO": ow.COO(2),
    "ELL": ow.ELL,
    "SELL": ow.SELL(32),
    "SELL_sorted": ow.SELL(32, 1024),
    "BSR": ow.BSR(2, 2),
    "CSB": ow.CSB(4096, 4096),
    "DIA": ow.DIA,
    "LIL": ow.LIL,
    "int16": ow.Format([ow.Dense, ow.Compressed(bits=16)]),
}
GRID, CORNER, MOST = 120, 4, 8


def grid() -> ow.Tensor:
    """The five-point stencil on a square grid, as CSR."""
    line = sp.diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=(GRID, GRID))
    eye = sp.eye_array(GRID)
    return ow.tensor((sp.kron(line, eye) + sp.kron(eye, line)).tocsr(), name="A")


def fits(A: ow.Tensor, name: str) -> bool:
    """Whether a format suits the matrix, before anything is converted."""
    (rows, columns), entries = A.to_coo()[0].astype("int64"), max(A.nnz, 1)
    longest = np.bincount(rows, minlength=1).max(initial=0) * A.shape[0]
    diagonals = np.unique(columns - rows).size * A.shape[0]
    needs = {"ELL": longest, "DIA": diagonals}
    return needs.get(name, 0) <= MOST * entries and (name != "int16" or A.shape[1] <= 2**15)


def size(A: ow.Tensor) -> int:
    """The bytes of all arrays."""
    arrays = [array for level in A.storage.levels for array in level.values()]
    return sum(array.nbytes for array in (*arrays, A.storage.values))


def main() -> None:
    A = matrix() if len(sys.argv) > 1 else grid()
    x = ow.tensor(np.random.default_rng(1).random(A.shape[1]), name="x")
    y = ow.empty(A.shape[0], name="y")
    i, j, i0, i1 = ow.indices("i j i0 i1")
    corner = ow.tensor(A.to_scipy()[:CORNER, :CORNER], name="corner")

    stored = {name: A.to(format) for name, format in FORMATS.items() if fits(A, name)}
    for name, B in {"CSR": A, **stored}.items():
        print(f"{name}: {size(B) / max(A.nnz, 1):.1f} bytes for each entry")
        print(f"{corner.to(B.format).draw()}\n")

    statement = ow.assign(y[i], A[i, j] * x[j])
    chunks = statement.split(i, i0, i1, 32).parallelize(i0, "CPUThread", "NoRaces")
    others: dict[str, Any] = {name: ow.assign(y[i], B[i, j] * x[j]) for name, B in stored.items()}
    compare(statement, chunks, A.to_scipy() @ x.to_numpy(), **others)


if __name__ == "__main__":
    main()
