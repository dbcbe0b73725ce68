"""Two sparse matrices merged in tiles of columns, which threads share.

A loop that walks several sparse operands is a while loop whose iterations depend on each other, so
threads cannot share it. `divide` cuts it by coordinates, the only thing that both operands have in
common: each tile searches both for its first column and merges from there. Tiles can be
given to threads, each with a y of its own that is added up in the end (`Temporary`). That is
for matrices with few and very long rows; where there are many, give rows to threads.
"""

from common import compare, matrix

import openwork as ow

PARTS = 8


def main() -> None:
    A = matrix("A", rows=3, columns=1_000_000, per_row=100_000)
    B = matrix("B", rows=3, columns=1_000_000, per_row=100_000, seed=1)
    y = ow.empty(A.shape[0], name="y")
    i, j, j0, j1 = ow.indices("i j j0 j1")

    statement = ow.assign(y[i], ow.sum(j, abs(A[i, j] - 0.5 * B[i, j])))
    scheduled = (
        statement.divide(j, j0, j1, PARTS)
        .order(j0, i, j1)
        .parallelize(j0, "CPUThread", "Temporary")
    )
    expected = abs(A.to_scipy() - 0.5 * B.to_scipy()).sum(axis=1)
    compare(statement, scheduled, expected)


if __name__ == "__main__":
    main()
