"""SpMM with tiles of entries, threads and vector lanes: appendix A.3 of the thesis.

Eight entries of a row at a time meet all columns of B: their eight rows of B stay in the cache
while the columns go by, and a column's sum stays in a register for eight entries. Threads take
chunks of eight rows, vector lanes take columns. The thesis says IgnoreRaces for the lanes; NoRaces
would do, as every lane has a column of its own. Compilers rarely vectorize a loop with another
inside of it; `unroll` writes the eight entries of a full tile out, and leaves one loop.
"""

from common import compare, factor, matrix

import openwork as ow

CHUNK_SIZE = TILE_SIZE = 8


def main() -> None:
    A = matrix()
    B = factor(A.shape[1], 32, "B")
    C = ow.empty((A.shape[0], 32), name="C")
    i, j, k, i0, i1, jpos, jpos0, jpos1 = ow.indices("i j k i0 i1 jpos jpos0 jpos1")

    statement = ow.assign(C[i, k], A[i, j] * B[j, k])
    scheduled = (
        statement.split(i, i0, i1, CHUNK_SIZE)
        .pos(j, jpos, A[i, j])
        .split(jpos, jpos0, jpos1, TILE_SIZE)
        .order(i0, i1, jpos0, k, jpos1)
        .parallelize(i0, ow.ParallelUnit.CPUThread, ow.OutputRaceStrategy.NoRaces)
        .parallelize(k, ow.ParallelUnit.CPUVector, ow.OutputRaceStrategy.IgnoreRaces)
    )
    unrolled = scheduled.unroll(jpos1)
    compare(statement, scheduled, A.to_scipy() @ B.to_numpy(), unrolled=unrolled)


if __name__ == "__main__":
    main()
