"""Warm calls: the operands of the call before, and nothing left to decide.

Between two calls a program looks at megabytes of data, so that every line of Python runs from cold
memory. What a repeated call does is therefore kept to the least.
"""

from __future__ import annotations

from ctypes import addressof, c_char
from typing import Any

import numpy as np

from openwork.index.nodes import TensorVar
from openwork.loops.result import Append
from openwork.runtime.launch import BoundBroken, PositionOverflow, threads_for
from openwork.runtime.memory import LARGE, allocate
from openwork.runtime.storage import Storage
from openwork.tensor.binding import Binder, Binding


class Warm:
    """Repeats a call whose result is written in place and need not be initialised."""

    def __init__(self, binding: Binding, binder: Binder, result: TensorVar, template: Any) -> None:
        self._binding, self._binder = binding, binder
        self._result, self._template = result, template
        self._work = binding.work + binding.count
        self._sized: tuple[int, Any] = (0, None)  # for how many threads, and the sizes of a call
        self._small = binding.count * result.dtype.itemsize < LARGE
        self._frames: list[Any] = []  # arguments of calls that are over

    @staticmethod
    def suits(binding: Binding, binder: Binder) -> bool:
        """Whether calls with the operands of `binding` can be repeated so."""
        return binding.compiled.initial is None and binder.takes_as_given and not binder.adds

    def __call__(self, given: tuple[Storage, ...]) -> Any:
        """The result, or None if the operands are others than before."""
        binding, result = self._binding, self._result
        if not binding.fits(given, self._template.shape):
            return None
        threads, (known, sizes) = threads_for(self._work), self._sized
        if threads != known:
            sizes = binding.executable.sizes(threads, 0, binding.sizes)
            self._sized = (threads, sizes)
        dtype, count, executable = result.dtype, binding.count, binding.executable
        values = np.empty(count, dtype) if self._small else allocate(count, dtype)
        # Taking and adding are each a single step, so that threads may call at once.
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = executable.frame((*binding.pointers, 0))
        # The same as the address in `__array_interface__`, for a third of the time.
        frame[-1] = addressof(c_char.from_buffer(values)) if count else 0  # type: ignore[arg-type]
        executable.call(frame, sizes, self._work)
        self._frames.append(frame)
        levels = self._binder.levels(given)
        storage = Storage(binding.shape, result.format, dtype, levels, values, result.fill)
        return self._template.__openwork_result__(storage)


class WarmAppended:
    """Repeats a call whose result is made of arrays that the kernel allocates."""

    def __init__(self, binding: Binding, result: TensorVar, template: Any) -> None:
        self._binding = binding
        self._result, self._template = result, template
        self._names = [[fact.name for fact in level.arrays] for level in result.format.levels]
        self._frames: list[tuple[Any, Any]] = []  # arguments and sizes of calls that are over

    @staticmethod
    def suits(assembly: Append, binder: Binder) -> bool:
        """Whether calls can be repeated so; where entries are counted, memory is asked for anew."""
        return assembly.strategy != "count" and binder.takes_as_given and not binder.adds

    def __call__(self, given: tuple[Storage, ...]) -> Any:
        """The result, or None if the operands are others than before, or it was not to be had."""
        binding, result = self._binding, self._result
        if not binding.fits(given, self._template.shape):
            return None
        executable, work = binding.executable, binding.work
        threads = threads_for(work)
        try:
            frame, sizes = self._frames.pop()
            sizes[0] = threads
        except IndexError:
            frame = executable.frame(binding.pointers)
            sizes = executable.sizes(threads, binding.room, binding.sizes)
        try:
            executable.call(frame, sizes, work)
        except (BoundBroken, PositionOverflow):
            return None
        arrays = executable.collect(frame, sizes)
        self._frames.append((frame, sizes))
        values = arrays.pop()
        made = iter(arrays)
        levels = tuple([{name: next(made) for name in names} for names in self._names])
        storage = Storage(binding.shape, result.format, result.dtype, levels, values, result.fill)
        return self._template.__openwork_result__(storage)
