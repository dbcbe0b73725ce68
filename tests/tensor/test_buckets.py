"""Rows by length: buckets with a schedule and a format each, and one result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import openwork as ow
from openwork.tensor.buckets.rows import Partition

ROWS, COLUMNS = 60, 40
TARGETS = ("cpu", "cuda-emulated")


def uneven(seed: int = 0, rows: int = ROWS) -> Any:
    """A matrix with empty, short and long rows."""
    numbers = np.random.default_rng(seed)
    lengths = numbers.choice((0, 1, 3, 9, 30), rows)
    dense = [(numbers.permutation(COLUMNS) < n) * (1 + numbers.random(COLUMNS)) for n in lengths]
    return sp.csr_array(np.array(dense))


def spmv(matrix: Any, **names: Any) -> tuple[ow.Statement, Any]:
    """y = A x, and x."""
    x = np.random.default_rng(1).random(COLUMNS)
    A = ow.tensor(matrix, name="A")
    stmt = ow.parse(
        "y(i) = A(i,j) * x(j)", y=ow.empty(matrix.shape[0]), A=A, x=ow.tensor(x, name="x")
    )
    return stmt, x


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("bounds", [(2,), (2, 10), (1, 2, 3, 4, 100)])
def test_all_buckets_together_are_the_result(target: str, bounds: tuple[int, ...]) -> None:
    """The last bounds leave buckets without rows."""
    matrix = uneven()
    stmt, x = spmv(matrix)
    kernel = stmt.bucket("i", bounds=bounds).compile(target)
    for _ in range(3):
        np.testing.assert_allclose(kernel().to_numpy(), matrix @ x)


@pytest.mark.parametrize("target", TARGETS)
def test_a_matrix_without_entries(target: str) -> None:
    matrix = sp.csr_array((ROWS, COLUMNS))
    stmt, _ = spmv(matrix)
    assert not stmt.bucket("i").compile(target)().to_numpy().any()


SCHEDULES = {
    "cpu": ("split(i,i0,i1,4)", None, "pos(j,p,A), split(p,p0,p1,8)"),
    "cuda-emulated": (
        None,
        "pos(i,r,A), split(r,b,t,32), parallelize(b,GPUBlock,NoRaces), "
        "parallelize(t,GPUThread,NoRaces)",
        "parallelize(i,GPUBlock,NoRaces), pos(j,p,A), split(p,p0,t,32), reorder(t,p0), "
        "parallelize(t,GPUThread,ParallelReduction)",
    ),
}


@pytest.mark.parametrize("target", TARGETS)
def test_each_bucket_has_its_schedule(target: str) -> None:
    matrix = uneven()
    stmt, x = spmv(matrix)
    made = stmt.bucket("i", bounds=(2, 10), schedules=SCHEDULES[target])
    for mine, wanted in zip(made.statements, SCHEDULES[target], strict=True):
        assert mine.commands.replace("A(i,j)", "A") == (wanted or "").replace(", ", ", ")
    kernel = made.compile(target)
    np.testing.assert_allclose(kernel().to_numpy(), matrix @ x)
    for wanted in filter(None, SCHEDULES[target]):
        assert wanted.split(", ")[-1] in kernel.explain().replace("A(i,j)", "A")


@pytest.mark.parametrize("target", TARGETS)
def test_each_bucket_has_its_format(target: str) -> None:
    matrix = uneven()
    stmt, x = spmv(matrix)
    made = stmt.bucket("i", bounds=(2, 10), formats=("ELL", ow.SELL(8), None))
    kernel = made.compile(target)
    np.testing.assert_allclose(kernel().to_numpy(), matrix @ x)
    said = kernel.explain()
    assert "rows of up to 2 entries" in said and "rows of more than 10 entries" in said


@pytest.mark.parametrize("target", TARGETS)
def test_buckets_of_blocks(target: str) -> None:
    """A block may have rows of several buckets, the first of which begins the result."""
    matrix = uneven()
    stmt, x = spmv(matrix)
    bounds = np.quantile([1, 2, 9], (0.5, 1)).astype(int)  # NumPy's integers
    made = stmt.bucket("i", bounds=bounds, formats=("BSR(2, 2)", "CSB(8, 8)", None))
    assert "bounds=(2, 9)" in made.text
    np.testing.assert_allclose(made.compile(target)().to_numpy(), matrix @ x)


@pytest.mark.parametrize("target", TARGETS)
def test_other_statements(target: str) -> None:
    """Dense and sparse operands and results, terms besides, and other semirings."""
    matrix, numbers = uneven(), np.random.default_rng(2)
    A = ow.tensor(matrix, name="A")
    x, b = ow.tensor(numbers.random(COLUMNS)), ow.tensor(numbers.random(ROWS))
    B = ow.tensor(numbers.random((COLUMNS, 8)))
    S = ow.tensor(sp.random_array((COLUMNS, 9), density=0.3, format="csr", rng=numbers))
    T = ow.tensor(sp.random_array((ROWS, COLUMNS), density=0.3, format="csr", rng=numbers))
    cases: list[tuple[str, dict[str, Any]]] = [
        ("Y(i) = A(i,j) * x(j) + b(i)", {"Y": ow.empty(ROWS), "x": x, "b": b}),
        ("Y(i) = b(i) - A(i,j) * x(j)", {"Y": ow.empty(ROWS), "x": x, "b": b}),
        ("Y(i) = sqrt(sum(j, A(i,j) * x(j))) * b(i)", {"Y": ow.empty(ROWS), "x": x, "b": b}),
        ("Y(i,k) = A(i,j) * B(j,k)", {"Y": ow.empty((ROWS, 8)), "B": B}),
        ("Y(k,i) = A(i,j) * B(j,k)", {"Y": ow.empty((8, ROWS)), "B": B}),
        ("Y(i,k) = A(i,j) * S(j,k)", {"Y": ow.empty((ROWS, 9), format="CSR"), "S": S}),
        ("Y(i,j) = A(i,j) + T(i,j)", {"Y": ow.empty((ROWS, COLUMNS), format="CSR"), "T": T}),
        ("Y(i,j) = A(i,j) * T(i,j)", {"Y": ow.empty((ROWS, COLUMNS), format="CSR"), "T": T}),
        ("Y(i) = max(j, A(i,j))", {"Y": ow.empty(ROWS)}),
    ]
    for text, names in cases:
        stmt = ow.parse(text, A=A, **names)
        got = stmt.bucket("i", bounds=(2, 10)).compile(target)().to_numpy()
        np.testing.assert_allclose(got, stmt.compile()().to_numpy(), err_msg=text)
    shortest = ow.parse("d(i) = A(i,j) * x(j)", semiring="min_plus", d=ow.empty(ROWS), A=A, x=x)
    got = shortest.bucket("i", bounds=(2, 10)).compile(target)().to_numpy()
    np.testing.assert_array_equal(got, shortest.compile()().to_numpy())


def test_accumulation_and_a_result_that_is_given() -> None:
    matrix = uneven()
    stmt, x = spmv(matrix)
    want = matrix @ x
    out = ow.tensor(np.full(ROWS, 5.0), name="y")
    assert stmt.bucket("i").compile()(out=out) is out
    np.testing.assert_allclose(out.to_numpy(), want)
    A, right = stmt.assignment.rhs.args
    y = ow.tensor(np.ones(ROWS), name="y")
    more = ow.parse("y(i) += A(i,j) * x(j)", y=y, A=A.tensor.source, x=right.tensor.source)
    kernel = more.bucket("i", bounds=(2, 10)).compile()
    np.testing.assert_allclose(kernel().to_numpy(), want + 1)
    np.testing.assert_allclose(kernel(out=out).to_numpy(), 2 * want)
    np.testing.assert_array_equal(y.to_numpy(), 1)


def test_results_that_do_not_fit() -> None:
    stmt, _ = spmv(uneven())
    kernel = stmt.bucket("i").compile()
    frozen = np.zeros(ROWS)
    frozen.flags.writeable = False
    for out, code in (
        (ow.tensor(np.zeros(1)), "E201"),
        (ow.tensor(np.zeros(ROWS + 1)), "E201"),
        (ow.tensor(np.zeros(ROWS, "float32")), "E202"),
        (np.zeros(ROWS), "E202"),
        (ow.tensor(frozen), "E505"),
    ):
        with pytest.raises(ow.OpenworkError) as caught:
            kernel(out=out)
        assert caught.value.code == code


def test_a_result_that_is_also_an_operand() -> None:
    """All buckets read the old entries."""
    numbers = np.random.default_rng(0)
    square = uneven()[:COLUMNS]
    x = ow.tensor(numbers.random(COLUMNS), name="x")
    A = ow.tensor(square, name="A")
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(COLUMNS), A=A, x=x)
    want = square @ x.to_numpy()
    stmt.bucket("i", bounds=(2, 10)).compile()(out=x)
    np.testing.assert_allclose(x.to_numpy(), want)


def test_rows_are_sorted_once_and_values_are_read_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = uneven()
    stmt, x = spmv(matrix)
    made, own = [], Partition._made

    def counted(self: Partition, storage: Any) -> Any:
        made.append(storage)
        return own(self, storage)

    monkeypatch.setattr(Partition, "_made", counted)
    kernel = stmt.bucket("i", bounds=(2, 10)).compile()
    kernel()
    matrix.data *= 3
    np.testing.assert_allclose(kernel().to_numpy(), matrix @ x)
    assert len(made) == 1
    other = uneven(seed=5)
    np.testing.assert_allclose(kernel(A=other).to_numpy(), other @ x)
    kept = ow.tensor(other, name="A")
    for _ in range(2):
        np.testing.assert_allclose(kernel(A=kept, x=2 * x).to_numpy(), 2 * (other @ x))
    assert len(made) == 3


def test_before_there_is_data() -> None:
    A, x = ow.placeholder("A", order=2, format=ow.CSR), ow.placeholder("x", order=1)
    b = ow.placeholder("b", order=1)
    stmt = ow.parse("y(i) = A(i,j) * x(j) + b(i)", y=ow.empty(ROWS), A=A, x=x, b=b)
    plain = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(ROWS), A=A, x=x)
    matrix, numbers = uneven(), np.random.default_rng(0)
    vector, offset = numbers.random(COLUMNS), numbers.random(ROWS)
    kernel = plain.bucket("i", bounds=(2, 10)).compile()
    assert "rows of up to 2 entries\n" in kernel.explain()
    np.testing.assert_allclose(kernel(A=matrix, x=vector).to_numpy(), matrix @ vector)
    listed = stmt.bucket("i", bounds=(2, 10)).compile()
    made = listed(A=matrix, x=vector, b=offset).to_numpy()
    np.testing.assert_allclose(made, matrix @ vector + offset)
    with pytest.raises(ow.ShapeError) as caught:
        kernel(x=vector)
    assert caught.value.code == "E203"
    with pytest.raises(ow.ShapeError) as caught:
        kernel(A=matrix, x=vector, z=vector)
    assert caught.value.code == "E203"


def test_other_ways_to_store_rows() -> None:
    matrix = uneven()
    x = np.random.default_rng(1).random(COLUMNS)
    unsorted = matrix.copy()
    unsorted.indices, unsorted.data = unsorted.indices[::-1].copy(), unsorted.data[::-1].copy()
    unsorted = sp.csr_array(
        (unsorted.data, unsorted.indices, ROWS and unsorted.indptr[-1] - unsorted.indptr[::-1]),
        shape=matrix.shape,
    )
    for A in (
        ow.tensor(unsorted, name="A"),
        ow.tensor(matrix, format="DCSR", name="A"),
        ow.tensor(matrix, format="LIL", name="A"),
        ow.tensor(matrix, format="CSR; packed", name="A"),
    ):
        stmt = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(ROWS), A=A, x=ow.tensor(x))
        got = stmt.bucket("i", bounds=(2, 10)).compile()().to_numpy()
        np.testing.assert_allclose(got, A.to_scipy() @ x, err_msg=str(A.format))
    dense = np.random.default_rng(3).random((12, 6, 5)) * (np.arange(6)[:, None] < 3)
    dense[::2] = 0
    X, M = ow.tensor(dense, format=ow.CSF(3), name="X"), ow.tensor(np.ones((5, 4)), name="M")
    stmt = ow.parse("Y(i,j,k) = X(i,j,l) * M(l,k)", Y=ow.empty((12, 6, 4)), X=X, M=M)
    got = stmt.bucket("i", bounds=(2, 20)).compile()().to_numpy()
    np.testing.assert_allclose(got, dense @ np.ones((5, 4)))


def test_text_makes_them_again() -> None:
    stmt, _ = spmv(uneven())
    made = stmt.bucket("i", bounds=(2, 10), schedules=(None, "split(i,a,b,4)", None))
    assert made.text == (
        'bucket("i", by="length", bounds=(2, 10), schedules=(None, \'split(i,a,b,4)\', None))'
    )
    again = eval(f"stmt.{made.text}", {"stmt": stmt})  # noqa: S307 - our own text
    assert str(again) == str(made)
    assert repr(made) == f"<Buckets of y(i) = sum(j, A(i,j) * x(j)): {made.text}>"
    assert made.compile().source.count("int32_t kernel(") == 3


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"bounds": ()}, "E303"),
        ({"bounds": (8, 8)}, "E303"),
        ({"bounds": (0, 8)}, "E303"),
        ({"bounds": (8.5,)}, "E303"),
        ({"bounds": 8}, "E303"),
        ({"bounds": (True,)}, "E303"),
        ({"bounds": (8, 4)}, "E303"),
        ({"by": "colour"}, "E303"),
        ({"bounds": (8,), "schedules": ("split(i,a,b,2)",)}, "E303"),
        ({"bounds": (8,), "formats": "CSR"}, "E303"),
        ({"i": "j"}, "E316"),
        ({"i": "q"}, "E316"),
        ({"bounds": (8,), "schedules": ("split(z,a,b,2)", None)}, "E301"),
    ],
)
def test_what_is_refused(arguments: dict[str, Any], code: str) -> None:
    stmt, _ = spmv(uneven())
    with pytest.raises(ow.OpenworkError) as caught:
        stmt.bucket(**{"i": "i", **arguments})
    assert caught.value.code == code


def test_statements_that_have_no_buckets() -> None:
    matrix = uneven()
    stmt, x = spmv(matrix)
    with pytest.raises(ow.ScheduleError, match="schedule cannot be taken apart"):
        stmt.split("i", "a", "b", 4).bucket("i")
    columns = ow.tensor(matrix, format="CSC", name="A")
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(ROWS), A=columns, x=ow.tensor(x))
    with pytest.raises(ow.ScheduleError, match="stores the entries of each i as a run"):
        stmt.bucket("i")
    rows = ow.tensor(matrix, name="A")
    stmt = ow.parse(
        "y(i) = A(i,j) * x(j) + b(i)",
        y=ow.empty(ROWS), A=rows, x=ow.tensor(x), b=ow.tensor(np.ones(ROWS)),
    )  # fmt: skip
    with pytest.raises(ow.ScheduleError, match="cannot be stored apart"):
        stmt.bucket("i", bounds=(8,), formats=("ELL", None))
