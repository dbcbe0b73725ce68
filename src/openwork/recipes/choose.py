"""Which recipe a statement gets on a GPU: from its form, and from cheap statistics of its data.

The numbers are from measurements on an H200 over generated and real matrices (bench/gpu.py).
"""

from __future__ import annotations

from math import prod

from openwork.errors import ScheduleError
from openwork.format.levels import Compressed, Dense
from openwork.loops.plan.assembly import accesses_of
from openwork.program.device.deterministic import may_be_atomic
from openwork.recipes import dense, sgap, sparse
from openwork.recipes.dense import summed_last
from openwork.recipes.row_model import MANY, MANY_ROWS, Rows, near, rows_of
from openwork.recipes.statement_parts import VECTOR, WARP, Parts
from openwork.recipes.statistics import reach
from openwork.runtime.storage import Storage
from openwork.tensor.statement import Statement

_MANY_BLOCKS = 132 * 8 * 256  # threads of the blocks that add up one number
_FEW_ELEMENTS, _MANY_SUMMED = 100_000, 256  # of a dense result, and of what is summed
_MUCH, _SOME = 16 * MANY, 5 * MANY  # entries that fill a GPU many times over, and several times
# Bytes of the vector that stay in a cache beside staged terms, and without them.
_CACHED_BESIDE, _CACHED = 96_000, 208_000
_REUSED = 1.2  # times that rows walked together use what one of them has loaded
_RESIDENT_THREADS, _SECTOR = 2048, 32  # of a multiprocessor; and bytes that are loaded at least
# Threads that hide how long loads take, with vectors of four elements, and of two.
_ENOUGH_OF_FOUR, _ENOUGH = 120_000, 55_000
_FEW_COLUMNS = 32  # bytes of a row's columns whose terms are computed ahead, into shared memory
_LONG_ROW, _LONG_ROW_FLOAT64, _LONGER_ROW = 100, 30, 500  # entries
# Tiles of the dense operand are worth while from so many bytes and rows of it on, for few rows that
# are stored to a share: else too little of a row is in a tile to look for it. A GPU adds several
# numbers of one type at once; others need longer runs.
_FEW_ROWS, _TILED_BYTES, _TILED_ACROSS = 1000, 256, 50_000
_TILED_SHARE, _TILED_SHARE_FLOAT32 = 0.2, 0.08
_CACHED_BY_ALL = 40_000_000  # bytes that stay in the cache of all multiprocessors
_ENOUGH_CROWDED = 150_000  # threads
_RESIDENT = 1024  # threads of a multiprocessor, where wide terms are staged
_SHORT_ROW = 32  # entries that a thread takes, while others take as many
_LONG_STEP = 64  # entries of a row that others wait for
_FEW_SAMPLES = 60_000  # entries at which dot products are taken


def choose(stmt: Statement) -> Statement | None:
    """`stmt` with the recipe that fits it, or None if there is none."""
    try:
        if all(a.tensor.format.is_dense for a in accesses_of(stmt.assignment.rhs)):
            return _dense(stmt)
        parts = Parts(stmt)
        storage = getattr(parts.sparse.tensor.source, "_storage", None)
        return None if storage is None else _sparse(stmt, parts, storage)
    except ScheduleError:
        return None


def _dense(stmt: Statement) -> Statement:
    """No sparse operand."""
    made, parts = stmt.assignment.lhs.vars, Parts(stmt)
    if not made:
        return dense.element_total(stmt)
    if summed_last(stmt) is not None:
        return dense.element_sums(stmt)
    few = prod(parts.extent(var) or MANY for var in made) < _FEW_ELEMENTS
    summed = [v for a in accesses_of(stmt.assignment.rhs) for v in a.vars if v not in made]
    long = any((parts.extent(var) or 0) >= _MANY_SUMMED for var in summed[:1])
    return dense.element_shares(stmt) if few and long else dense.elements(stmt)


def _sparse(stmt: Statement, parts: Parts, storage: Storage) -> Statement | None:
    """One sparse operand, with data."""
    if len(parts.summed) == 1 and not parts.columns:
        return sparse.sddmm(stmt, each=2 if storage.nnz < _FEW_SAMPLES else 4)
    if parts.summed or len(parts.columns) > 1:
        return None
    in_rows = parts.sparse.tensor.format.levels == (Dense, Compressed)
    if parts.columns:
        if in_rows and parts.one_row:
            return _columns(stmt, parts, storage)
        return _tensor(stmt, parts, storage)
    if parts.apart or not parts.in_order or not stmt.assignment.lhs.vars:
        return _anywhere(stmt, parts, storage, in_rows)
    return _vector(stmt, storage) if in_rows else sparse.position_staged(stmt)


