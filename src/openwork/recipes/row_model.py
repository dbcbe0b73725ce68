"""What is known of the rows of a sparse operand, and how long kernels along them take.

Times are in microseconds, as measured on an H200 over generated and real matrices (bench/gpu.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2
from weakref import WeakKeyDictionary

from openwork.recipes.statistics import longest_row
from openwork.runtime.storage import Storage

GROUPS = (1, 2, 4, 8, 16, 32)  # threads that walk a row together

# Threads that begin in a microsecond; and that a GPU has at once.
_THREADS, _AT_ONCE = 300_000.0, 132 * 2048
# A step along a row, of a group of threads, and of a thread alone.
_STEP_GROUP, _STEP_THREAD = 0.13, 0.07
# The same with few columns, where threads of a group take one column each; all columns begin.
_STEP_COLUMN, _THREADS_COLUMN = 0.06, 220_000.0
# A step with more columns, of a matrix with few entries, and with many: with what a byte adds.
_STEP_FEW, _STEP_MANY = (0.095, 1.5e-4), (0.12, 2.0e-4)
# How much longer a kernel along positions takes than the shortest along rows; and what it does in a
# microsecond: entries times a vector, entries times few columns, bytes of more columns.
_START_VECTOR, _RATE_VECTOR = 3.0, 400_000.0
_START_COLUMN, _RATE_COLUMN = 3.0, 600_000.0
_START_MATRIX, _RATE_MATRIX = 6.0, 7.0e6
# What one addition to a place waits for the one before: of all columns at once, or of a byte each.
_ADDED, _ADDED_BYTE = 0.0025, 2.5e-5
_STEP_ALIKE = 0.07, 1.0e-4  # a step along rows that begin and end together
_LOPSIDED, _MATTERS = 8, 5_000_000  # times the mean; entries of which it matters
MANY = 1_000_000  # entries that fill a GPU
MANY_ROWS = 200_000  # that do, with a thread each


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

    @property
    def alike(self) -> bool:
        """Whether none is much longer than most."""
        return self.longest <= 2 * self.mean

    @property
    def lopsided(self) -> bool:
        """Whether entries are many, and one row is so long that others wait for it."""
        return self.entries >= _MATTERS and self.longest > _LOPSIDED * self.mean

    # -- times a vector -------------------------------------------------------------------------

    def group_for_vector(self, least: int) -> tuple[int, bool]:
        """How many threads take a row, at best; and whether they are done before others would be.

        Others are kernels along positions, which do not wait for the longest row.
        """
        time, size = min((self._group(size), size) for size in GROUPS if size >= least)
        return size, time <= _START_VECTOR + self.entries / _RATE_VECTOR

    def _group(self, size: int) -> float:
        """How long groups of `size` threads take: the longest row, and all of them to begin."""
        step = _STEP_GROUP if size > 1 else _STEP_THREAD
        waves = self.count * size / _AT_ONCE
        late = self.alike and 1 < waves < 1.6  # a few come last, when all others are done
        return self.longest / size * step * (2 if late else 1) + self.count * size / _THREADS

    # -- times a matrix -------------------------------------------------------------------------

    def group_for_columns(self, columns: int) -> tuple[int, bool]:
        """The same with few columns, of each of which a group of threads has its own."""
        threads = self.count * columns / _THREADS_COLUMN
        sizes = [size for size in GROUPS if size != 2]
        time, size = min((self.longest / n * _STEP_COLUMN + n * threads, n) for n in sizes)
        return size, time <= _START_COLUMN + self.entries / _RATE_COLUMN

    def even(self, columns: int) -> bool:
        """Whether the longest row is done before a kernel along positions would be.

        `columns`: bytes of each row of the dense operand.
        """
        if self.lopsided:
            return False
        step, byte = _STEP_MANY if self.entries >= MANY else _STEP_FEW
        if self.alike:
            step, byte = _STEP_ALIKE
        return self.longest * (step + columns * byte) <= self._along_positions(columns)

    def _along_positions(self, columns: int) -> float:
        """How long a kernel takes whose threads share the entries, whatever their rows."""
        return _START_MATRIX + self.entries * columns / _RATE_MATRIX

    # -- rows that many add to ------------------------------------------------------------------

    def crowded(self, each: int, columns: int = 0, at_once: bool = True) -> bool:
        """Whether threads that take `each` entries wait for each other to add to the longest row.

        `columns`: bytes of each row of the dense operand, if they are many; `at_once`: they are
        added together.
        """
        waits = self.longest / each * (_ADDED if at_once else max(_ADDED, columns * _ADDED_BYTE))
        others = _START_VECTOR + self.entries / _RATE_VECTOR
        return 2 * waits > (self._along_positions(columns) if columns else others)


_known: WeakKeyDictionary[Storage, Rows] = WeakKeyDictionary()


def rows_of(storage: Storage) -> Rows:
    """The statistics of a matrix or a tensor in rows, found once."""
    found = _known.get(storage)
    if found is None:
        count = int(storage.levels[1]["pos"].size) - 1
        mean = storage.nnz / max(1, count)
        found = _known[storage] = Rows(count, mean, longest_row(storage))
    return found


def near(wanted: float, least: int, most: int) -> int:
    """The power of two that is nearest, by its ratio."""
    return min(most, max(least, 1 << round(log2(max(wanted, 1.0)))))
