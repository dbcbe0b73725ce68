"""SpMM with prefetching, and non-temporal stores of the result.

A row of A gathers rows of B from arbitrary addresses, which the hardware cannot predict. But A's
coordinates name them in advance: `prefetch` requests the row needed some entries later. `stream`
bypasses the cache for a result that is large and not read soon, which leaves the cache to B. Both
help only where B, or the result, exceeds the cache; measure.
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
