"""Loops along the stored places of interleaved runs: ELLPACK, its slices, diagonals.

    for (p = first; p < last; p++) {
      i = p % rows;
      q = p / rows;
      if (q < len[i]) { j = crd[p]; body }
    }

Places do not come in the order of the coordinates, so nothing is tracked from one to the next but
their slice. Formulas of the level tell the entry at a place, and whether there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

from openwork.errors import InternalError
from openwork.format.levels import Level
from openwork.frozen import frozen
from openwork.loops.nodes import Forall, Stmt, written
from openwork.program import nodes as p
from openwork.program.lower.base.context import Context
from openwork.program.lower.base.header import Header
from openwork.program.lower.base.nodes import at_each
from openwork.program.lower.base.ranges import Range
from openwork.program.lower.base.scope import Place, Scope
from openwork.program.lower.derived.driver import Driver
from openwork.program.nodes import Array, Declare, Expr, If, Name, Set, Value, block, compare
from openwork.tree import replace, substitute

Lower = Callable[[Stmt, Scope], p.Block]


@frozen
class Places:
    """The lowering of loops along the places of one operand, whose last fused level has them."""

    ctx: Context
    lower: Lower
    driver: Driver

    def loop(self, loop: Forall, window: Range, scope: Scope) -> p.Block:
        """The loop over the places in `window`."""
        scope = self._some(loop.body, scope)
        place, scope = scope.fresh(f"{self._base}{self.driver.last + 1}", lasting=True)
        code: list[p.Stmt] = []
        steps: list[p.Stmt] = []
        slice: Name | None = None
        starts = self._starts
        if starts is not None:
            slice, scope = scope.fresh(f"{self._base}_slice", lasting=True)
            code = [Declare(slice, self._slice_of(window.lo, starts))]
            passed = compare("==", place, starts[slice + 1])
            steps = [p.While(passed, block(Set(slice, slice + 1)))]
        header = Header.of(self.ctx, loop, place, window, scope)
        body = self._entry(loop.body, place, slice, header.scope)
        comment = f"places of {self.ctx.names.said(self.driver.access.tensor)}"
        return block(*code, header.finish(block(*steps, body), comment))

    def at(self, body: Stmt, place: Expr, scope: Scope) -> p.Block:
        """The body at one place."""
        scope = self._some(body, scope)
        starts = self._starts
        if starts is None:
            return self._entry(body, place, None, scope)
        slice, scope = scope.fresh(f"{self._base}_slice")
        found = Declare(slice, self._slice_of(place, starts), fixed=True)
        return block(found, self._entry(body, place, slice, scope))

    def _some(self, body: Stmt, scope: Scope) -> Scope:
        """Entries of other tensors are written where the operand has entries, and nowhere else."""
        everywhere = self.ctx.writes_all_of(written(body), self.driver.access)
        return scope if everywhere else replace(scope, whole=False)

    @property
    def _base(self) -> str:
        return f"p{self.ctx.names.of(self.driver.access.tensor)}"

    @property
    def _starts(self) -> Array | None:
        """Where the slices of runs begin, if the level has slices."""
        kind, access = self.driver.kinds[-1], self.driver.access
        for fact in kind.arrays:
            if fact.name == kind.slice_starts:
                return self.ctx.names.array(access.tensor, self.driver.last, fact)
        return None

    def _slice_of(self, place: Expr, starts: Array) -> Expr:
        kind, view = self._level(self.driver.last)
        count = kind.slice_count(view, view.parents)
        return p.Helper("last_at_most", (starts, Value(0), count, place))

    def _level(self, level: int) -> tuple[Level, SimpleNamespace]:
        access = self.driver.access
        return access.tensor.format.levels[level], self.ctx.view(access, level)

    def _entry(self, body: Stmt, place: Expr, slice: Name | None, scope: Scope) -> p.Block:
        """The body for the entry at a place, if there is one."""
        driver, access = self.driver, self.driver.access
        kind, view = self._level(driver.last)
        parent, scope = scope.fresh(f"{self._base}{driver.last}")
        position, scope = scope.fresh(f"{self._base}{driver.last + 1}_at")
        above = kind.parent(view, place) if slice is None else kind.parent_in(view, slice, place)
        within = Declare(position, kind.position(view, parent, place), fixed=True)
        chain: list[Expr] = [parent, place]
        for level in reversed(range(driver.first + 1, driver.last)):
            upper, its = self._level(level)
            chain.insert(0, upper.parent(its, chain[0]))
        code: list[p.Stmt] = []
        for n, (at, var) in enumerate(zip(chain, driver.variables, strict=True)):
            last = n == len(chain) - 1
            coordinate = self._coordinate(n, chain[n - 1] if n else Value(0), at, position, last)
            scope = scope.reach(access, Place(at))
            name, scope = scope.fresh(self.ctx.names.variables[var])
            code.append(Declare(name, coordinate, fixed=True))
            scope = scope.bind(var, name)
        for var in driver.counters(self.ctx.provenance):
            scope = scope.bind(var, place)
        work = self.lower(at_each(driver.variables, body), scope)
        occupied = kind.occupied(view, parent, position)
        inside = block(*code, work)
        return block(
            Declare(parent, above, fixed=True),
            within,
            inside if occupied is None else If(occupied, inside),
        )

    def _coordinate(self, n: int, above: Expr, place: Expr, position: Name, last: bool) -> Expr:
        """The coordinate of the `n`-th fused variable at its place."""
        kind, view = self._level(self.driver.first + n)
        at = position if last else kind.position(view, above, place)
        found = kind.coordinate(view, above, at)
        if not isinstance(found, Expr):
            raise InternalError(f"a level's coordinate gave {found!r}")
        return substitute(found, {kind.place(view, above, at): place})
