"""The default is a schedule: its text gives the same loops and the same kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.random.test_property import mixed_case_of, statement_of

import openwork as ow
from openwork.tensor.kernel.targets import find_target

rng = np.random.default_rng(7)


def _sparse(*shape: int, format: ow.Format) -> ow.Tensor:
    return ow.tensor(rng.random(shape) * (rng.random(shape) < 0.3), format=format)


def _dense(*shape: int) -> ow.Tensor:
    return ow.tensor(rng.random(shape))


A, B = (_sparse(40, 30, format=ow.CSR) for _ in range(2))
BLOCKS = _sparse(40, 30, format=ow.BSR(2, 3))
X = _sparse(9, 8, 7, format=ow.CSF(3))
COMMON = {
    "SpMV": ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(40), A=A, x=_dense(30)),
    "transposed SpMV": ow.parse("y(j) = A(i,j) * x(i)", y=ow.empty(30), A=A, x=_dense(40)),
    "SpMV of blocks": ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(40), A=BLOCKS, x=_dense(30)),
    "SELL SpMV": ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(40), A=A.to(ow.SELL(8)), x=_dense(30)),
    "SpMM": ow.parse(
        "C(i,k) = A(i,j) * D(j,k)", C=ow.empty((40, 16)), A=A, D=_dense(30, 16)
    ),
    "SDDMM": ow.parse(
        "C(i,j) = A(i,j) * U(i,k) * V(j,k)",
        C=ow.empty((40, 30), format=ow.CSR), A=A, U=_dense(40, 32), V=_dense(30, 32),
    ),
    "MTTKRP": ow.parse(
        "M(i,r) = X(i,k,l) * F(k,r) * G(l,r)",
        M=ow.empty((9, 8)), X=X, F=_dense(8, 8), G=_dense(7, 8),
    ),
    "TTV": ow.parse(
        "T(i,j) = X(i,j,k) * v(k)", T=ow.empty((9, 8), format=ow.DCSR), X=X, v=_dense(7)
    ),
    "sum": ow.parse("C(i,j) = A(i,j) + B(i,j)", C=ow.empty((40, 30), format=ow.CSR), A=A, B=B),
    "SpGEMM": ow.parse(
        "C(i,k) = A(i,j) * B(k,j)", C=ow.empty((40, 40), format=ow.CSR), A=A, B=B
    ),
    "sum to a vector": ow.parse("y(i) = A(i,j) + B(i,j)", y=ow.empty(40), A=A, B=B),
    "sum to a scalar": ow.parse("s = A(i,j)", s=ow.empty(()), A=A),
    "dense product": ow.parse(
        "C(i,k) = D(i,j) * E(j,k)", C=ow.empty((9, 8)), D=_dense(9, 7), E=_dense(7, 8)
    ),
}  # fmt: skip


def same(stmt: ow.Statement, target: str) -> str:
    """The default schedule of `stmt`, whose text must give what it gives."""
    text = stmt.default_schedule(target)
    chosen = find_target(target)
    by_text = stmt.schedule(text)
    assert by_text._planned_for(chosen, False).plan == stmt._planned_for(chosen, False).plan
    one = stmt.compile(target, loader=_unloaded)._launcher.compiled
    other = by_text.compile(target, loader=_unloaded)._launcher.compiled
    assert one.source == other.source
    return text


def _unloaded(compiled: Any) -> Any:
    """Instead of a compiled function: only the text of kernels is compared."""
    return None


@pytest.mark.parametrize("target", ["cpu", "cuda-emulated"])
@pytest.mark.parametrize("name", COMMON)
def test_common_statements(name: str, target: str) -> None:
    text = same(COMMON[name], target)
    serial = name in ("transposed SpMV", "sum to a scalar", "SpMV of blocks")
    assembled = target != "cpu" and name in ("sum", "SpGEMM")
    assert text or serial or assembled, f"{name} has a default that is not said"


@pytest.mark.parametrize(
    ("left", "right"),
    [(ow.entry.quaternion("float32"),) * 2, (ow.entry.block(3, 3), ow.entry.vector(3))],
)
def test_interleaved_rows_of_records_are_no_lanes(left: Any, right: Any) -> None:
    """Written out for 32 rows, large records took compilers minutes."""
    format = ow.SELL(32).with_layout("SoA")
    S = ow.placeholder("S", order=2, format=format, dtype=left)
    x = ow.placeholder("x", order=1, dtype=right)
    stmt = ow.parse("y(i) = S(i,j) * x(j)", y=ow.empty(90, dtype=right, name="y"), S=S, x=x)
    assert "CPUVector" not in stmt.default_schedule()
    assert "CPUVector" in COMMON["SELL SpMV"].default_schedule()


@pytest.mark.parametrize("target", ["cpu", "cuda-emulated"])
def test_random_statements(target: str) -> None:
    texts = [same(statement_of(mixed_case_of(seed)), target) for seed in range(24)]
    assert sum(map(bool, texts)) > 3


@pytest.mark.needs_cc
def test_the_text_is_to_start_from() -> None:
    spmv = COMMON["SpMV"]
    assert spmv.default_schedule().endswith("parallelize(i,CPUThread,NoRaces)")
    mine = spmv.schedule(spmv.default_schedule() + ", unroll(j,4)")
    assert mine.default_schedule() == spmv.default_schedule()
    np.testing.assert_allclose(mine.compile()().to_numpy(), spmv.compile()().to_numpy())


def test_loops_that_fill_a_temporary_stay_serial_where_only_the_result_is_meant() -> None:
    text = "precompute(A(i,j) * x(j), i, i), parallelize(i,CPUThread,NoRaces,writes=y)"
    made = COMMON["SpMV"].schedule(text)
    first, *more = [line for line in str(made.loops).splitlines() if "forall i" in line]
    assert "CPUThread" in first and not any("CPUThread" in line for line in more)
    assert COMMON["SpMV"].schedule(made.commands) == made
    with pytest.raises(ow.ScheduleError, match="E301: no loop over i computes z"):
        COMMON["SpMV"].parallelize("i", "CPUThread", writes="z")
