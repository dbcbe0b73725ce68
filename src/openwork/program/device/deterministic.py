"""Whether a program is bit-reproducible: sums by atomics are not."""

from __future__ import annotations

from openwork.errors import ScheduleError
from openwork.loops.nodes import Forall, OutputRaceStrategy
from openwork.loops.plan.plan import Plan
from openwork.program import nodes as p
from openwork.program.gpu_nodes import Combine
from openwork.tree import walk

_ELEMENTS = (p.Role.VALUE, p.Role.PARTIAL)  # sums depend on their order; counts do not


def is_exact(bodies: tuple[p.Block, ...]) -> bool:
    """Whether no elements are updated in an order that may change from call to call."""
    return not any(
        isinstance(n, Combine)
        or (isinstance(n, p.Store) and n.atomic and n.array.role in _ELEMENTS)
        for body in bodies
        for n in walk(body)
    )


def may_be_atomic(plan: Plan) -> bool:
    """Whether a schedule has loops whose iterations may update the same entry."""
    return any(
        loop.tag.race is OutputRaceStrategy.Atomics or loop.tag.reduction == "segment"
        for loop in walk(plan.loops)
        if isinstance(loop, Forall) and loop.tag is not None
    )


def _meeting(plan: Plan) -> list[Forall]:
    return [
        loop
        for loop in walk(plan.loops)
        if isinstance(loop, Forall)
        and loop.tag is not None
        and (loop.tag.race is OutputRaceStrategy.Atomics or loop.tag.reduction is not None)
    ]


def check_exact(plan: Plan, bodies: tuple[p.Block, ...]) -> None:
    """Raise E317 unless `bodies`, the kernels of `plan`, are bit-reproducible."""
    if is_exact(bodies):
        return
    loops = _meeting(plan)
    who = f"the loop over {loops[-1].var}" if loops else "a loop"
    raise ScheduleError(
        f"{who} updates its result atomically, in an order that differs from call to call, but "
        "deterministic=True asks for bit-reproducible results",
        code="E317",
        hint="map each row to one thread, unit or group of threads, as recipes.group_per_row and "
        "spmm_rows do; or leave out deterministic=True",
    )
