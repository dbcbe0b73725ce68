"""Recipes: schedules for a GPU as plain functions from a statement to a statement.

Each is a few lines of the scheduling language, to be read, copied and changed. They distinguish
three parts of a statement: the sparse operand, whose variables are the rows and the modes below
them; the columns, variables of the result that do not index the sparse operand; and reduction
variables that do not index it either.
"""

from __future__ import annotations

from openwork.errors import ScheduleError
from openwork.format.levels import Compressed
from openwork.index.nodes import IndexVar
from openwork.loops.schedule.schedulable import S, Schedulable
from openwork.recipes.devices.tables import H200
from openwork.recipes.statement_parts import (
    SHARED,
    THREADS,
    VECTOR,
    WARP,
    Parts,
    groups,
    ordered,
    positions,
)


def thread_per_row(stmt: S, threads: int = THREADS) -> S:
    """A thread per row (thesis, A.9): best where rows are short and of similar length."""
    parts = Parts(stmt)
    row = parts.inside[0]
    return (
        ordered(stmt, parts)
        .split(row, "block", "thread", threads)
        .parallelize("block", "GPUBlock", "NoRaces")
        .parallelize("thread", "GPUThread", "NoRaces")
    )


def group_per_row(stmt: S, group: int = 8, threads: int = THREADS, unroll: int = 2) -> S:
    """`group` threads per row, which reduce their partial sums at its end.

    Each has `unroll` entries in flight. A group wider than a warp is a block of its own. Where a
    row scatters to several entries of the result, as in `y(j) = A(i,j) * x(i)`, threads add with
    atomics.
    """
    parts = Parts(stmt)
    if len(parts.inside) != 2 or parts.columns or parts.summed:
        raise ScheduleError(
            f"group_per_row is for a matrix times a vector, not for {stmt}",
            code="E316",
            hint="spmm_rows, or position_split",
        )
    row, inner = parts.inside
    if group > WARP and group & (group - 1) == 0 and groups(threads, group):
        return _block_per_row(stmt, parts, group, unroll)
    walked = (
        ordered(stmt, parts)
        .split(row, "block", "warp", groups(threads, group))
        .pos(inner, "place", parts.sparse)
        .split("place", "round", "lane", group)
        .order("block", "warp", "lane", "round")
        .unroll("round", unroll)
    )
    if not parts.one_row:
        return (
            walked.parallelize("block", "GPUBlock", "IgnoreRaces")
            .parallelize("warp", "GPUWarp", "IgnoreRaces")
            .parallelize("lane", "GPUThread", "Atomics")
        )
    return (
        walked.parallelize("block", "GPUBlock", "NoRaces")
        .parallelize("warp", "GPUWarp", "NoRaces")
        .parallelize("lane", "GPUGroup", group_size=group, reduction="parallel")
    )


def _block_per_row(stmt: S, parts: Parts, threads: int, unroll: int) -> S:
    """Rows so few and long that only a block has enough threads for one."""
    row, inner = parts.inside
    how = ("NoRaces", "ParallelReduction") if parts.one_row else ("IgnoreRaces", "Atomics")
    return (
        ordered(stmt, parts)
        .pos(inner, "place", parts.sparse)
        .split("place", "round", "lane", threads)
        .order(row, "lane", "round")
        .unroll("round", unroll)
        .parallelize(row, "GPUBlock", how[0])
        .parallelize("lane", "GPUThread", how[1])
    )


def warp_per_row(stmt: S, threads: int = THREADS) -> S:
    """A warp per row (thesis, A.10)."""
    return group_per_row(stmt, WARP, threads)


def position_split(stmt: S, each: int = 8, threads: int = THREADS, unroll: int | None = None) -> S:
    """A thread per `each` entries, across rows; threads track the current row (A.11).

    Each loads `unroll` entries together, and then adds them to their rows.
    """
    parts = _without_columns(stmt, "position_split")
    split = (
        positions(ordered(stmt, parts), parts)
        .split("place", "block", "tile", threads * each)
        .split("tile", "thread", "entry", each)
    )
    if unroll is not None:
        split = split.unroll("entry", unroll)
    return split.parallelize("block", "GPUBlock", "IgnoreRaces").parallelize(
        "thread", "GPUThread", "Atomics"
    )


