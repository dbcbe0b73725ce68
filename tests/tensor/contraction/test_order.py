"""The order of steps: by estimates alone, against what bench/contractions.py measured."""

from __future__ import annotations

from time import perf_counter

import numpy as np
import pytest
from bench.contractions import cases, chosen_tree, statement

import openwork as ow
from openwork.algebra import operators as ops

# For each contraction, the trees within 1.3 of the best that was measured; factors are numbers.
ONE = "one kernel"
BEST = {
    "chain A A x": {"(0 (1 2))"},
    "chain At A x": {"(0 (1 2))"},
    "chain A A A x": {"(0 (1 (2 3)))"},
    "chain x A A": {"((0 1) 2)"},
    "chain x A y": {ONE, "(0 (1 2))"},
    "chain skewed": {"(0 (1 2))"},
    "chain A B dense": {"(0 (1 2))"},
    "chain dense A A": {"((0 1) 2)"},
    "chain sparse 3": {ONE, "(0 (1 2))"},
    "dense chain 3": {"(0 (1 2))"},
    "dense chain x": {"(0 (1 (2 3)))"},
    "star private": {"(0 (1))"},
    "star masked": {ONE},
    "star scaled": {ONE},
    "triangles": {ONE},
    "Tucker sparse": {"(((0 3) 1) 2)"},
    "TTM chain": {ONE},
    "CP MTTKRP": {ONE},
    "CP full": {"(0 (1 2))"},
}


@pytest.mark.parametrize("name", BEST)
def test_best_orders(name: str) -> None:
    made = statement(*cases()[name]())
    tree = chosen_tree(made)
    assert (ONE if tree.is_one_kernel else str(tree)) in BEST[name]


def test_many_factors_are_ordered_quickly() -> None:
    for count in (8, 20):
        extents = [5 + 7 * n % 11 for n in range(count + 1)]
        letters = "abcdefghijklmnopqrstuvwxyz"
        chain = ",".join(letters[n : n + 2] for n in range(count)) + f"->a{letters[count]}"
        operands = [ow.tensor(np.ones(extents[n : n + 2])) for n in range(count)]
        start = perf_counter()
        tree = chosen_tree(statement(chain, operands))
        assert perf_counter() - start < 3
        assert len(tree.members) == count


def kernel(text: str, **names: object) -> ow.Kernel:
    return ow.parse(text, **names).compile()


def test_laws_decide() -> None:
    """Steps need a law of distribution, and types in which partial products are the same."""
    A, x = ow.random((3000, 3000), 0.01, rng=1), ow.tensor(np.ones(3000))
    text = "y(i) = A(i,j) * A(j,k) * x(k)"
    assert "2 steps" in repr(kernel(text, A=A, x=x))
    assert "2 steps" in repr(ow.parse(text, A=A, x=x, semiring="min_plus").compile())
    lightest = "y(i) = max(j, max(k, A(i,j) * A(j,k) * x(k)))"  # not for negative factors
    assert "steps" not in repr(kernel(lightest, A=A, x=x))
    small = A.astype("int8")
    assert "steps" not in repr(kernel(text, A=small, x=x))  # int8 products wrap
    assert "2 steps" in repr(kernel(text, A=small, x=x.astype("int8")))
    odd = ow.semiring("odd", ops.ADD, ow.operator("times", lambda a, b: a * b, annihilator=0), 0)
    assert "steps" not in repr(ow.parse(text, A=A, x=x, semiring=odd).compile())


def test_when_one_kernel_stays() -> None:
    A, x = ow.random((3000, 3000), 0.01, rng=1, format="CSR"), ow.tensor(np.ones(3000))
    stmt = ow.parse("y(i) = A(i,j) * A(j,k) * x(k)", A=A, x=x)
    assert "2 steps" in repr(stmt.compile())
    assert "steps" not in repr(stmt.compile(optimize=False))
    assert "steps" not in repr(stmt.reorder("i", "j", "k").compile())
    P = ow.placeholder("A", order=2, format=ow.CSR)
    assert "steps" not in repr(kernel("y(i) = A(i,j) * A(j,k) * x(k)", A=P, x=x))
