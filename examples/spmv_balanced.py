"""SpMV over whole rows, in tiles with equal numbers of entries.

`divide` makes a fixed number of tiles. With equal numbers of rows, the load is uneven where a few
rows hold most entries. `balance="nnz"` searches the row pointers for better cuts. Rows stay whole,
so there are no races, but a row longer than a tile limits the balance. spmv_positions.py has no
such limit.
"""

import numpy as np
from common import compare, matrix

import openwork as ow

PARTS = 64


def main() -> None:
    A = matrix(skewed=True)
    x = ow.tensor(np.random.default_rng(1).random(A.shape[1]), name="x")
    y = ow.empty(A.shape[0], name="y")
    i, j, i0, i1 = ow.indices("i j i0 i1")

    statement = ow.assign(y[i], A[i, j] * x[j])
    even = statement.divide(i, i0, i1, PARTS).parallelize(i0, "CPUThread", "NoRaces")
    balanced = statement.divide(i, i0, i1, PARTS, balance="nnz").parallelize(
        i0, "CPUThread", "NoRaces"
    )
    compare(statement, balanced, A.to_scipy() @ x.to_numpy(), equally_many_rows=even)


if __name__ == "__main__":
    main()
