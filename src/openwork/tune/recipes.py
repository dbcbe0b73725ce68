"""Recipes: schedules for a GPU as plain functions from a statement to a statement.

Each is a few lines of the scheduling language, to be read, copied and changed. They look at a
statement for three things: the sparse operand, whose variables are its rows and what lies inside
of them; the columns, which are variables of the result that the sparse operand has not; and
variables that are summed and that the sparse operand has not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from openwork.errors import ScheduleError
from openwork.index.nodes import Access, IndexVar
from openwork.loops.result import accesses_of
from openwork.tensor.statement import Statement

THREADS = 256  # of a block
WARP = 32
VECTOR = 16  # bytes that a thread loads at once


@dataclass(frozen=True)
class Parts:
    """What the recipes see of a statement."""

    stmt: Statement

    @cached_property
    def sparse(self) -> Access:
        """The one sparse operand."""
        found = [a for a in accesses_of(self.stmt.assignment.rhs) if not a.tensor.format.is_dense]
        if len(found) != 1:
            names = ", ".join(str(a.tensor) for a in found) or "none"
            raise ScheduleError(
                f"recipes are for statements with one sparse operand, here: {names}",
                code="E316",
                hint="schedule the statement by hand, or leave it to the default",
            )
        return found[0]

    @property
    def inside(self) -> tuple[IndexVar, ...]:
        """The sparse operand's variables, in the order of its levels."""
        return self.sparse.level_vars

    @property
    def columns(self) -> tuple[IndexVar, ...]:
        """Variables of the result that the sparse operand has not."""
        lhs = self.stmt.assignment.lhs
        return tuple(v for v in lhs.level_vars if v not in self.inside)

    @property
    def summed(self) -> tuple[IndexVar, ...]:
        """Variables that are summed and that the sparse operand has not."""
        known = {*self.inside, *self.stmt.assignment.lhs.vars}
        reads = accesses_of(self.stmt.assignment.rhs)
        return tuple(dict.fromkeys(v for a in reads for v in a.vars if v not in known))

    @property
    def one_column(self) -> IndexVar:
        """The columns, where there is one variable of them."""
        if len(self.columns) != 1:
            raise ScheduleError(
                f"this recipe is for results with columns, which {self.stmt} has not",
                code="E316",
                hint="such as C(i,k) = A(i,j) * B(j,k)",
            )
        return self.columns[0]

    def extent(self, var: IndexVar) -> int | None:
        """How far a variable runs, if the tensors of the statement say so."""
        assignment = self.stmt.assignment
        for access in (*accesses_of(assignment.rhs), assignment.lhs):
            shape = access.tensor.shape
            for mode, v in enumerate(access.vars):
                if v == var and shape is not None and shape[mode] is not None:
                    return shape[mode]
        return None


def thread_per_row(stmt: Statement, threads: int = THREADS) -> Statement:
    """A thread for each row (thesis, A.9): best where rows are short and alike."""
    parts = Parts(stmt)
    row = parts.inside[0]
    return (
        _ordered(stmt, parts)
        .split(row, "block", "thread", threads)
        .parallelize("block", "GPUBlock", "NoRaces")
        .parallelize("thread", "GPUThread", "NoRaces")
    )


