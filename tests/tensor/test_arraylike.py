"""A tensor where NumPy and SciPy expect an array or a matrix of their own."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import linalg

import openwork as ow
from openwork.tensor.eager import KERNELS

RNG = np.random.default_rng(3)
N = 40
S0 = sparse.random_array((N, N), density=0.1, rng=RNG, format="csr")
SPD = sparse.csr_array(S0 @ S0.T + 4 * sparse.eye_array(N))
FORMATS = (ow.CSR, ow.CSC, ow.dense(2))


# SciPy's protocol


@pytest.mark.parametrize("format", FORMATS, ids=repr)
def test_solvers_take_tensors(format: Any) -> None:
    A, b = ow.tensor(SPD, format="CSR").to(format), RNG.random(N)
    for solver in (linalg.cg, linalg.gmres, linalg.minres, linalg.bicgstab, linalg.qmr):
        found, problem = solver(A, b, rtol=1e-10)
        assert problem == 0
        np.testing.assert_allclose(found, linalg.spsolve(SPD.tocsc(), b), rtol=1e-6)
    products = linalg.aslinearoperator(A)
    assert products.shape == (N, N)
    assert products.dtype == np.float64
    values = np.linalg.eigvalsh(SPD.toarray())
    found = linalg.eigsh(A, k=3, return_eigenvectors=False)
    np.testing.assert_allclose(np.sort(found), values[-3:], rtol=1e-6)
    X = RNG.random((N, 2))
    assert isinstance(A(X), np.ndarray)  # or each step makes tensors of its blocks
    found, _ = linalg.lobpcg(A, X, tol=1e-9, maxiter=400)
    np.testing.assert_allclose(np.sort(found), values[-2:], rtol=1e-5)
    v = RNG.random(N)
    found = linalg.expm_multiply(0.1 * products, v, traceA=0.1 * float(A.trace()))
    np.testing.assert_allclose(found, linalg.expm_multiply(0.1 * SPD, v))


@pytest.mark.parametrize("complex", [False, True])
def test_products_by_name(complex: bool) -> None:
    S = S0[:30] * (1 + 2j) if complex else S0[:30]
    x, y = RNG.random(N), RNG.random(30)
    if complex:
        x, y = x + 1j, y - 2j
    for format in (ow.CSR, ow.CSC, ow.COO(2)):
        A = ow.tensor(S).to(format)
        for _ in range(3):  # the third call repeats the second
            np.testing.assert_allclose(A.matvec(x), S @ x)
            np.testing.assert_allclose(A.rmatvec(y), S.conj().T @ y)
            column, block = x[:, None], np.stack([x, -x], 1)
            np.testing.assert_allclose(A.matvec(column), S @ column)
            np.testing.assert_allclose(A.matmat(block), S @ block)
            x, y = x + 1, y + 1
        np.testing.assert_allclose(A.matmat(S.toarray().T), (S @ S.T).toarray())
        np.testing.assert_allclose(A.rmatmat(S.toarray()), (S.conj().T @ S).toarray())
        np.testing.assert_allclose(A.adjoint().to_numpy(), S.conj().T.toarray())
        np.testing.assert_allclose(A.H.to_numpy(), S.conj().T.toarray())
        assert isinstance(A.matvec(x), np.ndarray)
        assert A.dot(x).equals(A @ x)
        assert A.dot(2).equals(2 * A)
    u, s, _ = linalg.svds(A, k=2)
    assert u.shape == (30, 2)
    np.testing.assert_allclose(np.sort(s), np.linalg.svd(S.toarray())[1][1::-1], rtol=1e-6)


def test_a_solver_as_in_a_textbook() -> None:
    A, b = ow.tensor(SPD), ow.tensor(RNG.random(N))
    x, r = ow.empty(N), b - A @ ow.empty(N)
    p, rs = r, r @ r
    for _ in range(200):
        Ap = A @ p
        alpha = rs / (p @ Ap)
        x, r = x + alpha * p, r - alpha * Ap
        new = r @ r
        if np.sqrt(new) < 1e-10:
            break
        p, rs = r + (new / rs) * p, new
    np.testing.assert_allclose(x.to_numpy(), linalg.spsolve(SPD.tocsc(), b.to_numpy()))


# Repeated products with other operands


def test_other_vectors_take_their_own_place() -> None:
    A, x = ow.tensor(S0, name="A"), ow.tensor(RNG.random(N), name="x")
    y = ow.empty(N, name="y")
    i, j = ow.indices("i j")
    kernel = ow.assign(y[i], A[i, j] * x[j]).compile()
    x0 = x.to_numpy().copy()
    for turn in range(4):
        v = RNG.random(N)
        np.testing.assert_allclose(kernel(x=v).to_numpy(), S0 @ v)
        np.testing.assert_allclose(kernel(x=ow.tensor(v)).to_numpy(), S0 @ v)
        np.testing.assert_allclose(kernel().to_numpy(), S0 @ x0)  # the statement's own again
        strange = (v[::-1], v.astype("float32"), v.astype(">f8"), list(v), np.arange(N))
        for w in strange:
            np.testing.assert_allclose(kernel(x=w).to_numpy(), S0 @ np.asarray(w), rtol=1e-6)
        unaligned = np.frombuffer(b"0" + v.tobytes(), np.uint8)[1:].view(float)
        np.testing.assert_allclose(kernel(x=unaligned).to_numpy(), S0 @ v)
        fixed = v.copy()
        fixed.flags.writeable = False
        np.testing.assert_allclose(kernel(x=fixed).to_numpy(), S0 @ v)
        np.testing.assert_allclose(kernel(A=S0[:7], x=v).to_numpy(), S0[:7] @ v)
        with pytest.raises(ow.ShapeError, match="E201"):
            kernel(x=v[:-1])
        with pytest.raises(ow.ShapeError, match="E203"):
            kernel(z=v)
        if turn == 2:
            A = None  # type: ignore[assignment]  # the statement holds its operand


def test_other_matrices_after_other_vectors() -> None:
    A = ow.tensor(S0)
    for m in (N, 7, N):
        for _ in range(3):
            v, V = RNG.random(N), RNG.random((N, 3))
            np.testing.assert_allclose((A[:m] @ v).to_numpy(), S0[:m] @ v)
            np.testing.assert_allclose((A[:m] @ V).to_numpy(), S0[:m] @ V)
            np.testing.assert_allclose((A.T @ v).to_numpy(), S0.T @ v)
        KERNELS.clear()  # what is forgotten is found again
    with pytest.raises(ow.ShapeError, match="E204"):
        _ = A @ v[:-1]


def test_truth_values_of_other_vectors_are_still_checked() -> None:
    A, x = ow.tensor(S0 != 0, name="A"), ow.tensor(np.ones(N, bool), name="x")
    y, (i, j) = ow.empty(N, dtype=bool, name="y"), ow.indices("i j")
    kernel = ow.assign(y[i], ow.any(j, A[i, j] & x[j])).compile()
    sevens = np.full(N, 7, np.uint8).view(bool)
    for _ in range(3):
        found = kernel(x=sevens).to_numpy()
        assert found.view(np.uint8).max() <= 1
        np.testing.assert_array_equal(found, (S0 != 0).sum(1) > 0)


# NumPy's functions


@pytest.mark.parametrize("format", FORMATS, ids=repr)
def test_universal_functions(format: Any) -> None:
    array = np.round(S0.toarray() * 9)
    A = ow.tensor(array, format=ow.CSR).to(format)
    for ufunc in (np.sqrt, np.exp, np.sin, np.negative, np.abs, np.floor, np.square, np.positive):
        np.testing.assert_allclose(ufunc(A).to_numpy(), ufunc(array), err_msg=ufunc.__name__)
    for ufunc in (np.add, np.subtract, np.multiply, np.maximum, np.equal, np.greater, np.matmul):
        for left, right in ((A, A), (A, array), (array, A)):
            found = ufunc(left, right)
            assert isinstance(found, ow.Tensor)
            np.testing.assert_allclose(found.to_numpy(), ufunc(array, array))
    assert np.sqrt(A).format == A.format
    assert (np.float64(2) * A).format == A.format
    y = np.ones((N, N))
    y += A
    np.testing.assert_array_equal(y, 1 + array)


def test_what_numpy_has_and_we_have_not() -> None:
    array = np.array([[0.5, 0.0], [0.0, -0.5]])
    np.testing.assert_allclose(np.exp2(ow.tensor(array)).to_numpy(), np.exp2(array))
    np.testing.assert_allclose(np.fmax(ow.tensor(array), 0.25).to_numpy(), np.fmax(array, 0.25))
    with pytest.raises(ow.ParseError, match=r"(?s)E112: np.fmax.*sqrt"):
        np.fmax(ow.tensor(array, format=ow.CSR), 0)
    with pytest.raises(TypeError):
        np.subtract.accumulate(ow.tensor(array))
    with pytest.raises(ow.ParseError):
        np.add(ow.tensor(array), 1, where=array > 0)


def test_facts_of_arrays() -> None:
    A = ow.tensor(S0)
    assert A.size == N * N
    assert A.nbytes == S0.data.nbytes + (S0.nnz + N + 1) * 4
    C = ow.tensor(S0 * (1 + 2j))
    for name in ("real", "imag"):
        np.testing.assert_allclose(getattr(C, name).to_numpy(), getattr(C.to_numpy(), name))
    np.testing.assert_allclose(C.conj().to_numpy(), C.to_numpy().conj())
    assert A.copy().equals(A)


# Shapes


@pytest.mark.parametrize("format", [*FORMATS, ow.COO(2), ow.BSR(2, 3)], ids=repr)
def test_shapes(format: Any) -> None:
    array = S0.toarray()[:12, :10]
    A = ow.tensor(array, format=ow.CSR).to(format)
    pairs = {
        "reshape": (A.reshape(5, -1), array.reshape(5, -1)),
        "three": (A.reshape(2, 6, 10), array.reshape(2, 6, 10)),
        "ravel": (A.ravel(), array.ravel()),
        "flatten": (A.flatten(), array.flatten()),
        "squeeze": (A.reshape(12, 1, 10).squeeze(), array),
        "one": (A.reshape(1, 120, 1).squeeze(0), array.reshape(120, 1)),
        "swapaxes": (A.swapaxes(0, 1), array.T),
        "transpose": (A.transpose(1, 0), array.T),
        "mT": (A.mT, array.T),
        "clip": (A.clip(0.2, 0.6), array.clip(0.2, 0.6)),
        "trace": (A.trace(1), array.trace(1)),
        **{f"diagonal {k}": (A.diagonal(k), array.diagonal(k)) for k in (-20, -3, 0, 4, 11)},
    }
    for name, (found, expected) in pairs.items():
        assert found.shape == np.shape(expected), name
        np.testing.assert_allclose(found.to_numpy(), expected, err_msg=name)
        kept = name not in ("clip", "trace")
        assert not kept or found.format.is_dense == A.format.is_dense, name
    for mine, theirs in zip(A.nonzero(), array.nonzero(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for wrong in ((7, -1), (-1, -1), (3,), (-2, 5)):
        with pytest.raises(ow.ShapeError, match="E204"):
            A.reshape(wrong)
    with pytest.raises(ow.ShapeError, match="E205"):
        A.reshape("ab", 1)
    with pytest.raises(ow.ShapeError, match="cannot lose"):
        A.squeeze(0)


def test_pruning() -> None:
    A = ow.tensor(([[0, 0, 1], [0, 1, 1]], [0.0, 1e-9, 2.0]), shape=(2, 2), format=ow.CSR)
    assert A.nnz == 3
    assert A.prune().nnz == 2
    assert A.prune(tol=1e-6).nnz == 1
    assert A.prune().equals(A)
    nans = ow.tensor([[np.nan, 1.0]], format=ow.CSR, fill=np.nan)
    assert nans.prune().nnz == 1
    assert operator.is_(ow.tensor([1.0]).prune().format.is_dense, True)


def test_other_operands_with_index_arrays_are_bound_anew() -> None:
    """A permuted vector stores every element, but where each lies is an array of its own."""
    n = 7
    x = ow.tensor(np.arange(1.0, n + 1), name="x")
    kernel = ow.parse(
        "s = A(i) * x(i)",
        s=ow.empty((), name="s"),
        A=ow.placeholder("A", 1, format=ow.Format([ow.Permuted(n)])),
        x=x,
    ).compile()
    rng = np.random.default_rng(0)
    for _ in range(20):
        values = rng.permutation(n).astype(float)
        kept = rng.permutation(n).astype("int32")
        arrays = {"kept": kept, "rank": np.argsort(kept).astype("int32")}
        A = ow.from_arrays(ow.Format([ow.Permuted(n)]), (n,), [arrays], values, name="A")
        expected = A.to_numpy() @ x.to_numpy()
        assert kernel(A=A, x=x).to_numpy() == expected


@pytest.mark.parametrize("layout", ["AoS", "packed"])
def test_vectors_beside_any_layout_take_their_own_place(layout: str) -> None:
    matrix = np.diag([1.0, 2.0, 3.0])
    A = ow.tensor(matrix, format=ow.CSR.with_layout(layout), name="A")
    x = ow.tensor(np.ones(3), name="x")
    kernel = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(3), A=A, x=x).compile()
    for n in range(5):
        other = np.arange(3.0) + n
        np.testing.assert_array_equal(kernel(x=other).to_numpy(), matrix @ other)
        B = ow.tensor(matrix * n, format=ow.CSR.with_layout(layout), name="A")
        np.testing.assert_array_equal(kernel(A=B, x=other).to_numpy(), n * matrix @ other)


def test_what_libraries_ask_of_an_array() -> None:
    A = ow.tensor(S0, name="A")
    # dask takes the arguments of a function, which begin with an array, for a call.
    assert A(0, np.dtype("float64")) == (A, 0, np.dtype("float64"))
    with pytest.raises(ow.ParseError, match="E112: A is not called"):
        A(0, 1)
    # It tries structured types, and has another way where these raise a TypeError.
    with pytest.raises(TypeError, match="E402: Openwork has no element type"):
        np.zeros_like(A, dtype=[("value", "f8"), ("place", "i8")])
    total = A.sum()
    single: Any = total[()]
    assert (single.shape, single.ndim) == ((), 0) and np.asarray(single) == total.item()
    assert np.asarray(single, dtype="float32").dtype == np.float32
    x = ow.tensor(np.zeros(3))
    x[1:] = single
    np.testing.assert_array_equal(x.to_numpy(), [0, total.item(), total.item()])
    assert repr(2 * single) == f"2 * {total.name}"
