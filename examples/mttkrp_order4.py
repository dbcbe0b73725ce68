"""MTTKRP of a tensor with four modes, factored: appendix A.6 of the thesis.

Two nested workspaces: B times E is summed over m, then multiplied with D and summed over l, then
multiplied with C. Call `precompute` on the larger expression first. The smaller one is then part of
that workspace's own statement.
"""

from common import compare, factor, mttkrp, tensor

import openwork as ow

COLUMNS = 16
SCHEDULE = """
    order({i,k,l,m,j}),
    precompute(B(i,k,l,m) * E(m,j) * D(l,j), j, j, BDE_workspace),
    precompute(B(i,k,l,m) * E(m,j), j, j, BE_workspace),
    split(i, i1, i2, 32),
    parallelize(i1, CPUThread, NoRaces)
"""


def main() -> None:
    B = tensor(4)
    C, D, E = (factor(B.shape[mode], COLUMNS, name) for mode, name in enumerate("CDE", 1))
    A = ow.empty((B.shape[0], COLUMNS), name="A")

    text = "A(i,j) = B(i,k,l,m) * E(m,j) * D(l,j) * C(k,j)"
    statement = ow.parse(text, A=A, B=B, C=C, D=D, E=E)
    unfactored = statement.schedule("order(i,k,l,m,j), parallelize(i,CPUThread,NoRaces)")
    compare(statement, statement.schedule(SCHEDULE), mttkrp(B, C, D, E), unfactored=unfactored)


if __name__ == "__main__":
    main()
