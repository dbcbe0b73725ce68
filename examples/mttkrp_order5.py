"""MTTKRP of a tensor with five modes, factored: appendix A.7 of the thesis.

Three nested workspaces; see mttkrp_order4.py. A tensor with n modes needs n - 2.
"""

from common import compare, factor, mttkrp, tensor

import openwork as ow

COLUMNS = 16
SCHEDULE = """
    order({i,k,l,m,n,j}),
    precompute(B(i,k,l,m,n) * F(n,j) * E(m,j) * D(l,j), j, j, BDEF_workspace),
    precompute(B(i,k,l,m,n) * F(n,j) * E(m,j), j, j, BEF_workspace),
    precompute(B(i,k,l,m,n) * F(n,j), j, j, BF_workspace),
    split(i, i1, i2, 32),
    parallelize(i1, CPUThread, NoRaces)
"""


def main() -> None:
    B = tensor(5)
    C, D, E, F = (factor(B.shape[mode], COLUMNS, name) for mode, name in enumerate("CDEF", 1))
    A = ow.empty((B.shape[0], COLUMNS), name="A")

    text = "A(i,j) = B(i,k,l,m,n) * F(n,j) * E(m,j) * D(l,j) * C(k,j)"
    statement = ow.parse(text, A=A, B=B, C=C, D=D, E=E, F=F)
    unfactored = statement.schedule("order(i,k,l,m,n,j), parallelize(i,CPUThread,NoRaces)")
    compare(statement, statement.schedule(SCHEDULE), mttkrp(B, C, D, E, F), unfactored=unfactored)


if __name__ == "__main__":
    main()
