"""Constants, offsets, windows, strides and gathers, in every format, against NumPy."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest
from tests.random.generate import unusual_format

import openwork as ow

RNG = np.random.default_rng(12)


def numbers(*shape: int) -> Any:
    return np.where(RNG.random(shape) < 0.6, RNG.integers(1, 9, shape), 0).astype(float)


M, X = numbers(7, 8), numbers(8)
ROWS, PAIRS = np.array([3, 1, 1, 6, 0]), np.array([[0, 7], [2, 2]])
CASES: dict[str, Any] = {
    "y(i) = M(i,0)": M[:, 0],
    "y(j) = M(3,j)": M[3],
    "s = M(3,2)": M[3, 2],
    "C(i,j) = M(i(2,5),j)": M[2:5],
    "C(i,j) = M(i(0,7,2),j(2,8))": M[0:7:2, 2:8],
    "C(i,j) = M(i,j(1,8,3))": M[:, 1:8:3],
    "C(i,j) = M(rows(i),j)": M[ROWS],
    "C(i,j) = M(i,rows(j))": M[:, ROWS],
    "C(i,j,k) = M(i,pairs(j,k))": M[:, PAIRS],
    "B(i) = x(i+1) - x(i)": np.diff(X),
    "B(i) = border(x(i-1), 0) + x(i) + border(x(i+1), 0)": np.convolve(X, [1, 1, 1], "same"),
    "B(i) = border(x(i-2), 7) + x(i)": np.r_[7, 7, X[:-2]] + X,
    "B(i) = border(x(9-i), 3) + 0 * x(i)": np.r_[3, 3, X[:1:-1]],
    "B(i) = x(7-i)": X[::-1],
    "B(i) = x(2*i+1)": X[1::2],
    "y(i) = M(i,j(2,6)) * x(j(0,4))": M[:, 2:6] @ X[:4],
    "y(i) = exp(M(i,0)) * M(i,1)": np.exp(M[:, 0]) * M[:, 1],
    "C(i,k) = M(i,j) * M(rows(k),j)": M @ M[ROWS].T,
    "C(i,j) = M(i+1,j+1) * M(i,j) - M(i+1,j)": M[1:, 1:] * M[:-1, :-1] - M[1:, :-1],
    "y(i) = max(j, M(i,j(2,6)))": M[:, 2:6].max(1),
    "C(i,j) = M(i,j) + M(i,0)": M + M[:, :1],
    "B(i) = x(rows(i)) * rows(i)": X[ROWS] * ROWS,
}
FORMATS = ["CSR", "CSC", "COO(2)", "DCSR", "ELL", "DIA", "LIL", "SELL(4)", "BSR(2,3)", "dense(2)"]


def operands(text: str, format: Any, sparse_vector: bool) -> dict[str, Any]:
    given: dict[str, Any] = {"M": M, "x": X, "rows": ROWS, "pairs": PAIRS}
    made = {n: ow.tensor(array, name=n) for n, array in given.items() if f"{n}(" in text}
    if "M" in made:
        made["M"] = made["M"].to(format)
    if "x" in made and sparse_vector:
        made["x"] = made["x"].to(ow.CSF(1))
    return made


def check(text: str, format: Any, sparse_vector: bool, target: str = "cpu") -> None:
    statement = ow.parse(text, **operands(text, format, sparse_vector))
    found = statement.compile(target)()
    np.testing.assert_allclose(found.to_numpy(), CASES[text], err_msg=f"{text} {format!r}")


@pytest.mark.parametrize("number", range(len(CASES)))
def test_against_numpy(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A format for each case, compared with the reference evaluator, too."""
    monkeypatch.setenv("OPENWORK_CHECK", "1")
    check(list(CASES)[number], FORMATS[number % len(FORMATS)], number % 2 == 0)


@pytest.mark.parametrize("number", range(0, len(CASES), 4))
def test_on_a_gpu(number: int) -> None:
    check(list(CASES)[number], FORMATS[number % 3], number % 8 == 0, "cuda-emulated")


@pytest.mark.fuzz
def test_any_format() -> None:
    rng = random.Random(9)
    for _ in range(int(os.environ.get("OPENWORK_FUZZ_CASES", "8"))):
        format = unusual_format(rng.sample(range(2), 2), rng)
        target = rng.choice(["cpu", "cuda-emulated"])
        check(rng.choice(list(CASES)), format, rng.random() < 0.5, target)


def test_formats_follow() -> None:
    """A window of a sparse matrix is sparse, and so are its rows."""
    A = ow.tensor(M, format="CSR", name="A")
    for text in ("C(i,j) = A(i(2,5), j)", "C(i,j) = A(rows(i), j)"):
        names = {"rows": ow.tensor(ROWS)} if "rows" in text else {}
        found = ow.compute(text, A=A, **names)
        assert found.format == ow.CSR
        assert found.nnz == np.count_nonzero(found.to_numpy())


