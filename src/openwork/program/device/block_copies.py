"""Private copies of a result for GPU blocks that add to the same entries; a kernel combines them.

    for (i = lo; i < hi; i++) body   [block; copies of array]
 => all elements of parts = identity;
    for (part = 0; part < P; part++)   [block]
      for (round = 0; lo + part + round * P < hi; round++) body, on the copy of `part`
    for (n = 0; n < count; n++) for (part = 0; part < P; part++) array[n] op= parts[part][n];

The copies are combined in order, so the result does not depend on the order of the blocks.
"""

from __future__ import annotations

from typing import cast

from openwork.errors import ScheduleError
from openwork.loops.fresh import take_name
from openwork.program import nodes as p
from openwork.program.elements import combine
from openwork.program.nodes import (
    Allocate,
    Array,
    Declare,
    Expr,
    For,
    Load,
    Name,
    Store,
    Unit,
    Value,
    arithmetic,
    block,
)
from openwork.tree import Node, map_children, replace, walk

_MOST = 256  # blocks with copies, at most
_MOST_ELEMENTS = 1 << 26  # of all copies together


def with_block_copies(program: p.Program) -> p.Program:
    """`program` with private copies for the blocks that need them."""
    if not any(map(_has_copies, walk(program.body))):
        return program
    taken = set(p.names_in(program.body))
    body = block(*(_combined(s, taken) for s in program.body.body))
    if any(map(_has_copies, walk(body))):
        raise ScheduleError(
            "blocks add to private copies, but code before them decides whether they run",
            code="E307",
            hint="use Atomics in place of Temporary",
        )
    return replace(program, body=body)


def _has_copies(node: Node) -> bool:
    return isinstance(node, For) and isinstance(node.by, Unit) and bool(node.by.copies)


def _combined(s: p.Stmt, taken: set[str]) -> p.Stmt:
    match s:
        case For(by=Unit() as by) if by.copies:
            return _in_parts(s, by, taken)
    return s


def _in_parts(loop: For, by: Unit, taken: set[str]) -> p.Block:
    part, at = (Name(take_name(base, taken)) for base in ("part", "part_at"))
    elements: Expr = Value(1)
    for copy in by.copies:
        elements = elements + copy.count
    room = arithmetic("max", Value(_MOST_ELEMENTS) / elements, Value(1))
    # A number that the host knows, however many iterations there are.
    parts = Name(take_name("parts", taken))
    known = arithmetic("min", Value(_MOST), room)
    before: list[p.Stmt] = [Declare(parts, known, fixed=True)]
    after: list[p.Stmt] = []
    body: Node = loop.body
    for copy in by.copies:
        name = take_name(f"{copy.array.stem}_parts", taken)
        own = Array(name, copy.array.type, p.Role.PARTIAL)
        body = _moved(body, copy.array, own, part * copy.count)
        fill = For(at, Value(0), parts * copy.count, block(Store(own, at, copy.identity)))
        before += [Allocate(own, parts * copy.count), replace(fill, simd=True)]
        value, op = combine(copy.op, Load(copy.array, at), Load(own, part * copy.count + at))
        each = For(part, Value(0), parts, block(Store(copy.array, at, value, op)))
        combined = For(at, Value(0), copy.count, block(each), "the parts of all blocks")
        after += [replace(combined, simd=True)]
    rounds = Name(take_name("part_round", taken))
    inner = block(
        Declare(loop.var, loop.begin + part + rounds * parts, fixed=True),
        cast(p.Stmt, body),
    )
    count = (loop.end - loop.begin - part + (parts - 1)) / parts  # zero or negative past the end
    again = For(rounds, Value(0), count, inner)
    by = replace(by, copies=(), most=_MOST)
    shared = replace(loop, var=part, begin=Value(0), end=parts, body=block(again), by=by)
    return block(*before, shared, *after)


def _moved(node: Node, array: Array, own: Array, first: Expr) -> Node:
    """Redirect every access of `array` to the copy that begins at `first`."""
    node = map_children(node, lambda n: _moved(n, array, own, first))
    match node:
        case Load(array=a, index=index) if a == array:
            return Load(own, first + index)
        case Store(array=a, index=index) if a == array:
            return replace(node, array=own, index=first + index)
    return node
