"""Calls of kernels: results added to, other shapes, `out=`, and index arrays of 64 bits."""

from __future__ import annotations

import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from tests.whole.test_statements import check, compiled, every_format, numbers

import openwork as ow
from openwork.format.levels.width import INT32_LIMIT
from openwork.tensor.exchange.validate import validate

pytestmark = pytest.mark.needs_cc

# --- Accumulation ------------------------------------------------------------------------------

ACCUMULATIONS = {"+=": np.add, "min=": np.minimum, "max=": np.maximum}
accumulations = pytest.mark.parametrize("sign", ACCUMULATIONS)


@accumulations
@every_format
def test_accumulating_into_a_result(sign: str, format: ow.Format) -> None:
    A, C = numbers(5, 6), numbers(5, 6, seed=1)
    out = ow.tensor(C, format=format)
    kernel = compiled(f"C(i,j) {sign} A(i,j)", A=ow.tensor(A, format=ow.CSR), C=out)
    expected = ACCUMULATIONS[sign](C, A)
    fresh = kernel()
    validate(fresh.storage, "C")
    np.testing.assert_array_equal(fresh.to_numpy(), expected)
    np.testing.assert_array_equal(out.to_numpy(), C)
    kernel(out=out)
    np.testing.assert_array_equal(out.to_numpy(), expected)


@accumulations
def test_accumulating_a_reduction(sign: str) -> None:
    A, y = numbers(5, 6), numbers(5, density=1)
    for format in (ow.dense(1), ow.CSF(1)):
        given = {"A": ow.tensor(A, format=ow.CSR), "y": ow.tensor(y, format=format)}
        check(f"y(i) {sign} sum(j, A(i,j))", ACCUMULATIONS[sign](y, A.sum(1)), **given)


def test_accumulating_a_product_into_a_sparse_result() -> None:
    A, B, C = numbers(5, 6), numbers(6, 4), numbers(5, 4, seed=1)
    given = {"A": ow.tensor(A, format=ow.CSR), "B": ow.tensor(B, format=ow.CSR)}
    check("C(i,j) += A(i,k) * B(k,j)", C + A @ B, C=ow.tensor(C, format=ow.CSR), **given)


def test_python_accumulates_too() -> None:
    i, j = ow.indices("i j")
    A, x, y = ow.tensor(numbers(4, 5), format=ow.CSR), ow.tensor(numbers(5)), ow.tensor(np.ones(4))
    y[i] += A[i, j] * x[j]
    expected = A.to_numpy() @ x.to_numpy() + 1
    np.testing.assert_array_equal(y.statement.compile()(out=y).to_numpy(), expected)
    np.testing.assert_array_equal(y.to_numpy(), expected)


# --- Kernels -----------------------------------------------------------------------------------


def test_one_kernel_for_many_shapes() -> None:
    kernel = compiled(
        "y(i) = A(i,j) * x(j)",
        A=ow.placeholder("A", 2, format=ow.CSR),
        x=ow.placeholder("x", 1),
        y=ow.placeholder("y", 1),
    )
    for m, n in [(3, 4), (7, 2), (1, 1), (0, 5), (5, 0), (40, 60)]:
        A, x = numbers(m, n), numbers(n, density=1)
        result = kernel(A=sparse.csr_array(A), x=x)
        assert result.shape == (m,)
        np.testing.assert_array_equal(result.to_numpy(), A @ x)


def test_a_sparse_result_takes_the_shape_of_its_operands() -> None:
    A, B = (ow.tensor(numbers(4, 5, seed=n), format=ow.CSR) for n in range(2))
    given = {"A": A, "B": B, "C": ow.empty((4, 5), format=ow.CSR)}
    kernel = compiled("C(i,j) = A(i,j) + B(i,j)", **given)
    other = [numbers(9, 3, seed=n) for n in range(2)]
    result = kernel(**{n: ow.tensor(a, format=ow.CSR) for n, a in zip("AB", other, strict=True)})
    assert result.shape == (9, 3)
    np.testing.assert_array_equal(result.to_numpy(), sum(other))


