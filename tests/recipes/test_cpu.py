"""Recipes for a CPU: right on even and uneven data, and refused where they do not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.choices import in_pairs

import openwork as ow
from openwork import recipes as r
from openwork.runtime.host import launch

pytestmark = pytest.mark.needs_cc

ROWS_OF_TREES = ow.Format([ow.Dense, ow.Compressed, ow.Compressed])
RECIPES: dict[str, Callable[[Any], Any]] = {
    "balanced_rows": lambda stmt: r.balanced_rows(stmt, parts=5),
    "register_tiles": lambda stmt: r.register_tiles(stmt, lanes=4, rows=3),
    "position_chunks": lambda stmt: r.position_chunks(stmt, each=7),
    "merge_path": lambda stmt: r.merge_path(stmt, parts=5),
    "cache_tiles": lambda stmt: r.cache_tiles(stmt, rows=8, across=6),
    "usual balanced_rows": r.balanced_rows,
    "usual register_tiles": r.register_tiles,
    "usual position_chunks": r.position_chunks,
    "usual merge_path": r.merge_path,
    "usual cache_tiles": r.cache_tiles,
}
# The statement, einsum's, the format of the sparse operand, and the recipes that are not for it.
PRODUCTS = {
    "SpMV": ("R(i) = A(i,j) * B(j)", "ij,j->i", ow.CSR, {"register_tiles"}),
    "SpMV by columns": ("R(i) = A(i,j) * B(j)", "ij,j->i", ow.CSC,
                        {"balanced_rows", "register_tiles", "merge_path", "cache_tiles"}),
    "DCSR SpMV": ("R(i) = A(i,j) * B(j)", "ij,j->i", ow.DCSR, {"register_tiles"}),
    "SpMM": ("R(i,k) = A(i,j) * B(j,k)", "ij,jk->ik", ow.CSR, set()),
    "SDDMM": ("R(i,j) = A(i,j) * B(i,k) * C(j,k)", "ij,ik,jk->ij", ow.CSR, {"register_tiles"}),
    "MTTKRP": ("R(i,r) = A(i,k,l) * B(k,r) * C(l,r)", "ikl,kr,lr->ir", ROWS_OF_TREES,
               {"cache_tiles"}),
    "CSF MTTKRP": ("R(i,r) = A(i,k,l) * B(k,r) * C(l,r)", "ikl,kr,lr->ir", ow.CSF(3),
                   {"cache_tiles"}),
}  # fmt: skip
EXTENTS = {"i": 23, "j": 19, "k": 6, "l": 5, "r": 10}


@pytest.fixture(autouse=True)
def really_parallel(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small kernels run on several threads too."""
    monkeypatch.setattr(launch, "SERIAL_BELOW", -1)
    ow.set_num_threads(3)
    yield
    ow.set_num_threads(None)


def _pattern(shape: tuple[int, ...], kind: str, rng: np.random.Generator) -> Any:
    stored = rng.random(shape) < 0.25
    if kind == "uneven":
        stored[3] = True
        stored[4:11] = False
    if kind == "empty":
        stored[...] = False
    return stored


@pytest.mark.parametrize(
    ("product", "recipe", "kind"),
    in_pairs(list(PRODUCTS), list(RECIPES), ["even", "uneven", "empty"]),
)
def test_recipes_change_no_answer(product: str, recipe: str, kind: str) -> None:
    text, subscripts, format, unfit = PRODUCTS[product]
    rng = np.random.default_rng(len(product) + len(recipe))
    inputs, output = subscripts.split("->")
    arrays = [rng.random([EXTENTS[c] for c in word]) for word in inputs.split(",")]
    arrays[0] *= _pattern(arrays[0].shape, kind, rng)
    shape = [EXTENTS[c] for c in output]
    sparse = product == "SDDMM"
    names = dict(zip("ABC", map(ow.tensor, arrays), strict=False))
    names["A"] = ow.tensor(arrays[0], format=format)
    result = ow.empty(shape, format=format) if sparse else ow.empty(shape)
    stmt = ow.parse(text, R=result, **names)
    if recipe.removeprefix("usual ") in unfit:
        with pytest.raises(ow.ScheduleError) as caught:
            RECIPES[recipe](stmt)
        assert caught.value.code == "E316"
        return
    made = RECIPES[recipe](stmt).compile()()
    np.testing.assert_allclose(made.to_numpy(), np.einsum(subscripts, *arrays), atol=1e-12)


def test_a_merge_path_counts_rows_and_entries() -> None:
    """With most entries in the first row, and then empty rows, parts have unequal entries."""
    array = np.zeros((40, 40))
    array[0], array[39, 39] = 1.0, 1.0
    A, x = ow.tensor(array, format=ow.CSR), ow.tensor(np.ones(40))
    stmt = r.merge_path(ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(40), A=A, x=x), parts=2)
    (cut,) = [c for c in stmt._commands if c.name == "divide"]
    points = cut.arguments[5]({"A": A}, 2)
    assert points.tolist() == [0, 40, 41]
    np.testing.assert_allclose(stmt.compile()().to_numpy(), array.sum(axis=1))


@pytest.mark.parametrize("recipe", ["balanced_rows", "merge_path", "cache_tiles", "register_tiles"])
def test_vectors_have_no_rows(recipe: str) -> None:
    v = ow.tensor(np.ones(5), format=ow.CSF(1))
    stmt = ow.parse("y(i) = v(i) * 2", y=ow.empty(5), v=v)
    with pytest.raises(ow.ScheduleError, match="E316"):
        getattr(r, recipe)(stmt)
