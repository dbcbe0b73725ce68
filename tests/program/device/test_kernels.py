"""Small programs divided into kernels: who takes an iteration, who stores, and who waits."""

from __future__ import annotations

import pytest
from tests.program.small import (
    COUNT,
    CRD,
    DOUBLE,
    ONE,
    TOTAL,
    TWO,
    WORK,
    ZERO,
    N,
    X,
    Y,
    add,
    loop,
    program,
    times,
    unit,
    vectorized,
    written_out,
)

from openwork.algebra import operators as ops
from openwork.program import nodes as p
from openwork.program.device.host import on_device, with_statuses
from openwork.program.device.verify import verify_device
from openwork.program.gpu_nodes import (
    BLOCK_X,
    LANE,
    THREAD,
    Barrier,
    Combine,
    DeviceProgram,
    Kernel,
    Launch,
    Shared,
    Together,
)
from openwork.program.verify import verify
from openwork.tree import Node, walk

B, W, T, AT = p.Name("b"), p.Name("w"), p.Name("t"), p.Name("at")
FIRST = p.Value(0)


def divided(*body: p.Stmt) -> DeviceProgram:
    whole = program(*body)
    verify(whole)
    device = with_statuses(on_device(whole))
    verify_device(device)
    return device


def kernel(*body: p.Stmt) -> Kernel:
    """The one kernel that `body` becomes."""
    (only,) = divided(*body).kernels
    return only


def found(node: Node, kind: type[Node]) -> list[Node]:
    return [n for n in walk(node) if isinstance(n, kind)]


def blocks(body: p.Stmt) -> p.For:
    return unit(B, "block", N, body)


def threads(body: p.Stmt, count: int = 32, **more: object) -> p.For:
    return unit(T, "thread", count, body, most=count, **more)


PLACE = B * 32 + T
SCALE = p.Store(Y, PLACE, times(X[PLACE], TWO))


# -- iterations -----------------------------------------------------------------------------------


def test_blocks_and_threads_take_an_iteration_each() -> None:
    made = kernel(blocks(threads(SCALE)))
    assert (made.grid, made.warps * made.lanes) == ((N, p.Value(1)), 32)
    (inner,) = (n for n in walk(made.body) if isinstance(n, p.For))
    assert p.Declare(B, BLOCK_X, fixed=True) in found(made.body, p.Declare)  # as many as there are
    assert (inner.begin, inner.end) == (LANE, p.Value(32))
    assert not found(made.body, Barrier)


def test_a_loop_that_nobody_was_given_goes_to_all_threads() -> None:
    made = kernel(vectorized(DOUBLE))
    assert made.warps * made.lanes == 256
    assert made.grid[0] == (N + 255) / 256


def test_what_one_thread_has_to_do_is_a_kernel_of_one() -> None:
    device = divided(loop(DOUBLE))
    assert device.kernels[0].warps * device.kernels[0].lanes == 1
    assert "one thread: the schedule maps these loops to no unit" in device.notes


def test_kernels_run_one_after_the_other() -> None:
    device = divided(blocks(threads(SCALE)), blocks(threads(SCALE)))
    assert len(found(device.host, Launch)) == len(device.kernels) == 2


def test_what_the_host_can_work_out_it_does() -> None:
    count = p.Declare(COUNT, N * 2, fixed=True)
    device = divided(count, unit(B, "block", COUNT, threads(SCALE)))
    assert count in device.host.body
    assert device.kernels[0].grid[0] == COUNT


# -- who stores -----------------------------------------------------------------------------------


def guards(made: Kernel) -> list[p.Expr]:
    return [n.condition for n in walk(made.body) if isinstance(n, p.If)]


def test_one_thread_of_a_block_stores_what_all_know() -> None:
    sums = threads(p.Set(TOTAL, X[T], ops.ADD), reductions=(p.Reduction(TOTAL, ops.ADD, ZERO),))
    made = kernel(blocks(p.block(p.Declare(TOTAL, ZERO), sums, p.Store(Y, B, TOTAL))))
    assert guards(made) == [p.compare("==", THREAD, 0)]
    (together,) = found(made.body, Together)
    assert isinstance(together, Together) and (together.lanes, together.op) == (32, ops.ADD)


