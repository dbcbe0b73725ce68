"""Index arithmetic on constants: computed right away, as C does."""

from __future__ import annotations

import pytest

from openwork.program.nodes import Value, arithmetic


@pytest.mark.parametrize(
    ("a", "b", "wanted"), [(7, 2, 3), (-7, 2, -3), (-8, 2, -4), (-1, 8, 0), (0, 5, 0)]
)
def test_division_rounds_towards_zero(a: int, b: int, wanted: int) -> None:
    assert arithmetic("/", Value(a), Value(b)) == Value(wanted)
