"""Semirings by GraphBLAS' names and masks, beside loops in Python."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openwork as ow
from openwork.algebra.operators import DIV, MIN, Semiring
from openwork.algebra.types import number
from openwork.index.semiring import semiring_named

RNG = np.random.default_rng(2)
D, E = (RNG.integers(1, 9, (6, 6)) * (RNG.random((6, 6)) < 0.4) for _ in range(2))
ADDS: dict[str, Any] = {
    "plus": sum, "times": math.prod, "min": min, "max": max, "any": min, "lor": any, "land": all,
    "lxor": lambda xs: sum(map(bool, xs)) % 2 == 1,
}  # fmt: skip
MULTIPLIES: dict[str, Any] = {
    "first": lambda a, b: a, "second": lambda a, b: b, "pair": lambda a, b: 1,
    "plus": lambda a, b: a + b, "minus": lambda a, b: a - b, "rminus": lambda a, b: b - a,
    "times": lambda a, b: a * b, "div": lambda a, b: a / b, "rdiv": lambda a, b: b / a,
    "min": min, "max": max, "eq": lambda a, b: a == b, "lt": lambda a, b: a < b,
    "land": lambda a, b: bool(a and b), "lxor": lambda a, b: bool(a) != bool(b),
}  # fmt: skip
NAMES = [
    *(f"min_{mul}" for mul in MULTIPLIES if mul not in ("eq", "lt", "land", "lxor")),
    *("plus_pair", "plus_min", "plus_first", "plus_lt", "max_min", "max_second", "any_second"),
    *(
        "plus_plus",
        "times_plus",
        "land_pair",
        "any_pair",
        "lor_land",
        "lor_eq",
        "lxor_land",
        "land_lxor",
        "plus_eq",
    ),
]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (name, dtype)
        for name in NAMES
        for dtype in ("float64", "int32", "uint8")
        if not (dtype == "uint8" and "minus" in name)  # differences wrap
    ],
)
def test_products_by_name(name: str, dtype: str) -> None:
    """What multiplies sees entries only; where none meet, the result is absent."""
    add, _, mul = name.partition("_")
    A, B = (ow.tensor(each.astype(dtype), format="CSR") for each in (D, E))
    C = ow.einsum("ij,jk->ik", A, B, semiring=name)
    absent = number(semiring_named(name).zero, C.dtype)
    assert C.fill == absent
    expected = np.full((6, 6), absent, C.dtype)
    for i, k in np.ndindex(6, 6):
        met = [MULTIPLIES[mul](D[i, j], E[j, k]) for j in range(6) if D[i, j] and E[j, k]]
        if met:
            expected[i, k] = ADDS[add](met)
    np.testing.assert_allclose(C.to_numpy(), expected)


def test_a_number_is_one_where_the_absent_value_is_the_same() -> None:
    """0 is a number of a vector, also where an absent 0 is none; of unsigned types it was none."""
    A = ow.tensor(np.array([[3, 3, 0], [0, 0, 1]], "uint8"), format="CSR")
    x = ow.tensor(np.array([1, 2, 0], "uint8"))
    for target in ("cpu", "cuda-emulated"):
        kernel = ow.parse("y(i) = A(i,j) * x(j)", A=A, x=x, semiring="plus_plus").compile(target)
        np.testing.assert_array_equal(kernel().to_numpy(), [9, 1])
    every = ow.compute("y(i) = A(i,j)", A=A.to("dense(2)"), semiring="land_pair")
    np.testing.assert_array_equal(every.to_numpy(), [False, False])


@pytest.mark.parametrize("name", ["min_second", "plus_pair", "plus_min", "lor_eq", "any_pair"])
def test_texts_read_back(name: str) -> None:
    A = ow.tensor(D, format="CSR", name="A")
    x = ow.tensor(D[0], name="x")
    y = ow.empty(6, dtype="int64" if "pair" in name or "m" in name else bool, name="y")
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=x, semiring=name)
    (again,) = {str(stmt), str(ow.parse(str(stmt), y=y, A=A, x=x))}
    assert ".mul(" in again


@pytest.mark.parametrize("complement", [False, True])
@pytest.mark.parametrize("structural", [False, True])
@pytest.mark.parametrize("format", ["CSR", "CSC", "COO(2)", "LIL", "dense(2)"])
def test_masks(complement: bool, structural: bool, format: str) -> None:
    """A stored zero is in the structure of a mask, though it does not hold."""
    coords = np.argwhere(E).T
    values = np.where(np.arange(coords.shape[1]) % 3 == 0, 0, 5)
    M = ow.tensor((coords, values), shape=(6, 6)).to(format)
    holds = E != 0 if structural and format != "dense(2)" else M.to_numpy() != 0
    A, B = (ow.tensor(each, format="CSR") for each in (D, E))
    product = (D @ E) * (holds != complement)
    C = ow.masked(
        "C(i,k) = A(i,j) * B(j,k)", M, complement=complement, structural=structural, A=A, B=B
    )
    np.testing.assert_array_equal(C.to_numpy(), product)
    if format != "dense(2)" and not complement:
        assert C.nnz <= M.nnz
    y = ow.masked("y(i) = A(i,j) * x(j)", M[0], complement=complement, A=A, x=np.arange(6),
                  semiring="min_plus")  # fmt: skip
    lengths = np.where(D > 0, D + np.arange(6), np.iinfo(np.int64).max).min(1)
    wanted = (M.to_numpy()[0] != 0) != complement
    assert (y.to_numpy()[wanted] == lengths[wanted]).all()
    assert (y.to_numpy()[~wanted] == np.iinfo(np.int64).max).all()


def test_what_there_is_not() -> None:
    A = ow.tensor(D, format="CSR")
    for name in ("min_nothing", "nothing_plus", "minplus"):
        with pytest.raises(ow.ParseError, match=f"E111: there is no semiring {name}") as caught:
            ow.einsum("ij,jk->ik", A, A, semiring=name)
        assert "second" in str(caught.value.hint)
    with pytest.raises(ow.ParseError, match="E111: halves makes fractions of int64"):
        halves = Semiring("halves", MIN, replace(DIV, annihilator=np.inf), np.inf)
        ow.einsum("ij,jk->ik", A, A, semiring=halves)
    with pytest.raises(ow.ShapeError, match="E204: the mask has 1 modes"):
        ow.masked("C(i,k) = A(i,j) * A(j,k)", np.ones(6), A=A)
