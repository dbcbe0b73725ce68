"""Operations on arrays like those of a call before, which run its kernel and nothing else."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openwork as ow
from openwork.algebra.overloads import Overloaded
from openwork.runtime.host import launch
from openwork.tensor.eager import KERNELS
from openwork.tensor.kernel import warm

pytestmark = pytest.mark.needs_cc

OPERATIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda a, b: a + b,
    "scaled": lambda a, b: 2 * a - b / 3,
    "root": lambda a, b: np.sqrt(np.abs(a)),
    "compared": lambda a, b: a > b,
    "chosen": lambda a, b: np.where(a > 0, a, b),
    "sums": lambda a, b: a.sum() + b.sum(0),
    "extremes": lambda a, b: a.max(0) + b.min(),
    "mean": lambda a, b: a.mean() + b.mean(0),
    "norm": lambda a, b: np.linalg.norm(a),
    "product": lambda a, b: a.T @ b,
    "element": lambda a, b: a[1] + b[-1],
    "window": lambda a, b: a[1:3] + b[:2],
}


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What kernels were looked for."""
    keys: list[Any] = []
    get = KERNELS.get

    def watched(key: Any, *args: Any, **named: Any) -> Any:
        keys.append(key)
        return get(key, *args, **named)

    monkeypatch.setattr(KERNELS, "get", watched)
    return keys


@pytest.fixture
def through_ctypes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where Python has no functions that take arrays' addresses."""
    monkeypatch.setattr(warm, "direct", lambda *_: None)
    KERNELS.clear()


@pytest.mark.usefixtures("through_ctypes")
@pytest.mark.parametrize("name", OPERATIONS)
def test_without_functions_of_pythons(name: str) -> None:
    compare(OPERATIONS[name], "float32", (4, 4))


UNORDERED = ("compared", "chosen", "extremes", "scaled")  # nor are bools subtracted
NEVER_EMPTY = ("extremes", "mean", "element")


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int8", "complex128", "bool"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_it_is_what_numpy_has(name: str, dtype: str) -> None:
    if dtype not in ("complex128", "bool") or name not in UNORDERED:
        for shape in [(3,), (4, 4), *([(0,)] if name not in NEVER_EMPTY else [])]:
            compare(OPERATIONS[name], dtype, shape)


