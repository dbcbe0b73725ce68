"""Entries in storage order: sorting by the levels' coordinates, and summing duplicates."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, cast

import numpy as np
from scipy import sparse

from openwork.algebra.entries import Entry
from openwork.algebra.meaning import meaning
from openwork.algebra.types import as_dtype, computed
from openwork.runtime.storage import Array

_LARGEST_KEY = 2**63 - 1


def in_order(columns: Sequence[Array], extents: Sequence[int]) -> tuple[Array | None, bool]:
    """The stable order that sorts entries by `columns`, and whether some entries coincide.

    Args:
        columns: the coordinates of the entries, one array per level, the outermost first.
        extents: the extent of each level.

    Returns:
        The order is None if the entries are sorted already.

    >>> in_order([np.array([1, 0, 1])], [2])
    (array([1, 0, 2]...), True)
    """
    if not columns or len(columns[0]) < 2:
        return None, False
    key = _key(columns, extents)
    steps = _steps(columns) if key is None else key[1:] - key[:-1]
    if not (steps < 0).any():
        return None, bool((steps == 0).any())
    order = _sort(columns, extents, key)
    if key is not None:
        sorted_key = key[order]
        return order, bool((sorted_key[1:] == sorted_key[:-1]).any())
    return order, bool((_steps([column[order] for column in columns]) == 0).any())


def _key(columns: Sequence[Array], extents: Sequence[int]) -> Array | None:
    """One integer per entry that sorts like its coordinates, if 64 bits are enough."""
    if prod(extents) > _LARGEST_KEY:
        return None
    key = columns[0].astype(np.int64)
    for column, extent in zip(columns[1:], extents[1:], strict=True):
        key *= extent
        key += column
    return key


def _steps(columns: Sequence[Array]) -> Array:
    """-1, 0 or 1: how each entry compares with the one before it."""
    steps = np.zeros(len(columns[0]) - 1, dtype=np.int8)
    for column in reversed(columns):
        here = (column[1:] > column[:-1]).astype(np.int8) - (column[1:] < column[:-1])
        steps = np.where(here != 0, here, steps)
    return steps


def _sort(columns: Sequence[Array], extents: Sequence[int], key: Array | None) -> Array:
    """The stable sorting order: in linear time for a few levels, unless they are mostly empty."""
    count = len(columns[0])
    if len(columns) <= 4 and sum(extents) <= 2 * count:
        order = _counting_order(columns[-1], extents[-1])
        for column, extent in zip(columns[-2::-1], extents[-2::-1], strict=True):
            order = order[_counting_order(column[order], extent)]
        return order
    if key is not None:
        return cast(Array, np.argsort(key, kind="stable"))
    return cast(Array, np.lexsort(tuple(reversed(columns))))


def _counting_order(column: Array, extent: int) -> Array:
    """The stable order that sorts `column`, by SciPy's transpose of a single row, which counts."""
    ends = np.array([0, len(column)])
    row = sparse.csr_array((np.arange(len(column)), column, ends), shape=(1, extent))
    return cast(Array, row.tocsc().data)


def first_of_each(columns: Sequence[Array]) -> Array:
    """Where an entry differs from the one before it; the first entry always does.

    >>> first_of_each([np.array([0, 0, 2])])
    array([ True, False,  True])
    """
    first = np.ones(len(columns[0]), dtype=bool)
    np.not_equal(columns[0][1:], columns[0][:-1], out=first[1:])
    for column in columns[1:]:
        first[1:] |= column[1:] != column[:-1]
    return first


def _add_up_in_turn(values: Array, starts: Array, dtype: Entry) -> Array:
    """The sum of each run of records whose numbers are not added one by one."""
    rule = meaning("add", (dtype, dtype))
    wide = cast(Entry, rule.result)
    terms, counts = wide.cast(values), np.diff([*starts, len(values)])
    total = terms[starts]
    for n in range(1, counts.max(initial=1)):
        more = counts > n
        total[more] = rule.on_arrays([total[more], terms[starts[more] + n]])
    return dtype.cast(total)


def add_up(values: Array, first: Array) -> Array:
    """The sum of each run of `values`; a run starts where `first` is true. Booleans are or-ed.

    >>> add_up(np.array([1.0, 2.0, 4.0]), np.array([True, False, True]))
    array([3., 4.])
    """
    dtype = as_dtype(values.dtype)
    starts = np.flatnonzero(first)
    if isinstance(dtype, Entry):
        if dtype.sum is not None or dtype.decoded != dtype:
            return _add_up_in_turn(values, starts, dtype)
        return dtype.joined([add_up(numbers, first) for numbers in dtype.split(values)])
    with np.errstate(all="ignore"):
        sums = np.add.reduceat(values, starts, dtype=cast(Any, computed(dtype)))
    return cast(Array, sums.astype(dtype, copy=False))
