"""Layouts: every type of entries, in every layout and format, in statements on both targets.

All combinations take 20 minutes of a core, and `make test-layouts` runs them. Here each pair of
choices occurs in some case. Every kernel is compared with the reference evaluator.
`OPENWORK_GPU_TARGET=cuda` runs what is for a GPU on a real one.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.choices import in_pairs
from tests.conftest import QUICK
from tests.gpu.batch import Batch as GpuBatch
from tests.random.test_property import Batch as CpuBatch

import openwork as ow
from openwork.algebra.entries import Entry, product
from openwork.algebra.types import as_dtype
from openwork.runtime.gpu import emulator

GPU_TARGET = os.environ.get("OPENWORK_GPU_TARGET", "cuda-emulated")
REPO = Path(__file__).resolve().parents[2]
entry = ow.entry
pytestmark = [pytest.mark.needs_cc, pytest.mark.usefixtures("compared_with_the_reference")]

KINDS = (
    "quaternion", "complex", "dual", "block", "complex block", "vector", "a user's", "float",
)  # fmt: skip
LAYOUTS = ("AoS", "SoA", "AoSoA(4)", "packed")
FORMATS = {
    "CSR": ow.CSR, "ELL": ow.ELL, "SELL(16)": ow.SELL(16), "SELL(32)": ow.SELL(32),
    "BSR": ow.BSR(2, 2), "COO": ow.COO(2), "DCSR": ow.DCSR,
}  # fmt: skip
# Grids are as large as the data, or constant, with work assigned statically or dynamically.
TARGETS = ("cpu", "gpu", "gpu, static grid", "gpu, dynamic grid")
ASSIGNED = {"gpu, static grid": "stride", "gpu, dynamic grid": "dynamic"}
ROWS = """split(i,tile,row,4), divide(tile,turn,t1,2,assign={}), parallelize(turn,GPUBlock),
    parallelize(row,GPUThread)"""
ENTRIES = """fuse(i,j,f), pos(f,p,A), split(p,tile,q,32), divide(tile,turn,t1,2,assign={}),
    parallelize(turn,GPUBlock,IgnoreRaces), parallelize(q,GPUThread,Atomics)"""
STATEMENTS = {
    "SpMV": "R(i) = A(i,j) * X(j)",
    "SpMM": "R(i,k) = A(i,j) * X(j,k)",
    "A+B": "R(i,j) = A(i,j) + B(i,j)",
    "A.*B": "R(i,j) = A(i,j) * B(i,j)",
    "transpose": "R(j,i) = A(i,j)",
}
CHOICES = (
    tuple(STATEMENTS), KINDS, LAYOUTS, LAYOUTS[:3], tuple(FORMATS), TARGETS, ("float32", "float64"),
)  # fmt: skip
Case = tuple[str, ...]
Batches = dict[str, Any]


def types_of(kind: str, scalar: str) -> tuple[Any, Any]:
    """The types of a matrix, and of what it multiplies."""
    if kind == "a user's":
        own = entry.define(
            "affine", {"linear": scalar, "constant": scalar}, one=(1, 0), commutative=True,
            mul=lambda a, b: (a.linear * b.linear, a.linear * b.constant + a.constant * b.linear),
        )  # fmt: skip
        return own, own
    return {
        "quaternion": lambda: (entry.quaternion(scalar), entry.quaternion(scalar)),
        "complex": lambda: (entry.complex(scalar), entry.complex(scalar)),
        "dual": lambda: (entry.dual(scalar), entry.dual(scalar)),
        "complex block": lambda: (
            entry.block(2, 2, entry.complex(scalar)), entry.vector(2, entry.complex(scalar)),
        ),
        "block": lambda: (entry.block(3, 3, scalar), entry.vector(3, scalar)),
        "vector": lambda: (entry.vector(3, scalar), as_dtype(scalar)),
        "float": lambda: (as_dtype(scalar), as_dtype(scalar)),
    }[kind]()  # fmt: skip


def tensor_of(dtype: Any, format: ow.Format, shape: tuple[int, ...], name: str) -> ow.Tensor:
    """Random elements, multiples of a half; of sparse formats at random places."""
    rng = np.random.default_rng(sum(map(ord, name)))
    axes = dtype.shape if isinstance(dtype, Entry) else ()
    if format.is_dense:
        numbers = rng.integers(-6, 7, (*shape, *axes)) / 2.0
        return ow.tensor(numbers, dtype=dtype, format=format, name=name)
    coords = np.argwhere(rng.random(shape) < 0.4).T
    numbers = rng.integers(-6, 7, (coords.shape[1], *axes)) / 2.0
    return ow.tensor((coords, numbers), shape=shape, dtype=dtype, format=format, name=name)


def is_possible(case: Case) -> bool:
    """Whether a case has a meaning: no products of vectors, no packed dense blocks.

    Sparse results are assembled in pieces, to which a schedule assigns no grid (E312, E313).
    """
    statement, kind, layout, _, format, target, _ = case
    if layout == "packed" and format == "BSR":
        return False
    if target in ASSIGNED and statement not in ("SpMV", "SpMM"):
        return False
    return statement != "A.*B" or kind != "vector"


def run(case: Case, batches: Batches | None = None) -> Callable[[], None]:
    """What computes a case, and compares it with the same in ordinary layouts.

    `batches`: where kernels wait to be compiled together, for each target.
    """
    statement, kind, layout, others, format, target, scalar = case
    left, right = types_of(kind, scalar)
    stored = FORMATS[format].with_layout(layout)
    text = STATEMENTS[statement]
    tensors = {"A": tensor_of(left, stored, (9, 8), "A")}
    if "X" in text:
        shape = (8,) if statement == "SpMV" else (8, 3)
        whole = ow.dense(len(shape)).with_layout(others)
        tensors["X"] = tensor_of(right, whole, shape, "X")
        made = (
            product(left, right) if isinstance(left, Entry) and isinstance(right, Entry) else None
        )
        result = made.result if made is not None else left
        R = ow.empty((9, *shape[1:]), dtype=result, format=whole, name="R")
    else:
        if "B" in text:
            sparse = FORMATS[format].with_layout(others)
            tensors["B"] = tensor_of(left, sparse, (9, 8), "B")
        shape = (8, 9) if statement == "transpose" else (9, 8)
        R = ow.empty(shape, dtype=left, format=stored, name="R")
    stmt = ow.parse(text, R=R, **tensors)
    if target in ASSIGNED:
        schedule = ENTRIES if format == "COO" else ROWS
        stmt = stmt.schedule(schedule.format(ASSIGNED[target]))
    kernel, other = compiled(stmt, target, batches), in_order(text, tensors, R, scalar, batches)

    def compare() -> None:
        got, wanted = kernel(), other()
        assert got.format == R.format
        np.testing.assert_array_equal(got.to_numpy(), wanted.to_numpy())
        assert got.nnz == wanted.nnz

    return compare


def in_order(
    text: str, tensors: dict[str, ow.Tensor], R: ow.Tensor, scalar: str, batches: Batches | None
) -> Callable[[], ow.Tensor]:
    """The same statement with records in order, on a CPU; once for all cases of a group."""
    known = {} if batches is None else batches.setdefault("in order", {})
    if scalar not in known:
        plain = {name: each.to(each.format.with_layout("AoS")) for name, each in tensors.items()}
        stmt = ow.parse(text, R=R.to(R.format.with_layout("AoS")), **plain)
        known[scalar] = cache(compiled(stmt, "cpu", batches))
    return known[scalar]


def compiled(stmt: ow.Statement, target: str, batches: Batches | None) -> Any:
    """The kernel of a statement, now or together with others."""
    target = "cpu" if target == "cpu" else GPU_TARGET
    if batches is None or target == "cuda":
        return stmt.compile(target=target)
    kernel = stmt.compile(target=target, loader=batches[target])
    if target != "cpu":
        batches[target].expect(kernel._launcher.compiled)
    return kernel


@pytest.mark.parametrize("case", in_pairs(*CHOICES, possible=is_possible), ids="-".join)
def test_pairs_of_choices(case: Case) -> None:
    run(case)()


def groups(statement: str, kind: str, format: str) -> Iterator[Case]:
    """All cases of a statement, a kind of entries and a format."""
    for layout, others, target, scalar in itertools.product(
        LAYOUTS, LAYOUTS[:3], TARGETS, ("float32", "float64")
    ):
        case = (statement, kind, layout, others, format, target, scalar)
        if is_possible(case):
            yield case


@pytest.mark.layouts
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_all_choices(statement: str, kind: str) -> None:
    """The groups of a statement and a kind, in a process that runs nothing else."""
    command = [sys.executable, "-m", "tests.whole.test_layouts", statement, kind]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(done.stdout.splitlines()) == len(FORMATS)


def main(statements: str = "", kinds: str = "", formats: str = "") -> int:
    """Run the groups of some statements, kinds and formats, with commas between; how many fail.

    Each runs in a process of its own, as loaded kernels stay in memory, and all take 7 GB. These
    are forks of this one, which has imported everything.
    """
    emulator.OPTIMIZE = QUICK
    names = [given.split(",") if given else each for given, each in
             ((statements, STATEMENTS), (kinds, KINDS), (formats, FORMATS))]  # fmt: skip
    failed = 0
    for group in itertools.product(*names):
        start = time.perf_counter()
        process = multiprocessing.get_context("fork").Process(target=run_group, args=group)
        process.start()
        process.join()
        failed += process.exitcode != 0
        ended = "passed" if process.exitcode == 0 else f"FAILED ({process.exitcode})"
        took = time.perf_counter() - start
        print("-".join(group), len(list(groups(*group))), ended, f"{took:.1f} s", flush=True)
    return failed


def run_group(statement: str, kind: str, format: str) -> None:
    """Run a group. The message of a failure names its case."""
    batches: Batches = {"cpu": CpuBatch(), "cuda-emulated": GpuBatch()}
    cases = list(groups(statement, kind, format))
    for case, compare in [(case, said(case, run, case, batches)) for case in cases]:
        said(case, compare)


def said(case: Case, step: Callable[..., Any], *args: Any) -> Any:
    """What a step of a case returns; the message of an exception names the case."""
    try:
        return step(*args)
    except Exception as error:
        raise AssertionError("-".join(case)) from error


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
