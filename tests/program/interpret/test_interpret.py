"""The interpreter runs small programs as C would, and notices every fault that is planted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.program.small import (
    COUNT,
    CRD,
    DOUBLE,
    KEYS,
    LISTED,
    MARKS,
    MASK,
    ONE,
    ROOM,
    SLOT,
    SLOTS,
    TABLE,
    TOTAL,
    WORK,
    I,
    N,
    X,
    Y,
    loop,
    program,
    shared,
    vectorized,
)

from openwork.algebra import operators as ops
from openwork.errors import InternalError
from openwork.program import nodes as p
from openwork.program.contract import OVERFLOWED
from openwork.program.interpret import interpret as interpreter
from openwork.program.interpret.interpret import NO_MEMORY, OK, interpret
from openwork.program.interpret.memory import poison
from openwork.program.verify import verify
from openwork.runtime.storage import Array


def run(
    *body: p.Stmt,
    x: Sequence[float] = (1.0, 2.0, 3.0),
    crd: Sequence[int] = (0, 2, 5),
    threads: int = 2,
    made: dict[p.Array, p.Expr] | None = None,
    checked: bool = True,
) -> tuple[int, list[float], list[Array]]:
    """The status, y, and what was made."""
    whole = program(*body, made=made)
    if checked:
        verify(whole)
    y = np.full(len(x), poison(np.dtype("float64")))
    arrays = [np.array(x), np.array(crd, np.int32), y, np.array(x), *[None] * len(made or {})]
    status, arrays_made = interpret(whole, arrays, [threads, 0, len(x)])
    return status, y.tolist(), arrays_made


@pytest.mark.parametrize("kind", [loop, vectorized, shared])
def test_a_loop(kind: Callable[[p.Stmt], p.For]) -> None:
    assert run(kind(DOUBLE))[:2] == (OK, [2.0, 4.0, 6.0])


def test_scalars_branches_and_while() -> None:
    odd = p.compare("==", I % 2, 1)
    add = p.Set(TOTAL, X[I], ops.ADD)
    step = p.Set(COUNT, COUNT + 1)
    status, y, _ = run(
        p.Comment("the odd elements are added up"),
        p.Declare(TOTAL, p.Value(0.0, "float64")),
        loop(p.If(odd, add, p.block(p.Comment("nothing")))),
        p.Declare(COUNT, p.Value(0)),
        p.While(p.compare("<", COUNT, N), p.block(p.Store(Y, COUNT, TOTAL), step)),
    )
    assert (status, y) == (OK, [2.0, 2.0, 2.0])


def test_local_arrays_belong_to_their_thread() -> None:
    sums = p.Array("sums", "float64")
    first = p.Value(0)
    body = p.block(p.Local(sums, 1), p.Store(sums, first, X[I]), p.Store(Y, I, sums[first]))
    assert run(shared(body))[:2] == (OK, [1.0, 2.0, 3.0])
    unset = p.block(p.Local(sums, 1), p.Store(Y, I, sums[first]), p.Store(sums, first, X[I]))
    with pytest.raises(InternalError, match=r"sums\[0\] is read before"):
        run(loop(unset))


def test_integers_wrap_and_floats_follow_ieee() -> None:
    small = p.Array("small", "int8")
    wrapped = p.Apply(ops.ADD, (p.Value(127, "int8"), p.Value(1, "int8")), "int8")
    status, y, made = run(
        p.Allocate(small, p.Value(1)),
        p.Store(small, p.Value(0), wrapped),
        loop(p.Store(Y, I, p.Apply(ops.DIV, (X[I], p.Value(0.0, "float64")), "float64"))),
        x=(1.0, -1.0),
        made={small: p.Value(1)},
    )
    assert (status, y, made[0].tolist()) == (OK, [np.inf, -np.inf], [-128])


def test_conversions_are_those_of_c() -> None:
    pair = p.Value(complex(2.9, 7.0), "complex128")
    whole = p.Convert(p.Convert(pair, "float64"), "int32")
    status, y, _ = run(loop(p.Store(Y, I, p.Convert(whole, "float64"))), x=(0.0,))
    assert (status, y) == (OK, [2.0])


def test_what_is_made_is_handed_back() -> None:
    grow = p.Grow(ROOM, COUNT + 1, (p.Growing(WORK, p.Value(1), extra=1, zeroed=True),))
    status, _, (work,) = run(
        p.Declare(ROOM, p.Value(0)),
        p.Declare(COUNT, p.Value(0)),
        p.Allocate(WORK, p.Value(0)),
        loop(p.block(grow, p.Store(WORK, COUNT, X[I]), p.Set(COUNT, COUNT + 1))),
        made={WORK: COUNT + 1},
    )
    assert (status, work.tolist()) == (OK, [1.0, 2.0, 3.0, 0.0])


def test_statuses() -> None:
    assert run(p.Fail(OVERFLOWED))[0] == OVERFLOWED
    assert run(p.Allocate(WORK, p.Value(2**62)))[0] == NO_MEMORY


def find_all(keys: Sequence[int]) -> tuple[p.Stmt, ...]:
    """Code that enters `keys` into a hash table."""
    code: list[p.Stmt] = [
        *(p.Allocate(array, p.Value(100)) for array in (KEYS, SLOTS)),
        p.Allocate(TABLE, p.Value(0)),
        p.Declare(MASK, p.Value(-1)),
        p.Declare(COUNT, p.Value(0)),
        p.Declare(SLOT, p.Value(0)),
    ]
    for key in keys:
        found = p.Helper("find", (TABLE, MASK, KEYS, COUNT, p.Value(key)))
        first = p.block(
            p.Store(KEYS, COUNT, p.Value(key)),
            p.Store(SLOTS, COUNT, COUNT),
            p.Set(COUNT, COUNT + 1),
        )
        code += [p.Set(SLOT, found), p.If(p.compare("==", SLOT, COUNT), first)]
    return tuple(code)


def test_the_hash_table_finds_and_sorts_its_keys() -> None:
    keys = [7 * n % 50 for n in range(90)]
    sort = p.Do(p.Helper("sort_pairs", (KEYS, SLOTS, COUNT)))
    status, _, (made, slots) = run(*find_all(keys), sort, made={KEYS: COUNT, SLOTS: COUNT})
    order = list(dict.fromkeys(keys))
    assert status == OK
    assert made.tolist() == sorted(order)
    assert slots.tolist() == [order.index(key) for key in sorted(order)]
    again = p.Helper("find", (TABLE, MASK, KEYS, COUNT, p.Value(3)))
    cleared = [p.Do(p.Helper("clear", (TABLE, MASK))), p.Set(COUNT, p.Value(0)), p.Set(SLOT, again)]
    status, _, _ = run(*find_all(keys), *cleared)
    assert status == OK


def noted(keys: Sequence[int], size: int) -> tuple[p.Stmt, ...]:
    """Code that lists `keys`, and sorts them."""
    note = [p.Helper("note", (LISTED, KEYS, COUNT, p.Value(key))) for key in keys]
    return (
        p.Allocate(LISTED, p.Value(size), zeroed=True),
        p.Allocate(MARKS, p.Value(size // 64 + 1), zeroed=True),
        p.Allocate(KEYS, p.Value(size + 1)),
        p.Declare(COUNT, p.Value(0)),
        *(p.Set(COUNT, each) for each in note),
        p.Do(p.Helper("order_keys", (KEYS, COUNT, MARKS))),
    )


@pytest.mark.parametrize("size", [6, 64, 4096, 300_000])
def test_noted_keys_are_listed_in_order(size: int) -> None:
    given = [size - 1, 0, 3, 3, size // 2, size // 2 + 1, 0]
    status, _, (keys,) = run(*noted(given, size), made={KEYS: COUNT})
    assert (status, keys.tolist()) == (OK, sorted(set(given)))


@pytest.mark.parametrize(("key", "position"), [(0, 0), (2, 1), (5, 2), (3, -1), (9, -1)])
def test_search(key: int, position: int) -> None:
    search = p.Helper("search", (CRD, p.Value(0), p.Value(3), p.Value(key)))
    _, y, _ = run(loop(p.Store(Y, I, p.Convert(search, "float64"))))
    assert y == [position] * 3


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_balanced_parts_cover_the_loop(threads: int) -> None:
    balanced = shared(DOUBLE, end=p.Value(2), balance=p.Balance(CRD))
    status, y, _ = run(balanced, threads=threads)
    assert (status, y[:2]) == (OK, [2.0, 4.0])


# --- Planted faults ----------------------------------------------------------------------------

ADD_ALL = p.Store(Y, p.Value(0), X[I], ops.ADD)
SHARED = p.Set(TOTAL, X[I], ops.ADD)
FAULTS: dict[str, tuple[str, tuple[p.Stmt, ...]]] = {
    "an element too far": (r"x\[3\] is outside of 3", (loop(DOUBLE, end=N + 1),)),
    "an element too early": (r"x\[-1\] is outside", (loop(DOUBLE, begin=-1),)),
    "a store too far": (r"y\[3\] is outside", (loop(p.Store(Y, I + 1, X[I])),)),
    "a prefetch too far": (r"x\[3\] is outside", (loop(p.Prefetch(X, I + 1)),)),
    "an operand is written": ("x.*belongs to an operand", (loop(p.Store(X, I, ONE)),)),
    "a read of fresh memory": (
        r"work\[0\] is read before",
        (p.Allocate(WORK, N), loop(p.Store(Y, I, WORK[I]))),
    ),
    "a read of memory that has grown": (
        r"work\[1\] is read before",
        (
            p.Declare(ROOM, p.Value(0)),
            p.Allocate(WORK, p.Value(1), zeroed=True),
            p.Grow(ROOM, N, (p.Growing(WORK, p.Value(1)),)),
            loop(p.Store(Y, I, WORK[I])),
        ),
    ),
    "a use after the end": (
        "work is not allocated",
        (p.Allocate(WORK, N, zeroed=True), p.Free(WORK), loop(p.Store(Y, I, WORK[I]))),
    ),
    "two threads write to one place": (
        r"y\[0\] is (written by two|read by one)",
        (shared(ADD_ALL),),
    ),
    "a thread reads what another writes": (
        r"y\[\d\] is",
        (
            loop(DOUBLE),
            shared(p.Store(Y, I, Y[p.arithmetic("-", p.Value(2), I)])),
        ),
    ),
    "threads share a scalar": (
        "total is assigned by all threads",
        (p.Declare(TOTAL, ONE), shared(SHARED)),
    ),
    "threads move shared memory": (
        "work is moved by one of many",
        (p.Allocate(WORK, N, zeroed=True), shared(p.Free(WORK))),
    ),
    "a thread keeps its memory": (
        "work belongs to one thread",
        (shared(DOUBLE, private=(p.Allocate(WORK, N),)),),
    ),
    "a loop without end": (
        "does not end",
        (p.While(p.compare("<", p.Value(0), N), p.block(p.Comment("n stays"))),),
    ),
    "an overflow": (
        "overflows",
        (p.Declare(COUNT, p.Value(2**62)), p.Declare(SLOT, COUNT * COUNT)),
    ),
    "a division of the negative": ("has no -1", (p.Declare(SLOT, p.Value(-1) / N),)),
    "a coordinate that does not fit": (
        "does not fit small",
        (
            p.Allocate(p.Array("small", "int32"), N),
            p.Store(p.Array("small", "int32"), p.Value(0), p.Value(2**40)),
        ),
    ),
    "a key beyond the list": (r"listed\[6\] is outside of 6", noted([1, 6], 6)),
    "a flag that is wrong": (
        "listed is wrong about 1",
        (
            *noted([1], 6),
            p.Set(COUNT, p.Value(0)),
            p.Set(COUNT, p.Helper("note", (LISTED, KEYS, COUNT, p.Value(1)))),
        ),
    ),
    "a bitmap that is not empty": (
        "marks is not empty",
        (
            *noted([1], 6),
            p.Store(MARKS, p.Value(0), p.Value(2, "uint64")),
            p.Do(p.Helper("order_keys", (KEYS, COUNT, MARKS))),
        ),
    ),
    "an array left on a shelf": (
        "an array was left on a shelf",
        (p.Shelf(KEYS, p.Value(1)), p.Allocate(KEYS, p.Value(1)), p.Put(KEYS, p.Value(0))),
    ),
    "an array taken from an empty place": (
        "has nothing at 0",
        (p.Shelf(KEYS, p.Value(1)), p.Take(KEYS, p.Value(0))),
    ),
    "a lost slot": (
        "table does not hold",
        (*find_all([4]), p.Set(COUNT, p.Value(0)), *find_all([4])[-2:]),
    ),
    "a float as an index": (
        "a float64 stands where an index",
        (loop(p.Store(Y, X[I], ONE)),),
    ),
    "an unknown helper": ("no helper shuffle", (p.Do(p.Helper("shuffle", (CRD,))),)),
    "memory of negative size": (
        "work cannot have -1",
        (p.Allocate(WORK, p.Value(-1)),),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_noticed(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "_MOST_TURNS", 1000)  # before a loop is taken for endless
    message, body = FAULTS[fault]
    with pytest.raises(InternalError, match=message):
        run(*body)


def test_a_run_out_of_order_is_not_searched() -> None:
    search = p.Helper("search", (CRD, p.Value(0), p.Value(3), p.Value(5)))
    with pytest.raises(InternalError, match="crd is searched from 0 to 3, but is not in order"):
        run(loop(p.Store(Y, I, p.Convert(search, "float64"))), crd=(2, 0, 5))


def test_a_simd_loop_must_be_free_of_dependences() -> None:
    running = p.Store(Y, I, p.Apply(ops.ADD, (Y[p.arithmetic("-", I, p.Value(1))], ONE), "float64"))
    first = p.Store(Y, p.Value(0), ONE)
    x = [0.0] * 9
    assert run(first, loop(running, begin=1), x=x)[1] == [*range(1, 10)]
    assert run(first, vectorized(running, begin=1), x=x)[1] != [*range(1, 10)]


@pytest.mark.parametrize(
    ("count", "message"),
    [(p.Value(3), r"work\[1\] is handed back, but was never written"), (p.Value(9), "has no 9")],
)
def test_what_is_handed_back_must_be_there(count: p.Expr, message: str) -> None:
    body = (p.Allocate(WORK, N), p.Store(WORK, p.Value(0), ONE))
    with pytest.raises(InternalError, match=message):
        run(*body, made={WORK: count})


def test_arguments_of_another_type_are_refused() -> None:
    with pytest.raises(InternalError, match="crd has the type int32, but an array of int64"):
        interpret(program(), [np.ones(1), np.zeros(1, np.int64), np.ones(1), np.ones(1)], [1, 0, 1])
    with pytest.raises(InternalError, match="x has the type float64, but no array"):
        interpret(program(), [None, np.zeros(1, np.int32), np.ones(1), np.ones(1)], [1, 0, 1])


def test_nodes_it_does_not_know_are_refused() -> None:
    unknown: list[tuple[type[p.Node], Callable[[Any], p.Stmt]]] = [
        (p.Stmt, lambda node: node),
        (p.Expr, lambda node: p.Do(p.Helper("search", (node,)))),
    ]
    for base, around in unknown:
        strange = dataclass(frozen=True)(type("Strange", (base,), {"type": "int64"}))()
        with pytest.raises(InternalError, match="Strange is no"):
            run(around(strange), checked=False)
    with pytest.raises(InternalError, match=r"<< is no operator"):
        run(p.Declare(SLOT, p.Binary("min", N, p.Binary("<<", N, N))), checked=False)
