"""Positions in batches: the terms of several entries are loaded before they are added.

    i = the row of the first position
    begin = pos[i]; stop = pos[i + 1];
    for (p = first; p < last; p += n) {
      crds, values = those of positions p to p + n       by wide loads
      for (t = 0; t < n; t++) term[t] = ...              of position p + t, unrolled
      for (t = 0; t < n; t++)                            unrolled
        if (p + t < last) {
          if (p + t == stop) { store the sum; advance i; begin = stop; stop = pos[i + 1]; }
          sum += term[t];
        }
    }
    store the sum

The loads of a batch do not depend on where rows end, so that n of them are in flight however short
the rows are. Behind the last position a batch loads its entry again, and adds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from openwork.errors import InternalError
from openwork.format.formats import dense
from openwork.frozen import frozen
from openwork.index.nodes import Access, IndexVar, TensorVar
from openwork.loops.nodes import Forall
from openwork.program import nodes as p
from openwork.program.lower.base.accumulate import update
from openwork.program.lower.base.nodes import At, at_each
from openwork.program.lower.base.ranges import Range
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.derived.driver import Driver
from openwork.program.lower.derived.segment_sum import SegmentSum
from openwork.program.lower.derived.segments import Segments
from openwork.program.lower.derived.tracked import Tracked
from openwork.program.nodes import Declare, Expr, If, Name, Set, Value, arithmetic, block, compare
from openwork.tree import Node, children, replace, substitute, walk

_MOST = 64  # terms that stay in registers


def by_segments(
    tracked: Tracked, loop: Forall, driver: Driver, summed: SegmentSum
) -> Segments | SegmentBatches:
    """How a loop along positions is lowered: in batches, if it is unrolled and these suit it."""
    segments, size = Segments(tracked, loop, driver, summed), loop.unroll or 0
    nested = segments.chooser != len(driver.variables) - 2
    fits = size * (summed.tile[1] if summed.tile else 1) <= _MOST
    suits = size > 1 and fits and not nested and loop.tag is None
    suits = suits and _free(driver, summed) and not _needs_parent(tracked, driver)
    return SegmentBatches(segments, size) if suits else segments


def _free(driver: Driver, summed: SegmentSum) -> bool:
    """Whether terms depend on the position alone: its row is known only when they are added."""
    above = set(driver.variables[:-1])
    others = (n for n in walk(summed.body.rhs) if isinstance(n, Access) and n != driver.access)
    plain = (n for n in _leaves(summed.body.rhs) if isinstance(n, IndexVar))
    return not above & {*plain, *(v for access in others for v in access.vars)}


def _needs_parent(tracked: Tracked, driver: Driver) -> bool:
    """Whether the level's coordinates, or whether there is an entry, depend on the row."""
    kind, view = driver.kinds[-1], tracked.ctx.view(driver.access, driver.last)
    occupied = kind.occupied(view, Value(0), Name("position"))
    return occupied is not None or tracked.asks_for_parent(driver.access, driver.last)


def _leaves(node: Node) -> Iterator[Node]:
    """The nodes of an expression, without those of its accesses."""
    yield node
    if not isinstance(node, Access):
        for child in children(node):
            yield from _leaves(child)


