"""The rules of programs for a GPU: run after every pass over them.

The host declares every scalar and allocates every array that it hands to a kernel. A kernel obeys
the rules of any program, writes no operand, and fits the hardware: a block has at most 1024
threads and the shared memory that every GPU has, all of it in use. Barriers are not
divergent: no condition or loop bound around one is computed from the thread's index. Conditions on
loaded values may diverge as well, but this is not checked.
"""

from __future__ import annotations

from collections import Counter

from openwork.algebra.types import size_of
from openwork.errors import InternalError
from openwork.program import nodes as p
from openwork.program.contract import ROOM
from openwork.program.device.units import MOST_NAMED
from openwork.program.gpu_nodes import (
    BUILTIN,
    LANE,
    LENGTHS,
    STATUS,
    THREAD,
    WARP,
    Barrier,
    Combine,
    DeviceProgram,
    Kernel,
    Launch,
    LoadVector,
    MakeVector,
    Shared,
    StoreVector,
    Together,
)
from openwork.program.verify import Known
from openwork.tree import Node, walk

_MOST_THREADS, _WARP = 1024, 32
_MOST_SHARED = 48 << 10  # bytes


def verify_device(device: DeviceProgram) -> None:
    """Raise `InternalError` if `device` breaks a rule."""
    scalars = {name.name: False for name in (*device.program.sizes, ROOM, *device.rooms)}
    given = [a.array for a in device.program.arguments if a.role != "made"]
    host = _Host(scalars, {a.name: a.role for a in (*given, STATUS, LENGTHS)})
    host.kernels = device.named
    host.statement(device.host)
    operands = {a.array.name for a in device.program.arguments if a.role == "operand"}
    for kernel in device.kernels:
        _verify_kernel(kernel, operands)


class _Host(Known):
    """The names that the host knows; every argument of a kernel must be among them."""

    kernels: dict[str, Kernel]

    def inner(self, *loop: p.For | p.While) -> _Host:
        known = super().inner(*loop)
        known.kernels = self.kernels
        return known

    def other(self, node: p.Stmt) -> None:
        if not isinstance(node, Launch):
            super().other(node)
            return
        if node.kernel not in self.kernels:
            raise InternalError(f"there is no kernel {node.kernel}")
        kernel = self.kernels[node.kernel]
        own = {s.array for s in kernel.scratch} | set(kernel.counters)
        for part in (*kernel.scalars, *(a for a in kernel.arrays if a not in own)):
            self.expression(part)
        for count in (n for n in (*kernel.grid, *(s.count for s in kernel.scratch)) if n):
            self.expression(count)


class _Threads(Known):
    """The names that a thread of a kernel knows."""

    def other(self, node: p.Stmt) -> None:
        match node:
            case Shared(array=array) | MakeVector(vector=array):
                self.make(array)
            case LoadVector(vector=vector, array=array, index=index):
                self.expression(index)
                self.array(array)
                self.make(vector)
            case Together(name=name, lanes=lanes, across=across, sums=sums, stride=stride):
                if sums is None and (lanes * stride > _WARP or across):
                    raise InternalError(f"{name.name} has no memory where warps combine it")
                self.expression(node)
            case StoreVector() | Combine() | Barrier():
                self.expression(node)
            case _:
                super().other(node)


def _verify_kernel(kernel: Kernel, operands: set[str]) -> None:
    threads, lanes = kernel.threads, kernel.lanes
    if not 1 <= threads <= _MOST_THREADS:
        raise InternalError(f"{kernel.name} has blocks of {threads} threads")
    if (lanes & (lanes - 1) or lanes > _WARP) and (lanes % _WARP or kernel.warps > MOST_NAMED):
        for n in walk(kernel.body):
            if isinstance(n, Barrier) and n.lanes is not None:
                raise InternalError(f"{kernel.name} has units of {lanes} threads that synchronize")
    shared = [n for n in walk(kernel.body) if isinstance(n, Shared)]
    if sum(s.count * _size(s.array.type) for s in shared) > _MOST_SHARED:
        raise InternalError(f"{kernel.name} uses more shared memory than a GPU has")
    empty = [s.array.name for s in shared if s.count < 1]
    if empty:  # which C++ compilers may accept, and NVRTC does not
        raise InternalError(f"{kernel.name} has arrays without elements: {', '.join(empty)}")
    used = Counter(n for n in walk(kernel.body) if isinstance(n, p.Array))
    idle = [s.array.name for s in shared if used[s.array] == 1]
    if idle:
        raise InternalError(f"{kernel.name} uses no {', '.join(idle)}")
    wrong = kernel.written & operands
    if wrong:
        raise InternalError(f"{kernel.name} writes to {', '.join(sorted(wrong))}")
    scalars = dict.fromkeys([*(n.name for n in kernel.scalars), *BUILTIN], False)
    known = _Threads(scalars, {a.name: a.role for a in kernel.arrays})
    known.statement(kernel.body)
    if threads > 1:
        units: set[Node] = {WARP} if kernel.warps > 1 else set()
        _meet(kernel.body, {THREAD, LANE} | units, {THREAD, LANE}, kernel.name)


def _meet(node: Node, of_block: set[Node], of_unit: set[Node], kernel: str) -> None:
    """Raise unless all threads reach each barrier in `node`.

    `of_block`: the names that differ between the threads of a block; `of_unit`: between those of a
    unit.
    """
    of_block, of_unit = set(of_block), set(of_unit)
    for s in node.body if isinstance(node, p.Block) else (node,):
        match s:
            case p.Declare(name=name, value=value) if name not in (WARP, LANE):
                for differ in (of_block, of_unit):
                    if _computed_from(value, differ):
                        differ.add(name)
            case p.For():
                ends = [e for e in (s.begin, s.end, s.step) if e is not None]
                _divergent(s.body, ends, of_block, of_unit, kernel)
            case p.While(condition=condition, body=body):
                _divergent(body, [condition], of_block, of_unit, kernel)
            case p.If(condition=condition, then=then, otherwise=otherwise):
                for branch in (then, otherwise):
                    if branch is not None:
                        _divergent(branch, [condition], of_block, of_unit, kernel)


def _divergent(
    body: p.Stmt, ends: list[p.Expr], of_block: set[Node], of_unit: set[Node], kernel: str
) -> None:
    """Raise if `body`, which runs under the conditions `ends`, has a divergent barrier."""
    lost = any(_computed_from(e, of_block) for e in ends)
    alone = any(_computed_from(e, of_unit) for e in ends)
    for n in walk(body) if lost or alone else ():
        lanes = _waits_for(n)
        if lanes == 0 or (lanes > 1 and alone):
            raise InternalError(f"{kernel} has a barrier that not all of its threads reach")
    _meet(body, of_block, of_unit, kernel)


def _waits_for(node: Node) -> int:
    """How many adjacent threads synchronize here: 0 for the whole block, 1 for none."""
    match node:
        case Barrier(lanes=lanes):
            return lanes or 0
        case p.Helper(args=(*_, p.Value(value=lanes))) if node.facts.collective:
            return int(lanes.real)
        case p.Helper(name="next_chunk"):
            return 0
    return 1


def _computed_from(e: p.Expr, names: set[Node]) -> bool:
    """Whether `e` is arithmetic on `names`; a loaded value may be the same for all."""
    match e:
        case p.Binary(left=left, right=right):
            return _computed_from(left, names) or _computed_from(right, names)
        case p.Convert(expr=inner):
            return _computed_from(inner, names)
    return e in names


def _size(type: str) -> int:
    return size_of(type)
