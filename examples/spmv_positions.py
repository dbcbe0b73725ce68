"""SpMV in position tiles, regardless of rows: figure 14 of the paper, 7-1 of the thesis.

`fuse` makes one loop of rows and columns, `pos` switches it to positions, and `split` cuts it into
tiles with equal numbers of entries. A tile may start and end inside a row. The kernel searches for
the row of its first entry, tracks rows from there, writes each row when it ends, and uses atomics
only for rows shared with other tiles. The load is balanced however long single rows are.
"""

import numpy as np
from common import compare, matrix

import openwork as ow

CHUNK_SIZE = 4096


def main() -> None:
    A = matrix(skewed=True)
    x = ow.tensor(np.random.default_rng(1).random(A.shape[1]), name="x")
    y = ow.empty(A.shape[0], name="y")
    i, j, k, p, p0, p1 = ow.indices("i j k p p0 p1")

    statement = ow.assign(y[i], A[i, j] * x[j])
    scheduled = (
        statement.fuse(i, j, k)
        .pos(k, p, A[i, j])
        .split(p, p0, p1, CHUNK_SIZE)
        .parallelize(p0, ow.ParallelUnit.CPUThread, ow.OutputRaceStrategy.Atomics)
    )
    compare(statement, scheduled, A.to_scipy() @ x.to_numpy())


if __name__ == "__main__":
    main()
