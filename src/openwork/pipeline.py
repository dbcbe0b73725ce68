"""The map: every stage from a statement to the text of a kernel, on one screen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from openwork.algebra.types import Number
from openwork.index.checks import check
from openwork.index.einstein import explicit
from openwork.index.nodes import Assignment, IndexVar
from openwork.index.show import show
from openwork.loops.plan.assembly import Append
from openwork.loops.plan.plan import Plan, names_of, plan
from openwork.loops.schedule.default.cpu import default_cpu
from openwork.loops.schedule.default.gpu import by_units, default_gpu
from openwork.loops.schedule.draft import Draft
from openwork.loops.schedule.machines import Cpu, Gpu
from openwork.loops.schedule.statistics import Statistics
from openwork.loops.verify import verify_loops
from openwork.program.device.block_copies import with_parts
from openwork.program.device.host import on_device
from openwork.program.gpu_nodes import DeviceProgram
from openwork.program.lower.base.specialization import Specialization
from openwork.program.lower.kernel import lower_plan
from openwork.program.nodes import Program
from openwork.program.powers import check_powers
from openwork.program.simplify import simplify, with_promised_extents
from openwork.program.verify import verify
from openwork.recipes.choose import choose
from openwork.render.c.c import render
from openwork.render.cuda.cuda import can_be_narrow, render_cuda
from openwork.trace import Trace


@dataclass(frozen=True)
class Compiled:
    """A kernel as text, and what is needed to call it.

    `variables`: whose extents it is called with. `initial`: what an in-place result must hold
    before the call; None if every entry is written.
    """

    program: Program
    source: str
    variables: tuple[IndexVar, ...]
    initial: Number | None


@dataclass(frozen=True)
class CompiledCuda(Compiled):
    """A kernel for a GPU: its functions, and what the host does around them."""

    device: DeviceProgram
    narrow: bool


def started(
    assignment: Assignment,
    sizes: Mapping[str, float],
    trace: Trace | None = None,
    wanted: tuple[IndexVar, ...] | None = None,
    by_rows: bool = False,
) -> Draft:
    """Index notation to loops, which commands start from; nothing is parallel yet.

    `sizes`: stored entries of operands, where they are known. `wanted`: the order of the loops, if
    a schedule has one. `by_rows`: a sparse result is made along its outermost mode, whatever has
    to be converted.
    """
    trace = trace or Trace()
    checked = trace.run("statement.txt", lambda: check(assignment), show)
    summed = trace.run("explicit.txt", lambda: explicit(checked), show)
    planned = trace.run("loops.txt", lambda: plan(summed, trace, sizes, wanted, by_rows), _loops)

    def replan(order: tuple[IndexVar, ...]) -> Draft:
        return started(assignment, sizes, wanted=order)

    return Draft(assignment, planned, (), tuple(trace.decisions), replan)


def scheduled_for_cpu(
    assignment: Assignment, sizes: Mapping[str, float], cpu: Cpu, trace: Trace
) -> Draft:
    """Loops with the default schedule of a CPU."""
    start = started(assignment, sizes, trace)
    return trace.run(
        "scheduled.txt", lambda: default_cpu(start, cpu), lambda draft: _loops(draft.plan)
    )


def scheduled_for_gpu(
    start: Draft, statistics: Mapping[str, Statistics], gpu: Gpu, exact: bool
) -> Draft:
    """Loops for a GPU: by the user's commands, else by a recipe, else by the default.

    `exact`: without atomics, where the user gives no schedule.
    """
    if start.commands:
        return default_gpu(start, statistics, gpu, exact)
    draft = choose(start, statistics, gpu, exact) or start
    if draft is start and isinstance(start.plan.assembly, Append) and not by_units(start.plan):
        # The threads of a GPU each need rows of the result, which are worth a conversion.
        sizes = {name: float(known.entries) for name, known in statistics.items()}
        rows = started(start.written, sizes, by_rows=True)
        draft = rows if by_units(rows.plan) else start
    return default_gpu(draft, statistics, gpu, exact)


def _loops(planned: Plan) -> str:
    return str(planned.loops)


def back_cuda(
    planned: Plan, facts: Specialization, trace: Trace, narrow: bool = True, aligned: bool = True
) -> CompiledCuda:
    """Loops to CUDA, for data of which `facts` hold.

    `narrow`: 32 bits count everything. `aligned`: arrays begin where a vector of 16 bytes may.
    """
    verify_loops(planned.loops, names_of(planned.assignment))
    lowered = trace.run("lowered.c", lambda: lower_plan(planned, facts), lambda made: "")
    verify(lowered.program)
    exact = with_promised_extents(lowered.program, planned, lowered.variables)
    program = trace.run("simplified.c", lambda: with_parts(simplify(exact)))
    verify(program)
    check_powers(program)
    device = trace.run(
        "kernels.txt", lambda: on_device(program, aligned), lambda made: "\n".join(made.notes)
    )
    narrow = narrow and can_be_narrow(program)
    source = trace.run("kernel.cu", lambda: render_cuda(device, narrow))
    return CompiledCuda(program, source, lowered.variables, lowered.initial, device, narrow)


def back(planned: Plan, facts: Specialization, trace: Trace, name: str = "kernel") -> Compiled:
    """Loops to C, for data of which `facts` hold."""
    verify_loops(planned.loops, names_of(planned.assignment))
    lowered = trace.run(
        "lowered.c", lambda: lower_plan(planned, facts), lambda made: render(made.program, name)
    )
    verify(lowered.program)
    exact = with_promised_extents(lowered.program, planned, lowered.variables)
    program = trace.run("simplified.c", lambda: simplify(exact), render)
    verify(program)
    source = trace.run("kernel.c", lambda: render(program, name))
    return Compiled(program, source, lowered.variables, lowered.initial)
