"""Products with dense columns: few of them are counted on, many are summed in wide tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import openwork as ow

pytestmark = pytest.mark.needs_cc


def operands(columns: int, dtype: str = "float64") -> tuple[Any, Any, ow.Statement]:
    """A sparse matrix and a dense one, whole numbers each, and their product."""
    rng = np.random.default_rng(columns)
    a = sp.random_array((40, 30), density=0.2, rng=rng, format="csr")
    a.data = np.rint(a.data * 9).astype(dtype)
    x = rng.integers(-9, 9, (30, columns)).astype(dtype)
    Y = ow.empty((40, columns), dtype=dtype)
    stmt = ow.parse("Y(i,k) = A(i,j) * X(j,k)", A=ow.tensor(a), X=ow.tensor(x), Y=Y)
    return a, x, stmt


@pytest.mark.parametrize(
    ("columns", "dtype"),
    [
        *((n, "float64") for n in (1, 3, 4, 12, 32, 33, 64, 127, 131)),
        *((n, "float32") for n in (4, 8, 64, 400)),
        *((n, type) for type in ("int32", "complex128") for n in (8, 300)),
    ],
)
def test_any_number_of_columns_gives_the_product(columns: int, dtype: str) -> None:
    a, x, stmt = operands(columns, dtype)
    np.testing.assert_array_equal(stmt.compile()().to_numpy(), a @ x)


@pytest.mark.parametrize(("columns", "chains"), [(4, 4), (8, 4), (32, 1)])
def test_few_columns_are_one_tile(columns: int, chains: int) -> None:
    _, _, stmt = operands(columns)
    kernel = stmt.compile()
    assert f"bound(k,kb,{columns},MaxExact)" in str(kernel.explain())
    assert f"R_sums{columns}[{chains * columns} / LANES" in kernel.source
    assert "columns in registers" not in kernel.source  # no loop over tiles


@pytest.mark.parametrize("columns", [3, 5, 33, 200])
def test_columns_that_are_no_vectors_or_many_are_not_counted_on(columns: int) -> None:
    """So that not every number of columns has a kernel of its own."""
    assert "MaxExact" not in str(operands(columns)[2].compile().explain())


def test_a_kernel_for_few_columns_takes_others() -> None:
    a, x, stmt = operands(4)
    kernel = stmt.compile()
    for columns in (4, 7, 32, 4):
        other = np.arange(30.0 * columns).reshape(30, columns)
        Y = ow.empty((40, columns))
        found = kernel(X=ow.tensor(other), out=Y) if columns != 4 else kernel(X=ow.tensor(x))
        np.testing.assert_array_equal(found.to_numpy(), a @ (x if columns == 4 else other))


def test_a_promised_extent_is_checked() -> None:
    _, x, stmt = operands(4)
    kernel = stmt.schedule("bound(k,kb,4,MaxExact)").compile()
    assert "R_sums4" in kernel.source
    with pytest.raises(ow.errors.DataError, match="kb"):
        kernel(X=ow.tensor(np.hstack([x, x])), out=ow.empty((40, 8)))
