"""Tables of devices are data, and choices of products are functions of them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import openwork as ow
from openwork.loops.schedule.statistics import Rows
from openwork.recipes.devices.tables import (
    H200,
    constants,
    gpu_table,
    read_table,
    with_constant,
    write_table,
)
from openwork.recipes.products import Pick, Product
from openwork.recipes.row_model import RowModel
from openwork.tensor.measure import statistics_of
from openwork.tune.defaults.fit import UNKNOWN, Case, Fit, Regret, shaken


def test_tables_are_read_back() -> None:
    text = write_table(H200, "NVIDIA H200", "by a test")
    assert read_table(text) == H200 == gpu_table("h200")
    assert json.loads(text)["device"] == "NVIDIA H200"
    with pytest.raises(KeyError):
        read_table(text.replace('"tiles"', '"other"'))


def test_every_constant_can_be_moved() -> None:
    for name, value in constants(H200).items():
        moved = with_constant(H200, name, value / 2)
        assert moved != H200 and constants(moved)[name] == pytest.approx(value / 2, abs=0.5), name
        assert isinstance(constants(moved)[name], type(value)), name
        others = {n: v for n, v in constants(moved).items() if n != name}
        assert others == {n: v for n, v in constants(H200).items() if n != name}
    assert with_constant(H200, "tiles.unroll_wide", 5.9).tiles.unroll_wide == 8
    assert with_constant(H200, "load.many_rows", 0.1).load.many_rows == 1


@pytest.mark.parametrize("columns", [0, 4, 32, 128])
def test_the_default_is_what_the_product_picks(columns: int) -> None:
    matrix = sp.random_array((90, 70), density=0.1, format="csr", rng=np.random.default_rng(0))
    A = ow.tensor(matrix.astype("float32"), name="A")
    x = ow.tensor(np.ones((70, columns) if columns else 70, "float32"), name="x")
    y = ow.placeholder("y", order=2 if columns else 1, dtype="float32")
    text = "y(i,k) = A(i,j) * x(j,k)" if columns else "y(i) = A(i,j) * x(j)"
    stmt = ow.parse(text, y=y, A=A, x=x)
    known = statistics_of(stmt.assignment)["A"]
    assert known.rows is not None
    rows = RowModel(known.entries, known.rows, H200)
    pick = Product(rows, 4, columns, 70, at_once=True).pick()
    assert pick.applied(stmt).commands == stmt.default_schedule("cuda")


def rows_of(count: int, mean: float, longest: int, reach: float = 1e5) -> tuple[int, Rows]:
    return int(count * mean), Rows(count, longest, reach)


@pytest.mark.parametrize(
    ("shape", "size", "columns", "recipe"),
    [
        ((1_000_000, 5, 7), 4, 0, "thread_per_row"),
        ((10_000, 30, 40), 4, 0, "group_per_row"),
        ((400_000, 10, 100_000), 8, 0, "position_staged"),
        ((1_000_000, 5, 7), 4, 4, "spmm_rows"),
        ((100_000, 60, 1_000), 4, 4, "spmm_staged"),
        ((2_000, 42, 95), 4, 4, "spmm_rows"),
        ((100_000, 60, 1_000), 8, 4, "spmm_positions"),
        ((400_000, 10, 10), 4, 32, "spmm_rows"),
        ((400_000, 10, 100_000), 4, 32, "spmm_positions"),
        ((400_000, 10, 100_000), 8, 128, "spmm_positions"),
        ((500, 30_000, 30_000), 4, 128, "spmm_tiles"),
    ],
)
def test_even_and_uneven_rows_get_other_recipes(
    shape: tuple[int, float, int], size: int, columns: int, recipe: str
) -> None:
    entries, rows = rows_of(*shape)
    product = Product(RowModel(entries, rows, H200), size, columns, 100_000, size == 4)
    assert product.pick().recipe.__name__ == recipe, str(product.pick())


@pytest.mark.parametrize(
    ("shape", "reach", "size", "columns", "pick"),
    [
        ((10_000, 30, 40), 1e4, 4, 0, "group_per_row(group=16, unroll=4)"),
        ((40_000, 30, 40), 1e4, 8, 0, "group_per_row(group=8)"),  # alike, and enough threads
        ((20_000, 4, 170), 1e4, 8, 0, "group_per_row(group=16, unroll=4)"),
        ((500, 100, 490), 500, 4, 0, "group_per_row(group=256, unroll=4)"),
        ((300_000, 12, 12), 9e4, 4, 0, "group_per_row(group=4, unroll=4)"),  # one batch
        ((1_500_000, 1, 3_000), 8e4, 4, 0, "position_split(each=4, unroll=4)"),
        ((2_000, 42, 95), 2e3, 4, 4, "spmm_rows(at_once=32, unroll=4)"),
        ((2_000, 42, 95), 2e3, 4, 128, "at_once=2, lanes=16"),
        ((1_000, 390, 400), 8e3, 4, 128, "at_once=4, lanes=8"),
        ((400_000, 10, 10), 4e5, 4, 128, "spmm_rows(unroll=4, lanes=8)"),
        ((400_000, 10, 10), 1e3, 4, 128, "unroll=4, resident=None"),  # which the cache holds
        ((200_000, 13, 2_400), 1e5, 4, 128, "spmm_positions(each=32, unroll=4, lanes=8)"),
    ],
)
def test_rows_get_as_many_threads_as_they_can_use(
    shape: tuple[int, float, int], reach: float, size: int, columns: int, pick: str
) -> None:
    entries, rows = rows_of(*shape, reach)
    across = 400_000 if reach == 1e3 else int(reach)
    product = Product(RowModel(entries, rows, H200), size, columns, across, size == 4)
    assert pick in str(product.pick())


def test_a_fit_finds_the_constant_that_measurements_follow() -> None:
    """A made-up GPU, on which a thread per row wins from 3,000 rows on."""
    cases = []
    for count in (100, 400, 1_000, 2_500, 3_500, 10_000, 30_000, 90_000, 250_000):
        times = {"thread": 1.0 if count >= 3_000 else 1.5, "other": 1.2}
        entries, rows = rows_of(count, 6, 7)
        cases.append(Case(f"m{count}", f"k{count % 3}", "float32", 0, 10, entries, rows, times))

    def schedule(pick: Pick, case: Case) -> str:
        return "thread" if pick == Pick.of(ow.recipes.thread_per_row) else "other"

    fit = Fit(cases, schedule)
    start = replace(H200, load=replace(H200.load, many_rows=200_000))
    fitted = fit.table(start)
    assert fit.loss(fitted, cases) < 0.02 < fit.loss(start, cases)
    assert all(fit.regret(case, fitted) <= 1.2 for case in cases)
    assert set(fit.left_out(start)) == {"k0", "k1", "k2"}
    assert fit.table(fitted) == fitted, "nothing is moved that does not help"
    blind = Fit(cases, lambda pick, case: "never measured")
    assert blind.regret(cases[0], start) == UNKNOWN
    assert shaken(start, 1) == shaken(start, 1) != shaken(start, 2)


def test_regrets_are_geometric_means() -> None:
    found = Regret.of([1.0, 4.0])
    assert found == Regret(2.0, 4.0) and str(found) == "2.000, worst 4.00"
