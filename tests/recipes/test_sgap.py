"""Points of Sgap's space: blocks have the threads, entries, columns and groups asked for."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from examples import gpu_schedules as examples

import openwork as ow
from openwork import recipes as r

pytestmark = pytest.mark.needs_cc
rng = np.random.default_rng(0)
MATRIX = sp.random(70, 50, 0.1, format="csr", random_state=rng)


def spmm(columns: int) -> Any:
    B = ow.tensor(np.arange(50.0 * columns).reshape(50, columns) % 9, name="B")
    C = ow.empty((70, columns), name="C")
    return ow.parse("C(i,k) = A(i,j) * B(j,k)", C=C, A=ow.tensor(MATRIX, name="A"), B=B)


def check(stmt: Any, threads: int, *texts: str) -> str:
    """The text of the last kernel, which has blocks of so many threads, and is right."""
    kernel = stmt.compile(target="cuda-emulated")
    text: str = kernel.source[kernel.source.rindex("__launch_bounds__") :]
    assert text.startswith(f"__launch_bounds__({threads})"), kernel.source
    for each in texts:
        assert each in text, text
    columns = stmt.assignment.lhs.tensor.shape[1]
    want = MATRIX @ (np.arange(50.0 * columns).reshape(50, columns) % 9)
    for order in range(3):
        kernel._launcher.device.order = order
        np.testing.assert_allclose(kernel().to_numpy(), want, rtol=1e-12, atol=1e-12)
    return text


def test_a_thread_takes_one_entry_of_a_whole_block() -> None:
    text = check(r.atomic_parallel(spmm(4), nnz=1, col=4, group=32, threads=256), 256, ", 32>(")
    assert "+= 32" not in text and "+= 256" not in text  # no thread takes a second entry
    assert "warp" not in text  # the only unit of a block has no number
    text = check(r.atomic_parallel(spmm(8), nnz=1, col=4, group=16, threads=256), 256, ", 16>(")
    assert "threadIdx.x / 128" in text


@pytest.mark.parametrize("columns", [4, 7])
def test_groups_combine_every_column_of_an_unrolled_loop(columns: int) -> None:
    """They added each column atomically, with no word about it; an entry is read once."""
    text = check(r.atomic_parallel(spmm(columns), nnz=1, col=4, group=8, threads=128), 128, ", 8>(")
    assert text.count("atomicAdd") == text.count("of_segment<") == 2  # of whole and other tiles
    assert text.count("= A_crd2[") == 2 and "for (index_t k = " not in text
    check(r.atomic_parallel(spmm(12), nnz=1, col=12, group=8), 256, ", 8>(", "for (index_t k = ")


def test_groups_are_smaller_than_the_threads_of_a_row() -> None:
    """Sgap's table 1: g = 32 with r = 8 and 4."""
    for size in (8, 4):
        text = check(r.atomic_parallel(spmm(4), row=1 / 32, group=size), 256, f", {size}>(")
        assert "threadIdx.x % 32" in text and "atomicAdd" in text
    check(r.atomic_parallel(spmm(4), row=1 / 64, col=2, group=32), 256, ", 32>(", "% 64")
    check(r.atomic_parallel(spmm(4), row=1 / 3, col=2), 255, "threadIdx.x % 3")


def test_threads_of_a_row_take_several_rows_in_turn() -> None:
    """Sgap's workerDimR: half as many workers as rows, each with two of them."""
    point = {"row": 1 / 8, "col": 2, "group": 4, "threads": 128, "turns": 2}
    text = check(r.atomic_parallel(spmm(4), **point), 128, ", 4>(")
    assert "* 2;" in text and "threadIdx.x % 8" in text


@pytest.mark.parametrize(
    ("columns", "point", "threads"),
    [
        (128, {"nnz": 16, "col": 4, "threads": 512}, 512),
        (6, {"nnz": 2, "col": 2, "threads": 128}, 126),
        (1, {"nnz": 16, "col": 2, "threads": 96}, 96),
        (5, {"nnz": 2, "col": 2, "threads": 96}, 96),
        (12, {"nnz": 3, "col": 4, "group": 8, "threads": 128}, 96),
        (6, {"nnz": 3, "col": 2, "group": 4, "threads": 512}, 480),
        (128, {"row": 1, "col": 1, "threads": 256}, 256),
        (40, {"row": 2, "col": 2, "threads": 256}, 240),
    ],
)
def test_blocks_have_whole_units(columns: int, point: dict[str, Any], threads: int) -> None:
    check(r.atomic_parallel(spmm(columns), **point), threads)


@pytest.mark.parametrize(
    ("columns", "point", "words"),
    [
        (4, {"row": 1 / 4, "col": 4, "group": 8}, "must not span two rows"),
        (4, {"row": 1 / 512, "group": 2}, "512 threads per row, but a block has 256"),
        (6, {"row": 1 / 8, "col": 4, "group": 8}, "no multiple of 4"),
        (300, {"nnz": 4}, "need 300 threads"),
        (64, {"nnz": 1, "col": 2, "group": 16}, "need 512 threads"),
        (4, {"nnz": 1, "threads": 2048}, "1 to 1024 threads"),
        (4, {"row": 1 / 8, "group": 8, "turns": 0}, "turns is at least 1"),
        (4, {"nnz": 1, "turns": 2}, "for a fraction of a row"),
    ],
)
def test_other_points_are_refused(columns: int, point: dict[str, Any], words: str) -> None:
    with pytest.raises(ow.ScheduleError, match=words) as caught:
        r.atomic_parallel(spmm(columns), **point)
    assert caught.value.code == "E316" and caught.value.hint


def test_listings_3_and_6_have_the_blocks_of_the_paper() -> None:
    """512 threads, each with 16 entries and 4 columns; 256 with one entry and 4 columns."""
    text = check(spmm(128).schedule(examples.entries_and_columns(16, 4, 128, 512)), 512)
    assert "threadIdx.x % 32" in text and "k0 < 4" in text
    text = check(spmm(4).schedule(examples.entries_in_segments(4, 32, 4, 256)), 256)
    assert "+= 32" not in text
    check(spmm(8).schedule(examples.entries_in_segments(2, 8, 8, 256)), 256, "threadIdx.x / 64")


def test_warps_are_tiles_of_any_width() -> None:
    """GPUWarp distributes iterations and synchronizes nothing; threads do not loop."""
    text = """order(i,j,k), split(i,block,warp,4), bound(k,thread,{0},MaxExact),
        order(block,warp,thread,j), parallelize(block,GPUBlock,NoRaces),
        parallelize(warp,GPUWarp,NoRaces), parallelize(thread,GPUThread,NoRaces)"""
    for columns in (20, 48, 128):
        made = check(spmm(columns).schedule(text.format(columns)), 4 * columns)
        assert not re.search(r"k\w* \+= ", made)
