"""Programs for a GPU: kernels, and the host's steps around them.

The host's part is data, too: a block of size declarations, allocations, checks and launches, which
the runtime executes step by step. A kernel's body is an ordinary program without units: every
thread of the grid executes it, and loops begin at the thread's index and stride by the number of
threads.
"""

from __future__ import annotations

from functools import cached_property

from openwork.algebra.operators import Op
from openwork.frozen import frozen
from openwork.program import nodes as p
from openwork.program.nodes import Array, Expr, Name, Stmt, Value
from openwork.tree import Node

# The coordinates of a thread.
BLOCK_X, BLOCK_Y = Name("blockIdx.x"), Name("blockIdx.y")
GRID_X, GRID_Y = Name("gridDim.x"), Name("gridDim.y")
THREAD = Name("threadIdx.x")
BUILTIN = frozenset(n.name for n in (BLOCK_X, BLOCK_Y, GRID_X, GRID_Y, THREAD))
WARP, LANE = Name("warp"), Name("lane")  # the warp within the block, and the lane within the warp

STATUS = Array("status", "int32")  # one number: the status of the call
LENGTHS = Array("lengths", "int64")  # the lengths of the arrays that the kernel allocated
MOST_SHARED = 32 << 10  # bytes of shared memory for the workspaces of a kernel, at most
VECTOR = 16  # bytes of a vector load


@frozen(repr=False)
class Address(Expr):
    """`&array[index]`: the array from this element on, as an argument of a helper."""

    array: Array
    index: Expr

    @property
    def type(self) -> str:  # type: ignore[override]
        """The element type of the array."""
        return self.array.type


@frozen(repr=False)
class Shared(Stmt):
    """An array in shared memory."""

    array: Array
    count: int


@frozen(repr=False)
class Barrier(Stmt):
    """A barrier for the threads of the block, or for `lanes` adjacent threads."""

    lanes: int | None = None


@frozen(repr=False)
class Scan(Stmt):
    """An inclusive scan: `array[n] += array[n - 1];` for every element from the second on."""

    array: Array


@frozen(repr=False)
class Ask(Stmt):
    """`const name = array[index];` on the host, which waits for the GPU to compute it.

    Several names read consecutive elements from `index` on.
    """

    names: tuple[Name, ...]
    array: Array
    index: Expr


@frozen(repr=False)
class ByOne(Stmt):
    """A statement that only the first of the converged threads executes."""

    body: p.Block


@frozen(repr=False)
class Together(Stmt):
    """A reduction: every thread's `name`, combined by `op` and broadcast to all of them.

    Over `lanes` threads, each `stride` after the last, or over all `across` units of a block of
    `lanes` threads each, where the threads of a unit hold the same value. Threads of several warps
    meet in the shared memory `sums`. `whole`: the threads between those `stride` apart meet, too.
    """

    name: Name
    op: Op
    identity: Value
    lanes: int
    across: int = 0
    sums: Array | None = None
    stride: int = 1
    whole: bool = True


@frozen(repr=False)
class Combine(Stmt):
    """`array[index] = op(array[index], value);` combined first within `group` converged threads.

    "parallel": all threads have the same index, and one stores. "segment": one thread stores for
    each run of adjacent threads with the same index. A negative index stores nothing.
    """

    array: Array
    index: Name
    value: Name
    op: Op
    group: int
    reduction: str
    identity: Value
    base: Expr | None = None  # where this unit's part of the array begins


@frozen(repr=False)
class StreamLoad(p.Load):
    """A load of an element that is used once and need not stay in the cache."""


@frozen(repr=False)
class LoadVector(Stmt):
    """Load `count` consecutive elements, from `array[index]` on, as a vector."""

    vector: Array
    array: Array
    index: Expr
    count: int


@frozen(repr=False)
class StoreVector(Stmt):
    """Store or add a vector of `count` elements to consecutive ones from `array[index]` on."""

    vector: Array
    array: Array
    index: Expr
    count: int
    added: bool = False  # by vector atomics


@frozen(repr=False)
class MakeVector(Stmt):
    """A vector of `count` elements, filled one by one."""

    vector: Array
    count: int


@frozen(repr=False)
class Scratch(Node):
    """Global memory with `count` elements for each unit of a kernel's grid."""

    array: Array
    count: Expr
    unit: str
    zeroed: bool = False


@frozen(repr=False)
class Kernel(Node):
    """A function of the GPU.

    A block has `warps` units of `lanes` threads each. `grid`: the number of blocks with work, in
    two dimensions; None where only the GPU knows it. `resident`: the threads that should be
    resident on a multiprocessor (launch bounds), if not 0. `counters`: of the chunks that blocks
    have taken; all zero before a launch, and after it. As many blocks as can be resident take them,
    so that `grid` is the number of chunks, unless the schedule gives a number of
    `turns`. `scalars`, `arrays`: its arguments; it writes those in `written`.
    """

    name: str
    body: p.Block
    warps: int
    lanes: int
    grid: tuple[Expr | None, Expr | None]
    scratch: tuple[Scratch, ...] = ()
    resident: int = 0
    counters: tuple[Array, ...] = ()
    turns: int = 0
    scalars: tuple[Name, ...] = ()
    arrays: tuple[Array, ...] = ()
    written: frozenset[str] = frozenset()

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return self.warps * self.lanes


@frozen(repr=False)
class Launch(Stmt):
    """Launch the kernel of this name over its grid."""

    kernel: str


@frozen(repr=False)
class DeviceProgram(Node):
    """A program whose loops run on a GPU.

    `rooms`: how much memory the host allocates for growing lists, by the name of their capacity.
    `notes`: decisions, for `explain()`.
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
        """Whether a kernel may fail, so that the host must read its status."""
        return any(STATUS in kernel.arrays for kernel in self.kernels)
