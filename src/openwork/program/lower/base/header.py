"""The head of a counted loop: which unit executes its iterations, and how races are resolved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from openwork.algebra.operators import OR, Op
from openwork.errors import InternalError, ScheduleError
from openwork.frozen import frozen
from openwork.index.nodes import Access, TensorVar
from openwork.loops.nodes import (
    Assign,
    Forall,
    OutputRaceStrategy,
    ParallelUnit,
    Sequence as Then,
    Stmt,
    Tag,
    Where,
)
from openwork.program import nodes as p
from openwork.program.lower.base.context import Context
from openwork.program.lower.base.ranges import Range
from openwork.program.lower.base.scope import Scope, Sharing
from openwork.program.lower.base.workspace import Workspace
from openwork.program.nodes import Name, Value
from openwork.tree import Node, bottom_up, replace, walk

# Loops of at most so many iterations are fully unrolled when the schedule unrolls them.
_MOST_WRITTEN_OUT = 256
# Rows of a matrix, and elements, that take no noticeable time. Powers of two.
FEW, _ELEMENTS = 512, 8192


_UNITS = {
    ParallelUnit.GPUBlock: "block",
    ParallelUnit.GPUWarp: "warp",
    ParallelUnit.GPUThread: "thread",
    ParallelUnit.GPUGroup: "thread",
}
_COMBINED = (OutputRaceStrategy.Temporary, OutputRaceStrategy.ParallelReduction)


@frozen
class Header:
    """A loop `for (counter = lo; counter < hi; counter++)`, which may be parallel.

    `scope` is that of the body. `before` are the workspaces of the parallel loop that come before
    this loop.
    """

    ctx: Context
    loop: Forall
    counter: Name
    range: Range
    scope: Scope
    reductions: tuple[p.Reduction, ...]
    copies: tuple[p.Copy, ...]
    before: tuple[Workspace, ...]

    @staticmethod
    def of(ctx: Context, loop: Forall, counter: Name, range: Range, scope: Scope) -> Header:
        """The head of `loop`, with the scope of its body."""
        if loop.tag is None:
            return Header(ctx, loop, counter, range, scope, (), (), ())
        reductions, copies, atomic = _races(ctx, loop, scope)
        if loop.tag.unit is ParallelUnit.CPUThread:
            sharing = replace(scope.sharing, parallel=True, atomic=scope.sharing.atomic | atomic)
            scope = replace(scope, sharing=sharing)
        if loop.tag.unit.on_gpu:
            racing = scope.sharing.racing | ignored(ctx, loop, scope)
            within = scope.sharing.thread or _UNITS[loop.tag.unit] == "thread"
            atomic |= scope.sharing.atomic
            scope = replace(scope, sharing=Sharing(True, atomic, racing, thread=within))
        before, ctx.inside = tuple(ctx.inside), []
        return Header(ctx, loop, counter, range, scope, reductions, copies, before)

    def finish(
        self,
        body: p.Block,
        comment: str = "",
        counted: p.Balance | None = None,
        simd: bool = False,
        run: bool = False,
    ) -> p.For:
        """The loop around `body`.

        `counted`: the work of each iteration. `simd`: iterations are known to be independent.
        `run`: it iterates over a segment of stored entries.
        """
        polls = self._polls(body, run)
        lo, hi = self.range.lo, self.range.hi
        made = p.For(self.counter, lo, hi, body, comment, simd=simd, polls=polls)
        tag = self.loop.tag
        if tag is not None:
            private, self.ctx.inside = self.ctx.inside, list(self.before)
            valued = not self.scope.counting
        if tag is not None and tag.unit is ParallelUnit.CPUVector:
            # A loop that is cloned has its workspaces once.
            self.ctx.inside += [work for work in private if work not in self.ctx.inside]
        if tag is not None and tag.unit is ParallelUnit.CPUThread:
            threads = p.Threads(
                balance=counted if tag.chunk is None else None,
                private=tuple(s for work in private for s in work.setup(valued)),
                cleanup=tuple(s for work in private for s in work.cleanup(valued)),
                copies=self.copies,
                chunk=tag.chunk,
                turns=tag.turns,
            )
            made = replace(made, by=threads, reductions=self.reductions)
        elif tag is not None and tag.unit.on_gpu:
            count = self.range.count
            unit = p.Unit(
                _UNITS[tag.unit],
                most=count.fixed or count.most or _constant(self.ctx.names.extent(self.loop.var)),
                group=tag.group_size or 0,
                reduction=tag.reduction or "",
                resident=tag.resident or 0,
                chunk=tag.chunk or 0,
                turns=tag.turns or 0,
                threads=tag.threads or 0,
                together=tag.blocks or 0,
                private=tuple(s for work in private for s in work.setup(valued)),
                copies=self.copies if _has_copies(tag) else (),
            )
            made = replace(made, by=unit, reductions=self.reductions, simd=False, polls=0)
        elif tag is not None and _vectorizes(self.loop.body, unpolled := _without_polls(body)):
            made = replace(made, body=unpolled, simd=True, reductions=self.reductions)
        return self._unrolled(made)

    def _polls(self, body: p.Block, run: bool) -> int:
        """How many iterations to run between two checks of the interrupt flag.

        Inner loops are usually so short that a check would cost a few percent. So an inner loop
        checks the flag only if it is known to be long, and an outer one if the whole nest takes
        long.
        """
        polls, inner = polls_of(self.ctx, self.loop), self.scope.depth > 1
        most = self.range.count.most if self.range.count.fixed is None else self.range.count.fixed
        if self.ctx.on_gpu:
            return 0 if inner or polls == _ELEMENTS else polls
        if not inner and polls < _ELEMENTS:
            return polls
        if polls < _ELEMENTS and any(map(_is_open, walk(body))):
            short = most is not None and most <= FEW
            return polls if self.ctx.names.takes_long and not short else 0
        known = self.ctx.provenance.underived(self.loop.var)
        long = any(self.ctx.names.is_long(var, run) for var in known)
        return _ELEMENTS if most is None and (long or not inner) else 0

    def _unrolled(self, made: p.For) -> p.For:
        factor, fixed = self.loop.unroll, self.range.count.fixed
        if factor is None:
            return made
        constant = fixed is not None and self.range.lo == Value(0) and made.by is None
        if constant and fixed is not None and fixed <= _MOST_WRITTEN_OUT and factor in (0, fixed):
            return replace(made, unrolled=True, simd=False, end=Value(fixed))
        return replace(made, unroll=min(factor or 8, _MOST_WRITTEN_OUT))


def polls_of(ctx: Context, loop: Forall) -> int:
    """How many iterations of a loop run between two checks of the interrupt flag.

    Around a single loop, a check in each iteration would cost a few percent, and a few iterations
    do not take long. Around a deeper nest a check is free, and one iteration may take long. An
    innermost loop takes long only after many iterations; it is strip-mined, because a check in its
    body would prevent vectorization.
    """
    inside = [n for n in walk(loop.body) if isinstance(n, Forall) and _takes_long(ctx, n)]
    if not inside:
        return _ELEMENTS
    alone = all(_takes_long(ctx, n) is (n is each) for each in inside for n in _loops(each))
    return FEW if alone else 1


def _loops(loop: Forall) -> Iterator[Forall]:
    return (n for n in walk(loop) if isinstance(n, Forall))


def _is_open(node: Node) -> bool:
    """Whether a node is a loop, rather than the lanes of a register tile."""
    return isinstance(node, p.While) or (isinstance(node, p.For) and not node.unrolled)


def _takes_long(ctx: Context, loop: Forall) -> bool:
    """Whether a loop has more iterations than a schedule would unroll."""
    most = _constant(ctx.names.extent(loop.var))
    return most is None or most > _MOST_WRITTEN_OUT


def _unpoll(node: Node) -> Node | None:
    """A serial loop inside a vectorized one cannot exit early."""
    if isinstance(node, p.For) and node.polls and not isinstance(node.by, p.Threads):
        return replace(node, polls=0)
    return None


def _without_polls(body: p.Block) -> p.Block:
    return cast(p.Block, bottom_up(_unpoll)(body))


def _has_copies(tag: Tag) -> bool:
    """Whether each GPU unit has a private copy of what all of them write."""
    return tag.unit is ParallelUnit.GPUBlock and tag.race is OutputRaceStrategy.Temporary


def _constant(size: p.Expr) -> int | None:
    return int(size.value.real) if isinstance(size, Value) else None


def keeps_sums(ctx: Context, loop: Forall) -> bool:
    """Whether a sum over `loop` can be kept in a register around it.

    It can where the GPU threads that execute the loop combine their sums.
    """
    node: Stmt = loop
    while not isinstance(node, Assign):
        tag = node.tag if isinstance(node, Forall) else None
        if tag is not None and tag.unit is ParallelUnit.GPUBlock:
            return False
        if tag is not None and tag.unit.on_gpu and tag.race not in _COMBINED:
            everyone = ctx.names.extent(cast(Forall, node).var) == Value(tag.group_size or 0)
            if tag.reduction != "parallel" or not everyone:
                return False
        match node:
            case Forall(body=body):
                node = body
            case Where(consumer=consumer):
                node = consumer
            case Then(then=then):
                node = then
            case _:
                raise InternalError(f"unexpected {node}")
    return True


def ignored(ctx: Context, loop: Forall, scope: Scope) -> frozenset[TensorVar]:
    """The tensors with races that a GPU loop ignores: loops inside it use atomics."""
    if loop.tag is None or loop.tag.race is not OutputRaceStrategy.IgnoreRaces:
        return frozenset()
    found = (a.lhs for a in written_outside(loop.body) if a.op is not None)
    return frozenset(lhs.tensor for lhs in found if not separates(ctx, loop, lhs, scope))


def _vectorizes(stmt: Stmt, body: p.Block) -> bool:
    """Whether the compiler may be told that the iterations are independent.

    They must not exit early, and must not share a workspace.
    """
    if any(isinstance(n, Where) and n.temporary.ndim for n in walk(stmt)):
        return False
    return not any(
        isinstance(s, (p.While, p.Fail, p.Allocate, p.Grow, p.Do))
        or (isinstance(s, p.For) and (isinstance(s.by, p.Threads) or s.polls))
        for s in walk(body)
    )


def _races(
    ctx: Context, loop: Forall, scope: Scope
) -> tuple[tuple[p.Reduction, ...], tuple[p.Copy, ...], frozenset[TensorVar]]:
    """Where iterations of `loop` conflict: scalars, arrays, and tensors updated atomically."""
    tag = loop.tag
    if tag is None:
        raise InternalError("a loop without a tag has no races")
    reductions: dict[Name, p.Reduction] = {}
    copies: dict[TensorVar, p.Copy] = {}
    atomic: set[TensorVar] = set()
    for assign in written_outside(loop.body):
        lhs, op = assign.lhs, assign.op
        flag = scope.flags.get(lhs.tensor)
        if flag is not None:
            reductions[flag] = p.Reduction(flag, OR, Value(False, "bool"))
        if op is None:
            continue
        identity = Value(op.identity_of(lhs.dtype), lhs.dtype.name)
        place = scope.accumulators.get(lhs)
        if isinstance(place, Name):
            reductions[place] = p.Reduction(place, op, identity)
        elif tag.race is OutputRaceStrategy.Atomics and lhs.tensor in scope.sharing.racing:
            atomic.add(lhs.tensor)
        elif tag.unit is ParallelUnit.GPUGroup and scope.sharing.thread:
            found = _in_registers(ctx, loop, lhs, op)
            reductions[found.name] = found
        elif not separates(ctx, loop, lhs, scope):
            if tag.race is OutputRaceStrategy.Atomics:
                atomic.add(lhs.tensor)
            elif tag.race is not OutputRaceStrategy.IgnoreRaces:
                array, count = ctx.names.values(lhs.tensor), ctx.elements(lhs)
                copies[lhs.tensor] = p.Copy(array, count, op, identity)
    return tuple(reductions.values()), tuple(copies.values()), frozenset(atomic)


def _in_registers(ctx: Context, loop: Forall, lhs: Access, op: Op) -> p.Reduction:
    """The sum of the threads of a group, in a workspace of each."""
    sums, count = ctx.names.values(lhs.tensor), ctx.elements(lhs)
    if not isinstance(count, Value):
        raise ScheduleError(
            f"threads over {loop.var} sum into {lhs.tensor}, whose size is not known beforehand",
            code="E315",
            hint="bound the loop that fills it, or split it by a constant",
        )
    identity = Value(op.identity_of(lhs.dtype), lhs.dtype.name)
    name = Name(sums.name, sums.type)
    return p.Reduction(name, op, identity, int(count.value.real), sums.role)


def written_outside(body: Stmt) -> Iterator[Assign]:
    """The assignments in `body` to tensors made outside of it."""
    made = {n.temporary for n in walk(body) if isinstance(n, Where)}
    return (n for n in walk(body) if isinstance(n, Assign) and n.lhs.tensor not in made)


def separates(ctx: Context, loop: Forall, lhs: Access, scope: Scope) -> bool:
    """Whether different iterations of `loop` write different entries."""
    return loop.var in ctx.provenance.recoverable({*lhs.vars, *scope.coords})
