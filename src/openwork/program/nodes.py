"""The program: a small imperative representation from which C and CUDA are rendered.

Types are names of element types ("int64", "float32", "bool", ...). Index arithmetic is int64
throughout and cannot overflow for tensors that fit in memory; arithmetic on elements is an `Apply`
of an operator of the algebra, in the operator's own types. No name comes from the user.

    e ::= name | number | array[e] | e + e | ... | op(e, ...) | (type) e | helper(e, ...)
    s ::= type name = e; | name = e; | array[e] = e; | array[e] op= e; | { s ... }
        | for (...) s | while (e) s | break; | if (e) s else s | allocate, grow, free
        | helper(e, ...); | fail
        | shelf, put, take
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import cast

from openwork.algebra.operators import Op
from openwork.frozen import frozen
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
    arrays_in as arrays_in,
    compare as compare,
    every as every,
    expr as expr,
    names_in as names_in,
)
from openwork.tree import Node, children


class Stmt(Node):
    """A statement."""


@frozen(repr=False)
class Block(Stmt):
    """Statements in order."""

    body: tuple[Stmt, ...]


@frozen(repr=False)
class Declare(Stmt):
    """`type name = value;` declares a scalar, `fixed` if it never changes."""

    name: Name
    value: Expr
    fixed: bool = False


@frozen(repr=False)
class Set(Stmt):
    """`name = value;`, or `name = op(name, value);`"""

    name: Name
    value: Expr
    op: Op | None = None


@frozen(repr=False)
class Store(Stmt):
    """`array[index] = value;`, or `array[index] = op(array[index], value);`

    `atomic`: other threads may update the same element; any operator works, a user-defined one too.
    `stream`: nothing reads it soon, so that the store may bypass the cache. `last`: a GPU thread's
    neighbour may go on with the same element, so that a warp may combine such updates first.
    """

    array: Array
    index: Expr
    value: Expr
    op: Op | None = None
    atomic: bool = False
    stream: bool = False
    last: bool = False


@frozen(repr=False)
class Balance(Node):
    """Partition a loop so that each thread gets equally many positions, as counted by `pos`.

    An iteration covers `length` segments of `pos`, and the whole loop `count` of them; None: one
    per iteration.
    """

    pos: Array
    length: int = 1
    count: Expr | None = None


@frozen(repr=False)
class Reduction(Node):
    """The loop only updates the outer scalar `name`: `name = op(name, value);`

    In a parallel loop each thread has a private one, which starts at `identity`; after the loop
    they are combined into the outer one in thread order. With a `width`, `name` is an array of so
    many elements in registers, of this `role`, which the code before the loop sets to `identity`.
    """

    name: Name
    op: Op
    identity: Value
    width: int = 0
    role: Role = Role.SCRATCH

    @property
    def array(self) -> Array:
        """The array, with a `width`."""
        return Array(self.name.name, self.name.type, self.role)


@frozen(repr=False)
class Copy(Node):
    """Each thread has a private copy of the `count` elements of `array`, initially `identity`.

    After the loop they are combined in thread order: `array[n] = op(array[n], own[n])`. A single
    thread works on `array` itself.
    """

    array: Array
    count: Expr
    op: Op
    identity: Value


@frozen(repr=False)
class Threads(Node):
    """CPU threads take contiguous ranges of iterations, of equal length or by `balance`.

    With a `chunk`, idle threads take the next so many iterations, only the first `turns` of them
    if that is not None. Each thread first executes
    `private` (allocations) and finally `cleanup`. With a `limit`, the body is executed once for
    each range: the loop's variable is where it begins, and `limit` where it ends.
    """

    balance: Balance | None = None
    private: tuple[Stmt, ...] = ()
    cleanup: tuple[Stmt, ...] = ()
    copies: tuple[Copy, ...] = ()
    chunk: int | None = None
    limit: Name | None = None
    turns: int | None = None


@frozen(repr=False)
class Unit(Node):
    """A GPU unit executes each iteration: a "block", "warp" or "thread".

    Each unit first executes `private`. `most`: an upper bound of the trip count, where there is a
    constant one. `count`: how many units to launch; None: derived from `most`, or the usual number.
    Groups of `group` threads combine their atomic updates first, by a "parallel" or a "segment"
    `reduction`. Only blocks have `copies`, and `resident`: the threads that should be resident on a
    multiprocessor (launch bounds), or `together`: the blocks. They have `threads` threads, if that
    is not 0. With a `chunk`, blocks take the next so many iterations, as many blocks as can be
    resident. `turns`: how many blocks there are, if not 0, whatever the trip count.
    """

    kind: str
    most: int | None = None
    count: int | None = None
    group: int = 0
    reduction: str = ""
    resident: int = 0
    chunk: int = 0
    turns: int = 0
    threads: int = 0
    together: int = 0
    private: tuple[Stmt, ...] = ()
    copies: tuple[Copy, ...] = ()


@frozen(repr=False)
class For(Stmt):
    """`for (var = begin; var < end; var++) body`

    `by`: who executes the iterations; None for one thread. `simd`: iterations are independent. A
    loop may have both; the exceptions are `reductions` and the copies of `by`, which are combined.
    `unrolled`: the trip count is constant, and the loop is fully unrolled; `unroll`: the unroll
    factor, a hint. `polls`: check the interrupt flag after so many iterations, a power of two; 0
    for never. `step`: the increment, if it is not 1. `once`: there is at most one iteration.
    `alone`: vectors are for the numbers within an iteration, not for several iterations.
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
    alone: bool = False

    @property
    def unit(self) -> str:
        """The GPU unit that executes an iteration; "" for other loops."""
        return self.by.kind if isinstance(self.by, Unit) else ""


