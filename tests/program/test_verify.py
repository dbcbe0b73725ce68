"""The verifier: small programs that keep every rule, and one that breaks each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.program.small import (
    COUNT,
    CRD,
    DOUBLE,
    KEYS,
    ONE,
    ROOM,
    SLOT,
    TOTAL,
    WORK,
    ZERO,
    I,
    J,
    N,
    X,
    Y,
    loop,
    program,
    shared,
    unit,
    vectorized,
)

from openwork.algebra import operators as ops
from openwork.errors import InternalError
from openwork.program import nodes as p
from openwork.program.verify import verify

FIRST = p.Value(0)
DECLARED = p.Declare(TOTAL, ZERO)
ADDS = p.Set(TOTAL, X[I], ops.ADD)
REDUCES = (p.Reduction(TOTAL, ops.ADD, ZERO),)
COPIES = (p.Copy(Y, N, ops.ADD, ZERO),)
SMALL = p.Array("small", "float64")


def shelved(*body: p.Stmt) -> tuple[p.Stmt, ...]:
    return (p.Shelf(KEYS, N), *body)


KEPT: dict[str, tuple[p.Stmt, ...]] = {
    "nothing": (),
    "a loop": (loop(DOUBLE),),
    "loops of all kinds": (loop(DOUBLE), vectorized(DOUBLE), shared(DOUBLE)),
    "one name in two blocks": (loop(DOUBLE), loop(p.block(p.Declare(J, I), DOUBLE))),
    "an index of any width": (p.Declare(SLOT, CRD[FIRST]),),
    "a name that is assigned": (p.Declare(COUNT, FIRST), p.Set(COUNT, COUNT + 1)),
    "a loop that is left": (loop(p.If(p.compare("<", X[I], ONE), p.block(p.Break()))),),
    "a reduction": (DECLARED, shared(ADDS, reductions=REDUCES)),
    "a flag that is raised": (
        p.Declare(p.Name("found", "bool"), p.Value(False, "bool")),
        shared(
            p.Set(p.Name("found", "bool"), p.Value(True, "bool")),
            reductions=(p.Reduction(p.Name("found", "bool"), ops.OR, p.Value(False, "bool")),),
        ),
    ),
    "copies": (shared(p.Store(Y, FIRST, X[I], ops.ADD), copies=COPIES),),
    "chunks": (shared(DOUBLE, chunk=4),),
    "memory of a thread": (
        shared(DOUBLE, private=(p.Allocate(WORK, N),), cleanup=(p.Free(WORK),)),
    ),
    "a list that grows": (
        p.Declare(ROOM, FIRST),
        p.Allocate(WORK, FIRST),
        p.Grow(ROOM, N, (p.Growing(WORK, p.Value(1)),)),
    ),
    "a shelf": shelved(p.Allocate(KEYS, N), p.Put(KEYS, FIRST)),
    "an array for another": (p.Allocate(WORK, N), *shelved(p.Take(KEYS, FIRST, WORK))),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_keeps_the_rules_passes(name: str) -> None:
    verify(program(*KEPT[name]))


BROKEN: dict[str, tuple[str, tuple[p.Stmt, ...]]] = {
    # -- names
    "a name that nobody declares": ("total is used before", (p.Store(Y, FIRST, TOTAL),)),
    "a name before its declaration": (
        "total is used before",
        (p.Store(Y, FIRST, TOTAL), DECLARED),
    ),
    "a name that declares itself": ("i is used before", (p.Declare(I, I + 1),)),
    "a name of a loop, after it": ("i is used before", (loop(DOUBLE), DOUBLE)),
    "a name of a branch, after it": (
        "count is used before",
        (p.If(p.compare("<", FIRST, N), p.block(p.Declare(COUNT, N))), p.Declare(SLOT, COUNT)),
    ),
    "a name twice": ("total is declared twice", (DECLARED, DECLARED)),
    "a name of an argument": ("x is declared twice", (p.Declare(p.Name("x"), FIRST),)),
    "a name of a loop around": ("i is declared twice", (loop(loop(DOUBLE)),)),
    "a fixed name that is assigned": (
        "count is fixed",
        (p.Declare(COUNT, N, fixed=True), p.Set(COUNT, FIRST)),
    ),
    "a size that is assigned": ("n is fixed", (p.Set(N, FIRST),)),
    "a loop's name that is assigned": ("i is fixed", (loop(p.Set(I, FIRST)),)),
    "a bound that is not known": ("count is used before", (loop(DOUBLE, end=COUNT),)),
    "a condition that is not known": (
        "count is used before",
        (p.While(p.compare("<", COUNT, N), p.block()),),
    ),
    # -- types
    "a sum of another type": ("a int64 is stored as float64", (p.Declare(TOTAL, N),)),
    "an assignment of another type": (
        "a int64 is stored as float64",
        (DECLARED, p.Set(TOTAL, N)),
    ),
    "an element of another type": (
        "a float64 is stored as int32",
        (p.Allocate(p.Array("a", "int32"), N), p.Store(p.Array("a", "int32"), FIRST, ONE)),
    ),
    # -- arrays
    "an array that does not exist": ("array work is used before", (p.Store(WORK, FIRST, ONE),)),
    "an array that helpers look for": (
        "array keys is used before",
        (p.Do(p.Helper("clear", (KEYS, N))),),
    ),
    "an array that is freed too soon": ("array work is used before", (p.Free(WORK),)),
    "an array that grows out of nothing": (
        "array work is used before",
        (p.Declare(ROOM, FIRST), p.Grow(ROOM, N, (p.Growing(WORK, N),))),
    ),
    "a prefetch of nothing": ("array work is used before", (p.Prefetch(WORK, FIRST),)),
    "an array allocated twice": (
        "array work is allocated twice",
        (p.Allocate(WORK, N), p.Allocate(WORK, N)),
    ),
    "a local array declared twice": (
        "array small is declared twice",
        (p.Local(SMALL, 4), p.Local(SMALL, 4)),
    ),
    # -- shelves
    "a shelf in a loop": ("there is a shelf of keys already, or in a loop", (loop(*shelved()),)),
    "a second shelf": ("there is a shelf of keys already", shelved(p.Shelf(KEYS, N))),
    "a put without a shelf": (
        "there is no shelf of keys",
        (p.Allocate(KEYS, N), p.Put(KEYS, FIRST)),
    ),
    "a put of nothing": ("array keys is used before", shelved(p.Put(KEYS, FIRST))),
    "a take without a shelf": ("there is no shelf of keys", (p.Take(KEYS, FIRST),)),
    "a second take": (
        "array keys is taken twice",
        shelved(p.Take(KEYS, FIRST), p.Take(KEYS, FIRST)),
    ),
    # -- loops
    "a break outside of loops": ("only a plain loop", (p.Break(),)),
    "a break out of a parallel loop": ("only a plain loop", (shared(p.Break()),)),
    "a break out of a vectorized loop": ("only a plain loop", (vectorized(p.Break()),)),
    "parallel loops in each other": (
        "the loop over i is parallel inside another",
        (replace(shared(shared(DOUBLE)), var=J),),
    ),
    "a parallel loop in a vectorized one": (
        "the loop over i is parallel inside another",
        (replace(vectorized(shared(DOUBLE)), var=J),),
    ),
    "chunks of nothing": ("no chunks of 0", (shared(DOUBLE, chunk=0),)),
    "turns without chunks": ("no chunks that 2 could take", (shared(DOUBLE, turns=2),)),
    "chunks with equal work": (
        "no chunks of 4",
        (shared(DOUBLE, chunk=4, balance=p.Balance(CRD)),),
    ),
    "copies in one block": (
        "y is copied by a loop of one block",
        (unit(I, "warp", N, DOUBLE, copies=COPIES),),
    ),
    "copies of another type": (
        "a int64 is stored as float64",
        (shared(DOUBLE, copies=(p.Copy(Y, N, ops.ADD, FIRST),)),),
    ),
    # -- reductions
    "a reduction that is read": (
        "total is reduced, but used otherwise",
        (DECLARED, shared(p.block(ADDS, p.Store(Y, I, TOTAL)), reductions=REDUCES)),
    ),
    "a reduction that is overwritten": (
        "total is reduced, but used otherwise",
        (DECLARED, shared(p.Set(TOTAL, X[I]), reductions=REDUCES)),
    ),
    "a reduction that never changes": (
        "total is fixed, but reduced",
        (p.Declare(TOTAL, ZERO, fixed=True), shared(DOUBLE, reductions=REDUCES)),
    ),
    "a reduction of another type": (
        "a int64 is stored as float64",
        (DECLARED, shared(ADDS, reductions=(p.Reduction(TOTAL, ops.ADD, FIRST),))),
    ),
    "a reduction that nobody declares": (
        "total is used before",
        (shared(DOUBLE, reductions=REDUCES),),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_breaks_a_rule_is_refused(name: str) -> None:
    message, body = BROKEN[name]
    with pytest.raises(InternalError, match=message):
        verify(program(*body))


def test_what_is_handed_back_has_to_be_there() -> None:
    verify(program(p.Allocate(WORK, N), made={WORK: N}))
    with pytest.raises(InternalError, match="array work is used before"):
        verify(program(made={WORK: N}))
    with pytest.raises(InternalError, match="count is used before"):
        verify(program(p.Allocate(WORK, N), made={WORK: COUNT}))


def test_a_statement_of_another_language_is_refused() -> None:
    strange: Any = type("Strange", (p.Stmt,), {})()
    with pytest.raises(InternalError, match="Strange is no statement"):
        verify(program(strange))
