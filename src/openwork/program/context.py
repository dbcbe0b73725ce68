"""What stays the same while one kernel is lowered, and what lowering finds out on the way."""

from __future__ import annotations

from dataclasses import dataclass, field

from openwork.index.nodes import Access
from openwork.loops.plan import Plan
from openwork.program.assemble import Appender
from openwork.program.nodes import Expr, Name, Value, compare
from openwork.program.scope import Place, Scope
from openwork.program.tensors import Names
from openwork.program.workspace import Workspace, Workspaces

# Bytes that stay near a core, in its second-level cache and its share of the third.
_CACHE = 1 << 22


@dataclass
class Context:
    """The plan of a kernel, the names in its code, its temporaries, how its result is built.

    Found out on the way: `needs_initial`, some entry of an in-place result may not be written, or
    is added to; `private`, the workspaces that each thread has for itself; `sizes`, the numbers of
    positions of whole levels and other facts about sizes that the code asks for.
    """

    plan: Plan
    names: Names
    workspaces: Workspaces
    appender: Appender | None
    needs_initial: bool = False
    private: list[Workspace] = field(default_factory=list)
    sizes: dict[Name, Expr] = field(default_factory=dict)

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
        while at < len(levels) and levels[at].locates and access.level_vars[at] in scope.coords:
            parent = (scope.reached(access) or (Place(Value(0)),))[-1]
            view = self.names.view(access, at)
            coordinate = scope.coords[access.level_vars[at]]
            place = Place(levels[at].locate(view, parent.position, coordinate))
            scope = scope.reach(access, place)
            at += 1
        return scope

    def is_far(self, access: Access) -> Name:
        """Whether the values of a dense operand are too many for the cache."""
        name = Name(f"{self.names.of(access.tensor)}_far", "bool")
        size = self.names.size(access.vars) * access.dtype.itemsize
        self.sizes.setdefault(name, compare("<", _CACHE, size))
        return name

    def positions(self, access: Access, level: int) -> Name:
        """How many positions a level has in all."""
        name = Name(f"{self.names.of(access.tensor)}{level + 1}_size")
        if name not in self.sizes:
            count: Expr = Value(1)
            for n in range(level + 1):
                kind = access.tensor.format.levels[n]
                count = kind.children(self.workspaces.view(access, n), count)
            self.sizes[name] = count
        return name
