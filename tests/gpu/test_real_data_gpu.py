"""All recipes on all real matrices and tensors, against SciPy and NumPy.

On a GPU, if there is one; without it the smallest of them, under the emulator.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.gpu.batch import Batch
from tests.recipes.recipe_table import SPMM, SPMV

import openwork as ow
from openwork import recipes as r

try:
    import cupy

    ON_GPU = cupy.cuda.runtime.getDeviceCount() > 0
except Exception:
    ON_GPU = False

pytestmark = [pytest.mark.needs_cc, pytest.mark.needs_data]
TARGET = "cuda" if ON_GPU else "cuda-emulated"
MOST_PRODUCTS = 60_000_000  # of a product of matrices
SMALL = ("karate.mtx.gz",)
Check = tuple[str, ow.Statement, Any]


def _files(ending: str) -> list[str]:
    named = os.environ.get("OPENWORK_DATA")
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    found = sorted(p.name for p in (Path(named) if named else beside).glob(f"*{ending}"))
    return found if ON_GPU else [name for name in found if name in SMALL]


def tensor(value: Any, name: str) -> ow.Tensor:
    """On the GPU, if there is one."""
    made = ow.tensor(value, name=name)
    return made.to("cuda") if ON_GPU else made


def close(made: Any, expected: Any, bound: Any) -> bool:
    """Whether two results are alike; `bound`: sums of what was added up, without signs."""
    return bool((abs(made - expected) <= 1e-12 * (bound + 1e-30)).all())


def of_matrix(A: Any) -> Iterator[Check]:
    """Statements of dense results, with recipes, and what they are to be."""
    rng = np.random.default_rng(0)
    a, dtype = tensor(A, "A"), A.dtype
    x = rng.standard_normal(A.shape[1]).astype(dtype)
    y = ow.empty((A.shape[0],), dtype=dtype, name="y")
    spmv = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=a, x=tensor(x, "x"))
    for recipe, apply in SPMV.items():
        yield recipe, apply(spmv), (A @ x, abs(A) @ abs(x))
    for columns in (4, 32):
        B = rng.standard_normal((A.shape[1], columns)).astype(dtype)
        C = ow.empty((A.shape[0], columns), dtype=dtype, name="C")
        spmm = ow.parse("C(i,k) = A(i,j) * B(j,k)", C=C, A=a, B=tensor(B, "B"))
        want = A @ B, abs(A) @ abs(B)
        for recipe, apply in SPMM.items():
            yield f"{recipe} {columns}", apply(spmm), want
        if columns == 4:
            yield "staged 4", r.spmm_staged(spmm, 2, 4), want


def of_pattern(A: Any) -> Iterator[Check]:
    """Statements of sparse results, and what they are to be."""
    rng = np.random.default_rng(1)
    a, dtype = tensor(A, "A"), A.dtype
    P, Q = (rng.standard_normal((n, 16)).astype(dtype) for n in A.shape)
    D = ow.empty(A.shape, format=ow.CSR, dtype=dtype, name="D")
    text = "D(i,k) = A(i,k) * P(i,j) * Q(k,j)"
    row, column = A.tocoo().coords
    sddmm = ow.parse(text, D=D, A=a, P=tensor(P, "P"), Q=tensor(Q, "Q"))
    want = sp.csr_array((A.data * (P[row] * Q[column]).sum(axis=1), A.indices, A.indptr), A.shape)
    yield "default sddmm", sddmm, want
    yield "sddmm", r.sddmm(sddmm), want
    T = A.T.tocsr()
    T.sort_indices()
    square = A.shape[0] == A.shape[1]
    F = T if square else sp.csr_array(A[::-1])
    F.sort_indices()
    f, C = tensor(F, "F"), ow.empty(A.shape, format=ow.CSR, dtype=dtype, name="C")
    yield "sum", ow.parse("C(i,j) = A(i,j) + F(i,j)", A=a, F=f, C=C), A + F
    yield "times", ow.parse("C(i,j) = A(i,j) * F(i,j)", A=a, F=f, C=C), A.multiply(F)
    for name, B in (("A A", A), ("A A^T", T)):
        if A.shape[1] != B.shape[0] or np.diff(B.indptr)[A.indices].sum() > MOST_PRODUCTS:
            continue
        shape = (A.shape[0], B.shape[1])
        G = ow.empty(shape, format=ow.CSR, dtype=dtype, name="G")
        stmt = ow.parse("G(i,k) = A(i,j) * B(j,k)", A=a, B=tensor(B, "B"), G=G)
        yield name, stmt, A @ B


def of_tensor(X: ow.Tensor) -> Iterator[Check]:
    """MTTKRP of any order, and for three modes TTV and TTM; what they are to be."""
    rng = np.random.default_rng(2)
    coords, values = X.to_coo()
    x, order = X.to("cuda") if ON_GPU else X, len(X.shape)
    modes, factors = "ijklm"[:order], {}
    terms, size = values[:, None], abs(values)[:, None]
    for n, mode in enumerate(modes[1:], 1):
        F = rng.standard_normal((X.shape[n], 8))
        terms, size = terms * F[coords[n]], size * abs(F[coords[n]])
        factors[f"F{mode}"] = tensor(F, f"F{mode}")
    product = " * ".join(f"F{mode}({mode},r)" for mode in modes[1:])
    M = ow.empty((X.shape[0], 8), name="M")
    stmt = ow.parse(f"M(i,r) = X({','.join(modes)}) * {product}", M=M, X=x, **factors)
    want = summed(coords[:1], terms, M.shape), summed(coords[:1], size, M.shape)
    yield "default mttkrp", stmt, want
    yield "mttkrp", r.spmm_positions(stmt), want
    v = rng.standard_normal(X.shape[-1])
    small = tuple(int(c.max()) + 1 for c in coords[:2])
    if order != 3 or small[0] * small[1] > 20_000_000:
        return
    V = ow.empty(X.shape[:2], name="V")
    ttv = ow.parse("V(i,j) = X(i,j,k) * v(k)", V=V, X=x, v=tensor(v, "v"))
    terms = values * v[coords[2]]
    want = summed(coords[:2], terms, V.shape), summed(coords[:2], abs(terms), V.shape)
    for recipe in (r.position_split, r.position_segments, r.position_staged):
        yield recipe.__name__, recipe(ttv), want


def summed(coords: Any, terms: Any, shape: tuple[int, ...]) -> Any:
    """An array of zeros to which terms are added, at coordinates."""
    made = np.zeros(shape, terms.dtype)
    np.add.at(made, tuple(coords), terms)
    return made


def run(checks: Iterator[Check]) -> None:
    """Compile all of them, together where that is quicker; then each is to be right."""
    batch, waiting = Batch(), []
    for name, stmt, expected in checks:
        if ON_GPU:
            waiting.append((name, stmt.compile(TARGET), expected))
            continue
        kernel = stmt.compile(TARGET, loader=batch)
        batch.expect(kernel._launcher.compiled)
        waiting.append((name, kernel, expected))
    for name, kernel, expected in waiting:
        made = kernel()
        if isinstance(expected, tuple):
            assert close(made.to_numpy(), *expected), name
            continue
        result = made.to("cpu").to_scipy() if ON_GPU else made.to_scipy()
        assert result.has_sorted_indices, name
        scale = abs(expected).max() if expected.nnz else 0
        difference = abs(result - expected)
        assert (difference.max() if difference.nnz else 0) <= 1e-12 * scale, name


def read(data_dir: Path, name: str) -> ow.Tensor:
    A = ow.read(data_dir / name, name="A")
    return A.astype("complex128" if A.dtype.kind == "c" else "float64")


@pytest.mark.parametrize("name", _files(".mtx.gz"))
def test_dense_results_of_matrices(data_dir: Path, name: str) -> None:
    run(of_matrix(sp.csr_array(read(data_dir, name).to(ow.CSR).to_scipy())))


@pytest.mark.parametrize("name", _files(".mtx.gz"))
def test_sparse_results_of_matrices(data_dir: Path, name: str) -> None:
    run(of_pattern(sp.csr_array(read(data_dir, name).to(ow.CSR).to_scipy())))


@pytest.mark.parametrize("name", _files(".tns.gz"))
def test_tensors(data_dir: Path, name: str) -> None:
    X = read(data_dir, name)
    run(of_tensor(X.to(ow.CSF(len(X.shape)))))


def test_a_small_tensor() -> None:
    """What the tensors of files are asked, for the emulator."""
    rng = np.random.default_rng(3)
    for shape in ((6, 5, 4), (5, 4, 3, 3, 2)):
        coords = np.stack([rng.integers(0, n, 40) for n in shape])
        X = ow.tensor((coords, rng.random(40)), shape=shape, format=ow.CSF(len(shape)), name="X")
        run(of_tensor(X))
