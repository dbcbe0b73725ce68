"""Barriers stand only where a thread may read what another wrote."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openwork as ow
from openwork.program import nodes as p
from openwork.program.device.ownership import ownership

pytestmark = pytest.mark.needs_cc
T, U, W = p.Name("t"), p.Name("u"), p.Name("w")
OWN, ROW = p.Array("own", "float64"), p.Name("row")
ZERO = p.Value(0.0, "float64")


def by(kind: str, var: p.Name, most: int, *body: p.Stmt) -> p.For:
    return p.For(var, p.Value(0), p.Value(most), p.block(*body), by=p.Unit(kind, most=most))


def store(index: p.Expr) -> p.Store:
    return p.Store(OWN, index, ZERO)


def inner(end: int, *body: p.Stmt) -> p.For:
    return p.For(U, p.Value(0), p.Value(end), p.block(*body))


OWNED = {
    "the iteration itself": (store(T),),
    "runs of elements": (inner(4, store(T * 4 + U)),),
    "strided elements": (inner(4, store(U * 8 + T)),),
    "a row of a matrix": (store(ROW * p.Name("columns") + T),),
    "the same elsewhere": (store(T), p.Store(OWN, T, p.Load(OWN, T))),
}
SHARED = {
    "an element for all": (store(p.Value(0)),),
    "the neighbour's": (store(T), store(T + 1)),
    "runs that overlap": (inner(5, store(T * 4 + U)),),
    "another formula": (store(T), inner(4, store(T * 4 + U))),
    "a loaded index": (store(p.Load(p.Array("crd", "int32"), T)),),
}


@pytest.mark.parametrize("name", [*OWNED, *SHARED])
def test_elements_that_belong_to_a_thread(name: str) -> None:
    body = (OWNED | SHARED)[name]
    found = ownership((by("thread", T, 8, *body),))
    assert (OWN.name in found.threads) == (name in OWNED)


def test_elements_of_warps_belong_to_lanes_only() -> None:
    found = ownership((by("warp", W, 4, by("thread", T, 8, store(T))),))
    assert OWN.name in found.lanes and OWN.name not in found.threads
    found = ownership((by("warp", W, 4, by("thread", T, 8, store(W * 8 + T))),))
    assert OWN.name in found.lanes and OWN.name in found.threads


def test_what_all_threads_of_a_unit_execute_belongs_to_none_of_them() -> None:
    found = ownership((by("warp", W, 4, store(W)),))
    assert not found.lanes and not found.threads


def spmm(columns: int) -> Any:
    rng = np.random.default_rng(columns)
    A = ow.tensor(rng.random((30, 20)) * (rng.random((30, 20)) < 0.3), format=ow.CSR, name="A")
    B = ow.tensor(rng.random((20, columns)), name="B")
    C = ow.empty((30, columns), name="C")
    return ow.parse("C(i,k) = A(i,j) * B(j,k)", C=C, A=A, B=B)


def sources(text: str, columns: int) -> str:
    """The text under a schedule, which gives the right result in all orders."""
    stmt = spmm(columns)
    kernel = stmt.schedule(text).compile(target="cuda-emulated")
    want = stmt.compile()().to_numpy()
    for order in range(3):
        kernel._launcher.device.order = order
        np.testing.assert_allclose(kernel().to_numpy(), want, rtol=1e-12)
    return str(kernel.source)


WORKSPACE = "order(i,j,k), bound(k,kb,{0},MaxExact), precompute(A(i,j)*B(j,k),kb,kw), "


@pytest.mark.parametrize("columns", [5, 32, 96])
def test_a_thread_per_column_needs_no_barrier(columns: int) -> None:
    text = sources(
        WORKSPACE.format(columns) + "parallelize(i,GPUBlock,NoRaces), "
        "parallelize(kb,GPUThread,NoRaces), parallelize(kw,GPUThread,NoRaces)",
        columns,
    )
    assert "__shared__" in text and "sync" not in text and "threadIdx.x == 0" not in text


def test_units_with_runs_of_columns_need_no_barrier() -> None:
    text = sources(
        WORKSPACE.format(32) + "split(i,b,w,4), split(kb,k0,k1,4), split(kw,w0,w1,4), "
        "parallelize(b,GPUBlock,NoRaces), parallelize(w,GPUWarp,NoRaces), "
        "parallelize(k0,GPUThread,NoRaces), parallelize(w0,GPUThread,NoRaces)",
        32,
    )
    assert "__shared__" in text and "sync" not in text


def test_threads_that_read_the_columns_of_others_wait() -> None:
    text = sources(
        WORKSPACE.format(32) + "split(kb,k0,k1,4), parallelize(i,GPUBlock,NoRaces), "
        "parallelize(k0,GPUThread,NoRaces), parallelize(kw,GPUThread,NoRaces)",
        32,
    )
    assert "__syncthreads();" in text or "__syncwarp(" in text
