"""Atomic parallelism: the space of Sgap, {<x nnz, y col>, r} and {<x row, y col>, r}."""

from __future__ import annotations

from openwork.errors import ScheduleError
from openwork.index.nodes import IndexVar
from openwork.loops.schedule.schedulable import S
from openwork.recipes.statement_parts import THREADS, WARP, Parts, ordered, positions

MOST_THREADS = 1024  # of a block
MOST_NAMED = 15  # units of several warps that can synchronize
MOST_HELD = 8  # sums of a thread that wait in registers for those of its group


def atomic_parallel(
    stmt: S,
    *,
    nnz: float | None = None,
    row: float | None = None,
    col: float = 1,
    group: int = 1,
    threads: int = THREADS,
    turns: int = 1,
) -> S:
    """A point of Sgap's space: {<x nnz, y col>, r} or {<x row, y col>, r}.

    Args:
        stmt: a sparse matrix times a dense one, such as `C(i,k) = A(i,j) * B(j,k)`.
        nnz: entries per thread: a whole number.
        row: in place of `nnz`, rows per thread: a whole number, or 1/g for g threads per row.
        col: columns per thread: a whole number.
        group: threads that reduce together: 1, 2, 4, 8, 16 or 32.
        threads: threads per block, at most: a block has whole rows of units.
        turns: rows that the g threads of a row take one after the other: its `workerDimR` is the
            number of rows over `turns`.

    Raises:
        ScheduleError: E316 for a point that is illegal, or that no block of so many threads has:
            less than an entry or a column (rule 1); 1/g of a row with groups that are no part of g
            threads, as one thread of a parallel reduction writes (rule 2, as table 1 of Sgap has
            it: groups of 8 and 4 for g = 32); a fraction of a row and of a column (rule 3).
    """
    parts = Parts(stmt)
    column = parts.one_column
    if (nnz is None) == (row is None):
        raise _no_point("give either nnz or row")
    if group not in (1, 2, 4, 8, 16, 32):
        raise _no_point(f"a group cannot have {group} threads")
    if not 1 <= threads <= MOST_THREADS:
        raise _no_point(f"a block has 1 to {MOST_THREADS} threads")
    if row is not None and row < 1 and col < 1:
        raise _no_point("a fraction of a row and of a column: only one may be split")
    if (nnz is not None and nnz < 1) or col < 1:
        raise _no_point("nnz and col must be at least 1")
    if int(col) != col or (nnz is not None and int(nnz) != nnz):
        raise _no_point("nnz and col must be whole numbers")
    if turns < 1 or (turns > 1 and (row is None or row >= 1)):
        raise _no_point("turns is at least 1, and for a fraction of a row")
    if nnz is not None:
        return _some_entries(stmt, parts, int(nnz), int(col), group, threads)
    if row is not None and row >= 1:
        if int(row) != row or group != 1:
            raise _no_point("whole rows need no reduction: use group=1 and a whole number of rows")
        return _some_rows(stmt, column, parts, int(row), int(col), threads)
    share = round(1 / float(row or 1))
    if abs(share * float(row or 1) - 1) > 1e-9:
        raise _no_point("a fraction of a row must be 1/g, for g threads per row")
    if share % group:
        raise _no_point(
            f"{share} threads per row, but groups of {group}: one thread of a parallel reduction "
            "writes, so a group must not span two rows"
        )
    return _part_of_row(stmt, parts, share, int(col), group, threads, turns)


def _no_point(why: str) -> ScheduleError:
    return ScheduleError(
        f"outside the space of atomic parallelism: {why}",
        code="E316",
        hint="atomic_parallel(stmt, nnz=1, col=4, group=32), or row=1/8, group=8",
    )


