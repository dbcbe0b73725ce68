"""The laws of tidying, one test each: before, and after."""

from __future__ import annotations

import numpy as np
import pytest
from tests.program.small import (
    COUNT,
    CRD,
    DOUBLE,
    ONE,
    SLOT,
    TWO,
    I,
    J,
    N,
    X,
    Y,
    loop,
    program,
    times,
    vectorized,
)

from openwork.algebra.operators import ADD
from openwork.program import nodes as p
from openwork.program.gpu_nodes import BLOCK_X, LANE, THREAD, Barrier, Kernel
from openwork.program.interpret.interpret import interpret
from openwork.program.nodes import Binary, Expr, Name, Stmt, Value, arithmetic, block, compare
from openwork.program.simplify.tidy import tidy, tidy_kernel
from openwork.program.verify import verify

LO, HI, AT = Name("lo"), Name("hi"), Name("at")
YES, NO = Value(True, "bool"), Value(False, "bool")


def tidied(*body: Stmt) -> tuple[Stmt, ...]:
    """The body of a program, tidied; both keep the rules."""
    whole = program(*body)
    verify(whole)
    after = tidy(whole)
    verify(after)
    return after.body.body


def const(name: Name, value: Expr) -> p.Declare:
    return p.Declare(name, value, fixed=True)


def put(index: Expr, value: Expr = ONE) -> p.Store:
    return p.Store(Y, index, value)


# -- names ----------------------------------------------------------------------------------------


def test_a_name_that_only_renames_goes() -> None:
    before = loop(block(const(AT, I), put(AT)))
    assert tidied(before) == (loop(put(I)),)
    assert tidied(const(COUNT, Value(3)), put(COUNT)) == (put(Value(3)),)


def test_a_name_of_what_may_change_stays() -> None:
    """at = 0; const slot = at; at = 1; y[slot] = 1;"""
    before = (p.Declare(AT, Value(0)), const(SLOT, AT), p.Set(AT, Value(1)), put(SLOT), put(AT))
    assert tidied(*before) == before


def test_a_name_of_another_type_stays() -> None:
    narrow = Name("narrow", "int32")
    before = (const(narrow, N), put(narrow))
    assert tidied(*before) == before


def test_what_is_computed_has_a_name() -> None:
    """const lo = i * 64; y[i * 64 + 64] => y[lo + 64]"""
    before = loop(block(const(LO, I * 64), put(I * 64 + 64), put(LO)))
    assert tidied(before) == (loop(block(const(LO, I * 64), put(LO + 64), put(LO))),)


def test_what_changes_is_computed_again() -> None:
    body = (p.Declare(AT, Value(0)), const(LO, AT * 64), p.Set(AT, N), put(AT * 64), put(LO))
    assert tidied(*body) == body


def test_what_cancels_is_not_computed() -> None:
    place, first = const(AT, LO + I), const(LO, N * 2)
    known = (first, loop(block(place, put(AT), put(AT - LO), put(AT - LO - I))))
    assert tidied(*known) == (first, loop(block(place, put(AT), put(I), put(Value(0)))))


def test_what_may_have_changed_does_not_cancel() -> None:
    known = (p.Declare(LO, N * 2), const(AT, LO + 1), p.Set(LO, N), put(AT - LO))
    assert tidied(*known) == known


def test_a_name_passed_on_is_passed_by() -> None:
    """const a = n * 2; const b = a; => const b = n * 2;"""
    before = (const(LO, N * 2), const(HI, LO), put(HI), put(HI + 1))
    assert tidied(*before) == (const(HI, N * 2), put(HI), put(HI + 1))


def test_names_in_other_blocks_are_other_names() -> None:
    one, other = loop(block(const(AT, I), put(AT))), loop(block(const(AT, I + 1), put(AT)))
    assert tidied(one, other) == (loop(put(I)), other)


# -- comparisons ----------------------------------------------------------------------------------