def test_one_lane_of_a_warp_stores_what_all_know() -> None:
    sums = threads(p.Set(TOTAL, X[T], ops.ADD), reductions=(p.Reduction(TOTAL, ops.ADD, ZERO),))
    rows = unit(W, "warp", 4, p.block(p.Declare(TOTAL, ZERO), sums, p.Store(Y, B * 4 + W, TOTAL)))
    assert guards(kernel(blocks(rows))) == [p.compare("==", LANE, 0)]


def test_threads_that_are_apart_store_for_themselves() -> None:
    assert guards(kernel(blocks(threads(SCALE)))) == []


# -- the last stores of threads -------------------------------------------------------------------

LAST = p.Store(Y, T / 4, X[PLACE], ops.ADD, atomic=True, last=True)


def combined(body: p.Stmt) -> int | None:
    """Within how many threads the one marked store of a kernel is combined; None: it is not."""
    made = kernel(blocks(body))
    combines = [n for n in found(made.body, Combine) if isinstance(n, Combine)]
    stores = [n for n in found(made.body, p.Store) if isinstance(n, p.Store) and n.last]
    assert bool(combines) is not bool(stores) and len(combines) < 2
    assert all(c.reduction == "segment" and c.array == Y for c in combines)
    return combines[0].group if combines else None


def test_warps_combine_the_last_stores_of_their_threads() -> None:
    assert combined(threads(LAST)) == 32
    assert combined(threads(LAST, 256)) == 32
    assert combined(threads(LAST, 8)) == 8
    assert combined(unit(W, "warp", 4, threads(LAST, 64))) == 32
    assert combined(threads(LAST, group=16, reduction="segment")) == 16
    either = p.If(p.compare("<", T, 5), p.block(LAST), p.block(SCALE, LAST))
    assert combined(threads(p.block(either))) == 32


def test_all_threads_take_part_in_each_round() -> None:
    made = kernel(blocks(unit(T, "thread", N, p.block(LAST), count=64)))
    rounds, own = (n for n in walk(made.body) if isinstance(n, p.For) and n.var != B)
    assert isinstance(rounds, p.For) and isinstance(own, p.For)
    assert rounds.begin == p.Value(0) and rounds.step == p.Value(64) and own.once
    assert own.begin == rounds.var + LANE and found(rounds.body, Combine)


def test_stores_that_no_warp_can_combine_are_atomic() -> None:
    assert combined(threads(LAST, 40)) is None  # a part of a warp
    assert combined(threads(loop(LAST))) is None  # more than one of a thread
    assert combined(threads(p.block(LAST, LAST))) is None
    assert combined(unit(W, "warp", 3, threads(LAST, 12))) is None


# -- who waits ------------------------------------------------------------------------------------

FILL = threads(p.Store(WORK, T, X[PLACE]))
READ = threads(p.Store(Y, PLACE, WORK[p.arithmetic("-", p.Value(31), T)]))
STAGED = (p.Allocate(WORK, p.Value(32)), FILL, READ)


def test_a_block_waits_between_a_store_and_another_threads_load() -> None:
    made = kernel(blocks(p.block(*STAGED)))
    (memory,) = found(made.body, Shared)
    assert isinstance(memory, Shared) and memory.count == 32
    assert found(made.body, Barrier) == [Barrier(None)]
    kinds = [type(n) for n in walk(made.body) if isinstance(n, (Barrier, p.Store))]
    assert kinds == [p.Store, Barrier, p.Store]


def test_a_block_waits_before_it_uses_memory_again() -> None:
    again = p.For(AT, FIRST, N, p.block(FILL, READ))
    made = kernel(blocks(p.block(STAGED[0], again)))
    assert len(found(made.body, Barrier)) == 2


