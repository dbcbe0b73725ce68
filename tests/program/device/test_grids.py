"""Grids of a constant number of blocks, which stride over values or take what is next."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import openwork as ow
from openwork.loops.nodes import Forall
from openwork.loops.plan.undealt import undealt
from openwork.loops.schedule.strides import in_strides
from openwork.tree import walk

rng = np.random.default_rng(4)
MATRIX = sp.random(90, 70, 0.1, format="csr", random_state=rng)
A, x = ow.tensor(MATRIX, name="A"), ow.tensor(rng.random(70), name="x")
ASSIGNED = ["assign=stride", "assign=dynamic", "assign=dynamic,chunk=3"]
UNITS = "parallelize(turn,GPUBlock,NoRaces,threads=64,blocks_per_sm=2), "
ROWS = "split(i,tile,row,8), divide(tile,turn,t1,5,{0}), " + UNITS
PER_ROW = "divide(i,turn,i1,5,{0}), " + UNITS + "parallelize(j,GPUThread,ParallelReduction)"
ENTRIES = """fuse(i,j,f), pos(f,p,A), split(p,tile,q,32), divide(tile,turn,t1,3,{0}),
    parallelize(turn,GPUBlock,IgnoreRaces), parallelize(q,GPUThread,Atomics)"""
SCHEDULES = {
    "rows": ROWS + "parallelize(row,GPUThread,NoRaces)",
    "a block per row": PER_ROW,
    "entries": ENTRIES,
    "positions of a row": "pos(j,p,A), divide(p,turn,p1,4,{0}), parallelize(i,GPUThread,NoRaces)",
}


def spmv() -> Any:
    return ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty((90,), name="y"), A=A, x=x)


def right(stmt: Any, want: Any) -> Any:
    """The kernel, whose repeated calls give `want` in all orders of blocks and threads."""
    kernel = stmt.compile(target="cuda-emulated")
    for call in range(6):
        kernel._launcher.device.order = call % 3
        np.testing.assert_allclose(kernel().to_numpy(), want, rtol=1e-12)
    return kernel


def grids(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The grids that a call of the kernel launches."""
    device, found = kernel._launcher.device, list[tuple[int, int]]()
    launch = device.launch

    def seen(function: Any, grid: tuple[int, int], *more: Any) -> Any:
        found.append(grid)
        return launch(function, grid, *more)

    monkeypatch.setattr(device, "launch", seen)
    kernel()
    return found


@pytest.mark.needs_cc
@pytest.mark.parametrize("assigned", ASSIGNED)
@pytest.mark.parametrize("name", SCHEDULES)
def test_blocks_share_all_values(name: str, assigned: str) -> None:
    right(spmv().schedule(SCHEDULES[name].format(assigned)), MATRIX @ x.to_numpy())


