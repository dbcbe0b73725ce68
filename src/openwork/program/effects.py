"""The arrays a statement accesses, and whether GPU threads need a barrier before the next one."""

from __future__ import annotations

from openwork.frozen import frozen
from openwork.program import nodes as p
from openwork.program.gpu_nodes import Address
from openwork.program.nodes import Array
from openwork.tree import Node, children, walk

Names = frozenset[str]


@frozen
class Touched:
    """Arrays that threads load, that only the first thread stores to, and that many store to.

    `updates`: arrays that are updated atomically, each with its operator. Such updates commute.
    """

    loads: Names = frozenset()
    first: Names = frozenset()
    many: Names = frozenset()
    updates: frozenset[tuple[str, str]] = frozenset()

    @property
    def updated(self) -> Names:
        """The arrays that are updated atomically."""
        return frozenset(name for name, _ in self.updates)

    def meets(self, later: Touched) -> bool:
        """Whether `later` conflicts with this, so that threads need a barrier in between."""
        stores, theirs = self.first | self.many, later.first | later.many
        both = (self.many & theirs) | (stores & later.many)
        return bool(
            stores & later.loads or self.loads & theirs or both or self._meets_updates(later)
        )

    def _meets_updates(self, later: Touched) -> bool:
        """Whether atomic updates meet anything but updates by the same operator."""
        if not (self.updates or later.updates):
            return False
        mine, theirs = self.updated, later.updated
        plain = self.loads | self.first | self.many
        other = {n for n, op in self.updates for m, by in later.updates if n == m and op != by}
        return bool(plain & theirs or mine & (later.loads | later.first | later.many) or other)

    def and_then(self, other: Touched) -> Touched:
        """The accesses of both."""
        if other is _NOTHING:
            return self
        if self is _NOTHING:
            return other
        return Touched(
            self.loads | other.loads,
            self.first | other.first,
            self.many | other.many,
            self.updates | other.updates,
        )

    def without(self, local: set[str]) -> Touched:
        """Without the arrays that are private to each thread."""
        updates = frozenset(pair for pair in self.updates if pair[0] not in local)
        return Touched(self.loads - local, self.first - local, self.many - local, updates)


_NOTHING = Touched()


def changed_by_helpers(body: Node) -> set[str]:
    """The arrays that helpers write."""
    return {
        a.name
        for call in walk(body)
        if isinstance(call, p.Helper) and not call.facts.reads
        for arg in call.args
        for a in (arg.array if isinstance(arg, Address) else arg,)
        if isinstance(a, Array)
    }


def independent(loop: p.For) -> bool:
    """Whether the loop has no dependences and only stores: any thread may take any iteration."""
    body = loop.body.body if isinstance(loop.body, p.Block) else (loop.body,)
    return loop.simd and all(isinstance(s, p.Store) and s.op is None for s in body)


def touched(node: Node, shared: bool = False) -> Touched:
    """The accesses of `node`; `shared`: threads execute it with different iterations.

    Cached on the node, since every statement around it is asked, too.
    """
    key = "_touched_by_many" if shared else "_touched"
    known: Touched | None = node.__dict__.get(key)
    if known is None:
        known = node.__dict__[key] = _touched(node, shared)
    return known


def _touched(node: Node, shared: bool) -> Touched:
    found = _NOTHING
    if isinstance(node, p.For):
        shared = shared or node.unit in ("warp", "thread") or independent(node)
    match node:
        case p.Load(array=array):
            found = Touched(loads=frozenset([array.name]))
        case p.Store(array=array, op=op, atomic=True) if op is not None:
            found = Touched(updates=frozenset([(array.name, op.name)]))
        case p.Store(array=array, op=op):
            name = frozenset([array.name])
            found = Touched(many=name) if shared else Touched(first=name)
            if op is not None and shared:
                found = found.and_then(Touched(loads=name))
        case p.Helper():
            arrays = frozenset(a.name for a in node.args if isinstance(a, Array))
            found = Touched(loads=arrays, many=frozenset() if node.facts.reads else arrays)
    for child in children(node):
        if not isinstance(child, (p.Name, p.Value, Array)):  # most nodes, which access nothing
            found = found.and_then(touched(child, shared))
    return found
