"""Sums of products of records in vectors of terms: which have them, and what they compute."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import openwork as ow
from openwork.algebra.entries import Entry

pytestmark = [pytest.mark.needs_cc, pytest.mark.usefixtures("compared_with_the_reference")]

# Split complex numbers of complex numbers, with a factor: not each sign is one.
BICOMPLEX = ow.entry.define(
    "bicomplex",
    ["a", "b", "c", "d"],
    mul=lambda x, y: (
        x.a * y.a - x.b * y.b + 2 * (x.c * y.c - x.d * y.d),
        x.a * y.b + x.b * y.a + 2 * (x.c * y.d + x.d * y.c),
        x.a * y.c - x.b * y.d + x.c * y.a - x.d * y.b,
        x.a * y.d + x.b * y.c + x.c * y.b + x.d * y.a,
    ),
)
Q, U, C = ow.entry.quaternion, ow.entry.unit_quaternion, ow.entry.complex
BLOCK = ow.entry.block(3, 3)
RIGHT, LEFT = "y(i) = A(i,j) * x(j)", "y(i) = x(j) * A(i,j)"


def numbers(kind: Entry, *shape: int) -> Any:
    made = np.random.default_rng(len(shape)).standard_normal((*shape, *kind.decoded.shape))
    return made / np.linalg.norm(made, axis=-1, keepdims=True) if "unit" in kind.family else made


def kernel(text: str, a: Entry, x: Entry, layouts: str, target: str) -> Any:
    of_a, of_x = layouts.split()
    present = np.random.default_rng(0).random((9, 7)) < 0.6
    present[2] = False
    given = np.argwhere(present).T, numbers(a, int(present.sum()))
    A = ow.tensor(given, ow.CSR.with_layout(of_a), "A", a, shape=(9, 7))
    X = ow.tensor(numbers(x, 7), ow.dense(1).with_layout(of_x), "x", x)
    y = ow.empty(9, dtype=(A @ X).dtype, name="y")
    return ow.parse(text, y=y, A=A, x=X).compile(target=target)


@pytest.mark.parametrize(
    ("text", "a", "x", "layouts", "vectors"),
    [
        (RIGHT, Q("float32"), Q("float32"), "AoS AoS", True),
        (RIGHT, Q("float64"), Q("float64"), "SoA AoS", True),
        (LEFT, Q("float64"), Q("float64"), "SoA AoS", True),  # the left factor's numbers
        (RIGHT, Q("float32"), Q("float32"), "AoS SoA", True),  # the matrix's numbers
        (RIGHT, Q("float32"), Q("float32"), "SoA AoSoA(4)", False),
        (RIGHT, U("float32"), Q("float32"), "AoS AoS", True),
        (RIGHT, U("float32"), U("float32"), "AoS AoS", False),
        (RIGHT, Q("float16"), Q("float16"), "AoS AoS", False),
        (RIGHT, Q("float32"), Q("float64"), "AoS AoS", True),
        (RIGHT, BICOMPLEX, BICOMPLEX, "AoS AoS", True),
        (LEFT, BICOMPLEX, BICOMPLEX, "AoS AoS", True),
        ("y(i) = conj(A(i,j)) * x(j)", Q(), Q(), "AoS AoS", True),
        (RIGHT, ow.entry.complex(), ow.entry.complex(), "AoS AoS", False),  # two lanes
        (RIGHT, ow.entry.block(4, 4), ow.entry.vector(4), "AoS AoS", False),  # idle lanes
    ],
)
def test_which_sums_are_vectors(text: str, a: Entry, x: Entry, layouts: str, vectors: bool) -> None:
    made = kernel(text, a, x, layouts, "cpu")
    assert ("_sum_by_" in made.source) == vectors
    made()  # compared with the reference
    assert "_sum_by_" not in kernel(text, a, x, layouts, "cuda-emulated").source


@pytest.mark.parametrize(
    "text",
    [
        "y(i) += A(i,j) * x(j)",
        "y(i) = A(i,j) * x(j) + conj(A(i,j)) * x(j)",
        "y(i) = sum(j, A(i,j) * x(j) * x(j)) + sum(j, A(i,j) * x(j))",
        "s = A(i,j) * x(j)",
        "s = conj(x(j)) * x(j)",
        "C(i,k) = A(i,j) * B(j,k)",
    ],
)
def test_other_sums(text: str) -> None:
    A, B = (ow.tensor(numbers(Q(), m, 4), "CSR", n, Q()) for m, n in ((5, "A"), (4, "B")))
    x = ow.tensor(numbers(Q(), 4), name="x", dtype=Q())
    shape = {"y": 5, "s": (), "C": (5, 4)}[text[0]]
    result = ow.empty(shape, Q(), "CSR" if text[0] == "C" else None, text[0])
    given = {n: t for n, t in {"A": A, "B": B, "x": x}.items() if f"{n}(" in text[4:]}
    ow.parse(text, **{text[0]: result}, **given).compile()()


@pytest.mark.parametrize(
    ("text", "a", "x", "layouts", "vectors"),
    [
        ("Y(i,k) = A(i,j) * X(j,k)", C("float32"), C("float32"), "AoS AoS", True),
        ("Y(i,k) = X(j,k) * A(i,j)", Q("float32"), Q("float32"), "SoA AoS", True),
        ("Y(i,k) = conj(A(i,j)) * X(j,k)", Q(), Q(), "packed AoS", True),
        ("Y(i,k) = A(i,j) * X(j,k)", C("float32"), C("float32"), "AoS SoA", False),
        ("Y(i,k) = A(i,j) * X(j,k)", BLOCK, ow.entry.vector(3), "AoS AoS", False),  # idle lanes
    ],
)
def test_sums_side_by_side(text: str, a: Entry, x: Entry, layouts: str, vectors: bool) -> None:
    """A product with a dense matrix: the terms of eight sums fill vectors; others are left over."""
    of_a, of_x = layouts.split()
    A = ow.tensor(numbers(a, 5, 4), ow.CSR.with_layout(of_a), "A", a)
    for columns in (8, 19):
        X = ow.tensor(numbers(x, 4, columns), ow.dense(2).with_layout(of_x), "X", x)
        Y = ow.empty((5, columns), dtype=(A @ X).dtype, name="Y")
        for target in ("cpu", "cuda-emulated") if columns == 19 else ("cpu",):
            made = ow.parse(text, Y=Y, A=A, X=X).compile(target=target)
            assert bool(re.search(r"_sums\d+_by_", made.source)) == (vectors and target == "cpu")
            made()  # compared with the reference
