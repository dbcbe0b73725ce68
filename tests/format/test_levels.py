"""Every level: what is packed comes back, wrong arrays are refused by name, text reads back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openwork as ow
from openwork.format.formats import parse_format
from openwork.tensor.convert.convert import convert
from openwork.tensor.convert.pack import from_dense, pack, to_dense, unpack
from openwork.tensor.exchange.validate import validate

VECTORS = [
    ow.CSF(1),
    ow.Format([ow.Bitmap]),
    ow.Format([ow.Range]),
    ow.Format([ow.Compressed(bits=8)]),
    ow.Format([ow.Padded]),
    ow.Format([ow.Sliced(3)]),
    ow.Format([ow.Lengths]),
    ow.Format([ow.Permuted(3)]),
    ow.Format([ow.Compressed, ow.Dense], (0, 0), (3,)),
]
MATRICES = [
    ow.CSR,
    ow.CSC,
    ow.DCSR,
    ow.COO(2),
    ow.COO(2, order=(1, 0)),
    ow.BSR(3, 2),
    ow.BSR(1, 4),
    ow.CSB(4, 8),
    ow.CSB(256, 256),
    ow.SELL(4),
    ow.SELL(4, 8),
    ow.SELL(32, 7),
    ow.ELL,
    ow.DIA,
    ow.LIL,
    ow.banded,
    ow.ragged,
    ow.bitmap,
    ow.dense(2, (1, 0)),
    ow.Format([ow.Compressed(bits=16), ow.Dense]),
    ow.Format([ow.Compressed, ow.Bitmap]),
    ow.Format([ow.Bitmap, ow.Compressed]),
    ow.Format([ow.Compressed, ow.Padded]),
    ow.Format([ow.Compressed, ow.Sliced(2)], order=(1, 0)),
    ow.Format([ow.Dense, ow.Padded(bits=16)]),
    ow.Format([ow.Dense, ow.Sliced(3, bits=8)]),
    ow.Format([ow.Padded, ow.Dense]),
    ow.Format([ow.Permuted(4), ow.Compressed]),
    ow.Format([ow.Permuted(4), ow.Dense]),
    ow.Format([ow.Compressed(unique=False), ow.Singleton(bits=8)]),
    ow.Format([ow.Range, ow.Range]),
    ow.Format([ow.Compressed, ow.Ragged]),
    ow.Format([ow.Range, ow.Lengths(bits=64)]),
    ow.Format([ow.Dense] * 4, (0, 1, 0, 1), (2, 3)),
    ow.Format([ow.Compressed, ow.Dense, ow.Compressed], (0, 1, 0), (3, 0)),
]
CUBES = [
    ow.CSF(3),
    ow.COO(3),
    ow.COO(3, order=(2, 0, 1)),
    ow.Format([ow.Dense, ow.Padded, ow.Compressed]),
    ow.Format([ow.Compressed, ow.Sliced(4), ow.Range]),
    ow.Format([ow.Bitmap, ow.Lengths, ow.Bitmap]),
    ow.Format([ow.Compressed, ow.Compressed(unique=False), ow.Singleton]),
]
EVERY = [(1, f) for f in VECTORS] + [(2, f) for f in MATRICES] + [(3, f) for f in CUBES]


def numbers(ndim: int, seed: int) -> Any:
    """An array that is empty, sparse or full, with an extent of 0 now and then."""
    rng = np.random.default_rng([ndim, seed])
    shape = tuple(rng.integers(0 if seed < 3 else 1, 9, size=ndim))
    density = rng.choice([0, 0.1, 0.4, 1])
    return np.where(rng.random(shape) < density, rng.integers(1, 9, shape), 0).astype(float)


@pytest.mark.parametrize(("ndim", "format"), EVERY, ids=str)
def test_what_is_packed_comes_back(ndim: int, format: ow.Format) -> None:
    for seed in range(12):
        array = numbers(ndim, seed)
        storage = from_dense(array, format)
        validate(storage, "A")
        np.testing.assert_array_equal(to_dense(storage), array)
        coords, values = unpack(storage)
        assert storage.nnz == len(values)
        again = pack(coords, values, array.shape, format)
        for one, other in zip(storage.levels, again.levels, strict=True):
            assert {k: a.tolist() for k, a in one.items()} == {
                k: a.tolist() for k, a in other.items()
            }
        np.testing.assert_array_equal(to_dense(convert(storage, ow.CSF(ndim))), array)


@pytest.mark.parametrize(("ndim", "format"), EVERY, ids=str)
def test_duplicates_are_added_and_zeros_stay(ndim: int, format: ow.Format) -> None:
    coords = np.array([[3, 0, 3, 2]] * ndim)
    storage = pack(coords, np.array([1.0, 0.0, 2.0, 5.0]), (5,) * ndim, format)
    validate(storage, "A")
    found, values = unpack(storage)
    stored = {tuple(map(int, c)): v for c, v in zip(found.T, values, strict=True)}
    assert stored[(3,) * ndim] == 3
    assert stored[(0,) * ndim] == 0
    assert stored[(2,) * ndim] == 5


@pytest.mark.parametrize(("ndim", "format"), EVERY, ids=str)
def test_arrays_make_the_tensor_again(ndim: int, format: ow.Format) -> None:
    array = numbers(ndim, 5)
    storage = from_dense(array, format)
    again = ow.from_arrays(format, array.shape, storage.levels, storage.values)
    np.testing.assert_array_equal(again.to_numpy(), array)


@pytest.mark.parametrize(("ndim", "format"), EVERY, ids=str)
def test_text_reads_back(ndim: int, format: ow.Format) -> None:
    assert parse_format(str(format)) == format
    assert eval(repr(format), {"ow": ow}) == format  # noqa: S307 - our own text


@pytest.mark.parametrize(("ndim", "format"), EVERY, ids=str)
def test_every_format_is_drawn_and_has_a_type(ndim: int, format: ow.Format) -> None:
    for seed in range(6):
        A = ow.tensor(numbers(ndim, seed), format=format, name="A")
        lines = A.draw().splitlines()
        assert lines[1].strip() == f"type      {format.type('float64', A.shape)}"
        named = {fact.name for level in format.levels for fact in level.arrays}
        assert named <= {line.split()[0] for line in lines if line.strip()}
        shown = lines[-1].split()[1:]
        if A.storage.values.size <= 24 and "|" in shown:
            cells = [cell for cell in shown if cell not in ("|", ":", "empty")]
            if "empty" not in shown:
                assert len(cells) == A.storage.values.size
                assert len(cells) - cells.count(".") == A.nnz


# --- Arrays from outside -----------------------------------------------------------------------

POS, CRD, ONES = [0, 2, 2, 3], [0, 3, 1], [1.0, 2.0, 3.0]
LISTS = {"len": [2, 0, 1], "pos": POS, "crd": CRD}
WIDE = {"len": [2, 0, 1], "width": [2], "crd": [0, 0, 1, 3, 0, 0]}
SLICES = {"len": [2, 0, 1], "slice": [0, 4, 6], "crd": [0, 0, 3, 0, 1, 0]}
BAND = {"pos": POS, "lo": [0, 0, 1]}
LINES = {"lo": [1, 0, 0], "hi": [3, 3, 2], "count": [3], "offset": [-1, 0, 2]}
BITS = {"bit": [1, 0, 0, 1] * 3}
PAIRS = {"pos": [0, 3], "crd": [0, 0, 2]}
BLOCKS: list[Any] = [{}, {"pos": [0, 1, 2], "crd": [0, 1]}, {}, {}]


def below(arrays: dict[str, Any], **changes: Any) -> list[Any]:
    """Arrays of a level below a dense one, some of them changed."""
    return [{}, {**arrays, **changes}]


def pairs(second: Any = (0, 3, 1), **changes: Any) -> list[Any]:
    return [{**PAIRS, **changes}, {"crd": list(second)}]


def blocks(**changes: Any) -> list[Any]:
    return [{}, {**BLOCKS[1], **changes}, {}, {}]


SIX, TWELVE, LINED = [1.0] * 6, [1.0] * 12, [1.0] * 48
RANKS = {"rank": [2, 0, 1], "kept": [1, 2, 0]}


def ranked(changes: dict[str, list[int]]) -> list[Any]:
    return [RANKS | changes, (POS, CRD)]


PERMUTED = ow.Format([ow.Permuted(4), ow.Compressed])
CASES: list[tuple[ow.Format, list[Any], Any, str, str]] = [
    (ow.LIL, below(LISTS, len=[2, 0]), ONES, "E501", "levels[1].len has 2 entries"),
    (ow.LIL, below(LISTS, len=[2, 1, 1]), ONES, "E502", "levels[1].len[1] is 1"),
    (ow.LIL, below(LISTS, len=[2, 0, -1]), ONES, "E502", "levels[1].len[2] is -1"),
    (ow.LIL, below(LISTS, pos=[0, 2, 1, 3]), ONES, "E502", "levels[1].pos[2] is 1"),
    (ow.LIL, below(LISTS, pos=[0, 2, 2, 7]), ONES, "E502", "levels[1].pos[3] is 7"),
    (ow.LIL, below(LISTS, crd=[0, 4, 1]), ONES, "E503", "levels[1].crd[1] is 4"),
    (ow.LIL, below(LISTS, crd=[3, 0, 1]), ONES, "E504", "levels[1].crd[1] is 0"),
    (ow.LIL, below(LISTS), ONES[:2], "E505", "values has 2 elements"),
    (ow.ELL, below(WIDE, len=[2, 0]), SIX, "E501", "levels[1].len has 2 entries"),
    (ow.ELL, below(WIDE, len=[3, 0, 1]), SIX, "E502", "levels[1].len[0] is 3"),
    (ow.ELL, below(WIDE, len=[2, 0, -1]), SIX, "E502", "levels[1].len[2] is -1"),
    (ow.ELL, below(WIDE, width=[2, 2]), SIX, "E501", "levels[1].width has 2 entries"),
    (ow.ELL, below(WIDE, width=[]), SIX, "E501", "levels[1].width has 0 entries"),
    (ow.ELL, below(WIDE, width=[3]), SIX, "E501", "levels[1].crd has 6 entries, but needs 9"),
    (ow.ELL, below(WIDE, crd=[0, 0, 1, 9, 0, 0]), SIX, "E503", "levels[1].crd[3] is 9"),
    (ow.ELL, below(WIDE, crd=[3, 0, 1, 0, 0, 0]), SIX, "E504", "levels[1].crd[3] is 0"),
    (ow.ELL, below(WIDE), ONES, "E505", "values has 3 elements"),
    (ow.SELL(2), below(SLICES, slice=[0, 6]), SIX, "E501", "levels[1].slice has 2 entries"),
    (ow.SELL(2), below(SLICES, slice=[2, 4, 6]), SIX, "E502", "levels[1].slice does not increase"),
    (ow.SELL(2), below(SLICES, slice=[0, 3, 6]), SIX, "E502", "levels[1].slice does not increase"),
    (ow.SELL(2), below(SLICES, slice=[0, 4, 2]), SIX, "E502", "levels[1].slice does not increase"),
    (ow.SELL(2), below(SLICES, len=[2, 0, 2]), SIX, "E502", "levels[1].len[2] is 2"),
    (ow.SELL(2), below(SLICES, len=[-1, 0, 1]), SIX, "E502", "levels[1].len[0] is -1"),
    (ow.SELL(2), below(SLICES, crd=[0, 0, 3, 0]), SIX, "E501", "levels[1].crd has 4 entries"),
    (ow.SELL(2), below(SLICES, crd=[0, 0, 3, 0, 4, 0]), SIX, "E503", "levels[1].crd[4] is 4"),
    (ow.SELL(2), below(SLICES, crd=[3, 0, 3, 0, 1, 0]), SIX, "E504", "levels[1].crd[2] is 3"),
    (ow.banded, below(BAND, pos=[0, 2, 1, 3]), ONES, "E502", "levels[1].pos[2] is 1"),
    (ow.banded, below(BAND, pos=[1, 2, 2, 3]), ONES, "E502", "levels[1].pos[0] is 1"),
    (ow.banded, below(BAND, pos=[0, 0, 0, -1]), ONES, "E502", "levels[1].pos[3] is -1"),
    (ow.ragged, [{}, {"pos": [0, 2, 1, 3]}], ONES, "E502", "levels[1].pos[2] is 1"),
    (ow.ragged, [{}, {"pos": [0, 0, 0, 5]}], np.ones(5), "E502", "exceeds the extent 4"),
    (ow.banded, below(BAND, lo=[3, 0, 1]), ONES, "E502", "levels[1].lo[0] is 3"),
    (ow.banded, below(BAND, lo=[-1, 0, 1]), ONES, "E502", "levels[1].lo[0] is -1"),
    (ow.banded, below(BAND, lo=[0, 0]), ONES, "E501", "levels[1].lo has 2 entries"),
    (ow.DIA, below(LINES, offset=[0, -1, 2]), LINED, "E502", "levels[1].offset is not increasing"),
    (ow.DIA, below(LINES, offset=[0, 0, 2]), LINED, "E502", "levels[1].offset is not increasing"),
    (ow.DIA, below(LINES, offset=[0, 2]), LINED, "E501", "levels[1].offset has 2 entries"),
    (ow.DIA, below(LINES, count=[]), LINED, "E501", "levels[1].count has 0 entries"),
    (ow.DIA, below(LINES, lo=[0, 0, 0]), LINED, "E502", "levels[1].lo[0] is 0"),
    (ow.DIA, below(LINES, hi=[3, 3, 3]), LINED, "E502", "levels[1].hi[2] is 3"),
    (ow.DIA, below(LINES), ONES, "E505", "values has 3 elements"),
    (ow.bitmap, below(BITS, bit=[1, 0, 2, 1] * 3), TWELVE, "E502", "levels[1].bit[2] is 2"),
    (ow.bitmap, below(BITS, bit=[1, -1, 0, 1] * 3), TWELVE, "E502", "levels[1].bit[1] is -1"),
    (ow.bitmap, below(BITS, bit=[1] * 11), TWELVE, "E501", "levels[1].bit has 11 entries"),
    (ow.COO(2), pairs((0, 3)), ONES, "E501", "levels[1].crd has 2 entries"),
    (ow.COO(2), pairs((0, 4, 1)), ONES, "E503", "levels[1].crd[1] is 4"),
    (ow.COO(2), pairs((0, -3, 1)), ONES, "E503", "levels[1].crd[1] is -3"),
    (ow.COO(2), pairs((3, 0, 1)), ONES, "E504", "entry 1 of A"),
    (ow.COO(2), pairs((3, 3, 1)), ONES, "E504", "entry 1 of A is a duplicate"),
    (ow.COO(2), pairs(crd=[0, 5, 2]), ONES, "E503", "levels[0].crd[1] is 5"),
    (ow.COO(2), pairs(crd=[2, 0, 0]), ONES, "E504", "levels[0].crd[1] is 0"),
    (ow.COO(2), pairs(pos=[0, 3, 3]), ONES, "E501", "levels[0].pos has 3 entries"),
    (
        PERMUTED,
        ranked({"rank": [0, 1, 1]}),
        ONES,
        "E502",
        "levels[0].rank is not a perm",
    ),
    (
        PERMUTED,
        ranked({"rank": [0, 1, 7]}),
        ONES,
        "E502",
        "levels[0].rank is not a perm",
    ),
    (
        PERMUTED,
        ranked({"rank": [0, 1]}),
        ONES,
        "E501",
        "levels[0].rank has 2 entries",
    ),
    (
        PERMUTED,
        ranked({"kept": [0, 1, 2]}),
        ONES,
        "E502",
        "levels[0].kept is not the inverse",
    ),
    (PERMUTED, ranked({"kept": [0, 1, 3]}), ONES, "E502", "levels[0].kept has coord"),
    (
        PERMUTED,
        ranked({"kept": [0, -1, 2]}),
        ONES,
        "E502",
        "levels[0].kept has coord",
    ),
    (ow.BSR(2, 3), blocks(crd=[0, 2]), TWELVE, "E503", "levels[1].crd[1] is 2"),
    (ow.BSR(2, 3), blocks(pos=[0, 1, 2, 2]), TWELVE, "E501", "levels[1].pos has 4 entries"),
    (ow.BSR(2, 3), blocks(pos=[0, 2, 1]), TWELVE, "E502", "levels[1].pos[2] is 1"),
    (ow.BSR(2, 3), BLOCKS, ONES, "E505", "values has 3 elements"),
    (ow.BSR(2, 3), BLOCKS[:2], TWELVE, "E501", "4 levels"),
    (ow.ELL, [{}, {"len": [2, 0, 1]}], SIX, "E501", "crd, len, width, but len was given"),
    (ow.ELL, below(WIDE, crd=[0.5] * 6), SIX, "E501", "levels[1].crd has 1 dimensions"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]!r}-{case[4]}")
def test_malformed_arrays_are_refused_by_name(case: Any) -> None:
    format, levels, values, code, piece = case
    with pytest.raises(ow.DataError) as caught:
        ow.from_arrays(format, (3, 4), levels, values, name="A")
    assert caught.value.code == code
    assert piece in str(caught.value)


def test_the_arrays_of_the_cases_are_right_before_they_are_changed() -> None:
    for format, levels, values in [
        (ow.LIL, below(LISTS), ONES),
        (ow.ELL, below(WIDE), SIX),
        (ow.SELL(2), below(SLICES), SIX),
        (ow.banded, below(BAND), ONES),
        (ow.DIA, below(LINES), LINED),
        (ow.bitmap, below(BITS), TWELVE),
        (ow.COO(2), pairs(), ONES),
        (ow.BSR(2, 3), BLOCKS, TWELVE),
        (PERMUTED, ranked({}), ONES),
    ]:
        assert ow.from_arrays(format, (3, 4), levels, values).format == format


BIG, BIGGEST = 2**31 - 1, 2**63 - 1


@pytest.mark.parametrize(
    ("format", "arrays", "count", "piece"),
    [
        (ow.ELL, {"len": [9, 0], "width": np.array([2**30 * 2], "int64"), "crd": []}, 0, "crd"),
        (ow.ELL, {"len": [9, 0], "width": np.array([2**30], "int32"), "crd": []}, 0, "crd has 0"),
        (ow.ELL, {"len": [9, 0], "width": [2**62], "crd": []}, 0, "than 64 bits count"),
        (ow.banded, {"pos": [0, 1, 1], "lo": np.array([BIG, 0], "int32")}, 1, f"lo[0] is {BIG}"),
        (ow.banded, {"pos": [0, 1, 1], "lo": [BIGGEST, 0]}, 1, f"lo[0] is {BIGGEST}"),
        (
            ow.DIA,
            {
                "lo": [0, 0],
                "hi": [2, 2],
                "count": [2],
                "offset": np.array([BIG, -BIG - 1], "int32"),
            },
            4,
            "offset is not increasing",
        ),
        (
            ow.SELL(1),
            {"len": [0, 0], "slice": np.array([0, -BIG, BIG], "int32"), "crd": []},
            0,
            "slice does not increase",
        ),
    ],
)
def test_numbers_that_overflow_are_refused(
    format: ow.Format, arrays: Any, count: int, piece: str
) -> None:
    with pytest.raises(ow.DataError) as caught:
        ow.from_arrays(format, (2, 4), [{}, arrays], np.ones(count), name="A")
    assert piece in str(caught.value)


def test_narrow_arrays_are_counted_in_64_bits() -> None:
    width = {"len": np.zeros(4, "int8"), "width": np.array([100], "int8")}
    A = ow.from_arrays(
        ow.ELL, (4, 200), [{}, {**width, "crd": np.zeros(400, "int8")}], np.ones(400)
    )
    assert A.nnz == 0
    lists = {"len": [1, 1], "pos": [0, 1, 2], "crd": [0, 1]}
    narrow = {name: np.array(array, "int8") for name, array in lists.items()}
    B = ow.from_arrays(ow.LIL, (2, 2), [{}, narrow], [1.0, 2.0])
    assert B.to_numpy().tolist() == [[1, 0], [0, 2]]


def test_bands_in_modes_that_are_long() -> None:
    arrays = {"pos": np.array([0, 1], "int32"), "lo": [2**40]}
    A = ow.from_arrays(ow.banded, (1, 2**41), [{}, arrays], [1.0])
    assert A.to_coo()[0].tolist() == [[0], [2**40]]


def test_permuted_is_for_the_outermost_level() -> None:
    with pytest.raises(ow.FormatError, match=r"E401: Permuted\(2\) can only be the outermost"):
        ow.Format([ow.Dense, ow.Permuted(2)])


# --- Formats that cannot be --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "piece"),
    [
        (lambda: ow.Compressed(bits=7), "7 is not a coordinate width"),
        (lambda: ow.Padded(bits=0), "0 is not a coordinate width"),
        (lambda: ow.Singleton(bits="16"), "'16' is not a coordinate width"),
        (lambda: ow.Compressed(colour=3), "Compressed:"),
        (lambda: ow.Sliced(0), "0 is not a number of runs in a slice"),
        (lambda: ow.Sliced(True), "True is not a number of runs"),
        (lambda: ow.Permuted(-1), "-1 is not a window length"),
        (lambda: ow.SELL(0), "0 is not a number of rows in a slice"),
        (lambda: ow.SELL(4, 0), "0 is not a number of rows in a window"),
        (lambda: ow.BSR(0, 2), "0 is not a number of rows of a block"),
        (lambda: ow.BSR(2, 1.5), "1.5 is not a number of columns of a block"),
        (lambda: ow.COO(0), "0 is not a number of modes"),
        (lambda: ow.Format([ow.Dense] * 2, (0, 1), (2, 2)), "does not name each of the 2 modes"),
        (lambda: ow.Format([ow.Dense] * 3, (0, 1, 0), (0, 2)), "twice where there are blocks"),
        (lambda: ow.Format([ow.Dense] * 2, (0, 1), (-2, 0)), "are not block sizes"),
        (lambda: ow.Format([ow.Dense] * 2, (0, 1), (True, 0)), "are not block sizes"),
        (lambda: ow.Format([ow.Dense, "Compressed"]), "'Compressed' is not a level"),
        (lambda: ow.Format([ow.Dense, ow.Dense], (0, 0)), "does not name each of the 2 modes"),
    ],
)
def test_formats_that_cannot_be(make: Any, piece: str) -> None:
    with pytest.raises(ow.FormatError) as caught:
        make()
    assert caught.value.code == "E401"
    assert piece in str(caught.value)


@pytest.mark.parametrize(
    "text", ["CSX", "Dense, Nothing", "Sliced(two)(0)", "Dense(0", "BSR(2)", "CSR(2)", ""]
)
def test_text_that_is_no_format(text: str) -> None:
    if text:
        with pytest.raises(ow.FormatError, match=r"E403|E401"):
            parse_format(text)
    else:
        assert parse_format(text) == ow.dense(0)


@pytest.mark.parametrize(
    ("level", "extent"),
    [
        (ow.Compressed(bits=8), 129),
        (ow.Compressed(bits=16), 2**15 + 1),
        (ow.Compressed(bits=32), 2**31 + 1),
        (ow.Lengths(bits=8), 129),
        (ow.Padded(bits=8), 129),
        (ow.Sliced(2, bits=16), 2**15 + 1),
    ],
    ids=str,
)
def test_widths_that_do_not_reach(level: ow.Level, extent: int) -> None:
    coords, values = np.array([[0], [extent - 1]]), np.ones(1)
    with pytest.raises(ow.FormatError, match=f"cannot cover an extent of {extent}"):
        ow.tensor((coords, values), shape=(2, extent), format=ow.Format([ow.Dense, level]))
    shape = (2, extent - 1)
    A = ow.tensor((coords - [[0], [1]], values), shape=shape, format=ow.Format([ow.Dense, level]))
    assert A.storage.levels[1]["crd"].dtype == f"int{level.bits}"


@pytest.mark.parametrize(
    "levels",
    [
        [ow.Dense, ow.Singleton],
        [ow.Compressed, ow.Singleton],
        [ow.Bitmap, ow.Singleton],
        [ow.Singleton, ow.Compressed],
    ],
    ids=str,
)
def test_one_coordinate_for_each_parent_or_none_at_all(levels: list[ow.Level]) -> None:
    with pytest.raises(ow.FormatError, match="E406"):
        ow.tensor([[1.0, 2.0], [3.0, 4.0]], format=ow.Format(levels))


def test_one_coordinate_for_each_parent_where_it_is_true() -> None:
    A = ow.tensor(np.diag([1.0, 2.0, 3.0])[[1, 0, 2]], format=ow.Format([ow.Dense, ow.Singleton]))
    assert A.storage.levels[1]["crd"].tolist() == [1, 0, 2]
    assert A.format.type("float64") == "([int32]_m, [float64]_m)"


# --- Types and drawings ------------------------------------------------------------------------

TYPES = {
    ow.CSR: "([i -> [int32]_(pos[i+1]-pos[i])]_m, [i -> [float64]_(pos[i+1]-pos[i])]_m)",
    ow.CSR.with_layout("packed"): "[i -> [(int32, float64)]_(pos[i+1]-pos[i])]_m",
    ow.CSC: "([j -> [int32]_(pos[j+1]-pos[j])]_n, [j -> [float64]_(pos[j+1]-pos[j])]_n)",
    ow.DCSR: "([int32]_pos0[1], [p -> [int32]_(pos1[p+1]-pos1[p])]_pos0[1], "
    "[p -> [float64]_(pos1[p+1]-pos1[p])]_pos0[1])",
    ow.DCSR.with_layout("packed"): "([int32]_pos0[1], "
    "[p -> [(int32, float64)]_(pos1[p+1]-pos1[p])]_pos0[1])",
    ow.COO(3): "([int32]_pos[1], [int32]_pos[1], [int32]_pos[1], [float64]_pos[1])",
    ow.COO(3).with_layout("packed"): "([int32]_pos[1], [int32]_pos[1], [(int32, float64)]_pos[1])",
    ow.BSR(2, 3): "([ib -> [int32]_(pos[ib+1]-pos[ib])]_(m/2), "
    "[ib -> [[[float64]_3]_2]_(pos[ib+1]-pos[ib])]_(m/2))",
    ow.CSB(2, 300).with_layout("packed"): "([ib -> [int32]_(pos1[ib+1]-pos1[ib])]_(m/2), "
    "[ib -> [q -> [int8]_(pos2[q+1]-pos2[q])]_(pos1[ib+1]-pos1[ib])]_(m/2), "
    "[ib -> [q -> [(int16, float64)]_(pos2[q+1]-pos2[q])]_(pos1[ib+1]-pos1[ib])]_(m/2))",
    ow.ELL: "([i -> [q -> int32]_len[i]]_m, [i -> [q -> float64]_len[i]]_m) where q at i+q*m",
    ow.SELL(4).with_layout("packed"): "[i -> [q -> (int32, float64)]_len[i]]_m "
    "where q at slice[i/4]+i%4+4*q",
    ow.LIL: "([i -> [int32]_len[i]]_m, [i -> [float64]_len[i]]_m)",
    ow.DIA: "[i -> [q -> float64]_(hi[i]-lo[i])]_m where j = i+offset[q], "
    "q at 16*(i/16)*count[0]+16*q+i%16",
    ow.banded: "[i -> [q -> float64]_(pos[i+1]-pos[i])]_m where j = q+lo[i]-pos[i]",
    ow.ragged: "[i -> [float64]_(pos[i+1]-pos[i])]_m",
    ow.lower_triangular: "[i -> [float64]_(i+1)]_m",
    ow.bitmap: "[i -> [j -> float64 if bit[i*n+j] > 0]_n]_m",
    ow.dense(3): "[[[float64]_n2]_n1]_n0",
    ow.dense(0): "float64",
    ow.Format([ow.Permuted(4), ow.Dense]): "[i -> [float64]_n]_m where i at rank[i]",
}


@pytest.mark.parametrize("format", TYPES, ids=repr)
def test_types(format: ow.Format) -> None:
    assert format.type("float64") == TYPES[format]


def test_types_have_numbers_where_the_shape_is_known() -> None:
    assert ow.dense(2).type("bool", (3, 4)) == "[[bool]_4]_3"
    assert ow.BSR(2, 2).type("x", (5, 2**40)) == (
        "([ib -> [int64]_(pos[ib+1]-pos[ib])]_3, [ib -> [[[x]_2]_2]_(pos[ib+1]-pos[ib])]_3)"
    )


def test_types_of_layouts() -> None:
    """An array for each number, or a note where the notation has no word for the order."""
    entry = ow.entry.quaternion("float32")
    assert ow.dense(1).with_layout("SoA").type(entry) == "[[float32]_n]_4"
    assert ow.dense(1).with_layout("AoSoA(8)").type(entry) == (
        "[quaternion<float32>]_n as AoSoA(8)"
    )


SMALL = np.array([[5.0, 0, 6, 0], [0, 0, 0, 0], [0, 7, 8, 9]])
ROWS = {
    ow.CSR: ["pos 0 2 2 5", "crd 0 2 | | 1 2 3 |", "values 5. 6. | | 7. 8. 9. |"],
    ow.COO(2): ["crd 0 0 2 2 2 |", "crd 0 2 1 2 3 |", "values 5. 6. 7. 8. 9. |"],
    ow.SELL(2): ["slice 0 4 10", "crd 0 . : 2 . | 1 . : 2 . : 3 . |"],
    ow.ELL: ["width 3", "values 5. . 7. : 6. . 8. : . . 9. |"],
    ow.DIA: ["offset -1 0 1 2", f"values . 0. 7. {'. ' * 13}: 5. 0. 8. . . . . . ... 40 more"],
    ow.bitmap: ["bit 1 0 1 0 | 0 0 0 0 | 0 1 1 1 |", "values 5. . 6. . | . . . . | . 7. 8. 9. |"],
    ow.banded: ["lo 0 0 1", "values 5. 0. 6. | | 7. 8. 9. |"],
    ow.BSR(2, 2): ["values 5. 0. : 0. 0. | 6. 0. : 0. 0. | 0. 7. : . . | 8. 9. : . . |"],
    ow.CSB(2, 2): ["crd 0 | 0 | 0 | 0 0 |", "values 5. | 6. | 7. | 8. 9. |"],
    ow.SELL(2, 4): ["rank 1 2 0", "crd 1 0 : 2 2 : 3 . |"],
}


@pytest.mark.parametrize("format", ROWS, ids=repr)
def test_drawings(format: ow.Format) -> None:
    lines = [" ".join(row.split()) for row in ow.tensor(SMALL, format=format).draw().splitlines()]
    for row in ROWS[format]:
        assert row in lines


def test_blocks_of_sorted_rows_are_drawn_with_what_overhangs() -> None:
    levels = [ow.Permuted(4), ow.Dense, ow.Dense]
    A = ow.tensor(np.ones((3, 2)), format=ow.Format(levels, (0, 0, 1), (2, 0)), name="A")
    assert A.nnz == 6
    assert A.draw().splitlines()[-1].split().count(".") == 2


def test_long_and_empty_arrays_are_drawn_short() -> None:
    tall = np.zeros((1000, 3))
    tall[990:, 1] = 1
    for format in (ow.CSR, ow.ELL, ow.SELL(4), ow.DIA, ow.bitmap, ow.BSR(2, 2)):
        A = ow.tensor(tall, format=format)
        assert max(map(len, A.draw().splitlines())) < 300
        assert "more" in A.draw()
        assert len(A.draw("svg")) < 40_000
    assert "988 empty" in ow.tensor(tall, format=ow.CSR).draw()
