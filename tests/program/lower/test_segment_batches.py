"""Batches of positions: terms are loaded before it is known where rows end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import openwork as ow
from openwork import recipes

RNG = np.random.default_rng(5)
LENGTHS = {
    "uneven": [0, 0, 40, 1, 0, 0, 0, 3, 33, 0, 1, 1, 1, 0, 64, 0, 0],
    "one row": [0] * 20 + [57] + [0] * 20,
    "short": [1, 0] * 40,
    "few": [0, 2, 0],
    "none": [0, 0, 0],
}


def matrix(lengths: list[int], dtype: str = "float32") -> Any:
    rows = np.repeat(np.arange(len(lengths)), lengths)
    columns = np.concatenate([np.arange(n) for n in lengths] or [[]]).astype(int)
    values = RNG.integers(1, 9, rows.size).astype(dtype)
    return sp.csr_array((values, (rows, columns)), shape=(len(lengths), 70))


@pytest.mark.parametrize("name", LENGTHS)
@pytest.mark.parametrize("each,unroll", [(4, 4), (8, 4), (8, 2), (6, 4), (32, 8)])
def test_rows_of_any_length(name: str, each: int, unroll: int) -> None:
    S = matrix(LENGTHS[name])
    x = RNG.integers(1, 9, 70).astype("float32")
    A = ow.tensor(S, name="A")
    y = ow.empty((S.shape[0],), dtype="float32", name="y")
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=ow.tensor(x, name="x"))
    kernel = recipes.position_split(stmt, each, 32, unroll).compile("cuda-emulated")
    np.testing.assert_array_equal(kernel().to_numpy(), S @ x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("columns", [8, 6])
def test_columns(dtype: str, columns: int) -> None:
    S = matrix(LENGTHS["uneven"], dtype)
    B = RNG.integers(1, 9, (70, columns)).astype(dtype)
    C = ow.empty((S.shape[0], columns), dtype=dtype, name="C")
    A = ow.tensor(S, name="A")
    stmt = ow.parse("C(i,k) = A(i,j) * B(j,k)", C=C, A=A, B=ow.tensor(B, name="B"))
    kernel = recipes.spmm_positions(stmt, 8, unroll=4, threads=32).compile("cuda-emulated")
    np.testing.assert_array_equal(kernel().to_numpy(), S @ B)


def test_wide_loads_of_a_batch_and_no_search() -> None:
    S = matrix(LENGTHS["uneven"])
    y = ow.empty((S.shape[0],), dtype="float32", name="y")
    x = ow.tensor(np.ones(70, "float32"), name="x")
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=ow.tensor(S, name="A"), x=x)
    source = recipes.position_split(stmt, 8, unroll=4).compile("cuda").source
    main = source[source.rindex('extern "C"') :]
    assert "*(const Vector<int32_t, 4> *)&A_crd2[" in main
    assert "*(const Vector<float, 4> *)&A_vals[" in main
    assert "last_at_most" not in main  # the first row of each thread is stored


def test_tiles_that_are_no_multiples_search_their_first_row() -> None:
    S = matrix(LENGTHS["uneven"])
    x = RNG.integers(1, 9, 70).astype("float32")
    y = ow.empty((S.shape[0],), dtype="float32", name="y")
    stmt = ow.parse(
        "y(i) = A(i,j) * x(j)", y=y, A=ow.tensor(S, name="A"), x=ow.tensor(x, name="x")
    ).schedule(
        "fuse(i,j,f), pos(f,p,A(i,j),parents=stored), split(p,block,tile,20), "
        "split(tile,thread,entry,8), unroll(entry,4), parallelize(block,GPUBlock,IgnoreRaces), "
        "parallelize(thread,GPUThread,Atomics)"
    )
    kernel = stmt.compile("cuda-emulated")
    np.testing.assert_array_equal(kernel().to_numpy(), S @ x)


def test_a_term_that_depends_on_the_row_is_not_batched() -> None:
    S = matrix(LENGTHS["uneven"])
    x, z = (RNG.integers(1, 9, n).astype("float32") for n in (70, S.shape[0]))
    y = ow.empty((S.shape[0],), dtype="float32", name="y")
    named = {"A": ow.tensor(S, name="A"), "x": ow.tensor(x, name="x"), "z": ow.tensor(z, name="z")}
    stmt = ow.parse("y(i) = A(i,j) * x(j) * z(i)", y=y, **named).schedule(
        "fuse(i,j,f), pos(f,p,A(i,j)), split(p,block,tile,64), split(tile,thread,entry,8), "
        "unroll(entry,4), parallelize(block,GPUBlock,IgnoreRaces), "
        "parallelize(thread,GPUThread,Atomics)"
    )
    kernel = stmt.compile("cuda-emulated")
    np.testing.assert_array_equal(kernel().to_numpy(), (S @ x) * z)


def test_another_semiring() -> None:
    S = matrix(LENGTHS["uneven"], "float64")
    x = RNG.integers(1, 9, 70).astype("float64")
    y = ow.empty((S.shape[0],), name="y")
    i, j = ow.indices("i j")
    A, v = ow.tensor(S, name="A"), ow.tensor(x, name="x")
    stmt = ow.assign(y[i], A[i, j] * v[j], semiring="max_times")
    kernel = recipes.position_split(stmt, 8, 32, 4).compile("cuda-emulated")
    want = [max([0.0, *(a * x[c] for a, c in zip(S[[r]].data, S[[r]].indices, strict=True))])
            for r in range(S.shape[0])]  # fmt: skip
    np.testing.assert_array_equal(kernel().to_numpy(), want)
