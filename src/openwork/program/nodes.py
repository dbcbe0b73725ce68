"""The program: a small imperative representation that C and CUDA are written from.

Types are names of element types ("int64", "float32", "bool", ...). Index arithmetic is int64
throughout and cannot overflow for tensors that fit in memory; arithmetic on elements is an `Apply`
of an operator of the algebra, in the operator's own types. Names are ours, never the user's.

    e ::= name | number | array[e] | e + e | ... | op(e, ...) | (type) e | helper(e, ...)
    s ::= type name = e; | name = e; | array[e] = e; | array[e] op= e; | { s ... }
        | for (...) s | while (e) s | break; | if (e) s else s | allocate, grow, free
        | helper(e, ...); | fail
        | shelf, put, take
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from openwork.algebra.operators import Op
from openwork.program.expressions import (
    INDEX as INDEX,
    Apply as Apply,
    Array as Array,
    Binary as Binary,
    Convert as Convert,
    Expr as Expr,
    Helper as Helper,
    Load as Load,
    Name as Name,
    Role as Role,
    Value as Value,
    arithmetic as arithmetic,
    compare as compare,
    every as every,
    expr as expr,
)
from openwork.tree import Node


class Stmt(Node):
    """Something done."""


@dataclass(frozen=True)
class Block(Stmt):
    """Statements in order."""

    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class Declare(Stmt):
    """`type name = value;` a new scalar, `fixed` if it never changes."""

    name: Name
    value: Expr
    fixed: bool = False


@dataclass(frozen=True)
class Set(Stmt):
    """`name = value;`, or `name = op(name, value);`"""

    name: Name
    value: Expr
    op: Op | None = None


@dataclass(frozen=True)
class Store(Stmt):
    """`array[index] = value;`, or `array[index] = op(array[index], value);`

    `atomic`: no other thread sees it half done, so that all may update one place; any operator
    will do, also a user's own. `stream`: nobody reads it soon, so it need not enter the cache.
    """

    array: Array
    index: Expr
    value: Expr
    op: Op | None = None
    atomic: bool = False
    stream: bool = False


@dataclass(frozen=True)
class Balance(Node):
    """Cut a loop so that each thread has as many positions below it: `pos` says how many.

    An iteration stands for `length` runs of `pos`, and all together for `count` of them; None: for
    one each.
    """

    pos: Array
    length: int = 1
    count: Expr | None = None


@dataclass(frozen=True)
class Reduction(Node):
    """The loop does nothing with the outer scalar `name` but `name = op(name, value);`

    Of a parallel loop each thread has its own, which starts at `identity`; after the loop they
    are combined into the outer one in the order of the threads. With a `width`, `name` is that of
    an array of so many elements in registers, which start at `identity` before the loop already.
    """

    name: Name
    op: Op
    identity: Value
    width: int = 0


@dataclass(frozen=True)
class Copy(Node):
    """Each thread has `count` elements of its own in place of `array`, all `identity` at first.

    After the loop they are combined in the order of the threads: `array[n] = op(array[n], own[n])`.
    A single thread works on `array` itself.
    """

    array: Array
    count: Expr
    op: Op
    identity: Value


@dataclass(frozen=True)
class Threads(Node):
    """Threads of a CPU share the iterations of a loop, in contiguous runs.

    The runs are cut evenly or by `balance`. With a `chunk` threads take the next so many iterations
    whenever they are done. Each thread first does `private` (allocations), at last `cleanup`.
    """

    balance: Balance | None = None
    private: tuple[Stmt, ...] = ()
    cleanup: tuple[Stmt, ...] = ()
    copies: tuple[Copy, ...] = ()
    chunk: int | None = None


@dataclass(frozen=True)
class Unit(Node):
    """Each iteration of a loop is for one unit of a GPU: a "block", "warp" or "thread".

    Each unit first does `private`. `most`: there are at most so many iterations, where that is a
    constant. `count`: how many units to have, None for as many as there are iterations, or usual.
    What groups of `group` threads store atomically, they combine first, by a `reduction` that is
    "parallel" or by "segment". Blocks may have `copies`, and `resident`: so many threads are to fit
    a multiprocessor.
    """

    kind: str
    most: int | None = None
    count: int | None = None
    group: int = 0
    reduction: str = ""
    resident: int = 0
    private: tuple[Stmt, ...] = ()
    copies: tuple[Copy, ...] = ()


@dataclass(frozen=True)
class For(Stmt):
    """`for (var = begin; var < end; var++) body`

    `by`: who shares the iterations, None for one thread. `simd`: no iteration depends on another.
    Both may be said of one loop. `reductions`, and the copies of who shares it, are the exceptions:
    what is combined.
    `unrolled`: the number of iterations is constant, and all are written out; `unroll`: how many to
    write out, a hint. `polls`: after how many iterations, a power of two, to look at the
    interrupt flag; 0 for never. `step`: in place of 1. `once`: there is one iteration at most.
    """

    var: Name
    begin: Expr
    end: Expr
    body: Stmt
    comment: str = ""
    by: Threads | Unit | None = None
    simd: bool = False
    unrolled: bool = False
    unroll: int = 0
    polls: int = 0
    reductions: tuple[Reduction, ...] = ()
    step: Expr | None = None
    once: bool = False

    @property
    def unit(self) -> str:
        """The unit of a GPU that takes an iteration; "" if the loop is not for a GPU's units."""
        return self.by.kind if isinstance(self.by, Unit) else ""


