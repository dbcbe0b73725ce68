"""Blocks that take chunks of iterations from a counter, under the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import openwork as ow

pytestmark = pytest.mark.needs_cc
rng = np.random.default_rng(3)
MATRIX = sp.random(90, 70, 0.1, format="csr", random_state=rng)
A, x = ow.tensor(MATRIX, name="A"), ow.tensor(rng.random(70), name="x")
ROWS = "split(i,b,t,8), parallelize(b,GPUBlock,{0},chunk={1}), parallelize(t,GPUThread,NoRaces)"
ENTRIES = """fuse(i,j,f), pos(f,p,A), split(p,b,q,32), parallelize(b,GPUBlock,IgnoreRaces,chunk=3),
    parallelize(q,GPUThread,Atomics)"""


def spmv() -> Any:
    return ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty((90,), name="y"), A=A, x=x)


def right(stmt: Any, want: Any, **how: Any) -> Any:
    """The kernel, whose repeated calls give `want` in all orders of blocks and threads."""
    kernel = stmt.compile(target="cuda-emulated", **how)
    for call in range(6):
        kernel._launcher.device.order = call % 3
        np.testing.assert_allclose(kernel().to_numpy(), want, rtol=1e-12)
    return kernel


@pytest.mark.parametrize("chunk", [1, 2, 5, 100])
def test_blocks_take_chunks_of_rows(chunk: int) -> None:
    stmt = spmv().schedule(ROWS.format("NoRaces", chunk))
    assert f"{chunk} at a time" in str(stmt.loops) and f"chunk={chunk}" in str(stmt.commands)
    kernel = right(stmt, MATRIX @ x.to_numpy())
    assert f"next_chunk(chunks, {chunk}, " in kernel.source
    assert "blockIdx" not in kernel.source[kernel.source.rindex("extern") :]


@pytest.mark.parametrize("chunk", [2**31 - 5, 2**32, 2**40])
def test_chunks_of_any_length(chunk: int) -> None:
    """In 32 bits, 2**32 was 0: every block took nothing, again and again."""
    assigned = f"divide(i,turn,i1,3,assign=dynamic,chunk={chunk}), parallelize(turn,GPUBlock)"
    for text in (ROWS.format("NoRaces", chunk), assigned):
        kernel = right(spmv().schedule(text), MATRIX @ x.to_numpy())
        assert "typedef long long index_t;" in kernel.source


def test_blocks_that_add_to_the_same_rows() -> None:
    kernel = right(spmv().schedule(ENTRIES), MATRIX @ x.to_numpy())
    assert "next_chunk" in kernel.source and "atomicAdd(&R_vals" in kernel.source


@pytest.mark.parametrize("chunk", [1, 10])
def test_a_constant_number_of_blocks(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the device runs at once, or as there are chunks."""
    text = f"""split(i,b,t,5), bound(t,tb,5,MaxExact), split(j,w,u,128),
        parallelize(b,GPUBlock,NoRaces,chunk={chunk}), parallelize(tb,GPUWarp,NoRaces)"""
    kernel = spmv().schedule(text).compile(target="cuda-emulated")
    device, grids = kernel._launcher.device, list[tuple[int, int]]()
    launch = device.launch

    def seen(function: Any, grid: tuple[int, int], *more: Any) -> Any:
        grids.append(grid)
        return launch(function, grid, *more)

    monkeypatch.setattr(device, "launch", seen)
    kernel()
    threads = int(kernel.source.split("__launch_bounds__(")[1].split(")")[0])
    assert grids == [(min(-(-18 // chunk), 3 * 256 // threads), 1)]


def test_workspaces_are_used_again_for_each_chunk() -> None:
    B = rng.random((70, 32))
    stmt = ow.parse(
        "C(i,k) = A(i,j) * B(j,k)", C=ow.empty((90, 32), name="C"), A=A, B=ow.tensor(B, name="B")
    ).schedule(
        """order(i,j,k), bound(k,kb,32,MaxExact), precompute(A(i,j)*B(j,k),kb,kw),
        split(kb,k0,k1,4), parallelize(i,GPUBlock,NoRaces,chunk=2,resident=1024),
        parallelize(k0,GPUThread,NoRaces), parallelize(kw,GPUThread,NoRaces)"""
    )
    right(stmt, MATRIX @ B)


def test_private_copies_of_blocks() -> None:
    stmt = ow.parse("s(j) = A(i,j)", s=ow.empty((70,), name="s"), A=A)
    stmt = stmt.schedule("split(i,b,t,8), parallelize(b,GPUBlock,Temporary,chunk=2)")
    right(stmt, np.asarray(MATRIX.sum(axis=0)).ravel())


def test_what_is_reproducible_with_chunks() -> None:
    """Who computes a row does not change it; sums by atomics are refused, as ever."""
    stmt = spmv().schedule(ROWS.format("NoRaces", 2))
    right(stmt, MATRIX @ x.to_numpy(), deterministic=True)
    with pytest.raises(ow.ScheduleError, match="E317"):
        spmv().schedule(ENTRIES).compile(target="cuda-emulated", deterministic=True)


def test_a_result_with_the_pattern_of_an_operand() -> None:
    S = ow.empty((90, 70), format=ow.CSR, name="S")
    stmt = ow.parse("S(i,j) = A(i,j) * x(j)", S=S, A=A, x=x)
    right(stmt.schedule(ROWS.format("NoRaces", 2)), (MATRIX.multiply(x.to_numpy())).toarray())


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("split(i,a,b,4), parallelize(a,GPUBlock,NoRaces,chunk=2), "
         "parallelize(b,GPUBlock,NoRaces)", "E315", "another loop for GPUBlock"),
        ("parallelize(i,GPUWarp,NoRaces,chunk=2)", "E303", "no chunks"),
        ("parallelize(i,GPUBlock,NoRaces,chunk=0)", "E303", "chunk"),
    ],
)  # fmt: skip
def test_illegal_chunks(text: str, code: str, words: str) -> None:
    with pytest.raises(ow.ScheduleError, match=words) as caught:
        spmv().schedule(text)
    assert caught.value.code == code and caught.value.hint


def test_a_broken_bound_ends_all_chunks() -> None:
    """A thread that fails leaves its block, which must not wait for it to take the next chunk."""
    stmt = spmv().schedule(
        """pos(j,p,A), bound(p,pb,3,MaxConstraint), split(i,b,t,4),
        parallelize(b,GPUBlock,NoRaces,chunk=1), parallelize(t,GPUThread,NoRaces)"""
    )
    with pytest.raises(ow.DataError, match="E507"):
        stmt.compile(target="cuda-emulated")()
