"""Choose a recipe for a GPU by the statement's form, the data's statistics, and the machine.

The thresholds were measured on an H200, as was its table (bench/gpu.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from openwork.algebra.entries import Entry
from openwork.errors import ScheduleError
from openwork.format.layouts import AOS
from openwork.format.levels import Compressed, Dense
from openwork.loops.plan.assembly import accesses_of
from openwork.loops.schedule.draft import Draft
from openwork.loops.schedule.machines import Gpu
from openwork.loops.schedule.schedulable import Schedulable
from openwork.loops.schedule.statistics import Statistics
from openwork.program.device.deterministic import may_be_atomic
from openwork.recipes import dense, sgap, sparse
from openwork.recipes.dense import summed_last
from openwork.recipes.row_model import RowModel, near
from openwork.recipes.statement_parts import THREADS, VECTOR, WARP, Parts

# Best first. Each combines the terms of a result entry in a fixed order.
_EXACT = (sparse.spmm_rows, sparse.group_per_row, sparse.sddmm)


def choose(
    draft: Draft, statistics: Mapping[str, Statistics], gpu: Gpu, exact: bool = False
) -> Draft | None:
    """`draft` with the commands of the recipe that fits it, or None if there is none.

    `statistics`: of the operands that have data. `exact`: bit-reproducible, so without atomics: the
    recipe that fits if it has none, or else the first that has none.
    """
    chosen = _fitting(draft, statistics, gpu)
    if not exact and chosen is not None:
        return _keeping(chosen, statistics, gpu)
    if chosen is None or not may_be_atomic(chosen.plan):
        return chosen
    for recipe in _EXACT:
        try:
            made = recipe(draft)
        except ScheduleError:
            continue
        if not may_be_atomic(made.plan):
            return made
    return None


def _keeping(chosen: Draft, statistics: Mapping[str, Statistics], gpu: Gpu) -> Draft:
    """A draft whose matrix is kept transposed when it is used again, if updates would scatter."""
    plan, reads = chosen.plan, accesses_of(chosen.assignment.rhs)
    if plan.derived or plan.assignment.op is not None or plan.converts_result:
        return chosen
    sparse = [a for a in reads if not a.tensor.format.is_dense]
    if len(sparse) != 1 or sparse[0].tensor.format.levels != (Dense, Compressed):
        return chosen
    tensor, (outer, inner) = sparse[0].tensor, sparse[0].level_vars
    made, known = chosen.assignment.lhs.vars, statistics.get(tensor.name)
    if outer in made or inner not in made or known is None or known.entries < gpu.load.transposed:
        return chosen
    if isinstance(tensor.dtype, Entry) or tensor.format.layout != AOS:
        return chosen  # the transpose of an array moves numbers, not records
    return chosen.decided(
        replace(plan, kept=tensor.name),
        f"{tensor}: updates scatter, so from its third use on, a transpose of {tensor} is kept "
        "within an eighth of the GPU's free memory; values that have changed are moved at each use",
    )


# Best first, for statements whose data is not known.
_USUAL = (
    sparse.sddmm,
    sparse.spmm_rows,
    sparse.warp_per_row,
    sparse.position_strided,
    dense.element_sums,
    dense.elements,
)


def suggested(stmt: Schedulable) -> str | None:
    """The name of a recipe that applies to a statement, whatever its data; None if none does."""
    for recipe in _USUAL:
        try:
            recipe(stmt)
        except ScheduleError:
            continue
        return recipe.__name__
    return None


def _fitting(draft: Draft, statistics: Mapping[str, Statistics], gpu: Gpu) -> Draft | None:
    """The fastest recipe, by the machine's table."""
    try:
        if all(a.tensor.format.is_dense for a in accesses_of(draft.assignment.rhs)):
            return _dense(draft, gpu)
        parts = Parts(draft)
        known = statistics.get(parts.sparse.tensor.name)
        return None if known is None else _sparse(draft, parts, known, gpu)
    except ScheduleError:
        return None


def _dense(stmt: Draft, gpu: Gpu) -> Draft:
    """No sparse operand."""
    made, parts, load = stmt.assignment.lhs.vars, Parts(stmt), gpu.load
    if not made:
        return dense.element_total(stmt)
    if summed_last(stmt) is not None:
        return dense.element_sums(stmt)
    few = prod(parts.extent(var) or load.many for var in made) < load.few_elements
    summed = [v for a in accesses_of(stmt.assignment.rhs) for v in a.vars if v not in made]
    long = any((parts.extent(var) or 0) >= load.many_summed for var in summed[:1])
    return dense.element_shares(stmt) if few and long else dense.elements(stmt)


