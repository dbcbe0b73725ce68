"""Reading a tensor computes the statement that an assignment recorded for it."""

from __future__ import annotations

import copy
import io
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openwork as ow

A0 = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0], [4.0, 5.0, 0.0]])
X0 = np.array([1.0, 2.0, 3.0])
i, j, k = ow.indices("i j k")


def doubled(format: Any = ow.CSR) -> ow.Tensor:
    """A tensor for which `2 * A` is recorded."""
    A = ow.tensor(A0, format=ow.CSR, name="A")
    R = ow.empty(A0.shape, format=format, name="R")
    R[i, j] = 2 * A[i, j]
    return R


def read_as_operand(R: ow.Tensor) -> Any:
    S = ow.empty((3, 3), name="S")
    return ow.assign(S[i, j], 3 * R[i, j]).compile()().to_numpy() / 3


def read_as_argument(R: ow.Tensor) -> Any:
    S, B = ow.empty((3, 3), name="S"), ow.placeholder("B", 2, format=R.format)
    return ow.assign(S[i, j], B[i, j]).compile()(B=R).to_numpy()


def read_by_another_record(R: ow.Tensor) -> Any:
    S = ow.empty((3, 3), name="S")
    S[i, j] = R[i, j] + 1
    return S.to_numpy() - 1


def read_as_archive(R: ow.Tensor) -> Any:
    with io.BytesIO() as file:
        np.savez(file, *(array for level in R.storage.levels for array in level.values()))
    return ow.tensor(R).to_numpy()


READERS: dict[str, Callable[[ow.Tensor], Any]] = {
    "to_numpy": lambda R: R.to_numpy(),
    "to_scipy": lambda R: R.to_scipy().toarray(),
    "to_coo": lambda R: ow.tensor(R.to_coo(), shape=(3, 3)).to_numpy(),
    "storage": read_as_archive,
    "to": lambda R: R.to(ow.CSC).to_numpy(),
    "to cpu": lambda R: R.to("cpu").to_numpy(),
    "astype": lambda R: R.astype("float32").to_numpy(),
    "T": lambda R: R.T.to_numpy().T,
    "transpose": lambda R: R.transpose((1, 0)).to_numpy().T,
    "copy": lambda R: R.copy().to_numpy(),
    "copy.copy": lambda R: copy.copy(R).to_numpy(),
    "copy.deepcopy": lambda R: copy.deepcopy(R).to_numpy(),
    "pickle": lambda R: pickle.loads(pickle.dumps(R)).to_numpy(),  # noqa: S301
    "operand": read_as_operand,
    "argument": read_as_argument,
    "record": read_by_another_record,
    "operator": lambda R: (R + 0).to_numpy(),
    "negated": lambda R: -(-R).to_numpy(),
    "matmul": lambda R: (R @ np.eye(3)).to_numpy(),
    "einsum": lambda R: ow.einsum("ij,jk->ik", R, np.eye(3)).to_numpy(),
    "sum": lambda R: np.broadcast_to(R.sum().to_numpy() / 30, (3, 3)) * 2 * A0,
    "function": lambda R: ow.abs(R).to_numpy(),
    "tensor": lambda R: ow.tensor(R).to_numpy(),
    "symbolic": lambda R: pattern_plan(R)().to_numpy(),
}


def pattern_plan(R: ow.Tensor) -> Any:
    C = ow.empty((3, 3), format=ow.CSR, name="C")
    B = ow.tensor(np.zeros((3, 3)), format=ow.CSR, name="B")
    return ow.assign(C[i, j], R[i, j] + B[i, j]).compile().symbolic()


@pytest.mark.parametrize("format", [ow.CSR, ow.dense(2), ow.COO(2), ow.BSR(2, 2)], ids=repr)
@pytest.mark.parametrize("reader", READERS)
def test_every_way_to_read(reader: str, format: Any) -> None:
    R = doubled(format)
    np.testing.assert_array_equal(READERS[reader](R), 2 * A0)
    assert str(R.statement) == "R(i,j) = 2 * A(i,j)"


def test_counts_and_pictures() -> None:
    assert doubled().nnz == 5
    assert "5 stored" in repr(doubled())
    assert "2. 4. | 6. |" in doubled().draw()
    assert "<svg" in str(doubled()._repr_svg_())
    assert doubled().device == "cpu"


@pytest.mark.parametrize("suffix", [".mtx", ".tns", ".npz"])
def test_files(tmp_path: Path, suffix: str) -> None:
    ow.write(str(tmp_path / f"r{suffix}"), doubled())
    np.testing.assert_array_equal(ow.read(str(tmp_path / f"r{suffix}")).to_numpy(), 2 * A0)


