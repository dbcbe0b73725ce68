"""Operands that may be absent: nothing is read of one that is."""

from __future__ import annotations

import numpy as np
import pytest
from tests.random.interpreted import Interpreted, interpreting

import openwork as ow
from openwork.program.lower.walk import lattice


def test_a_term_within_a_term_is_read_where_it_is_present(monkeypatch: pytest.MonkeyPatch) -> None:
    """`x * x` was computed wherever the sum had work, at the end of x, too."""
    monkeypatch.setattr(lattice, "_MOST_POINTS", 2)
    monkeypatch.setattr(lattice, "_MOST_OPTIONAL", 0)
    given = {"c": [0.0, 2, 0, 0], "x": [5.0, 7, 0, 0], "a": [0.0, 1, 0, 1]}
    tensors = {n: ow.tensor(np.array(v), format=ow.CSF(1), name=n) for n, v in given.items()}
    y = ow.empty(4, format=ow.CSF(1), name="y")
    stmt = ow.parse("y(i) = (c(i) - 1) * (x(i) * x(i)) + log(a(i) + 2)", y=y, **tensors)
    with interpreting(Interpreted):
        result = stmt.compile(loader=lambda compiled: compiled)().to_numpy()
    c, x, a = (np.array(v) for v in given.values())
    np.testing.assert_allclose(result, (c - 1) * (x * x) + np.log(a + 2))
