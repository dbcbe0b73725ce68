"""Golden kernels for a GPU: the CUDA of the recipes that matter most, and what it computes.

`make golden` rewrites the files. Each kernel runs under the emulator, with blocks and threads in
several orders, and is compared with the reference evaluator. Its text does not depend on the
process that it was made in.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples.gpu_schedules import SCHEDULES
from tests.found.cases import reference
from tests.gpu.batch import Batch

import openwork as ow
from openwork import recipes as r
from openwork.runtime.gpu.emulator import ORDERS
from openwork.runtime.reference import to_masked
from openwork.tensor.exchange.validate import validate

pytestmark = pytest.mark.needs_cc

m, n, k = 40, 30, 8
I, J, K = ow.indices("i j k")
GROWTH = ow.operator(
    "growth", lambda a, b: a + b + a * b, identity=0, associative=True, commutative=True
)


def matrix(rows: int, columns: int, name: str, dtype: str = "float64", every: int = 3) -> ow.Tensor:
    """A CSR matrix of small whole numbers, with rows of all lengths, and some that are empty."""
    at = np.arange(rows * columns).reshape(rows, columns)
    kept = (at * 7 + at // columns) % every == 0
    kept[::5] = False
    kept[3] = True
    return ow.tensor(((at % 5 + 1) * kept).astype(dtype), format=ow.CSR, name=name)


def dense(*shape: int, name: str, dtype: str = "float64") -> ow.Tensor:
    return ow.tensor((np.arange(np.prod(shape)) % 7).reshape(shape).astype(dtype), name=name)


def spmv(semiring: str | None = None) -> ow.Statement:
    A, x = matrix(m, n, "A"), dense(n, name="x")
    text = "y(i) = A(i,j) * x(j)"
    return ow.parse(text, y=ow.empty(m, name="y"), A=A, x=x, semiring=semiring)


def spmm() -> ow.Statement:
    A, B = matrix(m, n, "A", "float32"), dense(n, 32, name="B", dtype="float32")
    C = ow.empty((m, 32), "float32", name="C")
    return ow.parse("C(i,k) = A(i,j) * B(j,k)", C=C, A=A, B=B)


def sddmm() -> ow.Statement:
    A, U, V = matrix(m, n, "A"), dense(m, k, name="U"), dense(n, k, name="V")
    D = ow.empty((m, n), format=ow.CSR, name="D")
    return ow.parse("D(i,j) = A(i,j) * U(i,k) * V(j,k)", D=D, A=A, U=U, V=V)


def mttkrp() -> ow.Statement:
    coords = np.array([[0, 0, 0, 2, 2, 5], [0, 1, 3, 0, 3, 2], [4, 0, 2, 1, 1, 4]])
    X = ow.tensor((coords, np.arange(1.0, 7.0)), shape=(6, 4, 5), format=ow.CSF(3), name="X")
    F, G, M = dense(4, k, name="F"), dense(5, k, name="G"), ow.empty((6, k), name="M")
    return ow.parse("M(i,j) = X(i,k,l) * F(k,j) * G(l,j)", M=M, X=X, F=F, G=G)


def added(columns: int) -> ow.Statement:
    A, B = matrix(m, columns, "A"), matrix(m, columns, "B", every=4)
    C = ow.empty((m, columns), format=ow.CSR, name="C")
    return ow.parse("C(i,j) = A(i,j) + B(i,j)", C=C, A=A, B=B)


def product() -> ow.Statement:
    A, B = matrix(m, n, "A"), matrix(n, m, "B", every=4)
    C = ow.empty((m, m), format=ow.CSR, name="C")
    return ow.parse("C(i,k) = A(i,j) * B(j,k)", C=C, A=A, B=B)


def transposed() -> ow.Statement:
    A, x = matrix(m, n, "A"), dense(m, name="x")
    return ow.parse("y(j) = A(i,j) * x(i)", y=ow.empty(n, name="y"), A=A, x=x)


def workspace() -> ow.Statement:
    return spmv().schedule(
        "split(i,b,t,16), pos(j,jp,A(i,j)), split(jp,jp0,jp1,4), precompute(A(i,j)*x(j),jp1,w), "
        "parallelize(b,GPUBlock,NoRaces), parallelize(t,GPUThread,NoRaces)"
    )


def owned_workspace() -> ow.Statement:
    """Each thread owns a column of the row in shared memory, so that none waits for another."""
    return spmm().schedule(
        "order(i,j,k), bound(k,kb,32,MaxExact), precompute(A(i,j)*B(j,k),kb,kw), "
        "parallelize(i,GPUBlock,NoRaces), parallelize(kb,GPUThread,NoRaces), "
        "parallelize(kw,GPUThread,NoRaces)"
    )


def user_operator() -> ow.Statement:
    A, y = matrix(m, n, "A"), ow.empty(m, name="y")
    return r.group_per_row(ow.assign(y[I], ow.reduce(GROWTH, J, A[I, J])), 8)


def grid(assigned: str) -> ow.Statement:
    """Blocks of 64 threads, two on each multiprocessor, until all tiles of 64 rows are done."""
    return spmv().schedule(
        f"split(i,tile,row,64), divide(tile,turn,rest,264,assign={assigned}), "
        "parallelize(turn,GPUBlock,NoRaces,threads=64,blocks_per_sm=2), "
        "parallelize(row,GPUThread,NoRaces)"
    )


def column_sums() -> ow.Statement:
    A = matrix(m, n, "A")
    stmt = ow.parse("y(j) = A(i,j)", y=ow.empty(n, name="y"), A=A)
    return stmt.schedule("split(i,b,t,16), parallelize(b,GPUBlock,Temporary)")


def blocks() -> ow.Statement:
    """The sums of a block's rows stay in registers."""
    A = matrix(9, 6, "A").to(ow.BSR(3, 3))
    x, y = ow.tensor(np.arange(6.0), name="x"), ow.empty(9, name="y")
    return ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=x)


