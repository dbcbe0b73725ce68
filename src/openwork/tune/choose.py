"""Which recipe a statement gets on a GPU: from its form, and from cheap statistics of its data."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from openwork.errors import ScheduleError
from openwork.format.levels import Compressed, Dense
from openwork.runtime.storage import Storage
from openwork.tensor.statement import Statement
from openwork.tune import recipes
from openwork.tune.recipes import Parts

# Microseconds that an entry of a row takes the threads that walk the row, where they wait for
# memory: of a matrix times a vector, and times a matrix.
_WAIT_VECTOR, _WAIT_MATRIX = 0.06, 0.25
# Entries of all rows together that a GPU gets done in a microsecond, at most.
_RATE = 250_000.0
_LEAST = 8.0  # microseconds that any kernel may take


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
        pos = storage.levels[1]["pos"]
        count = int(pos.size) - 1
        longest = int((pos[1:] - pos[:-1]).max()) if count else 0
        found = _known[storage] = Rows(count, storage.nnz / max(1, count), longest)
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
            return recipes.sddmm(stmt)
        if parts.summed or len(parts.columns) > 1:
            return None
        if levels == (Dense, Compressed):
            return _matrix(stmt, parts, rows_of(storage))
        if parts.columns:
            return recipes.spmm_positions(stmt, _entries(parts))
        return recipes.position_staged(stmt)
    except ScheduleError:
        return None


def _matrix(stmt: Statement, parts: Parts, rows: Rows) -> Statement:
    """A sparse matrix in rows, times a vector or a matrix."""
    if parts.columns:
        if rows.even(_WAIT_MATRIX):
            return recipes.spmm_rows(stmt)
        return recipes.spmm_positions(stmt, _entries(parts))
    if not rows.even(_WAIT_VECTOR):
        return recipes.position_staged(stmt, group=_group(rows.mean))
    return recipes.group_per_row(stmt, _group(rows.mean))


def _group(mean: float) -> int:
    """Threads of a row: fewer than its entries, so that each has some under way."""
    return 2 if mean < 5 else 4 if mean < 64 else 8 if mean < 256 else 32


def _entries(parts: Parts) -> int:
    """Entries that a unit of threads takes: more where there is more to do for each."""
    columns = parts.extent(parts.one_column) or 32
    return 16 if columns <= 8 else 64 if columns <= 64 else 128


Statement.gpu_recipe = staticmethod(choose)