def group_per_row(stmt: Statement, group: int = 8, threads: int = THREADS) -> Statement:
    """`group` threads for each row, that walk it together and combine their sums at its end."""
    parts = Parts(stmt)
    row, inner, *more = parts.inside
    if more or parts.columns or parts.summed:
        raise ScheduleError(
            f"group_per_row is for a matrix times a vector, not for {stmt}",
            code="E316",
            hint="spmm_rows, or position_split",
        )
    return (
        _ordered(stmt, parts)
        .split(row, "block", "warp", threads // group)
        .pos(inner, "place", parts.sparse)
        .split("place", "round", "lane", group)
        .order("block", "warp", "lane", "round")
        .unroll("round", 2)
        .parallelize("block", "GPUBlock", "NoRaces")
        .parallelize("warp", "GPUWarp", "NoRaces")
        .parallelize("lane", "GPUGroup", group_size=group, reduction="parallel")
    )


def warp_per_row(stmt: Statement, threads: int = THREADS) -> Statement:
    """A warp for each row (thesis, A.10)."""
    return group_per_row(stmt, WARP, threads)


def _positions(stmt: Statement, parts: Parts) -> Statement:
    """All loops over the sparse operand's variables as one along its positions."""
    first, *rest = parts.inside
    fused: IndexVar | str = first
    for n, var in enumerate(rest):
        new = f"fused{n}" if n + 1 < len(rest) else "fused"
        stmt = stmt.fuse(fused, var, new)
        fused = new
    return stmt.pos(fused, "place", parts.sparse)


def position_split(stmt: Statement, each: int = 8, threads: int = THREADS) -> Statement:
    """Threads take `each` entries, however they lie in rows, and keep track of the row (A.11)."""
    parts = _without_columns(stmt, "position_split")
    return (
        _positions(_ordered(stmt, parts), parts)
        .split("place", "block", "tile", threads * each)
        .split("tile", "thread", "entry", each)
        .parallelize("block", "GPUBlock", "IgnoreRaces")
        .parallelize("thread", "GPUThread", "Atomics")
    )


def position_segments(
    stmt: Statement, each: int = 1, group: int = WARP, threads: int = THREADS
) -> Statement:
    """Threads take `each` entries, and groups of them combine what belongs to one row (Sgap)."""
    parts = _without_columns(stmt, "position_segments")
    split = _positions(_ordered(stmt, parts), parts).split("place", "block", "tile", threads * each)
    if each > 1:
        split = split.split("tile", "thread", "entry", each)
    return split.parallelize("block", "GPUBlock", "IgnoreRaces").parallelize(
        "thread" if each > 1 else "tile", "GPUGroup", group_size=group, reduction="segment"
    )


def position_staged(
    stmt: Statement, each: int = 8, group: int = 8, threads: int = THREADS
) -> Statement:
    """Blocks compute the terms of a tile of entries into shared memory, side by side.

    Then groups of threads sum up the segments of it that belong to one row. Best where rows are
    uneven, or few.
    """
    parts = _without_columns(stmt, "position_staged")
    terms = stmt.assignment.rhs
    return (
        _positions(_ordered(stmt, parts), parts)
        .split("place", "block", "tile", threads * each)
        .precompute(terms, "tile", "stage")
        .unroll("stage", each)
        .parallelize("block", "GPUBlock", "IgnoreRaces")
        .parallelize("stage", "GPUThread", "NoRaces")
        .parallelize("tile", "GPUGroup", group_size=group, reduction="segment")
    )


def _ordered(stmt: Statement, parts: Parts) -> Statement:
    """Loops in the order of the sparse operand's levels, so that nothing is converted."""
    return stmt.order(*parts.inside, *parts.columns, *parts.summed)


def _without_columns(stmt: Statement, recipe: str) -> Parts:
    parts = Parts(stmt)
    if parts.columns or parts.summed:
        raise ScheduleError(
            f"{recipe} is for results without columns, not for {stmt}",
            code="E316",
            hint="spmm_positions",
        )
    return parts


# -- results with columns -----------------------------------------------------------------------


def _lanes(parts: Parts, vector: int | None) -> tuple[int | None, int, int]:
    """The number of columns, how many a thread takes, and how many threads are side by side."""
    columns = parts.extent(parts.one_column)
    most = VECTOR // parts.stmt.assignment.lhs.dtype.itemsize
    each = vector or most
    if vector is None and columns is not None:
        while each > 1 and columns % each:
            each //= 2
    units = WARP if columns is None else -(-columns // each)
    lanes = 1
    while lanes < min(units, WARP):
        lanes *= 2
    return columns, each, lanes


def _columns(stmt: Statement, parts: Parts, vector: int | None) -> tuple[Statement, list[str], int]:
    """Columns as tiles of a warp, threads, and elements of a vector; the loops, and the threads."""
    columns, each, lanes = _lanes(parts, vector)
    column: IndexVar | str = parts.one_column
    if columns is not None:
        stmt, column = stmt.bound(column, "column", columns, "MaxExact"), "column"
    stmt = stmt.split(column, "unit", "part", each)
    if columns is not None and columns <= each * lanes:
        return stmt, ["unit", "part"], lanes
    return stmt.split("unit", "strip", "lane", lanes), ["strip", "lane", "part"], lanes


def spmm_rows(
    stmt: Statement, vector: int | None = None, unroll: int = 4, threads: int = THREADS
) -> Statement:
    """Some threads for each row, side by side along the columns, that walk it together."""
    parts = Parts(stmt)
    row, *inner = parts.inside
    stmt, columns, lanes = _columns(_ordered(stmt, parts), parts, vector)
    *strip, lane, part = columns
    product = stmt.assignment.rhs
    stmt = stmt.split(row, "block", "warp", threads // lanes)
    stmt = stmt.order("block", *strip, "warp", lane, *inner, part)
    stmt = stmt.precompute(product, part, "part_sum").unroll("part_sum").unroll(part)
    stmt = stmt.unroll(inner[-1], unroll)
    for tile in strip:
        stmt = stmt.parallelize(tile, "GPUBlock", "NoRaces")
    return (
        stmt.parallelize("block", "GPUBlock", "NoRaces")
        .parallelize("warp", "GPUWarp", "NoRaces")
        .parallelize(lane, "GPUThread", "NoRaces")
    )


def spmm_positions(
    stmt: Statement,
    each: int = 32,
    vector: int | None = None,
    unroll: int = 4,
    threads: int = THREADS,
) -> Statement:
    """Units of threads take `each` entries, side by side along the columns (A.4 and A.8)."""
    parts = Parts(stmt)
    stmt, columns, lanes = _columns(_ordered(stmt, parts), parts, vector)
    *strip, lane, part = columns
    stmt = _positions(stmt, parts)
    stmt = stmt.split("place", "block", "tile", threads // lanes * each)
    stmt = stmt.split("tile", "warp", "entry", each)
    stmt = stmt.order("block", *strip, "warp", lane, "entry", part)
    stmt = stmt.unroll(part).unroll("entry", unroll)
    stmt = stmt.parallelize("block", "GPUBlock", "IgnoreRaces")
    for tile in strip:
        stmt = stmt.parallelize(tile, "GPUBlock", "IgnoreRaces")
    return stmt.parallelize("warp", "GPUWarp", "IgnoreRaces").parallelize(
        lane, "GPUThread", "Atomics"
    )


def sddmm(
    stmt: Statement, each: int = 16, vector: int | None = None, threads: int = THREADS
) -> Statement:
    """Some threads for each entry of the pattern, that combine their parts of the dot product."""
    parts = Parts(stmt)
    if len(parts.summed) != 1 or parts.columns:
        raise ScheduleError(
            f"sddmm is for dot products at the entries of a pattern, not for {stmt}",
            code="E316",
            hint="such as C(i,k) = S(i,k) * A(i,j) * B(k,j)",
        )
    (inner,) = parts.summed
    length = parts.extent(inner)
    part = vector or VECTOR // stmt.assignment.lhs.dtype.itemsize
    while length is not None and part > 1 and length % part:
        part //= 2
    group = 2
    while group < WARP and (length is None or group * part < length):
        group *= 2
    summed: IndexVar | str = inner
    stmt = _ordered(stmt, parts)
    if length is not None:
        stmt, summed = stmt.bound(inner, "term", length, "MaxExact"), "term"
    stmt = _positions(stmt, parts)
    stmt = stmt.split("place", "block", "tile", threads // group * each)
    stmt = stmt.split("tile", "warp", "entry", each)
    stmt = stmt.split(summed, "unit", "part", part)
    if length is not None and length == group * part:
        lane, order = "unit", ["block", "warp", "entry", "unit", "part"]
    else:
        stmt = stmt.split("unit", "round", "lane", group)
        lane, order = "lane", ["block", "warp", "entry", "lane", "round", "part"]
    return (
        stmt.order(*order)
        .unroll("part")
        .parallelize("block", "GPUBlock", "NoRaces")
        .parallelize("warp", "GPUWarp", "NoRaces")
        .parallelize(lane, "GPUGroup", group_size=group, reduction="parallel")
    )


# -- atomic parallelism -------------------------------------------------------------------------


def atomic_parallel(
    stmt: Statement,
    *,
    nnz: float | None = None,
    row: float | None = None,
    col: float = 1,
    group: int = 1,
    threads: int = THREADS,
) -> Statement:
    """A point of Sgap's space: {<x nnz, y col>, r} or {<x row, y col>, r}.

    Args:
        stmt: a sparse matrix times a dense one, such as `C(i,k) = A(i,j) * B(j,k)`.
        nnz: how many entries a thread takes at least: a whole number.
        row: in place of `nnz`, how many rows: a whole number, or 1/g for g threads in a row.
        col: how many columns: a whole number.
        group: how many threads combine what they have: 1, 2, 4, 8, 16 or 32.
        threads: how many threads a block has.

    Raises:
        ScheduleError: E316 for the points that are illegal: less than an entry or a column
            (rule 1); 1/g of a row with a group of less than g, as one thread of a parallel
            reduction writes (rule 2); a part of a row and of a column (rule 3).
    """
    parts = Parts(stmt)
    column = parts.one_column
    if (nnz is None) == (row is None):
        raise _no_point("give nnz or row, and only one of them")
    if group not in (1, 2, 4, 8, 16, 32):
        raise _no_point(f"there are no groups of {group} threads")
    if row is not None and row < 1 and col < 1:
        raise _no_point("a part of a row and of a column: resources multiply only one of both")
    if (nnz is not None and nnz < 1) or col < 1:
        raise _no_point("an entry is multiplied by at least one element: no part of one")
    if int(col) != col or (nnz is not None and int(nnz) != nnz):
        raise _no_point("entries and columns are counted in whole numbers")
    if nnz is not None:
        return _some_entries(stmt, parts, int(nnz), int(col), group, threads)
    if row is not None and row >= 1:
        if int(row) != row or group != 1:
            raise _no_point(
                "whole rows have nothing to combine: group=1, and whole numbers of them"
            )
        return _some_rows(stmt, column, parts, int(row), int(col), threads)
    share = round(1 / float(row or 1))
    if abs(share * float(row or 1) - 1) > 1e-9 or share not in (2, 4, 8, 16, 32):
        raise _no_point("a part of a row is 1/2, 1/4, 1/8, 1/16 or 1/32 of it")
    if group < share:
        raise _no_point(
            f"{share} threads in a row, but groups of {group}: one thread of a parallel reduction "
            "writes"
        )
    return _part_of_row(stmt, column, parts, share, int(col), threads)


def _no_point(why: str) -> ScheduleError:
    return ScheduleError(
        f"no such atomic parallelism: {why}",
        code="E316",
        hint="atomic_parallel(stmt, nnz=1, col=4, group=32), or row=1/8, group=8",
    )


def _split_columns(
    stmt: Statement, column: IndexVar, parts: Parts, col: int
) -> tuple[Statement, int]:
    """Columns in runs of `col`, and how many runs there are."""
    columns = parts.extent(column)
    if columns is None:
        raise _no_point(f"it is not known how many columns {column} has")
    stmt = stmt.split(column, "units", "part", col)
    return stmt.bound("units", "unit", -(-columns // col), "MaxExact"), -(-columns // col)


def _some_entries(
    stmt: Statement, parts: Parts, nnz: int, col: int, group: int, threads: int
) -> Statement:
    """{<g nnz, c col>, r}: listings 3 and 6 of Sgap."""
    stmt = stmt.order(*parts.inside, *parts.columns)
    stmt, units = _split_columns(stmt, parts.one_column, parts, col)
    side = max(1, threads // units)
    if group == 1:
        stmt = _positions(stmt, parts).split("place", "block", "tile", nnz * side)
        stmt = stmt.split("tile", "warp", "entry", nnz)
        stmt = stmt.order("block", "warp", "unit", "part", "entry")
        stmt = stmt.parallelize("block", "GPUBlock", "IgnoreRaces")
        stmt = stmt.parallelize("warp", "GPUWarp", "IgnoreRaces")
        return stmt.parallelize("unit", "GPUThread", "Atomics")
    side = max(group, side // group * group)
    stmt = _positions(stmt, parts).split("place", "block", "tile", nnz * side)
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


def _some_rows(
    stmt: Statement, column: IndexVar, parts: Parts, row: int, col: int, threads: int
) -> Statement:
    """{<g row, c col>, 1}: listing 4 of Sgap."""
    rows, *inner = parts.inside
    stmt, units = _split_columns(_ordered(stmt, parts), column, parts, col)
    stmt = stmt.split(rows, "block", "tile", row * max(1, threads // units))
    stmt = stmt.split("tile", "warp", "line", row)
    stmt = stmt.order("block", "warp", "line", "unit", "part", *inner)
    stmt = stmt.parallelize("block", "GPUBlock", "NoRaces")
    stmt = stmt.parallelize("warp", "GPUWarp", "NoRaces")
    return stmt.parallelize("unit", "GPUThread", "NoRaces")


def _part_of_row(
    stmt: Statement, column: IndexVar, parts: Parts, share: int, col: int, threads: int
) -> Statement:
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