def test_warps_wait_before_their_next_iteration_uses_memory_again() -> None:
    once = kernel(blocks(unit(W, "warp", 4, p.block(*STAGED), most=4)))
    often = kernel(blocks(unit(W, "warp", N, p.block(*STAGED), count=4)))
    assert [len(found(made.body, Barrier)) for made in (once, often)] == [1, 2]


def test_a_warp_waits_for_its_lanes_alone() -> None:
    made = kernel(blocks(unit(W, "warp", 4, p.block(*STAGED), most=4)))
    assert set(found(made.body, Barrier)) == {Barrier(32)}
    (memory,) = found(made.body, Shared)
    assert isinstance(memory, Shared) and memory.count == 4 * 32  # each has its own


def test_warps_combine_a_scalar_in_one_place_however_often() -> None:
    def combined(count: int) -> list[p.Stmt]:
        sums = (p.Reduction(TOTAL, ops.ADD, ZERO),)
        summed = threads(p.Set(TOTAL, X[T], ops.ADD), count, reductions=sums)
        return [p.Set(TOTAL, ZERO), summed, p.Store(Y, B, TOTAL)]

    body = p.block(p.Declare(TOTAL, ONE), *combined(64), *combined(128))
    made = kernel(blocks(body))
    (memory,) = found(made.body, Shared)
    assert isinstance(memory, Shared) and memory.count == 128 // 32
    for together in found(made.body, Together):
        assert isinstance(together, Together) and together.sums == memory.array


def test_a_workspace_that_nobody_reads_or_writes_takes_no_memory() -> None:
    used = kernel(blocks(p.block(*STAGED)))
    idle = kernel(blocks(p.block(STAGED[0], threads(SCALE))))
    assert found(used.body, Shared) and not found(idle.body, Shared)
    assert not idle.scratch


def test_nobody_waits_for_what_nobody_stores() -> None:
    reads = threads(p.Store(Y, PLACE, add(X[PLACE], X[T])))
    assert not found(kernel(blocks(p.block(reads))).body, Barrier)


def test_registers_of_a_thread_need_no_barrier() -> None:
    body = p.block(
        p.Local(WORK, 4),
        written_out(AT, 4, p.Store(WORK, AT, X[T * 4 + AT])),
        written_out(AT, 4, p.Store(Y, T * 4 + AT, WORK[AT])),
    )
    made = kernel(blocks(threads(body)))
    assert not found(made.body, Barrier) and not found(made.body, Shared)


# -- groups ---------------------------------------------------------------------------------------

ATOMIC = p.Store(Y, p.Convert(CRD[PLACE], "int64"), X[PLACE], ops.ADD, atomic=True)


@pytest.mark.parametrize("reduction", ["segment", "parallel"])
def test_groups_combine_what_they_add_to_one_place(reduction: str) -> None:
    grouped = threads(ATOMIC, count=20, group=8, reduction=reduction)
    made = kernel(blocks(grouped))
    (combine,) = found(made.body, Combine)
    assert isinstance(combine, Combine)
    assert (combine.group, combine.reduction, combine.op) == (8, reduction, ops.ADD)
    inside, last = _ends(made)
    assert inside == p.compare("<", p.Name("t_base") + LANE, 20)
    assert last == p.arithmetic("min", p.Name("t_base") + LANE, p.Value(19))


def _ends(made: Kernel) -> tuple[p.Expr, p.Expr]:
    """Whether a thread has an iteration, and which it takes otherwise: the last, once more."""
    known = {n.name.name: n.value for n in walk(made.body) if isinstance(n, p.Declare)}
    return known["in_range"], known["t"]


def test_threads_past_the_end_store_nothing() -> None:
    plain = p.Store(Y, PLACE, ONE)
    made = kernel(blocks(threads(p.block(ATOMIC, plain), count=20, group=8, reduction="segment")))
    inside = p.Name("in_range", "bool")
    guarded = [n for n in walk(made.body) if isinstance(n, p.If) and n.condition == inside]
    assert any(plain in walk(n) for n in guarded)
