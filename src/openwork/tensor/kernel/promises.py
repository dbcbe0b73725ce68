"""A schedule's assumptions about the data, checked before a kernel runs, and its cut points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openwork.errors import DataError, InternalError, OpenworkError
from openwork.index.nodes import IndexVar, TensorVar
from openwork.loops.nodes import Forall, OutputRaceStrategy, ParallelUnit, relations_of
from openwork.loops.plan.blocks import extents_of_blocks
from openwork.loops.plan.plan import Plan
from openwork.loops.provenance import Provenance
from openwork.loops.relations import (
    Bound,
    BoundType,
    Coord,
    Divide,
    Fuse,
    Pos,
    Relation,
    Split,
)
from openwork.runtime.storage import Array, Storage
from openwork.tree import walk

_MOST_PAIRS = 2**62


def _by_position(fused: IndexVar, relations: Sequence[Relation]) -> bool:
    """Whether the loop iterates over an operand's positions only, so pairs are never counted."""
    for relation in relations:
        if isinstance(relation, Pos) and relation.parent == fused:
            return True
        if isinstance(relation, Fuse) and fused in relation.parents:
            return _by_position(relation.fused, relations)
    return False


class Promises:
    """The bounds, cut points and fused loops of a plan."""

    def __init__(self, plan: Plan, templates: Mapping[str, Any]) -> None:
        self._templates = dict(templates)
        self._provenance = Provenance(relations_of(plan.loops))
        relations = self._provenance.relations
        self._bounds = [r for r in relations if isinstance(r, Bound)]
        self._divides = [r for r in relations if isinstance(r, Divide) and r.points is not None]
        self._fused = [r.fused for r in relations if isinstance(r, Fuse)]
        if not any(isinstance(r, Coord) for r in relations):
            self._fused = [var for var in self._fused if not _by_position(var, relations)]
        self._none = not (self._bounds or self._divides or self._fused)

    def keep(
        self,
        extents: Mapping[IndexVar, int],
        given: tuple[Storage, ...],
        operands: tuple[Storage, ...],
        names: tuple[TensorVar, ...],
    ) -> tuple[Array, ...]:
        """Check what can be checked before the kernel runs; returns the cut points.

        Raises:
            DataError: E507 if the data breaks a bound, E508 if cut points are invalid.
        """
        if self._none:
            return ()
        for fused in self._fused:
            pairs = math.prod(extents[u] for u in self._provenance.underived(fused))
            if pairs >= _MOST_PAIRS:
                raise DataError(
                    f"{fused} would iterate over {pairs} pairs, which overflows 64 bits",
                    code="E507",
                    hint="fuse fewer variables",
                )
        for bound in self._bounds:
            self._check(bound, extents)
        by_name = dict(zip((var.name for var in names), operands, strict=True))
        return tuple(self._cut(divide, extents, given, by_name) for divide in self._divides)

    def hold(self, extents: Mapping[IndexVar, int]) -> bool:
        """Whether the bounds hold, as far as that is known before the kernel runs."""
        return self.broken(extents, unknown=False) is None

    def broken(self, extents: Mapping[IndexVar, int], unknown: bool) -> Bound | None:
        """The first bound that does not hold; `unknown`: or that only data decides."""
        for bound in self._bounds:
            size = self._count(bound.parent, extents)
            if unknown if size is None else not _holds(bound, size):
                return bound
        return None

    def _count(self, var: IndexVar, extents: Mapping[IndexVar, int]) -> int | None:
        """How many values a variable has, from 0 on; None where a kernel finds out."""
        var = self._provenance.unrenamed(var)
        match self._provenance.above.get(var):
            case None:
                return extents.get(var)
            case Split(parent=parent, outer=outer, factor=factor) if var == outer:
                whole = self._count(parent, extents)
                return None if whole is None else -(-whole // factor)
        return None

    def _check(self, bound: Bound, extents: Mapping[IndexVar, int]) -> None:
        var = self._provenance.unrenamed(bound.parent)
        if var in self._provenance.above:
            return  # the kernel checks it
        size = extents[var]
        if not _holds(bound, size):
            raise DataError(
                f"{bound} does not hold: {var} has extent {size}",
                code="E507",
                hint="compile the statement for this data without the bound",
            )

    def _cut(
        self,
        divide: Divide,
        extents: Mapping[IndexVar, int],
        given: tuple[Storage, ...],
        operands: Mapping[str, Storage],
    ) -> Array:
        """The cut points that the user's function returns."""
        if divide.points is None:
            raise InternalError(f"{divide} has no function")
        tensors = {
            name: template.__openwork_result__(storage)
            for (name, template), storage in zip(self._templates.items(), given, strict=True)
        }
        size = self._size(divide.parent, extents, operands)
        hint = f"it must return {divide.parts + 1} increasing integers from 0 to {size}"
        try:
            found = np.asarray(divide.points(tensors, divide.parts))
        except OpenworkError:
            raise
        except Exception as error:
            raise DataError(
                f"split_points of {divide.parent} failed: {type(error).__name__}: {error}",
                code="E508",
                hint=hint,
            ) from error
        rises = (
            found.shape == (divide.parts + 1,)
            and found.dtype.kind in "iu"
            and found[0] == 0
            and found[-1] == size
            and bool(np.all(found[1:] >= found[:-1]))
        )
        if not rises:
            raise DataError(
                f"split_points of {divide.parent} returned {np.array2string(found, threshold=8)}",
                code="E508",
                hint=hint,
            )
        return np.ascontiguousarray(found, dtype=np.int64)

    def _size(
        self, var: IndexVar, extents: Mapping[IndexVar, int], operands: Mapping[str, Storage]
    ) -> int:
        """The extent of a variable that does not depend on an outer loop."""
        var = self._provenance.unrenamed(var)
        match self._provenance.above.get(var):
            case None:
                return extents[var]
            case Fuse():
                return math.prod(extents[u] for u in self._provenance.underived(var))
            case Pos(access=access, parent=parent):
                last = self._provenance.underived(parent)[-1]
                return operands[access.tensor.name].positions(access.level_vars.index(last))
        raise InternalError(f"the size of {var} is not known before the kernel runs")


def _holds(bound: Bound, size: int) -> bool:
    """Whether a bound holds for a variable of values from 0 to below `size`."""
    value = bound.value
    return {
        BoundType.MaxExact: size == value,
        BoundType.MaxConstraint: size <= value,
        BoundType.MinExact: value == 0,
        BoundType.MinConstraint: value <= 0,
        BoundType.Divisible: size % max(value, 1) == 0,
    }[bound.kind]


def has_bounds(plan: Plan) -> bool:
    """Whether a schedule promises bounds."""
    return any(isinstance(relation, Bound) for relation in relations_of(plan.loops))


def bounds_hold(plan: Plan, extents: Mapping[IndexVar, int | None]) -> bool:
    """Whether all bounds hold for these extents; not if only data decides one."""
    known = {var: size for var, size in extents.items() if size is not None}
    if all(block.var in known for block in plan.blocks):
        known = extents_of_blocks(known, plan.blocks)
    return Promises(plan, {}).broken(known, unknown=True) is None


def ignores_races(plan: Plan) -> bool:
    """Whether nothing but a promise prevents races of a loop's iterations."""
    return any(isinstance(loop, Forall) and _ignores_races(loop) for loop in walk(plan.loops))


def _ignores_races(loop: Forall) -> bool:
    """Whether a loop ignores races, without atomic updates further in."""
    if loop.tag is None or loop.tag.race is not OutputRaceStrategy.IgnoreRaces:
        return False
    tags = [inner.tag for inner in walk(loop.body) if isinstance(inner, Forall) and inner.tag]
    atomic = any(
        tag.race is OutputRaceStrategy.Atomics or tag.unit is ParallelUnit.GPUGroup for tag in tags
    )
    return not (loop.tag.unit.on_gpu and atomic)


def broken_bound(plan: Plan) -> DataError:
    """The error for a bound that a kernel found violated."""
    bounds = [str(r) for r in relations_of(plan.loops) if isinstance(r, Bound)]
    return DataError(
        f"the data breaks a bound of the schedule: {', '.join(bounds)}",
        code="E507",
        hint="compile the statement for this data without the bound",
    )
