"""The map: every stage from a statement to the text of a kernel, on one screen."""

from __future__ import annotations

from dataclasses import dataclass

from openwork.algebra.types import Number
from openwork.index.checks import check
from openwork.index.einstein import explicit
from openwork.index.nodes import Assignment, IndexVar
from openwork.index.show import show
from openwork.loops.default import scheduled
from openwork.loops.pieces import in_pieces
from openwork.loops.plan import Plan, names_of, plan, shared_by_threads
from openwork.loops.verify import verify_loops
from openwork.program.build import lower_plan
from openwork.program.nodes import Program
from openwork.program.simplify import simplify
from openwork.program.tensors import Widths
from openwork.program.verify import verify
from openwork.render.c import render
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


def front(
    assignment: Assignment,
    trace: Trace,
    sizes: dict[str, float] | None = None,
    wanted: tuple[IndexVar, ...] | None = None,
    default: bool = True,
) -> Plan:
    """Index notation to loops.

    `sizes`: stored entries of operands, where they are known. `wanted`: the order of the loops, if
    a schedule has one. `default`: with the default schedule, rather than as a schedule's begin.
    """
    checked = trace.run("statement.txt", lambda: check(assignment), show)
    summed = trace.run("explicit.txt", lambda: explicit(checked), show)
    planned = trace.run("loops.txt", lambda: plan(summed, trace, sizes, wanted), _loops)
    if default:
        planned = trace.run(
            "scheduled.txt",
            lambda: in_pieces(shared_by_threads(scheduled(planned, trace), trace), trace),
            _loops,
        )
    return planned


def _loops(planned: Plan) -> str:
    return str(planned.loops)


def back(planned: Plan, widths: Widths, trace: Trace, name: str = "kernel") -> Compiled:
    """Loops to C, for index arrays of the given widths."""
    verify_loops(planned.loops, names_of(planned.assignment))
    lowered = trace.run(
        "lowered.c", lambda: lower_plan(planned, widths), lambda made: render(made.program, name)
    )
    verify(lowered.program)
    program = trace.run("simplified.c", lambda: simplify(lowered.program), render)
    verify(program)
    source = trace.run("kernel.c", lambda: render(program, name))
    return Compiled(program, source, lowered.variables, lowered.initial)
