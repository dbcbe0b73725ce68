"""Sums along a sparse operand in vectors, in the default schedule: `y(i) = A(i,j) * x(j)`.

Where the processor gathers fast, always. Where it does not, vectors are filled element by element,
which pays off in long rows: to add up the lanes of a vector takes as long as many entries. How long
rows are is known if the operand has data; else one scalar is summed after the other.
"""

from __future__ import annotations

from collections.abc import Mapping

from openwork.errors import ScheduleError
from openwork.index.nodes import Access, Apply, IndexVar
from openwork.loops.plan.nest import Path, paths
from openwork.loops.schedule.default.cpu_dot import REDUCED, terms_of
from openwork.loops.schedule.draft import Draft
from openwork.loops.schedule.machines import Cpu

_MOST_MODES = 2  # of an operand whose sums are gathered


def with_gathers(draft: Draft, cpu: Cpu, runs: Mapping[str, float]) -> Draft:
    """`draft` with sums of gathered products in lanes.

    `runs`: the mean entries of a run of the operands that have data, by name.
    """
    if not (cpu.gathers or cpu.fills):
        return draft
    for path in list(paths(draft.plan.loops)):
        run = _gathered(path)
        if run is None:
            continue
        var, mean = path.variables[-1], runs.get(run.tensor.name, 0.0)
        if not cpu.gathers and mean < cpu.least_filled:
            continue
        try:
            made = draft.then("parallelize", var, *REDUCED).since(draft)
        except ScheduleError:
            continue
        if not cpu.gathers:
            long = f"runs of {mean:.0f} entries of {run.tensor}, on average"
            made = made.said(f"{var}: {long}, are summed in lanes")
        draft = made
    return draft


def _gathered(path: Path) -> Access | None:
    """The operand of whose runs the innermost loop sums the entries, times elements of vectors."""
    assign = path.assign
    if not path.loops or assign.op is None or not assign.op.adds or path.loops[-1].tag is not None:
        return None
    var, dtype = path.variables[-1], assign.lhs.dtype
    if var in assign.lhs.vars or dtype.name not in ("float32", "float64"):
        return None
    if not isinstance(assign.rhs, Apply) or not assign.rhs.op.multiplies:
        return None
    terms = terms_of(assign.rhs, assign.rhs.op)
    if not all(isinstance(t, Access) and t.dtype == dtype for t in terms):
        return None
    accesses = [t for t in terms if isinstance(t, Access)]
    runs = [a for a in accesses if _is_run(a, var)]
    vectors = [a for a in accesses if a.vars == (var,) and a.tensor.format.is_dense]
    return runs[0] if len(runs) == 1 and len(vectors) == len(accesses) - 1 > 0 else None


def _is_run(access: Access, var: IndexVar) -> bool:
    """Whether entries along `var` lie side by side, with their coordinates beside them.

    Rows of a matrix are summed several at once. A fibre of a tensor is not: it is mostly short, and
    to add up its lanes takes as long as many of its entries.
    """
    if not 0 < len(access.vars) <= _MOST_MODES or access.level_vars[-1] != var:
        return False
    level = access.tensor.format.levels[-1]
    return level.compact and not level.strided and not level.locates
