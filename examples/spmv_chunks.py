"""SpMV in chunks of rows: appendix A.1 of the thesis.

Each chunk of 32 rows is one iteration of a loop that threads share. Rows are whole, so no two
threads write to one entry of y, and `NoRaces` is proven rather than believed. Where rows differ
much in length, spmv_balanced.py and spmv_positions.py share the work out better.
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
    # The same, but a thread that is done takes the next chunk.
    shared = statement.split(i, i0, i1, CHUNK).parallelize(i0, "CPUThread", "NoRaces", chunk=1)
    compare(statement, scheduled, A.to_scipy() @ x.to_numpy(), whoever_is_free=shared)


if __name__ == "__main__":
    main()
