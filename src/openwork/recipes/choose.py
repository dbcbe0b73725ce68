"""Choose a recipe for a GPU by the statement's form, the data's statistics, and the machine.

The thresholds were measured on an H200 (bench/gpu.py); its table is fitted (bench/fit_defaults.py).
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
from openwork.recipes import dense, sparse
from openwork.recipes.dense import summed_last
from openwork.recipes.products import Product
from openwork.recipes.row_model import RowModel, near
from openwork.recipes.statement_parts import THREADS, Parts

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
            return _product(stmt, parts, rows)
        return _tensor(stmt, parts, known.entries, rows)
    if parts.apart or not parts.in_order or not stmt.assignment.lhs.vars:
        return _anywhere(stmt, parts, known.entries, gpu, rows if in_rows else None)
    if in_rows and rows is not None:
        return _product(stmt, parts, rows)
    return sparse.position_staged(stmt)


def _product(stmt: Draft, parts: Parts, rows: RowModel) -> Draft:
    """A sparse matrix, stored by rows, times a vector or a matrix."""
    made, columns = stmt.assignment.lhs.dtype, 0
    if parts.columns:
        columns = parts.extent(parts.one_column) or 32
    across = (parts.extent(parts.inside[1]) or 0) if len(parts.inside) > 1 else 0
    return Product(rows, made.itemsize, columns, across, made == "float32").pick().applied(stmt)


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