@every_format
def test_out(format: ow.Format) -> None:
    A, B = numbers(4, 5), numbers(4, 5, seed=1)
    given = {"A": ow.tensor(A, format=ow.CSR), "B": ow.tensor(B, format=ow.CSR)}
    kernel = compiled("C(i,j) = A(i,j) + B(i,j)", C=ow.empty((4, 5), format=format), **given)
    out = ow.tensor(np.full((4, 5), 9.0), format=format)
    assert kernel(out=out) is out
    np.testing.assert_array_equal(out.to_numpy(), A + B)
    again = kernel()
    assert again is not out
    np.testing.assert_array_equal(again.to_numpy(), A + B)


def test_out_that_is_also_an_operand() -> None:
    A, x = numbers(5, 5), numbers(5, density=1)
    kernel = compiled(
        "y(i) = A(i,j) * x(j)", A=ow.tensor(A, format=ow.CSR), x=ow.tensor(x), y=ow.empty(5)
    )
    shared = ow.tensor(x.copy())
    np.testing.assert_array_equal(kernel(x=shared, out=shared).to_numpy(), A @ x)
    np.testing.assert_array_equal(shared.to_numpy(), A @ x)


def test_repeated_calls_with_out_that_is_an_operand() -> None:
    A, x, w = numbers(5, 5), numbers(5, density=1), numbers(5, density=1, seed=3)
    given = {"A": ow.tensor(A, format=ow.CSR), "x": ow.tensor(x), "w": ow.tensor(w)}
    kernel = compiled("y(i) = A(i,j) * x(j) * w(j)", **given, y=ow.empty(5))
    out, other = ow.empty(5), ow.tensor(x.copy())
    for _ in range(3):
        np.testing.assert_array_equal(kernel(out=out).to_numpy(), A @ (x * w))
        np.testing.assert_array_equal(kernel(w=x, out=out).to_numpy(), A @ (x * x))
    for _ in range(3):
        x = A @ (x * w)
        assert kernel(x=other, out=other) is other
        np.testing.assert_array_equal(other.to_numpy(), x)
    expected = kernel().to_numpy()
    np.testing.assert_array_equal(kernel(out=given["x"]).to_numpy(), expected)
    with pytest.raises(ow.DataError, match="read-only"):
        frozen = np.zeros(5)
        frozen.flags.writeable = False
        kernel(out=ow.tensor(frozen))


def test_out_over_index_arrays() -> None:
    """A kernel that reads coordinates after it has written over them would leave its arrays."""
    rows = np.array([0, *[1] * 8, 9], dtype=np.int32)
    parts = np.arange(1, 10, dtype=np.int32), np.arange(9, dtype=np.int32), rows
    S, x = sparse.csr_array(parts, shape=(9, 9)), np.arange(10, 19, dtype=np.int32)
    A, expected = ow.tensor(S, format=ow.CSR), S.toarray() @ x
    kernel = compiled("y(i) = A(i,j) * x(j)", A=A, x=ow.tensor(x), y=ow.empty(9, dtype="int32"))
    np.testing.assert_array_equal(kernel(A=S, out=ow.tensor(S.indices)).to_numpy(), expected)


def test_out_shares_memory_with_numpy() -> None:
    A, x, y = numbers(5, 5), numbers(5, density=1), np.full(5, np.nan)
    kernel = compiled(
        "y(i) = A(i,j) * x(j)", A=ow.tensor(A, format=ow.CSC), x=ow.tensor(x), y=ow.empty(5)
    )
    kernel(out=ow.tensor(y))
    np.testing.assert_array_equal(y, A @ x)


# --- Wide index arrays -------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["y(i) = A(i,j) * x(j)", "B(i,j) = A(i,j) + A(i,j)"])
def test_a_repeated_call_sees_what_its_operands_are_now(text: str) -> None:
    """Of the statement's own, given by name, and of placeholders, whose last data may be gone."""
    a, x = numbers(5, 6), numbers(6)
    A, X = ow.tensor(a, format=ow.CSR, name="A"), ow.tensor(x, name="x")
    result = ow.empty((5,)) if text[0] == "y" else ow.empty((5, 6), format=ow.CSR)
    expected = {"y": lambda a: a @ x, "B": lambda a: 2 * a}[text[0]]
    kernel = compiled(text, **{text[0]: result, "A": A} | ({"x": X} if text[0] == "y" else {}))
    for _ in range(3):
        np.testing.assert_array_equal(kernel().to_numpy(), expected(a))
    other = numbers(5, 6, seed=2)
    for given in (other, a, other):
        for _ in range(2):
            answer = kernel(A=ow.tensor(given, format=ow.CSR))
            np.testing.assert_array_equal(answer.to_numpy(), expected(given))
        np.testing.assert_array_equal(kernel().to_numpy(), expected(a))
    A.__openwork_store__(ow.tensor(other, format=ow.CSR).storage)  # in place of what it had
    for _ in range(2):
        np.testing.assert_array_equal(kernel().to_numpy(), expected(other))


