"""The laws of simplification, one test each: before, and after."""

from __future__ import annotations

import numpy as np
import pytest
from tests.program.small import (
    COUNT,
    CRD,
    DOUBLE,
    KEYS,
    MASK,
    ONE,
    SLOT,
    TABLE,
    VALS,
    I,
    J,
    N,
    X,
    Y,
    loop,
    program,
    shared,
    times,
    unit,
)

import openwork as ow
from openwork.program import nodes as p
from openwork.program.interpret.interpret import interpret
from openwork.program.nodes import arithmetic
from openwork.program.simplify.dead import without_dead
from openwork.program.simplify.extents import with_promised_extents
from openwork.program.simplify.simplify import simplify
from openwork.program.verify import verify

EMPTY = p.Block(())
TRUE = p.compare("<", p.Value(0), N)
VAL = p.Name("A_val", "float64")


def simplified(*body: p.Stmt) -> p.Block:
    """The body of a program, simplified; both keep the rules."""
    whole = program(*body)
    verify(whole)
    after = simplify(whole)
    verify(after)
    return after.body


# -- arithmetic that is done as it is written -----------------------------------------------------


@pytest.mark.parametrize(
    ("sign", "left", "right", "after"),
    [
        ("+", N, p.Value(0), N),
        ("+", p.Value(0), N, N),
        ("-", N, p.Value(0), N),
        ("*", N, p.Value(1), N),
        ("*", p.Value(1), N, N),
        ("*", N, p.Value(0), p.Value(0)),
        ("/", N, p.Value(1), N),
        ("+", p.Value(2), p.Value(3), p.Value(5)),
        ("-", p.Value(2), p.Value(3), p.Value(-1)),
        ("*", p.Value(2), p.Value(3), p.Value(6)),
        ("/", p.Value(7), p.Value(2), p.Value(3)),
        ("min", p.Value(7), p.Value(2), p.Value(2)),
        ("max", p.Value(7), p.Value(2), p.Value(7)),
    ],
)
def test_arithmetic(sign: str, left: p.Expr, right: p.Expr, after: p.Expr) -> None:
    assert arithmetic(sign, left, right) == after


def test_sums_lean_to_the_left() -> None:
    assert p.Binary("+", p.Binary("+", I, J), N) == I + (J + N)
    assert (N - 1) + 1 == N


def test_a_division_by_zero_stays() -> None:
    assert arithmetic("/", p.Value(7), p.Value(0)) == p.Binary("/", p.Value(7), p.Value(0))


# -- rules of a node ------------------------------------------------------------------------------


def test_a_loop_is_dead_if_it_only_computes_what_nobody_uses() -> None:
    limit = p.Name("limit")
    around = p.For(I, p.Value(0), limit, p.block(p.Declare(J, I + 1, fixed=True)))
    whole = p.block(p.Declare(limit, N * 2, fixed=True), around, DOUBLE)
    assert without_dead(whole) == p.block(DOUBLE)


def test_nested_blocks_are_flattened() -> None:
    assert without_dead(p.Block((DOUBLE, p.Block((DOUBLE,))))) == p.Block((DOUBLE, DOUBLE))
    flat = p.Block((DOUBLE,))
    assert without_dead(flat) is flat


def test_what_does_nothing_goes() -> None:
    assert without_dead(p.block(loop(EMPTY))) == EMPTY
    assert without_dead(p.block(p.If(TRUE, EMPTY))) == EMPTY
    assert without_dead(p.block(p.If(TRUE, p.block(DOUBLE), EMPTY))) == p.block(
        p.If(TRUE, p.block(DOUBLE))
    )
    for kept in (p.If(TRUE, EMPTY, p.block(DOUBLE)), loop(p.block(DOUBLE))):
        whole = p.block(kept)
        assert without_dead(whole) is whole


# -- rules of a program ---------------------------------------------------------------------------


def test_loops_that_become_empty_go_with_their_names() -> None:
    unused = p.Declare(SLOT, CRD[I], fixed=True)
    inner = p.For(J, p.Value(0), COUNT, EMPTY)
    assert simplified(p.Declare(COUNT, N, fixed=True), loop(inner)) == EMPTY
    assert simplified(loop(p.block(unused, DOUBLE))) == p.block(loop(DOUBLE))


def test_declarations_that_only_each_other_use_go_together() -> None:
    chain = [p.Declare(COUNT, N, fixed=True), p.Declare(SLOT, COUNT + 1, fixed=True)]
    assert simplified(*chain, loop(DOUBLE)) == p.block(loop(DOUBLE))


def test_what_may_change_stays() -> None:
    counted = p.block(p.Declare(COUNT, p.Value(0)), loop(p.Set(COUNT, COUNT + 1)))
    assert simplified(counted) == counted


