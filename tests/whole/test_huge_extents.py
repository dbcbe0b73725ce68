"""Extents up to the largest, 2^62: no sum, product or split of a coordinate leaves 64 bits."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import openwork as ow
from openwork.errors import OpenworkError
from openwork.tensor.exchange.validate import LARGEST_EXTENT

pytestmark = pytest.mark.needs_cc

EXTENTS = (1, 5, 2**31 - 1, 2**31, 2**40, LARGEST_EXTENT - 1, LARGEST_EXTENT)
Entries = dict[tuple[int, ...], float]


def entries_of(tensor: ow.Tensor) -> Entries:
    coords, values = tensor.to_coo()
    return {tuple(k): v for k, v in zip(coords.T.tolist(), values.tolist(), strict=True)}


def drawn(rng: random.Random, shape: tuple[int, ...]) -> tuple[ow.Tensor, Entries]:
    """A tensor with a few entries, most of them at an edge."""
    count, order = rng.choice((0, 1, 3, 8)), len(shape)
    rows = [[rng.choice((0, e - 1, e // 2, rng.randrange(e))) for _ in range(count)] for e in shape]
    coords, values = np.array(rows, np.int64).reshape(order, count), np.arange(1.0, count + 1)
    expected: Entries = {}
    for at, value in zip(coords.T.tolist(), values.tolist(), strict=True):
        expected[tuple(at)] = expected.get(tuple(at), 0.0) + value
    formats = [ow.CSF(order), ow.COO(order)] + ([ow.DCSC] if order == 2 else [])
    return ow.tensor((coords, values), shape=shape, format=rng.choice(formats)), expected


def products(a: Entries, b: Entries) -> Entries:
    """A times B transposed."""
    found: Entries = {}
    for (i, j), left in a.items():
        for (k, other), right in b.items():
            if j == other:
                found[i, k] = found.get((i, k), 0.0) + left * right
    return found


def answers(A: Any, B: Any, a: Entries, b: Entries) -> list[tuple[Any, Entries]]:
    both = {k: a.get(k, 0.0) + b.get(k, 0.0) for k in {**a, **b}}
    found: list[tuple[Any, Entries]] = [
        (lambda: A, a),
        (lambda: 2 * A, {k: 2 * v for k, v in a.items()}),
        (lambda: A + B, both),
        (lambda: A * B, {k: a[k] * b[k] for k in a if k in b}),
        (lambda: A.to(ow.CSF(A.order)), a),
        (lambda: A.to(ow.COO(A.order)), a),
        (lambda: A.T + B.T, {k[::-1]: v for k, v in both.items()}),
    ]
    if A.order == 2:
        found.append((lambda: ow.einsum("ij,kj->ik", A, B, format=ow.CSF(2)), products(a, b)))
    return found


def test_operations() -> None:
    rng, refused, asked = random.Random(1), 0, 0
    try:
        for _ in range(8):
            shape = tuple(rng.choice(EXTENTS) for _ in range(rng.choice((1, 2, 2, 3))))
            (A, a), (B, b) = drawn(rng, shape), drawn(rng, shape)
            for compute, expected in answers(A, B, a, b):
                for threads in (1, 3):
                    ow.set_num_threads(threads)
                    asked += 1
                    try:
                        assert entries_of(compute()) == expected, shape
                    except (MemoryError, OpenworkError):
                        refused += 1
    finally:
        ow.set_num_threads(None)
    assert refused < asked / 10


@pytest.mark.parametrize("format", [ow.CSF(2), ow.COO(2), ow.DCSC], ids=repr)
def test_the_last_coordinate_is_reached(format: ow.Format) -> None:
    """Pieces of a loop of 2^63 - 1 ended before they began, and nobody computed the result."""
    n = LARGEST_EXTENT
    A = ow.tensor(
        (np.array([[0, n - 1], [2, 4]]), np.array([1.0, 2.0])), shape=(n, 5), format=format
    )
    assert (2 * A).to_coo()[1].tolist() == [2.0, 4.0]
