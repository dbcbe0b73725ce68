"""How long kernels along the rows of a sparse operand take, by the table of a machine."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

from openwork.loops.schedule.machines import Gpu
from openwork.loops.schedule.statistics import Rows

GROUPS = (1, 2, 4, 8, 16, 32)  # threads that walk a row together


@dataclass(frozen=True)
class RowModel:
    """The rows of a sparse operand on a GPU. Times are in microseconds."""

    entries: int
    rows: Rows
    gpu: Gpu

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.rows.count

    @property
    def mean(self) -> float:
        """Entries of a row."""
        return self.entries / max(1, self.rows.count)

    @property
    def longest(self) -> int:
        """Entries of the longest row."""
        return self.rows.longest

    @property
    def reach(self) -> float:
        """Columns from the first to the last entry of a row."""
        return self.rows.reach

    @property
    def alike(self) -> bool:
        """Whether no row is much longer than most."""
        return self.longest <= 2 * self.mean

    @property
    def lopsided(self) -> bool:
        """Whether entries are many, and one row is so long that others wait for it."""
        load = self.gpu.load
        return self.entries >= load.lopsided_entries and self.longest > load.lopsided * self.mean

    # -- times a vector -------------------------------------------------------------------------

    def group_for_vector(self, least: int) -> tuple[int, bool]:
        """How many threads should take a row; and whether they beat a kernel along positions.

        Kernels along positions do not wait for the longest row.
        """
        time, size = min((self._group(size), size) for size in GROUPS if size >= least)
        return size, time <= self._vector_along_positions()

    def _vector_along_positions(self) -> float:
        return self.gpu.times.start_vector + self.entries / self.gpu.times.rate_vector

    def _group(self, size: int) -> float:
        """How long groups of `size` threads take: the longest row, and all of them to start."""
        times = self.gpu.times
        step = times.step_group if size > 1 else times.step_thread
        waves = self.count * size / self.gpu.resident
        late = self.alike and 1 < waves < 1.6  # a short second wave, when all others are done
        return self.longest / size * step * (2 if late else 1) + self.count * size / times.threads

    # -- times a matrix -------------------------------------------------------------------------

    def group_for_columns(self, columns: int) -> tuple[int, bool]:
        """The same with few columns, each of which has a group of threads."""
        times = self.gpu.times
        threads = self.count * columns / times.threads_column
        sizes = [size for size in GROUPS if size != 2]
        time, size = min((self.longest / n * times.step_column + n * threads, n) for n in sizes)
        return size, time <= times.start_column + self.entries / times.rate_column

    def even(self, columns: int) -> bool:
        """Whether the longest row is done before a kernel along positions would be.

        `columns`: bytes of each row of the dense operand.
        """
        if self.lopsided:
            return False
        times = self.gpu.times
        step, byte = times.step_many if self.entries >= self.gpu.load.many else times.step_few
        if self.alike:
            step, byte = times.step_alike
        return self.longest * (step + columns * byte) <= self._along_positions(columns)

    def _along_positions(self, columns: int) -> float:
        """How long a kernel takes whose threads share the entries, whatever their rows."""
        times = self.gpu.times
        return times.start_matrix + self.entries * columns / times.rate_matrix

    # -- rows that many add to ------------------------------------------------------------------

    def crowded(self, each: int, columns: int = 0, at_once: bool = True) -> bool:
        """Whether threads that take `each` entries wait for each other to add to the longest row.

        `columns`: bytes of each row of the dense operand, if they are many; `at_once`: vector
        atomics add them together.
        """
        times = self.gpu.times
        atomic = times.atomic if at_once else max(times.atomic, columns * times.atomic_byte)
        waits = self.longest / each * atomic
        others = self._along_positions(columns) if columns else self._vector_along_positions()
        return 2 * waits > others


def near(wanted: float, least: int, most: int) -> int:
    """The power of two that is nearest, by its ratio."""
    return min(most, max(least, 1 << round(log2(max(wanted, 1.0)))))
