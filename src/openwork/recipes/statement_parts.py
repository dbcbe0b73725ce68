"""The parts of a statement: its sparse operand, its columns, and the other reductions."""

from __future__ import annotations

from functools import cached_property

from openwork.errors import ScheduleError
from openwork.frozen import frozen
from openwork.index.nodes import Access, IndexVar
from openwork.loops.plan.assembly import accesses_of
from openwork.loops.schedule.schedulable import S, Schedulable

THREADS = 256  # of a block
WARP = 32
VECTOR = 16  # bytes of a vector load
SHARED = 48 * 1024  # bytes of shared memory of a block


@frozen
class Parts:
    """A statement as recipes see it."""

    stmt: Schedulable

    @cached_property
    def sparse(self) -> Access:
        """The one sparse operand."""
        found = [a for a in accesses_of(self.stmt.assignment.rhs) if not a.tensor.format.is_dense]
        if len(found) != 1:
            names = ", ".join(str(a.tensor) for a in found) or "none"
            raise ScheduleError(
                f"recipes are for statements with one sparse operand; this one has {names}",
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
        """Variables of the result that do not index the sparse operand."""
        lhs = self.stmt.assignment.lhs
        return tuple(v for v in lhs.level_vars if v not in self.inside)

    @property
    def summed(self) -> tuple[IndexVar, ...]:
        """Reduction variables that do not index the sparse operand."""
        known = {*self.inside, *self.stmt.assignment.lhs.vars}
        reads = accesses_of(self.stmt.assignment.rhs)
        return tuple(dict.fromkeys(v for a in reads for v in a.vars if v not in known))

    @property
    def one_row(self) -> bool:
        """Whether all entries below an outermost coordinate add to the same row of the result."""
        first, *inner = self.inside
        chosen = self.stmt.assignment.lhs.vars
        return first in chosen and not set(inner) & set(chosen)

    @property
    def in_order(self) -> bool:
        """Whether entries that add to the same place are consecutive."""
        kept = set(self.inside) & set(self.stmt.assignment.lhs.vars)
        return kept == set(self.inside[: len(kept)])

    @property
    def apart(self) -> bool:
        """Whether each entry has a place of its own in the result."""
        return set(self.inside) <= set(self.stmt.assignment.lhs.vars)

    @property
    def one_column(self) -> IndexVar:
        """The column variable, if there is exactly one."""
        if len(self.columns) != 1:
            raise ScheduleError(
                f"this recipe is for results with columns; {self.stmt} has none",
                code="E316",
                hint="such as C(i,k) = A(i,j) * B(j,k)",
            )
        return self.columns[0]

    def extent(self, var: IndexVar) -> int | None:
        """The extent of a variable, if the tensors of the statement give it."""
        assignment = self.stmt.assignment
        for access in (*accesses_of(assignment.rhs), assignment.lhs):
            shape = access.tensor.shape
            for mode, v in enumerate(access.vars):
                if v == var and shape is not None and shape[mode] is not None:
                    return shape[mode]
        return None


def positions(stmt: S, parts: Parts, above: int = 0, parents: str | None = "stored") -> S:
    """The loops over the sparse operand, but for those `above`, fused along its positions.

    `parents`: whether the row of each position is looked up, as GPU threads do best.
    """
    first, *rest = parts.inside[above:]
    fused: IndexVar | str = first
    for n, var in enumerate(rest):
        new = f"fused{n}" if n + 1 < len(rest) else "fused"
        stmt = stmt.fuse(fused, var, new)
        fused = new
    return stmt.pos(fused, "place", parts.sparse, parents=parents)


def ordered(stmt: S, parts: Parts) -> S:
    """Loops in the order of the sparse operand's levels, so that nothing is converted."""
    return stmt.order(*parts.inside, *parts.columns, *parts.summed)


def groups(threads: int, group: int) -> int:
    """How many groups of threads a block has.

    Raises:
        ScheduleError: E316 if it has none.
    """
    if not 0 < group <= threads:
        raise ScheduleError(
            f"{threads} threads of a block cannot form groups of {group}",
            code="E316",
            hint="group=8, say: a power of two up to 32",
        )
    return threads // group
