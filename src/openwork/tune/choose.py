"""Which recipe a statement gets on a GPU: from its form, and from cheap statistics of its data."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2
from weakref import WeakKeyDictionary

from openwork.errors import ScheduleError
from openwork.format.levels import Compressed, Dense
from openwork.runtime.storage import Storage
from openwork.tensor.row_lengths import longest_row
from openwork.tensor.statement import Statement
from openwork.tune import recipes
from openwork.tune.parts import Parts

# Microseconds, as measured on an H200 over generated and real matrices (bench/gpu.py).
# An entry of a row takes the threads that walk the row one step. Of a matrix times a vector that is
# a step of a group, or of a thread alone; times a matrix, of a matrix with few entries, with many,
# each with what a byte of the columns adds.
_STEP_GROUP, _STEP_THREAD = 0.13, 0.07
_STEP_FEW, _STEP_MANY = (0.07, 1.0e-4), (0.15, 2.5e-4)
# Threads that begin in a microsecond.
_THREADS = 300_000.0
# How much longer a kernel along positions takes than the shortest along rows; and what it does in a
# microsecond, entries of a matrix times a vector, bytes of columns times a matrix.
_START_VECTOR, _RATE_VECTOR = 3.0, 400_000.0
_START_MATRIX, _RATE_MATRIX = 4.0, 7.0e6
# Entries that fill a GPU many times over, that fill it, and that leave some of it idle.
_MUCH, _MANY, _FEW = 16_000_000, 1_000_000, 200_000
# Tiles of the dense operand are worth while from so many bytes and rows of it on, for few rows that
# are stored to a share: else too little of a row is in a tile to look for it. A GPU adds several
# numbers of one type at once; others need longer runs.
_FEW_ROWS, _TILED_BYTES, _TILED_ACROSS = 1000, 256, 50_000
_TILED_SHARE, _TILED_SHARE_FLOAT32 = 0.2, 0.08
_RESIDENT = 1024  # threads of a multiprocessor, where wide terms are staged
_UNKNOWN_MEAN = 16.0  # entries of a row, where rows are not those of a matrix
_FEW_SAMPLES = 60_000  # entries at which dot products are taken
_FEW_COLUMNS = 32  # bytes of a row's columns whose terms are computed ahead, into shared memory


@dataclass(frozen=True)
class Rows:
    """How the entries of a sparse operand lie in its outermost stored mode."""

    count: int
    mean: float
    longest: int

    @property
    def entries(self) -> float:
        """Those of all rows."""
        return self.count * self.mean

    def best_group(self, least: int) -> tuple[float, int]:
        """How long groups of threads for each row take, and how many threads are best."""
        sizes = [size for size in (1, 2, 4, 8, 16, 32) if size >= least]
        return min((self._group(size), size) for size in sizes)

    def _group(self, size: int) -> float:
        """How long groups of `size` threads take: the longest row, and all of them to begin."""
        step = _STEP_GROUP if size > 1 else _STEP_THREAD
        return self.longest / size * step + self.count * size / _THREADS

    def even(self, columns: int) -> bool:
        """Whether the longest row is done before a kernel along positions would be.

        `columns`: bytes of each row of the dense operand.
        """
        step, byte = _STEP_MANY if self.entries >= _MANY else _STEP_FEW
        time = self.longest * (step + columns * byte)
        return time <= _START_MATRIX + self.entries * columns / _RATE_MATRIX


_known: WeakKeyDictionary[Storage, Rows] = WeakKeyDictionary()


def rows_of(storage: Storage) -> Rows:
    """The statistics of a matrix or a tensor in rows, found once."""
    found = _known.get(storage)
    if found is None:
        count = int(storage.levels[1]["pos"].size) - 1
        mean = storage.nnz / max(1, count)
        found = _known[storage] = Rows(count, mean, longest_row(storage))
    return found


def choose(stmt: Statement) -> Statement | None:
    """`stmt` with the recipe that fits it, or None if there is none."""
    try:
        parts = Parts(stmt)
        levels = parts.sparse.tensor.format.levels
    except ScheduleError:
        return None
    source = parts.sparse.tensor.source
    storage = getattr(source, "_storage", None)
    if storage is None:
        return None
    try:
        if len(parts.summed) == 1 and not parts.columns:
            return recipes.sddmm(stmt, each=2 if storage.nnz < _FEW_SAMPLES else 4)
        if parts.summed or len(parts.columns) > 1:
            return None
        if levels == (Dense, Compressed):
            return _matrix(stmt, parts, rows_of(storage))
        if parts.columns:
            return _tensor(stmt, parts, storage)
        return recipes.position_staged(stmt)
    except ScheduleError:
        return None


def _matrix(stmt: Statement, parts: Parts, rows: Rows) -> Statement:
    """A sparse matrix in rows, times a vector or a matrix.

    Where entries are many, memory is used best by threads side by side along the entries; else
    threads side by side along a row have less to do beside, unless they wait for the longest row.
    """
    group = 2 if rows.mean < 32 else 8 if rows.mean < 256 else 32
    if parts.columns:
        return _columns(stmt, parts, rows, group)
    size = stmt.assignment.lhs.dtype.itemsize
    if rows.entries >= _MUCH:
        uneven = rows.longest * 0.06 > rows.entries / 250_000
        return recipes.position_staged(stmt, (4 if rows.mean >= 32 else 2) if uneven else 8, group)
    time, lanes = rows.best_group(1 if rows.mean < 5 else 4 if size <= 4 or rows.mean < 8 else 8)
    if time > _START_VECTOR + rows.entries / _RATE_VECTOR:
        if rows.entries < (2 * _MANY if rows.mean < 8 else _MANY / 2):
            return recipes.position_segments(stmt, 1)
        return recipes.position_staged(stmt, 4 if rows.mean >= 32 else 2, group)
    return recipes.thread_per_row(stmt) if lanes == 1 else recipes.group_per_row(stmt, lanes)


def _tensor(stmt: Statement, parts: Parts, storage: Storage) -> Statement:
    """A sparse tensor times matrices, or a matrix in another format than rows."""
    columns, size = parts.extent(parts.one_column) or 32, stmt.assignment.lhs.dtype.itemsize
    if len(storage.levels) > 2 and all(level == Compressed for level in storage.format.levels[1:]):
        rows = rows_of(storage)
        if parts.one_row and columns * size > _FEW_COLUMNS and rows.even(columns * size):
            return recipes.spmm_rows(stmt)
    return recipes.spmm_positions(stmt, _entries(columns, _UNKNOWN_MEAN, storage.nnz))


def _columns(stmt: Statement, parts: Parts, rows: Rows, group: int) -> Statement:
    """A sparse matrix in rows times a matrix."""
    columns, size = parts.extent(parts.one_column) or 32, stmt.assignment.lhs.dtype.itemsize
    even = rows.even(columns * size)
    if columns * size <= _FEW_COLUMNS:
        short = rows.mean < 16 and rows.entries < 3 * _MANY
        if even and (rows.entries < _FEW or short):
            return recipes.spmm_rows(stmt)
        each = 4 if even or rows.mean >= 32 else 2
        resident = _RESIDENT if size > 4 and rows.entries >= _MANY else None
        return recipes.spmm_staged(stmt, each, group, resident=resident)
    if even:
        return recipes.spmm_rows(stmt)
    if columns * size >= _TILED_BYTES and _fills_tiles(stmt, parts, rows):
        return recipes.spmm_tiles(stmt)
    return recipes.spmm_positions(stmt, _entries(columns, rows.mean, rows.entries))


def _fills_tiles(stmt: Statement, parts: Parts, rows: Rows) -> bool:
    """Whether rows are few, and have enough entries in each tile of the dense operand."""
    across = parts.extent(parts.inside[1]) or 0
    float32 = stmt.assignment.lhs.dtype == "float32"
    least = across * (_TILED_SHARE_FLOAT32 if float32 else _TILED_SHARE)
    few = parts.one_row and rows.count <= _FEW_ROWS
    return few and across >= _TILED_ACROSS and rows.mean >= least


def _entries(columns: int, mean: float, entries: float) -> int:
    """Entries that a unit of threads takes: more where there are more for each unit."""
    if columns <= 8:
        return 32 if mean > 4096 else 16
    if columns > 64:
        return _near(entries / 20_000, 16, 128)
    return _near(entries / 18_000, 8, 16 if mean < 8 else 32 if mean < 64 else 64)


def _near(wanted: float, least: int, most: int) -> int:
    """The power of two that is nearest, by its ratio."""
    return min(most, max(least, 1 << round(log2(max(wanted, 1.0)))))


Statement.gpu_recipe = staticmethod(choose)