def _anywhere(stmt: Statement, parts: Parts, storage: Storage, in_rows: bool) -> Statement:
    """Entries with places of their own, or that are added to anywhere, or to one number."""
    if not stmt.assignment.lhs.vars:
        return sparse.position_strided(stmt, near(storage.nnz / _MANY_BLOCKS, 4, 16))
    if in_rows and not parts.apart:
        rows, size = rows_of(storage), stmt.assignment.lhs.dtype.itemsize
        if rows.alike and rows.group_for_vector(4)[1]:
            few = rows.mean < 16 and rows.entries < _SOME
            if few or (rows.entries >= _SOME and reach(storage) * size <= _CACHED_BESIDE):
                return sparse.group_per_row(stmt, 4)
    return sparse.position_strided(stmt, near(storage.nnz / _MANY_BLOCKS, 1, 2))


def _vector(stmt: Statement, storage: Storage) -> Statement:
    """A sparse matrix in rows times a vector.

    Where entries are many, memory is used best by threads side by side along the entries; else
    threads side by side along a row have less to do beside, unless they wait for the longest row.
    """
    rows, size = rows_of(storage), stmt.assignment.lhs.dtype.itemsize
    group = 2 if rows.mean < 32 else 8 if rows.mean < 256 else 32
    least = 1 if rows.mean < 5 else 4 if size <= 4 or rows.mean < 8 else 8
    least = min(least, 2) if rows.count >= MANY_ROWS and size > 4 else least
    lanes, in_time = rows.group_for_vector(least)
    in_time = in_time and not rows.lopsided
    if rows.count >= MANY_ROWS and rows.mean < 8 and rows.longest <= _SHORT_ROW:
        return sparse.thread_per_row(stmt)
    if rows.entries >= _MUCH:
        lanes = _in_step(rows, reach(storage), size, lanes)
        if lanes:
            return sparse.group_per_row(stmt, lanes)
        uneven = rows.longest * 0.06 > rows.entries / 250_000
        return sparse.position_staged(stmt, (4 if rows.mean >= 32 else 1) if uneven else 8, group)
    if not in_time:
        if rows.crowded(WARP):
            return sparse.position_staged(stmt, 1, group)
        if rows.entries < (2 * MANY if rows.mean < 8 else MANY / 2):
            return sparse.position_segments(stmt, 1)
        return sparse.position_staged(stmt, 4 if rows.mean >= 32 else 2, group)
    return sparse.thread_per_row(stmt) if lanes == 1 else sparse.group_per_row(stmt, lanes)


def _in_step(rows: Rows, reached: float, size: int, lanes: int) -> int:
    """Threads of a group for each row, where rows that are walked together share what they load.

    They do where rows reach further than a cache, and are walked from their beginnings at about
    the same pace: then what all of them need of the vector comes by once. 0 where they do not.
    """
    if reached * size <= _CACHED_BESIDE:
        return 0
    if reached * size <= _CACHED:  # where there are no staged terms
        in_time = rows.longest / 32 * 0.13 <= rows.entries / 400_000 / 4
        return 32 if in_time and rows.mean >= _LONG_ROW else 0
    together = _RESIDENT_THREADS / max(1, lanes)
    reused = together * rows.mean / reached * _SECTOR / size
    return lanes if rows.alike and lanes > 1 and reused >= _REUSED else 0


def _tensor(stmt: Statement, parts: Parts, storage: Storage) -> Statement:
    """A sparse tensor times matrices, or entries that are not added up in rows of the result."""
    columns, size = parts.extent(parts.one_column) or 32, stmt.assignment.lhs.dtype.itemsize
    if parts.apart:
        return sparse.spmm_positions(stmt, 4)
    if len(storage.levels) > 2 and all(level == Compressed for level in storage.format.levels[1:]):
        rows = rows_of(storage)
        if parts.one_row and columns * size > _FEW_COLUMNS and rows.even(columns * size):
            return sparse.spmm_rows(stmt)
    if not parts.in_order:  # a GPU adds neighbours at once in one type only
        return sparse.spmm_positions(stmt, 8 if size <= 4 else 32, None if size <= 4 else 1)
    if columns <= 8:
        return sparse.spmm_positions(stmt, 16)
    if columns > 64:
        return sparse.spmm_positions(stmt, near(storage.nnz / 20_000, 16, 128))
    return sparse.spmm_positions(stmt, near(storage.nnz / 18_000, 8, 32))


def _columns(stmt: Statement, parts: Parts, storage: Storage) -> Statement:
    """A sparse matrix in rows times a matrix."""
    columns, size = parts.extent(parts.one_column) or 32, stmt.assignment.lhs.dtype.itemsize
    rows = rows_of(storage)
    if columns * size <= _FEW_COLUMNS:
        if rows.count >= MANY_ROWS and rows.longest <= _SHORT_ROW:
            if rows.mean < 8:
                return sparse.spmm_rows(stmt)
            if rows.alike and reach(storage) * columns * size <= _CACHED_BY_ALL:
                return sparse.spmm_rows(stmt, 1, 8 if rows.mean >= 16 else 4)
        return _few_columns(stmt, rows, columns, size)
    if rows.even(columns * size):
        return _along_rows(stmt, rows, columns, size)
    if columns * size >= _TILED_BYTES and _fills_tiles(stmt, parts, rows):
        return sparse.spmm_tiles(stmt)
    return _along_positions(stmt, rows, columns, size)


