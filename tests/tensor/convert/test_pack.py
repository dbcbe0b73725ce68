"""Packing, unpacking and conversion, in every mix of levels and mode orders."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse

from openwork.algebra.types import SUPPORTED
from openwork.errors import FormatError
from openwork.format.formats import CSC, CSF, CSR, DCSC, DCSR, Format, dense
from openwork.format.levels import Compressed, Dense
from openwork.format.levels.width import INT32_LIMIT
from openwork.runtime.reference import to_masked
from openwork.runtime.storage import Storage
from openwork.tensor.convert.convert import convert
from openwork.tensor.convert.pack import from_dense, pack, to_dense, unpack
from openwork.tensor.exchange.validate import validate

ALL_FORMATS = {
    ndim: [
        Format(levels, order)
        for levels in product((Dense, Compressed), repeat=ndim)
        for order in permutations(range(ndim))
    ]
    for ndim in range(5)
}


@st.composite
def formats(draw: Any, ndim: int) -> Format:
    return draw(st.sampled_from(ALL_FORMATS[ndim]))


@st.composite
def entries(draw: Any, ndim: int) -> tuple[Any, Any, tuple[int, ...]]:
    """Coordinates with repeats in any order, small integers as values, and a shape."""
    dtype = SUPPORTED[draw(st.sampled_from(sorted(SUPPORTED)))]
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=ndim, max_size=ndim)))
    most = 12 if all(shape) else 0
    count = draw(st.integers(0, most))
    columns = [
        draw(st.lists(st.integers(0, max(n - 1, 0)), min_size=count, max_size=count)) for n in shape
    ]
    low = 0 if dtype.kind in "ub" else -3
    values = draw(st.lists(st.integers(low, 3), min_size=count, max_size=count))
    coords = np.array(columns, dtype=np.int64).reshape(ndim, count)
    return coords, np.array(values, dtype=dtype), shape


def written_out(coords: Any, values: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """What the entries add up to, one at a time, and where there is an entry."""
    out, present = np.zeros(shape, dtype=values.dtype), np.zeros(shape, dtype=bool)
    for at, value in zip(coords.T.tolist(), values, strict=True):
        out[tuple(at)] = out[tuple(at)] + value
        present[tuple(at)] = True
    return out, present


def check(storage: Storage, expected: Any, present: Any) -> None:
    """The arrays are well formed, mean what was packed, and hold no more entries than they must."""
    validate(storage, "A")
    masked = to_masked(storage)
    np.testing.assert_array_equal(masked.values, expected)
    assert storage.values.dtype == expected.dtype
    assert (masked.present | ~present).all()
    if storage.format.levels and not storage.format.levels[-1].full:
        np.testing.assert_array_equal(masked.present, present)
    np.testing.assert_array_equal(to_dense(storage), expected)


@settings(max_examples=250)
@given(st.data(), st.integers(0, 4))
def test_pack_and_unpack(data: Any, ndim: int) -> None:
    coords, values, shape = data.draw(entries(ndim))
    storage = pack(coords, values, shape, data.draw(formats(ndim)))
    expected, present = written_out(coords, values, shape)
    check(storage, expected, present)
    again, there = written_out(*unpack(storage), shape)
    np.testing.assert_array_equal(again, expected)
    assert (there | ~present).all()


@settings(max_examples=250)
@given(st.data(), st.integers(0, 4))
def test_convert(data: Any, ndim: int) -> None:
    coords, values, shape = data.draw(entries(ndim))
    storage = pack(coords, values, shape, data.draw(formats(ndim)))
    other = convert(storage, data.draw(formats(ndim)))
    expected, present = written_out(coords, values, shape)
    out_of_blocks = not ndim or storage.format.levels[-1].full
    if other is not storage:
        check(other, expected, expected != 0 if out_of_blocks else present)
    assert (other is storage) == (other.format == storage.format)


@settings(max_examples=200)
@given(st.data(), st.integers(0, 4), st.sampled_from([0, 2, float("inf"), float("nan")]))
def test_from_dense_takes_what_differs_from_the_fill(data: Any, ndim: int, fill: float) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 3), min_size=ndim, max_size=ndim)))
    numbers = st.sampled_from([0.0, 1.0, 2.0, float("inf"), float("nan")])
    size = int(np.prod(shape))
    array = np.array(data.draw(st.lists(numbers, min_size=size, max_size=size))).reshape(shape)
    storage = from_dense(array, data.draw(formats(ndim)), fill)
    validate(storage, "A")
    np.testing.assert_array_equal(to_dense(storage), array)
    if storage.format.levels and not storage.format.levels[-1].full:
        same = np.isnan(array) if np.isnan(fill) else array == fill
        assert storage.nnz == np.count_nonzero(~same)


def test_explicit_zeros_are_kept_and_absent_blocks_filled() -> None:
    storage = pack(np.array([[0, 1], [1, 0]]), np.array([0.0, 5.0]), (2, 2), CSR)
    assert storage.nnz == 2
    assert convert(storage, CSC).nnz == 2
    assert convert(storage, DCSR).nnz == 2
    rows = pack(np.array([[2], [1]]), np.array([5.0]), (4, 3), Format([Compressed, Dense]), 7.0)
    assert rows.values.tolist() == [7.0, 5.0, 7.0]
    assert convert(rows, CSR).nnz == 1


def test_duplicates_are_added_in_the_type_of_the_values() -> None:
    coords = np.array([[1, 1, 1]])
    assert pack(coords, np.array([True, True, False]), (2,), CSF(1)).values.tolist() == [True]
    assert pack(coords, np.array([100, 100, 1], np.int8), (2,), CSF(1)).values.tolist() == [-55]
    assert pack(coords, np.array([1j, 2, 3]), (2,), CSF(1)).values.tolist() == [5 + 1j]
    scalar = pack(np.zeros((0, 3), dtype=int), np.array([1.0, 2.0, 4.0]), (), dense(0))
    assert scalar.values.tolist() == [7.0]


def test_formats_that_seldom_meet_all_agree() -> None:
    rng = np.random.default_rng(0)
    matrix = sparse.random_array((30, 50), density=0.1, rng=rng, format="coo")
    storage = pack(np.array(matrix.coords), matrix.data, matrix.shape, CSR)
    for format in (CSC, DCSR, DCSC, dense(2), dense(2, (1, 0)), Format([Compressed, Dense])):
        other = convert(storage, format)
        validate(other, "A")
        np.testing.assert_array_equal(to_dense(other), matrix.toarray())
        np.testing.assert_array_equal(to_dense(convert(other, CSR)), matrix.toarray())


def test_extents_too_large_for_one_key() -> None:
    big = 2**40
    coords = np.array([[5, big - 1, 5, 0], [7, 0, 7, big - 1]])
    storage = pack(coords, np.array([1.0, 2.0, 3.0, 4.0]), (big, big), DCSR)
    validate(storage, "A")
    assert storage.levels[1]["crd"].dtype == np.int64
    found, values = unpack(storage)
    assert found.tolist() == [[0, 5, big - 1], [big - 1, 7, 0]]
    assert values.tolist() == [4.0, 4.0, 2.0]
    cube = pack(np.vstack([coords, coords[:1]]), np.ones(4), (big, big, big), CSF(3))
    assert cube.nnz == 3


def test_many_entries_take_every_sorting_path() -> None:
    rng = np.random.default_rng(1)
    for shape in [(50, 40), (10**6, 10**6), (20, 30, 40), (2**30, 2**30, 2**30)]:
        coords = np.stack([rng.integers(0, min(n, 60), 500) % n for n in shape])
        values = rng.integers(1, 9, 500)
        storage = pack(coords, values, shape, CSF(len(shape)))
        validate(storage, "A")
        found, summed = unpack(storage)
        keys = [tuple(c) for c in found.T.tolist()]
        assert keys == sorted(set(map(tuple, coords.T.tolist())))
        assert summed.sum() == values.sum()


def test_index_widths_follow_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(INT32_LIMIT, "value", 100)
    coords = np.array([np.arange(300) % 150, np.arange(300) % 7])
    wide = pack(coords, np.ones(300), (150, 7), DCSR)
    assert [wide.levels[n][k].dtype.name for n in (0, 1) for k in ("pos", "crd")] == [
        *("int64", "int64", "int64", "int32")
    ]
    assert wide.levels[0]["pos"][-1] == 150
    csc = convert(wide, CSC)
    assert csc.levels[1]["crd"].dtype == np.int64
    narrow = pack(coords[:, :50], np.ones(50), (101, 7), CSR)
    assert {narrow.levels[1][k].dtype.name for k in ("pos", "crd")} == {"int32"}
    assert unpack(wide)[0].dtype == np.int64


def test_a_format_for_another_order_is_refused() -> None:
    with pytest.raises(FormatError, match=r"E401.*stores 3 modes, but the tensor has 2"):
        pack(np.zeros((2, 0), dtype=int), np.zeros(0), (2, 2), CSF(3))
    with pytest.raises(FormatError, match="E401"):
        convert(pack(np.zeros((2, 0), dtype=int), np.zeros(0), (2, 2), CSR), CSF(1))


def test_more_positions_than_can_be_counted_is_a_memory_error() -> None:
    huge = (2**40, 2**40)
    with pytest.raises(MemoryError):
        pack(np.zeros((2, 0), dtype=int), np.zeros(0), huge, dense(2))


def test_a_dense_array_is_not_copied() -> None:
    array = np.arange(6.0).reshape(2, 3)
    assert np.shares_memory(from_dense(array, dense(2)).values, array)
    assert np.shares_memory(to_dense(from_dense(array, dense(2))), array)
    assert np.shares_memory(from_dense(array.T, dense(2, (1, 0))).values, array)