def compare(operation: Callable[..., Any], dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    results = []
    for _ in range(3):
        a, b = (rng.integers(-9, 9, shape).astype(dtype) for _ in "ab")
        made = operation(ow.tensor(a), ow.tensor(b))
        results.append((made, operation(a, b)))
    for made, expected in results:  # at the end: none was written over
        np.testing.assert_allclose(made.to_numpy(), expected, rtol=1e-3)  # NumPy has float16


def test_the_kernel_is_not_looked_for(looked: list[Any]) -> None:
    KERNELS.clear()
    a, b, M = (ow.tensor(np.ones(shape)) for shape in [3, 3, (3, 3)])
    calls = (lambda: a + b, lambda: 2.5 * a, lambda: np.exp(a), lambda: a.sum(), lambda: M.T @ a,
             lambda: M + a, lambda: a.mean(), lambda: M.max(axis=1), lambda: M.trace(),
             lambda: a + np.ones(3))  # fmt: skip
    for run in calls:
        run()
    assert len(looked) == len(calls) - 1  # an array is added as a tensor was
    looked.clear()
    for run in calls:
        run()
    assert not looked


def test_numbers_are_as_they_were_the_first_time() -> None:
    a = ow.tensor(np.array([1, -2, 3], dtype="int8"))
    for number in (3, 4):
        np.testing.assert_array_equal((a + number).to_numpy(), a.to_numpy() + np.int8(number))
        np.testing.assert_array_equal((a < number).to_numpy(), a.to_numpy() < number)
    with pytest.raises(ow.ParseError, match="does not fit"):
        a + 300
    assert (a < 300).all().item() and (a + np.int64(300)).dtype == np.int64
    assert (a + 2.5).to_numpy().tolist() == [3.5, 0.5, 5.5]
    assert (a * True).dtype == np.int8
    for exponent in (2, 3):
        np.testing.assert_array_equal((a**exponent).to_numpy(), a.to_numpy() ** exponent)
    with pytest.raises(ow.OpenworkError):
        a**-1


def test_zero_is_added_as_any_number() -> None:
    a = ow.tensor(np.array([-0.0, 1.0]))
    for number in (1.0, 0, 0.0):
        expected = a.to_numpy() + number
        assert np.signbit((a + number).to_numpy()).tolist() == np.signbit(expected).tolist()


def test_arrays_that_are_not_plain_memory() -> None:
    a, plain = ow.tensor(np.ones(4)), np.arange(4.0)
    fixed = plain.copy()
    fixed.flags.writeable = False
    unaligned = np.frombuffer(b"0" + plain.tobytes(), np.uint8)[1:].view(float)
    strange = (plain.astype(">f8"), np.repeat(plain, 2)[::2], fixed, unaligned, plain, list(plain))
    for _ in range(2):
        for each in strange:
            np.testing.assert_array_equal((a + each).to_numpy(), plain + 1)
            np.testing.assert_array_equal((each + a).to_numpy(), plain + 1)
    odd = np.array([0, 1, 7, 0], np.uint8).view(bool)
    for _ in range(2):
        assert (a * odd).to_numpy().tolist() == [0, 1, 1, 0]
    M = np.arange(4.0).reshape(2, 2)
    for each in (M, M.T, np.asfortranarray(M), M[::-1]) * 2:
        np.testing.assert_array_equal((ow.tensor(M) + each).to_numpy(), M + each)
        np.testing.assert_array_equal((ow.tensor(M) - ow.tensor(each)).to_numpy(), M - each)


def test_other_shapes_and_wrong_ones() -> None:
    a = ow.tensor(np.ones(3))
    for _ in range(2):
        assert (a + ow.tensor(np.ones((2, 1)))).shape == (2, 3)
        with pytest.raises(ow.ShapeError):
            a + ow.tensor(np.ones(2))
        assert a.sum(0).item() == 3
    with pytest.raises(ow.ShapeError):
        a.sum(1.0)  # type: ignore[arg-type]


def test_a_background_is_not_an_array() -> None:
    A = ow.tensor(np.array([[1.0, 2.0], [2.0, 4.0]])).to("CSR")
    B = ow.tensor(np.array([[1.0, 2.0], [2.0, 4.0]]))
    for _ in range(2):
        assert (A * 2).format == ow.CSR and (B * 2).format == ow.dense(2)
        assert A.trace().item() == B.trace().item() == 5
    y = ow.empty(2)
    i, j = ow.indices("i j")
    for _ in range(2):
        y[i] = B[i, j]
        np.testing.assert_array_equal((y + y).to_numpy(), [6, 12])  # computes y first


def test_threads_have_arguments_of_their_own() -> None:
    wrong = []

    def work(seed: int) -> None:
        a = np.full(50, float(seed))
        A = ow.tensor(a)
        for n in range(200):
            if not np.array_equal((A * n).to_numpy(), a * n) or (A + A).sum().item() != 100 * seed:
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("format", ["CSR", "CSC", "COO(2)", "DCSR", "BSR(2,2)", "LIL", "dense(2)"])
def test_a_trace_reads_the_diagonal_alone(format: str) -> None:
    rng = np.random.default_rng(0)
    S = np.where(rng.random((7, 7)) < 0.4, rng.integers(1, 9, (7, 7)), 0)
    A = ow.tensor(S).to(format)
    assert A.trace().item() == S.trace() and A.trace(1).item() == S.trace(1)
    small = A.astype("int8")
    assert small.trace().dtype == np.int64 and small.trace(dtype="int16").dtype == np.int16
    assert A[:5].trace().item() == S[:5].trace()
    assert A.astype("float32").trace(dtype=np.dtype("float64")).dtype == np.float64


@pytest.mark.parametrize("format", ["CSR", "CSC", "COO(2)", "BSR(2,2)", "dense(2)"])
def test_a_norm_is_one_statement(format: str, looked: list[Any]) -> None:
    rng = np.random.default_rng(0)
    S = np.where(rng.random((6, 5)) < 0.5, rng.random((6, 5)), 0)
    A = ow.tensor(S).to(format)
    for axis in (None, 0, 1, -1, (0, 1)):
        np.testing.assert_allclose(
            np.linalg.norm(A, axis=axis).to_numpy(), np.linalg.norm(S, axis=axis)
        )
    assert np.linalg.norm(A.astype("float32")).dtype == np.float32
    dense = ow.tensor(S)
    KERNELS.clear()
    np.linalg.norm(dense)
    looked.clear()
    np.linalg.norm(dense)
    assert not looked


def test_a_column_of_a_block() -> None:
    X = np.random.default_rng(0).random((7, 3))
    A = ow.tensor(np.eye(7), format="CSR")
    for n in (0, 1, 2, 0):
        np.testing.assert_array_equal((A @ X[:, n]).to_numpy(), X[:, n])
        np.testing.assert_array_equal(A.matvec(X[:, n : n + 1]), X[:, n : n + 1])


def test_sums_of_a_sparse_tensor_again() -> None:
    """A tensor with the same facts, new values in place, another fill: each has its own sum."""
    first = ow.tensor(np.array([[0.0, 1.0], [2.0, 0.0]]), format="CSR")
    other = ow.tensor(np.array([[0.0, 5.0, 0.0], [7.0, 0.0, 1.0]]), format="CSR")
    filled = ow.tensor((np.array([[0, 1], [1, 0]]), np.array([1.0, 2.0])), shape=(2, 2), fill=3.0)
    for _ in range(3):
        assert first.sum().item() == 3.0
        assert other.sum().item() == 13.0
        assert filled.sum().item() == 9.0
        assert first.sum(0).to_numpy().tolist() == [2.0, 1.0]
        assert first.max(1).to_numpy().tolist() == [1.0, 2.0]
    first[0, 1] = 10.0
    assert first.sum().item() == 12.0


@pytest.mark.parametrize("type", ["float32", "float64", "int16"])
def test_means_again(type: str) -> None:
    array = np.arange(12, dtype=type).reshape(3, 4)
    for given in (array, array + 1, array.T, array[:2]):
        for axis in (None, 0, -1):
            mean = ow.tensor(np.ascontiguousarray(given)).mean(axis)
            expected = given.mean(axis)
            assert mean.dtype == expected.dtype
            np.testing.assert_allclose(mean.to_numpy(), expected, rtol=1e-6)
    assert np.isnan(ow.tensor(np.empty(0)).mean().item())


def test_elements_and_windows_of_arrays() -> None:
    """Short cuts for usual subscripts: views where NumPy has views, and errors beyond."""
    array = np.arange(24.0).reshape(4, 6)
    tensor, vector = ow.tensor(array), ow.tensor(np.arange(5))
    for index in (2, -1, slice(1, 3), (1, 2), (slice(None), 3), (-1, slice(2, 4)), ()):
        np.testing.assert_array_equal(tensor[index].to_numpy(), array[index])
    assert (vector[-5].item(), vector[1:3].shape, vector[3:1].shape) == (0, (2,), (0,))
    for wrong in (5, -6):
        with pytest.raises(ow.ShapeError, match="E204"):
            vector[wrong]
    tensor[1:3].to_numpy()[0, 0] = 100.0
    assert array[1, 0] == 100.0
    assert [each.shape for each in tensor] == [(6,)] * 4


def test_the_number_of_threads_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "SERIAL_BELOW", 1)
    monkeypatch.setattr(launch, "thread_count", lambda: next(counts))
    counts = iter([1, 2, 3, 1, 2] * 2)
    array = np.arange(50.0)
    a = ow.tensor(array)
    for _ in range(10):
        np.testing.assert_array_equal((a + a).to_numpy(), array + array)


