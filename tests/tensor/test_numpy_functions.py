"""What NumPy's users type, each line on a tensor and on the array: the same values and types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openwork as ow

D = np.array([[0.0, 3, 0, 1], [4, 0, 5, 0], [0, 0, 0, 2]])
F = np.array([[np.inf, 3, np.inf, 1], [4, np.inf, 5, np.inf], [np.inf, np.inf, np.inf, 2]])
N = np.array([[np.nan, 3, 0, 1], [4, 0, -5, np.inf], [0, -0.0, np.nan, 2]])
x, y = np.arange(4.0), np.arange(3.0)

# Each line holds for a tensor and for the array that it was made of: D without a name is A.
LINES = """
A[2, 3]
A[0:2, ::2]
A[[2, 1, 1]]
A[A > 2]
A[None]
A[..., 1]
A[-1]
A[A[:, 3] > 0]
A[np.ix_([0, 1], [1, 3])]
np.isnan(A)
np.isinf(A)
np.isfinite(A)
np.cumsum(A, axis=0)
np.cumsum(A)
np.cumprod(A, 1)
np.cumulative_sum(A, axis=0)
np.linalg.norm(A)
np.linalg.norm(A, 1)
np.linalg.norm(A, np.inf)
np.linalg.norm(A, axis=1)
np.linalg.norm(A, 3, axis=0)
np.linalg.norm(A, axis=(0, 1), keepdims=True)
np.linalg.vector_norm(A, axis=1)
np.linalg.matrix_norm(A)
np.linalg.matrix_power(A[:, :3], 5)
np.linalg.matrix_power(A[:, :3], 0)
np.linalg.multi_dot([A, A.T, A])
np.allclose(A, D)
np.isclose(A, D + 1e-9)
np.array_equal(A, D)
np.where(A > 2, A, 0)
np.where(A > 2)[0]
np.where(A > 2, A, D)
np.clip(A, 1, 3)
A.clip(0, 3)
A.clip(max=2)
np.unique(A)
np.unique(A, return_counts=True)[1]
np.unique_values(A)
np.nonzero(A)[0]
np.argwhere(A)
np.flatnonzero(A)
np.count_nonzero(A)
np.count_nonzero(A, axis=0)
A.argmax()
np.argmax(A, 1)
np.stack([row for row in A])
np.ptp(A, axis=1)
np.average(A, axis=0)
np.average(A, axis=1, weights=x)
np.nansum(A)
np.nanmax(A, axis=0)
np.nanmean(A, axis=0)
np.sort(A)
np.sort(A, axis=0)
np.sort(A, axis=None)
np.argsort(A, kind="stable")
A.argsort(0, kind="stable")
np.partition(A, 1)[:, 0]
np.diff(A)
np.diff(A, n=2, axis=0)
np.repeat(A, 2, axis=0)
np.repeat(A, 2)
np.vdot(A, A)
np.inner(A, A)
np.broadcast_to(A, (2, 3, 4))
np.atleast_3d(A)
np.column_stack([A, y])
np.dstack([A, A])
np.split(A, [1])[1]
np.array_split(A, 3, axis=1)[2]
np.unstack(A)[1]
np.zeros_like(A)
np.ones_like(A)
np.full_like(A, 7)
np.rot90(A)
np.rot90(A, 3)
np.fliplr(A)
np.append(A, A, axis=0)
np.delete(A, 1, axis=0)
np.insert(A, 1, y, axis=1)
np.pad(A, 1)
np.pad(A, ((0, 1), (2, 0)), constant_values=9)
np.isin(A, [3, 4])
np.isin(A, [0, 4], invert=True)
np.round(A / 3, 1)
A.round()
np.sign(-A)
np.reciprocal(A + 1)
np.logaddexp(A, A)
np.float_power(A, 2)
np.fabs(-A)
np.nan_to_num(A)
np.divmod(A, 2)[0]
divmod(A, 2)[1]
np.modf(A / 2)[0]
np.deg2rad(A)
np.add.reduce(A)
np.add.accumulate(A)
np.multiply.outer(y, A)
np.add.outer(A, y)
np.multiply(A, A, where=True)
np.add(A, A, dtype="f4")
np.sum(A, axis=0, initial=1)
np.select([A > 3, A > 1], [A, 7], 0)
np.diagflat(A[0])
np.astype(A, np.float32)
np.matrix_transpose(A)
np.linalg.trace(A)
np.linalg.diagonal(A)
A.count_nonzero() if hasattr(A, "count_nonzero") else np.count_nonzero(A)
A.tolist()
3 in A
9 in A
np.shape(A)
np.size(A)
np.diff(A > 2, axis=0)
np.clip(a=A, a_min=1, a_max=3)
np.reshape(A, shape=(4, 3), order="F")
np.ravel(A, order="F")
np.einsum("ij,kj->ik", A, A, dtype=np.float32, optimize=True)
np.stack(arrays=[A, A], axis=1, dtype=None)
np.swapaxes(A, axis1=0, axis2=1)
np.isin(element=A, test_elements=[1, 3])
np.zeros_like(A, order="F")
np.square(A > 2)
np.reciprocal(A > 2)
np.matvec(A, x)
np.vecmat(y, A)
np.eye(3, 4, like=A)
np.zeros((2, 3), like=A)
np.full((2, 2), 7, like=A)
np.array([1, 2], like=A)
np.arange(3, like=A)
A[0].transpose(0)
np.pad(A[0, 0], 1)
A.take([1, 2], axis=1)
A.repeat(2, 0)
A.cumsum(1)
"""
OF_TRUTH = """
np.tril(A)
np.triu(A, 1)
np.diff(A)
"""
OF_INFINITY = """
A + 1
A * 2
A - A[:1]
np.minimum(A, A + 1)
A.min(axis=0)
A.sum()
A @ x
A[0]
-A
np.vstack([A, A])
np.exp(-A)
A == np.inf
A.reshape(4, 3)
np.where(A < 4, A, np.inf)
np.nonzero(A)[0]
A.clip(0, 4)
1 / A
A.argmin(axis=1)
np.sort(A)
np.unique(A)
np.pad(A, 1, constant_values=np.inf)
np.pad(A, 1)
np.isinf(A)
np.cumsum(A, 1)
np.linalg.norm(1 / A)
np.tril(A)
np.triu(A, 1)
"""
OF_NANS = """
np.pad(A, 1, constant_values=np.nan)
np.isnan(A)
np.isfinite(A)
np.isinf(A)
np.nansum(A)
np.nanprod(A, axis=1)
np.nanmin(A, axis=1)
np.nanmean(A, axis=1)
np.nancumsum(A, axis=1)
np.nancumprod(A, axis=0)
np.nanargmin(A, axis=1)
np.nanargmax(A)
np.nan_to_num(A)
np.nan_to_num(A, nan=1.0, posinf=2.0)
np.sort(A)
np.unique(A)
np.isclose(A, A, equal_nan=True)
np.array_equal(A, A)
np.array_equal(A, A, equal_nan=True)
np.signbit(A[1])
"""


def value(line: str, names: dict[str, Any]) -> Any:
    return eval(line, names)  # noqa: S307  (a line of this file)


def cases() -> list[Any]:
    tables = ((D, LINES, 0), (F, OF_INFINITY, np.inf), (N, OF_NANS, 0), (D == 0, OF_TRUTH, True))
    return [
        pytest.param(array, line, fill, id=line)
        for array, lines, fill in tables
        for line in lines.strip().splitlines()
    ]


@pytest.mark.parametrize(("array", "line", "fill"), cases())
@pytest.mark.filterwarnings("ignore")
def test_a_line(array: Any, line: str, fill: float) -> None:
    names = {"np": np, "D": D, "x": x, "y": y}
    A = ow.tensor(array, format="CSR", fill=fill, name="A")
    expected = value(line, {**names, "A": array})
    made = value(line, {**names, "A": A})
    if isinstance(made, ow.Tensor):
        made = made.to_numpy()
    np.testing.assert_allclose(made, expected, rtol=1e-14)
    assert np.asarray(made).dtype == np.asarray(expected).dtype


SPARSE = """
np.sort(A)
A.round()
np.pad(A, 1)
np.repeat(A, 2, 0)
np.diff(A)
np.split(A, 3)[1]
np.sign(A)
np.zeros_like(A)
np.broadcast_to(A, (2, 3, 4))
np.where(A > 2, A, 0)
A > 2
np.linalg.matrix_power(A[:, :3], 3)
np.nan_to_num(A)
np.isnan(A)
np.insert(A, 1, A[1], 0)
np.multiply.outer(A, A)
""".strip().splitlines()


@pytest.mark.parametrize("line", SPARSE)
def test_sparse_tensors_stay_sparse(line: str) -> None:
    A = ow.tensor(D, format="CSR")
    made = value(line, {"np": np, "A": A})
    assert not made.format.is_dense
    assert made.prune().nnz == np.sum(made.to_numpy() != made.fill)
    assert made.nnz < made.size


@pytest.mark.parametrize(
    ("line", "error", "said"),
    [
        ("np.median(A)", TypeError, r"numpy.median has no form for sparse tensors; A.to_numpy\(\)"),
        ("A.indptr", AttributeError, r"write A.to_scipy\(share=True\).indptr"),
        ("A.tocsr()", AttributeError, r"write A.to\('CSR'\)"),
        ("A.setdiag", AttributeError, r"write A \+ ow.diag"),
        ("A.nothing", AttributeError, r"a Tensor has no attribute 'nothing'$"),
        ("np.fmax(A, 0)", ow.ParseError, "E112: np.fmax is not an operator of sparse tensors"),
        ("np.sum(A, where=D > 0)", ow.ParseError, r"E112: sum of a tensor has no where="),
        ("np.linalg.norm(A, 2)", ow.ParseError, r"E112: the matrix norm 2 needs"),
        ("np.linalg.matrix_power(A[:, :3], -1)", ow.ParseError, "E112: a sparse matrix has no"),
        ("np.pad(A, 1, mode='edge')", ow.ParseError, "E112: pad has no mode 'edge'"),
        ("np.take(A, [0], out=D)", ow.ParseError, "E112: numpy.take of tensors has no out="),
        ("np.mean(A, where=D > 0)", ow.ParseError, "E112: numpy.mean of tensors has no where="),
        ("np.add(A, A, where=D > 0)", ow.ParseError, "E112: np.add of tensors has no where="),
        ("np.where(A > 0, A, 'a')", TypeError, "where chooses between tensors and numbers"),
        ("np.fill_diagonal(A, 1)", TypeError, "numpy.fill_diagonal has no form for tensors"),
        ("np.fromiter([1], int, like=A)", TypeError, "numpy.fromiter makes no tensors"),
        ("np.split(A, 2)", ow.ShapeError, "E204: 3 cannot be cut into 2 equal parts"),
        ("np.broadcast_to(A, (3, 5))", ow.ShapeError, "E204: A of shape"),
    ],
)
def test_errors_say_what_to_write(line: str, error: Any, said: str) -> None:
    with pytest.raises(error, match=said) as caught:
        value(line, {"np": np, "A": ow.tensor(D, format="CSR", name="A"), "D": D})
    assert not isinstance(caught.value, ow.OpenworkError) or caught.value.hint


def test_a_namespace() -> None:
    A = ow.tensor(D, format="CSR")
    xp = A.__array_namespace__(api_version="2023.12")
    assert float(xp.sum(xp.square(A))) == (D * D).sum()
    assert xp.isdtype(A.dtype, "real floating") and A.to_device("cpu") is A
    with pytest.raises(ValueError, match=r"2001.12"):
        A.__array_namespace__(api_version="2001.12")


@pytest.mark.parametrize("format", ["CSR", "dense(2)"])
def test_what_is_no_number_is_left_out(format: str) -> None:
    S = np.array([[0.0, np.nan, 3.0], [0.0, 0.0, 5.0], [np.nan, 2.0, 0.0]])
    A = ow.tensor(S).to(format)
    for function in (np.nansum, np.nanmean, np.nanvar, np.nanstd):
        for axis in (None, 0, 1):
            np.testing.assert_allclose(function(A, axis).to_numpy(), function(S, axis))
        assert function(A, axis=0, dtype=np.float32).dtype == np.float32
        assert function(A, axis=0, keepdims=True).shape == (1, 3)
    np.testing.assert_allclose(np.nanvar(A, ddof=1).to_numpy(), np.nanvar(S, ddof=1))


@pytest.mark.parametrize("format", ["CSR", "CSC", "dense(2)"])
def test_one_element_and_axes_by_name(format: str) -> None:
    S = np.arange(6.0).reshape(2, 3)
    A = ow.tensor(S).to(format)
    assert A.item(4) == A.item(1, 1) == A.item((1, 1)) == 4.0 and A.T.item(1) == 3.0
    np.testing.assert_array_equal(np.transpose(A, axes=(1, 0)).to_numpy(), S.T)
    with pytest.raises(ow.ShapeError):
        A.item()
