"""Functions of NumPy on records: what they give for complex numbers, records of them give, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse import linalg

import openwork as ow

entry = ow.entry
pytestmark = pytest.mark.needs_cc
Q = entry.quaternion("float32")
COORDS = np.array([[0, 0, 1, 3], [0, 2, 1, 2]])
NUMBERS = np.array([1 - 2j, 3j, -1 + 0j, 1 + 0j])


def as_complex(made: Any) -> Any:
    """What a function returned, with NumPy's complex numbers in place of records."""
    if not isinstance(made, ow.Tensor):
        return np.asarray(made)
    return (made.astype("complex128") if made.dtype == entry.complex() else made).to_numpy()


FUNCTIONS: dict[str, Callable[[ow.Tensor], Any]] = {
    "count_nonzero": np.count_nonzero,
    "count_nonzero along a mode": lambda A: ow.count_nonzero(A, 0),
    "nonzero": lambda A: np.stack(A.nonzero()),
    "any": lambda A: A.any(1),
    "all": lambda A: A.all(),
    "equal to a number": lambda A: A == 1,
    "not equal to a number": lambda A: A != -1,
    "cumsum": lambda A: A.cumsum(0),
    "cumulative_sum": lambda A: np.cumulative_sum(A, axis=1, include_initial=True),
    "diag": lambda A: ow.diag(A[0]),
    "ones_like": np.ones_like,
    "full_like": lambda A: np.full_like(A, 3),
    "isclose": lambda A: ow.isclose(A, A * 1.000001),
    "allclose": lambda A: np.allclose(A, A + A),
    "isnan": ow.isnan,
    "isfinite": ow.isfinite,
}


