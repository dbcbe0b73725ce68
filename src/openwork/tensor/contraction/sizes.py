"""Estimated sizes: how many entries operands and their joins have.

The entries of a join are those of its operands multiplied, over the coordinates they share: the
estimate of databases. Where two sparse operands share one variable, it is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from math import exp, prod
from typing import Any

import numpy as np

from openwork.frozen import frozen
from openwork.index.nodes import Access, IndexVar
from openwork.runtime.storage import Storage

# Beyond this many entries or coordinates, none are counted.
_MOST_COUNTED = 1 << 26


@frozen
class Size:
    """The entries of an operand, or of a result of a step.

    `distinct`: for each variable, the number of coordinates that occur. `order`: the variables as
    stored. `sparse`: those whose coordinates are listed. `counts`: the entries at each coordinate
    of a variable, if they are known.
    """

    entries: float
    distinct: Mapping[IndexVar, float]
    order: tuple[IndexVar, ...]
    sparse: frozenset[IndexVar]
    counts: Mapping[IndexVar, Any] = field(default_factory=dict, compare=False)

    @property
    def is_dense(self) -> bool:
        """Whether nothing is listed."""
        return not self.sparse


def spread(entries: float, places: float) -> float:
    """How many of `places` are hit by `entries` at random."""
    if places <= 0 or entries <= 0:
        return 0.0
    return places * (1 - exp(-entries / places)) if entries < 32 * places else places


def size_of(
    access: Access, extents: Mapping[IndexVar, int | None], storage: Storage | None
) -> Size | None:
    """The size of an operand; None if it is not known."""
    variables = tuple(dict.fromkeys(access.level_vars))
    sizes = {var: extents.get(var) for var in variables}
    if any(size is None for size in sizes.values()):
        return None
    full = {var: float(size or 0) for var, size in sizes.items()}
    if access.tensor.format.is_dense:
        return Size(prod(full.values()), full, variables, frozenset())
    if storage is None:
        return None
    entries = min(float(storage.nnz), prod(full.values()))
    levels = zip(access.tensor.format.levels, access.level_vars, strict=True)
    sparse = frozenset(var for level, var in levels if not level.full)
    counts = _counts(access, full, storage)
    distinct = {
        var: float(np.count_nonzero(counts[var])) if var in counts else spread(entries, extent)
        for var, extent in full.items()
    }
    return Size(entries, distinct, variables, sparse, counts)


def _counts(
    access: Access, extents: Mapping[IndexVar, float], storage: Storage
) -> dict[IndexVar, Any]:
    """The entries at each coordinate, where an array of a matrix lists them."""
    levels = storage.levels
    usual = len(levels) == 2 and len(extents) == 2 and not access.tensor.format.tiled
    if not usual or set(levels[1]) != {"pos", "crd"} or storage.nnz > _MOST_COUNTED:
        return {}
    pos, crd = levels[1]["pos"], levels[1]["crd"]
    if not isinstance(crd, np.ndarray):  # on a GPU
        return {}
    outer, inner = access.level_vars
    if extents[inner] > _MOST_COUNTED:
        return {}
    found = {inner: np.bincount(crd[: pos[-1]], minlength=int(extents[inner]))}
    if not levels[0]:
        found[outer] = np.diff(pos)
    return found


def join(sizes: Sequence[Size]) -> float:
    """The estimated number of joint entries."""
    count = prod(size.entries for size in sizes)
    for var in {var for size in sizes for var in size.distinct}:
        shared = sorted(size.distinct[var] for size in sizes if var in size.distinct)
        for distinct in shared[1:]:
            count /= max(distinct, 1.0)
    return count * skew(sizes)


def skew(sizes: Sequence[Size]) -> float:
    """How many more entries pairs of operands share than evenly distributed ones would."""
    factor = 1.0
    counted = [size for size in sizes if size.counts]
    for n, one in enumerate(counted):
        for two in counted[n + 1 :]:
            shared = one.distinct.keys() & two.distinct.keys()
            if len(shared) != 1:
                continue
            (var,) = shared
            if var not in one.counts or var not in two.counts:
                continue
            exact = float(np.dot(one.counts[var].astype(float), two.counts[var]))
            even = one.entries * two.entries / max(one.distinct[var], two.distinct[var], 1.0)
            factor *= exact / even if even and exact else 1.0
    return factor
