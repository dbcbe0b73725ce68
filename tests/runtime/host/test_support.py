"""Checks of index arrays: compiled code and NumPy find the same faults and say the same words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from openwork.errors import DataError
from openwork.runtime.host import support
from openwork.runtime.host.support import check_coordinates, check_positions
from openwork.runtime.host.threads import set_num_threads

Width = type[np.signedinteger[Any]]
WIDTHS: tuple[Width, ...] = (np.int32, np.int64)


@pytest.fixture(params=["compiled", "numpy"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of checking: with a compiler, and without one."""
    way = str(request.param)
    if way == "numpy":
        monkeypatch.setattr(support, "find_toolchain", lambda: None)
    elif support.support_library() is None:
        pytest.skip("no compiler")
    return way


def fault(check: Callable[..., None], *arguments: Any, **options: Any) -> str | None:
    """What `check` says against its arguments, or None."""
    try:
        check(*arguments, **options)
    except DataError as error:
        return str(error)
    return None


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("values", "last", "message"),
    [
        ([0], 0, None),
        ([0, 0, 0], 0, None),
        ([0, 2, 2, 5], 5, None),
        ([1, 2, 5], 5, "E502: A.pos[0] is 1, but positions begin at 0"),
        ([-1, 2, 5], 5, "E502: A.pos[0] is -1, but positions begin at 0"),
        (
            [0, 3, 2, 5],
            5,
            "E502: A.pos[2] is 2, below A.pos[1], which is 3: positions never decrease",
        ),
        (
            [0, 2, 5],
            6,
            "E502: A.pos[2] is 5, but the last position must be the number of coordinates, 6",
        ),
        ([0], 3, "E502: A.pos[0] is 0, but the last position must be the number of coordinates, 3"),
        ([], 0, "E501: A.pos is empty; even zero segments need one position: 0"),
    ],
)
def test_positions(
    way: str, width: Width, values: list[int], last: int, message: str | None
) -> None:
    pos = np.array(values, dtype=width)
    assert fault(check_positions, pos, last, array="A.pos") == message


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("values", "start"),
    [
        ([0, 2, 1, 0, 4], None),
        ([0, 2, 4, 0, 4], "E503: A.crd[2] is 4, outside its mode of extent 4"),
        ([0, 2, 1, 0, 4], None),
        ([-1, 2, 1, 0, 3], "E503: A.crd[0] is -1, outside its mode of extent 4"),
        ([0, 1, 1, 3, 2], "E504: A.crd[4] is 2, below 3, the coordinate before it in segment 3"),
        ([3, 3, 1, 0, 2], "E504: A.crd[1] is 3, the same as the coordinate before it in segment 1"),
    ],
)
def test_coordinates(way: str, width: Width, values: list[int], start: str | None) -> None:
    pos = np.array([0, 0, 2, 3, 5], dtype=width)
    crd = np.array(values, dtype=width)
    extent = 5 if start is None else 4
    found = fault(check_coordinates, crd, pos, extent, array="A.crd")
    assert (found is None) if start is None else (found or "").startswith(start + "\n  hint:")


def test_order_and_uniqueness_can_be_waived(way: str) -> None:
    falls, repeats = np.array([2, 1, 0]), np.array([0, 1, 1])
    apart = np.array([1, 0, 1])

    def message(crd: Any, **flags: bool) -> str | None:
        return fault(check_coordinates, crd, None, 3, array="crd", **flags)

    assert message(falls, ordered=False) is None
    assert message(repeats, unique=False) is None
    assert message(falls, ordered=False, unique=False) is None
    assert "E504: crd[1] is 1, below 2" in (message(falls, unique=False) or "")
    for crd in (repeats, apart):
        text = "E504: crd[2] is 1, which repeats in its segment (0)"
        assert text in (message(crd, ordered=False) or "")


@pytest.mark.parametrize("pos_width", WIDTHS)
@pytest.mark.parametrize("width", WIDTHS)
def test_extreme_values(way: str, width: Width, pos_width: Width) -> None:
    most = int(np.iinfo(width).max)
    pos = np.array([0, 3], dtype=pos_width)
    good = np.array([0, most - 1, most], dtype=width)
    if width is np.int32:  # an extent beyond what the coordinates can hold bounds nothing
        check_coordinates(good, pos, 2**62, array="A")
    check_coordinates(good[:2], np.array([0, 2]), most, array="A")
    for bad in (most, -1, -most - 1):
        crd = np.array([0, bad, 1], dtype=width)
        found = fault(check_coordinates, crd, pos, most, array="A")
        assert f"E503: A[1] is {bad}," in (found or "")


@pytest.mark.parametrize(
    "data",
    [
        np.zeros(3),
        np.zeros(3, dtype=np.uint32),
        np.zeros((1, 3), dtype=np.int32),
        np.zeros(3, dtype=">i4" if np.little_endian else "<i4"),
        np.array(0),
        np.array([None, 1], dtype=object),
    ],
)
def test_the_wrong_kind_of_array(data: Any) -> None:
    for found in (
        fault(check_positions, data, 0, array="A.pos"),
        fault(check_coordinates, data, None, 3, array="A.crd"),
        fault(check_coordinates, np.arange(3), data, 3, array="A.crd"),
    ):
        assert (found or "").startswith("E501: ")


def test_positions_for_another_length_are_refused(way: str) -> None:
    found = fault(check_coordinates, np.arange(3), np.array([0, 9]), 9, array="A.crd")
    assert found == "E501: A.crd holds 3 coordinates, but its positions end at 9"


