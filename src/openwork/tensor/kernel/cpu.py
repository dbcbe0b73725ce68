"""The CPU as a target: C, compiled by the toolchain, called with addresses."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from openwork.errors import DataError
from openwork.loops.plan.assembly import Append
from openwork.loops.plan.plan import Plan
from openwork.loops.schedule.default.cpu import shared_by_threads
from openwork.loops.schedule.draft import Draft
from openwork.pipeline import Compiled, back
from openwork.program.lower.base.specialization import LongLoops, Specialization
from openwork.program.nodes import Allocate, Copy, Grow
from openwork.runtime.host.cpu import cpu_digest
from openwork.runtime.host.launch import Executable
from openwork.runtime.host.library import load
from openwork.runtime.host.threads import thread_count
from openwork.runtime.host.toolchain import HOW_TO_GET_ONE, find_toolchain
from openwork.runtime.memory import LARGE, address, allocate, available, fill_with, zeros
from openwork.runtime.storage import Array, Storage, placement_of, room_of
from openwork.tensor.kernel.binding import Binding
from openwork.tensor.kernel.compiler import Compiler, Extents
from openwork.tensor.kernel.long_loops import LoopLengths
from openwork.tensor.kernel.machine import this_cpu
from openwork.tensor.kernel.result_size import limit
from openwork.tensor.kernel.target import Launcher, Loader, Target
from openwork.tensor.kernel.warm import Warm, WarmAppended, is_all_zeros
from openwork.trace import Trace
from openwork.tree import Node, walk

_BYTES = 16  # the most of an element of a workspace
_LONG = 1 << 13  # elements; fewer take little memory, whatever the number of threads


class CpuTarget(Target):
    """The CPU of this machine."""

    name, language, gpu = "cpu", "C", False

    @property
    def machine(self) -> str:
        """As for any target; the number of threads belongs to it."""
        return f"cpu {cpu_digest()}, {thread_count()} threads"

    def launcher(
        self,
        plan: Plan,
        trace: Trace,
        templates: Mapping[str, Any],
        result: Any,
        loader: Loader | None,
    ) -> Launcher:
        return CpuLauncher(self, CpuCompiler(plan, trace), plan, templates, result, loader)

    def for_pattern(self, draft: Draft) -> Draft | None:
        return shared_by_threads(draft, this_cpu())


class CpuCompiler(Compiler):
    """Generates C; long loops poll the flag of Ctrl-C."""

    def __init__(self, plan: Plan, trace: Trace) -> None:
        super().__init__(plan, trace)
        self.lengths = LoopLengths(plan, self.operands)

    def _variant(self, operands: Sequence[Storage | None], extents: Extents | None) -> LongLoops:
        return self.lengths.long(operands, extents)

    def _written(self, facts: Specialization, variant: Hashable) -> Compiled:
        long = cast(LongLoops, variant)
        known = replace(facts, long=long, selects=this_cpu().selects)
        return back(self._plan, known, self._trace)


class Call(NamedTuple):
    """A C function with its arguments, and about how many iterations its loops have."""

    executable: Executable
    pointers: tuple[int, ...]
    steps: float


class CpuLauncher(Launcher):
    """Calls C functions; the first is compiled in advance."""

    _compiler: CpuCompiler

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        this_cpu()  # which knows from when on threads are worth starting
        self._executables: dict[str, Executable] = {}  # by source
        self._allocating: dict[str, bool] = {}
        if find_toolchain() is None:
            self.missing = f"no C compiler was found, so Openwork is slow; {HOW_TO_GET_ONE}"
        else:
            self._function(self._first)

    def _function(self, compiled: Compiled) -> Any:
        """The C function of a kernel, compiled on first use."""
        if self._loader is not None:
            return self._loader(compiled)
        if compiled.quick:
            return load(compiled.source, optimize="-O1").kernel
        return load(compiled.source).kernel

    def _executable(self, compiled: Compiled) -> Executable:
        found = self._executables.get(compiled.source)
        if found is None:
            found = Executable(compiled.program, self._function(compiled))
            self._executables[compiled.source] = found
        return found

    def _ready(self, binding: Binding, operands: tuple[Storage, ...]) -> Call:
        if binding.room == 0:
            binding.tight = self._takes_much(binding)
        pointers = (
            *(pointer for storage in operands for pointer in storage.pointers),
            *(address(array) for array in binding.cuts),
        )
        steps = max(binding.work, self._compiler.lengths.steps(operands, binding.extents))
        return Call(self._executable(binding.compiled), pointers, steps)

    def _takes_much(self, binding: Binding) -> bool:
        """Whether the memory that a kernel needs besides its result may not be available.

        Each thread may have a copy of the result, or a workspace as long as a mode.
        """
        longest = max(binding.count, *binding.extents.values(), 0)
        if longest < _LONG or not self._allocates(binding.compiled):
            return False
        size = _BYTES * thread_count() * longest
        if size < LARGE:
            return False
        left = available()
        return left is not None and 2 * size > left

    def _allocates(self, compiled: Compiled) -> bool:
        """Whether a kernel allocates memory besides its result."""
        known = self._allocating.get(compiled.source)
        if known is None:
            known = any(map(_takes_memory, walk(compiled.program.body)))
            self._allocating[compiled.source] = known
        return known

    def _run(
        self, binding: Binding, operands: tuple[Storage, ...], old: Storage | None, out: Any
    ) -> Storage:
        assembly, user, call = self._plan.assembly, self._plan.user_result, binding.ready
        repeats = not self._converts_result
        mine = self._templates.values()
        if isinstance(assembly, Append):
            storage = self._appended(binding, call)
            if repeats and out is None:
                suits = WarmAppended.suits(assembly, binding, self.binder)
                self.warm = WarmAppended(binding, user, mine, self._result) if suits else None
            return storage
        values = self._values(binding, operands, old, out)
        work, steps = binding.work + binding.count, call.steps + binding.count
        pointers = (*call.pointers, address(values))
        call.executable.run(pointers, binding.sizes, work, 0, binding.tight, steps)
        storage = self._storage(binding, self.binder.levels(operands), values)
        if repeats and (out is None or out.format.is_dense):
            suits = Warm.suits(binding, self.binder)
            made = (binding, self.binder, user, mine, self._result)
            self.warm = Warm(*made) if suits else None
        return storage

    def _values(
        self, binding: Binding, operands: tuple[Storage, ...], old: Storage | None, out: Any
    ) -> Array:
        """Memory for the values of a result whose positions are known."""
        element, initial = self._plan.result.dtype, binding.compiled.initial
        count, dtype = room_of(self._plan.result.format, element, binding.count)
        where = placement_of(self._plan.result.format, element)
        if out is not None and out.format.is_dense and not self._converts_result:
            values: Array = out.__openwork_place__().values
            # Index arrays, too: a kernel that wrote over those it reads would leave its arrays.
            if not any(np.may_share_memory(values, a) for s in operands for a in s.addressed):
                if not values.flags.writeable:
                    raise DataError(f"{out.name} is read-only", code="E505")
                if initial is not None:
                    fill_with(values, initial, element, where)
                elif old is not None and old.values is not values:
                    values[...] = old.values
                return values
        if old is not None and self._plan.assignment.op is not None:
            return old.values.copy()
        if initial is not None and is_all_zeros(initial, element):
            return zeros(count, dtype)
        values = allocate(count, dtype)
        if initial is not None:
            fill_with(values, initial, element, where)
        return values

    def _appended(self, binding: Binding, call: Call) -> Storage:
        """A result from the arrays that the kernel allocates."""
        room, assembly, lhs = binding.room, self._plan.assembly, self._plan.assignment.lhs
        if isinstance(assembly, Append) and assembly.strategy == "count":
            room = limit(lhs, {var: binding.extents[var] for var in lhs.vars})
        given = (call.pointers, binding.sizes, binding.work, room, binding.tight, call.steps)
        arrays = iter(call.executable.run(*given))
        levels = tuple(
            {fact.name: next(arrays) for fact in level.arrays}
            for level in self._plan.result.format.levels
        )
        return self._storage(binding, levels, next(arrays))


def _takes_memory(node: Node) -> bool:
    return isinstance(node, (Allocate, Copy, Grow))


CPU = CpuTarget()