@dataclass(frozen=True)
class While(Stmt):
    """`while (condition) body`

    `polls`: look at the interrupt flag in each iteration. `brief`: there are few iterations as a
    rule, and vectors or a call to copy them would cost more than they save.
    """

    condition: Expr
    body: Stmt
    comment: str = ""
    polls: bool = False
    unroll: int = 0
    brief: bool = False


@dataclass(frozen=True)
class Break(Stmt):
    """Leave the innermost loop, which is neither parallel nor simd."""


@dataclass(frozen=True)
class If(Stmt):
    """`if (condition) then else otherwise`"""

    condition: Expr
    then: Stmt
    otherwise: Stmt | None = None


@dataclass(frozen=True)
class Local(Stmt):
    """A small array of constant size, meant to stay in registers.

    `apiece`: every thread has its own, also where threads of a GPU work on the same.
    """

    array: Array
    count: int
    apiece: bool = False


@dataclass(frozen=True)
class Allocate(Stmt):
    """A new local array of `count` elements, all zero bytes if `zeroed`.

    `kept`: it belongs to an operand, whose pattern alone decides what it will hold. It is kept with
    that under this name, and used again; "" for all other arrays.
    """

    array: Array
    count: Expr
    zeroed: bool = False
    kept: str = ""


@dataclass(frozen=True)
class Grow(Stmt):
    """Make room for `needed` elements in every array of a list, at least doubling `capacity`.

    Each array gets `capacity * per + extra` elements; new memory is zeroed where `zeroed`.
    """

    capacity: Name
    needed: Expr
    arrays: tuple[Growing, ...]


@dataclass(frozen=True)
class Growing(Node):
    """An array that grows with a list, and how many elements it has per entry."""

    array: Array
    per: Expr
    extra: int = 0
    zeroed: bool = False


@dataclass(frozen=True)
class Free(Stmt):
    """Give an array back."""

    array: Array


@dataclass(frozen=True)
class Shelf(Stmt):
    """Places for `count` arrays called `array`, which outlive the iterations that make them."""

    array: Array
    count: Expr


@dataclass(frozen=True)
class Put(Stmt):
    """Put an array on its shelf, at `number`; an empty one is left in its place."""

    array: Array
    number: Expr


@dataclass(frozen=True)
class Take(Stmt):
    """Take the array at `number` from the shelf of `array`: as that, or in place of `into`.

    `into` is an array that is empty until then.
    """

    array: Array
    number: Expr
    into: Array | None = None


@dataclass(frozen=True)
class Prefetch(Stmt):
    """Ask for the memory at `array[index]`, which will be needed soon.

    `lines`: of the cache, from there on; some may lie behind the end of the array. `gather`: nobody
    has asked for it, and processors that look far ahead by themselves are better off without.
    `written`: nobody reads it before it is written.
    """

    array: Array
    index: Expr
    lines: int = 1
    gather: bool = False
    written: bool = False


@dataclass(frozen=True)
class Fail(Stmt):
    """Give up with a status, and hand nothing back."""

    status: int


@dataclass(frozen=True)
class Do(Stmt):
    """A helper called for its effect."""

    call: Helper


@dataclass(frozen=True)
class Comment(Stmt):
    """A line for the reader."""

    text: str


def block(*parts: Stmt | None) -> Block:
    """Statements in order; nested blocks are flattened and None is left out."""
    body: list[Stmt] = []
    for part in parts:
        if isinstance(part, Block):
            body.extend(part.body)
        elif part is not None:
            body.append(part)
    return Block(tuple(body))


def in_order(
    body: Block, known: dict[str, Expr], change: Callable[[Node, dict[str, Expr]], Node]
) -> Block:
    """`body` with each statement changed, which is told what the names before it stand for."""
    known = dict(known)
    done: list[Stmt] = []
    for s in body.body:
        if isinstance(s, Declare) and s.fixed:
            known[s.name.name] = s.value
        done.append(cast(Stmt, change(s, known)))
    return block(*done)


@dataclass(frozen=True)
class Argument(Node):
    """An array that comes with the call: which tensor's, which level's (-1: values), which one.

    `role` is "operand", "result" (written in place) or "made" (allocated by the kernel and handed
    back, with `count` elements).
    """

    array: Array
    tensor: str
    level: int
    name: str
    role: str
    count: Expr | None = None


@dataclass(frozen=True)
class Program(Node):
    """A kernel: the arrays and sizes it is called with, and what it does."""

    arguments: tuple[Argument, ...]
    sizes: tuple[Name, ...]  # extents, in the order of `size_vars`
    body: Block
    title: str = ""
