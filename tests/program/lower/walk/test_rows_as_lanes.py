"""Rows that lie side by side are the lanes of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.choices import in_turns

import openwork as ow

pytestmark = pytest.mark.optimized

ROWS = "split(i,i0,i1,{}), parallelize(i0,CPUThread,NoRaces), parallelize(i1,CPUVector,NoRaces)"
FORMATS = [ow.SELL(8), ow.SELL(32), ow.SELL(8, 16), ow.SELL(16, 64), ow.DIA, ow.ELL]
SHAPES = [(0, 3), (1, 1), (7, 9), (8, 8), (64, 40), (131, 77), (40, 300)]


def ragged(shape: tuple[int, int], dtype: str = "float64") -> Any:
    """Rows of all lengths, empty ones and full ones among them."""
    rng = np.random.default_rng(sum(shape))
    full = rng.random(shape) < rng.choice([0.0, 0.1, 0.5, 1.0], size=(shape[0], 1))
    return (full * rng.integers(1, 5, shape)).astype(dtype)


def product(A: Any, x: Any, format: ow.Format, dtype: str = "float64") -> ow.Statement:
    i, j = ow.indices("i j")
    y = ow.empty((A.shape[0],), dtype=dtype, name="y")
    return ow.assign(y[i], ow.tensor(A, format=format, name="A")[i, j] * ow.tensor(x, name="x")[j])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("format", FORMATS, ids=repr)
def test_products_by_default(format: ow.Format, shape: tuple[int, int]) -> None:
    A, x = ragged(shape), np.arange(1.0, shape[1] + 1)
    kernel = product(A, x, format).compile()
    assert "rows of A" in kernel.source
    np.testing.assert_array_equal(kernel().to_numpy(), A @ x)


@pytest.mark.parametrize(
    ("format", "dtype"), in_turns(FORMATS, ["float32", "int16", "complex128", "bool"], 2), ids=repr
)
def test_other_elements(format: ow.Format, dtype: str) -> None:
    A, x = ragged((70, 30), dtype), np.ones(30, dtype)
    kernel = product(A, x, format, dtype).compile()
    np.testing.assert_array_equal(kernel().to_numpy(), A @ x)


@pytest.mark.parametrize(
    ("format", "lanes"), in_turns([*FORMATS, ow.CSR], [2, 3, 4, 8, 64], 2), ids=repr
)
def test_any_number_of_lanes(format: ow.Format, lanes: int) -> None:
    A, x = ragged((131, 77)), np.arange(77.0)
    stmt = product(A, x, format).schedule(ROWS.format(lanes))
    kernel = stmt.compile()
    vectors = format.levels[1].abreast(lanes)
    assert (f"all {lanes} rows of A" in kernel.source) == vectors
    np.testing.assert_array_equal(kernel().to_numpy(), A @ x)


@pytest.mark.parametrize("format", FORMATS, ids=repr)
def test_padding_is_not_read(format: ow.Format) -> None:
    A, x = np.tril(np.ones((40, 40))), np.full(40, np.inf)
    A[3, 1:] = 0
    assert not np.isnan(product(A, x, format).compile()().to_numpy()[:1]).any()
    x = np.where(np.arange(40) == 0, np.nan, 1.0)
    A[:, 0] = 0
    got = product(A, x, format).compile()().to_numpy()
    if format != ow.DIA:  # which stores zeros beside its entries
        np.testing.assert_array_equal(got, A[:, 1:].sum(axis=1))


@pytest.mark.parametrize("text", ["y(i) += A(i,j)*x(j)", "y(i) = z(i)*A(i,j)*x(j)"])
@pytest.mark.parametrize("format", FORMATS, ids=repr)
def test_what_else_is_at_a_row(format: ow.Format, text: str) -> None:
    A, x, z = ragged((45, 20)), np.arange(20.0), np.arange(45.0)
    operands = {"z": ow.tensor(z, name="z")} if "z" in text else {}
    stmt = ow.parse(
        text,
        y=ow.tensor(z.copy(), name="y"),
        A=ow.tensor(A, format=format, name="A"),
        x=ow.tensor(x, name="x"),
        **operands,
    )
    wanted = z + A @ x if "+=" in text else z * (A @ x)
    np.testing.assert_array_equal(stmt.compile()().to_numpy(), wanted)


@pytest.mark.parametrize("format", FORMATS, ids=repr)
def test_what_is_added_to_a_sum_is_added_once(format: ow.Format) -> None:
    A = ragged((45, 20))
    i, j = ow.indices("i j")
    y = ow.empty((45,), name="y")
    stmt = ow.assign(y[i], ow.tensor(A, format=format, name="A")[i, j] * 2.0 + 1.0)
    np.testing.assert_array_equal(stmt.compile()().to_numpy(), A.sum(axis=1) * 2 + 1)


@pytest.mark.parametrize("rows", [1, 1100])
@pytest.mark.parametrize("level", [ow.Dense, ow.Permuted(3)])
def test_where_absent_entries_count(level: ow.Level, rows: int) -> None:
    """`0 <= an absent entry` holds: a row that stores nothing is not nothing."""
    format = ow.Format([level, ow.Padded], order=(1, 0))
    B = ow.tensor((np.zeros((2, 0), int), np.zeros(0)), shape=(6, rows), format=format, name="B")
    C, Y = ow.tensor(np.zeros(rows), name="C"), ow.empty((rows,), dtype="int8", name="Y")
    made = ow.parse("Y(j) = max(i, C(j) <= B(i,j))", Y=Y, B=B, C=C).compile()().to_numpy()
    np.testing.assert_array_equal(made, np.ones(rows))


@pytest.mark.parametrize("format", [ow.SELL(8), ow.DIA, ow.SELL(8).with_layout("packed")], ids=repr)
def test_rows_are_prefetched_a_page_ahead(format: ow.Format) -> None:
    """Coordinates, too, unless they follow from the row or lie beside the values."""
    kernel = product(ragged((131, 77)), np.ones(77), format).compile()
    calls = [line.strip() for line in kernel.source.splitlines() if "ask_for" in line]
    ahead = [line for line in calls if "A2_size - 1" in line]
    wanted = {ow.SELL(8): ["vals", "crd2"], ow.DIA: ["vals"]}.get(format, [])
    assert [line.split("&A_")[1].split("[")[0] for line in ahead] == wanted
    assert all("+ 512" in line for line in ahead if "vals" in line)  # 4096 bytes