@frozen
class SegmentBatches:
    """The lowering of one loop along positions, by batches of `size` entries."""

    segments: Segments
    size: int

    @property
    def width(self) -> int:
        """The terms of an entry."""
        tile = self.segments.summed.tile
        return tile[1] if tile else 1

    def lower(
        self, parents: list[Expr | None], position: Name, window: Range, scope: Scope
    ) -> p.Block:
        """The loop over `window`; `parents` are those of its first position."""
        segments, base = self.segments, position.name
        driver, summed, m = segments.driver, segments.summed, segments.chooser
        first, scope = scope.fresh(f"{base}_at", lasting=True)
        begin, scope = scope.fresh(f"{base}_begin", lasting=True)
        stop, scope = scope.fresh(f"{base}_stop", lasting=True)
        turn, scope = scope.fresh(f"{base}_turn", lasting=True)
        place, scope = scope.fresh(f"{base}_now", lasting=True)
        dtype = summed.total.dtype.name
        name, scope = scope.fresh(f"{base}_terms", dtype, lasting=True)
        terms = p.Array(name.name, dtype)
        edges = [segments.tracked.edge(driver, parents, m, side) for side in (0, 1)]
        starts = compare("<=", window.lo, begin)
        put = segments.put(parents, starts, stop, scope)
        advance = self._advance(parents, begin, stop, edges[1])
        ends = block(put, summed.restart(scope), *advance)
        add = block(If(compare("==", place, stop), ends), self._added(terms, turn, scope))
        adding = block(Declare(place, first + turn, fixed=True), If(place < window.hi, add))
        n = Value(self.size)
        step = block(
            p.Local(terms, self.size * self.width),
            self._loaded(parents, position, first, turn, window, terms, scope),
            p.For(turn, Value(0), n, adding, "added to their rows", unrolled=True),
        )
        last = segments.put(parents, starts & compare("<=", stop, window.hi), stop, scope)
        body = p.For(first, window.lo, window.hi, step, step=n)
        known = (Declare(begin, edges[0]), Declare(stop, edges[1]))
        return block(If(window.lo < window.hi, block(*known, body, last)))

    def _advance(
        self, parents: list[Expr | None], begin: Name, stop: Name, end: Expr
    ) -> list[p.Stmt]:
        """From a row that ends at `stop`, where there is another entry, to the row of that."""
        parent = parents[self.segments.chooser]
        known = len(parents) == 1 and self.segments.driver.kinds[-1].boundaries is not None
        next_ = [Set(parent, parent + 1)] if isinstance(parent, Name) and known else []
        skipped = self.segments.advance(parents, stop)  # rows without entries
        return [*next_, *skipped, Set(begin, stop), Set(stop, end)]

    def _loaded(
        self,
        parents: list[Expr | None],
        position: Name,
        first: Name,
        turn: Name,
        window: Range,
        terms: p.Array,
        scope: Scope,
    ) -> p.Block:
        """The terms of all entries of a batch, in registers."""
        segments = self.segments
        tracked, driver, summed = segments.tracked, segments.driver, segments.summed
        total = TensorVar("term", dense(0), summed.total.dtype, summed.total.tensor.fill)
        access = Access(total, ())
        chain: list[Expr | None] = [*parents, position]
        known, inner = tracked.reach_down(driver, chain, scope, segments.chooser + 1)
        term = replace(summed.body, lhs=access, op=None)
        if summed.tile is None:
            inner = inner.accumulate(access, p.Load(terms, turn))
            made = tracked.lower(at_each(driver.variables, term), inner)
        else:
            at, inner = inner.fresh(f"{position.name}_part", lasting=True)
            inner = inner.accumulate(access, p.Load(terms, turn * self.width + at))
            body = At(summed.tile[0], at_each(driver.variables, term), value=at)
            lowered = tracked.lower(body, inner)
            made = block(p.For(at, Value(0), Value(self.width), lowered, unrolled=True))
        return self._together(block(*known, made), position, first, turn, window)

    def _together(
        self, body: p.Block, position: Name, first: Name, turn: Name, window: Range
    ) -> p.Block:
        """`body` for all entries of the batch, after one wide load of what lies at their positions.

        A batch that begins at no multiple of its size, or ends behind the last position, loads one
        by one.
        """
        loads = dict.fromkeys(n for n in walk(body) if isinstance(n, p.Load))
        read = [load for load in loads if load.index == position]
        held = {
            load: p.Array(f"{load.array.name}_{position.name}", load.array.type) for load in read
        }
        n = Value(self.size)
        wide, single = list[p.Stmt](), list[p.Stmt]()
        for load, array in held.items():
            wide.append(p.Store(array, turn, p.Load(load.array, first / n * n + turn)))
            single.append(p.Store(array, turn, load))
        last = Declare(position, arithmetic("min", first + turn, window.hi - 1), fixed=True)
        whole = compare("==", first % n, 0) & compare("<=", first + n, window.hi)
        taken = substitute(body, {load: p.Load(array, turn) for load, array in held.items()})
        return block(
            *(p.Local(array, self.size) for array in held.values()),
            If(
                whole,
                p.For(turn, Value(0), n, block(*wide), unrolled=True),
                p.For(turn, Value(0), n, block(last, *single), unrolled=True),
            ),
            p.For(turn, Value(0), n, taken, "terms of entries", unrolled=True),
        )

    def _added(self, terms: p.Array, turn: Name, scope: Scope) -> p.Block:
        """sum += term;"""
        summed = self.segments.summed
        place = scope.accumulators[summed.total]
        if summed.tile is None:
            return block(update(place, p.Load(terms, turn), summed.body.op))
        if not isinstance(place, p.Load) or not isinstance(place.index, Name):
            raise InternalError("a tile without a place")
        at = place.index
        value = p.Load(terms, turn * self.width + at)
        adds = block(update(place, value, summed.body.op))
        return block(p.For(at, Value(0), Value(self.width), adds, unrolled=True))
