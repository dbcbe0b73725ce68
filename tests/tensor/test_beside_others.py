"""Tensors beside SciPy's matrices and NumPy's arrays: operators of theirs, and functions."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import linalg
from tests.choices import in_pairs

import openwork as ow

RNG = np.random.default_rng(3)


def numbers(*shape: int) -> Any:
    return np.where(RNG.random(shape) < 0.6, RNG.integers(1, 4, shape), 0).astype(float)


S0, A0 = numbers(4, 4), numbers(4, 4)
A0[1] = S0[1]  # some entries are equal
KINDS = [f"{kind}_{what}" for kind in ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")
         for what in ("array", "matrix")]  # fmt: skip
COMPARISONS = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
OPERATORS = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "truediv", "matmul")},
    **{name: getattr(operator, name) for name in ("iadd", "isub", "imul", "itruediv")},
    **COMPARISONS,
}
METHODS = ("multiply", "dot", "maximum", "minimum")
FORMATS = {"dense": ow.dense(2), "CSR": ow.CSR}


def plain(result: Any) -> Any:
    """What a result holds, whoever it is of."""
    if isinstance(result, ow.Tensor):
        return result.to_numpy()
    return result.toarray() if sparse.issparse(result) else np.asarray(result)


def attempt(call: Any, *args: Any) -> Any:
    """The result, or the exception that is raised instead."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return call(*args)
        except (TypeError, ValueError, NotImplementedError, ow.UserError) as error:
            return error


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", KINDS)
def test_scipys_operators_and_methods(kind: str, format: str) -> None:
    """They give what SciPy gives with a matrix of its own, or raise."""
    make = lambda array: getattr(sparse, kind)(array.copy())  # noqa: E731
    mine, theirs = ow.tensor(A0, format=FORMATS[format]), sparse.csr_array(A0)
    calls = {**OPERATORS, **{m: lambda S, A, m=m: getattr(S, m)(A) for m in METHODS}}
    for name, call in calls.items():
        result = attempt(call, make(S0), mine)
        assert not isinstance(result, bool), (name, result)
        assert result is not NotImplemented, name
        if isinstance(result, Exception):
            assert str(result), name
            continue
        expected = attempt(call, make(S0), theirs if format == "CSR" else A0)
        if isinstance(expected, Exception) or name in ("truediv", "itruediv"):
            expected = attempt(call, S0.copy(), A0)
        # An absent entry is a structural zero, which nothing divides.
        found = plain(result)
        where = S0 != 0 if "div" in name else np.ones_like(S0, dtype=bool)
        np.testing.assert_array_equal(found[where], plain(expected)[where], err_msg=name)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_works_with_a_scipy_matrix_on_the_left(kind: str, format: str) -> None:
    S, A = getattr(sparse, kind)(S0), ow.tensor(A0, format=FORMATS[format])
    np.testing.assert_array_equal(plain(S + A), S0 + A0)
    np.testing.assert_array_equal(plain(S - A), S0 - A0)
    if not A.format.is_dense:
        for call in (operator.matmul, operator.mul):
            with pytest.raises(TypeError, match="to_scipy"):
                call(S, A)
        return
    np.testing.assert_array_equal(plain(S @ A), S0 @ A0)
    product = S0 @ A0 if kind.endswith("matrix") else S0 * A0
    np.testing.assert_array_equal(plain(S * A), product)
    np.testing.assert_array_equal(plain(S.multiply(A)), S0 * A0)
    np.testing.assert_array_equal(plain(S.dot(A)), S0 @ A0)
    for name, call in COMPARISONS.items():
        np.testing.assert_array_equal(plain(call(S, A)), call(S0, A0), err_msg=name)
    np.testing.assert_array_equal(plain(S @ ow.tensor(A0[0])), S0 @ A0[0])


@pytest.mark.parametrize("kind", ["csr_array", "csc_matrix", "dok_matrix"])
def test_tensors_on_the_left(kind: str) -> None:
    S = getattr(sparse, kind)(S0)
    for format in FORMATS.values():
        A = ow.tensor(A0, format=format)
        for name in ("add", "sub", "mul", "matmul", *COMPARISONS):
            call = getattr(operator, name)
            result = call(A, S)
            assert isinstance(result, ow.Tensor)
            np.testing.assert_array_equal(result.to_numpy(), call(A0, S0), err_msg=name)


def test_sums_of_matrices_and_tensors() -> None:
    S, A = sparse.csr_array(S0), ow.tensor(A0, format=ow.CSR)
    for order in ([S, A], [A, S], [A, A]):
        expected = sum(map(plain, order))
        np.testing.assert_array_equal(plain(sum(order)), expected)


# NumPy


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "matmul", *COMPARISONS])
def test_arrays_on_either_side(name: str, format: str) -> None:
    call, A, D0 = getattr(operator, name), ow.tensor(A0, format=FORMATS[format]), A0 + 1
    for result, expected in (
        (call(D0, A + 1), call(D0, A0 + 1)),
        (call(A, D0), call(A0, D0)),
        (call(D0[0], A + 1), call(D0[0], A0 + 1)),
    ):
        assert isinstance(result, ow.Tensor)
        np.testing.assert_array_equal(result.to_numpy(), expected)