def _few_columns(stmt: Statement, rows: Rows, columns: int, size: int) -> Statement:
    """So few columns that threads can as well be side by side along the entries."""
    group, in_time = rows.group_for_columns(columns)
    if in_time and rows.entries < _SOME:
        if group == 1:
            unroll = 8 if rows.mean >= 16 else 4
            return sparse.spmm_rows(stmt, 1 if rows.mean >= 4 else None, unroll)
        return sgap.atomic_parallel(stmt, row=1 / group, group=group)
    if not rows.crowded(4):
        if rows.mean < 8 and rows.entries >= MANY:
            return sparse.spmm_positions(stmt, 4, None if size <= 4 else 1)
        if size > 4 and rows.mean < 16 and rows.entries < _SOME:
            return sparse.spmm_positions(stmt, 4, 1)
    least = 2 * MANY if rows.even(columns * size) else _SOME
    each = 4 if rows.entries >= least else 2
    group = 2 if rows.mean < 32 else 8 if rows.mean < 256 else 32
    resident = _RESIDENT if size > 4 and rows.entries >= MANY else None
    return sparse.spmm_staged(stmt, each, group, resident=resident)


def _along_rows(stmt: Statement, rows: Rows, columns: int, size: int) -> Statement:
    """Threads take fewer columns each where there would be too few, or some take long."""
    vector, unroll = VECTOR // size, 4 if rows.mean < 16 else 8 if rows.mean < _LONG_ROW else 16
    if columns % vector:
        return sparse.spmm_rows(stmt, unroll=unroll)
    uneven = rows.longest >= max(_LONG_STEP, 3 * rows.mean) and columns <= 64
    while vector > 1:
        enough = _ENOUGH if vector * size < VECTOR else _ENOUGH_OF_FOUR
        if rows.count * columns / vector >= enough:
            break
        vector //= 2
    vector = max(1, vector // 2) if uneven else vector
    return sparse.spmm_rows(stmt, None if vector * size == VECTOR else vector, unroll)


def _along_positions(stmt: Statement, rows: Rows, columns: int, size: int) -> Statement:
    """Units of threads take some entries; where rows are long, few of them take more entries."""
    entries, mean, float32 = rows.entries, rows.mean, size <= 4
    if rows.crowded(16, columns * size, at_once=float32):
        threads = min(WARP, -(-columns // (VECTOR // size)))
        return sparse.spmm_positions(stmt, near(entries * threads / _ENOUGH_CROWDED, 16, 128))
    if columns > 64:
        if not float32 and mean >= _LONGER_ROW:
            return sparse.spmm_positions(stmt, near(entries / 6000, 32, 64), 1)
        return sparse.spmm_positions(stmt, near(entries / 35_000, 16, 128), unroll=1)
    if mean >= (_LONG_ROW if float32 else _LONG_ROW_FLOAT64) and entries < _SOME:
        return sparse.spmm_positions(stmt, near(entries / 6000, 8, 128), 1, 1)
    if not float32:
        return sparse.spmm_positions(stmt, near(entries / 100_000, 16, 64), 1, 1)
    least = 16 if mean >= 6 and entries >= MANY else 4
    each = near(entries / 300_000, least, 16 if mean < 8 else 32 if mean < 64 else 64)
    return sparse.spmm_positions(stmt, each, unroll=4 if each <= 4 else 1)


def _fills_tiles(stmt: Statement, parts: Parts, rows: Rows) -> bool:
    """Whether rows are few, and have enough entries in each tile of the dense operand."""
    across = parts.extent(parts.inside[1]) or 0
    float32 = stmt.assignment.lhs.dtype == "float32"
    least = across * (_TILED_SHARE_FLOAT32 if float32 else _TILED_SHARE)
    return rows.count <= _FEW_ROWS and across >= _TILED_ACROSS and rows.mean >= least


Statement.gpu_recipe = staticmethod(choose)


# From the best: each gives an entry of the result to threads that meet in one order.
_RECIPES = (sparse.spmm_rows, sparse.group_per_row, sparse.sddmm)


def choose_exact(stmt: Statement) -> Statement | None:
    """The recipe that is chosen anyway if it has no atomics, or the first that has none."""
    chosen = Statement.gpu_recipe(stmt) if Statement.gpu_recipe is not None else None
    if chosen is None or not may_be_atomic(chosen._planned[0]):
        return chosen
    for recipe in _RECIPES:
        try:
            made = recipe(stmt)
        except ScheduleError:
            continue
        if not may_be_atomic(made._planned[0]):
            return made
    return None


Statement.exact_gpu_recipe = staticmethod(choose_exact)
