"""SpMV with whole rows, shared out so that every part has as many entries.

`divide` gives a known number of parts. Parts of equally many rows are uneven work where a few rows
hold most entries; `balance="nnz"` searches the row pointers for the rows at which to cut instead.
Rows stay whole, so there are no races; one row that is longer than a part is the limit, and
spmv_positions.py has none.
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
