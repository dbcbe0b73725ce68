"""Prefetches of what a loop walks along: entries that are large and lie side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openwork as ow
from openwork.algebra.entries import Entry

pytestmark = pytest.mark.needs_cc
block = ow.entry.block


@pytest.mark.parametrize(
    ("format", "dtype", "lines"),
    [
        ("CSR", block(3, 3), 2),
        ("CSR; packed", block(3, 3), 2),
        ("COO", block(2, 2), 1),
        ("CSR", block(2, 2, "float32"), 0),  # 16 bytes
        ("CSR; SoA", block(3, 3), 0),
        ("ELL", block(3, 3), 0),  # whose entries lie far apart
        (ow.BSR(3, 3), np.dtype("float64"), 2),
        (ow.BSR(4, 2), np.dtype("float32"), 1),
        (ow.BSR(2, 2), np.dtype("float32"), 0),
        ("CSR", np.dtype("float64"), 0),
    ],
    ids=str,
)
def test_entries(format: Any, dtype: Any, lines: int) -> None:
    rng = np.random.default_rng(0)
    inner = dtype.shape if isinstance(dtype, Entry) else ()
    coords = np.argwhere(rng.random((7, 6)) < 0.4).T
    values = rng.integers(-3, 4, (coords.shape[1], *inner))
    A = ow.tensor((coords, values), format, "A", dtype, shape=(7, 6))
    other = ow.entry.vector(inner[0], dtype.scalar) if isinstance(dtype, Entry) else dtype
    x = ow.tensor(np.ones((6, *other.shape)), name="x", dtype=other)
    statement = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(7, other, name="y"), A=A, x=x)
    kernel = statement.compile()
    calls = [line for line in kernel.source.splitlines() if "ask_for" in line and "(&A_" in line]
    assert len(calls) == (lines > 0)
    assert ("ask_for_lines" in "".join(calls)) == (lines > 1)
    assert "ask_for" not in statement.compile(target="cuda-emulated").source
    wanted = A.to_numpy().sum(axis=(1, 3)) if inner else A.to_numpy().sum(axis=1)
    np.testing.assert_array_equal(kernel().to_numpy(), wanted)
    empty = ow.empty((7, 6), dtype, format, "A")
    assert not kernel(A=empty).to_numpy().any()
