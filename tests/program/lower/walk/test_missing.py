"""Coordinates without entries are counted where they all do the same, with the dense answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.choices import in_pairs

import openwork as ow

pytestmark = pytest.mark.needs_cc

FORMATS = {
    "CSR": ow.CSR, "CSC": ow.CSC, "DCSR": ow.DCSR, "COO": ow.COO(2), "LIL": ow.LIL, "ELL": ow.ELL,
    "SELL": ow.SELL(2), "DIA": ow.DIA, "BSR": ow.BSR(2, 2),
    "uneven blocks": ow.BSR(3, 4), "listed blocks": ow.CSB(3, 4),
    "bitmap": ow.Format([ow.Dense, ow.Bitmap]),
    "columns of columns": ow.Format([ow.Compressed, ow.Compressed], order=(1, 0)),
}  # fmt: skip
ROWS, COLUMNS, MORE = 8, 6, 4
STATEMENTS = {
    "y(i) = min(j, select(A(i,j) > 0, l(j), 7))": lambda d: np.where(d.A > 0, d.l, 7).min(1),
    "y(j) = min(i, select(A(i,j) > 0, r(i), 7))": lambda d: np.where(d.A.T > 0, d.r, 7).min(1),
    "y = max(i, max(j, A(i,j)))": lambda d: d.A.max(),
    "y = min(i, max(j, A(i,j)))": lambda d: d.A.max(1).min(),
    "y(i) = max(j, A(i,j) * B(i,j))": lambda d: (d.A * d.B).max(1),
    "y(i) = max(j, A(i,j) + B(i,j))": lambda d: (d.A + d.B).max(1),
    "y(i) = max(j, A(i,j) + B(i,j) + C(i,j))": lambda d: (d.A + d.B + d.C).max(1),
    "y(i) = max(j, A(i,j) * l(j))": lambda d: (d.A * d.l).max(1),
    "y(i) = max(j, A(i,j) + r(i))": lambda d: (d.A + d.r[:, None]).max(1),
    "y(i) = max(j, A(i,j) + l(j))": lambda d: (d.A + d.l).max(1),
    "y(i) = r(i) * max(j, A(i,j) - 1)": lambda d: d.r * (d.A - 1).max(1),
    "y(i) = all(j, A(i,j))": lambda d: d.A.all(1),
    "y(i) = any(j, A(i,j) == 0)": lambda d: (d.A == 0).any(1),
    "y(i) = prod(j, A(i,j) * 2)": lambda d: (d.A * 2).prod(1),
    "y(i) = prod(j, A(i,j) + 2)": lambda d: (d.A + 2).prod(1),
    "y(i) = sum(j, select(A(i,j) > 0, l(j), 2))": lambda d: np.where(d.A > 0, d.l, 2).sum(1),
    "y(i) = sum(j, (A(i,j) - 3) * r(i))": lambda d: ((d.A - 3) * d.r[:, None]).sum(1),
    "y(i) = sum(j, select(A(i,j) * B(i,j) > 0, 2, 1))": lambda d: 6 + (d.A * d.B > 0).sum(1),
    "y = sum(i, sum(j, A(i,j) + 1))": lambda d: (d.A + 1).sum(),
    "y = sum(i, sum(j, A(i,j) + r(i)))": lambda d: (d.A + d.r[:, None]).sum(),
    "y = sum(i, sum(j, A(i,j) + l(j)))": lambda d: (d.A + d.l).sum(),
    "Y(i,k) = max(j, A(i,j) * D(j,k))": lambda d: (d.A[:, :, None] * d.D).max(1),
    "Y(k,i) = min(j, select(A(i,j) != 0, D(j,k), 1))": lambda d: (
        np.where(d.A[:, :, None] != 0, d.D, 1).min(1).T
    ),
}


class Data:
    """Matrices with empty, sparse and full rows and columns, and vectors."""

    def __init__(self, dtype: str = "float64") -> None:
        rng = np.random.default_rng(4)
        for name, density in (("A", 0.4), ("B", 0.5), ("C", 0.2)):
            made = rng.integers(-3, 5, (ROWS, COLUMNS)) * (rng.random((ROWS, COLUMNS)) < density)
            made[[1, 7]], made[3], made[:, 2] = 0, 3, 0
            made[4] = -1
            vars(self)[name] = made.astype(dtype)
        self.l = rng.integers(-5, 9, COLUMNS).astype(dtype)
        self.r = rng.integers(-5, 9, ROWS).astype(dtype)
        self.D = rng.integers(-5, 9, (COLUMNS, MORE)).astype(dtype)


def operands(data: Data, text: str, format: Any) -> dict[str, Any]:
    """The operands of a statement, matrices in a format."""
    names = [name for name in "ABClrD" if f"{name}(" in text.split("=", 1)[1]]
    return {
        name: ow.tensor(
            getattr(data, name), name=name, **({"format": format} if name in "ABC" else {})
        )
        for name in names
    }


@pytest.mark.parametrize(("text", "format"), in_pairs(list(STATEMENTS), list(FORMATS)))
def test_answers(text: str, format: str) -> None:
    data = Data()
    stmt = ow.parse(text, **operands(data, text, FORMATS[format]))
    assert np.array_equal(stmt.compile()().to_numpy(), STATEMENTS[text](data)), stmt.loops


@pytest.mark.parametrize(
    ("text", "dtype"),
    in_pairs(
        [text for text in STATEMENTS if "Y" not in text], ["int8", "int64", "uint8", "float32"]
    ),
)
def test_element_types(text: str, dtype: str) -> None:
    """Small integers wrap around in a multiple as they do in a sum."""
    data = Data(dtype)
    if dtype == "uint8":
        for each in "ABClrD":
            setattr(data, each, abs(getattr(data, each).astype("int8")).astype(dtype))
    stmt = ow.parse(text, **operands(data, text, ow.CSR))
    made = stmt.compile()().to_numpy()
    dense = ow.parse(text, **operands(data, text, ow.dense(2))).compile()().to_numpy()
    assert made.dtype == dense.dtype
    assert np.array_equal(made, dense)


@pytest.mark.parametrize("fill", [0, 2, -1, np.inf])
@pytest.mark.parametrize("format", ["CSR", "DCSR", "COO"])
def test_other_fills(fill: float, format: str) -> None:
    dense = Data().A + fill if np.isfinite(fill) else np.where(Data().A == 0, fill, Data().A)
    A = ow.tensor(dense, format=FORMATS[format], fill=fill, name="A")
    for text, expected in (
        ("y(i) = max(j, A(i,j))", dense.max(1)),
        ("y(i) = min(j, A(i,j) * 2)", (dense * 2).min(1)),
        ("y(i) = sum(j, A(i,j))", dense.sum(1)),
        ("y = sum(i, sum(j, A(i,j)))", dense.sum()),
        ("y(i) = prod(j, A(i,j))", dense.prod(1)),
    ):
        assert np.array_equal(ow.parse(text, A=A).compile()().to_numpy(), expected), text


SCHEDULES = (
    "", "split(j,j0,j1,4)", "divide(j,j0,j1,2)", "parallelize(j,CPUVector,ParallelReduction)",
    "parallelize(j,CPUThread,ParallelReduction)", "parallelize(j,CPUThread,Atomics)",
    "parallelize(i,CPUThread,NoRaces)", "pos(j,jp,A)", "pos(j,jp,A), split(jp,jp0,jp1,2)",
    "split(i,i0,i1,3)", "fuse(i,j,f)", "fuse(i,j,f), pos(f,p,A), split(p,p0,p1,4)",
    "split(j,j0,j1,4), parallelize(j1,CPUVector,ParallelReduction)", "unroll(j,2)",
    "bound(j,jb,6,MaxExact)", "split(j,j0,j1,4), reorder(j0,i)",
)  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "text",
    [
        "y(i) = min(j, select(A(i,j) > 0, l(j), 7))",
        "y(i) = sum(j, A(i,j) + 2)",
        "y(i) = max(j, A(i,j) * B(i,j))",
    ],
)
def test_schedules(text: str, schedule: str) -> None:
    data = Data()
    for format in (ow.CSR, ow.DCSR):
        stmt = ow.parse(text, **operands(data, text, format))
        try:
            scheduled = stmt.schedule(schedule)
            kernel = scheduled.compile()
        except ow.ScheduleError:
            continue
        expected = {
            "min": np.where(data.A > 0, data.l, 7).min(1),
            "sum": (data.A + 2).sum(1),
            "max": (data.A * data.B).max(1),
        }[text[7:10]]
        assert np.array_equal(kernel().to_numpy(), expected), (format, scheduled.loops)


@pytest.mark.parametrize("text", list(STATEMENTS))
def test_on_an_emulated_gpu(text: str) -> None:
    data = Data()
    stmt = ow.parse(text, **operands(data, text, ow.CSR))
    made = stmt.compile("cuda-emulated")().to_numpy()
    assert np.array_equal(made, STATEMENTS[text](data)), stmt.loops


def test_blocks_of_a_vector() -> None:
    """The last block is shorter than the others."""
    for values in ([4.0], [4.0, 0, 0, 0, 2], [0.0] * 5, [-1.0] * 6, [-1.0, 0, 0, 0, 0, 0, -3]):
        x = ow.tensor(np.array(values), format="Compressed(0/3), Dense(0%3)", name="x")
        assert float(ow.compute("y = max(j, x(j))", x=x)) == max(values)
        assert float(ow.compute("y = sum(j, x(j) + 1)", x=x)) == sum(values) + len(values)


def test_huge_extents() -> None:
    """What is missing is counted in 64 bits, and never visited."""
    n = 10**9
    A = ow.tensor((np.array([[5, 10**8], [7, 3]]), [-2.0, -3.0]), shape=(n, n), format="DCSR")
    assert float(ow.compute("y = max(i, max(j, A(i,j)))", A=A)) == 0
    assert float(ow.compute("y = sum(i, sum(j, A(i,j) + 1))", A=A)) == 1e18 - 5
    count = ow.compute("y = sum(i, sum(j, select(A(i,j) == 0, 1, 0)))", A=A)
    assert int(count) == n * n - 2


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (1, 1)])
def test_no_coordinates(shape: tuple[int, int]) -> None:
    A = ow.tensor(np.zeros(shape), format="CSR", name="A")
    D = A.to(ow.DCSR).rename("D")
    dense = np.zeros(shape)
    assert np.array_equal(
        ow.compute("y(i) = max(j, A(i,j))", A=A).to_numpy(), dense.max(1, initial=-np.inf)
    )
    assert float(ow.compute("y = sum(i, sum(j, D(i,j) + 2))", D=D)) == 2 * dense.size
    most = ow.compute("y = max(i, max(j, D(i,j)))", D=D)
    assert float(most) == dense.max(initial=-np.inf)


def test_values_that_are_not_finite() -> None:
    dense = np.array([[np.nan, 0, 1], [np.inf, 0, 0], [1, 2, 3]])
    A = ow.tensor(dense, format="CSR", name="A")
    for text, expected in (
        ("y(i) = max(j, A(i,j))", dense.max(1)),
        ("y(i) = sum(j, select(A(i,j) > 0, 1, inf))", np.array([np.inf, np.inf, 3])),
        ("y(i) = sum(j, A(i,j) + inf)", (dense + np.inf).sum(1)),
    ):
        made = ow.compute(text, A=A).to_numpy()
        assert np.array_equal(made, expected, equal_nan=True), text


def test_accumulates_into_a_result() -> None:
    data = Data()
    y = ow.tensor(np.full(ROWS, 5.0), name="y")
    A = ow.tensor(data.A, format="CSR", name="A")
    made = ow.parse("y(i) += sum(j, A(i,j) + 1)", y=y, A=A).compile()(out=y)
    assert np.array_equal(made.to_numpy(), 5 + (data.A + 1).sum(1))


def test_idempotent_operators_of_users() -> None:
    wider = ow.operator(
        "wider",
        lambda a, b: ow.select(ow.abs(a) > ow.abs(b), a, b),
        identity=0,
        associative=True,
        idempotent=True,
    )
    A = ow.tensor(Data().A - 2, format="CSR", fill=-2, name="A")
    i, j = ow.indices("i j")
    y = ow.empty(ROWS, name="y")
    kernel = ow.assign(y[i], ow.reduce(wider, j, A[i, j])).compile()
    dense = Data().A - 2
    assert "are counted" in kernel.explain()
    assert np.array_equal(abs(kernel().to_numpy()), abs(dense).max(1))
    with pytest.raises(ow.ParseError, match="idempotent law"):
        ow.operator("plus", lambda a, b: a + b, idempotent=True)


def test_explain_says_which_loops_are_dense() -> None:
    data = Data()
    few = "y(i) = min(j, select(A(i,j) > 0, l(j), 7))"
    told = ow.parse(few, **operands(data, few, ow.CSR)).compile().explain()
    assert "j: coordinates without entries of A(i,j) are counted, not visited" in told
    every = "y(i) = max(j, A(i,j) + l(j))"
    told = ow.parse(every, **operands(data, every, ow.CSR)).compile().explain()
    assert "j: every coordinate is visited, also those without an entry of A(i,j)" in told
    assert "what it computes there depends on j" in told
