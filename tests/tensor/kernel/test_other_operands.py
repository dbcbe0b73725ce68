"""Repeated calls in which some dense operands are others each time, at random, against NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import openwork as ow

pytestmark = pytest.mark.needs_cc

N = 9
STATEMENTS: dict[str, Any] = {
    "y(j) = A(i,j) * x(i)": lambda A, d: A.T @ d["x"],
    "y(i) = A(i,j) * x(j)": lambda A, d: A @ d["x"],
    "C(i,k) = A(i,j) * X(j,k)": lambda A, d: A @ d["X"],
    "C(k,j) = A(i,j) * Z(i,k)": lambda A, d: d["Z"].T @ A,
    "S(i,j) = A(i,j) * x(i)": lambda A, d: A * d["x"][:, None],
    "s = A(i,j) * x(i) * w(j)": lambda A, d: d["x"] @ A @ d["w"],
    "y(i) = max(j, A(i,j) * w(j))": lambda A, d: (A * d["w"]).max(1),
    "D(i,j) = A(i,j) + x(i) * w(j)": lambda A, d: A + np.outer(d["x"], d["w"]),
}


@pytest.mark.parametrize("format", [ow.CSR, ow.CSC, ow.BSR(2, 3)], ids=repr)
@pytest.mark.parametrize("text", STATEMENTS)
def test_random_calls(text: str, format: Any) -> None:
    rng = np.random.default_rng(9)

    def drawn() -> dict[str, Any]:
        return {name: rng.random((N, 4) if name in "XZ" else N) for name in "xwXZ"}

    A0, own = np.where(rng.random((N, N)) < 0.4, rng.random((N, N)), 0), drawn()
    A, names = ow.tensor(A0, format=format), [n for n in own if re.search(rf"\b{n}\(", text)]
    kernel = ow.parse(text, A=A, **{name: ow.tensor(own[name]) for name in names}).compile()
    for _ in range(8):
        fresh = drawn()
        others = {name: fresh[name] for name in names if rng.random() < 0.7}
        given = {n: ow.tensor(v) if rng.random() < 0.4 else v for n, v in others.items()}
        if rng.random() < 0.2:
            given["A"] = A
        expected = STATEMENTS[text](A0, {**own, **others})
        if rng.random() < 0.5:
            given["out"] = ow.tensor(np.full(np.shape(expected), np.nan), format=kernel().format)
        np.testing.assert_allclose(kernel(**given).to_numpy(), expected)


def test_an_array_for_a_sparse_operand() -> None:
    """Its numbers are no entries, whichever call it is."""
    x, other = np.ones(3), np.triu(np.full((3, 3), 7.0))
    A = ow.tensor(np.diag([1.0, 2.0, 3.0]), format=ow.CSR)
    kernel = ow.parse("y(i) = A(i,j) * x(j)", A=A, x=ow.tensor(x)).compile()
    for _ in range(3):
        np.testing.assert_array_equal(kernel(x=x).to_numpy(), [1, 2, 3])
        np.testing.assert_array_equal(kernel(A=other).to_numpy(), [21, 14, 7])


def test_an_array_of_floats_for_bools() -> None:
    b, x = ow.tensor(np.array([True, False, True])), ow.tensor(np.arange(1.0, 4.0))
    kernel = ow.parse("y(i) = select(b(i), x(i), 0)", b=b, x=x).compile()
    for _ in range(3):
        np.testing.assert_array_equal(kernel(x=2 * x).to_numpy(), [2, 0, 6])
        with pytest.raises(ow.ShapeError, match="bool"):
            kernel(b=np.ones(3))


def test_a_gpus_kernel_takes_other_extents_than_those_compiled_in() -> None:
    """Recipes for a GPU count columns, and the terms of a sampled product."""
    rng = np.random.default_rng(9)
    dense = np.where(rng.random((N, N)) < 0.4, rng.random((N, N)), 0)
    A, X = ow.tensor(dense, format=ow.CSR), ow.tensor(rng.random((N, 8)))
    Z = ow.tensor(rng.random((N, 8)))
    product = ow.parse("C(i,k) = A(i,j) * X(j,k)", C=ow.empty((N, 8)), A=A, X=X)
    sampled = ow.parse(
        "S(i,j) = A(i,j) * X(i,k) * Z(j,k)", S=ow.empty((N, N), format="CSR"), A=A, X=X, Z=Z
    )
    for stmt in (product, sampled):
        assert "MaxExact" in stmt.default_schedule("cuda-emulated")
    multiply, sample = (stmt.compile("cuda-emulated") for stmt in (product, sampled))
    for columns in (8, 3, 12):
        x, z = rng.random((2, N, columns))
        np.testing.assert_allclose(multiply(X=x).to_numpy(), dense @ x)
        np.testing.assert_allclose(sample(X=x, Z=z).to_numpy(), dense * (x @ z.T))
