"""Dot products of gathered rows: one row in registers, sums in the lanes of vectors."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp

import openwork as ow

pytestmark = pytest.mark.optimized

SDDMM = "C(i,j) = A(i,j) * U(i,k) * V(j,k)"


def operands(columns: int, dtype: type = np.float64, seed: int = 0):
    rng = np.random.default_rng(seed)
    a = sp.random(40, 30, 0.2, format="csr", random_state=seed, dtype=np.float64).astype(dtype)
    u = rng.random((40, columns)).astype(dtype)
    v = rng.random((30, columns)).astype(dtype)
    return a, u, v


def statement(a, u, v, text: str = SDDMM) -> ow.Statement:
    tensors = {"A": ow.tensor(a), "U": ow.tensor(u), "V": ow.tensor(v)}
    return ow.parse(text, **tensors, C=ow.empty(a.shape, format=ow.CSR, dtype=u.dtype))


def expected(a, u, v):
    return a.toarray() * (u @ v.T)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.complex128])
@pytest.mark.parametrize("columns", [0, 1, 4, 7, 8, 16, 20, 24, 32, 33, 40, 48, 64, 128])
def test_any_number_of_columns(columns: int, dtype: type) -> None:
    a, u, v = operands(columns, dtype)
    np.testing.assert_allclose(
        statement(a, u, v).compile()().to_numpy(), expected(a, u, v), rtol=1e-5
    )


def test_a_row_of_known_length_stays_in_registers() -> None:
    source = statement(*operands(32)).compile().source
    assert "vector_float64 W_vals[32 / LANES_float64];" in source
    assert "k_size" not in source  # it is 32 everywhere


@pytest.mark.parametrize("columns", [20, 40])
def test_rows_with_a_rest_do_not(columns: int) -> None:
    kernel = statement(*operands(columns)).compile()
    assert "bound(" not in kernel.explain()


def test_other_extents_get_other_code() -> None:
    kernel = statement(*operands(32)).compile()
    for columns in (32, 16, 8, 5, 0, 32, 64):
        a, u, v = operands(columns, seed=columns)
        found = kernel(A=a, U=u, V=v).to_numpy()
        np.testing.assert_allclose(found, expected(a, u, v), rtol=1e-12)
        out = ow.empty(a.shape, format=ow.CSR)
        kernel(A=a, U=u, V=v, out=out)
        np.testing.assert_allclose(out.to_numpy(), expected(a, u, v), rtol=1e-12)
    assert kernel.symbolic(U=u[:, :7], V=v[:, :7]).shape == (40, 30)


def test_the_users_own_bound_is_kept() -> None:
    kernel = statement(*operands(32)).schedule("bound(k,kb,32,MaxExact)").compile()
    _, u, v = operands(16)
    with pytest.raises(ow.DataError, match="does not hold") as caught:
        kernel(U=u, V=v)
    assert caught.value.code == "E507"


def test_the_schedule_that_explain_prints_is_the_default() -> None:
    made = statement(*operands(32))
    default = made.compile()
    (printed,) = re.findall(r"schedule: (bound.*)", default.explain())
    again = made.schedule(f"{printed}, parallelize(i,CPUThread,NoRaces)").compile()
    assert again.source == default.source


def test_a_user_reaches_vectors_with_rests() -> None:
    a, u, v = operands(37)
    made = statement(a, u, v).schedule(
        "split(k,kc,kb,16), reorder(i,kc,kb,j), precompute(U(i,k),kb,ku,u), reorder(j,kb), "
        "unroll(ku), precompute(u(kb)*V(j,k),[],[],w), split(kb,k0,k1,8), "
        "precompute(u(kb)*V(j,k),k1,k1w,w1), unroll(k1w), unroll(k0), unroll(k1), "
        "parallelize(k1,CPUVector,ParallelReduction)"
    )
    kernel = made.compile()
    assert "sum_float64(" in kernel.source and "% LANES_float64]" in kernel.source
    np.testing.assert_allclose(kernel().to_numpy(), expected(a, u, v), rtol=1e-12)


def test_sums_in_order_stay_in_order() -> None:
    """Without ParallelReduction nobody allowed another order."""
    a, u, v = operands(32)
    made = statement(a, u, v).schedule(
        "precompute(U(i,k)*V(j,k),[],[],w), split(k,k0,k1,8), "
        "precompute(U(i,k)*V(j,k),k1,k1w,w1), unroll(k1w), unroll(k1)"
    )
    assert "sum_float64(" not in made.compile().source


@pytest.mark.parametrize("fill", [1.5, -0.0, np.inf, np.nan])
def test_lanes_are_filled_exactly(fill: float) -> None:
    """A scalar in all lanes keeps its sign and its NaN."""
    x = ow.tensor(np.full(16, fill))
    s = ow.tensor(np.array(fill))
    y = ow.empty((16,))
    made = ow.parse("y(i) = s + x(i)", y=y, s=s, x=x).schedule(
        "split(i,i0,i1,8), precompute(s + x(i),i1,i1w,w), unroll(i1w), unroll(i1)"
    )
    found = made.compile()().to_numpy()
    want = np.full(16, fill) + fill
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(want))


@pytest.mark.parametrize("columns", [0, 7, 32])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_nothing_but_minus_zero_are_plus_zero(columns: int, dtype: type) -> None:
    """As they are for NumPy; lanes begin with -0, which compilers leave out."""
    a, u, v = operands(columns, dtype)
    u[:], a.data[:] = -0.0, 1.0
    found = statement(a, u, v).compile()()
    assert not np.signbit(found.storage.values).any()
    x = ow.parse("y(i) = U(i,k) * x(k)", U=ow.tensor(u), x=ow.tensor(abs(v[0])),
                 y=ow.empty((40,), dtype=u.dtype))  # fmt: skip
    assert not np.signbit(x.compile()().to_numpy()).any()
