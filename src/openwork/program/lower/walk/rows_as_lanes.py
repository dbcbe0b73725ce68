"""Rows as SIMD lanes: interleaved segments are traversed together, one lane per row.

In a vectorized loop around a sum along interleaved segments, such as those of sliced ELLPACK, one
loop covers the positions that all of the segments have, with the lanes innermost: adjacent lanes
load adjacent elements. The rest of each longer segment is added row by row. Every sum is taken in
the same order as without vectors.
"""

from __future__ import annotations

from typing import cast

from openwork.algebra.entries import Entry
from openwork.algebra.types import size_of
from openwork.format.layouts import AOS
from openwork.frozen import frozen
from openwork.index.nodes import Access
from openwork.loops.nodes import Assign, Forall, ParallelUnit, Sequence as Then, Stmt, Where
from openwork.loops.relations import Cut
from openwork.program import nodes as p
from openwork.program.lower.base.accumulate import element, start_of, streamed, update
from openwork.program.lower.base.context import Context
from openwork.program.lower.base.ranges import Range
from openwork.program.lower.base.scope import Place, Scope
from openwork.program.lower.walk.cases import Cases, Lower, cases_of
from openwork.program.lower.walk.walkers import Beside, make_walker
from openwork.program.nodes import Declare, Expr, Name, Set, Store, Value, arithmetic, block
from openwork.program.remarks import named
from openwork.tree import replace, walk

# So many lanes are unrolled, so that their sums can stay in registers.
_MOST_WRITTEN_OUT = 32
# Bytes between a prefetch and its use, and of a cache line. Measured on a Xeon (6-85): a page is as
# good as two, and 1.2 to 1.6 times as fast as none where the operand exceeds the second cache.
_FAR, _LINE = 4096, 64


@frozen
class Rows:
    """A loop over rows, the sums inside it, and the operand whose segments are summed."""

    loop: Forall
    sums: Forall
    operand: Access
    window: Range

    @property
    def lhs(self) -> Access:
        """What is written."""
        return cast(Assign, self.sums.body).lhs


