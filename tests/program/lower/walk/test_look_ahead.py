"""Merges that look ahead: they must not look beyond the end, whatever the last runs are like."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.choices import in_pairs

import openwork as ow
from openwork.tensor.kernel import machine

i, j, k = ow.indices("i j k")
LOOKS = "if (pA2_end < A2_size && pB2_end < B2_size) {"


def rows(*runs: list[int], width: int = 9) -> np.ndarray[Any, Any]:
    """A matrix with entries in these columns of each row, no two alike."""
    matrix = np.zeros((len(runs), width))
    for row, columns in enumerate(runs):
        for column in columns:
            matrix[row, column] = 1 + row * width + column
    return matrix


FULL = list(range(9))
PAIRS = {
    "last runs that meet": (rows([0, 3, 8], [1, 8]), rows([3, 4], [8])),
    "last runs apart": (rows([0, 3], [1, 2]), rows([3, 4], [5, 8])),
    "one ends before the other": (rows([0, 3], [1, 2], []), rows([2], [5, 8], [0, 7])),
    "empty runs at the end": (rows([0, 3], [], []), rows([0, 4], [], [])),
    "empty runs between": (rows([], [0, 4], [], [1]), rows([2], [], [3], [1])),
    "one that is empty": (rows([], []), rows([1], [2])),
    "both empty": (rows([], []), rows([], [])),
    "no rows": (np.zeros((0, 9)), np.zeros((0, 9))),
    "full": (rows(FULL, FULL), rows(FULL, FULL)),
    "one full": (rows(FULL, FULL), rows([4], [8])),
}
FORMATS = {
    "CSR": (ow.CSR, ow.CSR),
    "CSR and DCSR": (ow.CSR, ow.DCSR),
    "other widths": (ow.CSR, ow.Format([ow.Dense, ow.Compressed(bits=8)])),
    "wide and narrow": (
        ow.Format([ow.Dense, ow.Compressed(bits=64)]),
        ow.Format([ow.Dense, ow.Compressed(bits=16)]),
    ),
    "LIL": (ow.CSR, ow.LIL),
}


def choose(selects: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile as for a processor that would rather select, or for one that would rather branch."""
    monkeypatch.setattr(machine, "selects_stay", lambda: selects)
    machine.this_cpu.cache_clear()


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    machine.this_cpu.cache_clear()


@pytest.mark.parametrize(
    ("name", "formats", "selects"), in_pairs(list(PAIRS), list(FORMATS), [False, True])
)
def test_whatever_the_last_runs_are(
    name: str, formats: str, selects: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on processors that would rather branch, and as on those that would rather select."""
    choose(selects, monkeypatch)
    one, other = PAIRS[name]
    first, second = FORMATS[formats]
    A, B = ow.tensor(one, format=first, name="A"), ow.tensor(other, format=second, name="B")
    C = ow.empty(one.shape, format=ow.CSR, name="C")
    y = ow.empty(one.shape[:1], name="y")
    for found, wanted in (
        (ow.assign(C[i, j], A[i, j] + B[i, j]), one + other),
        (ow.assign(C[i, j], A[i, j] - B[i, j]), one - other),
        (ow.assign(C[i, j], A[i, j] * B[i, j]), one * other),
        (ow.assign(y[i], A[i, j] + B[i, j]), (one + other).sum(axis=1)),
    ):
        np.testing.assert_array_equal(found.compile()().to_numpy(), wanted)


def test_two_of_three_look_ahead_where_the_third_cannot() -> None:
    """Loops beside each other declare the coordinates of an operand in different ways."""
    rng = np.random.default_rng(1)
    dense = [np.where(rng.random((7, 9)) < 0.4, rng.random((7, 9)), 0) for _ in range(3)]
    C = ow.empty((7, 9), format=ow.CSR, name="C")
    for third in (ow.CSR, ow.ELL, ow.Format([ow.Dense, ow.Bitmap])):
        kinds = (ow.CSR, ow.CSR, third)
        A, B, D = (
            ow.tensor(d, format=f, name=n) for d, f, n in zip(dense, kinds, "ABD", strict=True)
        )
        kernel = ow.assign(C[i, j], A[i, j] + B[i, j] + D[i, j]).compile()
        np.testing.assert_allclose(kernel().to_numpy(), sum(dense))


def test_who_looks_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = rows([0, 3], [1])
    A, B = (ow.tensor(matrix, format=ow.CSR, name=n) for n in "AB")
    C = ow.empty(matrix.shape, format=ow.CSR, name="C")
    branching = ow.assign(C[i, j], A[i, j] + B[i, j]).compile().source
    assert "one ahead" not in branching and "} else if (jA < jB) {" in branching
    times = ow.assign(C[i, j], A[i, j] * B[i, j]).compile().source  # nothing to select
    assert LOOKS in times and "one ahead" in times
    choose(True, monkeypatch)
    text = ow.assign(C[i, j], A[i, j] + B[i, j]).compile().source
    assert LOOKS in text and "pA2 += jA < jB;" in text
    a, b = (ow.tensor(matrix[0], format=ow.Format([ow.Compressed]), name=n) for n in "ab")
    c = ow.empty(matrix.shape[1:], format=ow.Format([ow.Compressed]), name="c")
    assert "one ahead" not in ow.assign(c[i], a[i] + b[i]).compile().source  # all is one run
    gallops = ow.assign(C[i, j], A[i, j] * B[i, j]).mergeby(j, "gallop").compile().source
    assert "one ahead" not in gallops
