"""MTTKRP of a tensor with three modes, factored: appendix A.5 of the thesis.

The factor C depends on k, but not on l. `precompute` reduces over l into a workspace row, and
multiplies that row with C once per fibre: fewer multiplications, and a row that stays in cache.
Threads take chunks of 32 slices. This example writes the schedule as text; the others call methods.
"""

from common import compare, factor, mttkrp, tensor

import openwork as ow

COLUMNS = 16
SCHEDULE = """
    order({i,k,l,j}),
    precompute(B(i,k,l) * D(l,j), j, j, precomputed),
    split(i, i1, i2, 32),
    parallelize(i1, CPUThread, NoRaces)
"""


def main() -> None:
    B = tensor(3)
    C, D = (factor(B.shape[mode], COLUMNS, name) for mode, name in enumerate("CD", 1))
    A = ow.empty((B.shape[0], COLUMNS), name="A")

    statement = ow.parse("A(i,j) = B(i,k,l) * D(l,j) * C(k,j)", A=A, B=B, C=C, D=D)
    unfactored = statement.schedule("order(i,k,l,j), parallelize(i,CPUThread,NoRaces)")
    compare(statement, statement.schedule(SCHEDULE), mttkrp(B, C, D), unfactored=unfactored)


if __name__ == "__main__":
    main()
