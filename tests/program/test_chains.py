"""Sums of long runs in several chains: which loops get them, sums of runs of any length."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import openwork as ow
from openwork.program.chains import CHAINS, LEAST

pytestmark = pytest.mark.needs_cc
TEXT = f"in {CHAINS} chains of additions"


def rows_of_every_length(dtype: str) -> sparse.csr_array:
    """Rows of 0 to 40 entries, and a long one."""
    rng = np.random.default_rng(0)
    lengths = np.r_[np.arange(41), 5000]
    crd = np.concatenate([np.sort(rng.choice(6000, n, replace=False)) for n in lengths])
    values = rng.integers(-9, 10, len(crd)).astype(dtype)
    pos = np.r_[0, np.cumsum(lengths)].astype(np.int32)
    return sparse.csr_array((values, crd.astype(np.int32), pos), shape=(len(lengths), 6000))


def product(
    matrix: sparse.csr_array, right: np.ndarray, text: str = "C(i,k) = A(i,j) * B(j,k)"
) -> ow.Kernel:
    shape = (matrix.shape[0], right.shape[1])
    C = ow.tensor(np.full(shape, -0.0, right.dtype), name="C")
    A, B = ow.tensor(matrix, name="A"), ow.tensor(right, name="B")
    return ow.parse(text, C=C, A=A, B=B).compile()


@pytest.mark.parametrize(("dtype", "columns"), [("float64", 4), ("float64", 8), ("float32", 16)])
def test_rows_of_every_length(dtype: str, columns: int) -> None:
    """Integers, so that every order of additions has the same sum."""
    matrix = rows_of_every_length(dtype)
    right = np.random.default_rng(1).integers(-9, 10, (6000, columns)).astype(dtype)
    kernel = product(matrix, right)
    assert TEXT in kernel.source
    np.testing.assert_array_equal(kernel().to_numpy(), matrix @ right)


def test_entries_that_are_absent_add_nothing() -> None:
    """A row one entry longer than its batches is followed by infinities, in memory and in B."""
    lengths = [LEAST + 1, LEAST]
    crd = np.concatenate([np.arange(n) for n in lengths]).astype(np.int32)
    values = np.ones(len(crd))
    values[LEAST + 1 :] = np.inf
    pos = np.r_[0, np.cumsum(lengths)].astype(np.int32)
    matrix = sparse.csr_array((values, crd, pos), shape=(2, 40))
    right = np.ones((40, 4))
    right[LEAST + 1 :] = np.nan
    np.testing.assert_array_equal(product(matrix, right)().to_numpy()[0], LEAST + 1)


def test_more_than_a_vector_of_sums_stays_in_one_chain() -> None:
    matrix = rows_of_every_length("float64")
    assert TEXT not in product(matrix, np.ones((6000, 32))).source


def test_another_operator_stays_in_one_chain() -> None:
    matrix = rows_of_every_length("float64")
    text = "C(i,k) = min(j, A(i,j) * B(j,k))"
    assert TEXT not in product(matrix, np.ones((6000, 4)), text).source
