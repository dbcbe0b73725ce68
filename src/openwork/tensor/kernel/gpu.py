"""A GPU, or its emulator, as a target: CUDA, launched by the host's steps."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from weakref import ref

import numpy as np

from openwork.algebra.entries import Entry
from openwork.errors import ScheduleError, ToolchainError
from openwork.format.formats import Format
from openwork.loops.nodes import relations_of
from openwork.loops.plan.assembly import Append
from openwork.loops.plan.nest import loops_of
from openwork.loops.plan.plan import Plan
from openwork.loops.plan.undealt import undealt
from openwork.loops.provenance import Provenance
from openwork.loops.relations import Fuse, Split
from openwork.loops.schedule.draft import Draft
from openwork.loops.schedule.machines import Gpu
from openwork.pipeline import Compiled, CompiledCuda, back_cuda
from openwork.program.gpu_nodes import VECTOR
from openwork.program.lower.base.specialization import Specialization
from openwork.recipes.devices.tables import H200
from openwork.runtime.gpu.cuda import Cuda, DeviceStorage, address_of, is_on_gpu
from openwork.runtime.gpu.emulator import Emulator
from openwork.runtime.gpu.inspected import Kept
from openwork.runtime.gpu.steps import LENGTHS_NAME, Device, NoRoom, Run
from openwork.runtime.gpu.streams import callers_stream
from openwork.runtime.storage import Array, Storage, room_of
from openwork.tensor.kernel.binding import Binding, Shape
from openwork.tensor.kernel.compiler import Compiler, Extents
from openwork.tensor.kernel.gpu_repeat import Repeat, fill_with
from openwork.tensor.kernel.machine import gpu_of
from openwork.tensor.kernel.target import Launcher, Loader, Target
from openwork.trace import Trace

_NARROW = 2**31 - 2**20  # elements for 32-bit integers, with room for the last tile
_UNLIMITED = 1 << 62  # entries


class GpuTarget(Target):
    """A GPU, or its emulator."""

    language, gpu = "CUDA", True

    def __init__(self, device: type[Device]) -> None:
        self.name, self._device = device.name, device

    @property
    def machine(self) -> str:
        """As for any target."""
        return f"{self.name} {self.model}".strip()

    @property
    def model(self) -> str:
        """As for any target."""
        return self._device().model

    @property
    def table(self) -> Gpu:
        """As for any target; without a device, the one that ships."""
        try:
            return gpu_of(self.model)
        except ToolchainError:
            return H200

    def launcher(
        self,
        plan: Plan,
        trace: Trace,
        templates: Mapping[str, Any],
        result: Any,
        loader: Loader | None,
    ) -> Launcher:
        compiler = GpuCompiler(plan, trace)
        return GpuLauncher(self._device(), self, compiler, plan, templates, result, loader)

    def for_pattern(self, draft: Draft) -> Draft | None:
        return None  # the pattern is computed again along with the values


class GpuCompiler(Compiler):
    """Generates CUDA, specialized for 32-bit sizes and for arrays aligned to vectors."""

    def __init__(self, plan: Plan, trace: Trace) -> None:
        super().__init__(plan, trace)
        provenance = Provenance(relations_of(plan.loops))
        self._fused = [
            provenance.underived(r.fused) for r in provenance.relations if isinstance(r, Fuse)
        ]
        factors = [r.factor for r in provenance.relations if isinstance(r, Split)]
        chunks = [loop.tag.chunk or 1 for loop in loops_of(undealt(plan)) if loop.tag is not None]
        self._longest = max([1, *factors, *chunks])

    def _variant(
        self, operands: Sequence[Storage | None], extents: Extents | None
    ) -> tuple[bool, bool]:
        if extents is None:
            return True, True
        there = [storage for storage in operands if storage is not None]
        return self._fits(there, extents), all(map(_is_aligned, there))

    def _written(self, facts: Specialization, variant: Hashable) -> Compiled:
        if facts.wide_keys:
            raise ScheduleError(
                "the hash table of a reduction has more possible keys than 64 bits hold, which is "
                "the widest key on a GPU",
                code="E308",
                hint='compile(target="cpu"), or reorder the loops for keys of fewer modes',
            )
        narrow, aligned = cast(tuple[bool, bool], variant)
        return back_cuda(self._plan, facts, self._trace, narrow, aligned)

    def _fits(self, operands: list[Storage], extents: Extents) -> bool:
        """Whether 32-bit integers suffice for these operands.

        Workspaces may have more elements than operands and results; they report it at run time.
        """
        lengths = [math.prod(extents.get(v, 1) for v in variables) for variables in self._fused]
        lengths += [storage.places for storage in operands]
        lengths += list(extents.values())
        lhs = self._plan.assignment.lhs
        if lhs.tensor.format.is_dense:
            lengths.append(math.prod(extents[v] for v in lhs.vars))
        if isinstance(self._plan.assembly, Append):  # rows and entries are partitioned together
            lengths.append(sum(lengths))
        kinds = [storage.dtype for storage in operands] + [lhs.dtype]
        widest = max((kind.size for kind in kinds if isinstance(kind, Entry)), default=1)
        lengths.append(widest * max(lengths, default=0))
        lengths += [int(array.size) for storage in operands for array in storage.addressed]
        return not self.wide and max(lengths, default=0) + 2 * self._longest < _NARROW


def _overlap(one: Any, other: Any) -> bool:
    """Whether two contiguous arrays have memory in common, if both are in the same memory."""
    first, second = address_of(one), address_of(other)
    return bool(first < second + other.nbytes and second < first + one.nbytes)


def _is_aligned(storage: Storage) -> bool:
    """Whether all arrays are aligned to 16 bytes."""
    return all(address_of(array) % VECTOR == 0 for array in storage.addressed)


@dataclass
class Call:
    """The kernels of a source on one GPU, and what earlier calls found out."""

    gpu: int
    functions: Mapping[str, Any]
    kept: Kept  # arrays that inspectors filled
    numbers: dict[tuple[str, int], int] = field(default_factory=dict)  # elements read back


class GpuLauncher(Launcher):
    """Executes the host's steps; a source is compiled on first use."""

    def __init__(self, device: Device, *args: Any) -> None:
        super().__init__(*args)
        self.device = device
        self._functions: dict[tuple[int, str], Any] = {}  # by GPU and source

    def launch(
        self, given: tuple[Storage, ...], shape: Shape, old: Storage | None, out: Any
    ) -> Storage:
        """As for any target, on the caller's stream."""
        named = given if out is None else (*given, out.__openwork_place__())
        of_torch = any(isinstance(s, DeviceStorage) and s.of_torch for s in named)
        with callers_stream(of_torch):
            storage = super().launch(given, shape, old, out)
        if isinstance(storage, DeviceStorage):
            storage.of_torch = of_torch
        return storage

    def _holds(self, binding: Binding, given: tuple[Storage, ...], shape: Shape) -> bool:
        # Arrays of one GPU are of no use to another.
        return binding.ready.gpu == self.device.current and super()._holds(binding, given, shape)

    def _ready(self, binding: Binding, operands: tuple[Storage, ...]) -> Call:
        compiled, gpu = cast(CompiledCuda, binding.compiled), self.device.current
        functions = self._functions.get((gpu, compiled.source))
        if functions is None:
            if self._loader is None:
                functions = self.device.load(compiled.source, compiled.device.kernels)
            else:
                functions = self._loader(compiled)
            self._functions[gpu, compiled.source] = functions
        kept = Kept(f"{self.device.name}{gpu}", self._by_name(compiled, operands))
        return Call(gpu, functions, kept)

    def _by_name(
        self, compiled: CompiledCuda, operands: tuple[Storage, ...]
    ) -> dict[str, ref[Storage]]:
        """The operands by their names in the source."""
        pairs = zip(self._compiler.operands, operands, strict=True)
        given = {var.name: ref(storage) for var, storage in pairs}
        return {
            a.array.tensor: given[a.tensor]
            for a in compiled.program.arguments
            if a.role == "operand" and a.array.tensor
        }

    def _run(
        self, binding: Binding, operands: tuple[Storage, ...], old: Storage | None, out: Any
    ) -> Storage:
        appended = isinstance(self._plan.assembly, Append)
        arrays, stays = self._arrays(binding, operands), _stays(operands)
        if appended:
            return self._collected(binding, self._followed(binding, arrays), stays)
        values = self._memory(binding, operands, old, out)
        arrays[binding.compiled.program.arguments[-1].array.name] = values
        run = self._followed(binding, arrays)
        levels = self.binder.levels(operands)
        plain = out is None and old is None and self._simple and not self._converts_result
        here = stays and all(isinstance(s, DeviceStorage) for s in operands)
        if plain and run.repeats and here:
            self.warm = Repeat(
                self.device, binding, self._plan.result, levels, run.launched, values,
                self._templates.values(), self._result,
            )  # fmt: skip
        if not stays and out is None:
            values = self.device.download(values)
        return self._storage(binding, levels, values)

    def _followed(self, binding: Binding, arrays: dict[str, Any]) -> Run:
        """Execute the host's steps, with a growing result until it is large enough."""
        compiled, call, device = cast(CompiledCuda, binding.compiled), binding.ready, self.device
        pairs = zip(compiled.program.sizes, binding.sizes, strict=True)
        sizes = {name.name: size for name, size in pairs}
        made = sum(a.role == "made" for a in compiled.program.arguments)
        assembly = self._plan.assembly
        counted = isinstance(assembly, Append) and assembly.strategy == "count"
        room = _UNLIMITED if counted else binding.room  # CuPy reports if memory is short
        while True:
            scalars = {**sizes, "room": room, **{r.name: room for r in compiled.device.rooms}}
            run = Run(
                device, compiled.device, call.functions, dict(arrays), scalars,
                not compiled.narrow, call.numbers, call.kept,
            )  # fmt: skip
            if made:
                run.arrays[LENGTHS_NAME] = device.empty(made, np.dtype("int64"), zeroed=True)
            try:
                run.all()
            except NoRoom:
                room = max(2 * room, 64)
            else:
                return run

    def _around(
        self,
        shape: tuple[int, ...],
        format: Format,
        levels: tuple[Mapping[str, Array], ...],
        values: Array,
    ) -> Storage:
        made = super()._around(shape, format, levels, values)
        return DeviceStorage.of(made) if is_on_gpu(values) else made

    def _memory(
        self, binding: Binding, operands: tuple[Storage, ...], old: Storage | None, out: Any
    ) -> Any:
        """Memory for the values of a result whose positions are known."""
        device, initial, result = self.device, binding.compiled.initial, self._plan.result
        values = None
        if out is not None and out.format.is_dense and not self._converts_result:
            mine = out.__openwork_place__().values
            reads = any(_overlap(mine, array) for s in operands for array in s.addressed)
            reads = reads or (old is not None and old.values is not mine)
            here = is_on_gpu(mine) or device.in_main_memory
            if here and not reads and address_of(mine) % VECTOR == 0:
                values = mine
        if values is None and old is not None and self._plan.assignment.op is not None:
            return device.upload(old.values).copy()
        if values is None:
            count, dtype = room_of(result.format, result.dtype, binding.count)
            values = device.empty(count, dtype)[:count]
        if initial is not None and binding.count:
            fill_with(device, values, initial, result)
        return values

    def _arrays(self, binding: Binding, operands: tuple[Storage, ...]) -> dict[str, Any]:
        """Every array of the operands, on the device, by its name in the source."""
        found = [self.device.upload(array) for storage in operands for array in storage.addressed]
        found += [self.device.upload(cut) for cut in binding.cuts]
        arguments = binding.compiled.program.arguments
        return {a.array.name: array for a, array in zip(arguments, found, strict=False)}

    def _collected(self, binding: Binding, run: Run, stays: bool) -> Storage:
        """A result from the arrays that the host allocated."""
        made = [a for a in binding.compiled.program.arguments if a.role == "made"]
        if len(run.lengths) == len(made):
            lengths = [run.lengths[n] for n in range(len(made))]
        else:
            lengths = self.device.download(run.arrays[LENGTHS_NAME])
        arrays = iter(
            _first(run.arrays[a.array.name], int(n), a.array.type, self.device, stays)
            for a, n in zip(made, lengths, strict=True)
        )
        levels = tuple(
            {fact.name: next(arrays) for fact in level.arrays}
            for level in self._plan.result.format.levels
        )
        return self._storage(binding, levels, next(arrays))


def _stays(operands: tuple[Storage, ...]) -> bool:
    """Whether a result stays on the GPU, because an operand is there."""
    return any(is_on_gpu(storage.values) for storage in operands)


def _first(array: Any, count: int, type: str, device: Device, stays: bool) -> Any:
    """The first `count` elements of an array with a larger capacity."""
    if array is None:
        array = device.empty(1, np.dtype(type))
    part = array if array.size == count else array[:count].copy()
    return part if stays else device.download(part)


CUDA, EMULATED = GpuTarget(Cuda), GpuTarget(Emulator)
