"""A schedule that is written for CSR applies to BSR and CSB: modes in blocks may be named."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import openwork as ow

pytestmark = pytest.mark.needs_cc

rng = np.random.default_rng(11)
MATRIX = rng.random((31, 22)) * (rng.random((31, 22)) < 0.2)
VECTOR, COLUMNS = rng.random(22), rng.random((22, 6))
FORMATS = {"CSR": ow.CSR, "BSR": ow.BSR(3, 2), "CSB": ow.CSB(4, 4)}

SPMV = [
    "parallelize(i,CPUThread,NoRaces)",
    "split(i,i0,i1,12), parallelize(i0,CPUThread,NoRaces)",
    "split(i,i0,i1,12), order(i0,i1,j)",
    "divide(i,i0,i1,4), parallelize(i0,CPUThread,NoRaces)",
    "divide(i,i0,i1,4,balance=nnz), parallelize(i0,CPUThread,NoRaces)",
    "fuse(i,j,f), pos(f,p,A), split(p,p0,p1,4), parallelize(p0,CPUThread,Atomics)",
    "pos(j,p,A), split(p,p0,p1,2)",
    "pos(j,p,A), fuse(i,p,f)",
    "order(i,j)",
    "unroll(j)",
    "bound(i,ix,36,MaxConstraint)",
    "prefetch(x(j),j,4)",
    "precompute(A(i,j)*x(j),i,i)",
    "parallelize(j,CPUVector,ParallelReduction)",
]
SPMM = [
    "order(i,j,k)",
    "order(i,k,j)",
    "order(k,i)",
    "order(i,j,k), split(i,i0,i1,12), parallelize(i0,CPUThread,NoRaces), "
    "parallelize(k,CPUVector,NoRaces)",
    "split(k,k0,k1,4), order(i,k0,j,k1)",
    "precompute(A(i,j)*D(j,k),k,kw)",
    "order(i,j,k), fuse(i,j,f), pos(f,p,A), split(p,p0,p1,7), parallelize(p0,CPUThread,Atomics)",
    "prefetch(D(j,k),j,4)",
]


def spmv(format: str) -> ow.Statement:
    A = ow.tensor(MATRIX, format=FORMATS[format])
    return ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(31), A=A, x=ow.tensor(VECTOR))


def spmm(format: str) -> ow.Statement:
    A = ow.tensor(MATRIX, format=FORMATS[format])
    return ow.parse("C(i,k) = A(i,j) * D(j,k)", C=ow.empty((31, 6)), A=A, D=ow.tensor(COLUMNS))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("text", SPMV)
def test_a_vector(text: str, format: str) -> None:
    scheduled = spmv(format).schedule(text)
    np.testing.assert_allclose(scheduled.compile()().to_numpy(), MATRIX @ VECTOR)
    assert spmv(format).schedule(scheduled.commands).commands == scheduled.commands


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("text", SPMM)
def test_columns(text: str, format: str) -> None:
    made = spmm(format).schedule(text).compile()().to_numpy()
    np.testing.assert_allclose(made, MATRIX @ COLUMNS)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("parallelize(i,CPUThread,NoRaces)", "parallelize(ib,CPUThread,NoRaces)"),
        ("split(i,i0,i1,12)", "split(ib,i0,i1,4)"),
        ("bound(i,ix,36,MaxConstraint)", "bound(ib,ix,12,MaxConstraint)"),
        ("unroll(j)", "unroll(jj)"),
        ("parallelize(j,CPUVector,Atomics)", "parallelize(jj,CPUVector,Atomics)"),
        ("fuse(i,j,f)", "fuse(ib,jb,f)"),
        ("order(i,j)", "order(ib,jb,ii,jj)"),
        ("precompute(A(i,j)*x(j),i,i)", "precompute(A(ib,ii,jb,jj)*x(jb,jj),[ib,ii],[ib,ii])"),
    ],
)  # fmt: skip
def test_which_loops_are_meant(text: str, same: str) -> None:
    assert str(spmv("BSR").schedule(text).loops) == str(spmv("BSR").schedule(same).loops)


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("split(i,i0,i1,5)", "E303", "5 values of i are not whole blocks of 3"),
        ("bound(i,ix,31,MaxExact)", "E303", "31 values of i are not whole blocks of 3"),
        ("split(i,j,b,3)", "E302", "j is already a variable of the statement"),
        ("split(i,a,b,6), split(i,c,d,6)", "E301", "there is no loop over ib"),
        ("precompute(A(i,j)*x(j),j,jw)", "E309", "changes with ii"),
    ],
)
def test_what_has_no_meaning_is_refused(text: str, code: str, message: str) -> None:
    with pytest.raises(ow.ScheduleError, match=message) as caught:
        spmv("BSR").schedule(text)
    assert caught.value.code == code


@pytest.mark.parametrize("target", ["cpu", "cuda-emulated"])
def test_blocks_times_a_dense_matrix_are_traversed_as_they_are(target: str) -> None:
    """A place of a level has all of the dense levels below it, which make no row longer."""
    rng = np.random.default_rng(0)
    blocks = sp.random_array((900, 900), density=0.005, format="csr", rng=0).tobsr((3, 3))
    A = ow.tensor(blocks, format=ow.BSR(3, 3), name="A")
    X = ow.tensor(rng.random((900, 8)), name="X")
    Y = ow.empty((900, 8), name="Y")
    kernel = ow.parse("Y(i,k) = A(i,j) * X(j,k)", Y=Y, A=A, X=X).compile(target=target)
    assert "converted" not in kernel.explain()
    assert "R_sums24[24]" in kernel.source or "R_sums24[24 /" in kernel.source
    np.testing.assert_allclose(kernel().to_numpy(), blocks @ X.to_numpy())


def test_sums_of_large_blocks_stay_in_memory() -> None:
    blocks = sp.random_array((60, 60), density=0.1, format="csr", rng=0).tobsr((20, 20))
    A, x = ow.tensor(blocks, format=ow.BSR(20, 20), name="A"), ow.tensor(np.ones(60), name="x")
    kernel = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(60, name="y"), A=A, x=x).compile()
    assert "R_sums" not in kernel.source
    np.testing.assert_allclose(kernel().to_numpy(), blocks @ np.ones(60))
