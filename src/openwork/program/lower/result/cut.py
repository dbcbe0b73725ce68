"""Partitions the outermost loop into pieces: windows of its values with about equal work."""

from __future__ import annotations

from openwork.frozen import frozen
from openwork.index.nodes import Access, IndexVar
from openwork.loops.nodes import Forall
from openwork.loops.plan.pieces import cut_variable
from openwork.loops.relations import Cut as Runs
from openwork.program.lower.base.append import Appender
from openwork.program.lower.base.context import Context
from openwork.program.lower.base.ranges import Range
from openwork.program.lower.base.scope import Scope
from openwork.program.lower.result.piece_appenders import PIECE, PIECES, Rows
from openwork.program.nodes import (
    Declare,
    Expr,
    Helper,
    If,
    Name,
    Set,
    Stmt,
    Value,
    arithmetic,
    block,
    compare,
)
from openwork.tree import walk


@frozen
class Cut:
    """The partition of a loop over the values `whole`."""

    ctx: Context
    loop: Forall
    whole: Range

    @property
    def var(self) -> IndexVar:
        """The variable whose values are partitioned."""
        return cut_variable(self.ctx.provenance, self.loop.var)

    def window(self, scope: Scope) -> tuple[list[Stmt], Range, Scope]:
        """The values of the current piece."""
        lo, scope = scope.fresh("piece_lo")
        hi, scope = scope.fresh("piece_hi")
        window = Range(lo, hi)
        access = self._measure()
        if access is None:
            return [self._even(lo, PIECE), self._even(hi, PIECE + 1)], window, scope
        outer, inner = access.tensor.format.levels[0], access.tensor.format.levels[1:2]
        counted = bool(inner) and inner[0].boundaries is not None
        if outer.full:
            pos = self.ctx.boundaries(access, 1)
            ends = [
                Declare(end, Helper("cut", (pos, *self._ends, n, PIECES)), fixed=True)
                for end, n in ((lo, PIECE), (hi, PIECE + 1))
            ]
            return [*ends], window, scope
        # If the operand is sparse, pieces begin at its stored coordinates.
        view = self.ctx.view(access, 0)
        first, last = outer.begin(view, Value(0)), outer.end(view, Value(0))
        code: list[Stmt] = [Declare(lo, self.whole.lo), Declare(hi, self.whole.hi)]
        for end, n, inside in (
            (lo, PIECE, compare("<", 0, PIECE)),
            (hi, PIECE + 1, compare("<", PIECE + 1, PIECES)),
        ):
            at, scope = scope.fresh(f"{end.name}_at")
            if counted:
                place: Expr = Helper(
                    "cut", (self.ctx.boundaries(access, 1), first, last, n, PIECES)
                )
            else:
                place = _share(first, last - first, n)
            stored = outer.coordinate(view, Value(0), at)
            found = If(compare("<", at, last), block(Set(end, stored)))
            outside = Set(end, self.whole.hi)
            code.append(If(inside, block(Declare(at, place, fixed=True), outside, found)))
        return code, window, scope

    def confine(self, scope: Scope, window: Range) -> Scope:
        """With the loops of a piece restricted to its values."""
        if self.var != self.loop.var:  # the loop's own range follows from this one
            scope = scope.remember(self.var, window)
        return scope.narrow(self.var, window)

    def prepare(self) -> list[Stmt]:
        """Code before the first piece."""
        return []

    @property
    def limit(self) -> Expr | None:
        """The row in which a piece ends, so that another piece closes it; None: never."""
        return None

    @property
    def _ends(self) -> tuple[Expr, Expr]:
        return self.whole.lo, self.whole.hi

    def _even(self, end: Name, n: Expr) -> Stmt:
        return Declare(end, _share(self.whole.lo, self.whole.size, n), fixed=True)

    @property
    def sparse(self) -> Access | None:
        """The operand whose entries measure the work, if it stores only some of the values."""
        access = self._measure()
        return None if access is None or access.tensor.format.levels[0].full else access

    def _measure(self) -> Access | None:
        """The operand whose entries measure the work, if there is one."""
        found = [
            access
            for access in dict.fromkeys(n for n in walk(self.loop) if isinstance(n, Access))
            if access.tensor in self.ctx.names.operands
            and access.vars
            and access.level_vars[0] == self.var
            and (not access.tensor.format.levels[0].full or _counts_below(access))
        ]
        return min(found, key=lambda access: access.tensor.format.levels[0].locates, default=None)

    def rows(self, window: Range, result: Appender) -> Rows:
        """The parents of the result's outermost sparse level that belong to a piece."""
        lo, hi = window.lo, window.hi
        relation = self.ctx.provenance.above.get(self.var)
        if isinstance(relation, Runs) and relation.length is not None:
            end = self.ctx.names.extent(relation.parent)
            hi = arithmetic("min", hi * relation.length, end)
            lo = arithmetic("min", lo * relation.length, end)
        inner = self.ctx.names.size(result.result.level_vars[1 : result.sparse[0]])
        return lo * inner, hi * inner


def _share(begin: Expr, size: Expr, n: Expr) -> Expr:
    """Where piece `n` of equal pieces begins; intermediate values do not overflow."""
    return begin + size / PIECES * n + arithmetic("min", n, size % PIECES)


def _counts_below(access: Access) -> bool:
    levels = access.tensor.format.levels
    return len(levels) > 1 and levels[1].boundaries is not None
