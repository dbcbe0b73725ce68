"""Elements at other coordinates: text, print, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import openwork as ow

i, j = ow.indices("i j")
A = ow.tensor(np.ones((4, 5)), name="A")
x, rows = ow.tensor(np.ones(4), name="x"), ow.tensor(np.array([1, 2]), name="rows")
NAMES = {"A": A, "x": x, "rows": rows}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("y(i) = x(i+1)", "y(i) = x(i+1)"),
        ("y(i) = x(1+2*i-3)", "y(i) = x(2*i-2)"),
        ("y(i) = x(3-i)", "y(i) = x(-i+3)"),
        ("y(i) = A[i, 0]", "y(i) = A(i,0)"),
        ("y(i) = A(i(0,3), 2-1)", "y(i) = A(i(0,3),1)"),
        ("y(i) = A(i(0,4,2), 1)", "y(i) = A(i(0,3,2),1)"),
        ("C(i,j) = A(rows(i), j)", "C(i,j) = A(rows(i),j)"),
        ("y(i) = border(x(i-1), 0.5)", "y(i) = border(x(i-1), 0.5)"),
        ("y(i) = x(i + 0)", "y(i) = x(i)"),
    ],
)
def test_text(text: str, shown: str) -> None:
    """The text that is printed is read back to the same statement."""
    used = {name: each for name, each in NAMES.items() if name in text}
    stmt = ow.parse(text, **used)
    assert str(stmt) == shown
    assert ow.parse(shown, **used) == stmt


def test_python() -> None:
    y, C = ow.placeholder("y", order=1), ow.placeholder("C", order=2)
    assert str(ow.assign(y[i], x[i + 1] - A[i, 0])) == "y(i) = x(i+1) - A(i,0)"
    assert str(ow.assign(C[i, j], A[i(2, 4), j] * x[2 * i])) == "C(i,j) = A(i(2,4),j) * x(2*i)"
    assert str(ow.assign(C[i, j], A[rows[i], j])) == "C(i,j) = A(rows(i),j)"
    assert str(ow.assign(y[i], ow.border(x[i - 1], 0))) == "y(i) = border(x(i-1), 0)"
    assert repr(i(2, 5)) == "<window i(2,5)>"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("y(i) = x(i*i)", "E104"),
        ("y(i) = x(-1)", "E104"),
        ("y(i) = x(1.5)", "E104"),
        ("y(i) = x(sqrt(i))", "E104"),
        ("y(i) = x(i+j)", "E104"),
        ("y(i) = x(x(i))", "E104"),
        ("y(i) = x(i(3,2))", "E104"),
        ("y(i) = x(i(0,4,0))", "E104"),
        ("y(i) = x(i(1))", "E104"),
        ("y(i) = border(x(i), 0)", "E112"),
        ("y(i) = border(x(i+1), x(i))", "E112"),
        ("y(i+1) = x(i)", "E102"),
        ("y(0) = x(i)", "E102"),
    ],
)
def test_refusals(text: str, code: str) -> None:
    used = {name: each for name, each in NAMES.items() if name in text}
    with pytest.raises(ow.ParseError) as caught:
        ow.parse(text, y=ow.placeholder("y", order=1), **used)
    assert caught.value.code == code


def test_results_are_not_read() -> None:
    y = ow.empty(4, name="y")
    with pytest.raises(ow.ParseError, match="E107"):
        ow.assign(y[i], y[i + 1]).compile()
    with pytest.raises(ow.ParseError, match="E112"):
        y[i + 1] = x[i]
