"""Extremes in several ranges at once: of any length, NaN wins, and where the first one is."""

from __future__ import annotations

import numpy as np
import pytest

import openwork as ow
from openwork.program.extremes import LEAST, RANGES

pytestmark = pytest.mark.needs_cc
TEXT = f"{RANGES} ranges at once"
SIZES = (1, LEAST - 1, LEAST, LEAST + RANGES - 1, 5000)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("op", ["max", "min"])
def test_every_place(op: str, dtype: str) -> None:
    kernel = ow.parse(f"s = {op}(i, x(i))", s=ow.empty((), dtype=dtype, name="s"),
                      x=ow.tensor(np.ones(3, dtype), name="x")).compile()  # fmt: skip
    assert TEXT in kernel.source
    worst = -np.inf if op == "max" else np.inf
    for size in SIZES:
        for at in {0, size // 4, size // 2, size - 2, size - 1} - {-1}:
            for found in (0.5, np.nan):
                x = np.full(size, worst, dtype)
                x[at] = found
                np.testing.assert_array_equal(kernel(x=x).to_numpy(), found)


@pytest.mark.optimized
def test_in_vectors_as_users_have_it() -> None:
    x = np.random.default_rng(0).random(10_007)
    for special in (None, np.nan):
        x[4321] = x[4321] if special is None else special
        t = ow.tensor(x)
        assert t.max().item() == x.max() or np.isnan(x.max())
        assert t.argmax().item() == x.argmax() and t.argmin().item() == x.argmin()
        assert abs(t).max().item() == abs(x).max() or np.isnan(x.max())


def test_of_expressions_and_entries() -> None:
    x = np.random.default_rng(1).standard_normal(700)
    A = ow.tensor(np.where(x > 0, x, 0), format="Compressed", name="A")
    s = ow.empty((), name="s")
    for text in ("s = max(i, abs(A(i)) * 2 - 1)", "s = min(i, select(A(i) > 0, A(i), inf))"):
        dense, sparse = (
            ow.parse(text, s=s, A=given).compile()() for given in (A.to("dense(1)"), A)
        )
        assert dense.item() == sparse.item()


def test_sums_and_integers_stay_one_range() -> None:
    for text, dtype in (("s = x(i)", "float64"), ("s = max(i, x(i))", "int64")):
        x, s = ow.tensor(np.ones(9, dtype), name="x"), ow.empty((), dtype=dtype, name="s")
        assert TEXT not in ow.parse(text, s=s, x=x).compile().source
