"""What recipes see of a statement: its sparse operand, its columns, and what is summed beside."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from openwork.errors import ScheduleError
from openwork.index.nodes import Access, IndexVar
from openwork.loops.plan.assembly import accesses_of
from openwork.loops.schedule.schedulable import S, Schedulable

THREADS = 256  # of a block
WARP = 32
VECTOR = 16  # bytes that a thread loads at once
SHARED = 48 * 1024  # bytes that the threads of a block share


@dataclass(frozen=True)
class Parts:
    """What the recipes see of a statement."""

    stmt: Schedulable

    @cached_property
    def sparse(self) -> Access:
        """The one sparse operand."""
        found = [a for a in accesses_of(self.stmt.assignment.rhs) if not a.tensor.format.is_dense]
        if len(found) != 1:
            names = ", ".join(str(a.tensor) for a in found) or "none"
            raise ScheduleError(
                f"recipes are for statements with one sparse operand, here: {names}",
                code="E316",
                hint="schedule the statement by hand, or leave it to the default",
            )
        return found[0]

    @property
    def inside(self) -> tuple[IndexVar, ...]:
        """The sparse operand's variables, in the order of its levels."""
        return self.sparse.level_vars

    @property
    def columns(self) -> tuple[IndexVar, ...]:
        """Variables of the result that the sparse operand has not."""
        lhs = self.stmt.assignment.lhs
        return tuple(v for v in lhs.level_vars if v not in self.inside)

    @property
    def summed(self) -> tuple[IndexVar, ...]:
        """Variables that are summed and that the sparse operand has not."""
        known = {*self.inside, *self.stmt.assignment.lhs.vars}
        reads = accesses_of(self.stmt.assignment.rhs)
        return tuple(dict.fromkeys(v for a in reads for v in a.vars if v not in known))

    @property
    def one_row(self) -> bool:
        """Whether all that lies below a coordinate of the outermost level adds to the same."""
        first, *inner = self.inside
        chosen = self.stmt.assignment.lhs.vars
        return first in chosen and not set(inner) & set(chosen)

    @property
    def in_order(self) -> bool:
        """Whether entries that add to the same place follow one another."""
        kept = set(self.inside) & set(self.stmt.assignment.lhs.vars)
        return kept == set(self.inside[: len(kept)])

    @property
    def apart(self) -> bool:
        """Whether each entry has a place of its own in the result."""
        return set(self.inside) <= set(self.stmt.assignment.lhs.vars)

    @property
    def one_column(self) -> IndexVar:
        """The columns, where there is one variable of them."""
        if len(self.columns) != 1:
            raise ScheduleError(
                f"this recipe is for results with columns, which {self.stmt} has not",
                code="E316",
                hint="such as C(i,k) = A(i,j) * B(j,k)",
            )
        return self.columns[0]

    def extent(self, var: IndexVar) -> int | None:
        """How far a variable runs, if the tensors of the statement say so."""
        assignment = self.stmt.assignment
        for access in (*accesses_of(assignment.rhs), assignment.lhs):
            shape = access.tensor.shape
            for mode, v in enumerate(access.vars):
                if v == var and shape is not None and shape[mode] is not None:
                    return shape[mode]
        return None


def positions(stmt: S, parts: Parts, above: int = 0) -> S:
    """All loops over the sparse operand's variables, but those `above`, as one along positions."""
    first, *rest = parts.inside[above:]
    fused: IndexVar | str = first
    for n, var in enumerate(rest):
        new = f"fused{n}" if n + 1 < len(rest) else "fused"
        stmt = stmt.fuse(fused, var, new)
        fused = new
    return stmt.pos(fused, "place", parts.sparse)


def ordered(stmt: S, parts: Parts) -> S:
    """Loops in the order of the sparse operand's levels, so that nothing is converted."""
    return stmt.order(*parts.inside, *parts.columns, *parts.summed)
