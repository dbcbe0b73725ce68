"""Grids of a constant size: blocks that go on until all rows are done.

The compound paper's launch bounds are a space of these: `nb` blocks of `nt` threads for each
multiprocessor, whose blocks stride over the rows, or take the next from a counter.
"""

from __future__ import annotations

from collections.abc import Iterator

from openwork.errors import ScheduleError
from openwork.loops.schedule.machines import Gpu
from openwork.loops.schedule.schedulable import S
from openwork.recipes.devices.tables import H200
from openwork.recipes.statement_parts import THREADS, WARP, Parts, groups, ordered

MOST_THREADS = 1024  # of a block


def grid_rows(
    stmt: S,
    blocks: int = 2,
    threads: int = THREADS,
    group: int = 8,
    chunk: int | None = None,
    gpu: Gpu = H200,
) -> S:
    """As many blocks as a GPU holds at once, with `group` threads for each row.

    Best where blocks are costly to start, or where rows are uneven.

    Args:
        stmt: a sparse matrix times a vector.
        blocks: resident on each multiprocessor.
        threads: of a block, a multiple of 32.
        group: threads that reduce the terms of a row.
        chunk: blocks take so many tiles of rows from a counter; None: they stride over them.
        gpu: whose multiprocessors count.

    >>> import openwork as ow
    >>> A, x = ow.placeholder("A", order=2, format=ow.CSR), ow.placeholder("x", order=1)
    >>> spmv = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(90), A=A, x=x)
    >>> print(ow.recipes.grid_rows(spmv, blocks=2, threads=128).loops)
    forall turn:  [GPUBlock, NoRaces, 128 threads, 2 per multiprocessor]
      forall rest:
        forall row:  [GPUWarp, NoRaces]
          forall lane:  [GPUGroup of 8, parallel reduction]
            forall round:  [unroll 2]
              y(i) += A(i,j) * x(j)
    such that split(i, tile, row, 16),
      divide(tile, turn, rest, 264, assign=stride),
      pos(j, place, A[i, j]),
      split(place, round, lane, 8)

    Raises:
        ScheduleError: E316 for other statements, or for threads that no block has.
    """
    parts = Parts(stmt)
    _check(stmt, parts, blocks, threads)
    row, inner = parts.inside
    how = {"assign": "stride"} if chunk is None else {"assign": "dynamic", "chunk": chunk}
    count = gpu.multiprocessors * blocks
    return (
        ordered(stmt, parts)
        .split(row, "tile", "row", groups(threads, group))
        .divide("tile", "turn", "rest", count, **how)
        .pos(inner, "place", parts.sparse)
        .split("place", "round", "lane", group)
        .order("turn", "rest", "row", "lane", "round")
        .unroll("round", 2)
        .parallelize("turn", "GPUBlock", "NoRaces", threads=threads, blocks_per_sm=blocks)
        .parallelize("row", "GPUWarp", "NoRaces")
        .parallelize("lane", "GPUGroup", group_size=group, reduction="parallel")
    )


def _check(stmt: S, parts: Parts, blocks: int, threads: int) -> None:
    """A statement with one loop inside of its rows, and a block that there can be."""
    if len(parts.inside) != 2 or parts.columns or parts.summed or not parts.one_row:
        raise ScheduleError(
            f"grid_rows is for a matrix times a vector, not for {stmt}",
            code="E316",
            hint="group_per_row, spmm_rows, or position_split",
        )
    if threads % WARP or not 0 < threads <= MOST_THREADS or blocks < 1:
        raise ScheduleError(
            f"{blocks} blocks of {threads} threads: a block has 32, 64, ... 1024 threads",
            code="E316",
            hint="grid_rows(stmt, blocks=2, threads=256)",
        )


def launch_bounds(gpu: Gpu = H200) -> Iterator[tuple[int, int]]:
    """The compound paper's space of blocks and threads: 2**i or 3 * 2**i, 32 * 2**i or 96 * 2**i.

    Those that a multiprocessor holds, and that fill at least a quarter of it.

    >>> list(launch_bounds())[:4]
    [(1, 512), (1, 768), (1, 1024), (2, 256)]
    """
    resident = gpu.occupancy.resident
    counts = sorted([1 << n for n in range(6)] + [3 << n for n in range(4)])
    sizes = sorted([32 << n for n in range(6)] + [96 << n for n in range(4)])
    for blocks in counts:
        for threads in sizes:
            if threads <= MOST_THREADS and resident / 4 <= blocks * threads <= resident:
                yield blocks, threads
