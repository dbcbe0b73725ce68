"""Hashed levels: sums gathered in a hash table, and a result that reads as a compressed one."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import openwork as ow

HASHED = ow.Format([ow.Dense, ow.Hashed])
TWICE = ow.Format([ow.Hashed, ow.Hashed])


def operand(name: str, shape: tuple[int, int], format: Any, seed: int) -> ow.Tensor:
    rng = np.random.default_rng(seed)
    return ow.tensor(sp.random_array(shape, density=0.2, rng=rng), format=format, name=name)


def product(format: ow.Format, first: ow.Format, second: ow.Format) -> tuple[ow.Statement, Any]:
    i, j, k = ow.indices("i j k")
    A, B = operand("A", (30, 20), first, 0), operand("B", (20, 25), second, 1)
    C = ow.empty((30, 25), format=format, name="C")
    return ow.assign(C[i, j], A[i, k] * B[k, j]), A.to_numpy() @ B.to_numpy()


@pytest.mark.parametrize("second", [ow.CSR, ow.CSC, ow.COO(2)], ids=repr)
@pytest.mark.parametrize("first", [ow.CSR, ow.CSC, ow.DCSR], ids=repr)
@pytest.mark.parametrize("format", [HASHED, TWICE], ids=repr)
def test_products(format: ow.Format, first: ow.Format, second: ow.Format) -> None:
    stmt, wanted = product(format, first, second)
    made = stmt.compile()()
    assert made.format == format
    np.testing.assert_allclose(made.to_numpy(), wanted)
    crd, pos = (made.storage.levels[1][name] for name in ("crd", "pos"))
    for begin, end in pairwise(pos):
        assert (np.diff(crd[begin:end]) > 0).all()


def test_keys_are_found_through_a_hash_table() -> None:
    hashed, plain = (product(f, ow.CSR, ow.CSR)[0].compile().source for f in (HASHED, ow.CSR))
    assert "hash" in hashed
    assert "hash" not in plain


def test_it_is_read_as_a_compressed_level() -> None:
    stmt, wanted = product(HASHED, ow.CSR, ow.CSR)
    made = stmt.compile()()
    for format in (ow.CSR, ow.CSC, ow.BSR(2, 2), ow.SELL(4), ow.COO(2), ow.dense(2)):
        np.testing.assert_allclose(made.to(format).to_numpy(), wanted)
    np.testing.assert_allclose((made + made).to_numpy(), 2 * wanted)
    np.testing.assert_allclose((made @ np.ones(25)).to_numpy(), wanted.sum(axis=1))


def test_text_plans_and_columns_sums() -> None:
    assert ow.tensor(np.eye(3), format="Dense(0), Hashed(1)").format == HASHED
    stmt, wanted = product(TWICE, ow.CSR, ow.CSR)
    np.testing.assert_allclose(stmt.compile().symbolic()().to_numpy(), wanted)
    A = operand("A", (30, 20), ow.CSR, 3)
    i, j = ow.indices("i j")
    y = ow.empty((20,), format=ow.Format([ow.Hashed]), name="y")
    got = ow.assign(y[j], ow.sum(i, A[i, j])).compile()()
    np.testing.assert_allclose(got.to_numpy(), A.to_numpy().sum(axis=0))
