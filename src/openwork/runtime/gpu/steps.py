"""Executes the host's steps of a GPU program.

For the same operands, every call is the same but for the memory of the result. So the kernels,
their grids and their arguments are computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from openwork.errors import InternalError
from openwork.program import nodes as p
from openwork.program.contract import BROKEN_BOUND, NO_ROOM, OK, OVERFLOWED
from openwork.program.gpu_nodes import LENGTHS, STATUS, Ask, DeviceProgram, Kernel, Launch, Scan
from openwork.runtime.gpu.inspected import Kept
from openwork.runtime.host.launch import BoundBroken, PositionOverflow

_MOST_BLOCKS_X, _MOST_BLOCKS_Y = 2**31 - 1, 65535
_USUAL_THREADS = 256  # per block; a device's `blocks` counts blocks of this size
_MOST_RESIDENT = 2048  # threads of a multiprocessor
_NARROW = 2**31 - 1  # the most elements that 32-bit integers count


class Device(Protocol):
    """Where kernels run; `in_main_memory`: it uses host arrays without a copy."""

    name: str
    in_main_memory: bool

    def load(self, source: str, kernels: Sequence[Kernel]) -> Any: ...
    def upload(self, array: Any) -> Any: ...
    def download(self, array: Any) -> Any: ...
    def empty(self, count: int, dtype: Any, zeroed: bool = False) -> Any: ...
    def fill(self, array: Any, value: Any) -> None: ...
    def scan(self, array: Any) -> None: ...
    def numbers(self, array: Any, index: int, count: int) -> list[int]: ...
    def launch(
        self, function: Any, grid: tuple[int, int], kernel: Kernel, args: Sequence[Any], wide: bool
    ) -> Any: ...
    def another(self, array: Any) -> Any: ...
    def ready(self, launched: Sequence[Any], old: Any, stream: Any) -> Any: ...
    def settle(self) -> None: ...
    @property
    def model(self) -> str: ...
    @property
    def current(self) -> int: ...
    @property
    def blocks(self) -> int: ...
    @property
    def most_scratch(self) -> int: ...
    @property
    def stream(self) -> Callable[[], Any]: ...
    @property
    def free(self) -> int: ...
    @property
    def is_recording(self) -> bool: ...


@dataclass
class Run:
    """The state of one call on the host."""

    device: Device
    program: DeviceProgram
    functions: Mapping[str, Any]
    arrays: dict[str, Any]
    scalars: dict[str, int]
    wide: bool
    numbers: dict[tuple[str, int], int] = field(default_factory=dict)  # elements already read back
    kept: Kept = field(default_factory=Kept)  # arrays that inspectors filled in earlier calls
    inspected: set[str] = field(default_factory=set)  # arrays that inspectors fill
    ready: set[str] = field(default_factory=set)  # those that are filled already
    fresh: list[p.Allocate] = field(default_factory=list)  # those that this call fills
    launched: list[Any] = field(default_factory=list)  # what a repeated call launches
    repeats: bool = True
    lengths: dict[int, int] = field(default_factory=dict)  # of allocated arrays, if known

    def all(self) -> None:
        """Execute every step."""
        self.repeats = not self.program.reports
        if self.program.reports:
            self.arrays[STATUS.name] = self.device.empty(1, np.dtype("int32"), zeroed=True)
        self.follow(self.program.host)
        if self.program.reports:
            _check(*self._numbers(STATUS.name, 0, 1))
        if self.fresh:
            self._share()

    def _share(self) -> None:
        """Let other calls read what this call's inspectors have filled, now that they have."""
        if self.device.is_recording:  # they fill it whenever the graph runs
            self.repeats = False
            return
        self.device.settle()
        for s in self.fresh:
            self.kept.of(s.array.tensor)[s.kept] = self.arrays[s.array.name]

    def follow(self, s: p.Stmt) -> None:
        """Execute one step."""
        match s:
            case p.Block(body=body):
                for each in body:
                    self.follow(each)
            case p.Declare(name=name, value=value):
                self.scalars[name.name] = self.value(value)
            case p.Allocate(kept=""):
                self.arrays[s.array.name] = self._made(s)
                self.repeats = False
            case p.Allocate(array=array, kept=what):
                self.inspected.add(array.name)
                found = self.kept.of(array.tensor)
                if what in found:
                    self.ready.add(array.name)
                    self.arrays[array.name] = found[what]
                else:
                    self.fresh.append(s)
                    self.arrays[array.name] = self._made(s)
            case Launch(kernel=kernel):
                self._launch(self.program.named[kernel])
            case Scan(array=array):
                self.device.scan(self.arrays[array.name])
                self.repeats = False
            case Ask(names=names, array=array, index=index):
                known = self._numbers(array.name, self.value(index), len(names))
                self.scalars |= {name.name: n for name, n in zip(names, known, strict=True)}
                self.repeats = False
            case p.Store(array=array, index=index, value=value) if array == LENGTHS:
                self.lengths[self.value(index)] = self.value(value)
            case p.For(var=var, begin=begin, end=end, body=body):
                for n in range(self.value(begin), self.value(end)):
                    self.scalars[var.name] = n
                    self.follow(body)
            case p.If(condition=condition, then=then, otherwise=otherwise):
                if self.value(condition):
                    self.follow(then)
                elif otherwise is not None:
                    self.follow(otherwise)
            case p.Fail(status=status):
                _check(status)
            case p.Free() | p.Comment():
                pass
            case _:
                raise InternalError(f"the host has no step {type(s).__name__}")

    def _made(self, s: p.Allocate) -> Any:
        """Allocate an array."""
        n = self.value(s.count)
        if n > _NARROW and not self.wide:
            raise PositionOverflow
        return self.device.empty(n, np.dtype(s.array.type), s.zeroed) if n else None

    def value(self, e: p.Expr) -> int:
        """The value of an expression over sizes."""
        match e:
            case p.Value(value=value):
                return int(value.real)
            case p.Name(name=name):
                return self.scalars[name]
            case p.Convert(expr=inner):
                return self.value(inner)
            case p.Load(array=array, index=index):
                place = (array.name, self.value(index))
                if place not in self.numbers:
                    (self.numbers[place],) = self._numbers(*place, 1)
                return self.numbers[place]
            case p.Helper(name="table_slots", args=(p.Expr() as size,)):
                return table_slots(self.value(size))
            case p.Binary(sign=sign, left=left, right=right):
                return _BINARY[sign](self.value(left), self.value(right))
        raise InternalError(f"the host cannot evaluate {e}")

    def _numbers(self, name: str, index: int, count: int) -> list[int]:
        return self.device.numbers(self.arrays[name], index, count)

    def _launch(self, kernel: Kernel) -> None:
        if kernel.written <= self.ready and kernel.written:
            return  # the inspector ran before
        x, y = self._grid(kernel)
        if x < 1 or y < 1:
            return
        for s in kernel.scratch:
            units = {"block": 1, "warp": kernel.warps, "thread": kernel.threads}[s.unit] * x * y
            count = max(1, self.value(s.count)) * units
            self.arrays[s.array.name] = self.device.empty(count, np.dtype(s.array.type), s.zeroed)
        for counter in kernel.counters:
            self.arrays[counter.name] = self.device.empty(2, np.dtype(counter.type), zeroed=True)
        args = [self.scalars[n.name] for n in kernel.scalars]
        args += [self.arrays[a.name] for a in kernel.arrays]
        self.repeats = self.repeats and not kernel.scratch
        done = self.device.launch(self.functions[kernel.name], (x, y), kernel, args, self.wide)
        if not kernel.written <= self.inspected:
            self.launched.append(done)

    def _resident(self, kernel: Kernel) -> int:
        """How many threads of a kernel the device runs at the same time, at most."""
        threads = self.device.blocks * _USUAL_THREADS
        if kernel.counters and kernel.resident:
            return threads * kernel.resident // _MOST_RESIDENT
        return threads

    def _grid(self, kernel: Kernel) -> tuple[int, int]:
        blocks = [self.device.blocks if n is None else self.value(n) for n in kernel.grid]
        x, y = min(blocks[0], _MOST_BLOCKS_X), min(blocks[1], _MOST_BLOCKS_Y)
        if kernel.scratch or (kernel.counters and not kernel.turns):
            # Scratch for blocks that would only wait is wasted; chunks are for those that run.
            x = min(x, max(1, self._resident(kernel) // kernel.threads))
        for s in kernel.scratch:
            units = {"block": 1, "warp": kernel.warps, "thread": kernel.threads}[s.unit]
            each = max(1, self.value(s.count)) * units * max(1, y)
            fit = self.device.most_scratch // (each * np.dtype(s.array.type).itemsize)
            fit = fit if self.wide else min(fit, _NARROW // each)
            x = max(min(x, 1), min(x, fit))
        return x, y


_BINARY: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: int(a / b) if (a < 0) != (b < 0) and a % b else a // b,
    "%": lambda a, b: a - b * (int(a / b) if (a < 0) != (b < 0) and a % b else a // b),
    "min": min,
    "max": max,
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "&&": lambda a, b: int(bool(a and b)),
    "||": lambda a, b: int(bool(a or b)),
}


def table_slots(keys: int) -> int:
    """The number of slots of a hash table: a power of two, with at least a quarter free."""
    slots = 32
    while slots * 3 < keys * 4:
        slots *= 2
    return slots


class NoRoom(Exception):
    """A result outgrew its memory."""


def _check(status: int) -> None:
    """Raise the error for a call's status."""
    if status == OK:
        return
    if status == BROKEN_BOUND:
        raise BoundBroken
    if status == NO_ROOM:
        raise NoRoom
    if status == OVERFLOWED:
        raise PositionOverflow
    raise InternalError(f"a kernel ended with status {status}")


LENGTHS_NAME = LENGTHS.name