GOLDEN: dict[str, Callable[[], ow.Statement]] = {
    "spmv_rows": lambda: r.group_per_row(spmv(), 8),
    "spmv_positions": lambda: r.position_split(spmv(), 4),
    "spmv_a2": lambda: spmv().schedule(SCHEDULES["A.2, entries, unrolled"]),
    "spmv_segments": lambda: r.position_segments(spmv(), 2, 16),
    "spmv_staged": lambda: r.position_staged(spmv(), 2, 8),
    "spmm_rows": lambda: r.spmm_rows(spmm()),
    "spmm_shared_rows": lambda: r.spmm_rows(spmm(), unroll=8, threads=64, at_once=4),
    "spmm_positions": lambda: r.spmm_positions(spmm(), 16),
    "sddmm": lambda: r.sddmm(sddmm()),
    "mttkrp": lambda: r.spmm_positions(mttkrp()),
    "add_pieces": lambda: added(n),
    "add_merge_path": lambda: added(50),  # one row is so long that threads share it
    "spgemm_pieces": product,
    "workspace": workspace,
    "owned_workspace": owned_workspace,
    "sgap_entries": lambda: r.atomic_parallel(spmm(), nnz=4, col=2),
    "sgap_segments": lambda: r.atomic_parallel(spmm(), nnz=1, col=16, group=32),
    "sgap_part_of_row": lambda: r.atomic_parallel(spmm(), row=1 / 32, col=2, group=8),
    "user_operator": user_operator,
    "min_plus_spmv": lambda: r.group_per_row(spmv("min_plus"), 8),
    "spmv_strides": lambda: grid("stride"),
    "spmv_dealt": lambda: grid("dynamic,chunk=2"),
    "transposed_spmv": lambda: r.position_strided(transposed()),
    "column_sums_copies": column_sums,
    "bsr_spmv": blocks,
}

Kernels = dict[str, Any]


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    """All kernels, which one call of the compiler makes."""
    return _compiled(Batch())


def _compiled(batch: Batch) -> Kernels:
    made = {name: make().compile("cuda-emulated", loader=batch) for name, make in GOLDEN.items()}
    for kernel in made.values():
        batch.expect(kernel._launcher.compiled)
    return made


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_kernel(name: str, golden: Callable[[str, str], None], kernels: Kernels) -> None:
    kernel = kernels[name]
    golden(kernel.source, f"{name}.cu")
    expected = reference(GOLDEN[name]())
    for kernel._launcher.device.order in range(ORDERS):
        storage = kernel().storage
        validate(storage, "the result")
        result = to_masked(storage)
        np.testing.assert_allclose(result.values, expected.values, rtol=1e-12)
        assert not (expected.present & ~result.present).any()


def test_no_golden_file_is_left_over() -> None:
    files = (Path(__file__).parent.parent / "golden").glob("*.cu")
    assert {file.stem for file in files} == set(GOLDEN)


def digests(made: Kernels | None = None) -> dict[str, str]:
    """What identifies the text of each kernel."""
    return {
        name: hashlib.sha256(kernel.source.encode()).hexdigest()
        for name, kernel in (made or _compiled(Batch())).items()
    }


def test_texts_are_the_same_in_every_process(kernels: Kernels) -> None:
    """Goldens, and the cache on disk, need texts that no hash of the process decides."""
    code = "import json, tests.whole.test_golden_cuda as t; print(json.dumps(t.digests()))"
    told = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(told.stdout) == digests(kernels)
