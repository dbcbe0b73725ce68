"""Products with entries that are records, on a GPU: time and bandwidth of the default kernels.

    python bench/gpu_entries.py

Block rows with 15 blocks near the diagonal. The bandwidth counts
each record, coordinate and position once.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from gpu_clock import copy_bandwidth, median

import openwork as ow

ROWS, EACH = 400_000, 15


def pattern() -> sp.csr_array:
    """Rows whose columns lie within 40 of the diagonal."""
    rng = np.random.default_rng(0)
    row = np.repeat(np.arange(ROWS), EACH)
    column = np.clip(row + rng.integers(-40, 41, ROWS * EACH), 0, ROWS - 1)
    made = sp.csr_array((np.ones(ROWS * EACH), (row, column)), shape=(ROWS, ROWS))
    made.sum_duplicates()
    return made


def main() -> None:
    """Print a row for each type."""
    matrix, rng, entry = pattern(), np.random.default_rng(1), ow.entry
    print(f"copy bandwidth {copy_bandwidth():.0f} GB/s; {matrix.nnz} records")
    print("| entries | ms | GB/s |\n|---|---|---|")
    for scalar in ("float32", "float64"):
        for kind, other in (
            (entry.complex(scalar), entry.complex(scalar)),
            (entry.quaternion(scalar), entry.quaternion(scalar)),
            (entry.block(3, 3, scalar), entry.vector(3, scalar)),
        ):
            values = kind.records(rng.standard_normal((matrix.nnz, *kind.shape)))
            arrays = [None, (matrix.indptr, matrix.indices)]
            A = ow.from_arrays(ow.CSR, matrix.shape, arrays, values).to("cuda")
            x = ow.tensor(rng.standard_normal((ROWS, *other.shape)), dtype=other).to("cuda")
            y = ow.empty(ROWS, dtype=other)
            kernel = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=x).compile(target="cuda")
            time = median(kernel)
            size = matrix.nnz * (kind.itemsize + 4) + ROWS * (2 * other.itemsize + 4)
            print(f"| {kind} | {time:.3f} | {size / time / 1e6:.0f} |")


if __name__ == "__main__":
    main()
