"""Sparse results in pieces: the outermost loop is partitioned, and threads take piece by piece.

A piece is a window of the loop's values, so that the pieces of the result are consecutive. A piece
begins at the prefix sum of the counts before it:

    count   count every piece; allocate exactly; compute each piece in place
    append  compute each piece in private arrays and copy it into the result: while it is still in
            the cache, if all earlier pieces are counted by then and there is memory, or else at
            the end

With a single thread there is one piece, whose private arrays become the result's.
"""

from __future__ import annotations

from collections.abc import Callable

from openwork.algebra.types import size_of
from openwork.errors import InternalError
from openwork.frozen import frozen
from openwork.loops.nodes import Forall, OutputRaceStrategy, ParallelUnit, Stmt, Tag, written
from openwork.loops.plan.assembly import Append
from openwork.loops.plan.pieces import cut_variable
from openwork.program import nodes as p
from openwork.program.contract import NO_MEMORY, ROOM, THREADS
from openwork.program.lower.base.append import Appender
from openwork.program.lower.base.context import Context
from openwork.program.lower.base.header import Header
from openwork.program.lower.base.ranges import Range
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.derived.recovery import Recovery
from openwork.program.lower.result.cut import Cut
from openwork.program.lower.result.piece_appenders import (
    PIECE,
    PIECES,
    TURNS,
    Counting,
    Filling,
    Owning,
    PieceAppender,
    Rows,
    first_of,
)
from openwork.program.nodes import (
    Allocate,
    Array,
    Declare,
    Expr,
    For,
    Free,
    Grow,
    If,
    Load,
    Name,
    Store,
    Threads,
    Value,
    arithmetic,
    block,
    compare,
)
from openwork.tree import replace

Lower = Callable[[Stmt, Scope], p.Block]

# Pieces per thread beyond the first, for load balance until the end.
_EACH = 32
# Copied pieces should still be in the cache, so each has at most so many bytes of the result; but
# there are at most so many per thread.
_NEAR, _MOST_EACH = 1 << 18, 1024


