"""The union of two sparse matrices in column tiles, which threads share.

A loop over several sparse operands is a while loop with dependent iterations, so threads cannot
share it. `divide` tiles it by coordinate, the only space that both operands have in common: each
tile searches both for its first column and merges from there. Threads take tiles, each with a
private y, which are added up at the end (`Temporary`). This suits matrices with few, very long
rows; if there are many rows, parallelize the rows.
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