def test_the_lesser_of_two_that_are_in_order() -> None:
    """for (i = 0; i < n; i++) y[min(i, n)] => y[i]"""
    for sign, kept in (("min", I), ("max", N)):
        assert tidied(loop(put(Binary(sign, I, N)))) == (loop(put(kept)),)
        assert tidied(loop(put(Binary(sign, N, I)))) == (loop(put(kept)),)
    assert tidied(loop(put(Binary("min", I, N - 3)))) == (loop(put(Binary("min", I, N - 3))),)


def test_a_guard_that_holds_goes() -> None:
    assert tidied(loop(p.If(compare("<", I, N), block(DOUBLE)))) == (loop(DOUBLE),)
    assert tidied(loop(p.If(compare("<=", N, I), block(DOUBLE), block(put(I))))) == (loop(put(I)),)


def test_a_guard_is_said_once() -> None:
    guard = compare("<", J, N)
    inner = p.If(guard, block(put(J)))
    before = p.For(J, Value(0), N * 2, block(p.If(guard, block(put(J + 1), inner))))
    after = p.For(J, Value(0), N * 2, block(p.If(guard, block(put(J + 1), put(J)))))
    assert tidied(before) == (after,)


def test_of_a_lesser_the_part_that_matters() -> None:
    """if (i < min(n, i + 4)) => if (i < n)"""
    limit = const(HI, Binary("min", J * 2, J + 4))
    before = p.For(J, Value(0), N, block(limit, p.If(compare("<", J, HI), block(put(J)))))
    after = p.For(J, Value(0), N, block(p.If(compare("<", J, J * 2), block(put(J)))))
    assert tidied(before) == (after,)


def test_one_more_at_most_is_less() -> None:
    """while (at + 1 <= n) => while (at < n)"""
    step = p.Set(AT, AT + 1)
    before = p.While(compare("<=", AT + 1, N), block(step))
    after = p.While(compare("<", AT, N), block(step))
    start = p.Declare(AT, Value(0))
    assert tidied(start, before) == (start, after)


def test_elements_are_not_compared_as_numbers_of_things() -> None:
    """0.25 < 0.5, and NaN is neither less nor not"""
    half = compare("<", X[I], Value(0.5, "float64"))
    quarter = compare("<", Value(0.25, "float64"), Value(0.5, "float64"))
    for condition in (half, quarter):
        assert tidied(loop(p.If(condition, block(DOUBLE)))) == (
            loop(p.If(condition, block(DOUBLE))),
        )


def test_a_loop_that_never_runs_goes() -> None:
    assert tidied(loop(block(p.While(compare("<", N, I), block(put(I))), DOUBLE))) == (
        loop(DOUBLE),
    )


# -- tests ----------------------------------------------------------------------------------------

A, B = compare("<", X[I], ONE), compare("<", X[I], TWO)


def test_two_tests_are_one() -> None:
    """if (a) { if (b) s } => if (a && b) s"""
    both = p.If(Binary("&&", A, B), block(DOUBLE))
    assert tidied(loop(p.If(A, block(p.If(B, block(DOUBLE)))))) == (loop(both),)
    more = p.If(A, block(p.If(B, block(DOUBLE)), put(I)))
    assert tidied(loop(more)) == (loop(more),)
    otherwise = p.If(A, block(p.If(B, block(DOUBLE), block(put(I)))))
    assert tidied(loop(otherwise)) == (loop(otherwise),)


def test_a_test_of_both_branches_comes_first() -> None:
    """if (a) { if (b) s } else { if (b) t } => if (b) { if (a) s else t }"""
    before = p.If(A, block(p.If(B, block(DOUBLE))), block(p.If(B, block(put(I)))))
    after = p.If(B, block(p.If(A, block(DOUBLE), block(put(I)))))
    assert tidied(loop(before)) == (loop(after),)


def test_else_if_stays() -> None:
    chain = p.If(A, block(DOUBLE), p.If(B, block(put(I))))
    renamed = p.If(A, block(DOUBLE), p.If(B, block(put(AT))))
    assert tidied(loop(block(const(AT, I), renamed))) == (loop(chain),)


