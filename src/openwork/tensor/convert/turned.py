"""A matrix stored in its other orientation: made once, and refreshed before each use.

The pattern of a tensor never changes, but the values of an array that its owner shares may, at any
time. So before each use a kernel reads all values in order, and computes a fingerprint of 64 bits
for each chunk of 1,024. Where it has changed, the values of the chunk are moved to their places.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from openwork.algebra.operators import ADD, BITWISE_XOR, MUL, RIGHT_SHIFT, Op
from openwork.format.formats import Format
from openwork.format.levels.width import index_dtype
from openwork.pipeline import to_kernels
from openwork.program.gpu_nodes import DeviceProgram
from openwork.program.nodes import (
    Apply,
    Argument,
    Array,
    Convert,
    Declare,
    Expr,
    For,
    If,
    Name,
    Program,
    Reduction,
    Role,
    Set,
    Stmt,
    Store,
    Unit,
    Value,
    arithmetic,
    block,
    compare,
)
from openwork.program.verify import verify
from openwork.render.cuda.cuda import render_cuda
from openwork.runtime.gpu.cuda import Cuda, is_on_gpu
from openwork.runtime.gpu.steps import Device, Run
from openwork.runtime.storage import Storage
from openwork.tensor.convert.convert import convert
from openwork.trace import Trace

_NARROW = 2**31 - 2**20  # values that 32-bit integers count, with room for the last block
_COUNT = Name("entries")
CHUNK = 1024  # words with a fingerprint
_PRINT = "uint64"
_KEY = "uint32"
_ODD, _SHIFT = (0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35), 15  # mix the bits of a key
_THREADS = 256


@dataclass(eq=False)
class Turned:
    """A matrix in its other orientation.

    `storage`: the matrix. `prints`: the fingerprints of the original's values, by chunk. `places`:
    where each value goes.
    """

    storage: Storage
    prints: Any
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
        words = storage.values.nbytes // min(8, storage.values.dtype.itemsize)
        prints = numbers.zeros(-(-words // CHUNK), _PRINT)  # most differ from the first ones found
        made = replace(made, dtype=storage.dtype, values=values, fill=storage.fill)
        return cls(made, prints, places, device)

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        levels = (array for level in self.storage.levels for array in level.values())
        arrays = (*levels, self.storage.values, self.prints, self.places)
        return sum(int(array.nbytes) for array in arrays)

    @cached_property
    def _moves(self) -> tuple[DeviceProgram, Any, bool]:
        """The kernel that moves values, loaded, and whether it takes 64-bit sizes."""
        values = self.storage.values
        size = values.dtype.itemsize
        wide = values.size * max(1, size // 8) >= _NARROW
        device, source = _compiled(size, self.places.dtype.name, not wide)
        return device, self.device.load(source, device.kernels), wide

    def refresh(self, values: Any) -> list[Any]:
        """Move the values that have changed; returns the launches, which can be repeated."""
        program, functions, wide = self._moves
        word = _word(values.dtype.itemsize)
        arrays = {"now": values.view(word), "moved": self.storage.values.view(word)}
        arrays |= {"prints": self.prints, "places": self.places}
        sizes = {_COUNT.name: int(arrays["now"].size)}
        run = Run(self.device, program, functions, arrays, sizes, wide)
        run.all()
        return run.launched


def turned(format: Format) -> Format:
    """The format of a matrix with the same levels, along its other mode first."""
    return Format(format.levels, format.order[::-1])


def _word(itemsize: int) -> str:
    """The unsigned integers that values are read as; of complex ones, each half."""
    return f"uint{8 * min(itemsize, 8)}"


@lru_cache(maxsize=32)
def _compiled(itemsize: int, place: str, narrow: bool) -> tuple[DeviceProgram, str]:
    program = _moving(_word(itemsize), place, max(1, itemsize // 8))
    verify(program)
    device = to_kernels(program, Trace(dumps=False))
    return device, render_cuda(device, narrow)


def _moving(word: str, place: str, words: int) -> Program:
    """The values of each chunk whose fingerprint has changed are copied to their places."""
    now, moved = (Array(name, word, Role.VALUE) for name in ("now", "moved"))
    prints = Array("prints", _PRINT, Role.VALUE)
    places = Array("places", place, Role.COORDINATE)
    chunk, at, lo, hi = (Name(name) for name in ("chunk", "entry", "chunk_lo", "chunk_hi"))
    before, found = Name("before", _PRINT), Name("found", _PRINT)
    to = places[at] if words == 1 else places[at / words] * words + at % words
    threads = Unit("thread", most=CHUNK, count=_THREADS)
    identity = Value(0, _PRINT)
    known, mixed = _mixed(now[at], at)
    sums = For(
        at, lo, hi, block(*known, Set(found, mixed, ADD)), "fingerprint of the chunk",
        by=threads, reductions=(Reduction(found, ADD, identity),), unroll=CHUNK // _THREADS,
    )  # fmt: skip
    moves = For(at, lo, hi, block(Store(moved, to, now[at])), "it has changed", by=threads)
    body = block(
        Declare(lo, chunk * CHUNK, fixed=True),
        Declare(hi, arithmetic("min", lo + CHUNK, _COUNT), fixed=True),
        Declare(before, prints[chunk], fixed=True),
        Declare(found, identity),
        sums,
        If(compare("!=", found, before), block(moves, Store(prints, chunk, found))),
    )
    chunks = (_COUNT + (CHUNK - 1)) / CHUNK
    loop = For(chunk, Value(0), chunks, body, by=Unit("block"))
    roles = [(now, "operand"), (places, "operand"), (prints, "result"), (moved, "result")]
    arguments = tuple(Argument(a, "", -1, a.name, role) for a, role in roles)
    return Program(arguments, (_COUNT,), block(loop))


def _mixed(word: Expr, at: Expr) -> tuple[list[Stmt], Expr]:
    """What a word adds to its chunk's fingerprint: each half times a 32-bit key of its place.

    Keys are not zero and differ within a chunk, and a product of two halves fits in 64 bits. So one
    changed half, or two that have changed places, always change the sum.
    """

    def apply(op: Op, *args: Expr, type: str = _KEY) -> Expr:
        return Apply(op, args, type)

    def key(value: int) -> Value:
        return Value(value, _KEY)

    def product(half: Expr, by: Expr) -> Expr:
        return apply(MUL, Convert(half, _PRINT), Convert(by, _PRINT), type=_PRINT)

    place, first, second = (Name(name, _KEY) for name in ("place", "key", "key_of_upper"))
    shifted = apply(RIGHT_SHIFT, place, key(_SHIFT))
    code: list[Stmt] = [
        Declare(place, apply(MUL, Convert(at + 1, _KEY), key(_ODD[0])), fixed=True),
        Declare(first, apply(MUL, apply(BITWISE_XOR, place, shifted), key(_ODD[1])), fixed=True),
    ]
    if word.type != _PRINT:
        return code, product(word, first)
    whole = Name("word", _PRINT)
    upper = apply(RIGHT_SHIFT, whole, Value(32, _PRINT), type=_PRINT)
    code += [
        Declare(whole, word, fixed=True),
        Declare(second, apply(MUL, first, key(_ODD[2])), fixed=True),
    ]
    lower = product(Convert(whole, _KEY), first)
    return code, apply(ADD, lower, product(Convert(upper, _KEY), second), type=_PRINT)