def test_arrays_with_strides_are_read_as_they_are(way: str) -> None:
    crd = np.array([0, 99, 1, 99, 2, 99], dtype=np.int32)[::2]
    pos = np.array([0, 99, 3, 99])[::2]
    check_positions(pos, 3, array="pos")
    check_coordinates(crd, pos, 3, array="crd")


def test_unchecked_positions_do_no_harm(way: str) -> None:
    """The check is only promised to be right after `check_positions`, but it never crashes."""
    random = np.random.default_rng(3)
    for _ in range(200):
        pos = random.integers(-(10**6), 10**6, 50).astype(np.int32)
        pos[-1] = 40
        crd = random.integers(0, 9, 40)
        fault(check_coordinates, crd, pos, 9, array="crd")


def expected_fault(crd: Any, pos: Any, extent: int, ordered: bool, unique: bool) -> int:
    """The definition, in plain Python."""
    starts = set(pos.tolist())
    for q, c in enumerate(crd.tolist()):
        if not 0 <= c < extent:
            return q
        if ordered and q > 0 and q not in starts:
            before = int(crd[q - 1])
            if c < before or (unique and c == before):
                return q
    return -1


@pytest.mark.parametrize("pos_width", WIDTHS)
@pytest.mark.parametrize("width", WIDTHS)
def test_random_arrays_agree_with_the_definition(way: str, width: Width, pos_width: Width) -> None:
    random = np.random.default_rng(7)
    for trial in range(150):
        segments, extent = int(random.integers(0, 8)), int(random.integers(1, 40))
        sizes = random.integers(0, min(extent, 9) + 1, segments)
        pos = np.concatenate([[0], np.cumsum(sizes)]).astype(pos_width)
        parts = [np.sort(random.choice(extent, size, replace=False)) for size in sizes]
        crd = np.concatenate([np.zeros(0), *parts]).astype(width)
        if len(crd) and trial % 3:
            crd[random.integers(len(crd))] = random.integers(-2, extent + 2)
        for ordered, unique in ((True, True), (True, False), (False, False)):
            index = expected_fault(crd, pos, extent, ordered, unique)
            found = fault(
                check_coordinates, crd, pos, extent, array="A", ordered=ordered, unique=unique
            )
            if index < 0:
                assert found is None
            else:
                assert found is not None and f"A[{index}] is {crd[index]}," in found


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("width", WIDTHS)
def test_large_arrays_in_parallel(way: str, width: Width, threads: int) -> None:
    rows, per_row = 40_000, 10
    pos = np.arange(0, rows * per_row + 1, per_row).astype(width)
    crd = np.tile(np.arange(per_row) * 7, rows).astype(width)
    set_num_threads(threads)
    try:
        check_positions(pos, len(crd), array="pos")
        check_coordinates(crd, pos, 64, array="crd")
        for index in (0, 1, 16383, 16384, 16385, 131071, 131072, len(crd) - 1):
            for bad, code in ((64, "E503"), (-1, "E503"), (int(crd[index - 1]), "E504")):
                if code == "E504" and index % per_row == 0:
                    continue
                copy = crd.copy()
                copy[index] = bad
                found = fault(check_coordinates, copy, pos, 64, array="crd")
                assert (found or "").startswith(f"{code}: crd[{index}] is {bad},")
    finally:
        set_num_threads(None)


def tuples(rng: np.random.Generator, count: int, modes: int, types: tuple[Any, ...]) -> list[Any]:
    drawn = rng.integers(0, 1 + round(count ** (1 / modes)) * 2, (modes, count))
    drawn = np.unique(drawn, axis=1)
    return [column.astype(types[n % len(types)]) for n, column in enumerate(drawn)]


@pytest.mark.parametrize("types", [("int32",), ("int64",), ("int8", "int32"), ("int32", "int64")])
def test_tuples(way: str, types: Any) -> None:
    """Entries in order, in segments of any length, with one of them moved or repeated."""
    rng = np.random.default_rng(5)
    for count, modes in [(0, 2), (1, 2), (2, 1), (40, 2), (60, 3), (3000, 2), (5000, 3)]:
        if "int8" in types and count > 60:
            continue
        parts = [tuples(rng, count // 3 + 1 if count else 0, modes, types) for _ in range(3)]
        columns = [np.concatenate([part[n] for part in parts]) for n in range(modes)]
        lengths = [0, len(parts[0][0]), 0, len(parts[1][0]), len(parts[2][0])]
        pos = np.cumsum([0, *lengths]).astype(rng.choice(["int32", "int64"]))
        support.check_tuples(columns, pos, array="A")
        for segment in parts:
            support.check_tuples(segment, None, array="A")
        for n in rng.integers(1, max(len(columns[0]), 2), 5).tolist():
            if n >= len(columns[0]) or n in pos:
                continue
            bad = [column.copy() for column in columns]
            for column in bad:
                column[n] = column[n - 1]
            with pytest.raises(DataError, match=f"E504: entry {n} of A is a duplicate"):
                support.check_tuples(bad, pos, array="A")
            swapped = [column.copy() for column in columns]
            for column in swapped:
                column[[n - 1, n]] = column[[n, n - 1]]
            with pytest.raises(DataError, match=r"E504: entry .* is out of order"):
                support.check_tuples(swapped, pos, array="A")
