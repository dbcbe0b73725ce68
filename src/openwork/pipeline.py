"""The map: every stage from a statement to kernel source, on one screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace

from openwork.algebra.types import Number
from openwork.frozen import frozen
from openwork.index.checks import check
from openwork.index.einstein import explicit
from openwork.index.nodes import Assignment, IndexVar
from openwork.index.show import show
from openwork.loops.nodes import relations_of
from openwork.loops.plan.assembly import Append
from openwork.loops.plan.plan import Plan, names_of, plan
from openwork.loops.plan.undealt import undealt
from openwork.loops.relations import Bound
from openwork.loops.schedule.default.cpu import default_cpu
from openwork.loops.schedule.default.gpu import by_units, default_gpu
from openwork.loops.schedule.draft import Draft
from openwork.loops.schedule.machines import Cpu, Gpu
from openwork.loops.schedule.statistics import Statistics
from openwork.loops.schedule.strides import in_strides
from openwork.loops.verify import verify_loops
from openwork.program.chains import in_chains
from openwork.program.device.batches import with_batches
from openwork.program.device.block_copies import with_block_copies
from openwork.program.device.host import on_device, with_statuses, without_unread
from openwork.program.device.tidied import tidied
from openwork.program.device.verify import verify_device
from openwork.program.device.wide_loads import with_streamed_loads, with_wide_loads
from openwork.program.extremes import in_ranges
from openwork.program.gpu_nodes import DeviceProgram
from openwork.program.lower.base.specialization import Specialization
from openwork.program.lower.kernel import Lowered, lower_plan
from openwork.program.lower.records import without_records
from openwork.program.nodes import Block, Program
from openwork.program.powers import check_powers
from openwork.program.show import show_device, show_program
from openwork.program.simplify.extents import with_promised_extents
from openwork.program.simplify.simplify import simplify
from openwork.program.simplify.tidy import tidy
from openwork.program.vectorize import vectorize
from openwork.program.verify import verify
from openwork.recipes.choose import choose
from openwork.render.c.c import render
from openwork.render.cuda.cuda import can_be_narrow, render_cuda
from openwork.trace import Trace

# Operands of a merge; with more, most of an optimizer's time is spent in vain on their registers.
_MOST_OPTIMIZED = 12


@frozen
class Compiled:
    """Kernel source, and what is needed to call it.

    `source`: compiled, and known to the cache; no name in it comes from the user.
    `variables`: their extents are arguments of the kernel, and so are the strides of the tensors in
    `strides`, after them. `initial`: the value that an in-place
    result must hold before the call; None if the kernel writes every entry.
    """

    program: Program
    source: str
    variables: tuple[IndexVar, ...]
    initial: Number | None
    strides: tuple[str, ...] = ()
    quick: bool = False  # so large that the C compiler must not take its time

    @property
    def shown(self) -> str:
        """The source to read, whose comments have the user's names."""
        return render(self.program, words=self.program.words)

    @property
    def bodies(self) -> tuple[Block, ...]:
        """The bodies of its functions."""
        return (self.program.body,)


@frozen
class CompiledCuda(Compiled):
    """A kernel for a GPU: device functions, and the host's steps around them."""

    device: DeviceProgram = field(kw_only=True)
    narrow: bool = field(kw_only=True)

    @property
    def shown(self) -> str:
        """The source to read, whose comments have the user's names."""
        return render_cuda(self.device, self.narrow, self.program.words)

    @property
    def bodies(self) -> tuple[Block, ...]:
        """The bodies of its kernels."""
        return tuple(kernel.body for kernel in self.device.kernels)


def started(
    assignment: Assignment,
    sizes: Mapping[str, float],
    wanted: tuple[IndexVar, ...] | None = None,
    by_rows: bool = False,
) -> Draft:
    """Index notation to serial loops, from which every schedule starts.

    `sizes`: stored entries per operand, where known. `wanted`: the loop order, if the schedule
    fixes one. `by_rows`: assemble a sparse result along its outermost mode, even if operands must
    be converted.
    """
    trace = Trace(dumps=False)
    checked = trace.run("statement.txt", lambda: check(assignment), show)
    summed = trace.run("explicit.txt", lambda: explicit(checked), show)
    planned = trace.run("loops.txt", lambda: plan(summed, trace, sizes, wanted, by_rows), _loops)

    def replan(order: tuple[IndexVar, ...]) -> Draft:
        return started(assignment, sizes, order)

    decisions, stages = tuple(trace.decisions), tuple(trace.stages)
    return Draft(assignment, planned, (), decisions, replan, stages=stages)


def scheduled_for_cpu(start: Draft, cpu: Cpu, runs: Mapping[str, float]) -> Draft:
    """Loops for a CPU: the user's schedule, else the default.

    `runs`: the mean entries of a run of the operands that have data, by name.
    """
    return _scheduled(lambda: start if start.commands else default_cpu(start, cpu, runs))


