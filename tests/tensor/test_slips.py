"""What people write by habit gets an answer that says what to write here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openwork as ow

i, j = ow.indices("i j")
A = ow.tensor(np.eye(3), format="CSR", name="A")
x = ow.tensor(np.ones(3), name="x")
stmt = ow.parse("y(i) = A(i,j) * x(j)", A=A, x=x)
kernel = stmt.compile()
loose: Any = ow  # types forbid what follows


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: loose.max(A), "A.max()"),
        (lambda: loose.sum(A), "A.sum(axis=0)"),
        (lambda: loose.any(A), "np.any(A)"),
        (lambda: stmt(A=A), "stmt.compile()(...)"),
        (lambda: kernel(A, x), "write kernel(A=A, x=x)"),
        (lambda: A(i, j), "A[i, j] in Python"),
    ],
)
def test_calls(call: Any, hint: str) -> None:
    with pytest.raises(ow.UserError) as caught:
        call()
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(
    ("obj", "name", "said"),
    [
        (kernel, "split", "stmt.split(...).compile()"),
        (kernel, "to_numpy", "kernel().to_numpy()"),
        (stmt, "to_numpy", "stmt.compile()().to_numpy()"),
        (stmt, "run", "stmt.compile()()"),
        (ow, "array", "ow.tensor(obj)"),
        (ow, "csr_matrix", 'ow.tensor(obj, "CSR")'),
        (ow, "mean", "np.mean takes tensors"),
        (ow, "matmul", "A @ B"),
    ],
)
def test_attributes(obj: Any, name: str, said: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(obj, name)
    assert said in str(caught.value)
    assert not hasattr(obj, "nothing_of_the_kind")


def test_an_expression_shows_as_its_text() -> None:
    assert repr(A[i, j] * x[j]) == "A(i,j) * x(j)"


def test_notebooks() -> None:
    shown = A._repr_html_()
    assert "3 x 3" in shown and "3 of 9 (0.33)" in shown and "ow.CSR" in shown
    assert shown.count('class="dot"') == 3 + 2  # the pattern, and rows of none and of one
    assert "at most 1, 1 on average" in shown and "<details>" in shown
    assert "first two modes" in ow.random((4, 5, 6), 0.1, rng=0)._repr_html_()
    for empty in (ow.zeros((2, 0)), ow.zeros((3, 3), format="CSR"), ow.tensor(3.0)):
        assert "<svg" not in empty._repr_html_().partition("<details>")[0]
    assert "no data" in ow.placeholder("P<", 2)._repr_html_()
    assert "P<" not in ow.placeholder("P<", 2)._repr_html_()
    big = ow.random((3000, 40), 0.3, rng=1)._repr_html_()
    assert "36,000 of 120,000" in big and len(big) < 100_000
    loops = stmt._repr_html_()
    assert '<b class="v0">i</b>' in loops and '<b class="v1">j</b>' in loops
    assert "lines of source" in kernel._repr_html_() and "&lt;" in kernel._repr_html_()
