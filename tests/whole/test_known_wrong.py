"""Results that the older sparse tensor compiler got wrong, or could not compile: right here.

Sparse results had duplicate or unsorted coordinates, missed entries, or took the wrong loop for a
reduction. Each test is one such statement, on data with empty rows and columns, assembled in every
way that is legal, and compared with NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import openwork as ow
from openwork.runtime.host import launch
from openwork.runtime.host.threads import set_num_threads
from openwork.tensor.exchange.validate import validate

pytestmark = pytest.mark.needs_cc

rng = np.random.default_rng(7)


def sparse(*shape: int) -> Any:
    """An array of which most is zero, whole rows and columns included."""
    made = rng.integers(1, 9, shape) * (rng.random(shape) < 0.35)
    made[2], made[..., 1] = 0, 0
    return made.astype(float)


a, b, c, t = sparse(7, 6), sparse(6, 8), sparse(8, 5), sparse(7, 6, 8)
d, e, q = sparse(7, 6), sparse(6, 7), sparse(6, 6)
u, v = rng.random((7, 4)), rng.random((6, 4))
vector = sparse(6, 3)[:, 0]


@pytest.fixture(autouse=True)
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Several threads, however small the result."""
    monkeypatch.setattr(launch, "SERIAL_BELOW", -1)
    set_num_threads(3)
    yield
    set_num_threads(None)


def check(text: str, expected: Any, result: ow.Format, **operands: tuple[Any, ow.Format]) -> None:
    """The statement gives `expected`, in order and without repeats, however it is assembled."""
    tensors = {n: ow.tensor(m, format=f, name=n) for n, (m, f) in operands.items()}
    out = ow.empty(expected.shape, format=result, name="R")
    stmt = ow.parse(text, R=out, **tensors)
    plans = [stmt]
    for strategy in ("count", "append", "serial"):
        try:
            plans.append(stmt.assemble(strategy))
        except ow.ScheduleError:
            continue
    for each in plans:
        made = each.compile()()
        validate(made.storage, "the result")
        np.testing.assert_allclose(made.to_numpy(), expected, atol=1e-12)


CSF3 = ow.CSF(3)


@pytest.mark.parametrize("format", [ow.CSR, ow.CSC, ow.DCSR, ow.DCSC], ids=repr)
def test_a_product_of_three_matrices(format: ow.Format) -> None:
    for one in (ow.CSR, ow.CSC):
        check(
            "R(i,l) = A(i,j) * B(j,k) * C(k,l)",
            a @ b @ c, format, A=(a, one), B=(b, ow.CSR), C=(c, one),
        )  # fmt: skip


@pytest.mark.parametrize("format", [ow.CSR, ow.DCSR, ow.CSC], ids=repr)
def test_column_sums_into_a_sparse_vector(format: ow.Format) -> None:
    check("R(j) = A(i,j)", a.sum(0), ow.CSF(1), A=(a, format))


@pytest.mark.parametrize("format", [ow.CSR, ow.DCSR], ids=repr)
def test_a_sum_with_a_transpose(format: ow.Format) -> None:
    check("R(i,j) = A(i,j) + B(j,i)", a + e.T, format, A=(a, ow.CSR), B=(e, ow.CSR))


def test_sddmm_with_row_major_factors() -> None:
    expected = a * (u @ v.T)
    for format in (ow.CSR, ow.CSC, ow.DCSR):
        check(
            "R(i,j) = A(i,j) * U(i,k) * V(j,k)",
            expected, format, A=(a, ow.CSR), U=(u, ow.dense(2)), V=(v, ow.dense(2)),
        )  # fmt: skip


@pytest.mark.parametrize("format", [ow.CSR, ow.DCSR], ids=repr)
def test_a_contraction_over_the_outer_mode(format: ow.Format) -> None:
    check("R(j,k) = A(i,j) * B(i,k)", a.T @ d, format, A=(a, ow.CSR), B=(d, ow.CSR))
    check("R(j,k) = T(i,j,k)", t.sum(0), format, T=(t, CSF3))


def test_the_diagonal_of_a_sparse_matrix() -> None:
    check("R(i) = A(i,i)", np.diag(q), ow.CSF(1), A=(q, ow.CSR))
    check("R(i) = A(i,i) * x(i)", np.diag(q) * vector, ow.CSF(1), A=(q, ow.CSR),
          x=(vector, ow.CSF(1)))  # fmt: skip


@pytest.mark.parametrize("one", [ow.CSR, ow.CSC], ids=repr)
@pytest.mark.parametrize("other", [ow.CSR, ow.CSC], ids=repr)
@pytest.mark.parametrize("format", [ow.CSR, ow.CSC, ow.DCSR], ids=repr)
def test_a_product_of_matrices_in_any_formats(
    one: ow.Format, other: ow.Format, format: ow.Format
) -> None:
    check("R(i,k) = A(i,j) * B(j,k)", a @ b, format, A=(a, one), B=(b, other))


def test_a_tensor_times_a_sparse_vector() -> None:
    expected = np.einsum("ijk,j->ik", t, vector)
    check("R(i,k) = T(i,j,k) * x(j)", expected, ow.DCSR, T=(t, CSF3), x=(vector, ow.CSF(1)))


def test_a_tensor_times_a_sparse_matrix_in_the_middle() -> None:
    expected = np.einsum("ijk,jl->ilk", t, e)
    check("R(i,l,k) = T(i,j,k) * E(j,l)", expected, CSF3, T=(t, CSF3), E=(e, ow.CSR))


def test_a_sum_of_a_product_and_a_matrix() -> None:
    more = sparse(7, 8)
    check(
        "R(i,k) = A(i,j) * B(j,k) + D(i,k)",
        a @ b + more, ow.CSR, A=(a, ow.CSR), B=(b, ow.CSR), D=(more, ow.CSC),
    )  # fmt: skip


def test_a_product_with_its_own_transpose() -> None:
    check("R(i,k) = A(i,j) * A(k,j)", a @ a.T, ow.CSR, A=(a, ow.CSR))


def test_an_intersection_that_leaves_whole_rows_empty() -> None:
    odd, even = a.copy(), d.copy()
    odd[::2], even[1::2] = 0, 0
    for format in (ow.CSR, ow.DCSR):
        check("R(i,j) = A(i,j) * B(i,j)", odd * even, format, A=(odd, ow.DCSR), B=(even, ow.CSR))