@frozen
class Pieces:
    """The assembly of one result in pieces."""

    recovery: Recovery
    lower: Lower

    @property
    def ctx(self) -> Context:
        """What stays the same throughout the kernel."""
        return self.recovery.ctx

    @property
    def result(self) -> Appender:
        """The bookkeeping of the whole result."""
        if self.ctx.appender is None:
            raise InternalError("the result is not appended to")
        return self.ctx.appender

    def cut(self, loop: Forall, scope: Scope) -> bool:
        """Whether pieces are cut from this `loop`."""
        assembly = self.ctx.plan.assembly
        return (
            isinstance(assembly, Append)
            and assembly.strategy != "serial"
            and scope.depth == 0
            and not (scope.appender is not None and scope.appender.of_piece)
            and self.ctx.is_result(written(loop.body))
        )

    def loops(self, loop: Forall, scope: Scope) -> p.Block:
        """The passes over all pieces, and the code between them."""
        assembly, result = self.ctx.plan.assembly, self.result
        for name in (PIECE, PIECES):
            scope.taken.lasting.add(name.name)
        if self.ctx.provenance.relations:
            # Derived loops may have no iterations; then they close none of the rows they visit.
            levels = self.ctx.plan.result.format.levels
            result.gaps |= {n for n in result.sparse if n and levels[n - 1].full}
        code, whole, scope = self.recovery.values(
            cut_variable(self.ctx.provenance, loop.var), scope
        )
        cut = self._cut(loop, whole)
        counts = isinstance(assembly, Append) and assembly.strategy == "count"
        begin = [*code, *self._number(cut, counts), *self._firsts(), *cut.prepare()]
        passes = self._counted if counts else self._appended
        found = passes(cut, scope)
        end: list[p.Stmt] = [Free(first_of(level)) for level in result.sparse]
        if result.sparse[0] == 0:
            end += result.close(0, Value(0))
        return block(*begin, *found, *end)

    def _cut(self, loop: Forall, whole: Range) -> Cut:
        return Cut(self.ctx, loop, whole)

    def _number(self, cut: Cut, counts: bool) -> list[p.Stmt]:
        """The number of pieces; one for a single thread."""
        most, near = Name("pieces_most"), Name("pieces_near")
        known = [Declare(most, self._most(cut), fixed=True)]
        if not counts:
            result, level = self.result, self.result.sparse[-1]
            arrays = [growing.array.type for growing in result.growing(level)]
            size = ROOM * result.per(level) * sum(size_of(type) for type in arrays)
            limit = THREADS * _MOST_EACH - _MOST_EACH
            known = [
                Declare(near, arithmetic("min", size / _NEAR, limit), fixed=True),
                Declare(most, arithmetic("max", near, self._most(cut)), fixed=True),
            ]
        pieces = arithmetic("max", arithmetic("min", cut.whole.size, most), Value(1))
        return [*known, Declare(PIECES, pieces, fixed=True)]

    def _most(self, cut: Cut) -> Expr:
        """The most pieces, if they need not stay in the cache."""
        return THREADS * _EACH - _EACH

    def _firsts(self) -> list[p.Stmt]:
        """Allocate the begins of pieces."""
        return [Allocate(first_of(level), PIECES + 1) for level in self.result.sparse]

    # -- strategies -----------------------------------------------------------------------------

    def _counted(self, cut: Cut, scope: Scope) -> list[p.Stmt]:
        """Count each piece, allocate, compute each piece in place."""
        result = self.result
        zeros: list[Expr] = [Value(0) for _ in result.sparse]
        counting = Counting(result.result, result.names, result.gaps, resumed=result.resumed)
        count = self._over(
            counting,
            cut,
            scope,
            "count each piece",
            lambda: counting.begin(zeros),
            lambda rows: self._keep_counts(counting),
        )
        firsts: list[Expr] = [Load(first_of(level), PIECE) for level in result.sparse]
        filling = Filling(
            result.result, result.names, result.gaps, resumed=result.resumed, limit=cut.limit
        )
        fill = self._over(
            filling,
            cut,
            scope,
            "compute each piece into its place",
            lambda: filling.begin(firsts),
            filling.carry,
        )
        memory = [
            Allocate(array, length, zeroed=level in result.gaps and per == "parent")
            for level in result.sparse
            for array, length, per in self._arrays(level)
        ]
        enough = If(compare("<", ROOM, result.count(result.sparse[-1])), block(p.Fail(NO_MEMORY)))
        return [count, *self._sums(), enough, *memory, *self._origins(result.sparse), fill]

    def _appended(self, cut: Cut, scope: Scope) -> list[p.Stmt]:
        """Compute each piece in private arrays, and copy it to its place."""
        result, names = self.result, self.ctx.names
        zeros: list[Expr] = [Value(0) for _ in result.sparse]
        own = Owning(result.result, names, result.gaps, resumed=result.resumed)
        compute = self._over(
            own,
            cut,
            scope,
            "compute each piece into arrays of its own",
            lambda: [*own.begin(zeros), *own.start(PIECES)],
            lambda rows: [*self._keep_counts(own), *own.place(result, rows)],
        )
        compute = _with_arrays(compute, own)
        arrays = own.arrays
        shared = [
            Allocate(array, length, zeroed=result.sparse[0] in result.gaps)
            for array, length, per in self._arrays(result.sparse[0])
            if per == "parent"
        ]
        empty = [
            made
            for level in result.sparse
            for made in (
                Declare(result.room(level), Value(0)),
                *(Allocate(growing.array, Value(0)) for growing in result.growing(level)),
            )
        ]
        grow = [self._room(level, ROOM + 1) for level in result.sparse]
        room = [self._room(level, result.count(level) + 1) for level in result.sparse]
        taken = [p.Take(array, Value(0), own.in_result[array]) for array in arrays]
        single = block(*taken, *result.close_gaps())
        several = block(*room, *self._origins(result.sparse[1:]), self._stitched(own, cut, scope))
        return [
            *shared,
            *(p.Shelf(array, PIECES) for array in arrays),
            *empty,
            If(compare("<", 1, PIECES), block(*grow)),
            *self._turns(),
            compute,
            *self._counts(),
            If(compare("==", PIECES, 1), single, several),
            Free(TURNS),
            *self._origins(result.sparse[:1]),
        ]

    def _room(self, level: int, needed: Expr) -> Grow:
        """Memory for a level of the result, every element of which will be written."""
        growing = (replace(each, zeroed=False) for each in self.result.growing(level))
        return Grow(self.result.room(level), needed, tuple(growing))

    def _turns(self) -> list[p.Stmt]:
        """Declare the first piece ready: nothing comes before it."""
        firsts = [Store(first_of(level), Value(0), Value(0)) for level in self.result.sparse]
        turns = Allocate(TURNS, PIECES + 1, zeroed=True)
        return [turns, Store(TURNS, Value(0), Value(1)), *firsts]

    # -- passes ---------------------------------------------------------------------------------

    def _over(
        self,
        appender: PieceAppender,
        cut: Cut,
        scope: Scope,
        comment: str,
        before: Callable[[], list[p.Stmt]],
        after: Callable[[Rows], list[p.Stmt]],
    ) -> p.Stmt:
        """A loop over all pieces, whose results `appender` assembles.

        `before` and `after` are called late, when it is known which segments are never visited.
        """
        scope = replace(scope, appender=appender)
        header = self._header(cut.loop, scope)
        ends, window, inner = cut.window(header.scope)
        body = self.lower(cut.loop, cut.confine(inner, window))
        made = header.finish(
            block(*ends, *before(), body, *after(cut.rows(window, self.result))), comment
        )
        return self._shared(made, appender.tier)

    def _header(self, loop: Forall, scope: Scope) -> Header:
        """The head of a loop over all pieces."""
        tag = Tag(ParallelUnit.CPUThread, OutputRaceStrategy.NoRaces, chunk=1)
        return Header.of(self.ctx, replace(loop, tag=tag), PIECE, Range(Value(0), PIECES), scope)

    def _shared(self, loop: For, tier: int) -> p.Stmt:
        """A loop over all pieces of a tier, with its parallel attributes."""
        return replace(loop, polls=True, unroll=0)

    def _keep_counts(self, appender: PieceAppender) -> list[p.Stmt]:
        return [
            Store(first_of(level), PIECE + 1, appender.count(level)) for level in appender.sparse
        ]

    def _counts(self) -> list[p.Stmt]:
        """The total number of entries: where a piece after the last would begin."""
        result = self.result
        counts = [
            Declare(result.count(level), Load(first_of(level), PIECES), fixed=True)
            for level in result.sparse
        ]
        return [*counts, *result.check_counts()]

    def _sums(self) -> list[p.Stmt]:
        """Where each piece begins, and the total number of entries."""
        result, at, code = self.result, Name("piece_at"), list[p.Stmt]()
        for level in result.sparse:
            firsts = first_of(level)
            add = Store(firsts, at + 1, Load(firsts, at) + Load(firsts, at + 1))
            code += [
                Store(firsts, Value(0), Value(0)),
                For(at, Value(0), PIECES, block(add), "where each piece begins"),
            ]
        return [*code, *self._counts()]

    def _origins(self, levels: list[int]) -> list[p.Stmt]:
        """Set the begin of each level's first segment to zero."""
        result = self.result
        return [
            Store(result.array(level, fact), Value(0), Value(0))
            for level in levels
            for fact in result.facts(level, "parent")
        ]

    def _stitched(self, own: Owning, cut: Cut, scope: Scope) -> p.Stmt:
        """Copy the arrays of shelved pieces to their places."""
        result = self.result
        ends, window, _ = cut.window(scope)
        arrays, code = own.arrays, own.shifted(cut.rows(window, result))
        body = block(
            *(ends if result.sparse[0] else ()),
            *(p.Take(array, PIECE) for array in arrays),
            *code,
            *(Free(array) for array in arrays),
        )
        body = block(If(compare("<", 0, Load(TURNS, PIECE)), body))
        loop = For(PIECE, Value(0), PIECES, body, "put the others into place")
        return replace(loop, by=Threads(chunk=1), polls=1)

    def _arrays(self, level: int) -> list[tuple[Array, Expr, str]]:
        """The arrays of a level of the result, with their lengths, and per what they have entries.

        Those of the last level include the values.
        """
        result = self.result
        found = [
            (result.array(level, f), result.positions(level - (per == "parent")) + f.extra, per)
            for per in ("parent", "child")
            for f in result.facts(level, per)
        ]
        if result.below(level) is None:
            tensor = self.ctx.plan.result
            found.append((self.ctx.names.values(tensor), result.positions(tensor.ndim - 1), ""))
        return found


def _with_arrays(loop: p.Stmt, own: Owning) -> For:
    """A loop over all pieces whose threads have private arrays."""
    if not isinstance(loop, For) or not isinstance(loop.by, Threads):
        raise InternalError("pieces of their own are for the threads of a loop")
    private, cleanup = (*loop.by.private, *own.setup()), (*loop.by.cleanup, *own.cleanup())
    return replace(loop, by=replace(loop.by, private=private, cleanup=cleanup))