def test_what_a_guard_computes_is_named_before() -> None:
    """if (i * 2 < n) { const at = i * 2; s } => const at = i * 2; if (at < n) s"""
    before = loop(p.If(compare("<", I * 2, N), block(const(AT, I * 2), put(AT), put(AT + 1))))
    after = loop(block(const(AT, I * 2), p.If(compare("<", AT, N), block(put(AT), put(AT + 1)))))
    assert tidied(before) == (after,)


@pytest.mark.parametrize("value", [N / (I - 3), p.Convert(CRD[I], "int64") + 0 * I], ids=str)
def test_what_a_guard_guards_stays(value: Expr) -> None:
    """A division by zero, or a load past the end, must not come before its guard."""
    safe = Binary("&&", compare("!=", I, 3), compare("<", value, N))
    before = loop(p.If(safe, block(const(AT, value), put(AT), put(AT + 1))))
    assert tidied(before) == (before,)


# -- loops ----------------------------------------------------------------------------------------


def test_a_loop_of_one_iteration_is_none() -> None:
    """for (j = i; j < min(i + 1, n); j++) s => const j = i; s"""
    before = loop(p.For(J, I, arithmetic("min", I + 1, N), block(put(J), put(J + 1))))
    assert tidied(before) == (loop(block(put(I), put(I + 1))),)
    end = Binary("min", I * 3 + 1, N)
    before = loop(p.For(J, I * 3, end, block(put(J))))
    after = loop(block(const(J, I * 3), p.If(compare("<", J, N), block(put(J)))))
    assert tidied(before) == (after,)


def test_a_loop_whose_end_moves_stays() -> None:
    body = p.For(J, Value(0), AT, block(put(J), p.Set(AT, AT + 1)))
    before = (p.Declare(AT, Value(1)), body)
    assert tidied(*before) == before


def test_the_answer_stays() -> None:
    last = const(HI, arithmetic("min", I * 2 + 2, N))
    body = p.If(compare("<", J, N), block(p.Store(Y, J, times(X[J], TWO), ADD)))
    whole = p.For(I, Value(0), (N + 1) / 2, block(last, p.For(J, I * 2, HI, block(body))))
    results = []
    for made in (program(whole), tidy(program(whole))):
        arrays = [np.arange(7.0), np.zeros(1, np.int32), np.zeros(7), np.zeros(1)]
        assert interpret(made, arrays, [1, 0, 7])[0] == 0
        results.append(arrays[2].tolist())
    assert results[0] == results[1] == (2 * np.arange(7.0)).tolist()


def test_nothing_to_tidy_is_the_same_object() -> None:
    whole = program(vectorized(DOUBLE))
    assert tidy(whole) is whole


# -- kernels --------------------------------------------------------------------------------------


def kernel(*body: Stmt, threads: int = 32) -> p.Block:
    """The body of a kernel of n blocks of so many threads, tidied."""
    made = Kernel("k", block(*body), 1, threads, (N, Value(1)), scalars=(N,), arrays=(X, Y))
    return tidy_kernel(made, [N])


def test_an_iteration_of_each_thread_is_no_loop() -> None:
    """{ const i = lane; if (i < 32) s } => const i = lane; s"""
    lane = const(LANE, THREAD)
    whole = kernel(lane, loop(block(put(I), put(I + 1)), LANE, 32, once=True))
    assert whole == block(lane, const(I, LANE), put(I), put(I + 1))
    some = kernel(lane, loop(block(put(I), put(I + 1)), LANE, 20, once=True))
    guarded = p.If(compare("<", I, 20), block(put(I), put(I + 1)))
    assert some == block(lane, const(I, LANE), guarded)


def test_a_second_loop_of_the_same_name_is_called_by_its_value() -> None:
    lane = const(LANE, THREAD)
    twice = [loop(put(I), LANE, 32, once=True), Barrier(), loop(put(I), LANE, 32, once=True)]
    assert kernel(lane, *twice) == block(lane, put(LANE), Barrier(), put(LANE))


def test_there_are_as_many_blocks_as_the_grid_has() -> None:
    whole = kernel(const(I, BLOCK_X), p.If(compare("<", I, N), block(put(I))))
    assert whole == block(const(I, BLOCK_X), put(I))
