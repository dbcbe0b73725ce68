"""What stays the same while one kernel is lowered, and what lowering finds out on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace

from openwork.errors import InternalError
from openwork.index.nodes import Access, IndexVar, TensorVar
from openwork.loops.absent import vanishes
from openwork.loops.nodes import nest_of, relations_of
from openwork.loops.plan.assembly import Append, Shared
from openwork.loops.plan.blocks import whole_vars
from openwork.loops.plan.plan import Plan
from openwork.loops.provenance import Provenance
from openwork.loops.relations import Divide
from openwork.loops.schedule.legality.gpu import uses_gpu
from openwork.program.lower.base.append import Appender
from openwork.program.lower.base.names import Names
from openwork.program.lower.base.ranges import Count, Range
from openwork.program.lower.base.scope import Place, Scope
from openwork.program.lower.base.workspace import Workspace, Workspaces
from openwork.program.nodes import (
    Allocate,
    Array,
    Expr,
    For,
    Helper,
    Name,
    Role,
    Stmt,
    Store,
    Value,
    block,
    compare,
)

Recover = Callable[[IndexVar, Scope], Expr | None]

# Bytes that stay close to a core: its second-level cache and its part of the third.
_CACHE = 1 << 22


@dataclass
class Context:
    """The plan of a kernel, the names in its code, its temporaries, how its result is built.

    Found out on the way: `needs_initial`, some entries of an in-place result may not be written, or
    are updated; `unclear`, the temporaries for which this holds; `private`, the temporaries that
    each thread has for itself; `inside`, the workspaces of the current parallel loop; `sizes`,
    numbers of positions of whole levels and other sizes that the code uses. `recover` gives the
    value of a variable where it follows from known ones.
    """

    plan: Plan
    names: Names
    workspaces: Workspaces
    appender: Appender | None
    needs_initial: bool = False
    private: set[TensorVar] = field(default_factory=set)
    inside: list[Workspace] = field(default_factory=list)
    unclear: set[TensorVar] = field(default_factory=set)
    recover: Recover = field(default=lambda var, scope: scope.coords.get(var))
    sizes: dict[Name, Expr] = field(default_factory=dict)
    inspected: dict[Array, list[Stmt]] = field(default_factory=dict)  # and its inspector
    notes: list[str] = field(default_factory=list)  # for `explain()`
    merged: int = 0  # operands of the largest merge without a case for each set of them

    @cached_property
    def provenance(self) -> Provenance:
        """What each loop variable derives from."""
        return Provenance(relations_of(self.plan.loops))

    @cached_property
    def on_gpu(self) -> bool:
        """Whether the schedule maps loops to a GPU."""
        assembly = self.plan.assembly
        return uses_gpu(self.plan.loops) or (isinstance(assembly, Append) and assembly.lanes > 0)

    def note(self, note: str) -> None:
        """Record, once, what `explain()` tells."""
        self.notes += [note] if note not in self.notes else []

    def note_many(self, var: IndexVar, operands: int) -> None:
        """Record that a loop has too many operands to tell all cases apart."""
        note = (
            f"{var}: {operands} operands may be absent, too many for a case each: they are merged "
            "in one loop, which asks at each coordinate which are present"
        )
        self.note(note)
        self.merged = max(self.merged, operands)

    def is_result(self, access: Access) -> bool:
        """Whether `access` is to the result of the kernel, rather than to a temporary."""
        return access.tensor == self.plan.result

    def lists(self, access: Access) -> bool:
        """Whether `access` is to a workspace that keeps a list of its keys."""
        work = self.workspaces.table.get(access.tensor)
        return work is not None and work.lists

    def reach_further(self, scope: Scope, access: Access) -> Scope:
        """Reach every further level of `access` that its known coordinates locate."""
        if access in scope.accumulators or self.lists(access):
            return scope
        levels = access.tensor.format.levels
        at = len(scope.reached(access))
        while at < len(levels) and levels[at].locates:
            coordinate = self.recover(access.level_vars[at], scope)
            if coordinate is None:
                break
            parent = (scope.reached(access) or (Place(Value(0)),))[-1]
            view = self.names.view(access, at)
            place = Place(levels[at].locate(view, parent.position, coordinate))
            scope = scope.reach(access, place)
            at += 1
        return scope

    def view(self, access: Access, level: int) -> SimpleNamespace:
        """The values that the formulas of a level are evaluated on."""
        return self.workspaces.view(access, level)

    def parent_place(self, access: Access, level: int, scope: Scope) -> Place:
        """The place at the level above `level`, which is reached."""
        return scope.reached(access)[level - 1] if level else Place(Value(0))

    def tile_starts(self, access: Access, level: int, last: int, length: int) -> Array:
        """The ancestor at `level` of the first position of each tile of level `last`.

        An inspector finds them before the kernel runs, and they are cached with the operand.
        """
        pos, name = self.boundaries(access, level + 1), self.names.of(access.tensor)
        what = f"tiles{level + 1}_of{last + 1}_{length}"
        found = Array(f"{name}_{what}", pos.type, Role.START, name)
        if found in self.inspected:
            return found
        tile = Name(f"{found.name}_at")
        child = self._tile_start(access, level + 1, last, length, tile)
        count = (self.positions(access, last) + (length - 1)) / length + 1
        start = Helper("last_at_most", (pos, Value(0), self.positions(access, level), child))
        fill = block(Store(found, tile, start))
        self.inspected[found] = [
            Allocate(found, count, kept=what),
            For(tile, Value(0), count, fill, "where tiles begin", simd=True),
        ]
        return found

    def _tile_start(self, access: Access, level: int, last: int, length: int, tile: Name) -> Expr:
        """The ancestor at `level` of a tile's first position, or that position itself."""
        if level == last:
            return tile * length
        child = self._tile_start(access, level + 1, last, length, tile)
        kind = access.tensor.format.levels[level + 1]
        found = kind.parent(self.view(access, level + 1), child)
        if isinstance(found, Expr):
            return found
        return self.tile_starts(access, level, last, length)[tile]

    def boundaries(self, access: Access, level: int) -> Array:
        """The array of `level` in which to search the parent of a position."""
        kind = access.tensor.format.levels[level]
        for fact in kind.arrays:
            if fact.name == kind.boundaries:
                return self.names.array(access.tensor, level, fact)
        raise InternalError(f"level {level} of {access} has no boundaries to search")

    def cuts(self, relation: Divide) -> Array:
        """The array of cut points from the user's function."""
        return self.names.cuts(relation.outer)

    def drives(self, access: Access) -> bool:
        """Whether there is no work at all where the operand has no entries."""
        return vanishes(nest_of(self.plan.loops), access, self.provenance)

    @property
    def shared_operand(self) -> Access | None:
        """The operand whose pattern the result shares."""
        assembly = self.plan.assembly
        return assembly.operand if isinstance(assembly, Shared) else None

    def writes_all_of(self, lhs: Access, operand: Access) -> bool:
        """Whether `lhs` has an entry exactly where `operand` has one."""
        return self.is_result(lhs) and operand == self.shared_operand

    def elements(self, access: Access) -> Expr:
        """The number of values of the tensor that `access` writes."""
        last = access.tensor.ndim - 1
        operand = self.shared_operand
        if operand is None or not self.is_result(access):
            blocks = self.plan.blocks if self.is_result(access) else ()
            return self.names.size(whole_vars(access.vars, blocks))
        depth = max(n + 1 for n, kind in enumerate(access.tensor.format.levels) if not kind.full)
        count = self.positions(operand, depth - 1)
        return count * self.names.size(access.level_vars[depth : last + 1])

    def everything(self, var: IndexVar, scope: Scope) -> Range:
        """All values of an underived variable."""
        block = self.names.inner_blocks.get(var)
        outer = None if block is None else self.recover(block.outer, scope)
        end = self.names.reach_of(var, outer)
        known = isinstance(end, Value) and block is not None
        most = None if block is None else block.size
        count = Count(most if known else None, most=most)
        return Range(Value(0), end, count, everything=True)

    def is_far(self, access: Access) -> Name:
        """Whether the values of a dense operand exceed the cache."""
        name = Name(f"{self.names.of(access.tensor)}_far", "bool")
        size = self.names.size(access.vars) * access.dtype.itemsize
        self.sizes.setdefault(name, compare("<", _CACHE, size))
        return name

    def positions(self, access: Access, level: int) -> Name:
        """The total number of positions of a level."""
        name = Name(f"{self.names.of(access.tensor)}{level + 1}_size")
        if name not in self.sizes:
            count: Expr = Value(1)
            for n in range(level + 1):
                kind = access.tensor.format.levels[n]
                count = kind.children(self.workspaces.view(access, n), count)
            self.sizes[name] = count
        return name
