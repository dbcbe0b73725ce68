"""What is proved about indices holds: random claims, against all small values of the variables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from openwork import skeletons as sk
from openwork.errors import DataError, PatternError
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.algebra import closed, falling_sum, proves
from openwork.skeletons.language.nodes import Nat, nat

CLAIMS = 1500
FUZZ = int(os.environ.get("OPENWORK_FUZZ_CASES", "0"))
DATA = n.atom(n.ToNat(n.At(n.Var("d"), n.OfNat(nat(0)))))  # which may be negative
N, M, I, J = map(n.named, "nmij")
Values = Mapping[str, int]


class Undefined(Exception):
    """A value divides by zero."""


def value(of: Nat, at: Values) -> int:
    total = 0
    for monomial, times in of.terms:
        for a in monomial:
            times *= _atom(a, at)
        total += times
    return total


def _atom(a: n.Atom, at: Values) -> int:
    match a:
        case n.Named(name=name):
            return at[name]
        case n.ToNat():
            return at["d"]
        case n.Choice(condition=c, then=then, otherwise=otherwise):
            return value(then if _holds(c, at) else otherwise, at)
        case n.Quotient(sign=sign, left=left, right=right):
            by = value(right, at)
            if not by:
                raise Undefined
            return value(left, at) // by if sign == "/" else value(left, at) % by
        case n.Sum(var=var, low=low, high=high, body=body):
            places = range(value(low, at), value(high, at))
            return sum(value(body, {**at, var: k}) for k in places)
    raise AssertionError(a)


def _holds(c: n.Condition, at: Values) -> bool:
    left, right = value(c.left, at), value(c.right, at)
    return {"<": left < right, "<=": left <= right, "==": left == right}[c.sign]


def _natural(random: Random, names: tuple[Nat, ...], depth: int = 2) -> Nat:
    """A random natural, or what looks like one and may be negative."""
    pick = random.randrange(11) if depth else random.randrange(4)
    if pick < 3:
        return random.choice(names)
    if pick == 3:
        return nat(random.randrange(4))

    def part() -> Nat:
        return _natural(random, names, depth - 1)

    if pick < 9:
        a, b = part(), part()
        return (a + b, a + b, a - b, a * b, n.lesser(a, b))[pick - 4]
    if pick == 9:
        make = random.choice((n.divided, n.remainder))
        return make(part(), random.choice((nat(2), nat(3), N)))
    if random.random() < 0.5:
        sign = random.choice(("<", "<=", "=="))
        return n.chosen(n.Condition(sign, part(), part()), part(), part())
    low = random.choice((nat(0), nat(0), I, J, nat(1)))
    high = random.choice((N, M, N + 1, nat(3)))
    if low.terms and random.random() < 0.7:
        high = random.choice((low + M, n.chosen(low < high, high, low)))
    return n.summed(low, high, lambda k: _natural(random, (*names, k), depth - 1))


def _assignments(bounds: Mapping[str, Nat]) -> Iterator[Values]:
    for n_, m_, d_ in product((0, 1, 2, 4), (0, 1, 3), (-2, 0, 3)):
        at = {"n": n_, "m": m_, "d": d_}
        for i in range(value(bounds["i"], at)):
            for j in range(value(bounds["j"], {**at, "i": i})):
                yield {**at, "i": i, "j": j}


def _claims(seed: int, count: int) -> int:
    random, proved = Random(seed), 0
    for _ in range(count):
        bounds = {"i": random.choice((N, N + M, N * M, 2 * N)), "j": nat(2)}
        bounds["j"] = random.choice((I + 1, M, N - I, n.lesser(nat(2), N - I), nat(2)))
        low, high = (_natural(random, (N, M, I, J, I, DATA), 1) for _ in range(2))
        if random.random() < 0.5:  # a claim that may well hold
            high = low + _natural(random, (N, M, I, J, DATA, bounds["j"] - J - 1), 3)
        elif random.random() < 0.5:
            high = bounds["i"] - random.choice((I, nat(1), 1 + J)) + _natural(random, (I, J, M), 2)
        if not proves(low, high, bounds):
            continue
        proved += 1
        for at in _assignments(bounds):
            try:
                holds = value(low, at) <= value(high, at)
            except Undefined:
                continue
            assert holds, f"{low} <= {high} with {at}, i < {bounds['i']}, j < {bounds['j']}"
    return proved


@pytest.mark.parametrize(
    "index",
    ["i // 2", "i % 2", "(i + 1) % n", "(i + n - 1) % n", "i % m", "(i * 3) // 4", "i // m",
     "nat((i + 1 < n ? i + 1 : i))", "(i // 2) * 2"],
)  # fmt: skip
def test_quotients_are_indices(index: str) -> None:
    text = f"nFun n. nFun m. fun x: [float]_n. generate(n, nFun(i => x@({index})))"
    program = sk.parse(text)
    assert str(program.result) == "[float32]_n"
    assert sk.parse(program.text) == program


@pytest.mark.parametrize("index", ["(i - 1) % n", "(i + 2) // 2", "i * 2 % (n + 1)", "n - i"])
def test_quotients_that_may_lie_outside(index: str) -> None:
    with pytest.raises(PatternError, match="cannot show that index"):
        sk.parse(f"nFun n. fun x: [float]_n. generate(n, nFun(i => x@({index})))")


def test_what_is_proved_holds() -> None:
    assert _claims(0, CLAIMS) > CLAIMS // 10


@pytest.mark.fuzz
@pytest.mark.skipif(not FUZZ, reason="OPENWORK_FUZZ_CASES says how many")
def test_much_that_is_proved_holds() -> None:
    _claims(1, FUZZ)


def test_sums_that_go_up_have_closed_forms() -> None:
    """A sum that may go down is refused, as its closed form would be less than no terms."""
    random, held = Random(2), 0
    bounds = {"i": N, "j": nat(2)}
    for _ in range(600):
        made = n.summed(nat(0), M, lambda k: _natural(random, (N, M, I, J, k), 2)) + _natural(
            random, (N, M, I, J), 2
        )
        if falling_sum(made, bounds) is not None or not any(
            isinstance(a, n.Sum) for a in n.walk_all(made)
        ):
            continue
        held += 1
        form = closed(made)
        for at in _assignments(bounds):
            try:
                assert value(form, at) == value(made, at), f"{made} is not {form} with {at}"
            except Undefined:
                continue
    assert held > 100


count, other = sk.nats("n m")


@pytest.mark.parametrize(
    "shift",
    [
        sk.where(count < 5, count - 5, 0),
        sk.total(0, count, lambda k: sk.where(k < 5, k - 1, 0)),
        (count - other) // count,
    ],
    ids=str,
)
def test_a_difference_may_be_negative(shift: Nat) -> None:
    """An array of as many elements fewer has none before its first."""
    with pytest.raises(PatternError, match="E705"):
        sk.program(
            {"x": sk.array(count + shift, sk.float64)},
            lambda x: sk.generate(count, lambda i: x[i + shift]),
        )


def test_data_may_be_negative() -> None:
    offsets = sk.array(1, sk.int32)
    shift = sk.to_nat(offsets[0])
    with pytest.raises(PatternError, match="E705"):
        sk.program(
            {"o": offsets, "x": sk.array(count + shift, sk.float64)},
            lambda o, x: sk.generate(count, lambda i: x[i + shift]),
        )


def test_a_length_may_be_negative() -> None:
    """Rows of fewer than no elements would begin before the result."""

    def rows(x: Any, length: Callable[[Nat], Nat]) -> object:
        return sk.generate(count, lambda i: sk.generate(length(i), lambda k: x[k]))

    params = {"x": sk.array(count, sk.float64)}
    with pytest.raises(PatternError, match="E707"):
        sk.program(params, lambda x: rows(x, lambda i: i - 2))
    sk.program(params, lambda x: rows(x, lambda i: sk.where(i < 2, 0, i - 2)))


def _folded(pieces: Any) -> Any:
    return pieces >> sk.map(sk.reduce(sk.add, 0)) >> sk.reduce(sk.add, 0)


@pytest.mark.needs_cc
@pytest.mark.parametrize("size", [other, count - 9], ids=str)
def test_pieces_have_elements(size: Nat) -> None:
    """Their number is a quotient, which a kernel cannot divide by zero."""
    made = sk.program({"x": sk.array(count, sk.float64)}, lambda x: _folded(x >> sk.split(size)))
    given = {"m": 0} if size == other else {}
    with pytest.raises(DataError, match="must be positive"):
        made.compile()(x=np.arange(4.0), **given)


def test_pieces_of_each_row_have_elements() -> None:
    params = {"x": sk.array(count, sk.float64)}
    with pytest.raises(PatternError, match="E707"):
        sk.program(params, lambda x: sk.generate(count, lambda i: _folded(x >> sk.split(i))))
    sk.program(params, lambda x: sk.generate(count, lambda i: _folded(x >> sk.split(i + 1))))


def test_literals_that_compare_equal_in_python_are_different() -> None:
    """Else a program that was lowered before with the one would lend its lengths to the other."""
    alike = [n.Literal(v) for v in (1, 1.0, True)], [n.Literal(v) for v in (0.0, -0.0, False)]
    for literals in alike:
        assert len(set(literals)) == 3
    assert n.Literal(float("nan")) == n.Literal(float("nan"))
    for text, kind in (("i", "int64"), ("1.0 * i", "float64"), ("i < 1", "bool")):
        made = sk.parse(f"nFun n. generate(n, nFun(i => {text}))")
        assert made(n=3).dtype == kind


@pytest.mark.parametrize("text", ["k*k", "k*k*k", "sum(j, 0, k, j*j)", "k*k + 1"])
def test_a_sum_of_naturals_is_a_length(text: str) -> None:
    """Its closed form has differences, of which nothing is proved."""
    made = sk.parse(f"nFun n. generate(sum(k, 0, n, {text}), nFun(i => 1)) :>> reduce(+, 0)")
    body = {"k*k": lambda k: k**2, "k*k*k": lambda k: k**3, "k*k + 1": lambda k: k**2 + 1}
    each = body.get(text, lambda k: sum(j * j for j in range(k)))
    assert [made(n=n) for n in range(6)] == [sum(map(each, range(n))) for n in range(6)]
    with pytest.raises(PatternError, match="not negative"):
        sk.parse(f"nFun n. generate(sum(k, 0, n, {text}) - n - n, nFun(i => 1))")
