"""The format that a result gets, by operators' laws and operands' storage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openwork.algebra import operators as ops
from openwork.format.formats import CSC, CSF, CSR, DCSC, DCSR, Format, dense
from openwork.format.levels import Compressed, Dense
from openwork.index.build import access, indices, sum as sum_over
from openwork.index.nodes import TensorVar
from openwork.index.semiring import under
from openwork.index.terms import Term, Variable
from openwork.tensor import result_format as formats
from openwork.tensor.statement import assign

i, j, k, l = indices("i j k l")
FLOAT = np.dtype("float64")


def absent_value(term: Term) -> Any:
    return formats.absent_value(term.node)


def result_format(term: Term, variables: tuple[Variable, ...], fill: float = 0) -> Format:
    return formats.result_format(term.node, tuple(var.node for var in variables), fill)


def var(name: str, format: Format, fill: float = 0) -> Any:
    """A function that accesses a tensor of `format`."""
    tensor = TensorVar(name, format, FLOAT, fill, (None,) * format.ndim)
    return lambda *variables: access(tensor, variables)


R, R2 = var("R", CSR), var("R2", CSR)
C, C2 = var("C", CSC), var("C2", CSC)
D, D2 = var("D", DCSR), var("D2", DCSR)
E = var("E", DCSC)
M, M2 = var("M", dense(2)), var("M2", dense(2, (1, 0)))
s, s2, x, n = var("s", CSF(1)), var("s2", CSF(1)), var("x", dense(1)), var("n", dense(0))
X, X2 = var("X", CSF(3)), var("X2", CSF(3, (2, 0, 1)))
Y = var("Y", Format([Dense, Dense, Compressed]))
TTM = Format([Compressed, Compressed, Dense])

CASES: list[tuple[Any, tuple[Variable, ...], Format]] = [
    # a product has the pattern of a sparse factor
    (R(i, j) * M(i, j), (i, j), CSR),
    (M(i, j) * C(i, j), (i, j), CSC),
    (R(i, j) * x(j), (i, j), CSR),
    (R(i, j) * n(), (i, j), CSR),
    (R(i, j) / M(i, j), (i, j), CSR),
    (M(i, j) / R(i, j), (i, j), dense(2)),
    (X2(i, j, k) * x(k), (i, j, k), CSF(3, (2, 0, 1))),
    (D(i, j) * R(i, j), (i, j), DCSR),
    (s(i) * s2(i), (i,), CSF(1)),
    (R(i, j) * 2.0, (i, j), CSR),
    (R(i, j), (j, i), CSC),
    (-abs(Y(i, j, k)), (i, j, k), Format([Dense, Dense, Compressed])),
    # sums need both to be sparse
    (R(i, j) + R2(i, j), (i, j), CSR),
    (C(i, j) - C2(i, j), (i, j), CSC),
    (R(i, j) + C(i, j), (i, j), CSR),
    (D(i, j) + D2(i, j), (i, j), DCSR),
    (D(i, j) + R(i, j), (i, j), CSR),
    (R(i, j) + M(i, j), (i, j), dense(2)),
    (R(i, j) + 1.0, (i, j), dense(2)),
    (R(i, j) + n(), (i, j), dense(2)),
    (R(i, j) + x(j), (i, j), dense(2)),
    (X(i, j, k) + X2(i, j, k), (i, j, k), CSF(3)),
    (s(i) + s2(i), (i,), CSF(1)),
    (s(i) + x(i), (i,), dense(1)),
    (R(i, j) ** 2, (i, j), CSR),
    (R(i, j) ** 0, (i, j), dense(2)),
    (ops.EXP(R(i, j)), (i, j), dense(2)),
    (ops.SQRT(R(i, j)), (i, j), CSR),
    (ops.MAX(R(i, j), R2(i, j)), (i, j), CSR),
    (ops.MAX(R(i, j), 1.0), (i, j), dense(2)),
    # matrix products
    (R(i, k) * R2(k, j), (i, j), CSR),
    (C(i, k) * C2(k, j), (i, j), CSC),
    (R(i, k) * C(k, j), (i, j), CSR),
    (C(i, k) * R(k, j), (i, j), CSR),
    (D(i, k) * D2(k, j), (i, j), DCSR),
    (E(i, k) * E(k, j), (i, j), DCSC),
    (D(i, k) * R(k, j), (i, j), CSR),
    (R(i, k) * M(k, j), (i, j), dense(2)),
    (M(i, k) * R(k, j), (i, j), dense(2)),
    (D(i, k) * M(k, j), (i, j), dense(2)),
    (R(k, i) * R(k, j), (i, j), CSR),
    (R(i, k) * R2(k, j) + C(i, j), (i, j), CSR),
    (R(i, k) * R2(k, j) + M(i, j), (i, j), dense(2)),
    (R(i, k) * R2(k, l) * R(l, j), (i, j), CSR),
    (R(i, k) * M(k, l) * R(l, j), (i, j), dense(2)),
    (R(i, j) * M(i, k) * M2(k, j), (i, j), CSR),  # sampled
    # matrix and vector
    (R(i, j) * x(j), (i,), dense(1)),
    (R(i, j) * s(j), (i,), dense(1)),
    (D(i, j) * x(j), (i,), CSF(1)),
    (C(i, j) * s(j), (i,), CSF(1)),
    (C(i, j) * x(j), (i,), dense(1)),
    # reductions
    (R(i, j), (i,), dense(1)),
    (R(i, j), (j,), dense(1)),
    (D(i, j), (i,), CSF(1)),
    (D(i, j), (j,), dense(1)),
    (R(i, j), (), dense(0)),
    (X(i, j, k), (i, j), DCSR),
    (X2(i, j, k), (i, j), dense(2)),
    (X2(i, j, k), (k, i), DCSR),
    (sum_over(j, R(i, j)), (i,), dense(1)),
    # higher orders
    (X(i, j, k) * x(k), (i, j), DCSR),
    (X(i, j, l) * M(k, l), (i, j, k), TTM),
    (X(i, k, l) * M(l, j) * M2(k, j), (i, j), dense(2)),
    (Y(i, j, k) * x(k), (i, j), dense(2)),
    (R(l, i) * R2(l, j) * C(l, k), (i, j, k), CSF(3)),
    # diagonals and outer products
    (R(i, i), (i,), CSF(1)),
    (M(i, i), (i,), dense(1)),
    (s(i) * s2(j), (i, j), DCSR),
    (s(i) * x(j), (i, j), dense(2)),
    (x(i) + x(j), (i, j), dense(2)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} over {len(case[1])}")
def test_format_of_a_result(case: tuple[Any, tuple[Variable, ...], Format]) -> None:
    rhs, variables, expected = case
    assert result_format(rhs, variables) == expected


def test_fills_take_the_place_of_zero() -> None:
    inf = float("inf")
    P, Q = var("P", CSR, inf), var("Q", CSR, inf)
    assert absent_value(P(i, j) + Q(i, j)) == inf
    assert result_format(P(i, j) + Q(i, j), (i, j), inf) == CSR
    assert result_format(P(i, j) + Q(i, j), (i, j), 0) == dense(2)
    assert absent_value(P(i, j) * M(i, j)) is None
    nan = var("N", CSR, float("nan"))
    assert result_format(-nan(i, j), (i, j), float("nan")) == CSR
    # sums that are not written out keep only zero: the fill 2 would be added up
    two = var("T", DCSR, 2.0)
    assert result_format(two(i, j), (i,), 2.0) == dense(1)


@pytest.mark.parametrize("semiring", list(ops.SEMIRINGS.values()), ids=str)
def test_semirings_have_the_same_patterns(semiring: Any) -> None:
    for factors, format in [((R, R2), CSR), ((R, M), dense(2)), ((C, C2), CSC)]:
        product = factors[0](i, k) * factors[1](k, j)
        statement = under(semiring, assign(M2(i, j), product).assignment)
        assert result_format(Term(statement.rhs), (i, j), semiring.zero) == format