def test_functions_of_numpy() -> None:
    x, A = ow.tensor(A0), ow.tensor(A0, format=ow.CSR)
    np.testing.assert_array_equal(x, A0)
    np.testing.assert_allclose(x, A0)
    assert np.array_equal(x, A0)
    assert np.linalg.norm(x) == np.linalg.norm(A0)
    assert np.sqrt(np.asarray(x)).shape == (4, 4)
    assert np.shares_memory(np.asarray(x), x.to_numpy())
    assert not np.shares_memory(np.array(x), x.to_numpy())
    assert np.asarray(x, dtype="float32").dtype == np.float32
    for call in (np.asarray, np.median, np.linalg.inv):
        with pytest.raises(TypeError, match=r"sparse|ufunc"):
            call(A)
    for equal in (np.array_equal, np.array_equiv):
        assert equal(x, A0)
        assert not equal(x, A0 + 1)
        assert equal(A0, A) and not equal(A0 + 1, A)
    assert np.shape(A) == np.shape(x) == (4, 4)
    np.testing.assert_array_equal(np.concatenate([x, A0]), np.concatenate([A0, A0]))
    np.testing.assert_array_equal(np.dot(A0, x), A0 @ A0)
    np.testing.assert_array_equal(np.where(np.asarray(x) > 1, x, 0), np.where(A0 > 1, A0, 0))
    for ufunc in (np.add, np.multiply, np.equal, np.matmul):
        for tensor in (x, A):
            np.testing.assert_array_equal(ufunc(A0, tensor).to_numpy(), ufunc(A0, A0))


# SciPy's solvers


def positive() -> Any:
    return sparse.csr_array(S0 @ S0.T + 9 * np.eye(4))


def test_solvers_take_and_get_tensors() -> None:
    S, b = positive(), np.array([1.0, 2.0, 3.0, 4.0])
    expected = np.linalg.solve(S.toarray(), b)
    A, B = ow.tensor(S), ow.tensor(b)
    products = linalg.LinearOperator(S.shape, matvec=lambda v: A @ v, dtype=float)
    for solver in (linalg.cg, linalg.gmres, linalg.bicgstab, linalg.minres):
        for matrix, right in ((S, B), (products, b), (products, B)):
            found, problem = solver(matrix, right, rtol=1e-10)
            assert problem == 0
            np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(linalg.spsolve(S.tocsc(), B), expected)
    np.testing.assert_allclose(linalg.splu(S.tocsc()).solve(np.asarray(B)), expected)
    largest = linalg.eigsh(products, k=1, return_eigenvectors=False, v0=b)
    np.testing.assert_allclose(largest, np.linalg.eigvalsh(S.toarray())[-1:])
    np.testing.assert_allclose(linalg.svds(products_of(A), k=1)[1], largest)
    np.testing.assert_allclose(linalg.expm_multiply(0.01 * S, B), linalg.expm_multiply(0.01 * S, b))


def products_of(A: ow.Tensor) -> Any:
    return linalg.LinearOperator(
        A.shape, matvec=lambda v: A @ v, rmatvec=lambda v: A.T @ v, matmat=lambda V: A @ V
    )


def test_scipys_constructors_take_dense_tensors() -> None:
    x = ow.tensor(A0)
    for kind in KINDS:
        np.testing.assert_array_equal(getattr(sparse, kind)(np.asarray(x)).toarray(), A0)
    np.testing.assert_array_equal(sparse.csr_array(x).toarray(), A0)
    values = ow.tensor(np.array([1.0, 2.0]))
    made = sparse.csr_array((values, (np.array([0, 1]), np.array([1, 0]))), shape=(2, 2))
    assert made.toarray().tolist() == [[0, 1], [2, 0]]


# Comparing


COMPARED = {"CSR": ow.CSR, "COO": ow.COO(2), "BSR": ow.BSR(3, 3), "dense": ow.dense(2)}
WITH = {"matrix": S0, "0": 0, "2.0": 2.0, "float32": np.float32(1), "row": A0[0], "-1": -1}


@pytest.mark.parametrize(
    ("name", "format", "other", "swapped"),
    in_pairs(list(COMPARISONS), list(COMPARED), list(WITH), [False, True]),
)
def test_comparisons_are_numpys(name: str, format: str, other: str, swapped: bool) -> None:
    A, theirs = ow.tensor(A0, format=COMPARED[format]), WITH[other]
    mine = ow.tensor(S0, format=ow.CSR) if other == "matrix" else theirs
    mines, both = (A, mine), (A0, theirs)
    if swapped:
        mines, both = mines[::-1], both[::-1]
    result, expected = COMPARISONS[name](*mines), COMPARISONS[name](*both)
    assert isinstance(result, ow.Tensor)
    assert result.dtype == bool
    np.testing.assert_array_equal(result.to_numpy(), expected)