def test_protocols_of_dense_tensors() -> None:
    np.testing.assert_array_equal(np.asarray(doubled(ow.dense(2))), 2 * A0)
    np.testing.assert_array_equal(np.from_dlpack(doubled(ow.dense(2))), 2 * A0)
    s = ow.empty((), name="s")
    x = ow.tensor(X0, name="x")
    s[()] = x[i] * x[i]
    assert (s.item(), float(s), int(s), complex(s), bool(s)) == (14.0, 14.0, 14, 14, True)
    assert "= 14.0" in repr(s)


def test_facts_are_known_without_computing() -> None:
    P = ow.placeholder("P", 2, format=ow.CSR, shape=(3, 3))
    R = ow.empty((3, 3), format=ow.CSR, name="R")
    R[i, j] = P[i, j] * 2
    assert (R.shape, R.dtype, R.format, R.fill, R.ndim) == ((3, 3), np.float64, ow.CSR, 0, 2)
    result = R.statement.compile()(P=A0)
    np.testing.assert_array_equal(result.to_numpy(), 2 * A0)
    assert str(R.statement.loops)
    with pytest.raises(ow.ShapeError, match="E203: R cannot be computed: P is a placeholder"):
        R.to_numpy()
    assert "not computed" in repr(R)
    assert R._repr_svg_() is None


def test_a_placeholder_may_be_computed() -> None:
    y, A = ow.placeholder("y", 1), ow.tensor(A0, format=ow.CSR, name="A")
    y[i] = A[i, j]
    np.testing.assert_array_equal(y.to_numpy(), A0.sum(1))
    assert y.shape == (3,)


def test_what_operands_hold_at_the_first_reading_counts() -> None:
    values = X0.copy()
    x, y = ow.tensor(values, name="x"), ow.empty(3, name="y")
    y[i] = 2 * x[i]
    values[:] = 5
    assert y.to_numpy().tolist() == [10, 10, 10]
    values[:] = 7
    assert y.to_numpy().tolist() == [10, 10, 10]


def test_nothing_of_the_users_is_written_to() -> None:
    memory = X0.copy()
    y, x = ow.tensor(memory, name="y"), ow.tensor(X0, name="x")
    y[i] += x[i]
    assert y.to_numpy().tolist() == (2 * X0).tolist()
    assert memory.tolist() == X0.tolist()


def test_the_newest_assignment_counts() -> None:
    x, y = ow.tensor(X0, name="x"), ow.empty(3, name="y")
    y[i] = 2 * x[i]
    y[i] = 3 * x[i]
    np.testing.assert_array_equal(y.to_numpy(), 3 * X0)
    y[i] = 5 * x[i]
    np.testing.assert_array_equal(y.to_numpy(), 5 * X0)


@pytest.mark.parametrize("format", [ow.dense(1), ow.CSF(1)], ids=repr)
def test_accumulations_add_to_what_was_assigned(format: Any) -> None:
    x, y = ow.tensor(X0, name="x"), ow.tensor(np.ones(3), format=format, name="y")
    y[i] += x[i]
    np.testing.assert_array_equal(y.to_numpy(), 1 + X0)
    y[i] = 2 * x[i]
    y[i] += 10 * x[i]
    y[i] += 100 * x[i]
    np.testing.assert_array_equal(y.to_numpy(), 112 * X0)
    y[i] += x[i]
    np.testing.assert_array_equal(y.to_numpy(), 113 * X0)


@pytest.mark.parametrize("format", [ow.dense(1), ow.CSF(1)], ids=repr)
def test_the_kernel_of_a_recorded_statement_runs_in_its_place(format: Any) -> None:
    x, y = ow.tensor(X0, name="x"), ow.empty(3, format=format, name="y")
    y[i] = 2 * x[i]
    y[i] += 10 * x[i]
    kernel = y.statement.compile()
    for _ in range(3):
        np.testing.assert_array_equal(kernel().to_numpy(), 12 * X0)
    np.testing.assert_array_equal(kernel(out=y).to_numpy(), 12 * X0)
    np.testing.assert_array_equal(y.to_numpy(), 12 * X0)
    np.testing.assert_array_equal(kernel(out=y).to_numpy(), 22 * X0)  # it has run, and adds again
    np.testing.assert_array_equal(y.to_numpy(), 22 * X0)


