"""A user's script with the usual calls, whose types `make check` checks, too."""

# ruff: noqa: F841  # variables are there for their types

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse as sp

import openwork as ow


def test_usual_calls(tmp_path: Path) -> None:

    matrix = sp.csr_array(np.eye(4))
    A: ow.Tensor = ow.tensor(matrix, name="A")
    x = ow.tensor(np.ones(4), name="x")
    i, j = ow.indices("i j")
    y: ow.Tensor = A @ x
    array: npt.NDArray[np.float64] = y.to_numpy()
    z: ow.Tensor = ow.sqrt(A)
    w: ow.Tensor = ow.maximum(A, 0.5)
    root = ow.sqrt(A).to_numpy()
    both: ow.Tensor = A + 2 * A - A / 3
    neg: ow.Tensor = -A
    compared: ow.Tensor = A > 0
    B = A.T @ A
    total: float = float(A.sum())
    element: ow.Tensor = A[0, 1]
    row = A[0].to_numpy()
    stmt = ow.parse("y(i) = A(i,j) * x(j)", A=A, x=x)
    kernel = stmt.split("i", "i0", "i1", 2).parallelize("i0", "CPUThread", "NoRaces").compile()
    result: ow.Tensor = kernel()
    again: ow.Tensor = kernel(x=np.ones(4))
    told = (kernel.source, kernel.explain(), stmt.loops)
    out = ow.empty(4, name="out")
    out[i] = A[i, j] * x[j] + ow.sqrt(x[i])
    statement = ow.assign(out[i], ow.sum(j, A[i, j]) + ow.max(j, A[i, j]))
    computed: ow.Tensor = statement.compile()()
    C: ow.Tensor = ow.einsum("ij,jk->ik", A, B)
    D: ow.Tensor = ow.compute("d(i) = A(i,j) * x(j)", A=A, x=x, semiring="min_plus")
    M: ow.Tensor = ow.masked("C(i,k) = A(i,j) * A(j,k)", A, A=A)
    S = A.to_scipy().toarray()
    values = A.to_coo()[1]
    csc: ow.Tensor = A.to(ow.CSC).astype("float32")
    fmt: ow.Format = ow.Format([ow.Dense, ow.Compressed], order=(1, 0))
    P = ow.placeholder("P", order=2, format=ow.CSR, dtype="float32")
    shape: tuple[int, ...] = A.shape
    n: int = A.nnz
    ow.write(tmp_path / "a.mtx", A)
    read: ow.Tensor = ow.read(tmp_path / "a.mtx")
    summed = A.sum(axis=0).to_numpy().tolist()
    stacked: ow.Tensor = ow.vstack([A, A])
    solved: ow.Tensor = ow.solve_triangular(ow.tril(A), np.ones(4))
    either = ow.operator("either", lambda a, b: a + b - a * b, identity=0, associative=True)
    E = ow.assign(out[i], either(x[i], out[i]))
    far = ow.full((2, 2), np.inf, format="csr")
    plan = kernel.symbolic()
    values2: ow.Tensor = plan(A=A)
    sums = [line.sum().item() for line in A]
    facts = (abs(A).nnz, len(A), A.equals(B), ow.cast("float32", A).dtype == np.float32)
    selected: ow.Tensor = ow.select(A > 0, A, 0)
    copy = A.copy().rename("copy")
    powers: ow.Tensor = ow.pow(A, 2)
    assert facts == (4, 4, True, True) and all(told)
    assert (total, sums, n, shape, values.sum()) == (4.0, [1.0] * 4, 4, (4, 4), 4.0)
    for vector in (y, result, again, values2, solved):
        np.testing.assert_array_equal(vector.to_numpy(), np.ones(4))
    for diagonal in (z, C, M, read, selected, powers):
        np.testing.assert_array_equal(diagonal.to_numpy(), np.eye(4))
