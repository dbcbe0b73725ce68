"""SpMM with a register tile of the result's row.

The columns are split into tiles of eight, and the tile loop is moved outside the loop over the
row's entries. `precompute` accumulates the eight sums in a workspace, which is written to C once,
at the end of the row. `unroll` turns the workspace into registers. Without it, every entry of A
loads and stores a row of C.
"""

from common import compare, factor, matrix

import openwork as ow

COLUMNS = 8


def main() -> None:
    A = matrix()
    B = factor(A.shape[1], 32, "B")
    C = ow.empty((A.shape[0], 32), name="C")
    i, j, k, k0, k1, k1w = ow.indices("i j k k0 k1 k1w")

    statement = ow.assign(C[i, k], A[i, j] * B[j, k])
    scheduled = (
        statement.split(k, k0, k1, COLUMNS)
        .order(i, k0, j, k1)
        .precompute(A[i, j] * B[j, k], k1, k1w)
        .unroll(k1w)
        .unroll(k1)
        .parallelize(i, "CPUThread", "NoRaces")
    )
    without = statement.order(i, j, k).parallelize(k, "CPUVector", "NoRaces")
    without = without.parallelize(i, "CPUThread", "NoRaces")
    compare(statement, scheduled, A.to_scipy() @ B.to_numpy(), row_of_C_in_memory=without)


if __name__ == "__main__":
    main()
