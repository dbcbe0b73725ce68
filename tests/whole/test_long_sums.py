"""Sums of many sparse operands: right in every format, linear in their number, quick to compile."""

from __future__ import annotations

import os
from functools import reduce
from operator import add

import numpy as np
import pytest
from tests.choices import in_pairs

import openwork as ow

VECTOR = ow.Format([ow.Compressed])
FORMATS = {
    "vector": [VECTOR],
    "csr": [ow.CSR],
    "dcsr": [ow.DCSR],
    "coo": [ow.COO(2)],
    "csf": [ow.CSF(3)],
    "mixed": [ow.CSR, ow.DCSR, ow.COO(2), ow.dense(2)],
}
SHAPES = {1: (30,), 2: (7, 9), 3: (4, 5, 6)}


def operands(count: int, formats: list[ow.Format], seed: int = 0) -> list[ow.Tensor]:
    rng = np.random.default_rng(seed)
    made = []
    for n in range(count):
        format = formats[n % len(formats)]
        shape = SHAPES[len(set(format.order))]
        values = rng.integers(1, 9, shape) * (rng.random(shape) < 0.2)
        made.append(ow.tensor(values.astype(float), format=format, name=f"T{n}"))
    return made


def summed(tensors: list[ow.Tensor], format: ow.Format) -> ow.Statement:
    variables = ow.indices("i j k")[: tensors[0].order]
    result = ow.empty(tensors[0].shape, format=format, name="R")
    return ow.assign(result[variables], reduce(add, [t[variables] for t in tensors]))


def lines(count: int, format: ow.Format) -> int:
    return summed(operands(count, [format]), format).compile().source.count("\n")


@pytest.mark.needs_cc
@pytest.mark.parametrize(
    ("which", "dense", "target"),
    in_pairs(list(FORMATS), [False, True], ["cpu", "cuda-emulated"]),
)
def test_a_sum_of_twelve(which: str, dense: bool, target: str) -> None:
    tensors = operands(12, FORMATS[which])
    order = tensors[0].order
    kernel = summed(tensors, ow.dense(order) if dense else FORMATS[which][0]).compile(target=target)
    expected = reduce(add, [t.to_numpy() for t in tensors])
    np.testing.assert_array_equal(kernel().to_numpy(), expected)


@pytest.mark.parametrize("format", [VECTOR, ow.CSR, ow.DCSR], ids=["vector", "csr", "dcsr"])
def test_code_grows_in_proportion(format: ow.Format) -> None:
    one, two, three = (lines(n, format) for n in (8, 16, 24))
    assert two - one < 40 * 8
    assert three - two <= 1.2 * (two - one)


@pytest.mark.needs_cc
def test_the_way_is_explained() -> None:
    assert "merged in one loop" in summed(operands(6, [ow.CSR]), ow.CSR).compile().explain()
    assert "merged in one loop" not in summed(operands(3, [ow.CSR]), ow.CSR).compile().explain()


@pytest.mark.needs_cc
def test_a_sum_of_a_hundred() -> None:
    tensors = operands(100, [VECTOR])
    expected = reduce(add, [t.to_numpy() for t in tensors])
    np.testing.assert_array_equal(summed(tensors, VECTOR).compile()().to_numpy(), expected)


@pytest.mark.needs_cc
def test_an_absent_entry_may_count() -> None:
    """One operand has the fill value 1: where it and all before it are absent, the sum is not 0."""
    tensors = operands(8, [VECTOR])
    entries = (np.array([[2, 5]]), np.array([3.0, 4.0]))
    tensors[2] = ow.tensor(entries, shape=(30,), format=VECTOR, fill=1, name="T2")
    expected = reduce(add, [t.to_numpy() for t in tensors])
    np.testing.assert_array_equal(summed(tensors, ow.dense(1)).compile()().to_numpy(), expected)


@pytest.mark.needs_cc
def test_sums_of_products() -> None:
    a = operands(12, [ow.DCSR, ow.CSR])
    i, j = ow.indices("i j")
    result = ow.empty(a[0].shape, format=ow.DCSR, name="R")
    terms = [a[n][i, j] * a[n + 1][i, j] for n in range(0, 12, 2)]
    expected = sum(a[n].to_numpy() * a[n + 1].to_numpy() for n in range(0, 12, 2))
    got = ow.assign(result[i, j], reduce(add, terms)).compile()()
    np.testing.assert_array_equal(got.to_numpy(), expected)
    assert got.nnz == np.count_nonzero(expected), "entries only where a product has one"


@pytest.mark.needs_cc
def test_an_absent_entry_annihilates_and_a_lone_one_keeps_its_sign() -> None:
    """Whatever the others are: inf * absent is absent, and -0.0 alone stays -0.0."""
    entries = (np.array([[0]]), np.array([-0.0]))
    ones = [ow.tensor(entries, shape=(3,), format=VECTOR, name="T0")]
    ones += [ow.tensor(np.zeros(3), format=VECTOR, name=f"T{n}") for n in range(1, 7)]
    y = summed(ones, VECTOR).compile()().to_numpy()
    assert np.signbit(y[0])
    x = ow.tensor(np.full(3, np.inf), name="x")
    (i,) = ow.indices("i")
    result = ow.empty((3,), format=VECTOR, name="R")
    total = reduce(add, [t[i] for t in ones[1:]])
    assert ow.assign(result[i], x[i] * total).compile()().nnz == 0


@pytest.mark.needs_cc
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_other_operators(name: str) -> None:
    tensors = operands(9, [ow.CSR, ow.DCSR])
    i, j = ow.indices("i j")
    result = ow.empty(tensors[0].shape, name="R")
    term = reduce(getattr(ow, name), [t[i, j] for t in tensors])
    expected = reduce(getattr(np, name), [t.to_numpy() for t in tensors])
    np.testing.assert_array_equal(ow.assign(result[i, j], term).compile()().to_numpy(), expected)


@pytest.mark.needs_cc
@pytest.mark.optimized
@pytest.mark.parametrize("format", [VECTOR, ow.CSR, ow.DCSR], ids=["vector", "csr", "dcsr"])
def test_thirty_two_operands_compile_soon(format: ow.Format) -> None:
    """Processor time, with room for slow machines; cases of each set would take years."""
    statement = summed(operands(32, [format], seed=32), format)
    before = os.times()
    statement.compile()
    after = os.times()
    assert after.user - before.user + after.children_user - before.children_user < 5
