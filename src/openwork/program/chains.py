"""Several chains of additions in place of one that waits for itself.

    for (p = begin; p < end; p++) { j = crd[p];  sums[...] += A[p] * the vector at B[j]; }
    =>
    rest = begin;
    if (LEAST <= end - begin) {
      sums[1] = 0;  ...
      rest = end - (end - begin) % CHAINS;
      for (batch = 0; batch < (end - begin) / CHAINS; batch++)
        for (chain = 0; chain < CHAINS; chain++) {
          p = begin + batch * CHAINS + chain;  ... into sums[chain] }
      sums[0] += sums[1];  ...
    }
    for (p = rest; p < end; p++) { into sums[0] }

An addition begins when the one before has ended, some cycles later. With one vector of sums nothing
else fills that time; with more of them the processor is busy anyway. A short run ends sooner in one
chain, whose end it predicts more often. The order of the additions depends on the run's length and
on nothing else. Tiles that are left over of wider ones, in a `while`, are not worth the text.
"""

from __future__ import annotations

from typing import cast

from openwork.algebra.operators import ADD
from openwork.loops.fresh import take_name
from openwork.program import nodes as p
from openwork.program.nodes import Array, Declare, Name, Stmt, Store, Value, block, compare
from openwork.program.vectorize import WIDE, InVectors
from openwork.tree import Node, bottom_up, map_children, replace, walk

CHAINS = 4
LEAST = 16  # entries of a run that is worth so many chains
_SIZES = {"float32": 4, "float64": 8}


def in_chains(program: p.Program) -> p.Program:
    """`program` with long runs summed in several chains, where sums fill no more than a vector."""
    if not any(isinstance(statement, InVectors) for statement in p.statements(program.body)):
        return program
    pass_ = _Pass(program)
    body = pass_.node(program.body)
    if not pass_.chained:
        return program

    def widened(node: Node) -> Node | None:
        if isinstance(node, p.Local) and node.array.name in pass_.chained:
            return replace(node, count=CHAINS * node.count)
        return None

    return replace(program, body=cast(p.Block, bottom_up(widened)(body)))


class _Pass:
    """Rewrites loops; `chained`: the arrays that got more chains of sums."""

    def __init__(self, program: p.Program) -> None:
        self.chained: set[str] = set()
        self._names = {n.name for n in walk(program) if isinstance(n, (Name, Array))}

    def node(self, node: Node) -> Node:
        """`node`, rewritten."""
        if isinstance(node, p.While):
            return node
        made = map_children(node, self.node)
        sums = _summed(made) if isinstance(made, p.For) else None
        return made if sums is None else self._batched(cast(p.For, made), sums)

    def _batched(self, loop: p.For, sums: InVectors) -> p.Block:
        array, count = cast(Store, sums.body).array, sums.count
        self.chained.add(array.name)
        rest, batch, chain = (
            Name(take_name(f"{loop.var.name}_{end}", self._names))
            for end in ("rest", "batch", "chain")
        )
        entries = loop.end - loop.begin
        begins = Declare(loop.var, loop.begin + batch * CHAINS + chain, fixed=True)
        chains = p.For(
            chain, Value(0), Value(CHAINS), block(begins, _into(loop.body, array, chain * count)),
            unrolled=True,
        )  # fmt: skip
        batches = p.For(
            batch, Value(0), entries / CHAINS, chains, f"in {CHAINS} chains of additions",
            polls=loop.polls,
        )  # fmt: skip

        def each(store: Store) -> InVectors:
            return replace(sums, body=store)

        at = sums.var
        nothing = Value(-0.0, array.type)  # which a sum does not keep
        in_chains = block(
            *(each(Store(array, at + n * count, nothing)) for n in range(1, CHAINS)),
            p.Set(rest, loop.end - entries % CHAINS),
            batches,
            *(
                each(Store(array, at + n * count, array[at + (n + half) * count], ADD))
                for half in _halves(CHAINS)
                for n in range(half)
            ),
        )
        return block(
            Declare(rest, loop.begin),
            p.If(compare("<=", Value(LEAST), entries), in_chains),
            replace(loop, begin=rest),
        )


def _halves(count: int) -> list[int]:
    """Half of a power of two, half of that, and so on to 1."""
    return [1 << n for n in reversed(range(count.bit_length() - 1))]


def _into(body: Stmt, array: Array, first: p.Expr) -> Stmt:
    """`body` with another chain's sums, which begin at `first`."""

    def moved(node: Node) -> Node | None:
        if isinstance(node, Store) and node.array == array:
            return replace(node, index=first + node.index)
        return None

    return cast(Stmt, bottom_up(moved)(body))


def _summed(loop: p.For) -> InVectors | None:
    """The sums of a loop that does nothing else, if they fill no more than a vector."""
    if loop.by or loop.simd or loop.unrolled or loop.unroll or loop.step or loop.reductions:
        return None
    if loop.once or isinstance(loop.end, Value):
        return None
    found: list[InVectors] = []
    for statement in loop.body.body if isinstance(loop.body, p.Block) else (loop.body,):
        match statement:
            case InVectors():
                found.append(statement)
            case Declare(fixed=True) | p.Comment() | p.Prefetch():
                continue
            case p.If(otherwise=None) if all(
                isinstance(each, (Declare, p.Prefetch, p.If, p.Block, p.Comment))
                for each in p.statements(statement)
            ):
                continue
            case _:
                return None
    if len(found) != 1:
        return None
    (sums,) = found
    match p.block(sums.body).body:
        case (Store(array=array, index=index, op=op) as store,) if (
            array.vectors and index == sums.var and op is not None and op.adds
        ):
            size = sums.count * _SIZES[array.type]
            alone = not any(isinstance(n, p.Load) and n.array == array for n in walk(loop.body))
            return replace(sums, body=store) if size <= WIDE and alone else None
    return None
