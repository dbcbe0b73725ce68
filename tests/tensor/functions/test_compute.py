"""Statements without a declared result: its shape, type and format follow from the operands."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import openwork as ow
from openwork.tensor.eager import KERNELS

RNG = np.random.default_rng(31)


def numbers(*shape: int) -> Any:
    return np.where(RNG.random(shape) < 0.5, RNG.integers(1, 9, shape), 0).astype(float)


X, Y, V = numbers(4, 5), numbers(5, 3), numbers(5)
CASES: dict[str, Any] = {
    "C(i,k) = A(i,j) * B(j,k)": (X @ Y, ow.CSR),
    "y(i) = A(i,j) * v(j)": (X @ V, ow.dense(1)),
    "y[i] = A[i,j]": (X.sum(1), ow.dense(1)),
    "T(j,i) = A(i,j)": (X.T, ow.CSC),
    "S(i,j) = A(i,j) + A(i,j)": (2 * X, ow.CSR),
    "D(i,j) = A(i,j) + 1": (X + 1, ow.dense(2)),
    "s = A(i,j)": (X.sum(), ow.dense(0)),
    "s() = max(i, max(j, A(i,j)))": (X.max(), ow.dense(0)),
    "O(i,j,k) = A(i,j) * B(j,k)": (np.einsum("ij,jk->ijk", X, Y), ow.CSF(3)),
}


@pytest.mark.parametrize("text", CASES)
def test_results(text: str) -> None:
    expected, format = CASES[text]
    A, B, v = ow.tensor(X, format=ow.CSR), ow.tensor(Y, format=ow.CSR), ow.tensor(V)
    names = {name: each for name, each in (("A", A), ("B", B), ("v", v)) if f"{name}(" in text
             or f"{name}[" in text}  # fmt: skip
    for found in (ow.compute(text, **names), ow.parse(text, **names).compile()()):
        assert isinstance(found, ow.Tensor)
        assert found.name == text[0]
        assert (found.shape, found.format) == (np.shape(expected), format)
        np.testing.assert_array_equal(found.to_numpy(), expected)


def test_a_second_call_compiles_nothing() -> None:
    text = "C(i,k) = A(i,j) * B(j,k)"
    ow.compute(text, A=sparse.csr_array(X), B=Y)
    kernels = len(KERNELS)
    other = ow.compute(text, A=sparse.csr_array(numbers(7, 6)), B=numbers(6, 2))
    assert other.shape == (7, 2)
    assert len(KERNELS) == kernels
    with pytest.raises(ow.ShapeError, match="E201"):
        ow.compute(text, A=sparse.csr_array(X), B=X)


def test_what_is_told() -> None:
    A = ow.tensor(X, format=ow.CSR)
    assert ow.compute("C(i,k) = A(i,j) * B(j,k)", A=A, B=Y, format="CSC").format == ow.CSC
    best = ow.compute("d(i) = A(i,j) * v(j)", A=A, v=V, semiring="max_times")
    np.testing.assert_array_equal(best.to_numpy(), (X * V).max(1))
    far = ow.tensor(np.where(X == 0, np.inf, X), format=ow.CSR, fill=np.inf)
    near = ow.compute("D(i,j) = A(i,j) + A(i,j)", A=far, semiring="min_plus")
    assert (near.fill, near.format) == (np.inf, ow.CSR)
    twice = ow.operator("twice", lambda x: 2 * x)
    np.testing.assert_array_equal(
        ow.compute("y(i,j) = twice(A(i,j))", A=A, twice=twice).to_numpy(), 2 * X
    )
    assert ow.compute("y(i) = x(i)", x=np.arange(3, dtype="int8")).dtype == np.int8


def test_explain_says_what_was_inferred() -> None:
    A, B = ow.tensor(X, format="CSR"), ow.tensor(Y, format="CSR")
    stmt = ow.parse("C(i,k) = A(i,j) * B(j,k)", A=A, B=B)
    said = "C: 4x3 float64, ow.CSR: as follows from the operands"
    assert said in stmt.compile().explain()
    assert said in pickle.loads(pickle.dumps(stmt)).compile().explain()  # noqa: S301 - our own
    assert said in stmt.parallelize("i", "CPUThread", "NoRaces").compile().explain()
    chosen = ow.parse("C(i,k) = A(i,j) * B(j,k)", A=A, B=B, format="DCSR").compile().explain()
    assert "C: 4x3 float64: as follows from the operands" in chosen
    declared = ow.parse("C(i,k) = A(i,j) * B(j,k)", A=A, B=B, C=ow.empty((4, 3), format="CSR"))
    assert "as follows from the operands" not in declared.compile().explain()
    A = ow.random((300, 300), 0.1, rng=0)
    steps = ow.parse("y(i) = A(i,j) * A(j,k) * v(k)", A=A, v=ow.tensor(np.ones(300)))
    assert "y: 300 float64, ow.dense(1): as follows" in steps.compile().explain()


def test_what_cannot_be_inferred() -> None:
    A = ow.tensor(X, format=ow.CSR)
    with pytest.raises(ow.ParseError, match="E106"):
        ow.parse("y(i,k) = A(i,j)", A=A).compile()
    with pytest.raises(ow.ParseError, match="E103"):
        ow.compute("y(i) = A(i,j) * z(j)", A=A)
    with pytest.raises(ow.ParseError, match="E103"):
        ow.compute("y(i) += A(i,j)", A=A)  # there is nothing to add to
    with pytest.raises(ow.ParseError, match="E104"):
        ow.compute("y(i) = A(i)", A=A)
    with pytest.raises(ow.ParseError, match="E111"):
        ow.compute("y(i) = A(i,j)", A=A, semiring="plus_nothing")
    with pytest.raises(ow.FormatError, match="E401"):
        ow.compute("y(i) = A(i,j)", A=A, format="CSR")
