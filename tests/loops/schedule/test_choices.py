"""Schedules that nobody wrote are commands: from a statement, statistics and a machine."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import openwork as ow
from openwork.errors import ScheduleError
from openwork.loops.schedule.default.cpu import default_cpu
from openwork.loops.schedule.draft import Draft
from openwork.loops.schedule.machines import ANY_CPU
from openwork.loops.schedule.statistics import Rows, Statistics
from openwork.pipeline import scheduled_for_gpu, started
from openwork.recipes.choose import choose
from openwork.recipes.devices.tables import H200
from openwork.tensor.measure import measure, statistics_of

A = ow.tensor(sp.random_array((64, 48), density=0.2, format="csr", rng=1), name="A")
B = ow.tensor(sp.random_array((48, 64), density=0.2, format="csr", rng=2), name="B")
S = ow.tensor(A.to_scipy(), format=ow.SELL(32), name="S")
x = ow.tensor(np.ones(48), name="x")
U, V = ow.tensor(np.ones((64, 32)), name="U"), ow.tensor(np.ones((48, 32)), name="V")


def parsed(text: str, shape: tuple[int, ...], **more: Any) -> ow.Statement:
    """A statement over the tensors above."""
    result = ow.empty(shape, name="R", **more)
    given = {"A": A, "B": B, "S": S, "x": x, "U": U, "V": V}
    used = {name: tensor for name, tensor in given.items() if f"{name}(" in text.partition("=")[2]}
    return ow.parse(text, R=result, **used)


SPMV = parsed("R(i) = A(i,j) * x(j)", (64,))
CASES = {
    "SpMV": SPMV,
    "SpMV in slices": parsed("R(i) = S(i,j) * x(j)", (64,)),
    "SpMM": parsed("R(i,k) = A(i,j) * V(j,k)", (64, 32)),
    "SpGEMM": parsed("R(i,k) = A(i,j) * B(j,k)", (64, 64), format=ow.CSR),
    "SDDMM": parsed("R(i,j) = A(i,j) * U(i,k) * V(j,k)", (64, 48), format=ow.CSR),
    "product": parsed("R(i,j) = U(i,k) * V(j,k)", (64, 48)),
    "sum": parsed("R(i,j) = A(i,j) + A(i,j) * A(i,j)", (64, 48), format=ow.CSR),
}


def replayed(start: Draft, chosen: Draft) -> Draft:
    """`start` after the commands of another draft, one by one."""
    for command in chosen.commands:
        start = start._scheduled(command)
    return start


@pytest.mark.parametrize("name", CASES)
def test_the_default_of_a_cpu_is_its_commands(name: str) -> None:
    start = CASES[name]._draft
    chosen = default_cpu(start, ANY_CPU, {})
    assert chosen.commands
    assert replayed(start, chosen).plan == chosen.plan
    if chosen.otherwise is not None:
        assert replayed(start, chosen.otherwise).plan == chosen.otherwise.plan
    assert CASES[name].commands == "", "the schedule of the user stays empty"


@pytest.mark.parametrize("name", CASES)
def test_the_text_of_a_default_reads_back(name: str) -> None:
    text = ", ".join(map(str, default_cpu(CASES[name]._draft, ANY_CPU, {}).commands))
    assert CASES[name].schedule(text).loops == CASES[name].loops


@pytest.mark.parametrize("name", ["SpMV", "SpMM", "SDDMM", "product"])
@pytest.mark.parametrize("exact", [False, True])
def test_the_choice_for_a_gpu_is_its_commands(name: str, exact: bool) -> None:
    stmt = CASES[name]
    chosen = scheduled_for_gpu(stmt._draft, statistics_of(stmt.assignment), H200, exact)
    assert replayed(stmt._draft, chosen).plan == chosen.plan


def test_of_several_loops_over_a_variable_the_result_has_the_parallel_one() -> None:
    """The temporary is filled in a loop over i, too, which stays as it is."""
    stmt = parsed("R(j) = A(i,j) - 2", (48,))
    chosen = default_cpu(stmt._draft, ANY_CPU, {})
    assert str(chosen.commands[-1]) == "parallelize(j,CPUThread,NoRaces,writes=R)"
    assert "j: parallel over threads, no two iterations write to the same entry" in chosen.decisions
    assert str(chosen.plan.loops).count("CPUThread") == 1


MANY = Statistics(4_000_000, Rows(1_000_000, 30, 1000.0))


@pytest.mark.parametrize(
    ("known", "recipe"),
    [
        (MANY, ow.recipes.thread_per_row),
        (Statistics(4_000_000, Rows(1_000_000, 900_000, 1000.0)), ow.recipes.position_staged),
        (Statistics(3200, Rows(100, 32, 50.0)), ow.recipes.group_per_row),
    ],
)
def test_statistics_choose_the_recipe(known: Statistics, recipe: Any) -> None:
    chosen = choose(SPMV._draft, {"A": known}, H200)
    assert chosen is not None
    assert [c.name for c in chosen.commands] == [c.name for c in recipe(SPMV)._commands]


@pytest.mark.parametrize(
    ("known", "groups"),
    [
        (Statistics(5_900_000, Rows(100_000, 980, 5e4)), 4),
        (Statistics(1_600_000, Rows(4_096, 400, 4e3)), 4),
        (Statistics(4_000_000, Rows(300_000, 12, 1e4)), 1),  # too short
        (Statistics(860_000, Rows(200, 7_700, 3e4)), 1),  # the longest would end late
    ],
)
def test_groups_share_rows_that_are_long_enough(known: Statistics, groups: int) -> None:
    A, B = ow.placeholder("A", format=ow.CSR, order=2, dtype="float32"), np.ones((64, 32), "f")
    C = ow.placeholder("C", order=2, dtype="float32")
    stmt = ow.parse("C(i,k) = A(i,j) * B(j,k)", C=C, A=A, B=ow.tensor(B, name="B"))
    chosen = choose(stmt._draft, {"A": known}, H200)
    assert chosen is not None
    found = re.findall(r"GPUGroup of (\d+)", str(chosen.plan.loops))
    assert found == ([str(groups)] if groups > 1 else [])


def test_the_machine_chooses_the_recipe() -> None:
    smaller = replace(H200, load=replace(H200.load, many_rows=2_000_000, much=3_000_000))
    one, other = (choose(SPMV._draft, {"A": MANY}, gpu) for gpu in (H200, smaller))
    assert one is not None and other is not None and one.commands != other.commands


def test_without_data_nothing_is_chosen() -> None:
    assert choose(SPMV._draft, {}, H200) is None


def test_what_is_exact_has_no_atomics() -> None:
    lopsided = {"A": Statistics(4_000_000, Rows(1_000_000, 900_000, 1000.0))}
    draft = CASES["SpMM"]._draft
    fast, exact = (choose(draft, lopsided, H200, exact) for exact in (False, True))
    assert fast is not None and "Atomics" in str(fast.plan.loops)
    assert exact is not None and "Atomics" not in str(exact.plan.loops)


def test_a_draft_is_scheduled_as_a_statement_is() -> None:
    draft = started(SPMV.assignment, {})
    recipe = ow.recipes.group_per_row
    assert recipe(draft).commands == recipe(SPMV)._commands
    assert str(draft) == str(SPMV)
    with pytest.raises(ScheduleError, match="there is no loop over k"):
        draft.unroll("k")


def test_statistics_are_measured_once() -> None:
    pos, crd = np.array([0, 2, 2, 5]), np.array([1, 4, 0, 3, 7])
    matrix = ow.tensor(sp.csr_array((np.ones(5), crd, pos), shape=(3, 9)))
    known = measure(matrix.storage)
    assert known == Statistics(5, Rows(3, 3, 6.0))  # rows reach over 4 and 8 columns
    assert measure(matrix.storage) is known
    assert measure(matrix.to(ow.COO(2)).storage) == Statistics(5)
