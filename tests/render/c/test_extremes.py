"""The least and the greatest in vectors: what NaN, zeros and infinities are is as of elements."""

from __future__ import annotations

import numpy as np
import pytest

import openwork as ow

pytestmark = [pytest.mark.needs_cc, pytest.mark.optimized]
SPECIAL = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["min", "max"])
def test_columns_are_numpys(name: str, dtype: str) -> None:
    """47 columns: tiles of 32 and fewer, and some that fill no vector."""
    rng = np.random.default_rng(3)
    numbers = rng.standard_normal((9, 47)).astype(dtype)
    odd = rng.random(numbers.shape) < 0.1
    numbers[odd] = rng.choice(SPECIAL, int(odd.sum()))
    numbers[:, 5] = np.inf if name == "min" else -np.inf
    M, y = ow.tensor(numbers, name="M"), ow.empty(47, dtype=dtype, name="y")
    kernel = ow.parse(f"y(j) = {name}(i, M(i,j))", y=y, M=M).compile()
    assert f"{name}_lanes_" in kernel.source
    np.testing.assert_array_equal(kernel().to_numpy(), getattr(np, name)(numbers, axis=0))


def test_a_scalar_is_in_all_lanes() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((6, 5)), rng.standard_normal((5, 33))
    b[2, 3], a[1, 1] = np.nan, np.inf
    operands = {"A": ow.tensor(a, name="A"), "B": ow.tensor(b, name="B")}
    y = ow.empty((6, 33), name="y")
    kernel = ow.parse("y(i,k) = max(j, min(A(i,j), B(j,k)))", y=y, **operands).compile()
    assert "max_lanes_" in kernel.source and "min_lanes_" in kernel.source
    with np.errstate(invalid="ignore"):
        wanted = np.minimum(a[:, :, None], b[None]).max(axis=1)
    np.testing.assert_array_equal(kernel().to_numpy(), wanted)
