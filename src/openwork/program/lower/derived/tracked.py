"""A loop along the positions of the one operand that drives it, which tracks their parents.

    i = the row of the first position
    for (p = first; p < last; p++) {
      while (p == pos[i + 1]) i++;
      j = crd[p];
      body
    }

A sum into an entry that only the parents select stays in a register until its segment ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from openwork.errors import InternalError
from openwork.frozen import frozen
from openwork.index.nodes import Access, IndexVar
from openwork.loops.nodes import (
    Assign,
    Forall,
    OutputRaceStrategy,
    ParallelUnit,
    Stmt,
    written,
)
from openwork.loops.relations import Cut, Pos, Split
from openwork.program import nodes as p
from openwork.program.lower.base.context import Context
from openwork.program.lower.base.header import Header
from openwork.program.lower.base.nodes import at_each
from openwork.program.lower.base.ranges import Range
from openwork.program.lower.base.scope import Place, Scope
from openwork.program.lower.derived.driver import Driver
from openwork.program.lower.derived.places import Places
from openwork.program.lower.derived.recovery import Recovery
from openwork.program.lower.derived.segment_sum import (
    Lower,
    SegmentSum,
    segment_sum,
)
from openwork.program.lower.derived.windows import places_above, positions
from openwork.program.nodes import Declare, Expr, If, Name, Set, Value, block, compare
from openwork.tree import Node, children, replace, walk

_FEW = 16  # so few positions that searching the parents of the first would dominate


@frozen
class Tracked:
    """The lowering of loops along positions."""

    recovery: Recovery
    lower: Lower
    segments: Callable[..., Any] | None = None  # lowers segments separately, if given
    runs: Callable[..., Any] | None = None  # lowers segments whose body has loops, if given

    @property
    def ctx(self) -> Context:
        """What stays the same throughout the kernel."""
        return self.recovery.ctx

    def loop(self, loop: Forall, driver: Driver, window: Range | None, scope: Scope) -> p.Block:
        """The loop over all positions, or over those in `window`."""
        code: list[p.Stmt] = []
        if window is None:
            whole = Pos(driver.fused, driver.fused, driver.access)
            code, window, scope = positions(self.recovery, whole, scope)
        access = driver.access
        summed, runs = self._sums(loop, driver, window, scope)
        complete = self.ctx.writes_all_of(written(loop.body), access)
        chosen = self.ctx.provenance.roots_of(self._coordinates(written(loop.body).vars, access))
        skips = not complete and bool(chosen & set(driver.variables))
        scope = replace(scope, whole=scope.whole and not skips)
        base = f"p{self.ctx.names.of(access.tensor)}{driver.last + 1}"
        position, scope = scope.fresh(base, lasting=True)
        apart = summed is not None and self.segments is not None and window.count.fixed is None
        looks_up = not apart and self._looks_up(loop, driver)
        parents, before, scope = self.first_parents(
            loop.body, driver, window, scope, looks_up, self._stored_starts(driver, loop)
        )
        total, scope = ([], scope) if summed is None else summed.start(self.ctx, scope)
        if summed is not None and self.segments is not None and apart:
            body = self.segments(self, loop, driver, summed).lower(parents, position, window, scope)
            return block(*code, *before, *total, body)
        if runs is not None:
            body = runs.lower(parents, window, scope)
            return block(*code, *before, body)
        header, here = self._header(loop, position, window, scope)
        kept = self.keeps_parents(driver)
        tracking, inner = self.reach(
            driver, parents, position, header.scope, looks_up=looks_up, kept=kept
        )
        body = at_each(driver.variables, loop.body if summed is None else summed.body)
        work = self.lower(body, inner) if summed is None else summed.each(self.lower, body, inner)
        work = self.where_occupied(driver, parents, position, work)
        if summed is None:
            made = header.finish(block(*here, *tracking, work), self._comment(driver))
            return block(*code, *before, made)
        chooser = driver.chooser(summed.original.lhs)
        stops = self.edge(driver, parents, chooser, 1)
        ends = compare("==", position + 1, stops)
        if chooser < len(parents) - 1:  # most positions do not even end the innermost segment
            last = compare("==", position + 1, self._end(driver, driver.last, parents[-1]))
            ends = p.Binary("&&", last, ends)
        flush = self._flush(summed, loop, driver, parents, window, inner)
        step = block(*here, *tracking, work, If(ends, block(flush, summed.restart(scope))))
        made = header.finish(step, self._comment(driver))
        # A segment that ended with the last position is already stored.
        nonempty = compare("<", window.lo, window.hi)
        goes_on = compare("!=", window.hi, stops)
        chain: list[Expr | None] = [*parents, window.hi - 1]
        here, after = self.reach_down(driver, chain, scope, chooser)
        if self.neighbours(loop, driver):
            after = replace(after, sharing=replace(after.sharing, last=True))
        if access in scope.parts:
            put = block(*here, self._flush(summed, loop, driver, parents, window, after))
        else:
            put = block(*here, self._put(summed, driver, after))
        rest = If(p.Binary("&&", nonempty, goes_on), put)
        return block(*code, *before, *total, made, rest)

    def _sums(
        self, loop: Forall, driver: Driver, window: Range, scope: Scope
    ) -> tuple[SegmentSum | None, Any]:
        """How the segments of a loop are summed: in a register, or by what lowers their loops."""
        summed = segment_sum(self.ctx, loop.body, driver, scope)
        runs = None if self.runs is None else self.runs(self, loop, driver)
        if runs is None or not runs.serves(scope):
            return summed, None
        if window.count.fixed is None:
            return None, runs
        return summed, None if summed is not None else runs

    def _comment(self, driver: Driver) -> str:
        return f"positions of {self.ctx.names.said(driver.access.tensor)}"

    def _header(
        self, loop: Forall, position: Name, window: Range, scope: Scope
    ) -> tuple[Header, list[p.Stmt]]:
        """A loop over the positions, or, if their number is constant, over 0 to that number."""
        if window.count.fixed is None:
            return Header.of(self.ctx, loop, position, window, scope), []
        counter, scope = scope.fresh(self.ctx.names.variables[loop.var])
        counted = replace(window, lo=Value(0), hi=Value(window.count.fixed))
        header = Header.of(self.ctx, loop, counter, counted, scope)
        return header, [Declare(position, window.lo + counter, fixed=True)]

    # -- parents --------------------------------------------------------------------------------

    def _looks_up(self, loop: Forall, driver: Driver) -> bool:
        """Whether the parents of each position are cached with the operand, and looked up.

        A GPU thread that takes only a few positions would spend most of its time searching. The
        schedule decides.
        """
        relation = self.ctx.provenance.above.get(loop.var)
        length = relation.length if isinstance(relation, Cut) else None
        counts = relation is not None and relation.counts_runs(loop.var)
        short = length is not None and length <= _FEW and not counts
        searched = all(kind.boundaries is not None for kind in driver.kinds[1:])
        short = short and driver.first == 0 and searched
        return self.ctx.on_gpu and short and driver.stored(self.ctx.provenance)

    def _stored_starts(self, driver: Driver, loop: Forall) -> int:
        """The length of windows whose first rows are cached with the operand; 0 if none are.

        They are where the schedule has parents looked up, and windows are parts of equal length of
        all positions of a matrix.
        """
        provenance = self.ctx.provenance
        relation = provenance.above.get(loop.var)
        plain = driver.first == 0 and len(driver.variables) == 2 and self.ctx.on_gpu
        if not plain or not driver.stored(provenance) or driver.kinds[-1].boundaries is None:
            return 0
        if not isinstance(relation, Split) or relation.counts_runs(loop.var):
            return 0
        length, around = relation.factor, provenance.above.get(relation.parent)
        while isinstance(around, Split) and not around.counts_runs(relation.parent):
            if around.factor % length:
                return 0
            relation, around = around, provenance.above.get(around.parent)
        return length if isinstance(around, Pos) else 0

    def first_parents(
        self,
        body: Stmt,
        driver: Driver,
        window: Range,
        scope: Scope,
        looks_up: bool = False,
        length: int = 0,
    ) -> tuple[list[Expr | None], list[p.Stmt], Scope]:
        """A name for the parent at every level above the counted one, at the first position.

        None where the parent is not needed, or follows from the position by a formula. Where
        parents are looked up, none is known before the first position. `length`: of windows whose
        first rows are cached with the operand, if not 0.
        """
        access = driver.access
        if access in scope.parts:
            return list(scope.parts[access].parents), [], scope
        below = range(driver.first + 1, driver.last + 1)
        asked = any(self.asks_for_parent(access, level) for level in below)
        if not asked and not self._used(body, driver):
            return [None] * (len(driver.variables) - 1), [], scope
        if looks_up:
            names: list[Name] = []
            for level in below:
                base = f"p{self.ctx.names.of(access.tensor)}{level}"
                name, scope = scope.fresh(base, lasting=True)
                names.append(name)
            return list(names), [Declare(name, Value(0)) for name in names], scope
        if length:
            base = f"p{self.ctx.names.of(access.tensor)}{driver.last}"
            name, scope = scope.fresh(base, lasting=True)
            starts = self.ctx.tile_starts(access, driver.last - 1, driver.last, length)
            return [name], [Declare(name, starts[window.lo / length])], scope
        code, found, scope = places_above(
            self.ctx, access, driver.first, window, window.lo, scope, moving=True
        )
        return list(found[:-1]), code, scope

    def asks_for_parent(self, access: Access, level: int) -> bool:
        """Whether a coordinate, or its place, depends on the parent as well as the position."""
        kind, view = access.tensor.format.levels[level], self.ctx.view(access, level)
        parent, position = Name("parent"), Name("position")
        formulas = (
            kind.coordinate(view, parent, position),
            kind.place(view, parent, position),
        )
        return any(parent in walk(f) for f in formulas if isinstance(f, Expr))

    def _used(self, body: Stmt, driver: Driver) -> bool:
        """Whether the tracked variables index anything but the driver itself."""

        def used(node: Node) -> frozenset[IndexVar]:
            if isinstance(node, Access):
                below = node.level_vars[driver.last + 1 :]
                variables = below if node == driver.access else node.vars
                # Places within a run of positions follow from the position itself.
                spaces = {v: self.ctx.provenance.space(v) for v in variables}
                return self.ctx.provenance.roots_of(
                    v for v, pos in spaces.items() if pos is None or pos.access != driver.access
                )
            if isinstance(node, IndexVar):
                return frozenset([node])
            return frozenset[IndexVar]().union(*map(used, children(node)))

        assigns = [n for n in walk(body) if isinstance(n, Assign)]
        seen = [used(side) for assign in assigns for side in (assign.lhs, assign.rhs)]
        # The extent of a loop within a block depends on the block.
        loops = self.ctx.provenance.roots_of(n.var for n in walk(body) if isinstance(n, Forall))
        outer = {
            block.outer for inner, block in self.ctx.names.inner_blocks.items() if inner in loops
        }
        return bool(frozenset(outer).union(*seen) & set(driver.variables[:-1]))

    def _end(self, driver: Driver, level: int, parent: Expr | None) -> Expr:
        """One past the last position of `level` below `parent`."""
        if parent is None:
            raise InternalError("an untracked parent was asked for")
        kind = driver.access.tensor.format.levels[level]
        end = kind.end(self.ctx.view(driver.access, level), parent)
        if not isinstance(end, Expr):
            raise InternalError("a level's end is no expression")
        return end

    def reach(
        self,
        driver: Driver,
        parents: list[Expr | None],
        position: Expr,
        scope: Scope,
        track: bool = True,
        first: int = 0,
        looks_up: bool = False,
        kept: bool = False,
    ) -> tuple[list[p.Stmt], Scope]:
        """Advance the parents to those of `position`; reach all levels and their coordinates.

        Parents above `first` do not change. `looks_up`: all of them are cached with the operand,
        and looked up; `kept`: only the last one is.
        """
        chain: list[Expr | None] = [*parents, position]
        code: list[p.Stmt] = []
        if looks_up:
            code = self._look_up(driver, chain, position)
        elif track:
            code = self.move(driver, chain, first + 1, kept)
        more, scope = self.reach_down(driver, chain, scope, len(chain) - 1)
        for var in driver.counters(self.ctx.provenance):
            scope = scope.bind(var, position)  # the place of a strided entry does not imply it
        return [*code, *more], scope

    def move(
        self, driver: Driver, chain: list[Expr | None], first: int, kept: bool
    ) -> list[p.Stmt]:
        """Advance the parents in `chain`, from index `first` on, to those of its last position."""
        access, code = driver.access, list[p.Stmt]()
        for n in range(first, len(chain)):  # a parent changes only where its child does
            child, parent = chain[n], chain[n - 1]
            level = driver.first + n
            kind = access.tensor.format.levels[level]
            if child is None or not isinstance(parent, Name):
                continue
            view = self.ctx.view(access, level)
            formula = kind.parent(view, child)
            if formula is None and kept and level == driver.last:
                formula = self.ctx.tile_starts(access, level - 1, level, 1)[child]
            if formula is not None:
                code = [Set(parent, formula), *code]
                continue
            passed = compare("==", child, self._end(driver, level, parent))
            if self.ctx.on_gpu and kind.boundaries is not None:
                skip = self._skip(access, level, parent, child)
                code = [p.If(passed, block(Set(parent, skip), *code))]
            else:
                code = [p.While(passed, block(Set(parent, parent + 1), *code))]
        return code

    def keeps_parents(self, driver: Driver, chooser: int = -1) -> bool:
        """Whether the parent of each position of nested segments is looked up.

        That is so on a GPU where the schedule has parents stored. Such segments are usually short:
        tracked, each step would wait for the previous one, which determines where the next segment
        begins. The exception is where the level above selects the entry: its segments are traversed
        one by one.
        """
        last, boundaries = driver.last, driver.kinds[-1].boundaries
        apart = last > 1 and driver.first + chooser < last - 1
        stored = self.ctx.on_gpu and driver.stored(self.ctx.provenance)
        return stored and apart and boundaries is not None

    def _look_up(self, driver: Driver, chain: list[Expr | None], position: Expr) -> list[p.Stmt]:
        """Look up the parents of `position`, which an inspector has found."""
        above = range(driver.first, driver.last)
        starts = [self.ctx.tile_starts(driver.access, n, driver.last, 1) for n in above]
        return [
            Set(parent, of[position])
            for parent, of in zip(chain[:-1], starts, strict=True)
            if isinstance(parent, Name)
        ]

    def _skip(self, access: Access, level: int, parent: Expr, child: Expr) -> Expr:
        """The next parent, beyond any empty ones.

        There may be many of them. A CPU core skips them quickly, but each step costs a GPU thread a
        load, and the rest of its warp waits.
        """
        past = self.ctx.positions(access, level - 1) + 1
        ends = self.ctx.boundaries(access, level)
        return p.Helper("gallop", (ends, parent + 2, past, child + 1)) - 1

    def reach_down(
        self, driver: Driver, chain: list[Expr | None], scope: Scope, last: int, first: int = 0
    ) -> tuple[list[p.Stmt], Scope]:
        """Reach the levels `first` to `last` of the positions in `chain`, and their coordinates."""
        access, code = driver.access, list[p.Stmt]()
        pairs = list(enumerate(zip(chain, driver.variables, strict=True)))
        for n, (place, var) in pairs[first : last + 1]:
            level = driver.first + n
            kind, view = access.tensor.format.levels[level], self.ctx.view(access, level)
            above = chain[n - 1] if n else self.ctx.parent_place(access, level, scope).position
            if place is None:
                scope = scope.reach(access, Place(Value(0)))
                continue
            lies = kind.place(view, above if above is not None else Value(0), place)
            scope = scope.reach(access, Place(lies))
            # Levels whose coordinate does not depend on the parent may have none.
            at = kind.coordinate(view, above if above is not None else Value(0), place)
            name, scope = scope.fresh(self.ctx.names.variables[var])
            code.append(Declare(name, at, fixed=True))
            scope = scope.bind(var, name)
        return code, scope

    def at(self, relation: Pos, body: Stmt, position: Expr, scope: Scope) -> p.Block:
        """The body at one position, whose parents are searched for."""
        access = relation.access
        variables = self.ctx.provenance.underived(relation.parent)
        driver = Driver(access, access.level_vars.index(variables[0]), variables, relation.parent)
        if driver.scattered:
            return Places(self.ctx, self.lower, driver).at(body, position, scope)
        everything = scope.bounds.ranges[relation.child]
        outside = scope
        code, found, scope = places_above(
            self.ctx, access, driver.first, everything, position, scope
        )
        more, scope = self.reach(driver, list(found[:-1]), position, scope, track=False)
        chosen = self.ctx.provenance.roots_of(self._coordinates(written(body).vars, access))
        scope = replace(scope, whole=scope.whole and not chosen & set(variables))
        work = self.lower(at_each(variables, body), scope)
        parents = found[:-1] or (self.ctx.parent_place(access, driver.first, outside).position,)
        return block(*code, *more, self.where_occupied(driver, parents, position, work))

    def where_occupied(
        self, driver: Driver, parents: Sequence[Expr | None], position: Expr, work: p.Block
    ) -> p.Block:
        """`work`, if the level has an entry at the position; the last of `parents` has its run."""
        kind, view = driver.kinds[-1], self.ctx.view(driver.access, driver.last)
        parent = (parents[-1] if parents else None) or Value(0)
        occupied = kind.occupied(view, parent, position)
        return work if occupied is None else block(If(occupied, work))

    def _coordinates(self, variables: tuple[IndexVar, ...], access: Access) -> Iterator[IndexVar]:
        """Those of `variables` that are not places within positions, which are all visited."""
        for var in variables:
            pos = self.ctx.provenance.space(var) if self.ctx.on_gpu else None
            if pos is None or pos.access != access:
                yield var

    # -- sums that last while a parent lasts ----------------------------------------------------

    def _flush(
        self,
        summed: SegmentSum,
        loop: Forall,
        driver: Driver,
        parents: list[Expr | None],
        window: Range,
        scope: Scope,
    ) -> p.Block:
        """Store the sum; atomically only if another thread may do so as well."""
        lhs = summed.original.lhs
        if lhs.tensor not in scope.sharing.atomic or not self.owns(loop, lhs, driver):
            return self._put(summed, driver, scope)
        alone = replace(scope, sharing=scope.sharing.alone(lhs.tensor))
        owned = self.owned(driver, parents, window, driver.chooser(lhs), scope)
        only = self.ctx.on_gpu and self.writes_once(lhs, driver, scope)
        put = self._put(summed, driver, alone, only)
        return block(If(owned, put, self._put(summed, driver, scope)))

    def _put(self, summed: SegmentSum, driver: Driver, scope: Scope, only: bool = False) -> p.Block:
        """R[i] += sum; or, if `only` this is ever added to the entry, R[i] = sum;"""
        put = replace(summed.original, rhs=summed.total)
        put = replace(put, op=None) if only else put
        body = at_each(driver.variables[: driver.chooser(put.lhs) + 1], put)
        return summed.each(self.lower, body, replace(scope, reducing=True))

    def writes_once(self, lhs: Access, driver: Driver, scope: Scope) -> bool:
        """Whether a whole segment is all that is ever added to its entry of the result."""
        roots = self.ctx.provenance.roots_of
        return (
            self.ctx.plan.assignment.op is None
            and self.ctx.is_result(lhs)
            and roots(scope.coords) <= roots((*lhs.vars, *driver.variables))
        )

    def neighbours(self, loop: Forall, driver: Driver) -> bool:
        """Whether neighbouring threads take neighbouring runs of positions.

        Then the last segment of one is often the first of the next, and a warp can combine them.
        """
        around = parallel_around(self.ctx.plan.loops, loop.var)
        tag = around[-1].tag if self.ctx.on_gpu and around else None
        if tag is None or tag.unit not in (ParallelUnit.GPUThread, ParallelUnit.GPUGroup):
            return False
        pos = self.ctx.provenance.space(around[-1].var)
        adds = tag.race is OutputRaceStrategy.Atomics or tag.reduction == "segment"
        return adds and pos is not None and pos.access == driver.access

    def owns(self, loop: Forall, lhs: Access, driver: Driver) -> bool:
        """Whether a thread that has all positions of a segment is the only one to write `lhs`.

        Parallel loops must cut the positions themselves, or else have entries of their own.
        """
        chooser, provenance = driver.chooser(lhs), self.ctx.provenance
        if not set(driver.variables[: chooser + 1]) <= set(lhs.vars):
            return False
        if any(not kind.unique for kind in driver.kinds[: chooser + 1]):
            return False
        separate = provenance.recoverable(lhs.vars)
        for around in parallel_around(self.ctx.plan.loops, loop.var):
            pos = provenance.space(around.var)
            cuts = pos is not None and pos.access == driver.access
            cuts = cuts and pos is not None and provenance.origin(pos) == driver.fused
            if around.var not in separate and not cuts:
                return False
        return True

    def owned(
        self,
        driver: Driver,
        parents: list[Expr | None],
        window: Range,
        chooser: int,
        scope: Scope,
    ) -> Expr:
        """Whether all positions of the current segment lie in `window`, or belong to the thread."""
        if driver.access in scope.parts:
            window = scope.parts[driver.access].window
        begin = self.edge(driver, parents, chooser, 0)
        end = self.edge(driver, parents, chooser, 1)
        return p.Binary("&&", compare("<=", window.lo, begin), compare("<=", end, window.hi))

    def edge(self, driver: Driver, parents: list[Expr | None], m: int, side: int) -> Expr:
        """The first position below the parent at level `m`, or one past the last."""
        parent = parents[m]
        if parent is None:
            raise InternalError("an untracked parent was asked for")
        at: Expr = parent + side
        access = driver.access
        for level in range(driver.first + m + 1, driver.last + 1):
            kind, view = access.tensor.format.levels[level], self.ctx.view(access, level)
            found = kind.begin(view, at)
            if not isinstance(found, Expr):
                raise InternalError("a level's begin is no expression")
            at = found
        return at


def parallel_around(loops: Stmt, var: IndexVar) -> list[Forall]:
    """The parallel loops that are a loop over `var`, or have one inside."""
    tagged = (n for n in walk(loops) if isinstance(n, Forall) and n.tag is not None)
    return [n for n in tagged if any(isinstance(m, Forall) and m.var == var for m in walk(n))]
