"""Recipes for a CPU: schedules as plain functions from a statement to a statement.

Each is a few lines of the scheduling language, to be read, copied and changed; they see the parts
of a statement as the recipes for a GPU do.

>>> import openwork as ow
>>> A, D = ow.placeholder("A", order=2, format=ow.CSR), ow.placeholder("D", order=2)
>>> spmm = ow.parse("C(i,k) = A(i,j) * D(j,k)", C=ow.empty((90, 8)), A=A, D=D)
>>> ow.recipes.balanced_rows(spmm, parts=16).commands
'order(i,j,k), divide(i,part,row,16,balance=nnz), parallelize(part,CPUThread,NoRaces)'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from openwork.errors import ScheduleError
from openwork.format.levels import Compressed
from openwork.index.nodes import IndexVar
from openwork.loops.schedule.schedulable import S, Schedulable
from openwork.recipes.statement_parts import Parts, ordered, positions

PARTS = 64  # shares of the work, several for each thread
LANES = 64  # bytes of a register tile: one vector of AVX-512, or two of AVX2


def balanced_rows(stmt: S, parts: int = PARTS) -> S:
    """Threads take runs of rows with equally many entries: where rows are uneven, but none huge.

    >>> import openwork as ow
    >>> A, x = ow.placeholder("A", order=2, format=ow.CSR), ow.placeholder("x", order=1)
    >>> spmv = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(90), A=A, x=x)
    >>> print(ow.recipes.balanced_rows(spmv, parts=16).loops)
    forall part:  [CPUThread, NoRaces]
      forall row:
        forall j:
          y(i) += A(i,j) * x(j)
    such that pos(i, i_pos, A[i, j]),
      divide(i_pos, part, row, 16, balanced by A)
    """
    sides = _with_rows(stmt, "balanced_rows")
    made = ordered(stmt, sides).divide(sides.inside[0], "part", "row", parts, balance="nnz")
    return made.parallelize("part", "CPUThread", "NoRaces")


def register_tiles(stmt: S, lanes: int | None = None, rows: int = 32) -> S:
    """Each row sums a tile of columns in registers, a pass over its entries for every tile.

    Best where the columns are a few vectors. `lanes`: the columns of a tile; `rows`: how many a
    thread takes at a time.

    >>> import openwork as ow
    >>> A, D = ow.placeholder("A", order=2, format=ow.CSR), ow.placeholder("D", order=2)
    >>> spmm = ow.parse("C(i,k) = A(i,j) * D(j,k)", C=ow.empty((90, 8)), A=A, D=D)
    >>> print(ow.recipes.register_tiles(spmm, lanes=4).loops)
    forall i:  [CPUThread, NoRaces, 32 at a time]
      forall tile:
        forall lane:  [unroll]
          C(i,k) = w(lane)
        where
          forall j:
            forall lane_sum:  [unroll]
              w(lane_sum) += A(i,j) * D(j,k)
    such that split(k, tile, lane, 4),
      precompute(lane, lane_sum)
    """
    sides = _with_rows(stmt, "register_tiles")
    column = sides.one_column
    row, *inner = sides.inside
    if not sides.one_row or sides.summed:
        raise _does_not_fit(
            stmt, "register_tiles", "sums over the entries of a row", "balanced_rows"
        )
    lanes = lanes or max(1, LANES // stmt.assignment.lhs.dtype.itemsize)
    made = ordered(stmt, sides).split(column, "tile", "lane", lanes)
    made = made.order(row, "tile", *inner, "lane")
    made = made.precompute(stmt.assignment.rhs, "lane", "lane_sum")
    made = made.unroll("lane_sum").unroll("lane")
    return made.parallelize(row, "CPUThread", "NoRaces", chunk=rows)


def position_chunks(stmt: S, each: int = 4096) -> S:
    """Threads take chunks of `each` entries, across rows (thesis, figure 7-1).

    Best where a few rows have most of the entries. Chunks that share a row add with atomics.

    >>> import openwork as ow
    >>> A, x = ow.placeholder("A", order=2, format=ow.CSR), ow.placeholder("x", order=1)
    >>> spmv = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(90), A=A, x=x)
    >>> print(ow.recipes.position_chunks(spmv, each=64).loops)
    forall chunk:  [CPUThread, Atomics]
      forall entry:
        y(i) += A(i,j) * x(j)
    such that fuse(i, j, fused),
      pos(fused, place, A[i, j]),
      split(place, chunk, entry, 64)
    """
    sides = Parts(stmt)
    made = positions(ordered(stmt, sides), sides, parents=None).split(
        "place", "chunk", "entry", each
    )
    return made.parallelize("chunk", "CPUThread", "NoRaces" if sides.apart else "Atomics")


def merge_path(stmt: S, parts: int = PARTS) -> S:
    """Threads take runs of entries, cut so that rows and entries together are shared evenly.

    As in merge-based SpMV: a part with many empty rows has fewer entries. The cuts are searched for
    once before the kernel runs.

    >>> import openwork as ow
    >>> A, x = ow.placeholder("A", order=2, format=ow.CSR), ow.placeholder("x", order=1)
    >>> spmv = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(90), A=A, x=x)
    >>> print(ow.recipes.merge_path(spmv, parts=16).loops)
    forall part:  [CPUThread, Atomics]
      forall entry:
        y(i) += A(i,j) * x(j)
    such that fuse(i, j, fused),
      pos(fused, place, A[i, j]),
      divide(place, part, entry, 16, at given points)
    """
    sides = _with_rows(stmt, "merge_path")
    levels = sides.sparse.tensor.format.levels
    if not all(level == Compressed for level in levels[1:]):
        raise _does_not_fit(
            stmt, "merge_path", "compressed levels below the rows", "position_chunks"
        )
    cuts = _merge_cuts(sides.sparse.tensor.name)
    made = positions(ordered(stmt, sides), sides, parents=None)
    made = made.divide("place", "part", "entry", parts, split_points=cuts)
    return made.parallelize("part", "CPUThread", "NoRaces" if sides.apart else "Atomics")


def _merge_cuts(name: str) -> Callable[[Mapping[str, Any], int], Any]:
    """A function that cuts the entries of an operand along its merge path with the rows."""

    def merge_cuts(tensors: Mapping[str, Any], parts: int) -> Any:
        storage = tensors[name].storage
        ends: Any = np.asarray(storage.levels[1]["pos"], np.int64)
        for level in storage.levels[2:]:
            ends = np.asarray(level["pos"], np.int64)[ends]
        steps = ends + np.arange(ends.size)  # after each row: its entries, and the rows before
        wanted = np.linspace(0, steps[-1], parts + 1).astype(np.int64)
        row = np.searchsorted(steps, wanted, side="right") - 1
        cuts = np.minimum(wanted - row, ends[np.minimum(row + 1, ends.size - 1)])
        return np.maximum.accumulate(np.clip(cuts, 0, ends[-1]))

    return merge_cuts


def cache_tiles(stmt: S, rows: int = 4096, across: int = 4096) -> S:
    """Tiles of the sparse matrix, as CSB has them: a thread takes a band of rows, tile by tile.

    The part of the dense operand that a tile reads stays in the cache. Every row is searched for
    its first entry in a tile. Best for large matrices whose rows reach far.

    >>> import openwork as ow
    >>> A, x = ow.placeholder("A", order=2, format=ow.CSR), ow.placeholder("x", order=1)
    >>> spmv = ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(90), A=A, x=x)
    >>> print(ow.recipes.cache_tiles(spmv, rows=16, across=8).loops)
    forall band:  [CPUThread, NoRaces]
      forall tile:
        forall row:
          forall entry:
            y(i) += A(i,j) * x(j)
    such that split(i, band, row, 16),
      split(j, tile, entry, 8)
    """
    sides = _with_rows(stmt, "cache_tiles")
    if len(sides.inside) != 2:
        raise _does_not_fit(stmt, "cache_tiles", "a sparse matrix", "balanced_rows")
    row, inner = sides.inside
    made = ordered(stmt, sides).split(row, "band", "row", rows)
    made = made.split(inner, "tile", "entry", across)
    others: tuple[IndexVar | str, ...] = (*sides.columns, *sides.summed)
    made = made.order("band", "tile", "row", "entry", *others)
    return made.parallelize("band", "CPUThread", "NoRaces")


def _with_rows(stmt: Schedulable, recipe: str) -> Parts:
    """The parts of a statement whose rows, of the sparse operand, are rows of the result."""
    sides = Parts(stmt)
    rows = sides.inside[0] in stmt.assignment.lhs.vars
    if not rows or len(sides.inside) < 2 or sides.sparse.tensor.format.tiled:
        raise _does_not_fit(
            stmt, recipe, "a sparse operand whose rows are the result's", "position_chunks"
        )
    return sides


def _does_not_fit(stmt: Schedulable, recipe: str, needs: str, instead: str) -> ScheduleError:
    return ScheduleError(
        f"{recipe} is for {needs}, which {stmt} has not", code="E316", hint=instead
    )
