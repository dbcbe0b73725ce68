"""Programs as pseudo-C: every statement and expression has a spelling."""

from __future__ import annotations

import pytest
from tests.program.small import TWO as SCALAR, N, X, Y, program, times

from openwork.algebra import operators as ops
from openwork.errors import InternalError
from openwork.pipeline import to_kernels
from openwork.program import nodes as p
from openwork.program.show import show_device, show_program
from openwork.trace import Trace

I = p.Name("i")
SCALE = p.Store(Y, I, times(X[I], SCALAR))


def body(*stmts: p.Stmt) -> str:
    return show_program(program(*stmts)).partition("\n\n")[2]


def test_what_is_said_of_a_loop_stands_behind_it() -> None:
    text = body(p.For(I, p.Value(0), N, p.block(SCALE), "rows", by=p.Threads(), unroll=4))
    assert text.splitlines()[:2] == [
        "// rows",
        f"for (i = 0; i < {N.name}; i++) [parallel, unroll 4] {{",
    ]


def test_operators_bind_as_in_c() -> None:
    i, n = I, p.Name("n")
    sums = p.Binary("*", p.Binary("+", i, n), p.Binary("-", i, p.Binary("-", n, i)))
    assert body(p.Declare(p.Name("k"), sums, fixed=True)).strip() == (
        "const int64 k = (i + n) * (i - (n - i));"
    )


def test_updates_and_atomics() -> None:
    text = body(p.Store(Y, I, X[I], ops.ADD, atomic=True))
    assert text.strip() == f"{Y.name}[i] = add({Y.name}[i], {X.name}[i]) [atomic];"


def test_kernels_and_the_steps_of_the_host() -> None:
    whole = program(p.For(I, p.Value(0), N, p.block(SCALE), by=p.Unit("block")))
    text = show_device(to_kernels(whole, Trace(dumps=False)))
    assert "launch kernel_1;" in text
    assert f"// {N.name} x 1 blocks of 1 x 1 threads" in text
    assert "kernel kernel_1(" in text


def test_an_unknown_node_is_our_mistake() -> None:
    class Strange(p.Stmt):
        pass

    with pytest.raises(InternalError, match="Strange"):
        body(Strange())
