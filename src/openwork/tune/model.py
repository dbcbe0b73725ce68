"""A cost model of candidates: iterations, bytes, gathers, imbalance and occupancy, without running.

It is coarse. It drops candidates that do asymptotically more work than the default, and it says in
which order the others are worth a try; only measurements choose.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import ceil, log2

from openwork.frozen import frozen
from openwork.index.nodes import Access, IndexVar
from openwork.loops.nodes import Assign, Forall, OutputRaceStrategy, ParallelUnit, Stmt
from openwork.loops.plan.assembly import accesses_of
from openwork.loops.plan.nest import provenance_of
from openwork.loops.plan.plan import Plan
from openwork.loops.provenance import Provenance
from openwork.loops.relations import Deal, Divide, Fuse, Split
from openwork.loops.relations.relation import Renaming
from openwork.loops.schedule.machines import Gpu
from openwork.loops.schedule.statistics import Statistics
from openwork.runtime.host.calibration import recall
from openwork.runtime.host.threads import thread_count
from openwork.tree import children

WORSE = 8.0  # times the iterations of the default: asymptotically worse
_INDEX = 4  # bytes


@frozen
class Rates:
    """What a machine does in a second, roughly.

    Args:
        bytes: from memory, by all units.
        units: that run at once.
        steps: iterations of one unit.
        atomics: updates of one unit that others may interfere with.
        cache: bytes of a dense operand that stay close.
        line: bytes that a gather loads.
    """

    bytes: float
    units: int
    steps: float
    atomics: float
    cache: float
    line: float


def rates_of_cpu() -> Rates:
    """The rates of this CPU: measured by `openwork calibrate`, or typical ones."""
    known = recall()
    bandwidth = 10.0 if known is None else known.bandwidth
    steps = 300.0 if known is None else max(known.scalar, known.masked)
    return Rates(bandwidth * 1e9, thread_count(), steps * 1e6, 5e7, 1e6, 64)


def rates_of_gpu(gpu: Gpu) -> Rates:
    """The rates of a GPU, from its table."""
    step = 1e6 / gpu.times.step_group
    bandwidth = 8.0 * gpu.times.rate_vector * 1e6
    return Rates(bandwidth, gpu.resident, step, 1e6 / gpu.times.atomic, gpu.caches.l2, 32)


@frozen
class Estimate:
    """What a candidate costs, as far as loops and statistics tell.

    Args:
        iterations: of all loops together.
        bytes: that it reads and writes, gathers included.
        operations: the arithmetic of its innermost statements.
        seconds: of a call.
    """

    iterations: float
    bytes: float
    operations: float
    seconds: float


@frozen
class Loops:
    """A scheduled plan, and how often its loops run.

    Args:
        plan: the loops.
        statistics: of sparse operands, by name.
        rates: of the machine.
    """

    plan: Plan
    statistics: Mapping[str, Statistics]
    rates: Rates

    def estimate(self) -> Estimate:
        """The cost of the plan."""
        iterations = atomics = operations = 0.0
        units, uneven = 1.0, 1.0
        for loops, assign in paths(self.plan.loops):
            count = parallel = 1.0
            for loop in loops:
                count *= self.trips(loop.var)
                iterations += count
                if loop.tag is not None and loop.tag.unit is not ParallelUnit.CPUVector:
                    parallel *= max(1.0, self.trips(loop.var))
                    if loop.tag.race is OutputRaceStrategy.Atomics:
                        atomics = max(atomics, self._all(loops))
            operations += count * max(1, len(accesses_of(assign.rhs)))
            if parallel > units:
                units, uneven = parallel, self._uneven(loops, parallel)
        moved = self.bytes()
        busy = min(units, self.rates.units)
        waves = ceil(units / busy) * busy / units  # the last wave is not full
        computing = iterations / self.rates.steps / busy * max(waves, uneven)
        updating = atomics / self.rates.atomics / busy
        moving = moved / self.rates.bytes * (1 if units > 1 else min(2.0, self.rates.units))
        return Estimate(iterations, moved, operations, max(computing, moving) + updating)

    def _all(self, loops: tuple[Forall, ...]) -> float:
        count = 1.0
        for loop in loops:
            count *= self.trips(loop.var)
        return count

    # -- how often loops run ----------------------------------------------------------------------

    @cached_property
    def _provenance(self) -> Provenance:
        return provenance_of(self.plan)

    @cached_property
    def _known(self) -> dict[IndexVar, float]:
        return {}

    def trips(self, var: IndexVar) -> float:
        """How often a loop runs on average, each time it is reached."""
        found = self._known.get(var)
        if found is None:
            found = self._known[var] = self._trips(var)
        return found

    def _trips(self, var: IndexVar) -> float:
        match self._provenance.above.get(var):
            case Fuse(outer=outer, inner=inner):
                return self.trips(outer) * self.trips(inner)
            case Split(parent=parent, outer=outer, factor=factor):
                whole = self._values(parent)
                if var == outer:
                    return max(1.0, whole / factor)
                trips = self.trips(parent)  # entries thin out in tiles of coordinates
                return (
                    min(float(factor), trips)
                    if trips >= whole
                    else trips * min(1.0, factor / whole)
                )
            case (
                Divide(parent=parent, outer=outer, parts=parts)
                | Deal(parent=parent, outer=outer, parts=parts)
            ):
                return float(parts) if var == outer else max(1.0, self.trips(parent) / parts)
            case Renaming(parent=parent):
                return self.trips(parent)
        return self._stored(var)

    def _values(self, var: IndexVar) -> float:
        """The values that a cut variable is cut from: coordinates, or positions."""
        above = self._provenance.above.get(var)
        if self._provenance.space(var) is not None:
            return self.trips(var)
        if isinstance(above, Renaming):
            return self._values(above.parent)
        return self.trips(var) if above is not None else float(self._extent(var) or self.trips(var))

    def _stored(self, var: IndexVar) -> float:
        """The values of an index variable that operands have, on average."""
        found = []
        for access in self._sparse:
            if var in access.level_vars:
                known, at = self.statistics[access.tensor.name], access.level_vars.index(var)
                rows = self._extent(access.level_vars[0]) or 1
                if at == len(access.level_vars) - 1:
                    above = 1.0
                    for outer in access.level_vars[:at]:
                        above *= self._stored(outer)
                    found.append(max(known.entries / max(1.0, above), 1e-3))
                elif at == 0 and known.rows is not None:
                    found.append(float(min(known.rows.count, rows)))
        extent = self._extent(var)
        return min([*found, *([float(extent)] if extent else [])], default=32.0)

    @cached_property
    def _sparse(self) -> list[Access]:
        reads = accesses_of(self.plan.assignment.rhs)
        known = [a for a in reads if a.tensor.name in self.statistics and a.vars]
        return [a for a in known if not a.tensor.format.is_dense]

    def _extent(self, var: IndexVar) -> int | None:
        assignment = self.plan.assignment
        for access in (*accesses_of(assignment.rhs), assignment.lhs):
            for mode, own in enumerate(access.vars):
                shape = access.tensor.shape
                if own == var and shape is not None and shape[mode] is not None:
                    return shape[mode]
        return None

    def _uneven(self, loops: tuple[Forall, ...], parallel: float) -> float:
        """By how much the busiest unit exceeds the mean, where units take whole rows."""
        tagged = [loop for loop in loops if loop.tag is not None]
        worst = 1.0
        for access in self._sparse:
            known = self.statistics[access.tensor.name]
            if known.rows is None or not known.entries:
                continue
            row, *inner = access.level_vars
            roots = [(loop, self._provenance.roots(loop.var)) for loop in tagged]
            if not any(row in each and not each & set(inner) for _, each in roots):
                continue  # units take entries, wherever rows begin
            shared = 1.0  # units that share a row
            for loop, each in roots:
                shared *= max(1.0, self.trips(loop.var)) if each & set(inner) else 1.0
            busy = min(parallel, self.rates.units)
            worst = max(worst, known.rows.longest * busy / known.entries / shared)
        return worst

    # -- memory -----------------------------------------------------------------------------------

    def bytes(self) -> float:
        """What is read and written: operands once for each traversal, gathers by line."""
        total = 0.0
        for access in (*accesses_of(self.plan.assignment.rhs), self.plan.assignment.lhs):
            size = float(access.tensor.dtype.itemsize)
            if access in self._sparse:
                known = self.statistics[access.tensor.name]
                total += known.entries * (size + _INDEX) * self._traversals(access)
                continue
            whole = size
            for var in access.vars:
                whole *= self._extent(var) or 1
            total += whole + self._gathered(access, size, whole)
        return total

    def _traversals(self, access: Access) -> float:
        """How often a sparse operand is read: loops around it that do not index it."""
        most = 1.0
        for loops, assign in paths(self.plan.loops):
            if access not in accesses_of(assign.rhs):
                continue
            own = [n for n, loop in enumerate(loops) if self._indexes(access, loop)]
            outside = loops[: own[-1]] if own else ()
            times = 1.0
            for loop in outside:
                if not self._indexes(access, loop):
                    times *= max(1.0, self.trips(loop.var))
            most = max(most, times)
        return most

    def _indexes(self, access: Access, loop: Forall) -> bool:
        return bool(self._provenance.roots(loop.var) & set(access.vars))

    def _gathered(self, access: Access, size: float, whole: float) -> float:
        """What gathers load more than once: lines of an operand that no cache holds."""
        reads = [a for a in self._sparse if set(a.level_vars[1:]) & set(access.vars)]
        if not reads or whole <= self.rates.cache:
            return 0.0
        known = self.statistics[reads[0].tensor.name]
        across = size
        for var in access.vars:
            if var not in reads[0].vars:
                across *= self._extent(var) or 1
        reach = known.rows.reach if known.rows is not None and known.rows.reach else 0.0
        near = reach * across <= self.rates.cache and reach > 0
        missed = 0.0 if near else 1 - self.rates.cache / whole
        return known.entries * max(across, self.rates.line) * missed


def paths(stmt: Stmt, above: tuple[Forall, ...] = ()) -> list[tuple[tuple[Forall, ...], Assign]]:
    """The assignments of a nest, each with the loops around it."""
    if isinstance(stmt, Assign):
        return [(above, stmt)]
    inside = (*above, stmt) if isinstance(stmt, Forall) else above
    found = []
    for child in children(stmt):
        if isinstance(child, Stmt):
            found += paths(child, inside)
    return found


def tuning_cost(entries: float, converts: bool) -> float:
    """Seconds that a candidate takes until it is measured, roughly: compiled, and converted."""
    return 0.1 + (entries * 4e-8 * max(1.0, log2(max(2.0, entries)) / 16) if converts else 0.0)