def _sparse(stmt: Draft, parts: Parts, known: Statistics, gpu: Gpu) -> Draft | None:
    """One sparse operand, with data."""
    if len(parts.summed) == 1 and not parts.columns:
        return sparse.sddmm(stmt, each=2 if known.entries < gpu.load.few_samples else 4)
    if parts.summed or len(parts.columns) > 1:
        return None
    rows = None if known.rows is None else RowModel(known.entries, known.rows, gpu)
    in_rows = parts.sparse.tensor.format.levels == (Dense, Compressed)
    if parts.columns:
        if in_rows and parts.one_row and rows is not None:
            return _columns(stmt, parts, rows)
        return _tensor(stmt, parts, known.entries, rows)
    if parts.apart or not parts.in_order or not stmt.assignment.lhs.vars:
        return _anywhere(stmt, parts, known.entries, gpu, rows if in_rows else None)
    return _vector(stmt, rows) if in_rows and rows is not None else sparse.position_staged(stmt)


def _anywhere(stmt: Draft, parts: Parts, entries: int, gpu: Gpu, rows: RowModel | None) -> Draft:
    """Each entry has its own place in the result, or entries scatter, or sum to a scalar."""
    each = entries / (gpu.multiprocessors * 8 * THREADS)  # with eight blocks per multiprocessor
    if not stmt.assignment.lhs.vars:
        return sparse.position_strided(stmt, near(each, 4, 16))
    if rows is not None and not parts.apart:
        size, some = stmt.assignment.lhs.dtype.itemsize, gpu.load.some
        if rows.alike and rows.group_for_vector(4)[1]:
            few = rows.mean < 16 and entries < some
            if few or (entries >= some and rows.reach * size <= gpu.caches.beside_staged):
                return sparse.group_per_row(stmt, 4)
    return sparse.position_strided(stmt, near(each, 1, 2))


def _vector(stmt: Draft, rows: RowModel) -> Draft:
    """A sparse matrix, stored by rows, times a vector (SpMV).

    With many entries, adjacent threads on adjacent entries use memory best. Otherwise a group of
    threads per row has less overhead, unless all wait for the longest row.
    """
    size, load = stmt.assignment.lhs.dtype.itemsize, rows.gpu.load
    group = 2 if rows.mean < 32 else 8 if rows.mean < 256 else 32
    least = 1 if rows.mean < 5 else 4 if size <= 4 or rows.mean < 8 else 8
    if rows.count >= load.many_rows and size > 4:
        scattered = rows.reach * size > rows.gpu.caches.beside_staged
        least = 8 if scattered and rows.mean >= 8 else min(least, 2)
    lanes, in_time = rows.group_for_vector(least)
    in_time = in_time and not rows.lopsided
    if rows.count >= load.many_rows and rows.mean < 8 and rows.longest <= rows.gpu.lengths.short:
        return sparse.thread_per_row(stmt)
    if rows.entries >= load.much:
        lanes = _in_step(rows, size, lanes)
        if lanes:
            return sparse.group_per_row(stmt, lanes)
        uneven = rows.longest * 0.06 > rows.entries / 250_000
        return sparse.position_staged(stmt, (4 if rows.mean >= 32 else 1) if uneven else 8, group)
    if not in_time:
        return _uneven(stmt, rows, size, group)
    return sparse.thread_per_row(stmt) if lanes == 1 else sparse.group_per_row(stmt, lanes)


def _uneven(stmt: Draft, rows: RowModel, size: int, group: int) -> Draft:
    """Kernels along positions, for rows that would wait for the longest.

    A thread per four entries adds often, but starts at once: best with short rows and atomics of
    four bytes, where staging terms hides no latency.
    """
    load, short = rows.gpu.load, rows.mean < 8
    split = size == 4 and rows.mean < rows.gpu.lengths.short
    if rows.crowded(WARP):
        if split and short:
            return sparse.position_split(stmt, 4, unroll=4)
        return sparse.position_staged(stmt, 1, group)
    if load.many / 2 <= rows.entries < 2 * load.many and short and not rows.crowded(4):
        return sparse.position_split(stmt, 4, unroll=4)
    if rows.entries < (2 * load.many if short else load.many / 2):
        if split:
            return sparse.position_split(stmt, 4, unroll=4)
        return sparse.position_segments(stmt, 1)
    if split and rows.reach * size <= rows.gpu.caches.beside_staged:
        return sparse.position_split(stmt, 4, unroll=4)
    return sparse.position_staged(stmt, 4 if rows.mean >= 32 else 2, group)


