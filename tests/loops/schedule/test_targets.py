"""Schedules and the target they are compiled for."""

from __future__ import annotations

import numpy as np
import pytest

import openwork as ow

pytestmark = pytest.mark.needs_cc

rng = np.random.default_rng(5)
A = ow.tensor(rng.random((9, 8)) * (rng.random((9, 8)) < 0.4), format=ow.CSR)
x, y, D, C = ow.tensor(rng.random(8)), ow.empty(9), ow.tensor(rng.random((8, 6))), ow.empty((9, 6))
U, V, S = (
    ow.tensor(rng.random((9, 4))),
    ow.tensor(rng.random((8, 4))),
    ow.empty((9, 8), format=ow.CSR),
)

FOR_A_GPU = {
    "warp_per_row": ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=x),
    "spmm_rows": ow.parse("C(i,k) = A(i,j) * D(j,k)", C=C, A=A, D=D),
    "sddmm": ow.parse("S(i,j) = A(i,j) * U(i,k) * V(j,k)", S=S, A=A, U=U, V=V),
    "elements": ow.parse("T(i,k) = U(i,k) * 2", T=ow.empty((9, 4)), U=U),
}


@pytest.mark.parametrize("recipe", FOR_A_GPU)
def test_a_schedule_for_cpu_threads_is_refused_for_a_gpu(recipe: str) -> None:
    """And the hint names a recipe that serves."""
    stmt = FOR_A_GPU[recipe]
    threads = stmt.parallelize("i", "CPUThread")
    with pytest.raises(ow.ScheduleError, match="E315: i is for CPUThread, but the target is a GPU"):
        threads.compile("cuda-emulated")
    with pytest.raises(ow.ScheduleError) as caught:
        threads.compile("cuda-emulated")
    assert f"ow.recipes.{recipe}(stmt)" in str(caught.value.hint)
    result = getattr(ow.recipes, recipe)(stmt).compile("cuda-emulated")()
    np.testing.assert_allclose(result.to_numpy(), stmt.compile()().to_numpy())


def test_lanes_of_a_cpu_are_refused_for_a_gpu() -> None:
    stmt = FOR_A_GPU["spmm_rows"].parallelize("k", "CPUVector")
    with pytest.raises(ow.ScheduleError, match="E315: k is for CPUVector"):
        stmt.compile("cuda-emulated")


def test_a_statement_without_operands_runs_again_under_the_emulator() -> None:
    kernel = ow.parse("y(i) = i", y=ow.empty(9)).compile("cuda-emulated")
    for _ in range(3):
        np.testing.assert_array_equal(kernel().to_numpy(), np.arange(9.0))


@pytest.mark.parametrize("text", ["Y = A(i) * A(j) + 1", "Y(i,j) = A(i) * A(j)"])
def test_a_workspace_that_lists_its_keys_has_no_positions(text: str) -> None:
    """The default schedule of a GPU leaves its loop to one thread."""
    given = np.array([0, 1.0, 0, 2, 3])
    result = ow.empty((5, 5) if "Y(" in text else ())
    stmt = ow.parse(text, Y=result, A=ow.tensor(given, format=ow.CSF(1)))
    want = np.outer(given, given) if "Y(" in text else given.sum() ** 2 + 1
    made = stmt.schedule("precompute(A(i),i,iw)").compile("cuda-emulated")()
    np.testing.assert_allclose(made.to_numpy(), want)