def test_a_load_moves_out_of_the_loop_in_which_it_does_not_change() -> None:
    before = loop(p.Store(Y, I, times(X[I], VALS[J])))
    after = p.block(p.Declare(VAL, VALS[J], fixed=True), loop(p.Store(Y, I, times(X[I], VAL))))
    around = {"begin": p.Value(0), "end": N}
    whole = p.For(J, body=p.block(before), **around)
    assert simplified(whole) == p.block(p.For(J, body=after, **around))


@pytest.mark.parametrize(
    "index", [I, I + 1, p.Name("at")], ids=["the loop's own", "by the loop's own", "assigned in it"]
)
def test_a_load_that_changes_stays(index: p.Expr) -> None:
    at = p.Name("at")
    body = p.block(p.Store(Y, I, VALS[index]), p.Set(at, at + 1))
    whole = p.block(p.Declare(at, p.Value(0)), loop(body))
    assert simplified(whole) == whole


def test_a_load_that_depends_in_part_on_the_loop_stays() -> None:
    inner = loop(p.Store(Y, I, VALS[J * N + I]))
    whole = p.block(p.For(J, p.Value(0), N, p.block(inner)))
    assert simplified(whole) == whole


def test_loads_of_results_and_of_index_arrays_stay() -> None:
    for load in (Y[p.Value(0)], p.Convert(CRD[p.Value(0)], "float64")):
        whole = p.block(loop(p.Store(Y, I, load)))
        assert simplified(whole) == whole


def test_no_load_moves_out_of_a_loop_that_threads_share() -> None:
    """It would be done by all, where a loop may have no iteration at all for most."""
    store = p.Store(Y, I, VALS[p.Value(0)])
    for whole in (shared(store), unit(I, "block", N, store)):
        assert simplified(whole) == p.block(whole)


def test_a_new_name_is_free() -> None:
    taken = p.Declare(VAL, ONE)
    whole = simplified(taken, loop(p.Store(Y, I, VALS[p.Value(0)])), p.Set(VAL, ONE))
    names = [s.name.name for s in whole.body if isinstance(s, p.Declare)]
    assert names == ["A_val", "A_val_2"]


def test_the_answer_stays() -> None:
    body = loop(p.Store(Y, I, times(X[I], VALS[p.Value(1)])))
    arrays = [np.arange(3.0), np.zeros(1, np.int32), np.zeros(3), np.array([5.0, 7.0])]
    for whole in (program(body), simplify(program(body))):
        assert interpret(whole, arrays, [1, 0, 3])[0] == 0
        assert arrays[2].tolist() == [0.0, 7.0, 14.0]


# -- extents that a schedule promises -------------------------------------------------------------


@pytest.mark.parametrize(
    ("sign", "holds"),
    [
        ("==", {4}),
        ("!=", {3, 5}),
        ("<", {5}),
        ("<=", {4, 5}),
    ],
)
def test_a_test_of_a_promised_extent_is_settled(sign: str, holds: set[int]) -> None:
    """if (4 < 5) a else b => a"""
    x, y = ow.placeholder("x", order=1), ow.placeholder("y", order=1)
    (i,) = ow.indices("i")
    stmt = ow.assign(y[i], x[i]).bound("i", "ib", 4, "MaxExact")
    yes, no = p.block(DOUBLE), p.block(p.Store(Y, I, ONE))
    for other in (3, 4, 5):
        body = p.For(I, p.Value(0), N + 1, p.If(p.compare(sign, N, other), yes, no))
        whole = with_promised_extents(program(body), stmt._base, stmt.assignment.lhs.vars)
        chosen = yes if other in holds else no
        assert whole.body == p.block(p.For(I, p.Value(0), p.Value(5), chosen))


# -- what nobody needs in the rest of a block -----------------------------------------------------


def test_dead_declarations_go_though_another_block_has_the_name() -> None:
    dead, live = p.Declare(SLOT, N, fixed=True), p.Declare(SLOT, N + 1, fixed=True)
    used = p.Store(Y, SLOT, ONE)
    before = p.block(loop(p.block(dead, DOUBLE)), loop(p.block(live, used)))
    assert without_dead(before) == p.block(loop(DOUBLE), loop(p.block(live, used)))


def test_what_happens_as_a_value_is_computed_stays() -> None:
    found = p.Helper("find", (TABLE, MASK, KEYS, COUNT, N))
    before = p.block(p.Declare(SLOT, found, fixed=True))
    assert without_dead(before) == before


def test_a_block_inside_a_block_is_no_scope() -> None:
    """{ { const n = e } s(n) }: n is used, after the block that declares it."""
    name = p.Name("twice", "float64")
    declared = p.Block((p.Declare(name, p.Load(X, I), fixed=True),))
    body = loop(p.Block((declared, p.Store(Y, I, name))))
    assert "twice" in str(p.Block((simplified(body),)))
