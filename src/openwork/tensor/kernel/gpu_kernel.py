"""Kernels for a GPU, or for the emulator of one: a compiled statement that can be called."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast
from weakref import ref

import numpy as np

from openwork.errors import InternalError, ScheduleError
from openwork.format.formats import Format
from openwork.loops.nodes import relations_of
from openwork.loops.plan.assembly import Append
from openwork.loops.plan.plan import Plan
from openwork.loops.provenance import Provenance
from openwork.loops.relations import Fuse, Split
from openwork.pipeline import Compiled, CompiledCuda, back_cuda
from openwork.program.gpu_nodes import VECTOR
from openwork.runtime.gpu.cuda import Cuda, DeviceStorage, address_of, is_on_gpu
from openwork.runtime.gpu.emulator import Emulator
from openwork.runtime.gpu.inspected import Kept
from openwork.runtime.gpu.steps import LENGTHS_NAME, Device, NoRoom, Run
from openwork.runtime.gpu.streams import callers_stream
from openwork.runtime.host.launch import BoundBroken, PositionOverflow
from openwork.runtime.storage import Array, Storage
from openwork.tensor.convert.pack import convert
from openwork.tensor.kernel.binding import (
    Binder,
    Binding,
    Extents,
    Loader,
    Shape,
    Widths,
    load_function,
)
from openwork.tensor.kernel.kernel import Kernel, checks_results
from openwork.tensor.kernel.long_loops import Marks
from openwork.tensor.kernel.promises import broken_bound
from openwork.tensor.kernel.warm import Repeated
from openwork.trace import Trace

TARGETS: dict[str, type[Device]] = {"cuda": Cuda, "cuda-emulated": Emulator}
_NARROW = 2**31 - 2**20  # what 32-bit numbers count, with room for the last run of a split


class DeviceBinder(Binder):
    """Binds operands to the kernels of a plan, compiled for the widths of what they count."""

    def __init__(self, plan: Plan, templates: Mapping[str, Any], trace: Trace) -> None:
        super().__init__(plan, templates, trace, lambda compiled: None)
        provenance = Provenance(relations_of(plan.loops))
        self._fused = [
            provenance.underived(r.fused) for r in provenance.relations if isinstance(r, Fuse)
        ]
        self._longest = max(
            (r.factor for r in provenance.relations if isinstance(r, Split)), default=1
        )
        self._all_wide = False  # workspaces may have more elements than operands and results
        self._variants: dict[tuple[bool, bool], dict[object, Compiled]] = {}
        self.choose(narrow=True, aligned=True)

    def _pointers(self, operands: tuple[Storage, ...], cuts: tuple[Array, ...]) -> tuple[int, ...]:
        return ()

    def choose(self, narrow: bool, aligned: bool) -> None:
        """From now on, compile for what 32 bits count, and for arrays that begin with a vector."""
        self._variant = (narrow, aligned)
        self._texts = self._variants.setdefault(self._variant, {})

    def widen(self, overflowed: Binding) -> None:
        """From now on, count everything in 64 bits."""
        if self._all_wide:
            raise InternalError("64 bits do not count what there is")
        self._wide = self._all_wide = True

    def _marks(self, operands: Sequence[Storage | None], extents: Extents | None = None) -> Marks:
        return ()  # no flag stops a GPU

    def _steps(self, operands: Sequence[Storage | None], extents: Extents) -> float:
        return 0.0

    def _back(self, widths: Widths) -> Compiled:
        return back_cuda(self._plan, widths, self._trace, *self._variant)

    def _executable(
        self, operands: tuple[Storage, ...], extents: Extents, wide: bool
    ) -> tuple[Any, Compiled]:
        self.choose(self._fits(operands, extents), all(map(_is_aligned, operands)))
        widths = self._result_widths(extents, wide)
        if any(width == "int128" for _, width in widths):
            raise ScheduleError(
                "modes that are summed into have more coordinates together than 64 bits tell "
                "apart, which is all that a GPU can look for at once",
                code="E308",
                hint='compile(target="cpu"), or order the loops so that fewer modes are open',
            )
        return None, self.compile(operands, widths)

    def _fits(self, operands: tuple[Storage, ...], extents: Extents) -> bool:
        """Whether 32-bit numbers count everything that these operands have."""
        lengths = [math.prod(extents.get(v, 1) for v in variables) for variables in self._fused]
        lengths += [storage.values.size for storage in operands]
        lengths += list(extents.values())
        lhs = self._plan.assignment.lhs
        if lhs.tensor.format.is_dense:
            lengths.append(math.prod(extents[v] for v in lhs.vars))
        if isinstance(self._plan.assembly, Append):  # rows and entries, which pieces are cut by
            lengths.append(sum(lengths))
        return not self._all_wide and max(lengths, default=0) + 2 * self._longest < _NARROW


def _is_aligned(storage: Storage) -> bool:
    """Whether the values begin where a vector of 16 bytes may."""
    return address_of(storage.values) % VECTOR == 0


class DeviceKernel(Kernel):
    """A statement compiled for a GPU."""

    _language = "CUDA"

    def __init__(
        self,
        plan: Plan,
        trace: Trace,
        templates: Mapping[str, Any],
        result: Any,
        target: str,
        loader: Loader = load_function,
    ) -> None:
        self._plan, self._trace = plan, trace
        self._templates, self._result = dict(templates), result
        self._device = TARGETS[target]()
        self._load = loader
        self._binder = DeviceBinder(plan, self._templates, trace)
        self._latest: Binding | None = None
        self._warm = None
        self._converts_result = plan.converts_result
        self._simple = self._binder.takes_as_given
        self._check = checks_results()
        self._native = True
        self._functions: dict[str, Any] = {}
        self._gpu: int | None = None  # that all of this is for
        self._numbers: dict[tuple[str, int], int] = {}
        self._kept: Kept | None = None
        known = {n: getattr(t, "_storage", None) for n, t in self._templates.items()}
        self._compiled = self._binder.compile(
            tuple(known.get(var.name) for var in self._binder.operands)
        )
        for note in dict.fromkeys(cast(CompiledCuda, self._compiled).device.notes):
            trace.decide(note)

    def _launch(
        self, given: tuple[Storage, ...], shape: Shape, old: Storage | None, out: Any
    ) -> Storage:
        named = given if out is None else (*given, out.__openwork_place__())
        of_torch = any(isinstance(s, DeviceStorage) and s.of_torch for s in named)
        if self._gpu != self._device.current:  # nothing that one GPU has is of use to another
            self._gpu, self._functions = self._device.current, {}
            self._latest, self._warm = None, None
        with callers_stream(of_torch):
            operands = given if self._simple else self._binder.operands_of(given, old)
            storage = self._bound(given, operands, shape, old, out)
        if isinstance(storage, DeviceStorage):
            storage.of_torch = of_torch
        return storage

    def _bound(
        self,
        given: tuple[Storage, ...],
        operands: tuple[Storage, ...],
        shape: Shape,
        old: Storage | None,
        out: Any,
    ) -> Storage:
        plan, binder = self._plan, self._binder
        binding = self._latest
        if binding is None or out is not None or binder.converts or not binding.fits(given, shape):
            binding = self._latest = binder.bind(given, operands, shape, out is not None)
            self._numbers, self._kept = {}, None
        try:
            try:
                storage = self._run(binding, operands, old, out)
            except PositionOverflow:
                binder.widen(binding)
                binding = self._latest = binder.bind(given, operands, shape, out is not None)
                self._numbers, self._kept = {}, None
                storage = self._run(binding, operands, old, out)
        except BoundBroken:
            raise broken_bound(plan) from None
        if self._converts_result:
            return convert(storage, plan.user_result.format, exact=True)
        return storage

    def _run(
        self, binding: Binding, operands: tuple[Storage, ...], old: Storage | None, out: Any
    ) -> Storage:
        compiled = cast(CompiledCuda, binding.compiled)
        device = self._device
        functions = self._functions.get(compiled.source)
        if functions is None:
            if self._load is load_function:
                functions = device.load(compiled.source, compiled.device.kernels)
            else:
                functions = self._load(compiled)
            self._functions[compiled.source] = functions
        arrays = self._arrays(binding, operands)
        sizes = {
            n.name: size for n, size in zip(compiled.program.sizes, binding.sizes, strict=True)
        }
        appended = isinstance(self._plan.assembly, Append)
        values = None
        if not appended:
            values = self._memory(binding, operands, old, out)
            arrays[compiled.program.arguments[-1].array.name] = values
        if self._kept is None:
            self._kept = Kept(f"{device.name}{self._gpu}", self._by_name(compiled, operands))
        assembly = self._plan.assembly
        counted = isinstance(assembly, Append) and assembly.strategy == "count"
        room = _UNLIMITED if counted else binding.room  # CuPy says if there is too little memory
        while True:
            scalars = {**sizes, "room": room, **{r.name: room for r in compiled.device.rooms}}
            run = Run(
                device, compiled.device, functions, dict(arrays), scalars, not compiled.narrow,
                self._numbers, self._kept,
            )  # fmt: skip
            made = [a for a in compiled.program.arguments if a.role == "made"]
            if made:
                run.arrays[LENGTHS_NAME] = device.empty(len(made), np.dtype("int64"), zeroed=True)
            try:
                run.all()
                break
            except NoRoom:
                room = max(2 * room, 64)
        if not appended:
            if values is None:
                raise InternalError("a result without memory")
            levels = self._binder.levels(operands)
            stays = self._stays(operands)
            plain = out is None and old is None and self._simple and not self._converts_result
            if (
                plain
                and not self._check
                and run.repeats
                and all(isinstance(s, DeviceStorage) for s in operands)
            ):
                self._warm = Repeat(self, binding, levels, run.launched, values)
            if not stays and out is None:
                values = device.download(values)
            return self._storage(binding, levels, values)
        return self._collected(binding, compiled, run, self._stays(operands))

    def _compare(
        self, result: Storage, given: tuple[Storage, ...], shape: Shape, old: Storage | None
    ) -> None:
        here = tuple(storage.host() for storage in given)
        super()._compare(result.host(), here, shape, None if old is None else old.host())

    def _by_name(
        self, compiled: CompiledCuda, operands: tuple[Storage, ...]
    ) -> dict[str, ref[Storage]]:
        """The operands by their names in the code."""
        given = {var.name: ref(s) for var, s in zip(self._binder.operands, operands, strict=True)}
        return {
            a.array.name.partition("_")[0]: given[a.tensor]
            for a in compiled.program.arguments
            if a.role == "operand" and a.tensor in given
        }

    def _under(self, result: Storage) -> Kernel:
        """On a GPU, the pattern is found again along with the values."""
        return self

    def _stays(self, operands: tuple[Storage, ...]) -> bool:
        """Whether a result stays on the GPU, because an operand is there."""
        return any(is_on_gpu(storage.values) for storage in operands)

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
        device, initial = self._device, binding.compiled.initial
        values = None
        if out is not None and out.format.is_dense and not self._converts_result:
            mine = out.__openwork_place__().values
            reads = any(s.values is mine for s in operands)
            reads = reads or (old is not None and old.values is not mine)
            here = is_on_gpu(mine) or device.name != "cuda"
            if here and not reads and address_of(mine) % VECTOR == 0:
                values = mine
        if values is None and old is not None and self._plan.assignment.op is not None:
            return device.upload(old.values).copy()
        if values is None:
            values = device.empty(binding.count, self._plan.result.dtype)[: binding.count]
        if initial is not None and binding.count:
            device.fill(values, initial)
        return values

    def _arrays(self, binding: Binding, operands: tuple[Storage, ...]) -> dict[str, Any]:
        """Every array of the operands, on the device, by its name in the code."""
        found = [
            self._device.upload(array)
            for storage in operands
            for array in (
                *(level[name] for level in storage.levels for name in sorted(level)),
                storage.values,
            )
        ]
        found += [self._device.upload(cut) for cut in binding.cuts]
        arguments = binding.compiled.program.arguments
        return {a.array.name: array for a, array in zip(arguments, found, strict=False)}

    def _collected(
        self, binding: Binding, compiled: CompiledCuda, run: Run, stays: bool
    ) -> Storage:
        """A result from the arrays that the kernels made."""
        made = [a for a in compiled.program.arguments if a.role == "made"]
        if len(run.lengths) == len(made):
            lengths = [run.lengths[n] for n in range(len(made))]
        else:
            lengths = self._device.download(run.arrays[LENGTHS_NAME])
        arrays = iter(
            _first(run.arrays[a.array.name], int(n), a.array.type, self._device, stays)
            for a, n in zip(made, lengths, strict=True)
        )
        levels = tuple(
            {fact.name: next(arrays) for fact in level.arrays}
            for level in self._plan.result.format.levels
        )
        return self._storage(binding, levels, next(arrays))


_UNLIMITED = 1 << 62  # entries
_SMALL = 1 << 20  # bytes of a result for which memory is kept ready


class Repeat(Repeated):
    """A call like the one before: the same operands, on the GPU, and memory for a new result.

    Memory and the launches for it are made ready while the GPU is busy with the result before.
    """

    def __init__(
        self, kernel: DeviceKernel, binding: Binding, levels: Any, launched: Any, values: Any
    ) -> None:
        super().__init__(binding, kernel._templates.values(), kernel._result)
        self._kernel, self._launched, self._values = kernel, launched, values
        self._stream, self._gpu = kernel._device.stream, kernel._gpu
        self._held = [(template, reference()) for reference, template in self._own]
        self._ready: list[Any] = []  # to be launched, each with memory for its result
        self._another: tuple[Any, Any] = (self, None)  # on which stream, and what gives it
        self._small = values.nbytes <= _SMALL
        result = kernel._plan.result
        self._facts = {
            "shape": binding.shape,
            "format": result.format,
            "dtype": result.dtype,
            "levels": levels,
            "fill": result.fill,
            "of_torch": any(getattr(storage, "of_torch", False) for _, storage in self._held),
        }

    def again(self) -> Any:
        """As for any call; the launches hold the operands' arrays, and nobody has to meanwhile."""
        for template, storage in self._held:
            if template._storage is not storage:
                return None
        shape = self._template._shape
        return self._made() if shape is self._shape or shape == self._shape else None

    def _made(self) -> Any:
        if self._kernel._device.current != self._gpu:
            return None
        if not self._facts["of_torch"]:
            return self._launched_again()
        with callers_stream(True):
            return self._launched_again()

    def _launched_again(self) -> Any:
        stream = self._stream()
        try:
            ready = self._ready.pop()
        except IndexError:
            ready = None
        if ready is None or (ready.stream is not stream and ready.stream != stream):
            ready = self._kernel._device.ready(self._launched, self._values, stream)
            ready.into(self._memory(stream))
        ready.go()
        storage = DeviceStorage.later(self._facts, self._another[1].array, ready.place)
        if self._small:
            ready.into(self._memory(stream))
            self._ready.append(ready)
        return self._template.__openwork_result__(storage)

    def _memory(self, stream: Any) -> Any:
        binding, device = self._binding, self._kernel._device
        on, another = self._another
        if on is not stream and on != stream:
            another = device.another(self._values)
            self._another = stream, another
        place = another()
        if binding.compiled.initial is not None and binding.count:
            device.fill(another.array(place), binding.compiled.initial)
        return place


def _first(array: Any, count: int, type: str, device: Device, stays: bool) -> Any:
    """The first `count` elements of an array that was made with room for more."""
    if array is None:
        array = device.empty(1, np.dtype(type))
    part = array if array.size == count else array[:count].copy()
    return part if stays else device.download(part)
