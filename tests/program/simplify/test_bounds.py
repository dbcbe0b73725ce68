"""What follows from bounds, and what does not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.program.small import CRD, I, J, N

from openwork.program import nodes as p
from openwork.program.interpret.interpret import interpret
from openwork.program.nodes import Expr, Name, Value, arithmetic
from openwork.program.simplify.bounds import Bounds

LO, HI, Q, R = (Name(name) for name in ("lo", "hi", "q", "r"))
POS = p.Array("pos", "int32", p.Role.POSITION, "A")


def bounds(*, defined: dict[Name, Expr] | None = None, holds: tuple[Expr, ...] = ()) -> Bounds:
    """0 <= n, 0 <= i < n, and what is given; nobody writes `pos`."""
    made = Bounds(frozenset(["pos"]))
    made.define(N, None)
    made.define(I, None)
    made.at_most(Value(0), N)
    made.at_most(Value(0), I)
    made.at_most(I, N, 1)
    for name, value in (defined or {}).items():
        made.define(name, value)
    for condition in holds:
        made.learn(condition)
    return made


MOST = arithmetic("min", I * 32 + 32, N)


@pytest.mark.parametrize(
    ("left", "right", "defined"),
    [
        (I, N, {}),
        (I * 4 + 3, N * 4 - 1, {}),
        (LO, LO + 32, {LO: I * 32}),
        (HI, N, {HI: MOST}),
        (HI - I * 32, Value(32), {HI: MOST}),
        (Value(0), HI, {HI: arithmetic("max", J, Value(0))}),
        (Value(0), HI, {HI: MOST}),  # either way
        (Q * 8, N, {Q: N / 8}),
        (N, Q * 8, {Q: (N + 7) / 8}),
        (N / 8, Q, {Q: (N + 7) / 8}),
        (R, Value(7), {R: N % 8}),
        (Value(0), R, {R: N % 8}),
        (I / 8, N / 8, {}),
        (POS[I], POS[I + 1], {}),
        (Value(0), HI - LO, {LO: POS[I], HI: POS[I + 1]}),
    ],
)
def test_what_follows(left: Expr, right: Expr, defined: dict[Name, Expr]) -> None:
    assert bounds(defined=defined).proves(left, right)


@pytest.mark.parametrize(
    ("left", "right", "defined"),
    [
        (I + 1, N - 1, {}),
        (N, I, {}),
        (J, N, {}),
        (N, HI, {HI: MOST}),
        (I * 32 + 32, HI, {HI: MOST}),
        (Q * 8, N, {Q: (N + 7) / 8}),
        (N, Q * 8, {Q: N / 8}),
        (Value(0), R, {R: J % 8}),  # of a negative number it is negative
        (Q * 8, J, {Q: J / 8}),
        (POS[I + 1], POS[I], {}),
        (POS[I], POS[J], {}),
        (CRD[I], CRD[I + 1], {}),
    ],
)
def test_what_does_not(left: Expr, right: Expr, defined: dict[Name, Expr]) -> None:
    assert not bounds(defined=defined).proves(left, right)


def test_what_conditions_tell() -> None:
    known = bounds(holds=(p.Binary("&&", p.compare("<", J, N), p.compare("<=", Value(3), J)),))
    assert known.proves(J, N - 1) and known.proves(Value(3), J)
    assert not known.inner().proves(J, I)
    floats = p.compare("<", Name("x", "float64"), Value(0.5, "float64"))
    assert not bounds(holds=(floats,)).proves(Name("x", "float64"), Value(0, "int64"))


def test_what_is_learnt_inside_is_not_known_outside() -> None:
    outer = bounds()
    outer.inner().learn(p.compare("<", J, N))
    assert not outer.proves(J, N)


TERMS = [I, N, I * 3, N / 3, I % 4, (N + 3) / 4, MOST, arithmetic("max", N - 5, Value(0)), N - I]


def test_every_proof_is_right() -> None:
    """Sums of two terms against sums of two: whatever is proven holds for all small numbers."""
    y, known = p.Array("y", "float64"), bounds()
    pairs = [a + b for a, b in itertools.combinations_with_replacement(TERMS, 2)]
    claims = [(a, b) for a in pairs for b in pairs if known.proves(a, b, 1)]
    assert len(claims) > 25
    checks = [
        p.If(p.compare("<=", b, a), p.block(p.Store(y, Value(0), Value(1.0, "float64"))))
        for a, b in claims
    ]
    body = p.block(p.For(I, Value(0), N, p.block(*checks)))
    whole = p.Program((p.Argument(y, "y", -1, "values", "result"),), (N,), body)
    for n in range(12):
        array = np.zeros(1)
        assert interpret(whole, [array], [1, 0, n])[0] == 0
        assert array[0] == 0
