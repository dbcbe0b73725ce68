"""A test for each rule of programs for a GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.program.small import N, X, Y, program

from openwork.algebra import operators as ops
from openwork.errors import InternalError
from openwork.program import nodes as p
from openwork.program.device.kernels import with_body
from openwork.program.device.verify import verify_device
from openwork.program.gpu_nodes import (
    LANE,
    THREAD,
    WARP,
    Barrier,
    DeviceProgram,
    Kernel,
    Launch,
    Shared,
    Together,
)

I, J = p.Name("i"), p.Name("j")
ZERO = p.Value(0)
COPY = p.Store(Y, I, X[I])
ALL = p.For(I, THREAD, N, p.block(COPY), step=p.Value(64))
LANES = p.Declare(LANE, THREAD % 32, fixed=True)
WARPS = p.Declare(WARP, THREAD / 32, fixed=True)


def device(
    *body: p.Stmt, warps: int = 2, lanes: int = 32, host: tuple[p.Stmt, ...] = (Launch("k"),)
) -> DeviceProgram:
    kernel = Kernel("k", p.Block(()), warps, lanes, (p.Value(1), p.Value(1)))
    return DeviceProgram(program(), p.block(*host), (with_body(kernel, p.block(*body)),))


def loop(begin: p.Expr, end: p.Expr, *body: p.Stmt) -> p.For:
    return p.For(J, begin, end, p.block(*body), step=p.Value(2))


RIGHT = {
    "threads share a loop": device(ALL),
    "all come to a barrier": device(ALL, Barrier(), ALL),
    "a loop that is the same for all": device(loop(ZERO, N, Barrier())),
    "units of their own": device(WARPS, loop(WARP, N, Barrier(32))),
    "one thread by itself": device(loop(THREAD, N, Barrier()), warps=1, lanes=1),
    "a condition on data": device(p.If(X[ZERO] < p.Value(1.0, "float64"), p.block(Barrier()))),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_passes(name: str) -> None:
    verify_device(RIGHT[name])


K = p.Name("k_size")
OWN = p.Array("own", "float64")
TOTAL = p.Name("total", "float64")
WRONG = {
    "a kernel that is not there": (device(ALL, host=(Launch("other"),)), "no kernel other"),
    "a scalar that the host has not": (device(loop(ZERO, K)), "k_size is used before"),
    "an array that nobody allocates": (
        device(p.Store(OWN, ZERO, X[ZERO])),
        "array own is used before it exists",
    ),
    "an operand that is written": (device(p.Store(X, ZERO, X[ZERO])), f"writes to {X.name}"),
    "a name before its declaration": (
        device(p.Declare(I, J, fixed=True), p.Declare(J, ZERO, fixed=True)),
        "j is used before",
    ),
    "too many threads": (device(ALL, warps=64), "blocks of 2048 threads"),
    "units that cannot meet": (
        device(WARPS, loop(WARP, N, Barrier(48)), warps=2, lanes=48),
        "units of 48 threads",
    ),
    "an array without elements": (device(Shared(OWN, 0), ALL), "without elements: own"),
    "too much shared memory": (device(Shared(OWN, 8 << 10), ALL), "more shared memory"),
    "shared memory declared twice": (
        device(Shared(OWN, 8), Shared(OWN, 8), p.Store(OWN, ZERO, X[ZERO])),
        "array own is declared twice",
    ),
    "shared memory of nobody": (device(Shared(OWN, 8), ALL), "uses no own"),
    "warps that combine nowhere": (
        device(p.Declare(TOTAL, p.Value(0.0, "float64")), Together(TOTAL, ops.ADD, ZERO, 64)),
        "total has no memory",
    ),
    "a barrier of some threads": (
        device(p.If(p.compare("==", THREAD, 0), p.block(Barrier()))),
        "a barrier that not all",
    ),
    "a barrier in a loop that threads leave": (device(loop(THREAD, N, Barrier())), "not all"),
    "a barrier of the block in one unit": (device(WARPS, loop(WARP, N, Barrier())), "not all"),
    "a barrier of a unit for some lanes": (
        device(LANES, p.If(p.Value(3) > LANE, p.block(Barrier(32)))),
        "not all",
    ),
    "a barrier by a number of the thread's own": (
        device(p.Declare(I, THREAD * 3, fixed=True), loop(I, N, Barrier())),
        "not all",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_refused(name: str) -> None:
    program, message = WRONG[name]
    with pytest.raises(InternalError, match=message):
        verify_device(program)


def test_scratch_is_the_kernels_own() -> None:
    made = device(p.Store(OWN, ZERO, X[ZERO]))
    host = p.block(p.Allocate(OWN, N), Launch("k"))
    verify_device(replace(made, host=host))
