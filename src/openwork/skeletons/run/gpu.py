"""Programs of patterns on a GPU, or under its emulator."""

from __future__ import annotations

from typing import Any

import numpy as np

from openwork.frozen import frozen
from openwork.pipeline import to_kernels
from openwork.program.gpu_nodes import DeviceProgram
from openwork.program.nodes import Program
from openwork.program.powers import check_powers
from openwork.program.show import show_program
from openwork.program.simplify.simplify import simplify
from openwork.program.verify import verify
from openwork.render.cuda.cuda import can_be_narrow, render_cuda
from openwork.runtime.gpu.cuda import Cuda
from openwork.runtime.gpu.emulator import Emulator
from openwork.runtime.gpu.steps import Device, Run
from openwork.runtime.host.launch import BoundBroken
from openwork.skeletons.language.nodes import Signature, Type
from openwork.skeletons.lower.lowered import Lowered
from openwork.skeletons.run.kernel import Bound, Kernel, out_of_range, shaped
from openwork.skeletons.run.reach import reach
from openwork.trace import Trace

_DEVICES: dict[str, type[Device]] = {"cuda": Cuda, "cuda-emulated": Emulator}
_NARROW = 2**31 - 2**20  # elements for 32-bit integers


@frozen
class Text:
    """The CUDA text of a program, for 32-bit or for 64-bit indices."""

    device: DeviceProgram
    source: str
    narrow: bool


class GpuKernel(Kernel):
    """A program as CUDA."""

    def __init__(
        self, signature: Signature, result: Type, lowered: Lowered, program: Program, target: str,
        trace: Trace,
    ) -> None:  # fmt: skip
        program = trace.run("simplified.c", lambda: simplify(program), show_program)
        verify(program)
        check_powers(program)
        device = to_kernels(program, trace, aligned=False)
        narrow = can_be_narrow(program)
        source = trace.run("kernel.cu", lambda: render_cuda(device, narrow))
        super().__init__(signature, result, lowered, source, trace)
        self._program, self._device = program, _DEVICES[target]()
        self._texts = {narrow: Text(device, source, narrow)}
        self._functions: dict[tuple[int, bool], Any] = {}

    def prepared(self, bound: Bound) -> tuple[dict[str, Any], Text, Any]:
        low = self.lowered
        arrays = {
            x.array.name: self._device.upload(a)
            for x, a in zip(low.prefixes, bound.extra, strict=True)
        }
        for b, a in zip(low.inputs, bound.inputs, strict=True):
            for f in b.fields.values():
                arrays[f.array.name] = self._device.upload(np.ravel(_viewed(a, f.array.type)))
        text = self._text(True in self._texts and self._fits(bound))
        return arrays, text, self._loaded(text)

    def load(self) -> None:
        """Compile the CUDA text for the current device; else the first call does."""
        self._loaded(next(iter(self._texts.values())))

    def _loaded(self, text: Text) -> Any:
        key = (self._device.current, text.narrow)
        if key not in self._functions:
            self._functions[key] = self._device.load(text.source, text.device.kernels)
        return self._functions[key]

    def _fits(self, bound: Bound) -> bool:
        """Whether all indices of a call, and what they are computed from, fit 32 bits."""
        longest = max([*(a.size for a in bound.inputs), *bound.counts, *bound.sizes, 0])
        held = {
            f.array.name: _viewed(a, f.array.type)[f.shift :: f.scale]
            for b, a in zip(self.lowered.inputs, bound.inputs, strict=True)
            for f in b.fields.values()
        }

        def largest(name: str) -> int:
            values = held[name]
            return max(int(values.max(initial=0)), -int(values.min(initial=0)))

        sizes = {n.name: size for n, size in zip(self._program.sizes, bound.sizes, strict=True)}
        return max(longest, reach(self._program, sizes, largest)) < _NARROW

    def _text(self, narrow: bool) -> Text:
        found = self._texts.get(narrow)
        if found is None:
            device = next(iter(self._texts.values())).device
            found = self._texts[narrow] = Text(device, render_cuda(device, narrow), narrow)
        return found

    def launch(self, bound: Bound) -> list[Any]:
        """Run the kernels; the buffers of the result, where the device has them."""
        arrays, text, functions = bound.ready
        made, arrays = [], dict(arrays)
        for b, count in zip(self.lowered.outputs, bound.counts, strict=True):
            size = max(count, 1) * b.dtype.itemsize  # so that it can be seen as any of the fields
            memory = self._device.empty(size, np.dtype("uint8"))
            made.append(memory)
            for f in b.fields.values():
                arrays[f.array.name] = _viewed(memory, f.array.type)
        pairs = zip(self._program.sizes, bound.sizes, strict=True)
        scalars = {**{name.name: size for name, size in pairs}, "room": 0}
        run = Run(self._device, text.device, functions, arrays, scalars, not text.narrow)
        try:
            run.all()
        except BoundBroken:
            raise out_of_range() from None
        return made

    def run(self, bound: Bound) -> Any:
        outputs = self.launch(bound)
        whole = [
            self._device.download(memory)[: count * b.dtype.itemsize].view(b.dtype)
            for b, count, memory in zip(self.lowered.outputs, bound.counts, outputs, strict=True)
        ]
        return shaped(whole, bound.shapes)


def _viewed(array: Any, type: str) -> Any:
    """The memory of an array as numbers of a type; what is left over at its end is not seen."""
    return array.view(np.dtype(type)) if array.size else np.empty(0, type)
