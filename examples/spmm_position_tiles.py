"""SpMM with position tiles, threads and vector lanes: appendix A.3 of the thesis.

A tile of eight entries is multiplied with all columns of B. Its eight rows of B stay in cache, and
the sum of a column stays in a register for eight entries. Threads take chunks of eight rows, vector
lanes take columns. The thesis uses IgnoreRaces for the lanes; NoRaces suffices, because every lane
has its own column. Compilers rarely vectorize a loop that is not innermost, so `unroll` unrolls the
eight entries of a full tile.
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
