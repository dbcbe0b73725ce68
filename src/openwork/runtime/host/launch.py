"""Calling a compiled kernel: arrays and sizes in, status and new arrays out."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from openwork.algebra.operators import negative_power
from openwork.errors import InternalError
from openwork.loops.schedule.machines import ANY_CPU
from openwork.program.contract import (
    BROKEN_BOUND,
    FIRST_SIZE,
    INTERRUPTED,
    NEGATIVE_POWER,
    NO_MEMORY,
    OK,
    OVERFLOWED,
)
from openwork.program.nodes import Program
from openwork.runtime.host import kept
from openwork.runtime.host.interrupt import memory_watch, stop_flag, watching
from openwork.runtime.host.threads import thread_count
from openwork.runtime.storage import Array

# Below this many elements of work, starting threads costs more than it gains.
SERIAL_BELOW = ANY_CPU.serial_below
# Above this many iterations a call may take long enough for a user to press Ctrl-C.
WATCHED_ABOVE = 1_000_000


class PositionOverflow(Exception):
    """The result has more entries than its position arrays can count; wider ones are needed."""


class BoundBroken(Exception):
    """A bound that a schedule promised does not hold for these operands."""


class _Memory(ctypes.c_char * (sys.maxsize // 2)):  # type: ignore[misc]
    """Memory that a kernel allocated, freed with the last array over it.

    Only the array knows its length: a ctypes type per length would take more time than all the
    rest.
    """

    def __del__(self) -> None:
        kept.free(ctypes.addressof(self))


class Executable:
    """A loaded kernel and the layout of its arguments."""

    def __init__(self, program: Program, function: Any) -> None:
        self._function = function
        function.restype = ctypes.c_int32
        self._made = [
            (n, np.dtype(argument.array.type))
            for n, argument in enumerate(program.arguments)
            if argument.role == "made"
        ]
        first = FIRST_SIZE + len(program.sizes)
        self._pointers = ctypes.c_void_p * (1 + len(program.arguments))
        self._sizes = ctypes.c_int64 * (first + len(self._made))
        self._first_length = first

    def run(
        self,
        pointers: Sequence[int],
        extents: Sequence[int],
        work: float,
        room: int,
        tight: bool = False,
        steps: float | None = None,
    ) -> list[Array]:
        """Call the kernel.

        Args:
            pointers: the addresses of all arguments; arrays that the kernel allocates may be
                left out.
            extents: the extents of the index variables.
            work: about how many elements the kernel accesses.
            room: the first capacity of a new result, in entries.
            tight: the whole result may not fit into memory.
            steps: an upper estimate of loop iterations, if it differs from `work`.

        Returns:
            The arrays that the kernel allocated, in the order of its arguments.
        """
        sizes = self.sizes(threads_for(work), room, extents)
        arrays = self.frame(pointers)
        if tight:
            self._call_with_care(arrays, sizes)
        else:
            self.call(arrays, sizes, work if steps is None else steps)
        return self.collect(arrays, sizes) if self._made else []

    def sizes(self, threads: int, room: int, extents: Sequence[int]) -> Any:
        """The sizes of a call; a kernel that allocates no arrays only reads them."""
        return self._sizes(threads, room, *extents)

    def frame(self, pointers: Sequence[int]) -> Any:
        """The arrays of a call, reusable for another; not by two threads at a time."""
        return self._pointers(0, *pointers)

    def call(self, arrays: Any, sizes: Any, steps: float) -> None:
        """Call the function; watch for Ctrl-C if it may take long."""
        if steps < WATCHED_ABOVE:
            arrays[0] = stop_flag()
            status = self._function(arrays, sizes)
        else:
            with watching() as flag:
                arrays[0] = flag
                status = self._function(arrays, sizes)
        if status != OK:
            _refuse(status)

    def _call_with_care(self, arrays: Any, sizes: Any) -> None:
        """Call the function; watch for Ctrl-C and free memory."""
        kept.release()
        with watching() as flag, memory_watch(flag) as memory:
            arrays[0] = memory.address
            status = self._function(arrays, sizes)
        if status == INTERRUPTED and memory.raised:
            status = NO_MEMORY
        if status != OK:
            _refuse(status)

    def collect(self, arrays: Any, sizes: Any) -> list[Array]:
        """The arrays that a call allocated."""
        made: list[Array] = []
        for n, (position, dtype) in enumerate(self._made, self._first_length):
            memory = _Memory.from_address(arrays[1 + position])
            made.append(np.ndarray(sizes[n], dtype, memory))
        return made


def share_from(work: int) -> None:
    """Start threads for calls that access at least `work` elements: this machine was measured."""
    global SERIAL_BELOW
    SERIAL_BELOW = work


def threads_for(work: float) -> int:
    """The number of threads for a call that accesses about `work` elements."""
    return 1 if work < SERIAL_BELOW else thread_count()


def _refuse(status: int) -> None:
    """Raise the error for a kernel's status."""
    if status == NO_MEMORY:
        raise MemoryError("the result does not fit into memory")
    if status == OVERFLOWED:
        raise PositionOverflow
    if status == BROKEN_BOUND:
        raise BoundBroken
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    if status == NEGATIVE_POWER:
        raise negative_power()
    raise InternalError(f"a kernel returned {status}")