@pytest.mark.parametrize("type", ["float32", "float64"])
def test_numbers_of_every_kind(type: str) -> None:
    array = np.array([1.5, -2.0], type)
    a = ow.tensor(array)
    for _ in range(2):
        for number in (True, 3, -1, -1.0, 2.5, np.nan, -np.inf, 0.1, np.float32(0.1), np.int8(-1)):
            made = a * number
            assert made.dtype == (array * number).dtype
            np.testing.assert_array_equal(made.to_numpy(), array * number)
            np.testing.assert_array_equal((number - a).to_numpy(), number - array)
        with pytest.raises(OverflowError):
            a * 10**400


def test_operators_on_what_is_no_tensor() -> None:
    a = ow.tensor(np.ones(2))
    for _ in range(2):
        assert (a + a).to_numpy().tolist() == [2, 2]
        with pytest.raises(TypeError):
            a + "1"  # type: ignore[operator]
        with pytest.raises(TypeError):
            None * a  # type: ignore[operator]
    assert (a < a).dtype == bool and (a == a).all().item()
    assert ow.Tensor.__radd__.__doc__ == Overloaded.__radd__.__doc__


def test_a_name_when_somebody_asks() -> None:
    a = ow.tensor(np.ones(2), name="a")
    one, other = a + a, a + a
    assert other.name != one.name == one.name and one.T.name == f"{one.name}_T"
    assert pickle.loads(pickle.dumps(one)).name == one.name  # noqa: S301


@pytest.mark.parametrize("name", ["expm1", "sinh", "isnan", "frexp"])
def test_functions_that_are_numpys_own(name: str) -> None:
    function, array = getattr(np, name), np.linspace(-2, 2, 12, dtype="float32").reshape(3, 4)
    for given in (array, array.T, array[:0], array[0, 0], array.astype("int8")):
        made, expected = function(ow.tensor(given)), function(given)
        pairs = zip(made, expected, strict=True) if name == "frexp" else [(made, expected)]
        for one, other in pairs:
            np.testing.assert_array_equal(np.asarray(one), other)
    np.testing.assert_array_equal(array, np.linspace(-2, 2, 12, dtype="float32").reshape(3, 4))
