"""SpMV in chunks of rows: appendix A.1 of the thesis.

Each chunk of 32 rows is one iteration of the thread loop. Rows are whole, so no two threads write
the same entry of y, and Openwork proves `NoRaces`. If row lengths vary a lot, spmv_balanced.py and
spmv_positions.py balance the load better.
"""

import numpy as np
from common import compare, matrix

import openwork as ow

CHUNK = 32


def main() -> None:
    A = matrix()
    x = ow.tensor(np.random.default_rng(1).random(A.shape[1]), name="x")
    y = ow.empty(A.shape[0], name="y")
    i, j, i0, i1 = ow.indices("i j i0 i1")

    statement = ow.assign(y[i], A[i, j] * x[j])
    scheduled = (
        statement.split(i, i0, i1, CHUNK)
        .order(i0, i1, j)
        .parallelize(i0, ow.ParallelUnit.CPUThread, ow.OutputRaceStrategy.NoRaces)
    )
    # The same with dynamic scheduling: a free thread takes the next chunk.
    shared = statement.split(i, i0, i1, CHUNK).parallelize(i0, "CPUThread", "NoRaces", chunk=1)
    compare(statement, scheduled, A.to_scipy() @ x.to_numpy(), dynamic=shared)


if __name__ == "__main__":
    main()
