"""The least or the greatest element in several ranges, in place of one chain that waits for itself.

    for (i = begin; i < end; i++) r = max(r, A[i]);    in vectors
    =>
    rest = begin;
    if (LEAST <= end - begin) {
      each = (end - begin) / RANGES;  r1 = -inf;  ...
      for (i = begin; i < begin + each; i++) { r = max(r, A[i]);  r1 = max(r1, A[i + each]);  ... }
      r = max(r, r1);  ...
      rest = begin + each * RANGES;
    }
    for (i = rest; i < end; i++) r = max(r, A[i]);

Where NaN wins, a comparison is three instructions that wait for each other. An extreme does not
depend on the order of comparisons. A short run has no vectors to spare.
"""

from __future__ import annotations

from typing import cast

from openwork.algebra.types import is_float
from openwork.loops.fresh import take_name
from openwork.program import nodes as p
from openwork.program.nodes import Array, Declare, Name, Set, Value, block, compare
from openwork.tree import Node, bottom_up, replace, walk

RANGES = 4
LEAST = 256  # iterations that are worth so many ranges


def in_ranges(program: p.Program) -> p.Program:
    """`program` with long loops for an extreme in vectors cut into ranges that run together."""
    taken = {n.name for n in walk(program) if isinstance(n, (Name, Array))}

    def cut(node: Node) -> Node | None:
        update = _extreme(node) if isinstance(node, p.For) else None
        return None if update is None else _cut(cast(p.For, node), update, taken)

    body = cast(p.Block, bottom_up(cut)(program.body))
    return program if body is program.body else replace(program, body=body)


def _extreme(loop: p.For) -> Set | None:
    """The update of a vector loop that does nothing but look for an extreme."""
    if not loop.simd or loop.by or loop.step or len(loop.reductions) != 1:
        return None
    (reduction,) = loop.reductions
    match p.block(loop.body).body:
        case (Set(name=name, op=op) as update,) if (
            op is not None and op.idempotent and name == reduction.name and is_float(name.type)
        ):
            return update
    return None


def _cut(loop: p.For, update: Set, taken: set[str]) -> p.Block:
    (reduction,) = loop.reductions
    var, best, count = loop.var, reduction.name, loop.end - loop.begin
    rest, each = (Name(take_name(f"{var.name}_{end}", taken)) for end in ("rest", "each"))
    others = [replace(best, name=take_name(f"{best.name}{n}", taken)) for n in range(1, RANGES)]

    def further(n: int, other: Name) -> Set:
        moved = bottom_up(lambda node: var + each * n if node == var else None)
        return replace(update, name=other, value=cast(p.Expr, moved(update.value)))

    together = replace(
        loop,
        end=loop.begin + each,
        body=block(update, *(further(n, other) for n, other in enumerate(others, 1))),
        comment=f"{RANGES} ranges at once",
        reductions=(reduction, *(replace(reduction, name=other) for other in others)),
    )
    ranges = block(
        Declare(each, count / RANGES, fixed=True),
        *(Declare(other, reduction.identity) for other in others),
        together,
        *(Set(best, other, update.op) for other in others),
        Set(rest, loop.begin + each * RANGES),
    )
    return block(
        Declare(rest, loop.begin),
        p.If(compare("<=", Value(LEAST), count), ranges),
        replace(loop, begin=rest),
    )
