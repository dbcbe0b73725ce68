"""What threads share: small programs, interpreted and as C, and races that are noticed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.program.small import shared

from openwork.algebra import operators as ops
from openwork.algebra.operators import Op
from openwork.errors import InternalError
from openwork.index.define import operator
from openwork.program import contract, nodes as p
from openwork.program.contract import BROKEN_BOUND, INTERRUPTED, NO_MEMORY, OK, OVERFLOWED
from openwork.program.elements import applied
from openwork.program.interpret.interpret import interpret
from openwork.program.simplify.simplify import simplify
from openwork.program.verify import verify
from openwork.render.c.c import render, render_all
from openwork.runtime.host.launch import BoundBroken, Executable
from openwork.runtime.host.library import load
from openwork.runtime.storage import Array

pytestmark = pytest.mark.needs_cc

TYPES = ("float32", "float64", "int32", "int64", "uint8", "bool", "complex64", "complex128")
# (1 + a)(1 + b) - 1
BOTH = operator("both", lambda a, b: a + b + a * b, identity=0, commutative=True, associative=True)
OPS = {op.name: op for op in (ops.ADD, ops.MUL, ops.MIN, ops.MAX, BOTH)}
THREADS = (1, 4)
I, J, N, M = p.Name("i"), p.Name("j"), p.Name("n"), p.Name("m")
COUNT, AT = p.Name("count"), p.Name("at")
X, Y, CRD = p.Array("x", "float64"), p.Array("y", "float64"), p.Array("crd", "int32")

every_type = pytest.mark.parametrize("type", TYPES)
every_op = pytest.mark.parametrize("op", OPS.values(), ids=str)
every_count = pytest.mark.parametrize("threads", THREADS)


def program(*body: p.Stmt, type: str = "float64", made: p.Expr | None = None) -> p.Program:
    """A program over operands x and crd, and a result y; n and m are sizes."""
    arguments = [
        p.Argument(p.Array("x", type), "x", -1, "values", "operand"),
        p.Argument(CRD, "x", 0, "crd", "operand"),
        p.Argument(p.Array("y", type), "y", -1, "values", "result"),
    ]
    if made is not None:
        arguments.append(p.Argument(p.Array("z", type), "z", -1, "values", "made", made))
    return p.Program(tuple(arguments), (N, M), p.block(*body))


def run(
    whole: p.Program, x: Array, crd: Array, y: Array, threads: int, function: Any = None
) -> int:
    """Interpret and compile `whole`; y becomes the result, on which both have to agree."""
    verify(whole)
    whole = simplify(whole)
    verify(whole)
    theirs = y.copy()
    sizes = (len(x), len(y))
    status, _ = interpret(whole, [x, crd, theirs], [threads, 0, *sizes], seed=threads)
    compiled = run_compiled(whole, [x, crd, y], sizes, threads, function=function)
    assert compiled == status
    if status == OK:
        np.testing.assert_array_equal(y, theirs)
    return status


def run_compiled(
    whole: p.Program,
    arrays: Sequence[Array],
    sizes: Sequence[int],
    threads: int,
    stop: int = 0,
    function: Any = None,
) -> int:
    """The status of `whole` as C, or of the `function` that it has been compiled to."""
    if function is None:
        function = load(render(whole), optimize="-O1").kernel
    executable = Executable(whole, function)
    flag = np.array([stop], np.int32)
    pointers = executable._pointers(flag.ctypes.data, *(array.ctypes.data for array in arrays))
    return int(executable._function(pointers, executable.sizes(threads, 0, sizes)))


def elements(op: Op, type: str, count: int, seed: int = 0) -> Array:
    """Elements whose combination by `op` is exact in any order."""
    rng = np.random.default_rng(seed)
    if op.name in ("mul", "both"):
        few = rng.choice([-1, 2, 3], count).astype(np.float64) - (op is BOTH)
        neutral = 1.0 - (op is BOTH)
        numbers = np.where(rng.random(count) < 8 / count, few, neutral)
    else:
        numbers = rng.integers(-5, 6, count).astype(np.float64)
    if type.startswith("complex") and op.name != "mul":
        return (numbers + 1j * rng.integers(-1, 2, count) * (op is not BOTH)).astype(type)
    return numbers.astype(np.int64).astype(type) if type == "uint8" else numbers.astype(type)


def combined(op: Op, first: Array, values: Array, places: Array) -> Array:
    """What an update after the other makes of `first`."""
    result = first.copy()
    with np.errstate(all="ignore"):
        for value, place in zip(values, places, strict=True):
            result[place] = op.ufunc(np.asarray(result[place]), np.asarray(value))
    return result


def every_type_agrees(
    op: Op, programs: dict[str, p.Program], places: int, threads: int, count: int = 400
) -> None:
    """Compile the `programs`, one for each type, together; x is combined into `places` of y."""
    library = load(render_all(programs), optimize="-O1")
    crd = np.random.default_rng(2).integers(0, places, count).astype(np.int32)
    for type, whole in programs.items():
        x, y = elements(op, type, count), elements(op, type, places, seed=1)
        expected = combined(op, y, x, crd)
        assert run(whole, x, crd, y, threads, getattr(library, type)) == OK
        np.testing.assert_array_equal(y, expected, err_msg=type)


def value(number: float | bool | complex, type: str) -> p.Value:
    return p.Value(number, type)


def identity(op: Op, type: str) -> p.Value:
    if type.startswith("complex") and op.name in ("min", "max"):
        return p.Value(complex(op.identity or 0, 0), type)
    return p.Value(op.identity_of(np.dtype(type)), type)


# --- Atomic updates ----------------------------------------------------------------------------


def scatter(op: Op | None, type: str) -> p.Stmt:
    """y[crd[i]] op= x[i], atomically."""
    x, y = p.Array("x", type), p.Array("y", type)
    return p.Store(y, p.Convert(CRD[I], "int64"), x[I], op, atomic=True)


@every_count
@every_op
def test_atomic_updates(op: Op, threads: int) -> None:
    programs = {type: program(shared(scatter(op, type)), type=type) for type in TYPES}
    every_type_agrees(op, programs, 3, threads)


@every_type
def test_atomic_updates_under_contention(type: str) -> None:
    n = 200_000
    op = ops.ADD if type != "bool" else ops.XOR
    x, crd, y = np.ones(n, type), np.zeros(n, np.int32), np.zeros(1, type)
    for update in (op, BOTH, ops.SUB if type != "bool" else ops.OR):
        y[:] = 0
        values = x if update is op else np.where(np.arange(n) == 777, x, 0 * x).astype(type)
        whole = program(shared(scatter(update, type)), type=type)
        assert run_compiled(whole, [values, crd, y], (n, 1), 4) == OK
        expected = {op.name: n, "both": 1, "sub": -1, "or": 1}[update.name]
        if type == "bool" and update is op:
            expected = n % 2
        assert y[0] == np.array(expected).astype(np.int64).astype(type)


@pytest.mark.parametrize("op", [ops.ADD, ops.MUL, BOTH], ids=str)
@pytest.mark.parametrize("type", ["float64", "complex128", "int32"])
def test_atomic_updates_in_vectorized_loops(type: str, op: Op) -> None:
    x, y = elements(op, type, 90), elements(op, type, 2, seed=1)
    crd = np.arange(90, dtype=np.int32) % 2
    expected = combined(op, y, x, crd)
    assert run(program(shared(scatter(op, type), simd=True), type=type), x, crd, y, 4) == OK
    np.testing.assert_array_equal(y, expected)


@every_type
def test_atomic_writes(type: str) -> None:
    x, y = np.ones(50, type), np.zeros(2, type)
    crd = np.arange(50, dtype=np.int32) % 2
    assert run(program(shared(scatter(None, type)), type=type), x, crd, y, 4) == OK
    assert y.tolist() == [1, 1]


@pytest.mark.parametrize("op", [ops.SUB, ops.DIV, ops.OR, ops.XOR], ids=str)
def test_other_operators(op: Op) -> None:
    type = "float64" if op in (ops.SUB, ops.DIV) else "bool"
    x, y = np.array([2.0, 4.0, 1.0]).astype(type), np.array([8.0, 2.0]).astype(type)
    crd = np.array([0, 0, 1], np.int32)
    expected = combined(op, y, x, crd)
    assert run(program(shared(scatter(op, type)), type=type), x, crd, y, 2) == OK
    np.testing.assert_array_equal(y, expected)


def test_integers_wrap_in_atomic_updates() -> None:
    for op in (ops.ADD, ops.MUL):
        x, y = np.full(9, 2**30 + 3, np.int32), np.ones(1, np.int32)
        crd = np.zeros(9, np.int32)
        expected = combined(op, y, x, crd)
        assert run(program(shared(scatter(op, "int32")), type="int32"), x, crd, y, 4) == OK
        assert y[0] == expected[0]


# --- Streaming stores --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [{}, {"by": p.Threads()}, {"simd": True}], ids=str)
@every_type
def test_streaming_stores(type: str, kind: dict[str, bool]) -> None:
    x = elements(ops.ADD, type, 100)
    y = np.zeros(100, type)
    body = p.Store(p.Array("y", type), I, p.Array("x", type)[I], stream=True)
    loop = p.For(I, p.Value(0), N, p.block(body), **kind)  # type: ignore[arg-type]
    whole = program(loop, type=type)
    assert run(whole, x, np.zeros(1, np.int32), y, 3) == OK
    np.testing.assert_array_equal(y, x)
    assert render(whole).count(" fence();") == 1


def test_an_update_is_not_streamed() -> None:
    y = p.Array("y", "float64")
    update = p.Store(y, I, p.Array("x", "float64")[I], ops.ADD, stream=True)
    assert "stream" not in render(program(shared(update)))


def test_what_was_streamed_is_there_before_threads_start() -> None:
    store = p.Store(p.Array("y", "float64"), I, p.Array("x", "float64")[I], stream=True)
    again = p.Store(p.Array("y", "float64"), I, value(2.0, "float64"), ops.MUL)
    x, y = np.arange(9.0), np.zeros(9)
    whole = program(p.For(I, p.Value(0), N, p.block(store)), shared(again))
    assert run(whole, x, np.zeros(1, np.int32), y, 4) == OK
    assert y.tolist() == (2 * x).tolist()
    text = render(whole)
    assert text.index(" fence();") < text.index("#pragma omp parallel")


# --- Reductions --------------------------------------------------------------------------------

KINDS: dict[str, dict[str, Any]] = {
    "parallel": {"by": p.Threads()},
    "simd": {"simd": True},
    "both": {"by": p.Threads(), "simd": True},
    "polled": {"by": p.Threads(), "simd": True, "polls": True},
    "chunks": {"by": p.Threads(chunk=7)},
    "serial": {},
}


def reduction(op: Op, type: str, kind: dict[str, Any], spelled: bool = False) -> p.Program:
    """y[0] = y[0] op x[0] op x[1] ..."""
    x, y, total = p.Array("x", type), p.Array("y", type), p.Name("total", type)
    update = p.Set(total, applied(op, total, x[I]) if spelled else x[I], None if spelled else op)
    return program(
        p.Declare(total, y[0]),
        p.For(I, p.Value(0), N, p.block(update),
              reductions=(p.Reduction(total, op, identity(op, type)),), **kind),
        p.Store(y, p.Value(0), total),
        type=type,
    )  # fmt: skip


@every_count
@pytest.mark.parametrize("kind", KINDS)
@every_op
def test_reductions(op: Op, kind: str, threads: int) -> None:
    programs = {type: reduction(op, type, KINDS[kind], spelled=op is BOTH) for type in TYPES}
    every_type_agrees(op, programs, 1, threads)


def test_reductions_that_openmp_knows_are_vectorized() -> None:
    simd = KINDS["both"]
    for op, type, clause in (
        (ops.ADD, "float64", "(+ : total)"),
        (ops.MUL, "int32", "(* : total)"),
        (ops.MAX, "int64", "(max : total)"),
        (ops.MAX, "float32", "(lanes_max_float32 : total)"),
        (ops.OR, "bool", "(|| : total)"),
        (ops.XOR, "bool", "(^ : total)"),
    ):
        assert f"#pragma omp simd reduction{clause}" in render(reduction(op, type, simd))
    for op, type in ((BOTH, "float64"), (ops.ADD, "complex64"), (ops.POW, "int32")):
        assert "omp simd" not in render(reduction(op, type, simd) if op is not ops.POW else
                                        reduction(replace(op, identity=1), type, simd))  # fmt: skip


@pytest.mark.parametrize("op", [ops.MIN, ops.MAX], ids=str)
@pytest.mark.parametrize("place", [0, 1, 2, 3, 17, 63])
def test_nan_wins_in_every_lane(op: Op, place: int) -> None:
    x, y = np.arange(64.0), np.full(1, 5.0)
    x[place] = np.nan
    for kind in ("simd", "both"):
        y[:] = 5.0
        assert run(reduction(op, "float64", KINDS[kind]), x, np.zeros(1, np.int32), y, 2) == OK
        assert np.isnan(y[0])


def test_a_reduction_by_threads_is_the_same_every_time() -> None:
    x = np.random.default_rng(0).random(10_000)
    whole = reduction(ops.ADD, "float64", KINDS["parallel"])
    found = set()
    for _ in range(20):
        y = np.zeros(1)
        assert run_compiled(whole, [x, np.zeros(1, np.int32), y], (len(x), 1), 4) == OK
        found.add(y[0])
    assert len(found) == 1


def test_a_reduction_in_a_loop_that_is_not_last() -> None:
    """for j: total = 0; for i, parallel: total += x[i]; y[j] = total * j"""
    x, y, total = p.Array("x", "float64"), p.Array("y", "float64"), p.Name("total", "float64")
    inner = shared(
        p.Set(total, x[I], ops.ADD),
        reductions=(p.Reduction(total, ops.ADD, value(0.0, "float64")),),
        polls=1,
    )
    store = p.Store(y, J, p.Apply(ops.MUL, (total, p.Convert(J, "float64")), "float64"))
    start = p.Declare(total, value(0.0, "float64"))
    whole = program(p.For(J, p.Value(0), M, p.block(start, inner, store)))
    given, result = np.arange(50.0), np.zeros(4)
    assert run(whole, given, np.zeros(1, np.int32), result, 4) == OK
    assert result.tolist() == [given.sum() * j for j in range(4)]
    stopped = [given, np.zeros(1, np.int32), result]
    assert run_compiled(whole, stopped, (50, 4), 4, stop=1) == INTERRUPTED


# --- Copies ------------------------------------------------------------------------------------


def copying(op: Op, type: str, count: p.Expr = M, **more: Any) -> p.Program:
    x, y = p.Array("x", type), p.Array("y", type)
    update = p.Store(y, p.Convert(CRD[I], "int64"), x[I], op)
    return program(shared(update, copies=(p.Copy(y, count, op, identity(op, type)),), **more),
                   type=type)  # fmt: skip


@every_count
@every_op
def test_copies(op: Op, threads: int) -> None:
    chunks = {type: 16 if threads > 1 and type == "float64" else None for type in TYPES}
    programs = {type: copying(op, type, chunk=chunk) for type, chunk in chunks.items()}
    every_type_agrees(op, programs, 5, threads)


def test_copies_that_do_not_fit_in_memory() -> None:
    x, crd, y = np.ones(8), np.zeros(8, np.int32), np.zeros(1)
    whole = copying(ops.ADD, "float64", count=p.Value(2**56))
    assert run(whole, x, crd, y, 4) == NO_MEMORY
    assert run_compiled(whole, [x, crd, y], (8, 1), 1) == OK  # nothing is copied
    assert y[0] == 8


def test_all_at_once() -> None:
    """Threads with memory, a scalar and an array of their own, in a loop, until one fails."""
    work, total = p.Array("work", "float64"), p.Name("total", "float64")
    fail = p.If(p.compare("==", I + J, M + 18), p.block(p.Fail(BROKEN_BOUND)))
    body = p.block(
        p.Store(work, p.Value(0), X[I]),
        fail,
        p.Store(Y, p.Convert(CRD[I], "int64"), work[0], ops.ADD),
        p.Set(total, work[0], ops.MAX),
    )
    loop = shared(
        body,
        private=(p.Allocate(work, p.Value(1)),),
        cleanup=(p.Free(work),),
        reductions=(p.Reduction(total, ops.MAX, value(-np.inf, "float64")),),
        copies=(p.Copy(Y, M, ops.ADD, value(0.0, "float64")),),
        chunk=3,
    )
    whole = program(
        p.Declare(total, value(-np.inf, "float64")),
        p.For(J, p.Value(0), p.Value(3), p.block(loop)),
        p.Store(Y, p.Value(0), total, ops.ADD),
    )
    x, crd = np.arange(20.0), np.arange(20, dtype=np.int32) % 4
    expected = combined(ops.ADD, np.zeros(4), np.tile(x, 3), np.tile(crd, 3))
    expected[0] += 19
    for threads in THREADS:
        y = np.zeros(4)
        assert run(whole, x, crd, y, threads) == OK
        assert y.tolist() == expected.tolist()
        # M + 18 is reached where y is shorter
        assert run(whole, x, np.zeros(20, np.int32), np.zeros(2), threads) == BROKEN_BOUND


# --- Chunks, nesting, unrolling ----------------------------------------------------------------

DOUBLE = p.Store(
    p.Array("y", "float64"), I,
    p.Apply(ops.MUL, (p.Array("x", "float64")[I], p.Value(2.0, "float64")), "float64"),
)  # fmt: skip


@pytest.mark.parametrize("chunk", [1, 7, 1000])
@pytest.mark.parametrize("more", [{}, {"simd": True}, {"polls": True}, {"unroll": 4}], ids=str)
def test_chunks(chunk: int, more: dict[str, Any]) -> None:
    x, y = np.arange(123.0), np.zeros(123)
    whole = program(shared(DOUBLE, chunk=chunk, **more))
    assert run(whole, x, np.zeros(1, np.int32), y, 4) == OK
    assert y.tolist() == (2 * x).tolist()


def test_an_interrupted_loop_ends() -> None:
    x, y = np.arange(10_000.0), np.zeros(10_000)
    for more in ({"chunk": 3}, {"simd": True}, {}):
        whole = program(shared(DOUBLE, polls=1, **more))
        arrays = [x, np.zeros(1, np.int32), y]
        assert run_compiled(whole, arrays, (10_000, 10_000), 4, stop=1) == INTERRUPTED
    assert not y.any()


@pytest.mark.parametrize("kind", [{}, {"simd": True}, {"by": p.Threads()}], ids=str)
def test_unrolling(kind: dict[str, bool]) -> None:
    x, y = np.arange(21.0), np.zeros(21)
    loop = p.For(I, p.Value(0), N, p.block(DOUBLE), unroll=4, **kind)  # type: ignore[arg-type]
    assert run(program(loop), x, np.zeros(1, np.int32), y, 2) == OK
    assert y.tolist() == (2 * x).tolist()
    assert ("GCC unroll 4" in render(program(loop))) == ("simd" not in kind)


def test_an_unrolled_while() -> None:
    y = p.Array("y", "float64")
    body = p.block(p.Store(y, COUNT, value(1.0, "float64")), p.Set(COUNT, COUNT + 1))
    loop = p.While(p.compare("<", COUNT, N), body, unroll=2)
    whole = program(p.Declare(COUNT, p.Value(0)), loop)
    result = np.zeros(5)
    assert run(whole, np.zeros(5), np.zeros(1, np.int32), result, 1) == OK
    assert result.tolist() == [1] * 5
    assert "#pragma GCC unroll 2\n  while" in render(whole)


def test_a_loop_is_left() -> None:
    """For each j: the first i with x[i] > j."""
    x, y = p.Array("x", "float64"), p.Array("y", "float64")
    large = p.Apply(ops.LT, (p.Convert(J, "float64"), x[I]), "bool")
    found = p.block(p.Store(y, J, p.Convert(I, "float64")), p.Break())
    inner = p.For(I, p.Value(0), N, p.block(p.If(large, found)))
    step = p.Set(COUNT, COUNT + 1)
    counted = p.If(p.compare("<", p.Value(2), COUNT), p.block(p.Break()))
    endless = p.While(p.compare("<", p.Value(0), N), p.block(step, counted))
    whole = program(
        p.For(J, p.Value(0), M, p.block(inner), by=p.Threads()),
        p.Declare(COUNT, p.Value(0)),
        endless,
        p.Store(y, p.Value(0), p.Convert(COUNT, "float64"), ops.ADD),
    )
    result = np.zeros(3)
    assert run(whole, np.array([0.5, 1.5, 0.1, 9.0]), np.zeros(1, np.int32), result, 2) == OK
    assert result.tolist() == [3.0, 1.0, 3.0]


def nested(*private_use: p.Stmt, unfit: bool = False) -> p.Program:
    """for j: for i, parallel, with memory of each thread: y[i] += work[0] * j"""
    work, y = p.Array("work", "float64"), p.Array("y", "float64")
    size = p.Value(2**56) if unfit else p.Value(1)
    body = p.block(
        p.Store(work, p.Value(0), p.Array("x", "float64")[I]),
        *private_use,
        p.Store(y, I, p.Apply(ops.MUL, (work[0], p.Convert(J, "float64")), "float64"), ops.ADD),
    )
    inner = shared(body, private=(p.Allocate(work, size),), cleanup=(p.Free(work),), polls=1)
    return program(p.For(J, p.Value(0), M, p.block(inner)))


@every_count
def test_parallel_loops_inside_serial_ones(threads: int) -> None:
    x, y = np.arange(30.0), np.zeros(30)
    crd = np.zeros(1, np.int32)
    assert run(nested(), x, crd, y, threads) == OK
    assert y.tolist() == (x * sum(range(30))).tolist()
    assert run(nested(unfit=True), x, crd, y, threads) == NO_MEMORY


@every_count
@pytest.mark.parametrize("status", [OVERFLOWED, BROKEN_BOUND])
@pytest.mark.parametrize("simd", [False, True])
def test_failures_inside_parallel_loops(threads: int, status: int, simd: bool) -> None:
    fail = p.If(p.compare("==", I * J, 6), p.block(p.Fail(status)))
    inside = p.For(p.Name("k"), p.Value(0), p.Value(2), p.block(fail), simd=simd)
    x, y, crd = np.arange(30.0), np.zeros(30), np.zeros(1, np.int32)
    assert run(nested(inside), x, crd, y, threads) == status
    out = program(shared(p.If(p.compare("<", N, I), p.block(p.Fail(status)))), p.Fail(OVERFLOWED))
    assert run(out, x, crd, y, threads) == OVERFLOWED


def test_memory_inside_the_body_of_a_parallel_loop() -> None:
    """Each iteration has a list of its own, which grows; the last one fails."""
    keys, room = p.Array("keys", "int64"), p.Name("room_here")
    grow = p.Grow(room, I + 1, (p.Growing(keys, p.Value(1), zeroed=True),))
    fail = p.If(p.compare("==", I, M), p.block(p.Fail(BROKEN_BOUND)))
    store = p.Store(p.Array("y", "float64"), I, p.Convert(keys[I] + I, "float64"))
    declare, allocate = p.Declare(room, p.Value(0)), p.Allocate(keys, p.Value(0))
    body = p.block(declare, allocate, grow, fail, store, p.Free(keys))
    x, y, crd = np.zeros(30), np.zeros(30), np.zeros(1, np.int32)
    assert run(program(shared(body)), x, crd, y, 4) == OK
    assert y.tolist() == list(range(30))
    assert run(program(shared(body)), x, crd, y[:17], 4) == BROKEN_BOUND


def test_a_broken_bound_is_raised() -> None:
    whole = program(p.Fail(BROKEN_BOUND))
    executable = Executable(whole, load(render(whole), optimize="-O2").kernel)
    with pytest.raises(BoundBroken):
        executable.run([0, 0, 0], [1, 1], 1.0, 0)


def test_the_number_of_threads_is_known() -> None:
    count = p.Convert(contract.THREADS, "float64")
    whole = program(p.Store(p.Array("y", "float64"), p.Value(0), count))
    y = np.zeros(1)
    assert run(whole, np.zeros(1), np.zeros(1, np.int32), y, 3) == OK
    assert y[0] == 3


# --- Searches ----------------------------------------------------------------------------------


def searched(name: str, type: str, array: Sequence[int], args: Sequence[Sequence[int]]) -> Array:
    """The helper called with each of `args`, interpreted and compiled."""
    index, crd = p.Array("index", type), p.Array("given", "int64")
    width = len(args[0])
    call = p.Helper(name, (index, *(crd[I * width + n] for n in range(width))))
    whole = p.Program(
        (
            p.Argument(index, "a", 0, "crd", "operand"),
            p.Argument(crd, "b", -1, "values", "operand"),
            p.Argument(p.Array("y", "int64"), "y", -1, "values", "result"),
        ),
        (N,),
        p.block(p.For(I, p.Value(0), N, p.block(p.Store(p.Array("y", "int64"), I, call)))),
    )
    verify(whole)
    ours, theirs = np.zeros(len(args), np.int64), np.zeros(len(args), np.int64)
    arrays = [np.array(array, type), np.array(args, np.int64).ravel()]
    assert interpret(whole, [*arrays, ours], [1, 0, len(args)])[0] == OK
    assert run_compiled(whole, [*arrays, theirs], [len(args)], 1) == OK
    assert ours.tolist() == theirs.tolist()
    return ours


@pytest.mark.parametrize("type", ["int32", "int64"])
@pytest.mark.parametrize("seed", range(3))
def test_searches(type: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    array = np.sort(rng.integers(0, 40, 50))
    args = [(b, e, v) for b in (0, 3, 49, 50) for e in (50, 31, 4, 0) for v in range(-1, 42)]
    args = [(b, max(b, e), v) for b, e, v in args]
    for name in ("lower_bound", "gallop"):
        expected = [b + np.searchsorted(array[b:e], v) for b, e, v in args]
        assert searched(name, type, array.tolist(), args).tolist() == expected
    last = [b + max(0, np.searchsorted(array[b:e], v, "right") - 1) for b, e, v in args]
    assert searched("last_at_most", type, array.tolist(), args).tolist() == last


@pytest.mark.parametrize("type", ["int32", "int64"])
@pytest.mark.parametrize("parts", [1, 2, 7, 40])
def test_balanced_cuts(type: str, parts: int) -> None:
    for counts in ([3, 0, 0, 50, 1, 1, 0, 0], [0] * 5, [1] * 30, [9], []):
        pos = np.concatenate([[4], 4 + np.cumsum(counts)]).astype(np.int64)
        for begin in {0, len(counts) // 2}:
            end = len(counts)
            args = [(begin, end, part, parts) for part in range(parts + 1)]
            cuts = searched("balanced_cut", type, pos.tolist(), args).tolist()
            share, rest = divmod(pos[end] - pos[begin], parts)
            goals = [pos[begin] + share * part + min(part, rest) for part in range(parts)]
            assert cuts == [begin + np.searchsorted(pos[begin:], g) for g in goals] + [end]
            assert cuts == sorted(cuts)
            assert (cuts[0], cuts[-1]) == (begin, end)


def test_cuts_of_enormous_positions() -> None:
    pos = [0, 2**61, 2**62, 2**62 + 2**61, 2**63 - 1]
    args = [(0, 4, part, 1_000) for part in (0, 1, 250, 251, 999, 1_000)]
    assert searched("balanced_cut", "int64", pos, args).tolist() == [0, 1, 2, 2, 4, 4]


def test_what_is_not_in_order_is_not_searched() -> None:
    for name in ("lower_bound", "gallop", "last_at_most"):
        with pytest.raises(InternalError, match="index is searched from 0 to 3, but is not in"):
            searched(name, "int32", [3, 1, 2], [(0, 3, 1)])
    with pytest.raises(InternalError, match="index has no cut 3 of 2"):
        searched("balanced_cut", "int32", [0, 1, 2], [(0, 2, 3, 2)])
