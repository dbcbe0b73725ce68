"""Warm calls: the operands of the call before, and nothing left to decide.

Between two calls a program touches megabytes of data, so every line of Python runs from a cold
cache. Repeated calls therefore do as little as possible.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from ctypes import addressof, c_char
from typing import Any

import numpy as np

from openwork.index.nodes import TensorVar
from openwork.loops.plan.assembly import Append
from openwork.runtime.host.launch import BoundBroken, PositionOverflow, threads_for
from openwork.runtime.memory import allocate
from openwork.runtime.storage import Storage, room_of
from openwork.tensor.kernel.binding import Binder, Binding

# Results below this many bytes are not checked against free memory.
_UNCOUNTED = 1 << 16


class Repeated(ABC):
    """Repeats a call with the same operands.

    Args:
        binding: the binding of the call.
        templates: the operands of the statement.
        template: the result of the statement.
    """

    def __init__(self, binding: Binding, templates: Iterable[Any], template: Any) -> None:
        self._binding, self._template = binding, template
        self._shape = binding.result_shape
        self._own = list(zip(binding.given, templates, strict=True))

    def again(self) -> Any:
        """The result for the statement's own operands, or None if these have changed."""
        held: tuple[Any, ...] = ()  # keeps them alive for the call, even if they are replaced
        for reference, template in self._own:
            storage = template._storage  # a property would take longer than the rest
            if storage is None or reference() is not storage:
                return None
            held = held, storage
        shape = self._template._shape
        if shape is not self._shape and shape != self._shape:
            return None
        return self._made()

    def __call__(self, given: tuple[Storage, ...]) -> Any:
        """The result, or None if the operands have changed or the call failed."""
        return self._made() if self._binding.fits(given, self._template.shape) else None

    @abstractmethod
    def _made(self) -> Any:
        """The result for the operands of `binding`, which are alive."""


class Warm(Repeated):
    """Repeats a call whose result is written in place, without initialization."""

    def __init__(
        self,
        binding: Binding,
        binder: Binder,
        result: TensorVar,
        templates: Iterable[Any],
        template: Any,
    ) -> None:
        super().__init__(binding, templates, template)
        self._result, self._levels = result, binder.levels_again
        self._executable, self._pointers = binding.ready.executable, binding.ready.pointers
        self._work = binding.work + binding.count
        self._steps = binding.ready.steps + binding.count
        self._sized: tuple[int, Any] = (0, None)  # the number of threads, and the sizes of a call
        self._count = room_of(result.format, result.dtype, binding.count)
        self._small = binding.count * result.dtype.itemsize < _UNCOUNTED
        self._frames: list[Any] = []  # arguments of finished calls, for reuse

    @staticmethod
    def suits(binding: Binding, binder: Binder) -> bool:
        """Whether calls with the operands of `binding` can be repeated this way."""
        plain = binding.compiled.initial is None and not binding.tight
        return plain and binder.takes_as_given and not binder.adds

    def _made(self) -> Any:
        binding, result, work = self._binding, self._result, self._work
        threads, (known, sizes) = threads_for(work), self._sized
        executable = self._executable
        if threads != known:
            sizes = executable.sizes(threads, 0, binding.sizes)
            self._sized = (threads, sizes)
        count, dtype = self._count
        values = np.empty(count, dtype) if self._small else allocate(count, dtype)
        # Pop and append are atomic, so threads may call concurrently.
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = executable.frame((*self._pointers, 0))
        # The same as the address in `__array_interface__`, in a third of the time.
        frame[-1] = addressof(c_char.from_buffer(values)) if count else 0  # type: ignore[arg-type]
        executable.call(frame, sizes, self._steps)
        self._frames.append(frame)
        levels = self._levels(binding)
        storage = Storage(binding.shape, result.format, result.dtype, levels, values, result.fill)
        return self._template.__openwork_result__(storage)


class WarmAppended(Repeated):
    """Repeats a call whose result arrays are allocated by the kernel."""

    def __init__(
        self, binding: Binding, result: TensorVar, templates: Iterable[Any], template: Any
    ) -> None:
        super().__init__(binding, templates, template)
        self._result = result
        self._names = [[fact.name for fact in level.arrays] for level in result.format.levels]
        self._frames: list[tuple[Any, Any]] = []  # arguments and sizes of finished calls, for reuse

    @staticmethod
    def suits(assembly: Append, binding: Binding, binder: Binder) -> bool:
        """Whether calls can be repeated this way; not if memory may run short."""
        short = assembly.strategy == "count" or binding.tight
        return not short and binder.takes_as_given and not binder.adds

    def _made(self) -> Any:
        binding, result, call = self._binding, self._result, self._binding.ready
        executable = call.executable
        threads = threads_for(binding.work)
        try:
            frame, sizes = self._frames.pop()
            sizes[0] = threads
        except IndexError:
            frame = executable.frame(call.pointers)
            sizes = executable.sizes(threads, binding.room, binding.sizes)
        try:
            executable.call(frame, sizes, call.steps)
        except (BoundBroken, PositionOverflow):
            return None
        arrays = executable.collect(frame, sizes)
        self._frames.append((frame, sizes))
        values = arrays.pop()
        made = iter(arrays)
        levels = tuple([{name: next(made) for name in names} for names in self._names])
        storage = Storage(binding.shape, result.format, result.dtype, levels, values, result.fill)
        return self._template.__openwork_result__(storage)