def test_what_was_read_is_what_is_added_to() -> None:
    x, y = ow.tensor(X0, name="x"), ow.empty(3, name="y")
    y[i] += 10 * x[i]
    kernel = y.statement.compile()
    np.testing.assert_array_equal(y.to_numpy(), 10 * X0)
    np.testing.assert_array_equal(kernel().to_numpy(), 20 * X0)
    y.to_numpy()[:] = 0
    np.testing.assert_array_equal(kernel(out=y).to_numpy(), 10 * X0)


@pytest.mark.parametrize("format", [ow.dense(1), ow.CSF(1)], ids=repr)
def test_other_kernels_write_over_a_record_or_add_to_it(format: Any) -> None:
    x, y = ow.tensor(X0, name="x"), ow.empty(3, format=format, name="y")
    y[i] = 2 * x[i]
    ow.assign(y[i], 7 * x[i]).compile()(out=y)
    np.testing.assert_array_equal(y.to_numpy(), 7 * X0)
    assert str(y.statement) == "y(i) = 2 * x(i)"
    y[i] = 2 * x[i]
    ow.assign(y[i], 7 * x[i], ow.ADD).compile()(out=y)
    np.testing.assert_array_equal(y.to_numpy(), 9 * X0)


def test_out_is_written_in_place() -> None:
    memory = np.zeros(3)
    x, y = ow.tensor(X0, name="x"), ow.tensor(memory, name="y")
    y[i] = 2 * x[i]
    y.statement.compile()(out=y)
    np.testing.assert_array_equal(memory, 2 * X0)


def test_chains() -> None:
    """Longer than Python may recurse."""
    tensors = [ow.tensor(X0, name="x0")]
    for n in range(1, 300):
        tensors.append(ow.empty(3, name=f"x{n % 2}"))
        tensors[-1][i] = tensors[-2][i] + 1
    np.testing.assert_array_equal(tensors[-1].to_numpy(), X0 + 299)


def test_a_diamond_is_no_cycle() -> None:
    x, a, b, c = (ow.tensor(X0, name=n) for n in "xabc")
    a[i] = 2 * x[i]
    b[i] = a[i] + x[i]
    c[i] = a[i] * b[i]
    np.testing.assert_array_equal(c.to_numpy(), 6 * X0**2)


def test_cycles() -> None:
    a, b, c = (ow.empty(3, name=n) for n in "abc")
    a[i] = b[i] + 1
    b[i] = c[i] + 1
    c[i] = a[i] + 1
    for tensor in (a, b, c):
        with pytest.raises(ow.ParseError, match=r"E107: .* depend on each other"):
            tensor.to_numpy()
    c[i] = ow.cast("float64", i)
    assert a.to_numpy().tolist() == [2, 3, 4]


def test_a_statement_that_reads_its_own_result() -> None:
    y = ow.tensor(X0, name="y")
    y[i] = y[j] * y[i]
    with pytest.raises(ow.ParseError, match="E107"):
        y.to_numpy()


def test_errors_surface_when_read() -> None:
    x, y = ow.tensor(np.ones(4), name="x"), ow.empty(3, name="y")
    y[i] = x[i]
    for _ in range(2):
        with pytest.raises(ow.ShapeError, match="E201"):
            y.to_numpy()
    assert "E201" in repr(y)


def test_warm_kernels_see_new_records() -> None:
    x, y, z = (ow.tensor(X0, name=n) for n in "xyz")
    kernel = ow.assign(z[i], 2 * y[i]).compile()
    for factor in (1, 2, 3):
        y[i] = factor * x[i]
        for _ in range(3):
            np.testing.assert_array_equal(kernel().to_numpy(), 2 * factor * X0)


def test_threads_read_at_once() -> None:
    x, y = ow.tensor(X0, name="x"), ow.tensor(X0, name="y")
    y[i] += x[i]
    y[i] += x[i]
    seen: list[Any] = []
    threads = [threading.Thread(target=lambda: seen.append(y.to_numpy())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8
    for array in seen:
        np.testing.assert_array_equal(array, 3 * X0)


def test_on_the_emulated_device() -> None:
    x, y = ow.tensor(X0, name="x"), ow.empty(3, name="y")
    y[i] = 2 * x[i]
    y[i] += 10 * x[i]
    kernel = y.statement.compile("cuda-emulated")
    np.testing.assert_array_equal(kernel().to_numpy(), 12 * X0)
    np.testing.assert_array_equal(kernel(out=y).to_numpy(), 12 * X0)
    np.testing.assert_array_equal(kernel(out=y).to_numpy(), 22 * X0)
    np.testing.assert_array_equal(y.to_numpy(), 22 * X0)
