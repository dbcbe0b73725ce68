"""Which recipe multiplies a sparse matrix on a GPU: a function of numbers and a machine's table.

Nothing is scheduled here, so that a choice takes microseconds, and the constants of a table can be
fitted to measurements (`bench/fit_defaults.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from openwork.frozen import frozen
from openwork.loops.schedule.machines import Gpu
from openwork.loops.schedule.schedulable import S
from openwork.recipes import sgap, sparse
from openwork.recipes.grids import grid_rows
from openwork.recipes.row_model import RowModel, near
from openwork.recipes.statement_parts import VECTOR, WARP

IN_FLIGHT = 4  # entries that a thread loads together, of rows that are walked by groups of threads
TILE = 128  # bytes of a narrow tile of the dense operand's rows: a line of the cache


@frozen
class Pick:
    """A recipe and its arguments.

    >>> print(Pick.of(sparse.group_per_row, group=4))
    group_per_row(group=4)
    """

    recipe: Callable[..., Any]
    arguments: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, recipe: Callable[..., Any], **arguments: Any) -> Pick:
        """The recipe with these arguments."""
        return cls(recipe, tuple(arguments.items()))

    def applied(self, stmt: S) -> S:
        """The statement under the recipe.

        Raises:
            ScheduleError: it does not apply.
        """
        made: S = self.recipe(stmt, **dict(self.arguments))
        return made

    def __str__(self) -> str:
        said = [f"{n}={v}" for n, v in self.arguments if not isinstance(v, Gpu)]
        return f"{self.recipe.__name__}({', '.join(said)})"


@frozen
class Product:
    """A sparse matrix, stored by rows, times a vector or a matrix.

    Args:
        rows: of the sparse matrix, on a GPU.
        size: bytes of an element of the result.
        columns: of the dense operand; 0 for a vector.
        across: rows of the dense operand.
        at_once: whether the GPU adds several columns atomically, which it does for float32.
    """

    rows: RowModel
    size: int
    columns: int
    across: int
    at_once: bool

    def pick(self) -> Pick:
        """The recipe that should be fastest."""
        return self._matrix() if self.columns else self._vector()

    @property
    def _gpu(self) -> Gpu:
        return self.rows.gpu

    @property
    def _bytes(self) -> int:
        """Bytes of a row of the dense operand."""
        return self.columns * self.size

    # -- times a vector -------------------------------------------------------------------------

    def _vector(self) -> Pick:
        """SpMV.

        With many entries, adjacent threads on adjacent entries use memory best. Otherwise a group
        of threads per row has less overhead, unless all wait for the longest row.
        """
        rows, size, gpu = self.rows, self.size, self._gpu
        load, group = gpu.load, self._segment_group()
        least = 1 if rows.mean < 5 else 4 if size <= 4 or rows.mean < 8 else 8
        scattered = rows.reach * size > gpu.caches.scattered
        if rows.count >= load.many_rows and size > 4:
            long = rows.mean >= gpu.lengths.scattered
            least = min(least, 2) if not long else 8 if scattered else 4
        lanes, in_time = rows.group_for_vector(least)
        in_time = in_time and not rows.lopsided
        if rows.count >= load.many_rows and rows.mean < 8 and rows.longest <= gpu.lengths.short:
            return Pick.of(sparse.thread_per_row)
        if rows.entries >= load.much:
            lanes = self._in_step(lanes)
            if lanes:
                return Pick.of(sparse.group_per_row, group=lanes)
            uneven = rows.longest * 0.06 > rows.entries / 250_000
            each = (4 if rows.mean >= 32 else 1) if uneven else 8
            return Pick.of(sparse.position_staged, each=each, group=group)
        if self._for_blocks:
            return Pick.of(sparse.group_per_row, group=gpu.block, unroll=IN_FLIGHT)
        if not in_time:
            return self._uneven(group)
        if lanes == 1:
            return Pick.of(sparse.thread_per_row)
        return self._groups_of(lanes, strided=rows.alike and not scattered)

    def _groups_of(self, lanes: int, strided: bool) -> Pick:
        """So many threads for each row; `strided`: a grid of a constant size may stride over them.

        More entries in flight than two hide latency, and cost throughput where rows are alike and
        fill the GPU with loads of eight bytes. A row that is one batch needs no constant grid.
        """
        rows, gpu = self.rows, self._gpu
        waves, narrow = rows.count * lanes / gpu.resident, self.size <= 4
        one_batch = narrow and rows.longest <= lanes * IN_FLIGHT
        if strided and lanes >= 4 and waves >= gpu.occupancy.strided and not one_batch:
            blocks = gpu.occupancy.resident // gpu.block
            return Pick.of(grid_rows, blocks=blocks, threads=gpu.block, group=lanes, gpu=gpu)
        uneven = rows.longest > gpu.load.lopsided * rows.mean
        if narrow or uneven or waves <= gpu.occupancy.idle:
            return Pick.of(sparse.group_per_row, group=lanes, unroll=IN_FLIGHT)
        return Pick.of(sparse.group_per_row, group=lanes)

    @property
    def _for_blocks(self) -> bool:
        """Whether rows are so few and long that only blocks are enough threads for them."""
        rows, gpu = self.rows, self._gpu
        few = rows.count * gpu.block <= gpu.resident
        return few and rows.mean >= gpu.lengths.long and rows.longest <= 16 * gpu.block

    def _segment_group(self) -> int:
        """Threads that sum a row's segment of staged terms."""
        mean, lengths = self.rows.mean, self._gpu.lengths
        return 2 if mean < lengths.summed_by_two else 8 if mean < lengths.summed_by_eight else 32

    def _uneven(self, group: int) -> Pick:
        """Kernels along positions, for rows that would wait for the longest.

        A thread per four entries adds often, but starts at once: best with short rows and atomics
        of four bytes, where staging terms hides no latency.
        """
        rows, gpu = self.rows, self._gpu
        load, short = gpu.load, rows.mean < 8
        split = Pick.of(sparse.position_split, each=4, unroll=4)
        pays = self.size == 4 and rows.mean < gpu.lengths.short
        if rows.crowded(WARP):
            staged = Pick.of(sparse.position_staged, each=1, group=group)
            return split if pays and short else staged
        most = load.many_short if short else load.many / 2
        if load.many / 2 <= rows.entries < most and short and not rows.crowded(4):
            return split
        if rows.entries < most:
            return split if pays else Pick.of(sparse.position_segments, each=1)
        if pays and rows.reach * self.size <= gpu.caches.beside_staged:
            return split
        return Pick.of(sparse.position_staged, each=4 if rows.mean >= 32 else 2, group=group)

    def _in_step(self, lanes: int) -> int:
        """Threads per row, where rows that advance together reuse each other's loads; 0 elsewhere.

        They do where rows span more of the vector than a cache holds, and advance at about the same
        pace: then each part of the vector is loaded once for all of them.
        """
        rows, caches = self.rows, self._gpu.caches
        reached = rows.reach
        if reached * self.size <= caches.beside_staged:
            return 0
        if reached * self.size <= caches.alone:
            in_time = rows.longest / 32 * 0.13 <= rows.entries / 400_000 / 4
            return 32 if in_time and rows.mean >= self._gpu.lengths.long else 0
        together = self._gpu.occupancy.resident / max(1, lanes)
        reused = together * rows.mean / reached * caches.sector / self.size
        return lanes if rows.alike and lanes > 1 and reused >= caches.reused else 0

    # -- times a matrix -------------------------------------------------------------------------

    def _matrix(self) -> Pick:
        """SpMM."""
        rows, gpu = self.rows, self._gpu
        if self._bytes <= gpu.lengths.few_columns:
            if rows.count >= gpu.load.many_rows and rows.longest <= gpu.lengths.short:
                if rows.mean < 8:
                    return Pick.of(sparse.spmm_rows)
                if rows.alike and not self._one_load and rows.reach * self._bytes <= gpu.caches.l2:
                    return Pick.of(sparse.spmm_rows, vector=1, unroll=8 if rows.mean >= 16 else 4)
            return self._few_columns()
        at_once = self._at_once
        if at_once > 1:
            return self._shared(at_once)
        if rows.even(self._bytes, self._batched) and not self._late:
            if self._outgrown and rows.mean < gpu.lengths.long:
                return Pick.of(sparse.spmm_rows, unroll=IN_FLIGHT, lanes=TILE // VECTOR)
            return self._few_wide_rows() or self._along_rows()
        if self._bytes >= gpu.lengths.tiled_bytes and self._fills_tiles:
            return Pick.of(sparse.spmm_tiles)
        return self._along_positions()

    def _shared(self, at_once: int, **tile: int) -> Pick:
        """So many groups of threads for each row, in small blocks that end at about one time."""
        occupancy = self._gpu.occupancy
        more = {"threads": occupancy.small_block, "resident": occupancy.staged, "at_once": at_once}
        return Pick.of(sparse.spmm_rows, unroll=8, **more, **tile)

    def _few_wide_rows(self) -> Pick | None:
        """Groups of threads that share a tile of a row, where a warp for each row is too few."""
        rows, load = self.rows, self._gpu.load
        lanes, rest = divmod(self._bytes, VECTOR)
        threads = rows.count * lanes
        if rest or lanes % WARP or rows.mean < self._gpu.lengths.batched:
            return None
        long = rows.mean >= self._gpu.lengths.long
        if threads > load.threads_shared * (1 if long else 2):
            return None
        lanes = 8 if long and threads <= load.threads_shared / 2 else 16
        return self._shared(WARP // lanes, lanes=lanes)

    @property
    def _outgrown(self) -> bool:
        """Whether rows reach all over a dense operand that is larger than the cache.

        Then a narrow tile of it should be used up before the next one. Short rows would be read too
        often for what their few entries gain.
        """
        rows, most = self.rows, self._gpu.caches.l2
        far = 2 * rows.reach >= self.across and rows.reach * self._bytes > most
        return (
            far and rows.mean >= 8 and self._bytes >= 4 * TILE and self.columns % (TILE // 4) == 0
        )

    @property
    def _at_once(self) -> int:
        """How many groups of threads share a row: with more than one, each has a batch of entries.

        They fill warps, and columns fill the groups. Rows may differ in length, as long as the
        longest ends well before a kernel along positions would.
        """
        rows = self.rows
        lanes, rest = divmod(self._bytes, VECTOR)
        if rest or lanes & (lanes - 1) or rows.mean < self._gpu.lengths.batched:
            return 1
        most = min(WARP // lanes if lanes <= WARP else 1, near(rows.mean / 8, 1, WARP))
        return most if rows.ends_in_time(self._bytes, most) else 1

    @property
    def _late(self) -> bool:
        """Whether the longest rows end late, although few: batches of positions are faster then."""
        rows = self.rows
        many = rows.entries >= self._gpu.load.many / 2
        return many and self.size <= 4 and self.columns <= 64 and rows.longest >= 5 * rows.mean

    def _few_columns(self) -> Pick:
        """So few columns that adjacent threads may as well take adjacent entries."""
        rows, load = self.rows, self._gpu.load
        if self._one_load and not rows.lopsided:
            group, in_time = rows.group_for_loads()
            if in_time:
                return Pick.of(sparse.spmm_rows, at_once=group, unroll=IN_FLIGHT)
        group, in_time = rows.group_for_columns(self.columns)
        if in_time and rows.entries < load.some:
            if group == 1:
                unroll = 8 if rows.mean >= 16 else 4
                return Pick.of(
                    sparse.spmm_rows, vector=1 if rows.mean >= 4 else None, unroll=unroll
                )
            return Pick.of(sgap.atomic_parallel, row=1 / group, group=group)
        each = 4 if self.size <= 4 else near(rows.entries / self._gpu.tiles.few, 4, 16)
        if self._added and not rows.crowded(each):
            vector = None if self.size <= 4 else 1
            return Pick.of(sparse.spmm_positions, each=each, vector=vector)
        least = 2 * load.many if rows.even(self._bytes) else load.some
        each, group = (4 if rows.entries >= least else 2), self._segment_group()
        wide = self.size > 4 and rows.entries >= load.many
        resident = self._gpu.occupancy.staged if wide else None
        return Pick.of(sparse.spmm_staged, each=each, group=group, resident=resident)

    @property
    def _one_load(self) -> bool:
        """Whether a thread loads all columns at once."""
        return self._bytes == VECTOR

    @property
    def _added(self) -> bool:
        """Whether terms of few columns are added to their rows atomically, without being staged.

        That starts at once, where rows are short. For float64 staged terms take too much memory.
        """
        rows, load, lengths = self.rows, self._gpu.load, self._gpu.lengths
        if self.size <= 4:
            return rows.mean < lengths.added
        few = rows.mean < lengths.added_float64 and rows.entries < load.some
        return few or rows.entries >= load.added_float64

    def _along_rows(self) -> Pick:
        """Fewer columns per thread where threads are too few, or rows uneven."""
        rows, columns, size = self.rows, self.columns, self.size
        load, lengths, occupancy = self._gpu.load, self._gpu.lengths, self._gpu.occupancy
        vector = max(1, VECTOR // size)
        unroll = 4 if rows.mean < 16 else 8 if rows.mean < lengths.long else 16
        if columns % vector:
            return Pick.of(sparse.spmm_rows, unroll=unroll)
        uneven = rows.longest >= max(lengths.long_step, 3 * rows.mean) and columns <= 64
        while vector > 1:
            enough = load.threads_scalar if vector * size < VECTOR else load.threads_vector
            if rows.mean >= lengths.long:  # long rows hide latency by themselves
                enough = load.threads_long
            if rows.count * columns / vector >= enough:
                break
            vector //= 2
        resident = None
        if self._batched:
            threads = rows.count * columns / vector
            few = threads <= self._gpu.multiprocessors * occupancy.fewest
            unroll, resident = (16, occupancy.fewest) if few else (unroll, occupancy.staged)
        elif uneven:
            vector = max(1, vector // 2)
        full = vector * size == VECTOR
        return Pick.of(
            sparse.spmm_rows, vector=None if full else vector, unroll=unroll, resident=resident
        )

    @property
    def _batched(self) -> bool:
        """Whether threads along rows are few enough to have registers for many loads in flight.

        That pays off where rows are no shorter than what is loaded together, and where threads are
        not too few even so.
        """
        rows, load = self.rows, self._gpu.load
        threads = rows.count * self._bytes / VECTOR
        wide = self._bytes > self._gpu.lengths.narrow
        enough = wide or rows.count * self.columns >= load.threads_vector
        long = rows.mean >= self._gpu.lengths.batched
        return enough and long and threads <= load.threads_batched

    def _along_positions(self) -> Pick:
        """A group of threads per tile of entries; tiles grow with the data and with contention."""
        rows, columns, float32 = self.rows, self.columns, self.size <= 4
        entries, mean = rows.entries, rows.mean
        load, lengths, tiles = self._gpu.load, self._gpu.lengths, self._gpu.tiles
        positions = sparse.spmm_positions
        if rows.crowded(16, self._bytes, at_once=float32):
            threads = min(WARP, -(-columns // max(1, VECTOR // self.size)))
            each = near(entries * threads / load.threads_crowded, 16, 128)
            return Pick.of(positions, each=each)
        if columns > 64:
            if self._outgrown and float32:
                return Pick.of(positions, each=32, unroll=IN_FLIGHT, lanes=TILE // VECTOR)
            if not float32 and mean >= lengths.longer:
                return Pick.of(positions, each=near(entries / tiles.long, 32, 64), vector=1)
            each = near(entries / tiles.wide, tiles.least_wide, 128)
            unroll = tiles.unroll_wide if entries < tiles.unrolled_wide else 1
            return Pick.of(positions, each=each, unroll=unroll)
        if not float32 and mean >= lengths.long_float64 and entries < load.many:
            each = near(entries / tiles.long, 8, 128)
            return Pick.of(positions, each=each, vector=1, unroll=1)
        if mean >= lengths.longer:
            each, unroll = (64, 4) if float32 else (128, 8)
            return Pick.of(positions, each=each, unroll=unroll)
        if not float32:
            return Pick.of(positions, each=near(entries / tiles.float64, 32, 64))
        if mean >= lengths.batched and entries >= load.many / 2:
            return Pick.of(positions, each=near(entries / tiles.batched, 16, 64))
        if entries >= load.many:  # all loads of a thread in flight
            return Pick.of(positions, each=16, unroll=16, resident=self._gpu.occupancy.staged)
        each = 4 if mean < 3 else 8
        return Pick.of(positions, each=each, unroll=each)

    @property
    def _fills_tiles(self) -> bool:
        """Whether rows are few, and have enough entries in each tile of the dense operand."""
        rows, lengths = self.rows, self._gpu.lengths
        share = lengths.tiled_share_float32 if self.at_once else lengths.tiled_share
        few = rows.count <= lengths.tiled_rows
        return few and self.across >= lengths.tiled_across and rows.mean >= self.across * share
