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

# Where the longest row has so many times the entries of the mean one, rows are cut by entries.
_SKEWED = 24
# Rows that a GPU is busy with; fewer are cut by entries, too.
_FEW_ROWS = 20_000


@dataclass(frozen=True)
class Rows:
    """How the entries of a sparse operand lie in its outermost stored mode."""

    count: int
    mean: float
    longest: int

    @property
    def even(self) -> bool:
        """Whether rows can be given to threads as they are."""
        return self.count >= _FEW_ROWS and self.longest <= _SKEWED * max(1.0, self.mean)


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
            return recipes.spmm_positions(stmt)
        return recipes.position_split(stmt)
    except ScheduleError:
        return None


def _matrix(stmt: Statement, parts: Parts, rows: Rows) -> Statement:
    """A sparse matrix in rows, times a vector or a matrix."""
    if parts.columns:
        return recipes.spmm_rows(stmt) if rows.even else recipes.spmm_positions(stmt)
    if not rows.even:
        return recipes.position_segments(stmt, each=4)
    group = 2
    while group < 32 and group * 2 < rows.mean:
        group *= 2
    return recipes.group_per_row(stmt, group)


Statement.gpu_recipe = staticmethod(choose)
