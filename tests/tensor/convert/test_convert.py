"""Conversions: which way is taken, and that each gives the arrays that packing gives."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import openwork as ow
from openwork.tensor.convert import convert as conversion
from openwork.tensor.convert.pack import by_numpy

MATRICES = [
    ow.CSR, ow.CSC, ow.DCSR, ow.COO(2), ow.LIL, ow.ELL, ow.SELL(4), ow.SELL(2, 8), ow.bitmap,
    ow.DIA, ow.BSR(2, 3), ow.CSB(4, 4), ow.banded, ow.dense(2),
]  # fmt: skip
TENSORS = [
    ow.CSF(3), ow.COO(3), ow.CSF(3, order=(2, 0, 1)), ow.dense(3),
    ow.Format([ow.Dense, ow.Compressed, ow.Compressed]),
    ow.Format([ow.Dense, ow.Dense, ow.Compressed]),
]  # fmt: skip


def check(array: np.ndarray, source: ow.Format, target: ow.Format) -> None:
    A = ow.tensor(array, format=source, name="A")
    got, stored = A.to(target).storage, A.storage
    wanted = stored if target == source else by_numpy(stored, target, exact=False)
    assert got.format == target
    np.testing.assert_array_equal(got.values, wanted.values)
    assert got.values.dtype == wanted.values.dtype
    for ours, theirs in zip(got.levels, wanted.levels, strict=True):
        assert ours.keys() == theirs.keys()
        for name, arrays in ours.items():
            np.testing.assert_array_equal(arrays, theirs[name])
            assert arrays.dtype == theirs[name].dtype


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "LEAST_ENTRIES", 0)


@pytest.mark.parametrize("source", MATRICES, ids=repr)
def test_matrices(source: ow.Format) -> None:
    rng = np.random.default_rng(1)
    array = rng.integers(1, 9, (13, 10)) * (rng.random((13, 10)) < 0.3).astype(float)
    array[5] = 0
    for target in MATRICES:
        check(array, source, target)


@pytest.mark.parametrize(("source", "target"), list(product(TENSORS, TENSORS)), ids=repr)
def test_tensors(source: ow.Format, target: ow.Format) -> None:
    rng = np.random.default_rng(2)
    check(rng.integers(1, 9, (5, 6, 7)) * (rng.random((5, 6, 7)) < 0.2), source, target)


@pytest.mark.parametrize("dtype", ["bool", "int8", "float32", "complex128"])
def test_elements(dtype: str) -> None:
    check(np.eye(6, 5).astype(dtype), ow.SELL(4), ow.CSR)


def test_explicit_zeros_stay_and_names_too() -> None:
    A = ow.tensor((np.array([[0, 1], [2, 0]]), np.array([0.0, 1.0])), shape=(2, 3), format=ow.LIL)
    made = A.rename("Q").to(ow.DCSR)
    assert (made.nnz, made.name) == (2, "Q")


def test_absent_values_other_than_zero_go_through_coordinates() -> None:
    array = np.array([[1.0, np.inf], [np.inf, 2.0]])
    A = ow.tensor(array, format=ow.LIL, fill=np.inf, name="A")
    np.testing.assert_array_equal(A.to(ow.CSR).to_numpy(), array)
    assert A.to(ow.CSR).nnz == 2


@pytest.mark.parametrize(
    ("source", "target", "ways"),
    [
        (ow.CSR, ow.CSC, ["rows"]),
        (ow.COO(2), ow.BSR(2, 2), ["rows"]),
        (ow.CSR, ow.DCSR, ["rows", "statement"]),
        (ow.DCSR, ow.CSC, ["rows", "statement", "rows"]),  # by rows in between
        (ow.CSR, ow.CSB(4, 4), ["rows", "statement", "lists"]),
        (ow.DIA, ow.DCSR, ["rows", "statement", "lists"]),  # padding is no entry
        (ow.dense(2), ow.dense(2, (1, 0)), ["rows", "statement", "numpy"]),
    ],
    ids=repr,
)
def test_ways(
    monkeypatch: pytest.MonkeyPatch, source: ow.Format, target: ow.Format, ways: list[str]
) -> None:
    A = ow.tensor(np.eye(8), format=source, name="A")
    asked = []
    for name in ("by_rows", "_by_statement", "by_lists", "by_numpy"):
        way = getattr(conversion, name)

        def watched(*args: object, way: Any = way, **more: object) -> Any:
            asked.append(way.__name__.split("by_")[1])
            return way(*args, **more)

        monkeypatch.setattr(conversion, name, watched)
    A.to(target)
    assert asked == ways
    if ways != ["rows"]:  # few entries are not worth a compiler
        monkeypatch.setattr(conversion, "LEAST_ENTRIES", 1 << 18)
        asked.clear()
        A.to(target)
        assert asked == ["rows", "numpy"]