@frozen(repr=False)
class While(Stmt):
    """`while (condition) body`

    `polls`: check the interrupt flag in each iteration. `brief`: the trip count is usually so small
    that vectorizing it, or calling a copy routine, would cost more than it saves.
    """

    condition: Expr
    body: Stmt
    comment: str = ""
    polls: bool = False
    unroll: int = 0
    brief: bool = False


@frozen(repr=False)
class Break(Stmt):
    """Leave the innermost loop, which is neither parallel nor simd."""


@frozen(repr=False)
class If(Stmt):
    """`if (condition) then else otherwise`"""

    condition: Expr
    then: Stmt
    otherwise: Stmt | None = None


@frozen(repr=False)
class Local(Stmt):
    """A small array of constant size, meant to stay in registers.

    `apiece`: every thread has its own, even where GPU threads otherwise share data.
    """

    array: Array
    count: int
    apiece: bool = False


@frozen(repr=False)
class Allocate(Stmt):
    """A new local array of `count` elements, all zero bytes if `zeroed`.

    `kept`: an inspector's result, which depends only on the pattern of an operand. It is cached
    with that operand under this name, and reused; "" for all other arrays.
    """

    array: Array
    count: Expr
    zeroed: bool = False
    kept: str = ""


@frozen(repr=False)
class Grow(Stmt):
    """Make room for `needed` elements in every array of a list, at least doubling `capacity`.

    Each array gets `capacity * per + extra` elements; new memory is zeroed where `zeroed`.
    """

    capacity: Name
    needed: Expr
    arrays: tuple[Growing, ...]


@frozen(repr=False)
class Growing(Node):
    """An array that grows with a list, and how many elements it has per entry."""

    array: Array
    per: Expr
    extra: int = 0
    zeroed: bool = False


@frozen(repr=False)
class Free(Stmt):
    """Free an array."""

    array: Array


@frozen(repr=False)
class Shelf(Stmt):
    """A shelf for `count` arrays named `array`, which outlive the iterations that make them."""

    array: Array
    count: Expr


@frozen(repr=False)
class Put(Stmt):
    """Move an array to slot `number` of its shelf, and leave an empty array in its place."""

    array: Array
    number: Expr


@frozen(repr=False)
class Take(Stmt):
    """Take the array in slot `number` from the shelf of `array`: as that, or in place of `into`.

    `into` is an array that is empty until then.
    """

    array: Array
    number: Expr
    into: Array | None = None


@frozen(repr=False)
class Prefetch(Stmt):
    """Prefetch `array[index]`, which will be needed soon.

    `lines`: the number of cache lines from there on; some may lie past the end of the array.
    `gather`: a gather that the schedule does not mention; processors that look far ahead on their
    own skip it, as they are faster without. `written`: it is written before it is read.
    """

    array: Array
    index: Expr
    lines: int = 1
    gather: bool = False
    written: bool = False


@frozen(repr=False)
class Fail(Stmt):
    """Return with a status, and without a result.

    `goes_on`: a thread of a GPU does not return, as others may wait for it; what must not happen
    after a failure stands in the other branch of a condition.
    """

    status: int
    goes_on: bool = False


@frozen(repr=False)
class Do(Stmt):
    """A helper called for its side effect."""

    call: Helper


@frozen(repr=False)
class Comment(Stmt):
    """A comment in the generated code."""

    text: str


def block(*parts: Stmt | None) -> Block:
    """Statements in order; nested blocks are flattened and None is dropped."""
    body: list[Stmt] = []
    for part in parts:
        if isinstance(part, Block):
            body.extend(part.body)
        elif part is not None:
            body.append(part)
    return Block(tuple(body))


def statements(node: Node) -> tuple[Stmt, ...]:
    """The statements of `node`, parents first; expressions, most of a program, are not entered.

    Cached on the node, as `walk` does.
    """
    known: tuple[Stmt, ...] | None = node.__dict__.get("_statements")
    if known is None:
        waiting = [node]
        seen: list[Stmt] = []
        while waiting:
            each = waiting.pop()
            if isinstance(each, Stmt):
                seen.append(each)
            waiting += [n for n in children(each)[::-1] if not isinstance(n, (Expr, Array))]
        node.__dict__["_statements"] = known = tuple(seen)
    return known


def in_order(
    body: Block, known: dict[str, Expr], change: Callable[[Node, dict[str, Expr]], Node]
) -> Block:
    """`body` with each statement rewritten, given the values of the names declared before it."""
    known = dict(known)
    done: list[Stmt] = []
    for s in body.body:
        if isinstance(s, Declare) and s.fixed:
            known[s.name.name] = s.value
        done.append(cast(Stmt, change(s, known)))
    return block(*done)


@frozen(repr=False)
class Argument(Node):
    """An array argument: which tensor's, which level's (-1: values), which one.

    `role` is "operand", "result" (written in place) or "made" (allocated by the kernel and
    returned, with `count` elements).
    """

    array: Array
    tensor: str
    level: int
    name: str
    role: str
    count: Expr | None = None


@frozen(repr=False)
class Program(Node):
    """A kernel: its array and size arguments, and its body.

    `words`: what the user calls the names in its title and comments (`program/remarks.py`).
    """

    arguments: tuple[Argument, ...]
    sizes: tuple[Name, ...]  # extents, in the order of `size_vars`
    body: Block
    title: str = ""
    words: Mapping[str, str] = field(default_factory=dict, compare=False)
