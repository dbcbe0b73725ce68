"""Results that are built by appending coordinates in order.

Each level that is not full counts its positions, and its arrays grow as needed. A position is
entered before its subtree is computed, and committed afterwards if anything was appended below.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from openwork.algebra.operators import SELECT
from openwork.algebra.types import number
from openwork.format.levels import ArrayFact
from openwork.format.levels.width import INT32_LIMIT
from openwork.index.nodes import Access
from openwork.program.contract import OVERFLOWED, ROOM
from openwork.program.lower.base.names import Names
from openwork.program.nodes import (
    INDEX,
    Allocate,
    Apply,
    Argument,
    Array,
    Declare,
    Expr,
    Fail,
    For,
    Grow,
    Growing,
    If,
    Load,
    Name,
    Set,
    Stmt,
    Store,
    Value,
    arithmetic,
    block,
    compare,
)


@dataclass
class Appender:
    """The bookkeeping of one appended result."""

    result: Access
    names: Names
    gaps: set[int] = field(default_factory=set)  # levels whose parents are not all visited
    tier: int = 0  # on a GPU: which rows it handles, by their number of keys
    resumed: frozenset[int] = frozenset()  # levels whose last position may be entered again
    counts: ClassVar[bool] = False  # it counts entries, and computes no values
    of_piece: ClassVar[bool] = False  # it assembles one piece of the result

    def __post_init__(self) -> None:
        variables, levels = self.result.level_vars, self.result.tensor.format.levels
        for level in self.sparse:
            above = level - 1
            while above >= 0 and levels[above].full:
                if self.names.ends_early(variables[above]):
                    self.gaps.add(level)
                above -= 1

    @property
    def sparse(self) -> list[int]:
        """The levels that are appended to."""
        return [n for n, level in enumerate(self.result.tensor.format.levels) if not level.full]

    def below(self, level: int) -> int | None:
        """The next level further in that is appended to."""
        return next((n for n in self.sparse if n > level), None)

    def count(self, level: int) -> Name:
        """The number of positions of `level` so far."""
        return Name(f"nR{level + 1}")

    def room(self, level: int) -> Name:
        """The number of positions of `level` that fit its memory."""
        return Name(f"R{level + 1}_room")

    def per(self, level: int) -> Expr:
        """Positions per entry of `level` in the full levels right below it."""
        below = self.below(level)
        end = len(self.result.level_vars) if below is None else below
        return self.names.size(self.result.level_vars[level + 1 : end])

    def array(self, level: int, fact: ArrayFact) -> Array:
        """An index array of the result."""
        return self.names.array(self.result.tensor, level, fact)

    @property
    def values(self) -> Array:
        """The values of the result."""
        return self.names.values(self.result.tensor)

    def facts(self, level: int, per: str) -> list[ArrayFact]:
        """The index arrays of `level` with an entry per parent, or per child."""
        return [f for f in self.result.tensor.format.levels[level].arrays if f.per == per]

    def growing(self, level: int) -> tuple[Growing, ...]:
        """The arrays that have an entry for each position of `level`."""
        arrays = [Growing(self.array(level, f), Value(1)) for f in self.facts(level, "child")]
        below = self.below(level)
        if below is None:
            arrays.append(Growing(self.values, self.per(level)))
        else:
            arrays += [
                Growing(self.array(below, f), self.per(level), f.extra, below in self.gaps)
                for f in self.facts(below, "parent")
            ]
        return tuple(arrays)

    def reserve(self, level: int, more: Expr) -> list[Stmt]:
        """Reserve memory for `more` positions of `level`."""
        return [Grow(self.room(level), self.count(level) + more, self.growing(level))]

    def latest(self, level: int) -> Name:
        """The coordinate of the last position of a `resumed` level; -1 if it has none yet."""
        return Name(f"R{level + 1}_latest")

    def latest_parent(self, level: int) -> Name:
        """The position above it, in which the same coordinate is the same entry."""
        return Name(f"R{level + 1}_latest_in")

    def resume(
        self, level: int, coordinate: Expr, parent: Expr | None, position: Name
    ) -> list[Stmt]:
        """Declare the entered position: the last one, if it is at these coordinates already."""
        count, again = self.count(level), compare("==", self.latest(level), coordinate)
        if parent is not None:
            again = again & compare("==", self.latest_parent(level), parent)
        found = Apply(SELECT, (again, count - 1, count), INDEX)
        return [Declare(position, found, fixed=True)]

    def remember(self, level: int, coordinate: Expr, parent: Expr | None) -> list[Stmt]:
        """Note that the last position of a `resumed` level is at these coordinates."""
        above: list[Stmt] = [] if parent is None else [Set(self.latest_parent(level), parent)]
        return [Set(self.latest(level), coordinate), *above]

    def begin_rows(self) -> list[Stmt]:
        """Declare what is known of the positions that may be entered again."""
        names = (
            name
            for level in sorted(self.resumed)
            for name in (self.latest(level), *([self.latest_parent(level)] if level else []))
        )
        return [Declare(name, Value(-1)) for name in names]

    def enter(self, level: int) -> list[Stmt]:
        """Code before the subtree of a new position of `level`, for which there is memory."""
        return self._clear_block(level) if self.below(level) is None else []

    def commit(
        self,
        level: int,
        coordinate: Expr,
        parent: Expr | None,
        start: Name | None,
        position: Expr,
    ) -> list[Stmt]:
        """Keep the entered position, if anything was appended below it since `start`."""
        count, below = self.count(level), self.below(level)
        keep: list[Stmt] = [
            Store(self.array(level, f), position, coordinate) for f in self.facts(level, "child")
        ]
        step = Set(count, count + 1)
        if below is None or start is None:
            return [*keep, step]
        if below == level + 1:
            keep += self.close(below, position)
        if level in self.resumed:
            keep += [*self.remember(level, coordinate, parent), Set(count, position + 1)]
        else:
            keep.append(step)
        return [If(compare("<", start, self.count(below)), block(*keep))]

    def close(self, level: int, parent: Expr) -> list[Stmt]:
        """Record where the segment of `parent` in `level` ends."""
        return [
            Store(self.array(level, f), parent + 1, self.count(level))
            for f in self.facts(level, "parent")
        ]

    def _clear_block(self, level: int) -> list[Stmt]:
        """Initialize the full levels below a new position to the fill value."""
        tensor = self.result.tensor
        if level + 1 == len(self.result.level_vars):
            return []
        size, at = self.per(level), Name("R_at")
        fill = Value(number(tensor.fill, tensor.dtype), tensor.dtype.name)
        store = Store(self.values, self.count(level) * size + at, fill)
        return [
            For(
                at,
                Value(0),
                size,
                block(store),
                f"a new block of {self.names.said(tensor)}",
                simd=True,
            )
        ]

    def prologue(self) -> list[Stmt]:
        """Declare the counters and allocate memory."""
        code: list[Stmt] = []
        first = self.sparse[0]
        parents = self.names.size(self.result.level_vars[:first])
        for fact in self.facts(first, "parent"):
            array = self.array(first, fact)
            code.append(Allocate(array, parents + fact.extra, zeroed=first in self.gaps))
        for level in self.sparse:
            code += [Declare(self.count(level), Value(0)), Declare(self.room(level), Value(0))]
            code += [Allocate(g.array, Value(0)) for g in self.growing(level)]
        code += self.begin_rows()
        for level in self.sparse:
            code += self.reserve(level, ROOM)
        for level in self.sparse:
            code += [
                Store(self.array(level, f), Value(0), Value(0)) for f in self.facts(level, "parent")
            ]
        return code

    def epilogue(self) -> list[Stmt]:
        """Check the counts; close the outermost segment, and those of parents never visited."""
        code = self.check_counts()
        if self.sparse[0] == 0:
            code += self.close(0, Value(0))
        return [*code, *self.close_gaps()]

    def close_gaps(self) -> list[Stmt]:
        """Close the segments of parents that were never visited."""
        code: list[Stmt] = []
        for level in sorted(self.gaps):
            at = Name("R_at")
            for fact in self.facts(level, "parent"):
                array = self.array(level, fact)
                largest = arithmetic("max", Load(array, at), Load(array, at + 1))
                carry = block(Store(array, at + 1, largest))
                code.append(For(at, Value(0), self.positions(level - 1), carry, "unvisited runs"))
        return code

    def check_counts(self) -> list[Stmt]:
        """Fail if positions overflow the type of their arrays."""
        return [
            If(compare("<", Value(INT32_LIMIT.value), self.count(level)), block(Fail(OVERFLOWED)))
            for level in self.sparse
            if any(self.array(level, f).type == "int32" for f in self.facts(level, "parent"))
        ]

    def positions(self, level: int) -> Expr:
        """The final number of positions of `level`."""
        anchor = max((n for n in self.sparse if n <= level), default=-1)
        inner = self.names.size(self.result.level_vars[anchor + 1 : level + 1])
        return inner if anchor < 0 else self.count(anchor) * inner

    def arguments(self) -> list[Argument]:
        """The arrays returned to the caller, with their lengths."""
        tensor, made = self.result.tensor, []
        for level in self.sparse:
            for f in tensor.format.levels[level].arrays:
                length = self.positions(level if f.per == "child" else level - 1) + f.extra
                array = self.array(level, f)
                made.append(Argument(array, tensor.name, level, f.name, "made", length))
        last = self.positions(tensor.ndim - 1)
        made.append(Argument(self.values, tensor.name, -1, "values", "made", last))
        return made