def position_strided(stmt: S, each: int = 4, threads: int = THREADS) -> S:
    """Adjacent threads take adjacent entries, each thread `each` of them, a block apart.

    For results with a place for each entry, and for scatters; in sums to a scalar, the threads of a
    block reduce first.
    """
    parts = _without_columns(stmt, "position_strided")
    stmt = (
        positions(ordered(stmt, parts), parts)
        .split("place", "block", "tile", threads * each)
        .split("tile", "entry", "thread", threads)
        .order("block", "thread", "entry")
        .unroll("entry", each)
    )
    if parts.apart:
        stmt = stmt.parallelize("block", "GPUBlock", "NoRaces")
        return stmt.parallelize("thread", "GPUThread", "NoRaces")
    if not _has_rows(stmt, parts):
        stmt = stmt.parallelize("block", "GPUBlock", "Atomics")
        return stmt.parallelize("thread", "GPUThread", "ParallelReduction")
    stmt = stmt.parallelize("block", "GPUBlock", "IgnoreRaces")
    return stmt.parallelize("thread", "GPUThread", "Atomics")


def position_segments(stmt: S, each: int = 1, group: int = WARP, threads: int = THREADS) -> S:
    """A thread per `each` entries; groups of threads combine rows by segment reduction (Sgap)."""
    parts = _without_columns(stmt, "position_segments")
    split = positions(ordered(stmt, parts), parts).split("place", "block", "tile", threads * each)
    if each > 1:
        split = split.split("tile", "thread", "entry", each)
    return split.parallelize("block", "GPUBlock", "IgnoreRaces").parallelize(
        "thread" if each > 1 else "tile", "GPUGroup", group_size=group, reduction="segment"
    )


def position_staged(stmt: S, each: int = 8, group: int = 8, threads: int = THREADS) -> S:
    """Blocks stage the terms of a tile of entries in shared memory, with coalesced loads.

    Then a group of threads sums each row's segment. Best where rows are uneven, or few. A sum
    without rows needs no staging: `position_segments`.
    """
    parts = _without_columns(stmt, "position_staged")
    if not _has_rows(stmt, parts):
        return position_segments(stmt, each, WARP, threads)
    terms = stmt.assignment.rhs
    return (
        positions(ordered(stmt, parts), parts)
        .split("place", "block", "tile", threads * each)
        .precompute(terms, "tile", "stage")
        .unroll("stage", each)
        .parallelize("block", "GPUBlock", "IgnoreRaces")
        .parallelize("stage", "GPUThread", "NoRaces")
        .parallelize("tile", "GPUGroup", group_size=group, reduction="segment")
    )


def _has_rows(stmt: Schedulable, parts: Parts) -> bool:
    """Whether the sparse operand indexes the result; else all tiles add to the same entries."""
    return bool(set(stmt.assignment.lhs.vars) & set(parts.sparse.vars))


def _without_columns(stmt: Schedulable, recipe: str) -> Parts:
    parts = Parts(stmt)
    if parts.columns or parts.summed:
        raise ScheduleError(
            f"{recipe} is for results without columns, not for {stmt}",
            code="E316",
            hint="spmm_positions",
        )
    return parts


# -- results with columns -----------------------------------------------------------------------


