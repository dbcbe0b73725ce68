"""Atomic parallelism: the space of Sgap, {<x nnz, y col>, r} and {<x row, y col>, r}."""

from __future__ import annotations

from openwork.errors import ScheduleError
from openwork.index.nodes import IndexVar
from openwork.loops.schedule.schedulable import S
from openwork.recipes.statement_parts import THREADS, Parts, ordered, positions


def atomic_parallel(
    stmt: S,
    *,
    nnz: float | None = None,
    row: float | None = None,
    col: float = 1,
    group: int = 1,
    threads: int = THREADS,
) -> S:
    """A point of Sgap's space: {<x nnz, y col>, r} or {<x row, y col>, r}.

    Args:
        stmt: a sparse matrix times a dense one, such as `C(i,k) = A(i,j) * B(j,k)`.
        nnz: entries per thread, at least: a whole number.
        row: in place of `nnz`, rows per thread: a whole number, or 1/g for g threads per row.
        col: columns per thread: a whole number.
        group: threads that reduce together: 1, 2, 4, 8, 16 or 32.
        threads: threads per block.

    Raises:
        ScheduleError: E316 for the points that are illegal: less than an entry or a column
            (rule 1); 1/g of a row with a group of less than g, as one thread of a parallel
            reduction writes (rule 2); a fraction of a row and of a column (rule 3).
    """
    parts = Parts(stmt)
    column = parts.one_column
    if (nnz is None) == (row is None):
        raise _no_point("give either nnz or row")
    if group not in (1, 2, 4, 8, 16, 32):
        raise _no_point(f"a group cannot have {group} threads")
    if row is not None and row < 1 and col < 1:
        raise _no_point("a fraction of a row and of a column: only one may be split")
    if (nnz is not None and nnz < 1) or col < 1:
        raise _no_point("nnz and col must be at least 1")
    if int(col) != col or (nnz is not None and int(nnz) != nnz):
        raise _no_point("nnz and col must be whole numbers")
    if nnz is not None:
        return _some_entries(stmt, parts, int(nnz), int(col), group, threads)
    if row is not None and row >= 1:
        if int(row) != row or group != 1:
            raise _no_point("whole rows need no reduction: use group=1 and a whole number of rows")
        return _some_rows(stmt, column, parts, int(row), int(col), threads)
    share = round(1 / float(row or 1))
    if abs(share * float(row or 1) - 1) > 1e-9 or share not in (2, 4, 8, 16, 32):
        raise _no_point("a fraction of a row must be 1/2, 1/4, 1/8, 1/16 or 1/32")
    if group < share:
        raise _no_point(
            f"{share} threads per row, but groups of {group}: one thread of a parallel reduction "
            "writes"
        )
    return _part_of_row(stmt, column, parts, share, int(col), threads)


def _no_point(why: str) -> ScheduleError:
    return ScheduleError(
        f"outside the space of atomic parallelism: {why}",
        code="E316",
        hint="atomic_parallel(stmt, nnz=1, col=4, group=32), or row=1/8, group=8",
    )


def _split_columns(stmt: S, column: IndexVar, parts: Parts, col: int) -> tuple[S, int]:
    """Split the columns into runs of `col`, and count the runs."""
    columns = parts.extent(column)
    if columns is None:
        raise _no_point(f"the extent of {column} is not known")
    stmt = stmt.split(column, "units", "part", col)
    return stmt.bound("units", "unit", -(-columns // col), "MaxExact"), -(-columns // col)


def _some_entries(stmt: S, parts: Parts, nnz: int, col: int, group: int, threads: int) -> S:
    """{<g nnz, c col>, r}: listings 3 and 6 of Sgap."""
    stmt = stmt.order(*parts.inside, *parts.columns)
    stmt, units = _split_columns(stmt, parts.one_column, parts, col)
    side = max(1, threads // units)
    if group == 1:
        stmt = positions(stmt, parts).split("place", "block", "tile", nnz * side)
        stmt = stmt.split("tile", "warp", "entry", nnz)
        stmt = stmt.order("block", "warp", "unit", "part", "entry")
        stmt = stmt.parallelize("block", "GPUBlock", "IgnoreRaces")
        stmt = stmt.parallelize("warp", "GPUWarp", "IgnoreRaces")
        return stmt.parallelize("unit", "GPUThread", "Atomics")
    side = max(group, side // group * group)
    stmt = positions(stmt, parts).split("place", "block", "tile", nnz * side)
    if nnz > 1:
        stmt = stmt.split("tile", "thread", "entry", nnz)
        stmt = stmt.order("block", "unit", "part", "thread", "entry")
    else:
        stmt = stmt.order("block", "unit", "part", "tile")
    stmt = stmt.parallelize("block", "GPUBlock", "IgnoreRaces")
    stmt = stmt.parallelize("unit", "GPUWarp", "NoRaces")
    return stmt.parallelize(
        "thread" if nnz > 1 else "tile", "GPUGroup", group_size=group, reduction="segment"
    )


def _some_rows(stmt: S, column: IndexVar, parts: Parts, row: int, col: int, threads: int) -> S:
    """{<g row, c col>, 1}: listing 4 of Sgap."""
    rows, *inner = parts.inside
    stmt, units = _split_columns(ordered(stmt, parts), column, parts, col)
    stmt = stmt.split(rows, "block", "tile", row * max(1, threads // units))
    stmt = stmt.split("tile", "warp", "line", row)
    stmt = stmt.order("block", "warp", "line", "unit", "part", *inner)
    stmt = stmt.parallelize("block", "GPUBlock", "NoRaces")
    stmt = stmt.parallelize("warp", "GPUWarp", "NoRaces")
    return stmt.parallelize("unit", "GPUThread", "NoRaces")


def _part_of_row(stmt: S, column: IndexVar, parts: Parts, share: int, col: int, threads: int) -> S:
    """{<1/g row, c col>, r}: listing 5 of Sgap."""
    rows, inner, *more = parts.inside
    if more:
        raise _no_point(f"{parts.sparse.tensor} has more than two modes: use nnz")
    stmt = stmt.order(rows, column, inner).fuse(rows, column, "entry")
    stmt = stmt.split("entry", "block", "tile", col * max(1, threads // share))
    stmt = stmt.split("tile", "warp", "part", col)
    stmt = stmt.pos(inner, "place", parts.sparse).split("place", "round", "lane", share)
    stmt = stmt.order("block", "warp", "part", "lane", "round")
    stmt = stmt.parallelize("block", "GPUBlock", "NoRaces")
    stmt = stmt.parallelize("warp", "GPUWarp", "NoRaces")
    return stmt.parallelize("lane", "GPUGroup", group_size=share, reduction="parallel")
