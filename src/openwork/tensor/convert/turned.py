"""A matrix stored in its other orientation: made once, and refreshed before each use.

The pattern of a tensor never changes, but the values of an array that its owner shares may, at any
time. So a copy of the values as they were lies beside the reordered ones. Before each use a kernel
compares all values with it, bit by bit, and moves those that differ. That reads each value twice in
order, which takes a fraction of what scattered updates do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from openwork.format.formats import Format
from openwork.format.levels.width import index_dtype
from openwork.pipeline import to_kernels
from openwork.program.gpu_nodes import DeviceProgram
from openwork.program.nodes import (
    Argument,
    Array,
    Declare,
    For,
    If,
    Name,
    Program,
    Role,
    Store,
    Value,
    block,
    compare,
)
from openwork.program.verify import verify
from openwork.render.cuda.cuda import render_cuda
from openwork.runtime.gpu.cuda import Cuda, DeviceStorage, is_on_gpu
from openwork.runtime.gpu.steps import Device, Run
from openwork.runtime.storage import Storage
from openwork.tensor.convert.convert import convert
from openwork.trace import Trace

_NARROW = 2**31 - 2**20  # values that 32-bit integers count, with room for the last block
_COUNT = Name("entries")


@dataclass(eq=False)
class Turned:
    """A matrix in its other orientation.

    `storage`: the matrix. `before`: the values of the original when they were last compared.
    `places`: where each of them goes.
    """

    storage: Storage
    before: Any
    places: Any
    device: Device

    @classmethod
    def of(cls, storage: Storage, device: Device) -> Turned:
        """`storage` with its levels exchanged, on `device`, where its arrays are."""
        numbers = Cuda().cp if is_on_gpu(storage.values) else np
        width = index_dtype(storage.values.size)
        order = numbers.arange(storage.values.size, dtype=width)
        listed = replace(storage, dtype=width, values=order, fill=0)
        made = convert(listed, turned(storage.format), exact=True)
        places = numbers.empty_like(order)
        places[made.values] = order
        values = storage.values[made.values]
        fields = {"dtype": storage.dtype, "values": values, "fill": storage.fill}
        return cls(replace(made, **fields), storage.values.copy(), places, device)

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        levels = (array for level in self.storage.levels for array in level.values())
        arrays = (*levels, self.storage.values, self.before, self.places)
        return sum(int(array.nbytes) for array in arrays)

    @cached_property
    def _moves(self) -> tuple[DeviceProgram, Any, bool]:
        """The kernel that moves values, loaded, and whether it takes 64-bit sizes."""
        size = self.before.dtype.itemsize
        wide = self.before.size * max(1, size // 8) >= _NARROW
        device, source = _compiled(size, self.places.dtype.name, not wide)
        return device, self.device.load(source, device.kernels), wide

    def refresh(self, values: Any) -> list[Any]:
        """Move the values that have changed; returns the launches, which can be repeated."""
        program, functions, wide = self._moves
        word = _word(self.before.dtype.itemsize)
        moved = self.storage.values
        arrays = {
            name: array.view(word)
            for name, array in (("now", values), ("before", self.before), ("moved", moved))
        }
        arrays["places"] = self.places
        sizes = {_COUNT.name: int(arrays["now"].size)}
        run = Run(self.device, program, functions, arrays, sizes, wide)
        run.all()
        return run.launched


def turned(format: Format) -> Format:
    """The format of a matrix with the same levels, along its other mode first."""
    return Format(format.levels, format.order[::-1])


def settle(storage: Storage) -> None:
    """Wait for the current stream, so that other streams may read what it has made."""
    if isinstance(storage, DeviceStorage):
        Cuda().cp.cuda.get_current_stream().synchronize()


def _word(itemsize: int) -> str:
    """The unsigned integers that values are compared as; of complex ones, each half."""
    return f"uint{8 * min(itemsize, 8)}"


@lru_cache(maxsize=32)
def _compiled(itemsize: int, place: str, narrow: bool) -> tuple[DeviceProgram, str]:
    program = _moving(_word(itemsize), place, max(1, itemsize // 8))
    verify(program)
    device = to_kernels(program, Trace(dumps=False))
    return device, render_cuda(device, narrow)


def _moving(word: str, place: str, words: int) -> Program:
    """Each value that differs from the one before it is copied there, and to its place."""
    now, before, moved = (Array(name, word, Role.VALUE) for name in ("now", "before", "moved"))
    places = Array("places", place, Role.COORDINATE)
    at, value = Name("entry"), Name("value", word)
    to = places[at] if words == 1 else places[at / words] * words + at % words
    change = block(Store(before, at, value), Store(moved, to, value))
    body = block(
        Declare(value, now[at], fixed=True), If(compare("!=", value, before[at]), change)
    )
    loop = For(at, Value(0), _COUNT, body, "values that have changed", simd=True)
    roles = [(now, "operand"), (places, "operand"), (before, "result"), (moved, "result")]
    arguments = tuple(Argument(a, "", -1, a.name, role) for a, role in roles)
    return Program(arguments, (_COUNT,), block(loop))