def scheduled_for_gpu(
    start: Draft, statistics: Mapping[str, Statistics], gpu: Gpu, exact: bool
) -> Draft:
    """Loops for a GPU: the user's schedule, else a recipe, else the default.

    A recipe may compile extents in, such as the number of columns; other data falls back to the
    default. `exact`: bit-reproducible, so without atomics, unless the user's schedule has them.
    """

    def scheduled() -> Draft:
        if start.commands:
            return default_gpu(start, statistics, gpu, exact)
        draft = choose(start, statistics, gpu, exact) or start
        if draft is start and isinstance(start.plan.assembly, Append) and not by_units(start.plan):
            # GPU threads assemble the result by rows, which is worth a conversion.
            sizes = {name: float(known.entries) for name, known in statistics.items()}
            rows = started(start.written, sizes, by_rows=True)
            draft = rows if by_units(rows.plan) else start
        made = default_gpu(draft, statistics, gpu, exact)
        if not any(isinstance(relation, Bound) for relation in relations_of(made.plan.loops)):
            return made
        return replace(made, otherwise=default_gpu(start, statistics, gpu, exact))

    return _scheduled(scheduled)


def _scheduled(work: Callable[[], Draft]) -> Draft:
    """The result of `work`, with its stage recorded."""
    trace = Trace(dumps=False)
    draft = trace.run("scheduled.txt", work, lambda made: _loops(made.plan))
    return replace(draft, stages=(*draft.stages, *trace.stages))


def _loops(planned: Plan) -> str:
    return str(planned.loops)


def back(planned: Plan, facts: Specialization, trace: Trace) -> Compiled:
    """Loops to C, specialized to data for which `facts` hold."""
    lowered, exact = _lowered(planned, facts, trace, vectors=True)
    program, source = to_c(exact, trace)
    quick = lowered.merged > _MOST_OPTIMIZED
    return Compiled(program, source, lowered.variables, lowered.initial, lowered.strides, quick)


def to_c(program: Program, trace: Trace) -> tuple[Program, str]:
    """A program to its final form, and to C."""
    program = _pass("simplified.c", simplify, program, trace)
    program = _pass("vectorized.c", vectorize, program, trace)
    program = _pass("chains.c", in_chains, program, trace)
    program = _pass("ranges.c", in_ranges, program, trace)
    program = _pass("tidied.c", tidy, program, trace)
    return program, trace.run(
        "kernel.c", lambda: render(program), lambda _: render(program, words=program.words)
    )


def back_cuda(
    planned: Plan, facts: Specialization, trace: Trace, narrow: bool = True, aligned: bool = True
) -> CompiledCuda:
    """Loops to CUDA, specialized to data for which `facts` hold.

    `narrow`: 32-bit indices suffice. `aligned`: arrays are aligned to 16 bytes.
    """
    lowered, program = _lowered(planned, facts, trace)
    program = _pass("simplified.c", simplify, program, trace)
    program = _pass("copies.c", with_block_copies, program, trace)
    check_powers(program)
    device = to_kernels(program, trace, aligned)
    narrow = narrow and can_be_narrow(program)
    source = trace.run(
        "kernel.cu",
        lambda: render_cuda(device, narrow),
        lambda _: render_cuda(device, narrow, program.words),
    )
    return CompiledCuda(
        program, source, lowered.variables, lowered.initial, lowered.strides,
        device=device, narrow=narrow,
    )  # fmt: skip


def to_kernels(program: Program, trace: Trace, aligned: bool = True) -> DeviceProgram:
    """A program to kernels and the host's steps, from which CUDA is written."""
    program = _pass("inspected.c", without_unread, program, trace)
    device = trace.run("kernels.c", lambda: on_device(program), show_device)
    verify_device(device)
    device = _device_pass("statuses.c", with_statuses, device, trace)
    device = _device_pass("streamed.c", with_streamed_loads, device, trace)
    if aligned:
        device = _device_pass("wide.c", with_wide_loads, device, trace)
    device = _device_pass("batches.c", with_batches, device, trace)
    device = _device_pass("tidied.c", tidied, device, trace)
    for note in device.notes:
        trace.decide(note)
    return device


def _lowered(
    planned: Plan, facts: Specialization, trace: Trace, vectors: bool = False
) -> tuple[Lowered, Program]:
    """Loops to a program, specialized to the extents that the schedule promises.

    `vectors`: the processor has vectors.
    """
    planned = in_strides(undealt(planned))
    verify_loops(planned.loops, names_of(planned.assignment))
    lowered = trace.run(
        "lowered.c", lambda: lower_plan(planned, facts), lambda made: show_program(made.program)
    )
    verify(lowered.program)
    for note in lowered.notes:
        trace.decide(note)

    def exact(program: Program) -> Program:
        return with_promised_extents(program, planned, lowered.variables)

    def plain(program: Program) -> Program:
        return without_records(program, vectors)

    program = _pass("records.c", plain, lowered.program, trace)
    return lowered, _pass("extents.c", exact, program, trace)


def _pass(
    name: str, change: Callable[[Program], Program], program: Program, trace: Trace
) -> Program:
    """Run a pass on a program, and verify the result if it changed."""
    made = trace.run(name, lambda: change(program), show_program)
    if made is not program:
        verify(made)
    return made


def _device_pass(
    name: str,
    change: Callable[[DeviceProgram], DeviceProgram],
    device: DeviceProgram,
    trace: Trace,
) -> DeviceProgram:
    """Run a pass on a device program, and verify the result if it changed."""
    made = trace.run(name, lambda: change(device), show_device)
    if made is not device:
        verify_device(made)
    return made
