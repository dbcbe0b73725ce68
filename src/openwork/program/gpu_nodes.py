"""Programs for a GPU: kernels that run on it, and what the host does around them.

The host's part is data, too: declarations of sizes, allocations, checks and launches, in a block
that the runtime follows step by step. A kernel's body is a program like any other, in which units
no longer appear: every thread of the grid runs it, and loops begin and step by its number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from openwork.algebra.operators import Op
from openwork.program import nodes as p
from openwork.program.nodes import Array, Expr, Name, Stmt, Value
from openwork.tree import Node

# What a thread knows about itself.
BLOCK_X, BLOCK_Y = Name("blockIdx.x"), Name("blockIdx.y")
GRID_X, GRID_Y = Name("gridDim.x"), Name("gridDim.y")
THREAD = Name("threadIdx.x")
BUILTIN = frozenset(n.name for n in (BLOCK_X, BLOCK_Y, GRID_X, GRID_Y, THREAD))
WARP, LANE = Name("warp"), Name("lane")  # which unit of a block a thread is in, and where

STATUS = Array("status", "int32")  # one number: how the call ended
LENGTHS = Array("lengths", "int64")  # the lengths of the arrays that were made
MOST_SHARED = 32 << 10  # bytes of shared memory that workspaces of a kernel may take
VECTOR = 16  # bytes that a thread loads at once


@dataclass(frozen=True)
class Address(Expr):
    """`&array[index]`: an array from an element on, for a helper."""

    array: Array
    index: Expr

    @property
    def type(self) -> str:  # type: ignore[override]
        """The element type of the array."""
        return self.array.type


@dataclass(frozen=True)
class Shared(Stmt):
    """An array that the threads of a block share."""

    array: Array
    count: int


@dataclass(frozen=True)
class Barrier(Stmt):
    """Wait for the other threads: of the block, or of the unit of `lanes` neighbours."""

    lanes: int | None = None


@dataclass(frozen=True)
class Scan(Stmt):
    """`array[n] += array[n - 1];` for all of its elements from the second on, in order."""

    array: Array


@dataclass(frozen=True)
class Ask(Stmt):
    """`const name = array[index];` on the host for each name, which waits for the GPU to know it.

    The names are those of elements from `index` on.
    """

    names: tuple[Name, ...]
    array: Array
    index: Expr


@dataclass(frozen=True)
class ByOne(Stmt):
    """What the first of those threads does that come here together."""

    body: p.Block


@dataclass(frozen=True)
class Together(Stmt):
    """`name` of all threads combined by `op`, for each of them.

    Of `lanes` neighbours, or of all `across` units of a block, `lanes` threads each, where the
    threads of a unit have the same.
    """

    name: Name
    op: Op
    identity: Value
    lanes: int
    across: int = 0


@dataclass(frozen=True)
class Combine(Stmt):
    """`array[index] = op(array[index], value);` by `group` neighbours together, that all come here.

    "parallel": all have the same index, and one of them stores. "segment": each run of neighbours
    with the same index has one that stores. A negative index stores nothing.
    """

    array: Array
    index: Name
    value: Name
    op: Op
    group: int
    reduction: str
    identity: Value
    base: Expr | None = None  # where the array of this unit begins


@dataclass(frozen=True)
class StreamLoad(p.Load):
    """An element that is not needed again soon, and need not stay in the cache."""


@dataclass(frozen=True)
class LoadVector(Stmt):
    """`count` neighbouring elements from `array[index]` on, into a vector."""

    vector: Array
    array: Array
    index: Expr
    count: int


@dataclass(frozen=True)
class StoreVector(Stmt):
    """A vector of `count` elements to `array[index]` and its neighbours; or added to them."""

    vector: Array
    array: Array
    index: Expr
    count: int
    added: bool = False  # by vector atomics


@dataclass(frozen=True)
class MakeVector(Stmt):
    """A vector of `count` elements that is filled one by one."""

    vector: Array
    count: int


@dataclass(frozen=True)
class Scratch(Node):
    """Memory that each unit of a kernel's grid has `count` elements of."""

    array: Array
    count: Expr
    unit: str
    zeroed: bool = False


@dataclass(frozen=True)
class Kernel(Node):
    """A function of the GPU.

    A block has `threads` threads: `warps` units of `lanes` each. `grid`: how many blocks there are
    work for, in two dimensions; None where only the GPU knows. `resident`: so many threads are to
    fit a multiprocessor, if not 0. `scalars`, `arrays`: its arguments, of which it writes to
    `written`.
    """

    name: str
    body: p.Block
    warps: int
    lanes: int
    grid: tuple[Expr | None, Expr | None]
    scratch: tuple[Scratch, ...] = ()
    resident: int = 0
    scalars: tuple[Name, ...] = ()
    arrays: tuple[Array, ...] = ()
    written: frozenset[str] = frozenset()

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return self.warps * self.lanes


@dataclass(frozen=True)
class Launch(Stmt):
    """Run the kernel of this name, once for each thread of its grid."""

    kernel: str


@dataclass(frozen=True)
class DeviceProgram(Node):
    """A program of which loops run on a GPU.

    `rooms`: how much memory the host gives to lists that grow, by the name of their capacity.
    `notes`: what was decided, for the reader.
    """

    program: p.Program
    host: p.Block
    kernels: tuple[Kernel, ...]
    rooms: tuple[Name, ...] = ()
    notes: tuple[str, ...] = ()

    @cached_property
    def named(self) -> dict[str, Kernel]:
        """The kernels by name."""
        return {kernel.name: kernel for kernel in self.kernels}

    @cached_property
    def reports(self) -> bool:
        """Whether a kernel may fail, so that its status must be looked at."""
        return any(STATUS in kernel.arrays for kernel in self.kernels)