@frozen
class RowsAsLanes:
    """Loops over rows with interleaved segments; `lower` lowers their bodies."""

    ctx: Context
    lower: Lower

    def loop(self, loop: Forall, window: Range | None, scope: Scope) -> p.Block | None:
        """A vectorized loop over rows with interleaved segments; None for any other loop."""
        rows = self._rows(loop, window, scope)
        if rows is None:
            return None
        cases = self._cases(loop, scope)
        if any(part.sparse for part in cases.parts) or len(cases.points) != 1:
            return None
        scope = cases.completeness(complete=True)
        if rows.window.count.fixed is not None:
            return self._together(rows, rows.window.count.fixed, scope)
        level = rows.operand.tensor.format.levels[0]
        return None if not level.invertible else self._one_by_one(rows, scope)

    def _rows(self, loop: Forall, window: Range | None, scope: Scope) -> Rows | None:
        tag, sums = loop.tag, loop.body
        if tag is None or tag.unit is not ParallelUnit.CPUVector or window is None:
            return None
        split = None if window.counts is None else self.ctx.provenance.above.get(window.counts)
        if not isinstance(split, Cut) or split.length is None or split.parent != loop.var:
            return None
        plain = isinstance(sums, Forall) and sums == Forall(sums.var, sums.body)
        if not plain or not isinstance(sums, Forall) or not isinstance(sums.body, Assign):
            return None
        lhs, op = sums.body.lhs, sums.body.op
        confined = scope.bounds.confined(loop.var, sums.var)
        settled = self.ctx.is_result(lhs) and lhs.tensor.format.is_dense
        if op is None or sums.var in lhs.vars or confined or not settled:
            return None
        derived = sums.var in self.ctx.provenance.above
        if derived or any(isinstance(n, (Where, Then)) for n in walk(self.ctx.plan.loops)):
            return None
        known = scope.bind(loop.var, Value(0))
        cases = self._cases(sums, known)
        sparse = [part.access for part in cases.parts if part.sparse]
        if sparse and (cases.lattice is None or cases.lattice.everywhere is not None):
            return None  # absent entries count, too
        along = [a for a in self._reads(sums) if a.level_vars == (loop.var, sums.var)]
        found = [a for a in along if a.tensor.format.levels[1].abreast(split.length)]
        if len(found) != 1 or sparse not in ([], found):
            return None
        return Rows(loop, sums, found[0], window)

    def _reads(self, sums: Forall) -> list[Access]:
        read = walk(cast(Assign, sums.body).rhs)
        return list(dict.fromkeys(a for a in read if isinstance(a, Access)))

    def _at(self, rows: Rows, lane: Expr, scope: Scope) -> Scope:
        """The scope of the row in a lane."""
        level, view = rows.operand.tensor.format.levels[0], self.ctx.view(rows.operand, 0)
        place = rows.window.lo + lane
        row = level.position(view, Value(0), place) if level.invertible else place
        scope = scope.bind(rows.loop.var, row)
        if rows.window.counts is not None:
            scope = scope.bind(rows.window.counts, lane)
        return scope.reach(rows.operand, Place(place))

    def _step(self, rows: Rows, lane: Expr, position: Name, sum: Expr, scope: Scope) -> p.Block:
        """Add one entry of one row to the row's sum."""
        scope = self._at(rows, lane, scope).accumulate(rows.lhs, sum)

        def entry(stmt: Stmt, scope: Scope) -> p.Block:
            cases = self._cases(cast(Forall, stmt), replace(scope, reducing=True))
            (part,) = (part for part in cases.parts if part.access == rows.operand)
            walker, scope = make_walker(
                part, cases.name, scope, self.ctx.names, self.ctx.workspaces, declared=False
            )
            walker = replace(walker, position=position, beside=Beside(rows.window.lo, lane))
            var, scope = scope.fresh(cases.name)
            here = Declare(var, walker.coordinate_at(position), fixed=True)
            inner = cases.at({rows.operand: None}, [walker], scope.bind(cases.var, var))
            return block(here, inner)

        return cases_of(self.ctx, entry, rows.loop, scope).at({}, [], scope)

    def _cases(self, loop: Forall, scope: Scope) -> Cases:
        return cases_of(self.ctx, self.lower, loop, scope)

    def _run(self, rows: Rows, lane: Expr) -> tuple[Expr, Expr]:
        """The first position of a row, and one past the last."""
        level, view = rows.operand.tensor.format.levels[1], self.ctx.view(rows.operand, 1)
        parent = rows.window.lo + lane
        return level.begin(view, parent), level.end(view, parent)

    def _ends(self, rows: Rows, lane: Expr, scope: Scope) -> tuple[Expr, p.Load]:
        """The initial value of a row's sum, and its destination."""
        scope = self._at(rows, lane, scope)
        place = element(self.ctx, rows.lhs, scope)
        return start_of(self.ctx, rows.loop, rows.lhs, place, scope), place

    def _together(self, rows: Rows, count: int, scope: Scope) -> p.Block:
        """for (q < the least length) { for each lane { sums[lane] += ... } }, then the rest"""
        operand = self.ctx.names.of(rows.operand.tensor)
        at, scope = scope.fresh(f"{self.ctx.names.variables[rows.loop.var]}_at")
        position, scope = scope.fresh(f"p{operand}2")
        first, scope = scope.fresh(f"{position.name}_first", lasting=True)
        last, scope = scope.fresh(f"{position.name}_last", lasting=True)
        base, type = f"{self.ctx.names.of(rows.lhs.tensor)}_sum", rows.lhs.dtype.name
        name, scope = scope.fresh(f"{base}s", type)
        sums = p.Array(name.name, type)
        # An array with variable indices would not stay in registers.
        own, scope = scope.fresh(base, type)
        start, place = self._ends(rows, at, scope)
        begin, end = self._run(rows, at)
        step = self._step(rows, at, position, p.Load(sums, at), scope)
        alone = self._step(rows, at, position, own, scope)
        taken = Declare(own, p.Load(sums, at))

        def lanes(*body: p.Stmt, written_out: bool = True) -> p.For:
            few = written_out and count <= _MOST_WRITTEN_OUT
            return p.For(at, Value(0), Value(count), block(*body), unrolled=few)

        one, other = self._run(rows, Value(0))
        begins = begin != Value(0)
        code = [p.Local(sums, count), lanes(Store(sums, at, start)), Declare(last, other)]
        code.append(lanes(Set(last, arithmetic("min", last, end))))
        if begins:
            code += [Declare(first, one), lanes(Set(first, arithmetic("max", first, begin)))]
            code.append(Set(last, arithmetic("max", last, first)))
            before = p.For(position, begin, arithmetic("min", first, end), alone)
            code.append(lanes(taken, before, Store(sums, at, own), written_out=False))
        common = first if begins else Value(0)
        comment = f"all {count} rows of {named(operand)}"
        soon = self._soon(rows, position, count)
        code.append(p.For(position, common, last, block(*soon, lanes(step)), comment))
        stored = streamed(self.ctx, rows.lhs, update(place, own, None))
        rest = p.For(position, last, end, alone, "rows that go on")
        return block(*code, lanes(taken, rest, stored, written_out=False))

    def _soon(self, rows: Rows, position: Name, count: int) -> list[p.Stmt]:
        """Prefetches of what lies a page after the entries of these rows.

        Processors look ahead no further than the end of a page, and a slice of rows is about one.
        """
        access, (_, level) = rows.operand, rows.operand.tensor.format.levels
        if isinstance(access.dtype, Entry) or access.tensor.format.layout != AOS:
            return []
        view, first = self.ctx.view(access, 1), rows.window.lo
        place, most = level.place(view, first, position), self.ctx.positions(access, 1) - 1
        stored = level.coordinate(view, first, position)
        arrays = [self.ctx.names.values(access.tensor)]
        arrays += [stored.array] if isinstance(stored, p.Load) else []
        code: list[p.Stmt] = []
        for array in arrays:
            size = size_of(array.type)
            ahead = arithmetic("min", place + _FAR // size, most)
            code.append(p.Prefetch(array, ahead, -(-count * size // _LINE)))
        return code

    def _one_by_one(self, rows: Rows, scope: Scope) -> p.Block:
        """Rows that are too few for a vector, one by one."""
        operand = self.ctx.names.of(rows.operand.tensor)
        at, scope = scope.fresh(f"{self.ctx.names.variables[rows.loop.var]}_at")
        position, scope = scope.fresh(f"p{operand}2")
        base = f"{self.ctx.names.of(rows.lhs.tensor)}_sum"
        sum, scope = scope.fresh(base, rows.lhs.dtype.name)
        start, place = self._ends(rows, at, scope)
        begin, end = self._run(rows, at)
        body = block(
            Declare(sum, start),
            p.For(position, begin, end, self._step(rows, at, position, sum, scope)),
            streamed(self.ctx, rows.lhs, update(place, sum, None)),
        )
        return block(
            p.For(at, Value(0), rows.window.size, body, f"rows of {named(operand)} that are left")
        )
