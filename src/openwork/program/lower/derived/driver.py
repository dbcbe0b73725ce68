"""Which operand alone can drive a loop over fused variables: its entries determine the work."""

from __future__ import annotations

from openwork.format.levels import Level
from openwork.frozen import frozen
from openwork.index.nodes import Access, IndexVar
from openwork.loops.absent import vanishes
from openwork.loops.nodes import Stmt, written
from openwork.loops.provenance import Provenance
from openwork.loops.relations import Pos
from openwork.program.lower.base.context import Context
from openwork.program.lower.base.ranges import Range
from openwork.program.lower.base.scope import Scope
from openwork.tree import walk


@frozen
class Driver:
    """The operand whose levels from `first` on are traversed as one, and their variables."""

    access: Access
    first: int
    variables: tuple[IndexVar, ...]
    fused: IndexVar

    @property
    def kinds(self) -> tuple[Level, ...]:
        """The levels that are traversed."""
        return self.access.tensor.format.levels[self.first : self.last + 1]

    @property
    def last(self) -> int:
        """The level whose positions are counted."""
        return self.first + len(self.variables) - 1

    @property
    def scattered(self) -> bool:
        """Whether positions are places, which are not in the order of the coordinates."""
        return len(self.variables) > 1 and not self.kinds[-1].contiguous

    def chooser(self, lhs: Access) -> int:
        """The index of the innermost variable that selects the entry `lhs`; -1 if none does."""
        return max((n for n, var in enumerate(self.variables) if var in lhs.vars), default=-1)

    def stored(self, provenance: Provenance) -> bool:
        """Whether the schedule stores the parents of each position."""
        return any(
            isinstance(relation, Pos)
            and relation.stored
            and relation.access == self.access
            and provenance.underived(relation.parent) == self.variables
            for relation in provenance.relations
        )

    def counters(self, provenance: Provenance) -> list[IndexVar]:
        """The variables that count positions, where an entry's place differs from its position."""
        return [
            relation.child
            for relation in (provenance.relations if self.kinds[-1].strided else ())
            if isinstance(relation, Pos)
            and relation.access == self.access
            and provenance.underived(relation.parent) == self.variables
        ]


def driver_of(
    ctx: Context, body: Stmt, var: IndexVar, window: Range | None, scope: Scope
) -> Driver | None:
    """The operand whose entries alone determine where a loop over the fused `var` has work."""
    if window is not None and window.pos is None:
        return None
    reads = [n for n in walk(body) if isinstance(n, Access)]
    candidates = (
        dict.fromkeys(reads) if window is None or window.pos is None else [window.pos.access]
    )
    variables = ctx.provenance.underived(var)
    for access in candidates:
        driver = _driver(ctx, access, variables, var, counted=window is not None)
        if driver is None or len(scope.reached(access)) != driver.first:
            continue
        if window is None and not _plain(ctx, var):
            continue
        shares = {a for a in reads if ctx.writes_all_of(a, access)}
        others = [a for a in reads if a != access and a not in shares]
        sparse = [kind for a in others for kind in a.levels_along(variables) if not kind.locates]
        if driver.scattered:  # where others are looked up
            sparse = [kind for kind in sparse if kind.lists]
        if sparse or not vanishes(body, access, ctx.provenance):
            continue
        if scope.appender is not None and ctx.is_result(written(body)):
            continue  # a result is appended row by row
        return driver
    return None


def _driver(
    ctx: Context, access: Access, variables: tuple[IndexVar, ...], fused: IndexVar, counted: bool
) -> Driver | None:
    """`access` as a driver, if its levels can be; `counted`: the schedule counts its positions."""
    if access.tensor in ctx.workspaces.table or variables[0] not in access.level_vars:
        return None
    first = access.level_vars.index(variables[0])
    same = access.level_vars[first : first + len(variables)] == variables
    sparse = any(not kind.full for kind in access.tensor.format.levels[first:])
    walked = access.tensor.format.levels[first : first + len(variables)]
    runs = all(kind.walks and kind.contiguous for kind in walked)
    runs |= counted and len(variables) > 1  # the command has asked
    once = walked[-1].unique  # else the same coordinates recur, with other entries below
    return Driver(access, first, variables, fused) if same and sparse and runs and once else None


def _plain(ctx: Context, var: IndexVar) -> bool:
    """Whether `var` fuses underived variables only."""
    relation = ctx.provenance.above.get(var)
    return relation is None or (
        len(relation.parents) == 2 and all(_plain(ctx, v) for v in relation.parents)
    )
