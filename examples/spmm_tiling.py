"""SpMM with and without cache tiling: appendices A.12 and A.13, the thesis' study of locality.

With columns outside entries, every column traverses the row again. If rows are long, the rows of B
that the first column touched have left the cache when the second needs them. A.12 tiles the
entries and runs all columns per tile, so that the tile's rows of B stay. A.13 does not tile. All
run on one thread, so that nothing else differs. The default puts entries outside columns, with
register tiles of columns as in spmm_registers.py, and beats both.
"""

from common import compare, factor, matrix

import openwork as ow

TILE_SIZE = 32


def main() -> None:
    A = matrix(rows=200, columns=100_000, per_row=1000)
    B = factor(A.shape[1], 32, "B")
    C = ow.empty((A.shape[0], 32), name="C")
    i, j, k, jpos, jpos0, jpos1 = ow.indices("i j k jpos jpos0 jpos1")

    statement = ow.assign(C[i, k], A[i, j] * B[j, k])
    tiled = (
        statement.pos(j, jpos, A[i, j])
        .split(jpos, jpos0, jpos1, TILE_SIZE)
        .order(i, jpos0, k, jpos1)
    )
    untiled = statement.order(i, k, j)
    compare(statement, tiled, A.to_scipy() @ B.to_numpy(), threads=1, untiled=untiled)


if __name__ == "__main__":
    main()
