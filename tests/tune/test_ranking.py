"""The cost model: what is dropped without running, and in which order the rest is tried."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import openwork as ow
from openwork.tensor.measure import statistics_of
from openwork.tune.model import Loops, Rates
from openwork.tune.search import Search
from openwork.tune.settings import Settings
from openwork.tune.space import buckets, schedules

RATES = Rates(bytes=1e10, units=4, steps=1e9, atomics=1e8, cache=1e5, line=64)


def product(rows: int, columns: int, density: float, target: str = "cpu") -> Any:
    numbers = np.random.default_rng(0)
    matrix = sp.random_array((rows, rows), density=density, format="csr", rng=numbers)
    A = ow.tensor(matrix, name="A")
    B = ow.tensor(numbers.random((rows, columns)), name="B")
    stmt = ow.parse("C(i,k) = A(i,j) * B(j,k)", C=ow.empty((rows, columns)), A=A, B=B)
    return stmt, matrix


def estimate(stmt: ow.Statement) -> Any:
    plan = stmt._planned.plan
    return Loops(plan, statistics_of(stmt.assignment), RATES).estimate()


def test_iterations_follow_loops_and_statistics() -> None:
    stmt, matrix = product(500, 8, 0.02)
    plain = stmt.order("i", "j", "k")
    want = 500 + matrix.nnz + 8 * matrix.nnz
    assert estimate(plain).iterations == pytest.approx(want)
    assert estimate(plain.split("i", "i0", "i1", 50)).iterations == pytest.approx(10 + want)
    positions = plain.fuse("i", "j", "f").pos("f", "p", "A").split("p", "p0", "p1", 100)
    assert estimate(positions).iterations == pytest.approx(matrix.nnz * 9 + matrix.nnz / 100)
    tiles = plain.split("j", "j0", "j1", 50)
    assert estimate(tiles).iterations == pytest.approx(500 + 5000 + 9 * matrix.nnz)


def test_long_rows_keep_others_waiting() -> None:
    lengths = np.full(400, 4)
    lengths[7] = 380
    matrix = sp.csr_array(np.array([np.arange(400) < n for n in lengths], dtype=float))
    A, x = ow.tensor(matrix, name="A"), ow.tensor(np.ones(400), name="x")
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(400), A=A, x=x).order("i", "j")
    rows = stmt.parallelize("i", "CPUThread", "NoRaces")
    entries = stmt.fuse("i", "j", "f").pos("f", "p", "A").split("p", "p0", "p1", 64)
    entries = entries.parallelize("p0", "CPUThread", "Atomics")
    assert estimate(rows).seconds > 0.7 * 380 / 1e9
    assert estimate(stmt).seconds > estimate(rows).seconds
    assert entries.commands and estimate(entries).iterations < 1.2 * estimate(rows).iterations


def test_other_traversals_and_gathers_cost_bytes() -> None:
    stmt, matrix = product(2000, 8, 0.005)
    once, again = (
        stmt.order("i", "j", "k"),
        stmt.split("k", "k0", "k1", 2).order("k0", "i", "j", "k1"),
    )
    assert estimate(again).bytes > estimate(once).bytes + 2 * 12 * matrix.nnz
    small, _ = product(200, 8, 0.05)
    dense = estimate(small.order("i", "j", "k")).bytes
    assert dense < 200 * 200 * 0.05 * 12 * 1.1 + 2 * 200 * 8 * 8 + 1
    assert estimate(once).bytes > matrix.nnz * (12 + 64 * 0.1)


def test_asymptotically_worse_candidates_are_not_run() -> None:
    stmt, _ = product(20_000, 8, 1e-4)
    search = Search.of(stmt, Settings(10, target="cuda-emulated"))
    trials = search.ranking.trials(search.alone(), {}, search.planned)
    dropped = [trial for trial in trials if "times the iterations" in trial.dropped]
    assert dropped and {t.candidate.origin for t in dropped} <= {"element_shares", "spmm_tiles"}
    assert len(dropped) < len(trials) / 4
    first = [trial.candidate.origin for trial in trials[:6]]
    assert len(set(first)) == 6  # one of each kind, before the next of any


def test_uneven_rows_are_tried_in_buckets() -> None:
    numbers = np.random.default_rng(0)
    lengths = numbers.choice((1, 2, 90), 200, p=(0.5, 0.45, 0.05))
    matrix = sp.csr_array(np.array([(numbers.permutation(100) < n) * 1.0 for n in lengths]))
    A, x = ow.tensor(matrix, name="A"), ow.tensor(numbers.random(100), name="x")
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(200), A=A, x=x)
    known = statistics_of(stmt.assignment)
    texts = list(buckets(stmt, known, formats=True))
    assert len(texts) == 4 and texts[-1].endswith("=ELL)")
    for text in texts:
        candidate = ow.tune.Candidate(text)
        kernel = candidate.applied(stmt, {}).compile()
        np.testing.assert_allclose(kernel().to_numpy(), matrix @ x.to_numpy())
        made = eval(candidate.text.removeprefix("stmt = "), {"stmt": stmt})  # noqa: S307
        assert made.bounds == candidate.applied(stmt, {}).bounds
    for wrong in ("bucket(i)", "bucket(i,8,x)", "bucket(i,8=ELL", "bucket(i,8); y"):
        with pytest.raises(ow.OpenworkError):
            ow.tune.Candidate(wrong).applied(stmt, {})
    even, _ = product(100, 1, 1.0)
    assert not list(buckets(even, statistics_of(even.assignment), formats=True))


def test_the_space_has_grids_with_the_launch_bounds_of_the_compound_paper() -> None:
    bounds = list(ow.recipes.launch_bounds())
    counts, sizes = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32}, {32 << n for n in range(6)}
    assert {n for n, _ in bounds} == counts
    assert {n for _, n in bounds} == sizes | {96 << n for n in range(4)}
    assert all(512 <= blocks * threads <= 2048 for blocks, threads in bounds)
    A, x = ow.placeholder("A", order=2, format=ow.CSR), ow.placeholder("x", order=1)
    spmv = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(90), A=A, x=x)
    found = [made.commands for made, name in schedules(spmv, gpu=True) if name == "grid_rows"]
    assert len(found) == 2 * len(bounds)
    assert sum("assign=dynamic" in text for text in found) == len(bounds)
    refused = {"threads": 40}, {"threads": 2048}, {"blocks": 0}, {"group": 0}, {"group": 512}
    for wrong in refused:
        with pytest.raises(ow.ScheduleError) as caught:
            ow.recipes.grid_rows(spmv, **wrong)
        assert caught.value.code == "E316"


def test_schedules_of_a_cpu_compute_the_same() -> None:
    stmt, _ = product(40, 8, 0.2)
    want = stmt.compile()().to_numpy()
    kinds = {}
    for made, name in schedules(stmt, gpu=False):
        if name not in kinds:
            kinds[name] = made.compile()().to_numpy()
    assert {"rows by turns", "streamed", "prefetched", "unrolled", "one thread"} <= set(kinds)
    assert "rows in lanes" in kinds
    for name, got in kinds.items():
        np.testing.assert_allclose(got, want, err_msg=name)
    first = [name for _, name in schedules(stmt, gpu=False)][: len(kinds)]
    assert len(set(first)) == len(first)  # one of each recipe, before the next of any
