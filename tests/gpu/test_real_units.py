"""Units on a real GPU: the papers' schedules, dynamic chunks, wide warps with named barriers.

`make test-gpu` runs these; `make sanitize-gpu` runs them under compute-sanitizer.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from examples import gpu_schedules as examples

import openwork as ow
from openwork import recipes as r

TARGET = os.environ.get("OPENWORK_GPU_TARGET", "cuda")
if TARGET == "cuda":
    cp = pytest.importorskip("cupy", reason="needs CuPy and a GPU")
    try:
        cp.cuda.runtime.getDeviceCount()
    except Exception as error:
        pytest.skip(f"no GPU: {error}", allow_module_level=True)
    if os.environ.get("OPENWORK_PLAIN_MEMORY"):  # what compute-sanitizer can tell apart
        cp.cuda.set_allocator(None)

ROWS, COLUMNS = 900, 300
rng = np.random.default_rng(0)


def _uneven() -> Any:
    """Rows of 0 to 300 entries, in no order."""
    lengths = np.minimum(COLUMNS, (900 / (1 + np.arange(ROWS))).astype(int))
    rng.shuffle(lengths)
    columns = np.concatenate([np.sort(rng.choice(COLUMNS, n, replace=False)) for n in lengths])
    values = rng.integers(1, 9, lengths.sum()).astype(np.float32)
    pos = np.concatenate([[0], np.cumsum(lengths)])
    return sp.csr_array((values, columns, pos), shape=(ROWS, COLUMNS))


A = _uneven()
a = ow.tensor(A, name="A")


def spmv() -> tuple[Any, Any]:
    """The statement, and what it is to be: whole numbers, which float32 adds exactly."""
    x = rng.integers(0, 5, COLUMNS).astype(np.float32)
    y = ow.empty((ROWS,), dtype="float32", name="y")
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=a, x=ow.tensor(x, name="x"))
    return stmt, A @ x


def spmm(columns: int) -> tuple[Any, Any]:
    B = rng.integers(0, 5, (COLUMNS, columns)).astype(np.float32)
    C = ow.empty((ROWS, columns), dtype="float32", name="C")
    stmt = ow.parse("C(i,k) = A(i,j) * B(j,k)", C=C, A=a, B=ow.tensor(B, name="B"))
    return stmt, A @ B


def right(stmt: Any, want: Any, *words: str) -> None:
    """Several calls give `want`; the text has all of `words`."""
    kernel = stmt.compile(target=TARGET)
    for _ in range(3):
        np.testing.assert_array_equal(kernel().to_numpy(), want)
    for word in words:
        assert word in kernel.source


@pytest.mark.parametrize("name", examples.SCHEDULES)
def test_schedules_of_the_thesis(name: str) -> None:
    stmt, want = spmv()
    right(stmt.schedule(examples.SCHEDULES[name]), want)


@pytest.mark.parametrize("name", examples.SPMM, ids=str)
def test_listings_of_sgap(name: tuple[str, int]) -> None:
    stmt, want = spmm(name[1])
    right(stmt.schedule(examples.SPMM[name]), want)


@pytest.mark.parametrize("group", [4, 16, 32])
@pytest.mark.parametrize("each", [1, 2, 5, 7])
def test_groups_combine_what_their_threads_end_with(each: int, group: int) -> None:
    stmt, want = spmv()
    right(r.position_segments(stmt, each, group), want, f", {group}>(")


LANES = """pos(j,jp,A), split(jp,n,t,{lanes}), order(b,w,t,n),
    parallelize(b,GPUBlock,NoRaces{chunk}), parallelize(w,GPUWarp,NoRaces),
    parallelize(t,GPUThread,{race})"""


@pytest.mark.parametrize("lanes", [64, 96, 256])
def test_wide_units_have_barriers_of_their_own(lanes: int) -> None:
    """A row for each unit of several warps, which reduce its sum."""
    stmt, want = spmv()
    text = "split(i,b,w,4), " + LANES.format(lanes=lanes, chunk="", race="Temporary")
    right(stmt.schedule(text), want, "bar.sync", f"of_unit<add_of_float32, {lanes}>(")


@pytest.mark.parametrize("chunk", [1, 3, 1000])
@pytest.mark.parametrize("lanes", [32, 64])
def test_blocks_take_chunks(lanes: int, chunk: int) -> None:
    stmt, want = spmv()
    how = {"lanes": lanes, "chunk": f",chunk={chunk}", "race": "Temporary"}
    text = "split(i,b,w,4), " + LANES.format(**how)
    right(stmt.schedule(text), want, "next_chunk", "end_chunks")


@pytest.mark.parametrize("chunk", [1, 8])
def test_blocks_with_workspaces_take_chunks(chunk: int) -> None:
    B = sp.random_array((COLUMNS, 700), density=0.05, rng=rng, format="csr")
    B.data = np.ceil(B.data * 5).astype(np.float32)
    C = ow.empty((ROWS, 700), dtype="float32", name="C")
    stmt = ow.parse("C(i,k) = A(i,j) * B(j,k)", C=C, A=a, B=ow.tensor(B.astype("float32")))
    text = f"""precompute(A(i,j)*B(j,k),k,kw), parallelize(i,GPUBlock,NoRaces,chunk={chunk}),
        parallelize(k,GPUThread,NoRaces), parallelize(kw,GPUThread,NoRaces)"""
    right(stmt.schedule(text), (A @ B).toarray(), "next_chunk")


def test_chunks_of_positions_are_combined() -> None:
    stmt, want = spmv()
    text = """fuse(i,j,f), pos(f,p,A), split(p,b,q,512), split(q,t,n,4),
        parallelize(b,GPUBlock,IgnoreRaces,chunk=2), parallelize(t,GPUThread,Atomics)"""
    right(stmt.schedule(text), want, "next_chunk", "of_segment")