def _lanes(parts: Parts, vector: int | None, most_lanes: int) -> tuple[int | None, int, int]:
    """The number of columns, how many a thread takes, and how many threads are adjacent."""
    columns = parts.extent(parts.one_column)
    most = max(1, VECTOR // _size(parts.stmt))
    each = vector or most
    if vector is None and columns is not None:
        while each > 1 and columns % each:
            each //= 2
    units = WARP if columns is None else -(-columns // each)
    lanes = 1
    while lanes < min(units, most_lanes):
        lanes *= 2
    return columns, each, lanes


def _size(stmt: Schedulable) -> int:
    return stmt.assignment.lhs.dtype.itemsize


def _columns(
    stmt: S, parts: Parts, vector: int | None, most_lanes: int = WARP
) -> tuple[S, list[str], int]:
    """Columns split into tiles, threads and vector elements; the loops, and the threads."""
    columns, each, lanes = _lanes(parts, vector, most_lanes)
    column: IndexVar | str = parts.one_column
    if columns is not None:
        stmt, column = stmt.bound(column, "column", columns, "MaxExact"), "column"
    stmt = stmt.split(column, "unit", "part", each)
    if columns is not None and columns <= each * lanes:
        return stmt, ["unit", "part"], lanes
    return stmt.split("unit", "strip", "lane", lanes), ["strip", "lane", "part"], lanes


def spmm_rows(
    stmt: S,
    vector: int | None = None,
    unroll: int | None = None,
    threads: int = THREADS,
    resident: int | None = None,
    at_once: int = 1,
    lanes: int = WARP,
) -> S:
    """A group of threads per row, adjacent along the columns.

    Each loads `unroll` entries together, and then adds them. With `at_once`, so many such groups
    share a row: each takes every so many-th entry, and their sums are combined at its end. With
    fewer `lanes` than columns need, blocks take tiles of columns, all rows of the first tile before
    the second: more of a narrow tile of the dense operand stays in the caches. Of a tensor, all
    entries that add to one row of the result are one loop along positions.
    """
    parts = Parts(stmt)
    row, inner = parts.inside[0], list[IndexVar | str](parts.inside[1:])
    stmt, columns, lanes = _columns(ordered(stmt, parts), parts, vector, lanes)
    *strip, lane, part = columns
    product, rows = stmt.assignment.rhs, threads // lanes
    levels = parts.sparse.tensor.format.levels
    if len(inner) > 1 and parts.one_row and all(level == Compressed for level in levels[1:]):
        stmt, inner = positions(stmt, parts, above=1), ["place"]
        tuned = H200.occupancy
        rows = min(rows, tuned.tensor_rows)
        unroll, resident = unroll or tuned.tensor_unroll, resident or tuned.tensor
    turn: list[str] = []
    if at_once > 1:
        stmt, inner = _shared_row(stmt, parts, inner, lanes * at_once, at_once)
        rows, turn = max(1, threads // (lanes * at_once)), ["turn"]
    stmt = stmt.split(row, "block", "warp", rows)
    stmt = stmt.order("block", *strip, "warp", lane, *turn, *inner, part)
    stmt = stmt.precompute(product, part, "part_sum").unroll("part_sum").unroll(part)
    for loop in inner[-1:]:
        stmt = stmt.unroll(loop, unroll or 4)
    for tile in strip:
        stmt = stmt.parallelize(tile, "GPUBlock", "NoRaces")
    stmt = (
        stmt.parallelize("block", "GPUBlock", "NoRaces", resident=resident)
        .parallelize("warp", "GPUWarp", "NoRaces")
        .parallelize(lane, "GPUThread", "NoRaces")
    )
    for groups_of_row in turn:
        stmt = stmt.parallelize(groups_of_row, "GPUGroup", group_size=at_once)
    return stmt


def _shared_row(
    stmt: S, parts: Parts, inner: list[IndexVar | str], threads: int, at_once: int
) -> tuple[S, list[IndexVar | str]]:
    """The loop along a row, split among groups that share it: `turn` is for each of them."""
    if threads > WARP or len(inner) != 1 or not parts.one_row:
        raise ScheduleError(
            f"spmm_rows with {at_once} entries at once is for sums along the stored rows of a "
            f"matrix, by {WARP} threads or fewer; here they are {threads}",
            code="E316",
            hint="at_once=1, or more columns for each thread",
        )
    (along,) = inner
    if along != "place":
        stmt = stmt.pos(along, "place", parts.sparse)
    return stmt.split("place", "round", "turn", at_once), ["round"]


def spmm_positions(
    stmt: S,
    each: int = 32,
    vector: int | None = None,
    unroll: int = 4,
    threads: int = THREADS,
    resident: int | None = None,
    lanes: int = WARP,
) -> S:
    """A group of threads per `each` entries, adjacent along the columns (A.4 and A.8).

    Each loads `unroll` entries together, and then adds them to their rows. With fewer `lanes` than
    columns need, blocks take tiles of columns, as in `spmm_rows`.
    """
    parts = Parts(stmt)
    stmt, columns, lanes = _columns(ordered(stmt, parts), parts, vector, lanes)
    *strip, lane, part = columns
    stmt = positions(stmt, parts)
    stmt = stmt.split("place", "block", "tile", threads // lanes * each)
    stmt = stmt.split("tile", "warp", "entry", each)
    stmt = stmt.order("block", *strip, "warp", lane, "entry", part)
    stmt = stmt.unroll(part).unroll("entry", unroll)
    if parts.apart:
        for tile in ("block", *strip):
            stmt = stmt.parallelize(tile, "GPUBlock", "NoRaces")
        stmt = stmt.parallelize("warp", "GPUWarp", "NoRaces")
        return stmt.parallelize(lane, "GPUThread", "NoRaces")
    stmt = stmt.parallelize("block", "GPUBlock", "IgnoreRaces", resident=resident)
    return _added(stmt, strip, lane)


def spmm_tiles(
    stmt: S,
    across: int = 256,
    vector: int | None = None,
    unroll: int = 4,
    threads: int = 4 * THREADS,
) -> S:
    """Blocks take a tile of `across` rows of the dense operand, for all rows of the sparse one.

    Groups of threads take sparse rows, each from its first entry in the tile, and reuse the tile
    from the cache. Best where rows are few and long.
    """
    parts = Parts(stmt)
    if len(parts.inside) != 2 or not parts.one_row:
        raise ScheduleError(
            f"spmm_tiles is for a matrix stored by rows of the result, not for {stmt}",
            code="E316",
            hint="spmm_rows, or spmm_positions",
        )
    row, inner = parts.inside
    stmt, columns, lanes = _columns(ordered(stmt, parts), parts, vector)
    *strip, lane, part = columns
    stmt = stmt.split(inner, "block", "tile", across).divide(row, "warp", "share", threads // lanes)
    stmt = stmt.order("block", *strip, "warp", lane, "share", "tile", part)
    product = stmt.assignment.rhs
    stmt = stmt.precompute(product, part, "part_sum").unroll("part_sum").unroll(part)
    stmt = stmt.unroll("tile", unroll).parallelize("block", "GPUBlock", "IgnoreRaces")
    return _added(stmt, strip, lane)


def _added(stmt: S, strip: list[str], lane: str) -> S:
    """Blocks and warps that add to the same rows, with threads adjacent along the columns."""
    for tile in strip:
        stmt = stmt.parallelize(tile, "GPUBlock", "IgnoreRaces")
    return stmt.parallelize("warp", "GPUWarp", "IgnoreRaces").parallelize(
        lane, "GPUThread", "Atomics"
    )


def spmm_staged(
    stmt: S,
    each: int = 4,
    group: int = 4,
    threads: int = THREADS,
    resident: int | None = None,
) -> S:
    """Blocks stage the terms of a tile of entries in shared memory, all columns of each.

    Then a group of threads sums each row's segment. Best where there are few columns, and rows are
    uneven or few.
    """
    parts = Parts(stmt)
    if not _has_rows(stmt, parts):
        raise ScheduleError(
            f"spmm_staged is for results with rows, not for {stmt}",
            code="E316",
            hint="spmm_positions",
        )
    columns = parts.extent(parts.one_column)
    if columns is None or threads * each * columns * _size(stmt) > SHARED:
        raise ScheduleError(
            f"spmm_staged keeps the terms of {threads * each} entries in shared memory, where "
            f"{'an unknown number of' if columns is None else columns} columns do not fit",
            code="E316",
            hint="spmm_positions, or a smaller each",
        )
    stmt = ordered(stmt, parts).bound(parts.one_column, "column", columns, "MaxExact")
    terms = stmt.assignment.rhs
    return (
        positions(stmt, parts)
        .split("place", "block", "tile", threads * each)
        .order("block", "tile", "column")
        .precompute(terms, ["tile", "column"], ["stage", "staged"])
        .unroll("stage", each)
        .unroll("staged")
        .unroll("column")
        .parallelize("block", "GPUBlock", "IgnoreRaces", resident=resident)
        .parallelize("stage", "GPUThread", "NoRaces")
        .parallelize("tile", "GPUGroup", group_size=group, reduction="segment")
    )


def sddmm(stmt: S, each: int = 4, vector: int | None = None, threads: int = THREADS // 2) -> S:
    """A group of threads per entry of the pattern, which reduce their parts of the dot product.

    Each thread loads two vectors: half as many threads take fewer steps to reduce.
    """
    parts = Parts(stmt)
    if len(parts.summed) != 1 or parts.columns:
        raise ScheduleError(
            f"sddmm is for dot products at the entries of a pattern, not for {stmt}",
            code="E316",
            hint="such as C(i,k) = S(i,k) * A(i,j) * B(k,j)",
        )
    (inner,) = parts.summed
    length = parts.extent(inner)
    part = vector or max(1, VECTOR // _size(stmt))
    while length is not None and part > 1 and length % part:
        part //= 2
    group = 2
    while group < WARP and (length is None or 2 * group * part < length):
        group *= 2
    summed: IndexVar | str = inner
    stmt = ordered(stmt, parts)
    if length is not None:
        stmt, summed = stmt.bound(inner, "term", length, "MaxExact"), "term"
    stmt = positions(stmt, parts)
    stmt = stmt.split("place", "block", "tile", threads // group * each)
    stmt = stmt.split("tile", "warp", "entry", each)
    stmt = stmt.split(summed, "unit", "part", part)
    if length is not None and length == group * part:
        lane, order = "unit", ["block", "warp", "entry", "unit", "part"]
    else:
        stmt = stmt.split("unit", "round", "lane", group)
        lane, order = "lane", ["block", "warp", "entry", "lane", "round", "part"]
    stmt = stmt.order(*order)
    if lane == "lane" and length is not None and length == 2 * group * part:
        stmt = stmt.unroll("round")
    if _size(stmt) <= 4:  # 5 % faster on an H200; float64 was not
        stmt = stmt.unroll("entry")
    return (
        stmt.unroll("part")
        .parallelize("block", "GPUBlock", "NoRaces")
        .parallelize("warp", "GPUWarp", "NoRaces")
        .parallelize(lane, "GPUGroup", group_size=group, reduction="parallel")
    )