def test_operands_live_until_a_repeated_call_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may replace them while the kernel runs."""
    a, b = numbers(5, 6), numbers(5, 6, seed=1)
    A, B = ow.tensor(a, format=ow.CSR, name="A"), ow.tensor(b, format=ow.CSR, name="B")
    kernel = compiled("y(i) = A(i,j) * B(i,j)", y=ow.empty((5,)), A=A, B=B)
    kernel()
    warm = kernel._warm
    assert warm is not None
    before, made = [weakref.ref(t.storage) for t in (A, B)], warm._made

    def replaced() -> ow.Tensor:
        for tensor in (A, B):
            tensor.__openwork_store__(ow.tensor(2 * a, format=ow.CSR).storage)
        assert all(reference() is not None for reference in before)
        return made()

    monkeypatch.setattr(warm, "_made", replaced)
    np.testing.assert_array_equal(kernel().to_numpy(), (a * b).sum(axis=1))


def test_a_placeholder_has_no_data_after_a_call_with_some() -> None:
    """The operand of that call is gone by then, and so is the reference to it."""
    A = ow.placeholder("A", order=2, format=ow.CSR)
    kernel = compiled("y(i) = A(i,j)", y=ow.empty((5,)), A=A)
    for seed in range(3):
        a = numbers(5, 6, seed=seed)
        np.testing.assert_array_equal(
            kernel(A=ow.tensor(a, format=ow.CSR)).to_numpy(), a.sum(axis=1)
        )
    with pytest.raises(ow.ShapeError, match="E203"):
        kernel()


def test_appended_results_of_repeated_calls_are_their_own() -> None:
    """A call like the one before takes a shorter way; its arrays are new all the same."""
    A, B = numbers(40, 30, density=0.3), numbers(40, 30, density=0.3, seed=1)
    given = {"A": ow.tensor(A, format=ow.CSR), "B": ow.tensor(B, format=ow.CSR)}
    kernel = compiled("C(i,j) = A(i,j) + B(i,j)", C=ow.empty((40, 30), format=ow.CSR), **given)
    results = [kernel() for _ in range(3)]
    results[1].storage.values[:] = 0
    for threads in (3, 1, 2):
        ow.set_num_threads(threads)
        results.append(kernel())
    ow.set_num_threads(None)
    other = kernel(A=2 * given["A"])
    with ThreadPoolExecutor(4) as pool:
        results += list(pool.map(lambda _: kernel(), range(20)))
    for n, result in enumerate(results):
        validate(result.storage, "C")
        np.testing.assert_array_equal(result.to_numpy(), 0 * A if n == 1 else A + B)
    np.testing.assert_array_equal(other.to_numpy(), 2 * A + B)


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers above 100 need 64 bits."""
    monkeypatch.setattr(INT32_LIMIT, "value", 100)


WIDE = {
    "A + B": ("C(i,j) = A(i,j) + B(i,j)", lambda A, B: A + B),
    "A * B": ("C(i,j) = A(i,j) * B(i,j)", lambda A, B: A * B),
    "A @ B": ("C(i,j) = A(i,k) * B(k,j)", lambda A, B: A @ B),
    "2 * A": ("C(i,j) = 2 * A(i,j) + 0 * B(i,j)", lambda A, B: 2 * A),
    "A + B.T": ("C(i,j) = A(i,j) + B(j,i)", lambda A, B: A + B.T),
}