def _in_step(rows: RowModel, size: int, lanes: int) -> int:
    """Threads per row, where rows that advance together reuse each other's loads; 0 elsewhere.

    They do where rows span more of the vector than a cache holds, and advance at about the same
    pace: then each part of the vector is loaded once for all of them.
    """
    caches, reached = rows.gpu.caches, rows.reach
    if reached * size <= caches.beside_staged:
        return 0
    if reached * size <= caches.alone:
        in_time = rows.longest / 32 * 0.13 <= rows.entries / 400_000 / 4
        return 32 if in_time and rows.mean >= rows.gpu.lengths.long else 0
    together = rows.gpu.occupancy.resident / max(1, lanes)
    reused = together * rows.mean / reached * caches.sector / size
    return lanes if rows.alike and lanes > 1 and reused >= caches.reused else 0


def _tensor(stmt: Draft, parts: Parts, entries: int, rows: RowModel | None) -> Draft:
    """A sparse tensor times matrices, or entries that scatter to rows of the result."""
    columns, size = parts.extent(parts.one_column) or 32, stmt.assignment.lhs.dtype.itemsize
    if parts.apart:
        return sparse.spmm_positions(stmt, 4)
    inner = parts.sparse.tensor.format.levels[1:]
    if rows is not None and len(inner) > 1 and all(level == Compressed for level in inner):
        wide = columns * size > rows.gpu.lengths.few_columns
        if parts.one_row and wide and rows.even(columns * size):
            return sparse.spmm_rows(stmt)
    if not parts.in_order:  # vector atomics are for float32 only
        return sparse.spmm_positions(stmt, 8 if size <= 4 else 32, None if size <= 4 else 1)
    if columns <= 8:
        return sparse.spmm_positions(stmt, 16)
    if columns > 64:
        return sparse.spmm_positions(stmt, near(entries / 20_000, 16, 128))
    return sparse.spmm_positions(stmt, near(entries / 18_000, 8, 32))


def _columns(stmt: Draft, parts: Parts, rows: RowModel) -> Draft:
    """A sparse matrix, stored by rows, times a dense matrix (SpMM)."""
    columns, size = parts.extent(parts.one_column) or 32, stmt.assignment.lhs.dtype.itemsize
    gpu = rows.gpu
    if columns * size <= gpu.lengths.few_columns:
        if rows.count >= gpu.load.many_rows and rows.longest <= gpu.lengths.short:
            if rows.mean < 8:
                return sparse.spmm_rows(stmt)
            if rows.alike and rows.reach * columns * size <= gpu.caches.l2:
                return sparse.spmm_rows(stmt, 1, 8 if rows.mean >= 16 else 4)
        return _few_columns(stmt, rows, columns, size)
    at_once = _at_once(rows, columns, size)
    if at_once > 1:
        few, most = gpu.occupancy.small_block, gpu.occupancy.staged
        return sparse.spmm_rows(stmt, None, 8, few, most, at_once)
    if rows.even(columns * size, _batched(rows, columns, size)) and not _late(rows, columns, size):
        return _along_rows(stmt, rows, columns, size)
    if columns * size >= gpu.lengths.tiled_bytes and _fills_tiles(stmt, parts, rows):
        return sparse.spmm_tiles(stmt)
    return _along_positions(stmt, rows, columns, size)