def test_comparisons_stay_sparse_where_absent_entries_compare_false() -> None:
    A, B = ow.tensor(A0, format=ow.CSR), ow.tensor(S0, format=ow.CSR)
    for result in (A != 0, A > 0, A < 0, A > 1, A != B, A < B, A == 2):
        assert result.format == ow.CSR
    for result in (A == 0, A >= 0, A == B, A < 1, A <= B):
        assert result.format.is_dense
    inf = ow.tensor(np.where(A0 == 0, np.inf, A0), format=ow.CSR, fill=np.inf)
    np.testing.assert_array_equal((inf == np.inf).to_numpy(), A0 == 0)
    np.testing.assert_array_equal((inf > 1).to_numpy(), (A0 == 0) | (A0 > 1))


def test_comparing_with_numbers_that_the_elements_cannot_be() -> None:
    x0 = np.array([0, 1, 255], dtype=np.uint8)
    for name, call in COMPARISONS.items():
        for value in (-1, 256, 300, 1.5, 2**40):
            np.testing.assert_array_equal(
                call(ow.tensor(x0), value).to_numpy(), call(x0, value), err_msg=f"{name} {value}"
            )


@pytest.mark.parametrize("signed", ["int64", "int8"])
def test_signed_integers_beside_unsigned_ones(signed: str) -> None:
    """No type holds both; as floats, neighbours beyond 2**53 would be equal."""
    far = np.iinfo(signed)
    s0 = np.array([far.max, far.max - 1, 5, 0, -1, far.min, 100], dtype=signed)
    u0 = np.array([2**63, 2**63 - 2, 5, 0, 2**64 - 1, 2**63, 127], dtype="uint64")
    s, u, r = ow.tensor(s0, name="s"), ow.tensor(u0, name="u"), ow.empty(7, dtype=bool, name="r")
    (i,) = ow.indices("i")
    for name, call in COMPARISONS.items():
        np.testing.assert_array_equal(call(s, u).to_numpy(), call(s0, u0), err_msg=name)
        np.testing.assert_array_equal(call(u, s).to_numpy(), call(u0, s0), err_msg=name)
        for value in (2**63, 2**64 - 1, -1, 2**53 + 1):
            for mine, its in ((s, s0), (u, u0)):
                np.testing.assert_array_equal(call(mine, value).to_numpy(), call(its, value))
        kernel = ow.assign(r[i], getattr(ow, name)(s[i], u[i])).compile("cuda-emulated")
        np.testing.assert_array_equal(kernel().to_numpy(), call(s0, u0))
    with pytest.raises(ow.ParseError, match="E112"):
        _ = s < 2**64


def test_what_cannot_be_compared() -> None:
    A = ow.tensor(A0, format=ow.CSR)
    assert (A == None) is False  # noqa: E711
    assert (A != "text") is True
    with pytest.raises(TypeError):
        _ = A < "text"
    with pytest.raises(ow.ShapeError, match="E204"):
        _ = np.ones(3) == A
    with pytest.raises(ow.ParseError, match=r"(?s)no truth value.*equals"):
        bool(A == A)
    assert ow.tensor(1.0) == 1.0  # a scalar has a truth value


def test_tensors_are_told_apart_by_identity() -> None:
    A, B = ow.tensor(A0, format=ow.CSR), ow.tensor(A0, format=ow.CSR)
    assert len({A, B, A}) == 2
    assert {A: 1, B: 2}[A] == 1
    assert A in [A, B]


def test_tensors_as_a_whole() -> None:
    for left in FORMATS.values():
        A = ow.tensor(A0, format=left)
        for other in (A, A0, sparse.csr_array(A0), A0.tolist(), A0.astype("float32")):
            assert A.equals(other) is True
        assert A.equals(ow.tensor(A0, format=ow.BSR(3, 3)))
        assert not A.equals(ow.tensor(S0, format=ow.BSR(3, 3)))
        changed = A0.copy()
        changed[0, 0] += 1
        for other in (changed, A0[:3], A0[0], A0.T, 3.0):
            assert A.equals(other) is False
    with pytest.raises(ow.FormatError, match="E405"):
        ow.tensor(A0).equals("text")


def test_fills_count_when_tensors_are_compared() -> None:
    full, some = np.full((2, 2), 7.0), np.array([[7.0, 1.0], [7.0, 7.0]])
    seven = ow.tensor(full, format=ow.CSR, fill=7)
    assert seven.nnz == 0
    assert seven.equals(full)
    assert seven.equals(ow.tensor(full, format=ow.CSR))
    assert not seven.equals(ow.empty((2, 2), format=ow.CSR))
    assert ow.tensor(some, format=ow.CSR, fill=7).equals(some)
    assert not ow.tensor(some, format=ow.CSR, fill=7).equals(full)
    stored = ow.tensor(([[0], [1]], [0.0]), shape=(2, 2), format=ow.CSR)
    assert stored.equals(np.zeros((2, 2)))
    assert not ow.tensor([np.nan]).equals([np.nan])
    assert ow.tensor(np.zeros((0, 3))).equals(ow.empty((0, 3), format=ow.CSR))
