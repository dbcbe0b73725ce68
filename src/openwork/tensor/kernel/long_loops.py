"""Which loops of a kernel take so long that they must poll the flag of Ctrl-C.

It depends on the data, and is known when a kernel is bound: kernels for usual sizes pay nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from openwork.index.nodes import IndexVar, TensorVar
from openwork.loops.nodes import Forall, relations_of
from openwork.loops.plan.assembly import accesses_of
from openwork.loops.plan.plan import Plan
from openwork.loops.provenance import Provenance
from openwork.program.lower.base.specialization import LongLoops
from openwork.runtime.storage import Array, Storage
from openwork.tensor.kernel.result_size import steps
from openwork.tree import walk

# From this many iterations on, a single loop, and all loops of a kernel together, may take longer
# than a user who pressed Ctrl-C waits.
_LOOP, _KERNEL = 1 << 17, 1 << 26


_NONE = LongLoops()


class LoopLengths:
    """The iteration counts of a plan's loops, given its operands."""

    def __init__(self, plan: Plan, operands: Sequence[TensorVar]) -> None:
        self._assignment, self._operands = plan.assignment, tuple(operands)
        self._reads = tuple(accesses_of(plan.assignment.rhs))
        self._innermost = _innermost(plan)
        self._wanted = {*self._innermost, *(var for access in self._reads for var in access.vars)}
        self._counted: tuple[object, float] = (None, 0.0)  # the sizes, and the iterations for them

    def long(
        self, operands: Sequence[Storage | None], extents: Mapping[IndexVar, int] | None = None
    ) -> LongLoops:
        """The innermost loops that are long by themselves, and whether all loops together are.

        Without `extents`, as far as the operands determine it.
        """
        held = dict(zip(self._operands, operands, strict=True))
        known = self._extents(held) if extents is None else extents
        whole = self.steps(operands, known)
        if whole < _LOOP:
            return _NONE
        loops = frozenset(var for var in self._innermost if known[var] >= _LOOP)
        runs = frozenset(
            var
            for access in self._reads
            for level, var in enumerate(access.level_vars)
            if var in self._innermost and _has_long_run(held[access.tensor], level)
        )
        return LongLoops(loops, runs, whole >= _KERNEL)

    def steps(self, operands: Sequence[Storage | None], extents: Mapping[IndexVar, int]) -> float:
        """An upper estimate of the iterations of all loops; 0 if that is not known yet."""
        space = math.prod(extents.values())
        if space < _LOOP:
            return float(space)
        key = tuple(s and s.places for s in operands), tuple(extents.items())
        known, count = self._counted
        if known != key:  # most calls are like the one before
            pairs = zip(self._operands, operands, strict=True)
            held = {var.name: storage for var, storage in pairs if storage is not None}
            complete = len(held) == len(self._operands) and self._wanted <= extents.keys()
            count = steps(self._assignment, held, extents) if complete else 0.0
            self._counted = key, count
        return count

    def _extents(self, held: Mapping[TensorVar, Storage | None]) -> dict[IndexVar, int]:
        found: dict[IndexVar, int] = {}
        for access in self._reads:
            storage = held[access.tensor]
            if storage is not None and len(storage.extents) == len(access.level_vars):
                found.update(zip(access.level_vars, storage.extents, strict=True))
        return found


def _innermost(plan: Plan) -> tuple[IndexVar, ...]:
    """The variables of the innermost loops."""
    provenance = Provenance(relations_of(plan.loops))
    loops = (loop for loop in walk(plan.loops) if isinstance(loop, Forall))
    alone = (n for n in loops if not any(isinstance(each, Forall) for each in walk(n.body)))
    return tuple(dict.fromkeys(var for n in alone for var in provenance.underived(n.var)))


def _has_long_run(storage: Storage | None, level: int) -> bool:
    """Whether a single run of stored entries is long."""
    if storage is None or level >= len(storage.levels):
        return False
    known = storage.asked.get((_has_long_run, level))
    if known is None:
        name = storage.format.levels[level].boundaries
        pos = None if name is None else storage.levels[level].get(name)
        known = storage.asked[_has_long_run, level] = _looked_for(pos)
    return known


def _looked_for(pos: Array | None) -> bool:
    if pos is None or len(pos) < 2 or pos[-1] < _LOOP:
        return False
    # A long run contains one of every so many entries: sample those.
    rows = np.searchsorted(pos, np.arange(0, int(pos[-1]), _LOOP, dtype=pos.dtype), "right") - 1
    return bool((pos[rows + 1] - pos[rows] >= _LOOP).any())
