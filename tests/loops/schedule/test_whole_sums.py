"""Sums of whole operands by default: in lanes, along positions, with the answer of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.choices import in_turns

import openwork as ow

FORMATS = {
    "CSR": ow.CSR, "CSC": ow.CSC, "DCSR": ow.DCSR, "COO": ow.COO(2), "ELL": ow.ELL,
    "BSR": ow.BSR(2, 2), "bitmap": ow.Format([ow.Dense, ow.Bitmap]), "dense": ow.dense(2),
}  # fmt: skip
SUMS = {
    "s = A(i,j)": lambda a: a.sum(),
    "s = A(i,j) * A(i,j)": lambda a: (a * a).sum(),
    "s = sum(i, sum(j, abs(A(i,j))))": lambda a: abs(a).sum(),
    "s = max(i, max(j, A(i,j)))": lambda a: a.max(),
    "s = min(i, min(j, A(i,j)))": lambda a: a.min(),
    "s = prod(i, prod(j, A(i,j)))": lambda a: a.prod(),
    "s = A(i,j) * i": lambda a: (a * np.arange(len(a))[:, None]).sum(),
}


def sparse(dtype: str = "float64", sign: int = -1) -> Any:
    rng = np.random.default_rng(3)
    dense = rng.integers(1, 5, (30, 14)) * (rng.random((30, 14)) < 0.4)
    dense[[0, 7, 29]] = 0
    return (sign * dense).astype(dtype)


@pytest.mark.needs_cc
@pytest.mark.parametrize(("text", "format"), in_turns(list(SUMS), list(FORMATS), 4))
def test_answers(text: str, format: str) -> None:
    a = sparse()
    stmt = ow.parse(text, s=ow.empty((), name="s"), A=ow.tensor(a, format=FORMATS[format]))
    assert stmt.compile()().to_numpy() == SUMS[text](a)


@pytest.mark.needs_cc
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "complex128", "bool"])
def test_element_types(dtype: str) -> None:
    a = sparse(dtype, 1)
    s = ow.empty((), dtype=dtype, name="s")
    made = ow.parse("s = A(i,j)", s=s, A=ow.tensor(a, format=ow.CSR)).compile()()
    assert made.to_numpy() == a.sum(dtype=dtype)


@pytest.mark.parametrize("format", ["CSR", "CSC", "DCSR", "COO"])
def test_entries_are_one_run(format: str) -> None:
    A = ow.tensor(sparse(), format=FORMATS[format], name="A")
    stmt = ow.parse("s = A(i,j)", s=ow.empty((), name="s"), A=A)
    text = stmt.default_schedule()
    assert "pos(" in text and "CPUVector,ParallelReduction" in text
    assert "omp simd reduction" in stmt.compile().source


@pytest.mark.parametrize("text", ["s = A(i,j) * x(j)", "s = A(i,j) * i", "y(i) = A(i,j)"])
def test_other_sums_are_left(text: str) -> None:
    A, x = ow.tensor(sparse(), format=ow.CSR, name="A"), ow.tensor(np.ones(14), name="x")
    given = {"s": ow.empty((), name="s"), "y": ow.empty(30, name="y"), "x": x}
    stmt = ow.parse(text, A=A, **{n: t for n, t in given.items() if n in text.replace("sum", "")})
    assert "fuse(" not in stmt.default_schedule()