def _units(parts: Parts, col: int, threads: int, group: int = 1) -> tuple[int, int]:
    """Into how many units `col` columns each are, and how many threads a block has for each."""
    column = parts.one_column
    columns = parts.extent(column)
    if columns is None:
        raise _no_point(f"the extent of {column} is not known")
    units = max(1, -(-columns // col))
    side = threads // units
    if group > 1:  # these synchronize: a part of a warp, or whole warps
        whole = side // WARP * WARP if units <= MOST_NAMED else WARP
        side = whole if side >= WARP else 1 << side.bit_length() >> 1
    if side < group:
        least = units * group
        raise _no_point(
            f"{columns} columns, {col} for a thread, and groups of {group} need {least} threads in "
            f"a block, which has {threads}"
        )
    return units, side


def _some_entries(stmt: S, parts: Parts, nnz: int, col: int, group: int, threads: int) -> S:
    """{<g nnz, c col>, r}: listings 3 and 6 of Sgap.

    Threads that add by themselves are adjacent along the columns, of which each takes every N/c-th;
    those of a group are adjacent along the entries.
    """
    stmt, column = stmt.order(*parts.inside, *parts.columns), parts.one_column
    units, side = _units(parts, col, threads, group)
    if group == 1:
        each = -(-(parts.extent(column) or 1) // units)
        stmt = stmt.split(column, "parts", "unit", units).bound("parts", "part", each, "MaxExact")
        stmt = positions(stmt, parts).split("place", "block", "tile", nnz * side)
        stmt = stmt.split("tile", "warp", "entry", nnz)
        stmt = stmt.order("block", "warp", "unit", "part", "entry")
        stmt = stmt.parallelize("block", "GPUBlock", "IgnoreRaces")
        stmt = stmt.parallelize("warp", "GPUWarp", "IgnoreRaces")
        return stmt.parallelize("unit", "GPUThread", "Atomics")
    stmt = stmt.split(column, "units", "part", col).bound("units", "unit", units, "MaxExact")
    stmt = positions(stmt, parts).split("place", "block", "tile", nnz * side)
    if nnz > 1:
        stmt = stmt.split("tile", "thread", "entry", nnz)
        stmt = stmt.order("block", "unit", "part", "thread", "entry")
    elif col > MOST_HELD:
        stmt = stmt.order("block", "unit", "part", "tile")
    else:  # an entry and its row are read once for all columns
        stmt = stmt.order("block", "unit", "tile", "part").unroll("part")
    stmt = stmt.parallelize("block", "GPUBlock", "IgnoreRaces")
    stmt = stmt.parallelize("unit", "GPUWarp", "NoRaces")
    return stmt.parallelize(
        "thread" if nnz > 1 else "tile", "GPUGroup", group_size=group, reduction="segment"
    )


def _some_rows(stmt: S, column: IndexVar, parts: Parts, row: int, col: int, threads: int) -> S:
    """{<g row, c col>, 1}: listing 4 of Sgap."""
    rows, *inner = parts.inside
    units, side = _units(parts, col, threads)
    stmt = ordered(stmt, parts).split(column, "units", "part", col)
    stmt = stmt.bound("units", "unit", units, "MaxExact")
    stmt = stmt.split(rows, "block", "tile", row * side).split("tile", "warp", "line", row)
    stmt = stmt.order("block", "warp", "line", "unit", "part", *inner)
    stmt = stmt.parallelize("block", "GPUBlock", "NoRaces")
    stmt = stmt.parallelize("warp", "GPUWarp", "NoRaces")
    return stmt.parallelize("unit", "GPUThread", "NoRaces")


def _part_of_row(
    stmt: S, parts: Parts, share: int, col: int, group: int, threads: int, turns: int
) -> S:
    """{<1/g row, c col>, r}: listing 5 of Sgap; groups of a row add to the same entry."""
    column, (rows, inner, *more) = parts.one_column, parts.inside
    if more:
        raise _no_point(f"{parts.sparse.tensor} has more than two modes: use nnz")
    if share > threads:
        raise _no_point(f"{share} threads per row, but a block has {threads}")
    columns = parts.extent(column)
    if col > 1 and (columns is None or columns % col):
        many = "an unknown number of" if columns is None else columns
        raise _no_point(f"{many} columns are no multiple of {col}")
    stmt = stmt.order(rows, column, inner)
    if turns > 1:
        stmt = stmt.split(rows, "crew", "turn", turns).order("crew", column, "turn", inner)
    stmt = stmt.fuse("crew" if turns > 1 else rows, column, "entry")
    stmt = stmt.split("entry", "block", "tile", col * (threads // share))
    stmt = stmt.split("tile", "warp", "part", col)
    stmt = stmt.pos(inner, "place", parts.sparse).split("place", "round", "lane", share)
    turn = ["turn"] if turns > 1 else []
    stmt = stmt.order("block", "warp", "part", *turn, "lane", "round")
    stmt = stmt.parallelize("block", "GPUBlock", "NoRaces")
    stmt = stmt.parallelize("warp", "GPUWarp", "NoRaces")
    if group == 1:
        return stmt.parallelize("lane", "GPUThread", "Atomics")
    return stmt.parallelize("lane", "GPUGroup", group_size=group, reduction="parallel")
