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
        (lambda: loose.sum(A, 0), "A.sum(axis=0)"),
        (lambda: loose.min(A, axis=0), "A.min(axis=0)"),
        (lambda: loose.reduce(ow.ADD, A), "np.sum(A)"),
        (lambda: A.sum(loose.index("i")), "ow.sum(j, A[i, j])"),
        (lambda: np.sum(A[i, j]), "ow.sum(j, e)"),
        (lambda: A[i, j] @ x[j], "A[i, j] * B[j, k]"),
        (lambda: max(A), "A.max()"),
        (lambda: ow.compute("ij,j->i", A, x), "ow.einsum('ij,j->i', A, x)"),
        (lambda: ow.parse("y(i) = A(i,j)", A), "ow.parse('y(i) = A(i,j)', A=A, x=x)"),
        (lambda: ow.parse("ij->i", A=A), 'ow.einsum("ij->i", ...)'),
        (lambda: ow.parse("A(i,j) * x(j)", A=A, x=x), "a statement assigns"),
        (lambda: ow.parse("y(i) = 2 A(i,j)", A=A), "a product is written with *"),
        (lambda: ow.parse("y(i) = A(i,j) and x(i)", A=A, x=x), "joined with &"),
        (lambda: ow.parse("y(i) = A(i,j) if x(i)", A=A, x=x), "select(condition"),
        (lambda: ow.parse("y(i) = A(i)", A=A), "write A(i,j)"),
        (lambda: ow.parse("y = A @ x", A=A, x=x), "A(i,k) * B(k,j)"),
        (lambda: ow.parse("y(i) = A'(i,j)", A=A), "A(j,i)"),
        (lambda: ow.compute("y(i,i) = A(i,i)", A=A), "a different variable for each mode"),
        (lambda: ow.parse("y(i) = A(i,:)", A=A), "a variable runs over a whole mode"),
        (lambda: A.to("float32"), "A.astype(...)"),
        (lambda: A.to(loose.SELL), "ow.SELL(32)"),
        (lambda: A.to(np.float32), "A.astype(...)"),
        (lambda: loose.Format("CSR"), "format='CSR'"),
        (lambda: ow.tensor((np.ones(2), [0, 1], [0, 1, 2])), "scipy.sparse.csr_array"),
        (lambda: ow.tensor((np.ones(2), ([0, 1], [0, 1])), shape=(2, 2)), "coords come first"),
        (lambda: ow.write(loose, "a.mtx"), "ow.write(path, A)"),
        (lambda: ow.tune.search(loose.__name__), "ow.parse(text, A=A, x=x)"),
        (lambda: ow.einsum("ij,j->i", A, x, semiring=loose.MIN), "such as plus_times"),
    ],
)
def test_calls(call: Any, hint: str) -> None:
    with pytest.raises(ow.UserError) as caught:
        call()
    assert hint in str(caught.value).partition("hint:")[2]


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
        (ow, "median", "there is np.median"),
        (ow, "inf", "there is np.inf"),
        (ow, "Csr", "did you mean ow.CSR?"),
        (ow, "eigsh", "scipy.sparse.linalg.eigsh"),
        (ow, "ndim", "write A.ndim"),
        (A, "density", "A.nnz / A.size"),
        (A, "vdot", "np.vdot takes tensors"),
        (A, "schedule", "A.statement.schedule(...)"),
        (A[i, j], "sum", "ow.sum(j, e)"),
        (A[i, j], "shape", "ow.assign(y[i], e).compile()()"),
        (stmt, "vectorize", '"CPUVector"'),
        (kernel, "shape", "kernel().shape"),
    ],
)
def test_attributes(obj: Any, name: str, said: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(obj, name)
    assert said in str(caught.value)
    assert not hasattr(obj, "nothing_of_the_kind")


def test_what_numpy_writes_of_elements() -> None:
    root: Any = np.sqrt(A[i, j])  # type: ignore[call-overload]
    assert repr(root * np.float32(2)) == repr(ow.sqrt(A[i, j]) * np.float32(2))
    assert ow.indices("i", "j") == (i, j)
    assert loose.cast("float32", A).dtype == np.float32
    assert ow.trace(A).item() == 3.0
    found = ow.einsum("ij,j->i", A, x, semiring="MIN_PLUS")
    assert found.equals(ow.einsum("ij,j->i", A, x, semiring="min_plus"))


def test_an_expression_shows_as_its_text() -> None:
    assert repr(A[i, j] * x[j]) == "A(i,j) * x(j)"


def test_two_tensors_of_one_name() -> None:
    other = ow.empty(3, name="A")
    two = ow.assign(other[i], A[i, j] * x[j])
    assert "E109: two different tensors" in two._repr_html_()
    with pytest.raises(ow.ParseError, match="E109: two different tensors are called A"):
        two.compile()


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
    assert "pattern" in x._repr_html_() and "entries of a row" not in x._repr_html_()
    few = (np.array([[0, 5], [3, 2**41]]), np.ones(2))  # rows that no array has room for
    wide = ow.tensor(few, shape=(2**40, 2**42), format="DCSR")
    assert "at most 1, " in wide._repr_html_()
    rows = ow.tensor((few[0] % 9, few[1]), shape=(10**6, 9), format="CSR")
    assert "<details>" not in rows._repr_html_()  # no picture of a million rows
    lt = ow.index("lt")
    less = ow.assign(ow.empty(3, name="<y>")[lt], ow.select(x[lt] < 1, 2.0, 3.0))._repr_html_()
    assert '&lt;y&gt;(<b class="v0">lt</b>)' in less and " &lt; 1" in less
    loops = stmt._repr_html_()
    assert '<b class="v0">i</b>' in loops and '<b class="v1">j</b>' in loops
    assert "lines of source" in kernel._repr_html_() and "&lt;" in kernel._repr_html_()
