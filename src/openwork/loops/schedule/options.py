"""Which commands apply to a nest now, for tools and for tests: those that raise nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from openwork.errors import UserError
from openwork.frozen import frozen
from openwork.index.nodes import Access, Apply, IndexVar
from openwork.loops.fresh import fresh_name
from openwork.loops.nodes import Assign, Forall, OutputRaceStrategy, ParallelUnit
from openwork.loops.plan.assembly import STRATEGIES, accesses_of
from openwork.loops.plan.nest import loop_variables, loops_of, provenance_of
from openwork.loops.plan.plan import Plan
from openwork.loops.schedule.command import Command, run, understand
from openwork.tree import walk

# Example numbers in the options; others are just as legal.
_FACTOR, _PARTS, _CHUNK, _DISTANCE = 4, 3, 2, 8


@frozen
class Option:
    """A command that is legal now, with names for new loops and numbers that may be changed."""

    command: Command

    @property
    def name(self) -> str:
        """The name of the command."""
        return self.command.name

    @property
    def loops(self) -> tuple[str, ...]:
        """The loops that it would change."""
        found: list[str] = []
        for arg in self.command.arguments:
            inside = arg if isinstance(arg, tuple) else (arg,)
            found += [str(var) for var in inside if isinstance(var, IndexVar)]
        return tuple(found)

    def __str__(self) -> str:
        return str(self.command)


def options(plan: Plan, units: tuple[ParallelUnit, ...]) -> list[Option]:
    """Every command that is legal for `plan` now.

    `IgnoreRaces` and promises about bounds are the user's to make, and are left out.
    """
    found = (attempt(plan, name, args) for name, args in candidates(plan, units))
    return [option for option in found if option is not None]


def attempt(plan: Plan, name: str, args: tuple[object, ...]) -> Option | None:
    """The command as an option, if it is legal."""
    try:
        command = understand(plan, name, args, {})
        run(plan, command)
    except UserError:
        return None
    return Option(command)


CPU = (ParallelUnit.CPUThread, ParallelUnit.CPUVector)
GPU = (ParallelUnit.GPUBlock, ParallelUnit.GPUWarp, ParallelUnit.GPUThread)


def candidates(
    plan: Plan, units: tuple[ParallelUnit, ...] = CPU
) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Commands that may be legal, each with its arguments; `units` for parallelize."""
    variables = loop_variables(plan)
    fresh = _Fresh(plan)
    operands = [a for a in _reads(plan) if a.vars]
    provenance = provenance_of(plan)
    for var in variables:
        a, b = fresh(f"{var}0"), fresh(f"{var}1")
        yield "split", (var, a, b, _FACTOR)
        yield "divide", (var, a, b, _PARTS)
        yield "divide", (var, a, b, _PARTS, "nnz")
        yield "divide", (var, a, b, _PARTS, None, None, "stride")
        yield "divide", (var, a, b, _PARTS, None, None, "dynamic", _CHUNK)
        yield "unroll", (var,)
        yield "unroll", (var, _FACTOR)
        yield "mergeby", (var, "gallop")
        yield "coord", (var, fresh(f"{var}c"))
        for access in operands:
            yield "pos", (var, fresh(f"{var}p"), access)
            yield "prefetch", (access, var, _DISTANCE)
        if ParallelUnit.GPUThread in units:
            for size, reduction in ((8, "parallel"), (32, "segment")):
                yield "parallelize", (var, ParallelUnit.GPUGroup, None, None, size, reduction)
        for unit in units:
            for race in OutputRaceStrategy:
                if race is not OutputRaceStrategy.IgnoreRaces:
                    yield "parallelize", (var, unit, race)
    for loop in loops_of(plan):
        if isinstance(loop.body, Forall):
            inner = loop.body.var
            yield "fuse", (loop.var, inner, fresh(f"{loop.var}{inner}"))
            chain = [loop.var, inner]
            yield "reorder", (inner, loop.var)
            deeper = loop.body.body
            if isinstance(deeper, Forall):
                chain.append(deeper.var)
                yield from (("reorder", p) for p in permutations(chain) if p[0] != chain[0])
    for loop in loops_of(plan):
        for assign in walk(loop):
            if isinstance(assign, Assign):
                for expr in walk(assign.rhs):
                    roots = provenance.roots_of(n for n in walk(expr) if isinstance(n, IndexVar))
                    if isinstance(expr, (Apply, Access)) and provenance.roots(loop.var) & roots:
                        yield "precompute", (expr, loop.var, fresh(f"{loop.var}w"))
    yield from (("assemble", (strategy,)) for strategy in STRATEGIES)
    yield "stream", (plan.user_result.name,)


def _reads(plan: Plan) -> list[Access]:
    operands = {a.tensor.name for a in accesses_of(plan.assignment.rhs)}
    found = [n for n in walk(plan.loops) if isinstance(n, Access)]
    return [a for a in dict.fromkeys(found) if a.tensor.name in operands]


class _Fresh:
    """Names that the statement does not have yet."""

    def __init__(self, plan: Plan) -> None:
        self.taken = {n.name for n in walk(plan.loops) if isinstance(n, IndexVar)}
        self.taken |= {n.name for n in walk(plan.assignment) if isinstance(n, IndexVar)}

    def __call__(self, base: str) -> IndexVar:
        return IndexVar(fresh_name(base, self.taken))
