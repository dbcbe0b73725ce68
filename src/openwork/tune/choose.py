"""Which recipe a statement gets on a GPU: from its form, and from cheap statistics of its data."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from openwork.errors import ScheduleError
from openwork.format.levels import Compressed, Dense
from openwork.runtime.storage import Storage
from openwork.tensor.row_lengths import longest_row
from openwork.tensor.statement import Statement
from openwork.tune import recipes
from openwork.tune.parts import Parts

# Microseconds that an entry of a row takes the threads that walk the row, where they wait for
# memory: of a matrix times a vector, and times a matrix.
_WAIT_VECTOR, _WAIT_MATRIX = 0.06, 0.25
# Entries of all rows together that a GPU gets done in a microsecond, at most.
_RATE = 250_000.0
_LEAST = 8.0  # microseconds that any kernel may take
# Entries that fill a GPU many times over, and that leave some of it idle.
_MUCH, _FEW = 16_000_000, 200_000
_FEW_COLUMNS = 32  # bytes of a row's columns whose terms are computed ahead, into shared memory


@dataclass(frozen=True)
class Rows:
    """How the entries of a sparse operand lie in its outermost stored mode."""

    count: int
    mean: float
    longest: int

    def even(self, wait: float) -> bool:
        """Whether the longest row is done, at `wait` for each entry, before all others are."""
        return self.longest * wait <= max(_LEAST, self.count * self.mean / _RATE)


_known: WeakKeyDictionary[Storage, Rows] = WeakKeyDictionary()


def rows_of(storage: Storage) -> Rows:
    """The statistics of a matrix in rows, found once."""
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
            return recipes.sddmm(stmt, 2 if storage.nnz < _FEW else 16)
        if parts.summed or len(parts.columns) > 1:
            return None
        if levels == (Dense, Compressed):
            return _matrix(stmt, parts, rows_of(storage))
        if parts.columns:
            columns = parts.extent(parts.one_column) or 32
            return recipes.spmm_positions(stmt, _entries(columns, 1.0))
        return recipes.position_staged(stmt)
    except ScheduleError:
        return None


def _matrix(stmt: Statement, parts: Parts, rows: Rows) -> Statement:
    """A sparse matrix in rows, times a vector or a matrix.

    Where entries are short and many, memory is used best by threads side by side along the entries;
    else threads side by side along a row have less to do beside.
    """
    entries = rows.count * rows.mean
    much, size = entries >= _MUCH, stmt.assignment.lhs.dtype.itemsize
    group = 2 if rows.mean < 32 else 8 if rows.mean < 256 else 32
    if parts.columns:
        columns = parts.extent(parts.one_column) or 32
        if not rows.even(_WAIT_MATRIX):
            if columns * size <= _FEW_COLUMNS:
                return recipes.spmm_staged(stmt, 4 if rows.mean >= 32 else 2, group)
            return recipes.spmm_positions(stmt, _entries(columns, rows.mean))
        if columns * size <= 16 and entries >= _FEW:
            return recipes.spmm_staged(stmt, 4, group)
        return recipes.spmm_rows(stmt)
    if not rows.even(_WAIT_VECTOR):
        return recipes.position_staged(stmt, 2 if rows.mean < 32 else 4, group)
    if much:
        return recipes.position_staged(stmt, 8, group)
    most = 4 if size <= 4 else 8
    return recipes.group_per_row(stmt, 2 if rows.mean < 5 else most if rows.mean < 64 else 32)


def _entries(columns: int, mean: float) -> int:
    """Entries that a unit of threads takes: more where there is more to do for each."""
    if columns <= 8:
        return 32 if mean > 4096 else 16
    return 128 if columns > 64 else 32 if mean < 64 else 64


Statement.gpu_recipe = staticmethod(choose)
