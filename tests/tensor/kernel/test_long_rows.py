"""The default on a CPU that gathers slowly: sums in lanes, where the operand's rows are long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import openwork as ow
from openwork.loops.schedule.machines import ANY_CPU
from openwork.tensor.kernel import machine
from openwork.tensor.measure import runs_of

LONG = int(ANY_CPU.least_filled)
COLUMNS = 4 * LONG


@pytest.fixture(autouse=True)
def slow_gathers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(machine, "gathers_are_fast", lambda: False)
    monkeypatch.setattr(machine, "has_masked_gathers", lambda: True)
    machine.this_cpu.cache_clear()
    yield
    machine.this_cpu.cache_clear()


def uneven(mean: int, rows: int = 10) -> Any:
    """A matrix whose rows have `mean` entries on average: one has twice as many, and one none."""
    lengths = [0, 2 * mean, *[mean] * (rows - 2)]
    dense = [np.r_[np.ones(n), np.zeros(COLUMNS - n)] * (1 + np.arange(COLUMNS)) for n in lengths]
    return sp.csr_array(np.array(dense))


def product(matrix: Any, format: str = "CSR", dtype: str = "float64") -> Any:
    A = ow.tensor(matrix.astype(dtype), format=format, name="A")
    x = ow.tensor(np.ones(COLUMNS, dtype), name="x")
    return ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(matrix.shape[0], dtype=dtype), A=A, x=x)


def in_lanes(stmt: Any) -> bool:
    return "ParallelReduction" in str(stmt.loops)


@pytest.mark.needs_cc
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_long_rows_are_summed_in_lanes(dtype: str) -> None:
    matrix = uneven(LONG)
    stmt = product(matrix, dtype=dtype)
    kernel = stmt.compile()
    np.testing.assert_allclose(kernel().to_numpy(), matrix.sum(axis=1))
    assert f"runs of {LONG} entries of A, on average, are summed in lanes" in kernel.explain()
    same = stmt.schedule(stmt.default_schedule()).compile()
    assert same.source == kernel.source and "CPUVector" in stmt.default_schedule()
    other = uneven(3).astype(dtype)  # the loops stay; only their time differs
    np.testing.assert_allclose(kernel(A=ow.tensor(other)).to_numpy(), other.sum(axis=1))


def test_what_is_known_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not short rows, nor operands without data, nor a processor without masks."""
    assert in_lanes(product(uneven(LONG))) and not in_lanes(product(uneven(LONG - 1)))
    A, x = ow.placeholder("A", order=2, format=ow.CSR), ow.placeholder("x", order=1)
    assert not in_lanes(ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(9), A=A, x=x))
    assert not in_lanes(product(uneven(LONG), "SELL(8)"))
    assert in_lanes(product(uneven(LONG)).bucket("i", bounds=(LONG,)).statements[1])
    monkeypatch.setattr(machine, "has_masked_gathers", lambda: False)
    machine.this_cpu.cache_clear()
    assert not in_lanes(product(uneven(LONG)))


def test_the_mean_length_of_runs() -> None:
    numbers = np.random.default_rng(0)
    dense = numbers.random((6, 5, 4)) * (numbers.random((6, 5, 4)) < 0.5)
    X, v = ow.tensor(dense, format="CSF(3)", name="X"), ow.tensor([0.0, 2.0, 3.0], format="COO(1)")
    fibres = np.count_nonzero(dense.any(axis=2))
    stmt = ow.parse("s = X(i,j,k) * v(l)", X=X, v=v)
    found = runs_of(stmt.assignment)
    assert found["X"] == np.count_nonzero(dense) / fibres and found["v"] == 2
