"""Races: the interpreter notices what threads do to each other, in whatever order they run."""

from __future__ import annotations

import numpy as np
import pytest
from tests.program.small import CRD, ZERO, I, N, X, Y, program, shared

from openwork.algebra import operators as ops
from openwork.errors import InternalError
from openwork.program import nodes as p
from openwork.program.interpret.interpret import interpret
from openwork.program.verify import verify

FIRST = p.Value(0)
ATOMIC = p.Store(Y, FIRST, X[I], ops.ADD, atomic=True)
RACES: dict[str, tuple[str, p.Stmt]] = {
    "plain updates": (r"y\[0\] is (read|written)", p.Store(Y, FIRST, X[I], ops.ADD)),
    "plain writes": (r"y\[0\] is written by two", p.Store(Y, FIRST, X[I])),
    "plain and atomic": (
        r"y\[0\] is (written|updated) by one thread, (updated|written) by another",
        p.If(p.compare("<", I, 2), p.block(ATOMIC), p.block(p.Store(Y, FIRST, X[I]))),
    ),
    "a read of what is updated": (
        r"y\[0\] is (read|updated) by one thread, (updated|read) by another",
        p.If(p.compare("<", I, 2), p.block(ATOMIC), p.block(p.Store(Y, I, Y[0]))),
    ),
    "a write after a read": (
        r"y\[3\] is (read|written) by one thread, (written|read) by another",
        p.If(p.compare("<", I, 2), p.block(p.Store(Y, I, Y[3])), p.block(p.Store(Y, I, X[I]))),
    ),
    "two operators": (
        r"y\[0\] is updated by (add|mul) and by",
        p.If(p.compare("<", I, 2), p.block(ATOMIC),
             p.block(p.Store(Y, FIRST, X[I], ops.MUL, atomic=True))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("race", RACES)
@pytest.mark.parametrize("seed", range(3))
def test_races_are_noticed(race: str, seed: int) -> None:
    message, body = RACES[race]
    whole = program(shared(body))
    verify(whole)
    with pytest.raises(InternalError, match=message):
        interpret(
            whole, [np.ones(4), np.zeros(1, np.int32), np.ones(4), np.ones(4)], [2, 0, 4], seed
        )


def test_races_with_copies_and_chunks() -> None:
    other = p.Array("z", "float64")
    copies = (p.Copy(Y, p.Value(4), ops.ADD, ZERO),)
    body = p.block(p.Store(Y, FIRST, X[I], ops.ADD), p.Store(other, FIRST, X[I]))
    for more in ({}, {"chunk": 1}):
        whole = program(
            p.Allocate(other, N), shared(body, copies=copies, **more), made={other: p.Value(1)}
        )
        verify(whole)
        arrays = [np.ones(9), np.zeros(1, np.int32), np.ones(4), np.ones(9), None]
        with pytest.raises(InternalError, match=r"z\[0\] is written by two threads"):
            interpret(whole, arrays, [3, 0, 9])


def test_a_copy_has_bounds() -> None:
    update = p.Store(Y, p.Convert(CRD[I], "int64"), X[I], ops.ADD)
    whole = program(shared(update, copies=(p.Copy(Y, p.Value(2), ops.ADD, ZERO),)))
    with pytest.raises(InternalError, match=r"y\[3\] is outside of 2"):
        interpret(whole, [np.ones(4), np.full(4, 3, np.int32), np.ones(4), np.ones(4)], [2, 0, 4])
