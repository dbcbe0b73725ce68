"""Repeats a call on a GPU: the same launches, into a new result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Self
from weakref import ref

import numpy as np

from openwork.algebra.entries import Entry
from openwork.algebra.types import Number
from openwork.index.nodes import TensorVar
from openwork.runtime.gpu.cuda import DeviceStorage
from openwork.runtime.gpu.steps import Device
from openwork.runtime.gpu.streams import callers_stream
from openwork.runtime.storage import Storage, placement_of
from openwork.tensor.kernel.binding import Binding
from openwork.tensor.kernel.warm import Repeated

_SMALL = 1 << 20  # bytes of a result whose memory is allocated in advance


class Repeat(Repeated):
    """Repeats a call with the same operands, on the GPU, and memory for a new result.

    The next result's memory and launches are prepared while the GPU computes the one before.

    Args:
        device: where it runs.
        binding: the binding of the call.
        result: the tensor that the kernel computes.
        levels: its index arrays.
        launched: the launches of the call.
        values: the values that they wrote.
        templates: the operands of the statement.
        template: the result of the statement.
    """

    def __init__(
        self,
        device: Device,
        binding: Binding,
        result: TensorVar,
        levels: Any,
        launched: Sequence[Any],
        values: Any,
        templates: Iterable[Any],
        template: Any,
    ) -> None:
        super().__init__(binding, templates, template)
        self._device, self._launched, self._values = device, launched, values
        self._stream, self._gpu = device.stream, binding.ready.gpu
        self._held = [(template, reference()) for reference, template in self._own]
        self._result = result
        self._ready: list[Any] = []  # prepared launches, each with memory for its result
        self._another: tuple[Any, Any] = (self, None)  # a stream, and the allocator for it
        self._small = values.nbytes <= _SMALL
        self._released = False
        self._facts = {
            "shape": binding.shape,
            "format": result.format,
            "dtype": result.dtype,
            "levels": levels,
            "fill": result.fill,
            "of_torch": any(getattr(storage, "of_torch", False) for _, storage in self._held),
        }

    def after(
        self, launched: Sequence[Any], given: Sequence[Storage], templates: Sequence[Any]
    ) -> Self:
        """The same after other launches, for calls whose operands are `given`."""
        made = copy(self)
        made._binding = replace(self._binding, given=tuple(map(ref, given)))
        made._own = list(zip(made._binding.given, templates, strict=True))
        made._held = list(zip(templates, given, strict=True))
        made._launched, made._ready = (*launched, *self._launched), []
        of_torch = any(getattr(storage, "of_torch", False) for storage in given)
        made._facts = {**self._facts, "of_torch": of_torch}
        return made

    def release(self) -> None:
        """Let go of all arrays; there are no more calls to repeat."""
        self._released, self._held, self._launched, self._ready = True, [], (), []

    def again(self) -> Any:
        """As for any call; the launches keep the operands' arrays alive."""
        for template, storage in self._held:
            if template._storage is not storage:
                return None
        shape = self._template._shape
        return self._made() if shape is self._shape or shape == self._shape else None

    def _made(self) -> Any:
        if self._released or self._device.current != self._gpu:
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
            ready = self._device.ready(self._launched, self._values, stream)
            ready.into(self._memory(stream))
        ready.go()
        storage = DeviceStorage.later(self._facts, self._another[1].array, ready.place)
        if self._small:
            ready.into(self._memory(stream))
            self._ready.append(ready)
        return self._template.__openwork_result__(storage)

    def _memory(self, stream: Any) -> Any:
        binding, device = self._binding, self._device
        on, another = self._another
        if on is not stream and on != stream:
            another = device.another(self._values)
            self._another = stream, another
        place = another()
        if binding.compiled.initial is not None and binding.count:
            fill_with(device, another.array(place), binding.compiled.initial, self._result)
        return place


def fill_with(device: Device, values: Any, initial: Number, result: TensorVar) -> None:
    """Set every element of a result on a device; a record is so many times one."""
    dtype = result.dtype
    numbers = dtype.numbers(initial) if isinstance(dtype, Entry) else (initial,)
    if len(set(numbers)) == 1:
        device.fill(values, numbers[0])
        return
    record = np.array(numbers, values.dtype)
    placement_of(result.format, dtype).apart(values)[...] = device.upload(record)