def _at_once(rows: RowModel, columns: int, size: int) -> int:
    """How many groups of threads share a row: with more than one, each has a batch of entries.

    They fill warps, and columns fill the groups. Rows may differ in length, as long as the longest
    ends well before a kernel along positions would.
    """
    lanes, rest = divmod(columns * size, VECTOR)
    if rest or lanes & (lanes - 1) or rows.mean < rows.gpu.lengths.batched:
        return 1
    most = min(WARP // lanes if lanes <= WARP else 1, near(rows.mean / 8, 1, WARP))
    return most if rows.ends_in_time(columns * size, most) else 1


def _late(rows: RowModel, columns: int, size: int) -> bool:
    """Whether the longest rows end late, although few: batches of positions are faster then."""
    many = rows.entries >= rows.gpu.load.many / 2
    return many and size <= 4 and columns <= 64 and rows.longest >= 5 * rows.mean


def _few_columns(stmt: Draft, rows: RowModel, columns: int, size: int) -> Draft:
    """So few columns that adjacent threads may as well take adjacent entries."""
    group, in_time = rows.group_for_columns(columns)
    load = rows.gpu.load
    if in_time and rows.entries < load.some:
        if group == 1:
            unroll = 8 if rows.mean >= 16 else 4
            return sparse.spmm_rows(stmt, 1 if rows.mean >= 4 else None, unroll)
        return sgap.atomic_parallel(stmt, row=1 / group, group=group)
    if not rows.crowded(4):
        if rows.mean < 8 and rows.entries >= load.many:
            return sparse.spmm_positions(stmt, 4, None if size <= 4 else 1)
        if size > 4 and rows.mean < 16 and rows.entries < load.some:
            return sparse.spmm_positions(stmt, 4, 1)
    least = 2 * load.many if rows.even(columns * size) else load.some
    each = 4 if rows.entries >= least else 2
    group = 2 if rows.mean < 32 else 8 if rows.mean < 256 else 32
    wide = size > 4 and rows.entries >= load.many
    resident = rows.gpu.occupancy.staged if wide else None
    return sparse.spmm_staged(stmt, each, group, resident=resident)


def _along_rows(stmt: Draft, rows: RowModel, columns: int, size: int) -> Draft:
    """Fewer columns per thread where threads are too few, or rows uneven."""
    load, lengths, occupancy = rows.gpu.load, rows.gpu.lengths, rows.gpu.occupancy
    vector = max(1, VECTOR // size)
    unroll = 4 if rows.mean < 16 else 8 if rows.mean < lengths.long else 16
    if columns % vector:
        return sparse.spmm_rows(stmt, unroll=unroll)
    uneven = rows.longest >= max(lengths.long_step, 3 * rows.mean) and columns <= 64
    while vector > 1:
        enough = load.threads_scalar if vector * size < VECTOR else load.threads_vector
        if rows.mean >= lengths.long:  # long rows hide latency by themselves
            enough = load.threads_long
        if rows.count * columns / vector >= enough:
            break
        vector //= 2
    resident = None
    if _batched(rows, columns, size):
        few = rows.count * columns / vector <= rows.gpu.multiprocessors * occupancy.fewest
        unroll, resident = (16, occupancy.fewest) if few else (unroll, occupancy.staged)
    elif uneven:
        vector = max(1, vector // 2)
    full = vector * size == VECTOR
    return sparse.spmm_rows(stmt, None if full else vector, unroll, resident=resident)


def _batched(rows: RowModel, columns: int, size: int) -> bool:
    """Whether threads along rows are few enough to have registers for many loads in flight.

    That pays off where rows are no shorter than what is loaded together, and where threads are not
    too few even so.
    """
    load, threads = rows.gpu.load, rows.count * columns * size / VECTOR
    wide = columns * size > rows.gpu.lengths.narrow
    enough = wide or rows.count * columns >= load.threads_vector
    return enough and rows.mean >= rows.gpu.lengths.batched and threads <= load.threads_batched


def _along_positions(stmt: Draft, rows: RowModel, columns: int, size: int) -> Draft:
    """A group of threads per tile of entries; tiles grow with the data and with contention."""
    entries, mean, float32 = rows.entries, rows.mean, size <= 4
    load, lengths = rows.gpu.load, rows.gpu.lengths
    if rows.crowded(16, columns * size, at_once=float32):
        threads = min(WARP, -(-columns // max(1, VECTOR // size)))
        return sparse.spmm_positions(stmt, near(entries * threads / load.threads_crowded, 16, 128))
    if columns > 64:
        if not float32 and mean >= lengths.longer:
            return sparse.spmm_positions(stmt, near(entries / 6000, 32, 64), 1)
        return sparse.spmm_positions(stmt, near(entries / 35_000, 16, 128), unroll=1)
    if not float32 and mean >= lengths.long_float64 and entries < load.many:
        return sparse.spmm_positions(stmt, near(entries / 6000, 8, 128), 1, 1)
    if mean >= lengths.longer:
        return sparse.spmm_positions(stmt, 64)
    if not float32:
        return sparse.spmm_positions(stmt, near(entries / 50_000, 32, 64))
    if mean >= lengths.batched and entries >= load.many / 2:
        return sparse.spmm_positions(stmt, near(entries / 110_000, 16, 64))
    if entries >= load.many:  # all loads of a thread in flight
        return sparse.spmm_positions(stmt, 16, unroll=16, resident=rows.gpu.occupancy.staged)
    each = 4 if mean < 3 else 8
    return sparse.spmm_positions(stmt, each, unroll=each)


def _fills_tiles(stmt: Draft, parts: Parts, rows: RowModel) -> bool:
    """Whether rows are few, and have enough entries in each tile of the dense operand."""
    across = parts.extent(parts.inside[1]) or 0
    float32 = stmt.assignment.lhs.dtype == "float32"
    lengths = rows.gpu.lengths
    least = across * (lengths.tiled_share_float32 if float32 else lengths.tiled_share)
    few = rows.count <= lengths.tiled_rows
    return few and across >= lengths.tiled_across and rows.mean >= least
