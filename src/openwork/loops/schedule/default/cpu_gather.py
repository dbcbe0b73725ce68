"""Sums along a sparse operand in vectors, in the default schedule: `y(i) = A(i,j) * x(j)`.

Only where the processor gathers fast. Elsewhere one scalar after the other is faster.
"""

from __future__ import annotations

from openwork.errors import ScheduleError
from openwork.index.nodes import Access, Apply, IndexVar
from openwork.loops.plan.nest import Path, paths
from openwork.loops.schedule.default.cpu_dot import REDUCED, terms_of
from openwork.loops.schedule.draft import Draft
from openwork.loops.schedule.machines import Cpu

_MOST_MODES = 2  # of an operand whose sums are gathered


def with_gathers(draft: Draft, cpu: Cpu) -> Draft:
    """`draft` with sums of gathered products in lanes."""
    if not cpu.gathers:
        return draft
    for path in list(paths(draft.plan.loops)):
        if not _gathers(path):
            continue
        try:
            draft = draft.then("parallelize", path.variables[-1], *REDUCED).since(draft)
        except ScheduleError:
            continue
    return draft


def _gathers(path: Path) -> bool:
    """Whether the innermost loop sums the entries of a run, each times elements of vectors."""
    assign = path.assign
    if not path.loops or assign.op is None or not assign.op.adds or path.loops[-1].tag is not None:
        return False
    var, dtype = path.variables[-1], assign.lhs.dtype
    if var in assign.lhs.vars or dtype.name not in ("float32", "float64"):
        return False
    if not isinstance(assign.rhs, Apply) or not assign.rhs.op.multiplies:
        return False
    terms = terms_of(assign.rhs, assign.rhs.op)
    if not all(isinstance(t, Access) and t.dtype == dtype for t in terms):
        return False
    accesses = [t for t in terms if isinstance(t, Access)]
    runs = [a for a in accesses if _is_run(a, var)]
    vectors = [a for a in accesses if a.vars == (var,) and a.tensor.format.is_dense]
    return len(runs) == 1 and len(vectors) == len(accesses) - 1 > 0


def _is_run(access: Access, var: IndexVar) -> bool:
    """Whether entries along `var` lie side by side, with their coordinates beside them.

    Rows of a matrix are summed several at once. A fibre of a tensor is not: it is mostly short, and
    to add up its lanes takes as long as many of its entries.
    """
    if not 0 < len(access.vars) <= _MOST_MODES or access.level_vars[-1] != var:
        return False
    level = access.tensor.format.levels[-1]
    return level.compact and not level.strided and not level.locates