@pytest.mark.parametrize("format", ["CSR", "CSC", "COO(2)", "ELL", "dense(2)"])
def test_fills(format: str) -> None:
    """An absent entry is read as the fill, whatever it is, and what lies beyond is the border."""
    D = np.array([[3, 3, 7, 3], [1, 3, 3, 2], [3, 3, 3, 9]])
    fill = 0 if format == "dense(2)" else 3
    A, rows = ow.tensor(D, format=format, fill=fill, name="A"), ow.tensor([2, 0, 2], name="rows")
    padded = np.pad(D, ((0, 0), (1, 0)), constant_values=5)
    for text, expected in (
        ("y(i) = A(i,0)", D[:, 0]),
        ("B(i,j) = A(rows(i), j(1,4,2))", D[[2, 0, 2], 1::2]),
        ("B(i,j) = A(i,j+1) - A(i,j)", np.diff(D)),
        ("B(i,j) = border(A(i,j-1), 5) + A(i,j)", padded[:, :-1] + D),
    ):
        given = {"A": A, "rows": rows} if "rows" in text else {"A": A}
        np.testing.assert_array_equal(ow.compute(text, **given).to_numpy(), expected)


@pytest.mark.parametrize("format", ["DIA", "Dense(0), Range(1)", "ELL", "SELL(2)"])
def test_the_first_row(format: str) -> None:
    """In row 0 diagonals are columns: their array is searched, but their values lie apart."""
    D = np.array([[0, 1, 4], [1, 5, 1], [6, 1, 1]])
    A, x = ow.tensor(D, format=format, name="A"), ow.tensor(D[2], name="x")
    for row, column in np.ndindex(D.shape):
        assert ow.compute(f"y = A({row},{column})", A=A).item() == D[row, column]
    np.testing.assert_array_equal(ow.compute("y(i) = A(0,1) * x(i)", A=A, x=x).to_numpy(), D[2])


def test_schedules() -> None:
    A = ow.tensor(M, format="CSR", name="A")
    x = ow.tensor(X, name="x")
    stmt = ow.parse("y(i) = A(i(1,7), j) * x(j)", A=A, x=x)
    expected = M[1:7] @ X
    for schedule in ("split(i,i0,i1,2)", "parallelize(i,CPUThread,NoRaces)",
                     "split(i,i0,i1,4), parallelize(i0,CPUThread,NoRaces)"):  # fmt: skip
        np.testing.assert_allclose(stmt.schedule(schedule).compile()().to_numpy(), expected)


def test_other_operands() -> None:
    i, j = ow.indices("i j")
    x, rows = ow.tensor(X, name="x"), ow.tensor(ROWS, name="rows")
    kernel = ow.parse("y(i) = x(rows(i))", x=x, rows=rows).compile()
    np.testing.assert_array_equal(kernel().to_numpy(), X[ROWS])
    np.testing.assert_array_equal(kernel(rows=ROWS[:2]).to_numpy(), X[ROWS[:2]])
    np.testing.assert_array_equal(kernel(x=X[::-1].copy()).to_numpy(), X[::-1][ROWS])
    with pytest.raises(
        ow.ShapeError, match=r"E207: x\[rows\[i\]\] reads coordinate 9 of mode 0 of x"
    ):
        kernel(rows=np.array([0, 9]))
    with pytest.raises(ow.ShapeError, match="E207"):
        kernel(rows=np.array([-1, 2]))
    A = ow.tensor(M, format="CSR", name="A")
    y = ow.empty(3, name="y")
    y[i] = ow.sum(j, A[i(2, 5), j] * x[j + 0]) + ow.border(x[i - 1], 2.5)
    np.testing.assert_allclose(y.to_numpy(), M[2:5] @ X + np.r_[2.5, X[:2]])
    np.testing.assert_allclose(ow.assign(y[i], A[2 * i, 3]).compile()().to_numpy(), M[0:5:2, 3])


def test_beyond_the_bounds() -> None:
    x = ow.tensor(X, name="x")
    stmt = ow.parse("y(i) = x(i+1)", y=ow.empty(8), x=x)
    with pytest.raises(ow.ShapeError, match="E207") as caught:
        stmt.compile()()
    assert caught.value.hint == "give the result a smaller shape, or a border: border(x(i+1), 0)"
    assert ow.compute("y(i) = x(i+1)", x=x).shape == (7,)
    assert ow.compute("y(i) = x(i+3) + x(i)", x=x).shape == (5,)
    with pytest.raises(ow.ShapeError, match="E207"):
        ow.compute("y = x(8)", x=x)
    with pytest.raises(ow.ShapeError, match="E201"):
        ow.compute("y(i) = x(i(2,5)) * z(i)", x=x, z=np.ones(4))
    with pytest.raises(ow.ShapeError, match="E207"):
        ow.compute("y(i) = x(i(2,12))", x=x)
