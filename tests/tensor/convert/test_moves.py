"""Conversions in compiled code: by counting, in groups, by merging rows, and what they share."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import openwork as ow
from openwork.tensor.convert import moves

SHAPES = [(1, 1), (7, 5), (30, 31), (90, 200), (200, 90)]


def matrix(shape: tuple[int, int], density: float = 0.3) -> Any:
    rng = np.random.default_rng(shape[0])
    made = sp.random_array(shape, density=density, format="csr", rng=rng)
    made.sort_indices()
    return made


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    "format",
    [
        ow.BSR(3, 3),
        ow.BSR(1, 4),
        ow.BSR(8, 2),
        ow.SELL(4),
        ow.SELL(4, 8),
        ow.ELL,
        ow.COO(2),
        ow.CSC,
    ],
    ids=repr,
)
def test_there_and_back(
    format: ow.Format, shape: tuple[int, int], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "_SERIAL_BELOW", 0)
    monkeypatch.setattr(moves, "thread_count", lambda: threads)
    A = matrix(shape)
    made = ow.tensor(A, name="A").to(format)
    np.testing.assert_array_equal(made.to_numpy(), A.toarray())
    np.testing.assert_array_equal(made.to(ow.CSR).to_numpy(), A.toarray())


@contextmanager
def raised() -> Iterator[int]:
    """As if Ctrl-C had been pressed."""
    flag = ctypes.c_int32(1)
    yield ctypes.addressof(flag)
    raise KeyboardInterrupt


@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_what_was_stopped_leaves_nothing_behind(
    threads: int, scattered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if scattered:
        scatter_all(monkeypatch, moves._LARGEST_KEY, threads)
    monkeypatch.setattr(moves, "_SERIAL_BELOW", 0)
    monkeypatch.setattr(moves, "thread_count", lambda: threads)
    M = matrix((90, 200))
    A = ow.tensor(M, name="A")
    B, coords = A.to(ow.COO(2)), A.to_coo()[0][:, ::-1]
    ways: list[Callable[[], ow.Tensor]] = [
        *(lambda f=f: A.to(f) for f in (ow.CSC, ow.COO(2), ow.ELL, ow.SELL(4), ow.BSR(3, 3))),  # type: ignore[misc]
        lambda: B.to(ow.CSR),
        lambda: ow.tensor((coords, A.to_coo()[1][::-1]), shape=M.shape),
    ]
    for way in ways:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(moves, "watching", raised)
            way()
        np.testing.assert_array_equal(way().to_numpy(), M.toarray())


def scatter_all(monkeypatch: pytest.MonkeyPatch, largest_key: int, threads: int) -> list[int]:
    """Take all entries, however few, for scattered ones; the list gets an entry for each time."""
    seen: list[int] = []
    really = moves._in_groups

    def in_groups(*args: Any) -> Any:
        seen.append(len(args))
        return really(*args)

    monkeypatch.setattr(moves, "_in_groups", in_groups)
    for name in ("_SERIAL_BELOW", "_FEW_COLUMNS", "_MANY_ENTRIES"):
        monkeypatch.setattr(moves, name, 0)
    monkeypatch.setattr(moves, "_NEAR", -1)
    monkeypatch.setattr(moves, "_GROUP", 8)
    monkeypatch.setattr(moves, "_LARGEST_KEY", largest_key)
    monkeypatch.setattr(moves, "thread_count", lambda: threads)
    return seen


@pytest.mark.parametrize("largest_key", [0, moves._LARGEST_KEY])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "complex128", "int8"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_scattered_entries_are_transposed_in_groups(
    shape: tuple[int, int],
    dtype: str,
    threads: int,
    largest_key: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = scatter_all(monkeypatch, largest_key, threads)
    A = (matrix(shape) * 9).astype(dtype)
    got, wanted = ow.tensor(A, name="A").to(ow.CSC).storage, A.tocsc()
    assert len(seen) == (A.nnz > 9)
    wanted.sort_indices()
    np.testing.assert_array_equal(got.levels[1]["pos"], wanted.indptr)
    np.testing.assert_array_equal(got.levels[1]["crd"], wanted.indices)
    np.testing.assert_array_equal(got.values, wanted.data)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("largest_key", [2**32, 0])
@pytest.mark.parametrize("dtype", ["int8", "float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(1, 1), (40, 3), (3, 40), (57, 61)])
def test_scattered_entries_are_gathered_in_groups(
    shape: tuple[int, int],
    dtype: str,
    largest_key: int,
    threads: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = scatter_all(monkeypatch, largest_key, threads)
    rng = np.random.default_rng(7)
    given = matrix(shape)
    row, column = given.nonzero()
    order = rng.permutation(len(row))
    row, column = row[order].astype(np.int32), column[order].astype(np.int32)
    values = rng.integers(1, 100, len(row)).astype(dtype)
    found = moves.gathered(row, column, values, shape)
    assert found is not None and len(seen) == (len(row) > 1)
    expected = sp.coo_array((values, (row, column)), shape=shape).tocsr()
    expected.sort_indices()
    for one, other in zip(found, (expected.indptr, expected.indices, expected.data), strict=True):
        np.testing.assert_array_equal(one, other)
    if len(row) > 1:  # an entry that is there twice is somebody else's business
        row[0], column[0] = row[-1], column[-1]
        assert moves.gathered(row, column, values, shape) is None


def test_empty_matrices_and_rows() -> None:
    for shape in [(0, 4), (4, 0), (5, 6)]:
        for format in (ow.BSR(2, 2), ow.SELL(2), ow.ELL, ow.COO(2), ow.CSC):
            A = ow.tensor(sp.csr_array(shape), name="A").to(format)
            assert A.to(ow.CSR).nnz == 0
            assert A.to_numpy().shape == shape


def test_fills_lie_between_entries() -> None:
    A = ow.tensor(np.array([[1.0, np.inf], [np.inf, 2.0]]), format=ow.CSR, fill=np.inf, name="A")
    for format in (ow.BSR(2, 2), ow.SELL(2), ow.ELL):
        assert A.to(format).to_numpy().tolist() == [[1.0, np.inf], [np.inf, 2.0]]


def test_values_are_copied_and_index_arrays_are_shared() -> None:
    A = ow.tensor(matrix((30, 31)), name="A")
    listed = A.to(ow.COO(2))
    assert np.shares_memory(listed.storage.levels[1]["crd"], A.storage.levels[1]["crd"])
    assert not np.shares_memory(listed.storage.values, A.storage.values)
    assert not np.shares_memory(listed.to(ow.CSR).storage.values, listed.storage.values)


def test_lists_of_rows_share_index_arrays() -> None:
    A = ow.tensor(matrix((30, 31)), name="A")
    made = A.to(ow.LIL).storage
    assert np.shares_memory(made.levels[1]["crd"], A.storage.levels[1]["crd"])
    assert not np.shares_memory(made.values, A.storage.values)
    np.testing.assert_array_equal(made.levels[1]["len"], np.diff(A.storage.levels[1]["pos"]))


def test_the_last_column_that_32_bits_can_name() -> None:
    last = 2**31 - 1
    A = ow.tensor(([[0, 1], [last, 3]], [1.0, 2.0]), shape=(2, 2**31), format=ow.CSR, name="A")
    coords, values = A.to(ow.BSR(2, 2)).to_coo()
    kept = values != 0
    assert coords[:, kept].tolist() == [[1, 0], [3, last]]
