"""A matrix times a very sparse vector, by galloping.

A loop over two sparse operands computes their intersection. Advancing both step by step takes time
proportional to their entries together. Galloping finds the other operand's coordinate by
exponential search: with a handful of entries in x, each long row of A takes a few steps. For
operands of similar length, galloping is slower.
"""

import numpy as np
from common import compare, matrix

import openwork as ow


def main() -> None:
    A = matrix(rows=500, columns=200_000, per_row=2000)
    rng = np.random.default_rng(1)
    sparse = np.zeros(A.shape[1])
    sparse[rng.integers(0, A.shape[1], max(1, A.shape[1] // 4000))] = rng.random()
    x = ow.tensor(sparse, format=ow.CSF(1), name="x")
    y = ow.empty(A.shape[0], name="y")
    i, j = ow.indices("i j")

    statement = ow.assign(y[i], A[i, j] * x[j])
    scheduled = statement.mergeby(j, "gallop").parallelize(i, "CPUThread", "NoRaces")
    steps = statement.mergeby(j, "two_finger").parallelize(i, "CPUThread", "NoRaces")
    compare(statement, scheduled, A.to_scipy() @ sparse, two_finger=steps)


if __name__ == "__main__":
    main()
