"""A cost model of kernels along the rows of a sparse operand, from a machine's table."""

from __future__ import annotations

from math import log2, sqrt

from openwork.frozen import frozen
from openwork.loops.schedule.machines import Gpu
from openwork.loops.schedule.statistics import Rows

GROUPS = (1, 2, 4, 8, 16, 32)  # threads per row


@frozen
class RowModel:
    """The rows of a sparse operand on a GPU. Times are in microseconds."""

    entries: int
    rows: Rows
    gpu: Gpu

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.rows.count

    @property
    def mean(self) -> float:
        """Entries per row, on average."""
        return self.entries / max(1, self.rows.count)

    @property
    def longest(self) -> int:
        """Entries of the longest row."""
        return self.rows.longest

    @property
    def reach(self) -> float:
        """Columns from the first to the last entry of a row, on average."""
        return self.rows.reach

    @property
    def alike(self) -> bool:
        """Whether no row is much longer than most."""
        return self.longest <= 2 * self.mean

    @property
    def lopsided(self) -> bool:
        """Whether entries are many, and one row is so long that the others wait for it."""
        load = self.gpu.load
        return self.entries >= load.lopsided_entries and self.longest > load.lopsided * self.mean

    # -- times a vector -------------------------------------------------------------------------

    def group_for_vector(self, least: int) -> tuple[int, bool]:
        """The best number of threads per row, and whether it beats a kernel along positions.

        Kernels along positions do not wait for the longest row.
        """
        time, size = min((self._group(size), size) for size in GROUPS if size >= least)
        return size, time <= self._vector_along_positions()

    def _vector_along_positions(self) -> float:
        return self.gpu.times.start_vector + self.entries / self.gpu.times.rate_vector

    def _group(self, size: int) -> float:
        """The time of groups of `size` threads: the longest row, plus the launch of all."""
        times = self.gpu.times
        step = times.step_group if size > 1 else times.step_thread
        waves = self.count * size / self.gpu.resident
        late = self.alike and 1 < waves < 1.6  # a nearly empty second wave
        return self.longest / size * step * (2 if late else 1) + self.count * size / times.threads

    # -- times a matrix -------------------------------------------------------------------------

    def group_for_columns(self, columns: int) -> tuple[int, bool]:
        """The same for few columns, with a group of threads for each column."""
        times = self.gpu.times
        threads = self.count * columns / times.threads_column
        sizes = [size for size in GROUPS if size != 2]
        time, size = min((self.longest / n * times.step_column + n * threads, n) for n in sizes)
        return size, time <= times.start_column + self.entries / times.rate_column

    def group_for_loads(self) -> tuple[int, bool]:
        """The same where a thread loads all columns of an entry at once.

        Fewer than four threads for a row are not faster to start.
        """
        times = self.gpu.times
        sizes = [size for size in GROUPS if size >= 4]
        time, size = min(
            (self.longest / n * times.step_load + self.count * n / times.threads_load, n)
            for n in sizes
        )
        return size, time <= times.start_column + self.entries / times.rate_column

    def even(self, columns: int, batched: bool = False) -> bool:
        """Whether the longest row finishes before a kernel along positions would.

        `columns`: bytes of each row of the dense operand. `batched`: threads have registers for
        many loads in flight.
        """
        if self.lopsided:
            return False
        longest = self._longest(columns) * (self.gpu.times.batched if batched else 1)
        return longest <= self._along_positions(columns)

    def ends_in_time(self, columns: int, at_once: int) -> bool:
        """The same where so many groups of threads share each row."""
        part = self.gpu.times.batched / sqrt(at_once) * (1 if self.alike else 2)
        return self._longest(columns) * part <= self._along_positions(columns)

    def _longest(self, columns: int) -> float:
        """The time of the longest row, with a group of threads."""
        times = self.gpu.times
        step, byte = times.step_many if self.entries >= self.gpu.load.many else times.step_few
        if self.alike:
            step, byte = times.step_alike
        return self.longest * (step + columns * byte)

    def _along_positions(self, columns: int) -> float:
        """The time of a kernel whose threads take equally many entries, across rows."""
        times = self.gpu.times
        return times.start_matrix + self.entries * columns / times.rate_matrix

    # -- contention -----------------------------------------------------------------------------

    def crowded(self, each: int, columns: int = 0, at_once: bool = True) -> bool:
        """Whether threads that take `each` entries contend for the longest row.

        `columns`: bytes of each row of the dense operand, if they are many; `at_once`: vector
        atomics add several columns.
        """
        times = self.gpu.times
        atomic = times.atomic if at_once else max(times.atomic, columns * times.atomic_byte)
        waits = self.longest / each * atomic
        others = self._along_positions(columns) if columns else self._vector_along_positions()
        return 2 * waits > others


def near(wanted: float, least: int, most: int) -> int:
    """The power of two from `least` to `most` that is nearest to `wanted`, by ratio."""
    return min(most, max(least, 1 << round(log2(max(wanted, 1.0)))))
