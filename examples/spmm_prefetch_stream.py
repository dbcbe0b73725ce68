"""SpMM with prefetching, and a dense result that is written past the cache.

The rows of B that a row of A asks for lie anywhere. The processor cannot guess them, but A's
coordinates name them in advance: `prefetch` asks for the row that is needed some entries later.
`stream` is for results that are large and not read soon: stores that do not enter the cache leave
it to B. Both only help where B, or the result, does not fit into the cache; so measure.
"""

from common import compare, factor, matrix

import openwork as ow

AHEAD = 8


def main() -> None:
    A = matrix()
    B = factor(A.shape[1], 64, "B")
    C = ow.empty((A.shape[0], 64), name="C")
    i, j, k = ow.indices("i j k")

    statement = ow.assign(C[i, k], A[i, j] * B[j, k])
    plain = statement.order(i, j, k).parallelize(i, "CPUThread", "NoRaces")
    scheduled = plain.prefetch(B[j, k], j, AHEAD).stream(C)
    compare(statement, scheduled, A.to_scipy() @ B.to_numpy(), plain=plain)


if __name__ == "__main__":
    main()