@pytest.mark.parametrize("format", ["CSR", ow.dense(2)], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_complex_numbers(name: str, format: Any) -> None:
    plain = ow.tensor((COORDS, NUMBERS), shape=(4, 3), format=format)
    made, wanted = FUNCTIONS[name](plain.astype(entry.complex())), FUNCTIONS[name](plain)
    np.testing.assert_allclose(as_complex(made), as_complex(wanted))


def test_ones_are_neutral_factors() -> None:
    A = ow.tensor(np.arange(8.0).reshape(2, 4), dtype=Q)
    B = ow.tensor(np.arange(16.0).reshape(2, 2, 2, 2), dtype=entry.block(2, 2))
    for given, one in ((A, ow.ones(2, Q)), (B, ow.eye(2, dtype=B.dtype)), (A, ow.eye(2, dtype=Q))):
        assert (one * given if one.order == 1 else one @ given).equals(given)
    assert ow.full(2, 3, Q).to_numpy().tolist() == [[3, 0, 0, 0]] * 2
    assert ow.full(2, [1, 2, 3, 4], Q).to_numpy().tolist() == [[1, 2, 3, 4]] * 2
    with pytest.raises(ow.FormatError, match=r"1 is no vector 3"):
        ow.ones(2, entry.vector(3))


def test_zero_is_what_the_type_says() -> None:
    """Of a type with another zero than its numbers' zero, and of one without a one."""
    path = entry.define(
        "path", ["length"], zero=(np.inf,), one=(0,), mul=lambda a, b: a.length + b.length,
        add=lambda a, b: ow.minimum(a.length, b.length),
    )  # fmt: skip
    P = ow.tensor(np.array([[np.inf], [0.0], [2.0]]), dtype=path)
    assert (P == 0).to_numpy().tolist() == [True, False, False]
    assert (P != 0).to_numpy().tolist() == [False, True, True]
    assert (P == 1).to_numpy().tolist() == [False, True, False]
    v = ow.tensor(np.array([[0.0, 0], [0, 1]]), dtype=entry.vector(2))
    assert (v != 0).to_numpy().tolist() == [False, True]
    assert not (v == 1).to_numpy().any()
    assert ow.allclose(P, P)
    y = ow.empty(2, dtype="bool")
    for target in ("cpu", "cuda-emulated"):
        kernel = ow.parse("y(i) = v(i) != 0", y=y, v=v).compile(target=target)
        assert kernel().to_numpy().tolist() == [False, True]


def test_what_has_no_order_is_refused() -> None:
    A = ow.tensor((COORDS, np.ones((4, 4))), shape=(4, 3), dtype=Q, format=ow.CSR)
    for function in (ow.sort, ow.argsort, ow.unique_values, np.cumprod):
        with pytest.raises(ow.ParseError, match="E108"):
            function(A)


def test_blocks_are_scipys_in_every_precision() -> None:
    matrix = np.kron(np.array([[1, 0], [2, 3]]), np.array([[1, 2j], [3, 4]]))
    complex_blocks = entry.block(2, 2, entry.complex("float32"))
    A = ow.tensor(sp.bsr_array(matrix, blocksize=(2, 2)), dtype=complex_blocks)
    assert A.nnz == 3
    back = A.to_scipy()
    assert (back.format, back.dtype, back.blocksize) == ("bsr", np.complex64, (2, 2))
    np.testing.assert_array_equal(back.toarray(), matrix)
    blocks = matrix.reshape(2, 2, 2, 2).swapaxes(1, 2)
    np.testing.assert_array_equal(ow.tensor(blocks, dtype=complex_blocks).to_numpy(), A.to_numpy())
    half = ow.tensor(sp.bsr_array(matrix.real, blocksize=(4, 1)), dtype=entry.vector(4, "float16"))
    assert half.to_scipy().dtype == np.float32
    np.testing.assert_array_equal(half.to_scipy().toarray(), matrix.real)


@pytest.mark.parametrize("kind", [entry.vector(3), entry.vector(2, entry.dual("float16"))], ids=str)
def test_matrices_of_vectors_come_back_from_their_expansion(kind: Any) -> None:
    A = ow.tensor((COORDS, np.ones((4, *kind.shape))), shape=(4, 3), dtype=kind, format=ow.CSR)
    assert kind.contract(A.expand()).equals(A)


@pytest.mark.parametrize("target", ["cpu", "cuda-emulated"])
def test_a_number_in_place_of_a_record(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENWORK_CHECK", "1")
    A = ow.tensor((COORDS, np.ones((4, 4))), shape=(4, 3), dtype=Q, format=ow.CSR, name="A")
    M, R = ow.tensor(A.to_numpy()[..., 0] < 1, name="M"), ow.empty((4, 3), dtype=Q, name="R")
    made = ow.parse("R(i,j) = select(M(i,j), 2, A(i,j))", R=R, M=M, A=A).compile(target=target)()
    wanted = np.where(M.to_numpy()[..., None], [2.0, 0, 0, 0], A.to_numpy())
    np.testing.assert_array_equal(made.to_numpy(), wanted)
    np.testing.assert_array_equal(ow.where(M, 2, A).to_numpy(), wanted)
    np.testing.assert_array_equal(ow.where(M, 0, A).to_numpy(), A.to_numpy())
    v = ow.tensor(np.ones((3, 2)), dtype=entry.vector(2))
    assert ow.where(np.array([True, False, True]), v, 0).to_numpy().sum() == 4
    with pytest.raises(ow.OpenworkError, match="1 is no vector 2"):
        ow.where(np.array([True, False, True]), v, 1)


def test_solvers_of_scipy_take_complex_records() -> None:
    """As linear operators they multiply NumPy's complex vectors."""
    rng = np.random.default_rng(0)
    matrix = np.diag([3.0, 4, 5, 6]) + 0.3j * rng.standard_normal((4, 4))
    A, b = ow.tensor(matrix, "CSR", dtype=entry.complex()), rng.standard_normal(4) + 1j
    operator = linalg.aslinearoperator(A)
    np.testing.assert_allclose(operator.matvec(b), matrix @ b)
    np.testing.assert_allclose(operator.rmatvec(b), matrix.conj().T @ b)
    np.testing.assert_allclose(operator.matmat(np.stack([b, b], 1))[:, 1], matrix @ b)
    x, failed = linalg.gmres(A, b, rtol=1e-12)
    assert not failed
    np.testing.assert_allclose(matrix @ x, b)
