"""Local arrays as vectors of the processor: which loops become vectors, and which must not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.program.small import (
    COUNT,
    ONE,
    SUMS,
    TOTAL,
    VALS,
    ZERO,
    I,
    N,
    X,
    Y,
    loop,
    program,
    times,
    written_out,
)

from openwork.algebra import operators as ops
from openwork.algebra.operators import Op
from openwork.program import nodes as p
from openwork.program.vectorize import InVectors, SumLanes, vectorize
from openwork.tree import walk

AT = p.Name("at")
TERM = times(X[I], VALS[I * 8 + AT])


def dots(
    term: p.Expr = TERM,
    place: p.Expr = AT,
    count: int = 8,
    op: Op = ops.ADD,
    sums: p.Array = SUMS,
    after: Sequence[p.Stmt] = (),
) -> p.Program:
    """sums[at] = 0; for i { sums[at] += x[i] * A[8 i + at] }; total += sums[at]"""
    total = p.Name("total", sums.type)
    zero = p.Value(0.0, sums.type)
    combine = written_out(AT, count, p.Set(total, sums[AT], ops.ADD))
    reduction = (p.Reduction(total, ops.ADD, zero),)
    return program(
        p.Declare(total, zero),
        p.Local(sums, count),
        written_out(AT, count, p.Store(sums, AT, zero)),
        loop(written_out(AT, count, p.Store(sums, place, term, op))),
        *after,
        p.For(combine.var, combine.begin, combine.end, combine.body, unrolled=True,
              reductions=reduction),
        p.Store(Y, p.Value(0), p.Convert(total, "float64")),
    )  # fmt: skip


def vectors(whole: p.Program) -> list[InVectors]:
    return [n for n in walk(vectorize(whole).body) if isinstance(n, InVectors)]


def test_written_out_loops_become_vectors() -> None:
    after = vectorize(dots())
    first, second = vectors(dots())
    assert (second.count, second.type, second.bytes) == (8, "float64", 64)
    assert second.var == first.var == AT
    (summed,) = (n for n in walk(after.body) if isinstance(n, SumLanes))
    assert (summed.name, summed.count) == (TOTAL, 8)
    arrays = {n for n in walk(after.body) if isinstance(n, p.Array) and n.name == "sums"}
    assert {array.vectors for array in arrays} == {64}


def test_what_is_only_summed_begins_with_minus_zero() -> None:
    """Adding it changes nothing, not even 0.0, so that a compiler may leave it out."""
    first, _ = vectors(dots())
    (store,) = (n for n in walk(first) if isinstance(n, p.Store))
    assert str(store.value) != str(ZERO) and repr(getattr(store.value, "value", 0)) == "-0.0"


def test_what_is_read_begins_with_zero() -> None:
    read = written_out(AT, 8, p.Store(Y, I * 8 + AT, SUMS[AT]))
    whole = dots(after=[loop(read)])
    first = vectors(whole)[0]
    (store,) = (n for n in walk(first) if isinstance(n, p.Store))
    assert repr(getattr(store.value, "value", 0)) == "0.0"


@pytest.mark.parametrize(("type", "count", "bytes"), [("float64", 4, 32), ("float32", 16, 64)])
def test_the_widest_vectors_that_are_whole(type: str, count: int, bytes: int) -> None:
    sums, given = p.Array("sums", type), p.Array("given", type)
    found = vectors(dots(given[AT], count=count, sums=sums))
    assert {v.bytes for v in found} == {bytes}


@pytest.mark.parametrize(
    ("why", "whole"),
    [
        ("three elements are no whole vector", dots(count=3)),
        ("integers have other vectors", dots(p.Value(1), sums=p.Array("sums", "int64"))),
        ("a vector begins at its first element", dots(place=AT + 1)),
        ("a vector begins where one begins", dots(times(SUMS[AT + 4], VALS[AT]), count=16)),
        ("lanes lie side by side", dots(times(X[I], VALS[AT * 2]))),
        ("a lane's number is no vector", dots(p.Convert(AT, "float64"))),
        ("what an index array says is no run", dots(VALS[p.Convert(X[AT], "int64")])),
        ("a power has no lanes", dots(op=ops.POW)),
        ("an element that is found as it runs", dots(after=[loop(p.Store(SUMS, I, ONE))])),
        ("a helper wants memory", dots(after=[p.Do(p.Helper("clear", (SUMS, N)))])),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_everything_else_stays_as_it_is(why: str, whole: p.Program) -> None:
    assert vectorize(whole) == whole


def test_an_index_that_is_known_by_name() -> None:
    first = p.Declare(COUNT, I * 8, fixed=True)
    body = p.block(first, written_out(AT, 8, p.Store(SUMS, AT, VALS[COUNT + AT], ops.ADD)))
    whole = dots(after=[loop(body)])
    assert len(vectors(whole)) == 3


def test_two_places_of_one_array_are_not_one_vector() -> None:
    both = p.block(p.Store(SUMS, AT, VALS[AT], ops.ADD), p.Store(SUMS, AT, SUMS[AT + 8], ops.ADD))
    assert len(vectors(dots(after=[written_out(AT, 8, both)]))) == 2  # those that were there
