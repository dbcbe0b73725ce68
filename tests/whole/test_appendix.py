"""The CPU schedules of the thesis's appendix, and of figure 7-1, on real matrices and tensors.

Every schedule is written twice, by methods and as text, as the appendix has it. For order 3 the
appendix names i1 and i2 in `order` before `split` makes them; `i` is meant, as in the others. Where
it names a TILE_SIZE or CHUNK_SIZE without a value, some are chosen here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import openwork as ow
from openwork import OutputRaceStrategy, ParallelUnit

pytestmark = [pytest.mark.needs_cc, pytest.mark.needs_data]

Find = Callable[[str], Path]
Statement = Any
COLUMNS = 12  # not a multiple of the vector's length or of a tile's
MATRICES = ("cage10", "bcsstk16", "ca-CondMat", "lp_fit2p")
i, j, k, l, m, n = ow.indices("i j k l m n")
i0, i1, i2 = ow.indices("i0 i1 i2")
THREADS = (ParallelUnit.CPUThread, OutputRaceStrategy.NoRaces)


@pytest.fixture(params=[1, 2], ids=["1 thread", "2 threads"], autouse=True)
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    ow.set_num_threads(request.param)
    yield
    ow.set_num_threads(None)


def both(statement: Statement, scheduled: Statement, text: str) -> Statement:
    """`scheduled`, which `text` must be as well."""
    assert statement.schedule(text) == scheduled
    assert statement.schedule(scheduled.commands) == scheduled
    return scheduled


def agrees(statement: Statement, expected: Any, scale: Any) -> None:
    """The statement computes `expected`, up to rounding in sums whose terms add up to `scale`."""
    kernel = statement.compile()
    for _ in range(2):  # the second call reuses what the first has bound
        assert (abs(kernel().to_numpy() - expected) <= 1e-12 * (scale + 1)).all()


# --- Matrices ----------------------------------------------------------------------------------


@pytest.fixture(params=MATRICES)
def A(request: pytest.FixtureRequest, data_file: Find) -> ow.Tensor:
    return matrix(data_file(f"{request.param}.mtx.gz"))


@cache
def matrix(file: Path) -> ow.Tensor:
    return ow.read(file, name="A").astype("float64").to(ow.CSR)


def spmv(A: ow.Tensor) -> tuple[Statement, Any, Any]:
    x = np.random.default_rng(0).random(A.shape[1])
    y = ow.empty(A.shape[0], name="y")
    matrix = A.to_scipy()
    return ow.assign(y[i], A[i, j] * ow.tensor(x, name="x")[j]), matrix @ x, abs(matrix) @ x


def spmm(A: ow.Tensor) -> tuple[Statement, Any, Any]:
    B = np.random.default_rng(0).random((A.shape[1], COLUMNS))
    C = ow.empty((A.shape[0], COLUMNS), name="C")
    matrix = A.to_scipy()
    statement = ow.assign(C[i, k], A[i, j] * ow.tensor(B, name="B")[j, k])
    return statement, matrix @ B, abs(matrix) @ B


def test_a1_spmv(A: ow.Tensor) -> None:
    stmt, *expected = spmv(A)
    scheduled = stmt.split(i, i0, i1, 32).order(i0, i1, j).parallelize(i0, *THREADS)
    text = "split(i,i0,i1,32), order({i0,i1,j}), parallelize(i0,CPUThread,NoRaces)"
    agrees(both(stmt, scheduled, text), *expected)


@pytest.mark.parametrize("chunk_size", [16, 1000])
def test_figure_7_1_spmv_over_positions(A: ow.Tensor, chunk_size: int) -> None:
    stmt, *expected = spmv(A)
    p, p0, p1 = ow.indices("p p0 p1")
    scheduled = (
        stmt.fuse(i, j, k)
        .pos(k, p, A[i, j])
        .split(p, p0, p1, chunk_size)
        .parallelize(p0, ParallelUnit.CPUThread, OutputRaceStrategy.Atomics)
    )
    text = f"""fuse(i, j, k), pos(k, p, A(i,j)), split(p, p0, p1, {chunk_size}),
               parallelize(p0, CPUThread, Atomics)"""
    agrees(both(stmt, scheduled, text), *expected)


def test_a3_spmm(A: ow.Tensor) -> None:
    stmt, *expected = spmm(A)
    jpos, jpos0, jpos1 = ow.indices("jpos jpos0 jpos1")
    scheduled = (
        stmt.split(i, i0, i1, 8)
        .pos(j, jpos, A[i, j])
        .split(jpos, jpos0, jpos1, 8)
        .order(i0, i1, jpos0, k, jpos1)
        .parallelize(i0, *THREADS)
        .parallelize(k, ParallelUnit.CPUVector, OutputRaceStrategy.IgnoreRaces)
    )
    text = """split(i,i0,i1,8), pos(j,jpos,A(i,j)), split(jpos,jpos0,jpos1,8),
              order({i0,i1,jpos0,k,jpos1}), parallelize(i0,CPUThread,NoRaces),
              parallelize(k,CPUVector,IgnoreRaces)"""
    agrees(both(stmt, scheduled, text), *expected)


@pytest.mark.parametrize("tile_size", [4, 32])
def test_a12_spmm_tiled(A: ow.Tensor, tile_size: int) -> None:
    stmt, *expected = spmm(A)
    jpos, jpos0, jpos1 = ow.indices("jpos jpos0 jpos1")
    scheduled = (
        stmt.pos(j, jpos, A[i, j]).split(jpos, jpos0, jpos1, tile_size).order(i, jpos0, k, jpos1)
    )
    text = f"pos(j,jpos,A(i,j)), split(jpos,jpos0,jpos1,{tile_size}), order({{i,jpos0,k,jpos1}})"
    agrees(both(stmt, scheduled, text), *expected)


def test_a13_spmm_not_tiled(A: ow.Tensor) -> None:
    stmt, *expected = spmm(A)
    agrees(stmt, *expected)
    for order in ((i, j, k), (i, k, j)):
        agrees(stmt.order(*order), *expected)


# --- Tensors -----------------------------------------------------------------------------------


@cache
def read(file: Path, order: int) -> ow.Tensor:
    """A tensor without its last modes, which are summed over, and without unused coordinates."""
    coordinates, values = ow.read(file).to_coo()
    used = [np.unique(c, return_inverse=True) for c in coordinates[:order]]
    data = (np.array([place for _, place in used]), values.astype("float64"))
    shape = tuple(found.size for found, _ in used)
    return ow.tensor(data, shape=shape, format=ow.CSF(order), name="B")


def mttkrp(B: ow.Tensor) -> tuple[ow.Tensor, list[ow.Tensor], Any]:
    """The result, the factors, and what SciPy computes."""
    rng = np.random.default_rng(0)
    factors = [rng.random((extent, COLUMNS)) for extent in B.shape[1:]]
    (rows, *others), values = B.to_coo()
    products = values[:, None] * np.ones(COLUMNS)
    for factor, place in zip(factors, others, strict=True):
        products = products * factor[place]
    place = (rows, np.arange(values.size))
    sums = sp.coo_array((np.ones(values.size), place), shape=(B.shape[0], values.size))
    tensors = [ow.tensor(f, name=name) for f, name in zip(factors, "CDEF", strict=False)]
    return ow.empty((B.shape[0], COLUMNS), name="A"), tensors, sums.tocsr() @ products


def workspace(name: str) -> ow.Tensor:
    return ow.empty(COLUMNS, name=name)


@pytest.mark.parametrize("name", ["splatt_med", "debian_contents_3d"])
def test_a5_mttkrp_of_order_3(name: str, data_file: Find) -> None:
    B = read(data_file(f"{name}.tns.gz"), 3)
    A, (C, D), expected = mttkrp(B)
    precomputed = B[i, k, l] * D[l, j]
    stmt = ow.assign(A[i, j], precomputed * C[k, j])
    scheduled = (
        stmt.order(i, k, l, j)
        .precompute(precomputed, j, j, workspace("precomputed"))
        .split(i, i1, i2, 32)
        .parallelize(i1, *THREADS)
    )
    text = """order({i,k,l,j}), precompute(B(i,k,l) * D(l,j), j, j, precomputed),
              split(i, i1, i2, 32), parallelize(i1, CPUThread, NoRaces)"""
    agrees(scheduled, expected, abs(expected))
    assert str(stmt.schedule(text).loops) == str(scheduled.loops)


@pytest.mark.parametrize("name", ["splatt_med5", "flights_nyc13_5d"])
def test_a6_mttkrp_of_order_4(name: str, data_file: Find) -> None:
    B = read(data_file(f"{name}.tns.gz"), 4)
    A, (C, D, E), expected = mttkrp(B)
    BE = B[i, k, l, m] * E[m, j]
    BDE = BE * D[l, j]
    stmt = ow.assign(A[i, j], BDE * C[k, j])
    scheduled = (
        stmt.order(i, k, l, m, j)
        .precompute(BDE, j, j, workspace("BDE_workspace"))
        .precompute(BE, j, j, workspace("BE_workspace"))
        .split(i, i1, i2, 32)
        .parallelize(i1, *THREADS)
    )
    text = """order({i,k,l,m,j}),
              precompute(B(i,k,l,m) * E(m,j) * D(l,j), j, j, BDE_workspace),
              precompute(B(i,k,l,m) * E(m,j), j, j, BE_workspace),
              split(i, i1, i2, 32), parallelize(i1, CPUThread, NoRaces)"""
    agrees(scheduled, expected, abs(expected))
    assert str(stmt.schedule(text).loops) == str(scheduled.loops)


@pytest.mark.parametrize("name", ["splatt_med5", "flights_nyc13_5d"])
def test_a7_mttkrp_of_order_5(name: str, data_file: Find) -> None:
    B = read(data_file(f"{name}.tns.gz"), 5)
    A, (C, D, E, F), expected = mttkrp(B)
    BF = B[i, k, l, m, n] * F[n, j]
    BEF = BF * E[m, j]
    BDEF = BEF * D[l, j]
    stmt = ow.assign(A[i, j], BDEF * C[k, j])
    scheduled = (
        stmt.order(i, k, l, m, n, j)
        .precompute(BDEF, j, j, workspace("BDEF_workspace"))
        .precompute(BEF, j, j, workspace("BEF_workspace"))
        .precompute(BF, j, j, workspace("BF_workspace"))
        .split(i, i1, i2, 32)
        .parallelize(i1, *THREADS)
    )
    text = """order({i,k,l,m,n,j}),
              precompute(B(i,k,l,m,n) * F(n,j) * E(m,j) * D(l,j), j, j, BDEF_workspace),
              precompute(B(i,k,l,m,n) * F(n,j) * E(m,j), j, j, BEF_workspace),
              precompute(B(i,k,l,m,n) * F(n,j), j, j, BF_workspace),
              split(i, i1, i2, 32), parallelize(i1, CPUThread, NoRaces)"""
    agrees(scheduled, expected, abs(expected))
    assert str(stmt.schedule(text).loops) == str(scheduled.loops)
