"""Conversions through lists: every pair of formats gives the arrays that NumPy packs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.choices import in_turns

import openwork as ow
from openwork.format.levels import Entries, Packed
from openwork.format.levels.width import INT32_LIMIT
from openwork.runtime.host import launch
from openwork.runtime.storage import Storage
from openwork.tensor.convert import convert as conversion, list_kernels as programs, lists
from openwork.tensor.convert.pack import differs, pack, unpack
from openwork.tensor.convert.sort_entries import Key

Lengths = ow.LIL.levels[1]

MATRICES = [
    ow.CSR, ow.CSC, ow.COO(2), ow.COO(2, order=(1, 0)), ow.DCSR, ow.DCSC, ow.LIL, ow.ELL,
    ow.SELL(4), ow.SELL(2, 8), ow.DIA, ow.banded, ow.bitmap, ow.BSR(2, 2), ow.BSR(2, 3),
    ow.CSB(4, 4), ow.dense(2), ow.dense(2, order=(1, 0)),
    ow.Format([ow.Dense, Lengths], order=(1, 0)),
    ow.Format(ow.DIA.levels, order=(1, 0)),
]  # fmt: skip
TENSORS = [
    ow.CSF(3), ow.CSF(3, order=(2, 0, 1)), ow.CSF(3, order=(0, 2, 1)), ow.COO(3),
    ow.COO(3, order=(2, 1, 0)), ow.dense(3), ow.dense(3, order=(1, 2, 0)),
    ow.Format([ow.Dense, ow.Compressed, ow.Compressed]),
    ow.Format([ow.Dense, ow.Dense, ow.Compressed]),
    ow.Format([ow.Compressed, ow.Compressed, ow.Dense]),
    ow.Format([ow.Compressed, ow.Dense, ow.Compressed], order=(1, 0, 2)),
    ow.Format([ow.Dense, ow.Compressed, ow.Compressed, ow.Dense], (0, 1, 2, 2), (0, 0, 4)),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "LEAST_ENTRIES", 0)
    monkeypatch.setattr(programs, "_LEAST", 3)
    monkeypatch.setattr(launch, "SERIAL_BELOW", -1)
    monkeypatch.setattr(launch, "thread_count", lambda: 3)


def by_numpy(storage: Storage, format: ow.Format, exact: bool) -> Storage:
    coords, values = unpack(storage)
    if storage.format.levels[-1].stuffs and not exact:
        kept = differs(values, storage.fill)
        coords, values = coords[:, kept], values[kept]
    return pack(coords, values, storage.shape, format, storage.fill)


def check(array: Any, source: ow.Format, target: ow.Format, fill: Any = 0) -> None:
    A = ow.tensor(array, format=source, fill=fill, name="A")
    for exact in (False, True):
        got = lists.by_lists(A.storage, target, exact)
        wanted = by_numpy(A.storage, target, exact)
        assert got is not None
        assert (got.format, got.dtype, got.shape) == (target, wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(got.values, wanted.values)
        assert got.values.dtype == wanted.values.dtype
        for ours, theirs in zip(got.levels, wanted.levels, strict=True):
            assert ours.keys() == theirs.keys()
            for name, found in ours.items():
                np.testing.assert_array_equal(found, theirs[name], err_msg=name)
                assert found.dtype == theirs[name].dtype


def scattered(shape: tuple[int, ...], density: float = 0.3) -> Any:
    rng = np.random.default_rng(7)
    return rng.integers(1, 9, shape) * (rng.random(shape) < density)


@pytest.mark.parametrize("source", MATRICES, ids=repr)
def test_matrices(source: ow.Format) -> None:
    array = scattered((13, 10)).astype(float)
    array[[5, 12]] = 0
    array[:, 3] = 0
    for one, target in in_turns(MATRICES, MATRICES, len(MATRICES) // 2):
        if one == source != target:
            check(array, source, target)


@pytest.mark.parametrize("source", TENSORS, ids=repr)
def test_tensors(source: ow.Format) -> None:
    array = scattered((5, 6, 7), 0.2)
    for target in TENSORS:
        if target != source:
            check(array, source, target)


@pytest.mark.parametrize("shape", [(4, 5), (0, 5), (5, 0), (0, 0)], ids=str)
def test_without_entries(shape: tuple[int, int]) -> None:
    for source, target in product(MATRICES[::2], MATRICES[1::2]):
        check(np.zeros(shape), source, target)


def test_tensors_without_entries() -> None:
    for shape in ((3, 0, 2), (2, 3, 4)):
        for source, target in product(TENSORS[::2], TENSORS[1::2]):
            check(np.zeros(shape, np.int8), source, target)


TYPES = ["bool", "int8", "uint16", "float32", "complex64", "complex128"]
WAYS = [(ow.BSR(2, 3), ow.CSC), (ow.DIA, ow.COO(2)), (ow.dense(2), ow.LIL)]


@pytest.mark.parametrize(("dtype", "formats"), in_turns(TYPES, WAYS, 1))
def test_elements(dtype: str, formats: tuple[ow.Format, ow.Format]) -> None:
    array = scattered((9, 8)).astype(dtype)
    check(array, *formats)
    check(array, *formats[::-1])


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_widths_of_coordinates(bits: int) -> None:
    narrow = ow.Format([ow.Dense, ow.Compressed(bits=bits)])
    array = scattered((9, 8))
    for other in (ow.COO(2), ow.CSC, ow.DCSR, ow.BSR(2, 2), ow.LIL, ow.ELL):
        check(array, narrow, other)
        check(array, other, narrow)


@pytest.mark.parametrize("fill", [np.inf, np.nan, -0.0, 2.0])
def test_fills(fill: float) -> None:
    array = scattered((9, 8)).astype(float)
    array[array == 0] = fill
    for source, target in product([ow.dense(2), ow.BSR(2, 3), ow.banded, ow.COO(2)], repeat=2):
        if source != target:
            check(array, source, target, fill)


def test_64_bits_where_32_do_not_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(INT32_LIMIT, "value", 9)
    for source, target in product([ow.CSR, ow.COO(2), ow.BSR(2, 2), ow.bitmap, ow.DIA], repeat=2):
        if source != target:
            check(scattered((13, 10)), source, target)
            check(scattered((3, 4)), source, target)


def test_values_are_copied_and_duplicates_left_to_others() -> None:
    A = ow.tensor(scattered((9, 8)), format=ow.COO(2), name="A")
    made = A.to(ow.Format([ow.Dense, Lengths]))
    assert not np.shares_memory(made.storage.values, A.storage.values)
    twice = ow.Format([ow.Dense, ow.Compressed(unique=False)])
    runs = ow.Format([ow.Compressed(unique=False), ow.Compressed])
    for format in (twice, runs):
        assert lists.by_lists(ow.tensor(np.eye(3), format=format).storage, ow.CSR, False) is None


@dataclass(frozen=True, repr=False)
class _Delta(type(ow.Compressed)):  # type: ignore[misc]
    """Coordinates counted from that of the row, with arrays that are called like others."""

    name = "Delta"
    appends = False

    def coordinate(self, a: Any, parent: Any, position: Any) -> Any:
        return a.crd[position] + parent

    def pack(self, entries: Entries) -> Packed:
        packed = super().pack(entries)
        crd = packed.arrays["crd"] - entries.parent.astype(np.int32)
        return Packed({**packed.arrays, "crd": crd}, packed.places, packed.count)


def test_levels_of_others_are_read_by_formula_and_packed_by_themselves() -> None:
    delta = ow.Format([ow.Dense, _Delta()])
    array = scattered((9, 8))
    assert lists.by_lists(ow.tensor(array, format=ow.CSR).storage, delta, False) is None
    for target in (ow.CSC, ow.COO(2), ow.ELL):
        check(array, delta, target)


def test_extents_far_beyond_the_entries_are_not_counted() -> None:
    wide = ow.tensor((np.array([[1, 5], [7, 2], [3, 4]]), np.array([1.0, 2.0])), shape=(10**9,) * 3)
    made = wide.to(ow.CSF(3, order=(2, 1, 0)))
    assert [level["crd"].tolist() for level in made.storage.levels] == [[3, 4], [7, 2], [1, 5]]


def test_what_is_sorted_by() -> None:
    i, j, k = Key(0), Key(1), Key(2)
    block, within = Key(0, 0, 4), Key(0, 1, 4)
    passes = programs.passes_to
    assert passes((i, j, k), (i, j, k)) == ()
    assert passes((i, j, k), (k, i, j)) == (k,)
    assert passes((i, j, k), (i, k, j)) == (i, k)
    assert passes((i, j), (block, j, within)) == (block, j)
    assert passes((block, j, within), (i, j)) == (i,)
    assert passes((Key(0, 0, 2), Key(0, 1, 2)), (block, within)) == (block, within)
    assert passes(None, (i, j)) == (i, j)


def test_nothing_goes_through_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    array = scattered((13, 10))
    tensors = [ow.tensor(array, format=format, name="A") for format in MATRICES]
    monkeypatch.delattr(conversion, "by_numpy")
    for A, target in in_turns(tensors, MATRICES, 4):
        if not (A.format.is_dense and target.is_dense):
            assert A.to(target).format == target


_C, _S, _D = ow.Compressed, ow.Singleton, ow.Dense
REPEATING = [
    ow.Format([_C(unique=False), *below])
    for below in ([_S, _D], [_D, _D], [_D, _C], [_S(unique=False), _D], [_S, _C], [_C, _D])
] + [ow.Format([_D, _C(unique=False), _D]), ow.Format([_D, _C(unique=False), _S])]


@pytest.mark.parametrize("least", [0, 1 << 18])
@pytest.mark.parametrize("format", REPEATING, ids=str)
def test_blocks_below_coordinates_that_may_repeat(
    format: ow.Format, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries with the same coordinates above share a block, whose rest would hide the others."""
    monkeypatch.setattr(conversion, "LEAST_ENTRIES", least)
    rng = np.random.default_rng(7)
    a = np.where(rng.random((3, 4, 3)) < 0.4, rng.integers(1, 9, (3, 4, 3)), 0).astype(float)
    made = ow.tensor(a, format=ow.CSF(3)).to(format)
    assert np.array_equal(made.to_numpy(), a)
    assert np.array_equal(made.to(ow.COO(3)).to_numpy(), a)
    assert np.array_equal((made @ np.arange(1.0, 4.0)).to_numpy(), a @ np.arange(1.0, 4.0))
