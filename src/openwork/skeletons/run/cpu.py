"""Programs of patterns as C."""

from __future__ import annotations

from ctypes import addressof, c_char
from typing import Any

from openwork.program.nodes import Program
from openwork.render.c.c import render
from openwork.runtime.host.launch import BoundBroken, Executable, threads_for
from openwork.runtime.host.library import load
from openwork.runtime.memory import address, allocate
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.nodes import Signature, Type
from openwork.skeletons.lower.lowered import Lowered
from openwork.skeletons.run.kernel import Bound, Kernel, out_of_range, shaped
from openwork.trace import Trace


class CpuKernel(Kernel):
    """A program as C."""

    def __init__(
        self, signature: Signature, result: Type, lowered: Lowered, program: Program, source: str,
        trace: Trace,
    ) -> None:  # fmt: skip
        super().__init__(signature, result, lowered, source, trace)
        self.executable = Executable(program, load(source).kernel)
        self.program = program

    @property
    def shown(self) -> str:
        """The source to read."""
        return render(self.program, words=self.program.words)

    def prepared(self, bound: Bound) -> Repeated:
        return Repeated(self, bound)

    def run(self, bound: Bound) -> Any:
        return bound.ready()


class Repeated:
    """Calls with the same data. Little is left to do for each: between two calls a program touches
    megabytes, so that every line of Python runs from a cold cache."""

    def __init__(self, kernel: CpuKernel, bound: Bound) -> None:
        low = kernel.lowered
        pointers = [address(a) for a in bound.extra]
        for b, a in zip(low.inputs, bound.inputs, strict=True):
            pointers += [address(a)] * len(b.fields)
        self._outputs = []
        for b, count in zip(low.outputs, bound.counts, strict=True):
            first = 1 + len(pointers)  # behind the flag of Ctrl-C
            pointers += [0] * len(b.fields)
            self._outputs.append((range(first, 1 + len(pointers)), count, b.dtype))
        flat = [shape is None or len(shape) == 1 for shape in bound.shapes]
        self._shapes = None if flat == [True] else bound.shapes
        self._executable, self._pointers, self._extents = kernel.executable, pointers, bound.sizes
        self._sized: tuple[int, Any] = (0, None)  # the number of threads, and the sizes of a call
        self._frames: list[Any] = []  # arguments of finished calls, for reuse
        lengths = {v.name for t in kernel.signature.types for v in n.walk_all(t)
                   if isinstance(v, n.Var)}  # fmt: skip
        indices = {fact.buffer for fact in low.indices}
        read = [a.size for b, a in zip(low.inputs, bound.inputs, strict=True)
                if b.name not in indices and b.owner not in lengths]  # fmt: skip
        self._work = float(sum(read) + sum(bound.counts))  # as index notation counts it

    def __call__(self) -> Any:
        executable, work = self._executable, self._work
        threads, (known, sizes) = threads_for(work), self._sized
        if threads != known:
            sizes = executable.sizes(threads, 0, self._extents)
            self._sized = (threads, sizes)
        # Pop and append are atomic, so threads may call concurrently.
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = executable.frame(self._pointers)
        made = []
        for fields, count, dtype in self._outputs:
            values = allocate(count, dtype)
            pointer = addressof(c_char.from_buffer(values)) if count else 0  # type: ignore[arg-type]
            for field in fields:
                frame[field] = pointer
            made.append(values)
        try:
            executable.call(frame, sizes, work)
        except BoundBroken:
            raise out_of_range() from None
        self._frames.append(frame)
        return values if self._shapes is None else shaped(made, self._shapes)
