"""Levels whose places are a product: what cannot be held is refused before a count wraps."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import openwork as ow
from openwork.format.formats import Format
from openwork.runtime import memory

FAR = 2**40
CORNERS = (np.array([[0, FAR - 1], [0, FAR - 1]]), np.ones(2))


def scattered(n: int) -> sparse.csr_array:
    """An entry in each row and column, on about as many diagonals."""
    rng = np.random.default_rng(0)
    places = (rng.permutation(n), rng.permutation(n))
    return sparse.coo_array((np.ones(n), places), shape=(n, n)).tocsr()


@pytest.fixture(params=["few", pytest.param("many", marks=pytest.mark.needs_cc)])
def size(request: pytest.FixtureRequest) -> int:
    """As many rows as go through NumPy, and as many as go through compiled code."""
    return 60_000 if request.param == "few" else 1 << 18


@pytest.mark.parametrize(
    "format", [ow.DIA, ow.dense(2), ow.bitmap, ow.BSR(50_000, 50_000)], ids=repr
)
def test_too_many_places(format: Format, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "memory_left", lambda: 1 << 30)
    matrix = scattered(size)
    S = ow.tensor(matrix, name="S")
    coords = np.array(matrix.nonzero())
    for make in (
        lambda: S.to(format),
        lambda: ow.tensor(matrix, format=format),
        lambda: ow.tensor((coords, matrix.data), shape=matrix.shape, format=format),
    ):
        with pytest.raises(MemoryError, match="GiB"):
            make()


@pytest.mark.parametrize("format", [ow.ELL, ow.SELL(1 << 17), ow.SELL(2**61)], ids=repr)
def test_one_long_row(format: Format, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "memory_left", lambda: 1 << 30)
    every, none = np.arange(size), np.zeros(size, np.int64)
    coords = np.array([np.r_[every, none[1:]], np.r_[none, every[1:]]])
    matrix = sparse.coo_array((np.ones(coords.shape[1]), tuple(coords)), shape=(size, size))
    tracemalloc.start()
    with pytest.raises(MemoryError):
        ow.tensor(matrix.tocsr()).to(format)
    with pytest.raises(MemoryError):
        ow.tensor((coords, matrix.data), shape=matrix.shape, format=format)
    assert tracemalloc.get_traced_memory()[1] < 1 << 30  # refused, not tried
    tracemalloc.stop()


@pytest.mark.parametrize("tile", [2**31 - 1, 2**31, 2**40])
def test_blocks_beyond_any_memory(tile: int) -> None:
    S = ow.tensor(scattered(1000), name="S")
    with pytest.raises(MemoryError):
        S.to(ow.BSR(tile, tile))


HOLD = (ow.DCSR, ow.DCSC, ow.COO(2), Format([ow.Compressed, ow.Padded]))
OTHERS = (
    *(ow.CSR, ow.CSC, ow.DIA, ow.ELL, ow.SELL(32), ow.LIL, ow.dense(2), ow.BSR(2, 2), ow.bitmap),
    *(ow.banded, Format([ow.Compressed, ow.Dense]), Format([ow.Compressed, ow.Bitmap])),
    *(ow.BSR(2**30, 2**30), ow.CSB(64, 64)),
)


@pytest.mark.parametrize("format", HOLD, ids=repr)
def test_two_entries_far_apart_are_held(format: Format) -> None:
    made = ow.tensor(CORNERS, shape=(FAR, FAR), format=format)
    assert made.to_coo()[0].tolist() == CORNERS[0].tolist()


@pytest.mark.parametrize("format", OTHERS, ids=repr)
def test_two_entries_far_apart_are_refused(format: Format) -> None:
    with pytest.raises(MemoryError):
        ow.tensor(CORNERS, shape=(FAR, FAR), format=format)
    with pytest.raises(MemoryError):
        ow.tensor(CORNERS, shape=(FAR, FAR), format=ow.DCSR).to(format)
    if format.levels[0].full and not format.tiled:
        with pytest.raises(MemoryError):
            ow.empty((FAR, FAR), format=format)


def test_a_range_that_64_bits_do_not_count() -> None:
    n = 2**62
    coords = np.array([[0, 0, 1, 1, 2, 2], [0, n - 1] * 3])
    with pytest.raises(MemoryError, match="more than 64 bits can count"):
        ow.tensor((coords, np.ones(6)), shape=(n, n), format=Format([ow.Compressed, ow.Range]))


def test_left_to_itself_a_matrix_of_many_rows_is_dcsr() -> None:
    with pytest.warns(RuntimeWarning, match="A has 1099511627776 rows and 2 entries") as seen:
        A = ow.tensor(CORNERS, shape=(FAR, FAR), name="A")
    assert A.format == ow.DCSR and seen[0].filename == __file__
    matrix = sparse.coo_array((CORNERS[1], tuple(CORNERS[0])), shape=(FAR, FAR))
    with pytest.warns(RuntimeWarning, match="it is stored as DCSR") as seen:
        assert ow.tensor(matrix).format == ow.DCSR
    assert seen[0].filename == __file__
    assert ow.tensor(CORNERS, shape=(FAR, FAR), format="DCSR").format == ow.DCSR
    assert (A + A).format == ow.DCSR and (A + A).nnz == 2