@pytest.mark.needs_cc
@pytest.mark.parametrize("assigned", ASSIGNED)
def test_the_grid_and_its_launch_bounds_are_as_given(
    assigned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = spmv().schedule(SCHEDULES["rows"].format(assigned)).compile(target="cuda-emulated")
    assert "__launch_bounds__(64, 2)" in kernel.source
    assert ("next_chunk(" in kernel.source) == ("dynamic" in assigned)
    assert ("+= gridDim.x" in kernel.source) == ("stride" in assigned)
    assert "__syncthreads" not in kernel.source[kernel.source.rindex("extern") :]
    assert grids(kernel, monkeypatch) == [(5, 1)]


@pytest.mark.needs_cc
def test_blocks_have_the_threads_they_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for units, threads in (("GPUThread", 96), ("GPUWarp", 128)):
        text = f"parallelize(tile,GPUBlock,NoRaces,threads={threads}), parallelize(row,{units})"
        kernel = right(spmv().schedule(f"split(i,tile,row,8), {text}"), MATRIX @ x.to_numpy())
        assert f"__launch_bounds__({threads})" in kernel.source
    text = "parallelize(i,GPUBlock,blocks_per_sm=16), parallelize(j,GPUThread,ParallelReduction)"
    kernel = right(spmv().schedule(text), MATRIX @ x.to_numpy())
    assert "__launch_bounds__(256, 8)" in kernel.source  # no more threads than there can be


@pytest.mark.needs_cc
@pytest.mark.parametrize("assigned", ASSIGNED)
def test_private_copies_of_blocks(assigned: str) -> None:
    stmt = ow.parse("s(j) = A(i,j)", s=ow.empty((70,), name="s"), A=A)
    text = f"divide(i,turn,i1,4,{assigned}), parallelize(turn,GPUBlock,Temporary)"
    right(stmt.schedule(text), np.asarray(MATRIX.sum(axis=0)).ravel())


@pytest.mark.needs_cc
@pytest.mark.parametrize("assigned", ASSIGNED)
def test_a_merge_of_two_operands(assigned: str) -> None:
    """A turn that strides looks both up; one that takes chunks walks each row as a whole."""
    other = sp.random(90, 70, 0.1, format="csr", random_state=rng)
    B = ow.tensor(other, name="B")
    stmt = ow.parse("y(i) = A(i,j) * B(i,j)", y=ow.empty((90,), name="y"), A=A, B=B)
    want = np.asarray(MATRIX.multiply(other).sum(axis=1)).ravel()
    rows = "split(i,tile,row,8), divide(tile,turn,t1,3,{0}), parallelize(turn,GPUBlock,NoRaces)"
    right(stmt.schedule(rows.format(assigned)), want)
    if "stride" in assigned:
        columns = "divide(j,turn,j1,3,assign=stride), order(turn,i,j1), "
        right(stmt.schedule(columns + "parallelize(turn,GPUBlock,Atomics)"), want)


@pytest.mark.needs_cc
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("assigned", ASSIGNED)
def test_threads_of_a_cpu_take_turns(
    assigned: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two turns on three threads, and on one."""
    monkeypatch.setenv("OPENWORK_NUM_THREADS", str(threads))
    text = "divide(i,turn,i1,2,{0}), parallelize(turn,CPUThread,{1})"
    for race in ("NoRaces", "Temporary"):
        kernel = spmv().schedule(text.format(assigned, race)).compile()
        np.testing.assert_allclose(kernel().to_numpy(), MATRIX @ x.to_numpy(), rtol=1e-12)
    source = spmv().schedule(text.format(assigned, "NoRaces")).compile().source
    assert ("while (part < 2) {" in source) == ("dynamic" in assigned)


@pytest.mark.needs_cc
@pytest.mark.parametrize("assigned", ASSIGNED)
@pytest.mark.parametrize("target", ["cpu", "cuda-emulated"])
def test_entries_that_are_records(target: str, assigned: str) -> None:
    Q = ow.entry.quaternion("float64")
    values, vector = rng.random((MATRIX.nnz, 4)), rng.random((70, 4))
    coords = np.array(MATRIX.tocoo().coords)
    B = ow.tensor((coords, values), shape=MATRIX.shape, dtype=Q, format=ow.CSR, name="B")
    v = ow.tensor(vector, dtype=Q, name="v")
    stmt = ow.parse("z(i) = B(i,j) * v(j)", z=ow.empty((90,), dtype=Q, name="z"), B=B, v=v)
    unit = "CPUThread" if target == "cpu" else "GPUBlock"
    stmt = stmt.schedule(f"divide(i,turn,i1,4,{assigned}), parallelize(turn,{unit},NoRaces)")
    want = B.expand().to_numpy() @ v.expand().to_numpy()
    np.testing.assert_allclose(stmt.compile(target=target)().to_numpy().reshape(-1), want)


# -- before and after -----------------------------------------------------------------------------


def test_dealt_loops_become_one() -> None:
    plan = (
        spmv()
        .schedule("divide(i,turn,i1,5,assign=dynamic,chunk=2)")
        .parallelize("turn", "CPUThread")
    )
    assert str(undealt(plan._base).loops).splitlines() == [
        "forall i:  [CPUThread, NoRaces, 2 at a time by 5]",
        "  forall j:",
        "    y(i) += A(i,j) * x(j)",
    ]
    serial = spmv().schedule("divide(i,turn,i1,5,assign=dynamic)")
    assert undealt(serial._base).loops == spmv()._base.loops


def test_blocks_that_stride_become_one_loop() -> None:
    strided = spmv().schedule("divide(i,turn,i1,5,assign=stride)")
    one = in_strides(strided.parallelize("turn", "GPUBlock")._base)
    assert str(one.loops).startswith("forall i:  [GPUBlock, NoRaces by 5]\n  forall j:")
    for apart in (
        strided,
        strided.parallelize("turn", "CPUThread"),
        strided.split("i1", "a", "b", 2),
    ):
        assert in_strides(apart._base) is apart._base
    loops = [n for n in walk(strided._base.loops) if isinstance(n, Forall)]
    assert [str(loop.var) for loop in loops] == ["turn", "i1", "j"]


@pytest.mark.parametrize(
    ("assigned", "code", "words"),
    [("stride", "E312", "appended to in order"), ("dynamic", "E313", "assembled in pieces")],
)
def test_pieces_of_a_sparse_result_are_consecutive(assigned: str, code: str, words: str) -> None:
    C = ow.empty((90, 70), format=ow.CSR, name="C")
    stmt = ow.parse("C(i,j) = A(i,j) + 2 * B(i,j)", C=C, A=A, B=ow.tensor(MATRIX * 3, name="B"))
    with pytest.raises(ow.ScheduleError, match=words) as caught:
        stmt.divide("i", "turn", "i1", 4, assign=assigned)
    assert caught.value.code == code and caught.value.hint
