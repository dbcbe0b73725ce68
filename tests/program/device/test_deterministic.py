"""The same bits at each call: which schedules a GPU gets then, and which are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.recipes.test_schedules import mttkrp, sddmm, spmm, spmv, ttm, ttv

import openwork as ow
from openwork import recipes as r
from openwork.runtime.gpu.emulator import ORDERS

STATEMENTS = {"spmv": spmv, "spmm": spmm, "mttkrp": mttkrp, "sddmm": sddmm, "ttv": ttv, "ttm": ttm}
ATOMIC = (r.position_split, r.position_segments, r.position_staged)


def skewed() -> Any:
    """A matrix whose rows differ so much that atomics would be chosen for it."""
    rng = np.random.default_rng(0)
    matrix = sp.random(400, 3000, 0.002, format="lil", random_state=rng)
    matrix[7] = rng.random(3000)
    A, x = ow.tensor(sp.csr_array(matrix), name="A"), ow.tensor(rng.random(3000), name="x")
    return ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty((400,), name="y"), A=A, x=x)


@pytest.mark.needs_cc
@pytest.mark.parametrize("name", STATEMENTS)
def test_any_order_of_threads_gives_the_same_bits(name: str) -> None:
    kernel = STATEMENTS[name]().compile("cuda-emulated", deterministic=True)
    bits = set()
    for order in range(ORDERS):
        kernel._launcher.device.order = order
        bits.add(kernel().storage.values.tobytes())
    assert len(bits) == 1 and "deterministic: no atomic updates" in kernel.explain()


def test_recipes_without_atomics_are_chosen_instead() -> None:
    stmt = skewed()
    assert "atomic" in stmt.compile("cuda").source
    assert "atomic" not in stmt.compile("cuda", deterministic=True).source


@pytest.mark.parametrize("recipe", ATOMIC)
def test_atomics_are_refused_with_the_reason(recipe: Any) -> None:
    with pytest.raises(ow.ScheduleError, match="atomically") as caught:
        recipe(spmv()).compile("cuda", deterministic=True)
    assert caught.value.code == "E317"


def test_atomics_on_the_copies_of_blocks_are_refused_too() -> None:
    A = ow.tensor(sp.eye_array(9, 7, format="csr"), name="A")
    stmt = ow.parse("s() = A(i,j)", A=A, s=ow.empty((), name="s"))
    stmt = stmt.parallelize("i", "GPUBlock", "Temporary")
    stmt = stmt.parallelize("j", "GPUThread", "Atomics")
    with pytest.raises(ow.ScheduleError) as caught:
        stmt.compile("cuda-emulated", deterministic=True)
    assert caught.value.code == "E317"


def test_schedules_without_atomics_are_taken() -> None:
    for stmt in (r.thread_per_row(spmv()), r.group_per_row(spmv()), r.spmm_rows(spmm())):
        stmt.compile("cuda", deterministic=True)


def test_atomics_of_a_cpu_are_refused_too() -> None:
    text = "fuse(i,j,f), pos(f,p,A), split(p,p0,p1,64), parallelize(p0,CPUThread,Atomics)"
    stmt = spmv().schedule(text)
    with pytest.raises(ow.ScheduleError) as caught:
        stmt.compile(deterministic=True)
    assert caught.value.code == "E317"
    spmv().compile(deterministic=True)


@pytest.mark.needs_cc
def test_products_of_sparse_matrices_are_deterministic() -> None:
    matrix = sp.random(60, 60, 0.2, format="csr", random_state=np.random.default_rng(3))
    A = ow.tensor(matrix, name="A")
    C = ow.empty((60, 60), format=ow.CSR, name="C")
    stmt = ow.parse("C(i,k) = A(i,j) * A(j,k)", A=A, C=C)
    kernel = stmt.compile("cuda-emulated", deterministic=True)
    bits = set()
    for order in range(ORDERS):
        kernel._launcher.device.order = order
        bits.add(kernel().storage.values.tobytes())
    assert len(bits) == 1