@pytest.mark.parametrize(
    ("family", "format"),
    [*((family, ow.CSR) for family in WIDE), ("A @ B", ow.DCSR), ("A + B", ow.DCSR)],
)
@pytest.mark.usefixtures("narrow")
def test_positions_beyond_int32(family: str, format: ow.Format) -> None:
    text, compute = WIDE[family]
    A, B = numbers(15, 15, density=0.8), numbers(15, 15, density=0.8, seed=1)
    given = {"A": ow.tensor(A, format=format), "B": ow.tensor(B, format=format)}
    kernel = compiled(text, C=ow.empty((15, 15), format=format), **given)
    for _ in range(2):
        result = kernel()
        validate(result.storage, "C")
        np.testing.assert_array_equal(result.to_numpy(), compute(A, B))
        assert result.nnz > 100
        assert result.storage.levels[-1]["pos"].dtype == np.int64
        assert result.storage.levels[-1]["crd"].dtype == np.int32
    small = {n: ow.tensor(np.eye(15), format=format) for n in "AB"}
    np.testing.assert_array_equal(kernel(**small).to_numpy(), compute(np.eye(15), np.eye(15)))


@pytest.mark.usefixtures("narrow")
def test_coordinates_beyond_int32() -> None:
    A, x = numbers(150, 250, density=0.02), numbers(250, density=1)
    given = {"A": ow.tensor(A, format=ow.DCSR)}
    assert {a.dtype.name for arrays in given["A"].storage.levels for a in arrays.values()} == {
        "int64"
    }
    check("y(i) = A(i,j) * x(j)", A @ x, x=ow.tensor(x), y=ow.empty(150), **given)
    sums = check("a(j) = A(i,j)", A.sum(0), a=ow.empty(250, format=ow.CSF(1)), **given)
    assert {array.dtype.name for array in sums.storage.levels[0].values()} == {"int64"}


@pytest.mark.usefixtures("narrow")
def test_narrow_and_wide_operands_in_one_kernel() -> None:
    wide, slim = numbers(15, 15, density=0.9), np.eye(15)
    kernel = compiled(
        "C(i,j) = A(i,j) + B(i,j)",
        A=ow.tensor(wide, format=ow.CSR),
        B=ow.tensor(slim, format=ow.CSR),
        C=ow.empty((15, 15), format=ow.CSR),
    )
    np.testing.assert_array_equal(kernel().to_numpy(), wide + slim)
    swapped = kernel(A=ow.tensor(slim, format=ow.CSR), B=ow.tensor(wide, format=ow.CSR))
    np.testing.assert_array_equal(swapped.to_numpy(), wide + slim)


@pytest.mark.usefixtures("narrow")
def test_tensors_of_three_modes_beyond_int32() -> None:
    X, v = numbers(8, 9, 10, density=0.5), numbers(10, density=1)
    given = {"X": ow.tensor(X, format=ow.CSF(3)), "v": ow.tensor(v)}
    assert given["X"].storage.levels[2]["pos"].dtype == np.int64
    check("Y(i,j) = X(i,j,k) * v(k)", X @ v, Y=ow.empty((8, 9), format=ow.CSR), **given)
    Z = ow.empty(X.shape, format=ow.CSF(3))
    wide = check("Z(i,j,k) = X(i,j,k) + X(i,j,k)", 2 * X, X=given["X"], Z=Z)
    assert wide.storage.levels[2]["pos"].dtype == np.int64


@pytest.mark.parametrize("dtype", [np.dtype("float64"), ow.entry.quaternion()], ids=str)
def test_an_update_of_out_is_compared_with_the_reference(
    dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reference begins with what `out` held before, which the kernel has written over."""
    monkeypatch.setenv("OPENWORK_CHECK", "1")
    inner = getattr(dtype, "shape", ())
    A = ow.tensor(np.ones((4, 3, *inner)), ow.CSR, "A", dtype)
    x, out = (ow.tensor(np.ones((n, *inner)), dtype=dtype, name=f"x{n}") for n in (3, 4))
    y = ow.empty(4, dtype, name="y")
    made = ow.parse("y(i) += A(i,j) * x(j)", y=y, A=A, x=x).compile()(out=out)
    np.testing.assert_array_equal(made.to_numpy(), 1 + (A @ x).to_numpy())
