"""Golden kernels: the C of the statements that matter most, and what it computes.

`make golden` rewrites the files. Each kernel is compiled as users compile it, called, and compared
with NumPy and with the reference evaluator.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import openwork as ow
from openwork.tensor.exchange.validate import validate

pytestmark = [pytest.mark.needs_cc, pytest.mark.optimized]

Array = np.ndarray[Any, Any]
VECTOR, MATRIX = ow.dense(1), ow.dense(2)
m, n, k, r, wide = 6, 7, 5, 4, 19  # extents that differ, so that none can be taken for another


class Golden(NamedTuple):
    """A statement, how its tensors are stored, and what it computes."""

    text: str
    result: tuple[tuple[int, ...], ow.Format]
    operands: dict[str, tuple[tuple[int, ...], ow.Format]]
    expected: Callable[..., Array]
    dtype: str = "float64"
    semiring: str | None = None
    schedule: str = ""


def einsum(subscripts: str) -> Callable[..., Array]:
    return lambda *arrays: np.einsum(subscripts, *arrays)


GOLDEN = {
    "csr_spmv": Golden(
        "y(i) = A(i,j) * x(j)",
        ((m,), VECTOR),
        {"A": ((m, n), ow.CSR), "x": ((n,), VECTOR)},
        einsum("ij,j->i"),
    ),
    "csc_spmv": Golden(
        "y(i) = A(i,j) * x(j)",
        ((m,), VECTOR),
        {"A": ((m, n), ow.CSC), "x": ((n,), VECTOR)},
        einsum("ij,j->i"),
    ),
    "bsr_spmv": Golden(  # the sums of a block's rows stay in registers
        "y(i) = A(i,j) * x(j)",
        ((9,), VECTOR),
        {"A": ((9, 6), ow.BSR(3, 3)), "x": ((6,), VECTOR)},
        einsum("ij,j->i"),
    ),
    "bsr_spmm": Golden(  # ... and those of a tile of columns, here of blocks that the edge cuts
        "Y(i,k) = A(i,j) * X(j,k)",
        ((8, wide), MATRIX),
        {"A": ((8, n), ow.BSR(3, 2)), "X": ((n, wide), MATRIX)},
        einsum("ij,jk->ik"),
    ),
    "dense_matvec": Golden(
        "y(i) = A(i,j) * x(j)",
        ((m,), VECTOR),
        {"A": ((m, n), MATRIX), "x": ((n,), VECTOR)},
        einsum("ij,j->i"),
    ),
    "csr_spmm": Golden(
        "Y(i,k) = A(i,j) * X(j,k)",
        ((m, k), MATRIX),
        {"A": ((m, n), ow.CSR), "X": ((n, k), MATRIX)},
        einsum("ij,jk->ik"),
    ),
    "csr_sddmm": Golden(
        "Y(i,j) = A(i,j) * B(i,k) * C(j,k)",
        ((m, n), ow.CSR),
        {"A": ((m, n), ow.CSR), "B": ((m, k), MATRIX), "C": ((n, k), MATRIX)},
        einsum("ij,ik,jk->ij"),
    ),
    "csr_add": Golden(
        "C(i,j) = A(i,j) + B(i,j)",
        ((m, n), ow.CSR),
        {"A": ((m, n), ow.CSR), "B": ((m, n), ow.CSR)},
        lambda A, B: A + B,
    ),
    "csr_times": Golden(
        "C(i,j) = A(i,j) * B(i,j)",
        ((m, n), ow.CSR),
        {"A": ((m, n), ow.CSR), "B": ((m, n), ow.CSR)},
        lambda A, B: A * B,
    ),
    "dcsr_times": Golden(
        "C(i,j) = A(i,j) * B(i,j)",
        ((m, n), ow.DCSR),
        {"A": ((m, n), ow.DCSR), "B": ((m, n), ow.DCSR)},
        lambda A, B: A * B,
    ),
    "csr_spgemm": Golden(
        "C(i,j) = A(i,k) * B(k,j)",
        ((m, n), ow.CSR),
        {"A": ((m, k), ow.CSR), "B": ((k, n), ow.CSR)},
        einsum("ik,kj->ij"),
    ),
    "column_sums": Golden(
        "a(j) = B(i,j)", ((n,), ow.CSF(1)), {"B": ((m, n), ow.CSR)}, einsum("ij->j")
    ),
    "csf_mttkrp": Golden(
        "Y(i,j) = X(i,k,l) * B(k,j) * C(l,j)",
        ((m, r), MATRIX),
        {"X": ((m, n, k), ow.CSF(3)), "B": ((n, r), MATRIX), "C": ((k, r), MATRIX)},
        einsum("ikl,kj,lj->ij"),
    ),
    "csf_ttv": Golden(
        "Y(i,j) = X(i,j,k) * v(k)",
        ((m, n), ow.DCSR),
        {"X": ((m, n, k), ow.CSF(3)), "v": ((k,), VECTOR)},
        einsum("ijk,k->ij"),
    ),
    "four_mode_contraction": Golden(
        "Z(j,k,l,m) = X(i,j,k) * Y(i,l,m)",
        ((m, k, n, r), ow.CSF(4)),
        {"X": ((n, m, k), ow.CSF(3)), "Y": ((n, n, r), ow.CSF(3))},
        einsum("ijk,ilm->jklm"),
    ),
    "csr_diagonal": Golden(
        "a(i) = A(i,i)", ((n,), VECTOR), {"A": ((n, n), ow.CSR)}, einsum("ii->i")
    ),
    "min_plus_spmv": Golden(
        "y(i) = A(i,j) * x(j)",
        ((m,), VECTOR),
        {"A": ((m, n), ow.CSR), "x": ((n,), VECTOR)},
        lambda A, x: np.where(A == 0, np.inf, A + x).min(1),
        semiring="min_plus",
    ),
    "spmv_plus_vector": Golden(
        "y(i) = A(i,j) * x(j) + z(i)",
        ((m,), VECTOR),
        {"A": ((m, n), ow.CSR), "x": ((n,), VECTOR), "z": ((m,), VECTOR)},
        lambda A, x, z: A @ x + z,
    ),
    "int8_spmv": Golden(
        "y(i) = A(i,j) * x(j) - x(i)",
        ((n,), VECTOR),
        {"A": ((n, n), ow.CSR), "x": ((n,), VECTOR)},
        lambda A, x: A @ x - x,
        dtype="int8",
    ),
    "complex_spmv": Golden(
        "y(i) = conj(A(i,j)) * x(j)",
        ((m,), VECTOR),
        {"A": ((m, n), ow.CSR), "x": ((n,), VECTOR)},
        lambda A, x: A.conj() @ x,
        dtype="complex128",
    ),
}

# Scheduled kernels: the figures and the appendix of the thesis, and their relatives.


def spmv(schedule: str, x: ow.Format = VECTOR) -> Golden:
    operands = {"A": ((m, n), ow.CSR), "x": ((n,), x)}
    expected = einsum("ij,j->i")
    return Golden("y(i) = A(i,j) * x(j)", ((m,), VECTOR), operands, expected, schedule=schedule)


def spmm(schedule: str) -> Golden:
    operands = {"A": ((m, n), ow.CSR), "X": ((n, wide), MATRIX)}
    expected, result = einsum("ij,jk->ik"), ((m, wide), MATRIX)
    return Golden("Y(i,k) = A(i,j) * X(j,k)", result, operands, expected, schedule=schedule)


SCHEDULED = {
    "spmv_figure_2_1b": spmv("order(i,j)"),
    "spmv_figure_2_1c": spmv("split(i,i1,i2,4)"),
    "spmv_figure_2_1d": spmv("fuse(i,j,f), pos(f,p,A(i,j))"),
    "spmv_figure_6_1": spmv(
        "fuse(i,j,f), pos(f,p,A(i,j)), split(p,p0,p1,16), parallelize(p0,CPUThread,Atomics)"
    ),
    "spmv_a1": spmv("split(i,i0,i1,32), order({i0,i1,j}), parallelize(i0,CPUThread,NoRaces)"),
    "spmv_strided": spmv("split(i,i0,i1,4), order(i1,i0,j)"),
    "spmv_balanced": spmv("divide(i,i0,i1,8,balance=nnz), parallelize(i0,CPUThread,NoRaces)"),
    "spmv_lanes": spmv("parallelize(j,CPUVector,ParallelReduction)"),
    "spmv_gallop": spmv("mergeby(j,gallop)", ow.CSF(1)),
    "spmm_a3": spmm(
        "split(i,i0,i1,8), pos(j,jpos,A(i,j)), split(jpos,jpos0,jpos1,8), "
        "order({i0,i1,jpos0,k,jpos1}), parallelize(i0,CPUThread,NoRaces), "
        "parallelize(k,CPUVector,IgnoreRaces)"
    ),
    "spmm_a12": spmm("pos(j,jpos,A(i,j)), split(jpos,jpos0,jpos1,2), order({i,jpos0,k,jpos1})"),
    "spmm_positions": spmm(
        "order(i,j,k), fuse(i,j,f), pos(f,p,A(i,j)), split(p,p0,p1,64), "
        "parallelize(p0,CPUThread,Atomics)"
    ),
    "spmm_registers": spmm(
        "split(k,k0,k1,8), order(i,k0,j,k1), precompute(A(i,j)*X(j,k),k1,k1w), "
        "unroll(k1w), unroll(k1), parallelize(i,CPUThread,NoRaces)"
    ),
    "mttkrp_a5": GOLDEN["csf_mttkrp"]._replace(
        schedule="order({i,k,l,j}), precompute(X(i,k,l)*C(l,j),j,j,precomputed), "
        "split(i,i1,i2,32), parallelize(i1,CPUThread,NoRaces)"
    ),
    "mttkrp_positions": GOLDEN["csf_mttkrp"]._replace(
        schedule="order(i,k,l,j), fuse(k,l,kl), fuse(i,kl,f), pos(f,p,X), split(p,p0,p1,64), "
        "parallelize(p0,CPUThread,Atomics)"
    ),
    "slice_sums_positions": Golden(
        "y(i) = X(i,k,l) * b(k) * c(l)",
        ((m,), VECTOR),
        {"X": ((m, n, k), ow.CSF(3)), "b": ((n,), VECTOR), "c": ((k,), VECTOR)},
        einsum("ikl,k,l->i"),
        schedule="fuse(k,l,kl), fuse(i,kl,f), pos(f,p,X), split(p,p0,p1,64), "
        "parallelize(p0,CPUThread,Atomics)",
    ),
    "add_tiled": GOLDEN["csr_add"]._replace(result=((m, n), MATRIX), schedule="split(j,j0,j1,4)"),
    "dcsr_times_fused": GOLDEN["dcsr_times"]._replace(schedule="fuse(i,j,f)"),
    "sddmm_lanes": GOLDEN["csr_sddmm"]._replace(
        schedule="parallelize(k,CPUVector,ParallelReduction)"
    ),
}
GOLDEN |= SCHEDULED


def draw(shape: tuple[int, ...], format: ow.Format, dtype: str, seed: int) -> Array:
    """Whole numbers, so that sums are exact; large enough for int8 to wrap."""
    rng = np.random.default_rng(seed)
    array = rng.integers(1, 60, shape).astype(dtype)
    if dtype.startswith("complex"):
        array += 1j * rng.integers(-9, 9, shape)
    return array if format.is_dense else array * (rng.random(shape) < 0.4)


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_kernel(
    name: str, golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    text, (shape, format), operands, expected, dtype, semiring, schedule = GOLDEN[name]
    monkeypatch.setenv("OPENWORK_CHECK", "1")  # each call is compared with the reference
    arrays = {each: draw(*spec, dtype, seed) for seed, (each, spec) in enumerate(operands.items())}
    tensors = {each: ow.tensor(a, format=operands[each][1]) for each, a in arrays.items()}
    result = text[: text.index("(")]
    tensors[result] = ow.empty(shape, dtype, format)
    statement = ow.parse(text, semiring=semiring, **tensors)
    kernel = (statement.schedule(schedule) if schedule else statement).compile()
    golden(kernel.source, f"{name}.c")
    answer = kernel()
    validate(answer.storage, result)
    np.testing.assert_array_equal(answer.to_numpy(), expected(*arrays.values()))


def test_no_golden_file_is_left_over() -> None:
    files = (Path(__file__).parent.parent / "golden").glob("*.c")
    assert {file.stem for file in files} == set(GOLDEN)
