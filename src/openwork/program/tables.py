"""Workspaces that the threads of a GPU fill together: a hash set of keys, and a list of them.

A unit of threads has a table for the rows of a result that it makes, one after the other. How many
keys a row has at most is counted before, from the lengths of the loops that insert them, and that
many slots are used of it. Rows that fit have their table in shared memory, *near*; what does not
fit is noted and done afterwards by whole blocks, whose tables lie in global memory, *far*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from openwork.algebra.operators import ADD, MAX, Op
from openwork.program import nodes as p
from openwork.program.dead import without_dead
from openwork.program.device import ByOne
from openwork.program.induction import side_by_side
from openwork.program.nodes import (
    INDEX,
    Allocate,
    Array,
    Declare,
    Do,
    Expr,
    For,
    Helper,
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
from openwork.program.workspace import Workspace, Workspaces
from openwork.tree import Node, substitute, walk

FAR = Name("piece_is_far", "bool")  # whether a piece has a row that does not fit a near table
_MOST = 1 << 29  # keys of a row, which no memory would hold tables for


@dataclass
class Tables:
    """Where tables are now: `near`, with so many `slots`, or far; how many threads fill one."""

    lanes: int
    slots: int
    near: bool = True


@dataclass(frozen=True)
class Table(Workspace):
    """A workspace that lists its keys, filled by the threads of a GPU."""

    tables: Tables = field(default_factory=lambda: Tables(1, 0))

    @property
    def keys(self) -> Array:
        return Array(f"{self.name}_keys", self._type)

    @property
    def _type(self) -> str:
        """Keys of one mode are like the coordinates of the result along it."""
        if len(self.vars) > 1:
            return super().keys.type
        names, result = self.names, self.names.result
        widths = {
            names.array(result, level, fact.name).type
            for level, kind in enumerate(result.format.levels)
            for fact in kind.arrays
            if fact.name == "crd"
        }
        return "int32" if widths == {"int32"} else INDEX

    @property
    def set(self) -> Array:
        """Keys by slot, -1 where there is none."""
        return Array(f"{self.name}_set", self._type)

    @property
    def tally(self) -> Array:
        """One number: how many keys there are, for the threads of a block to meet."""
        return Array(f"{self.name}_tally", "int32")

    @property
    def needs(self) -> Array:
        """One number: the most keys that a row may have that does not fit a near table."""
        return Array(f"{self.name}_needs", "int32")

    @property
    def most(self) -> Name:
        """The same, as the host has learnt it."""
        return Name(f"{self.name}_most")

    @property
    def bound(self) -> Name:
        """How many keys the row at hand has, at most."""
        return Name(f"{self.name}_bound")

    @property
    def used(self) -> Name:
        """How many slots the row at hand uses: a power of two."""
        return Name(f"{self.name}_used")

    @property
    def room(self) -> Name:
        """How many slots a far table has."""
        return Name(f"{self.name}_room")

    @property
    def near_bytes(self) -> int:
        """How much shared memory a unit of threads needs for a near table."""
        key = 4 if self._type == "int32" else 8
        return self.tables.slots * (key + key * 3 // 4 + self.tensor.dtype.itemsize)

    def setup(self, valued: bool = True) -> list[Stmt]:
        """Memory for a unit, and what it knows about its table."""
        if not self.lists:
            return super().setup(valued)
        size: Expr = Value(self.tables.slots) if self.tables.near else self.room
        listed: Expr = Value(self.tables.slots * 3 // 4) if self.tables.near else self.room
        return [
            Allocate(self.set, size),
            *([Allocate(self.vals, size)] if valued else []),
            Allocate(self.keys, listed),
            Allocate(self.tally, Value(1)),
            Declare(self.bound, Value(0)),
            Declare(self.used, Value(0)),
            Declare(self.count, Value(0)),
        ]

    def insert(self, coordinates: list[Expr], value: Expr | None, op: Op | None) -> list[Stmt]:
        if not self.lists:
            return super().insert(coordinates, value, op)
        at, slot = Name(f"{self.name}_key"), Name(f"{self.name}_slot")
        claim = Helper("claim", (self.set, self.used, at))
        known = Declare(at, self.key(coordinates), fixed=True)
        if value is None:
            return [ByOne(block(known, Do(claim)))]
        first, again = Store(self.vals, Value(-1) - slot, value), self._again(slot, value, op)
        stored = If(compare("<", slot, 0), block(first), block(again))
        return [ByOne(block(known, Declare(slot, claim, fixed=True), stored))]

    def value_index(self, position: Expr) -> Expr:
        if not self.lists:
            return super().value_index(position)
        return Helper("slot_of", (self.set, self.used, Load(self.keys, position)))

    def around(self, producer: p.Block, consumer: p.Block, counting: bool) -> list[Stmt]:
        """Count what is inserted at most, make the table empty, fill it, put its keys in order."""
        at, lanes = Name(f"{self.name}_at"), self.tables.lanes
        key = Value(-1, self._type)
        empty = For(at, Value(0), self.used, block(Store(self.set, at, key)), simd=True)
        consumer = side_by_side(consumer, lanes)
        ordered = any(node == self.keys for node in walk(consumer))
        listed = Helper("collect", (self.set, self.used, self.tally, self.keys))
        counted = Helper("tally", (self.set, self.used, self.tally))
        body: list[Stmt] = [
            replace(empty, comment="an empty table"),
            producer,
            Set(self.count, listed if ordered else counted),
            *([Do(Helper("sort_keys", (self.keys, self.count)))] if ordered else []),
            consumer,
        ]
        limit = arithmetic("min", self.bound, Value(_MOST))
        size = arithmetic("min", limit, self.size) if len(self.vars) == 1 else limit
        before = [*self._bounded(producer), Set(self.bound, size)]
        before.append(Set(self.used, Helper("table_slots", (self.bound,))))
        if not self.tables.near:
            return [*before, *body]
        noted: list[Stmt] = [Set(FAR, Value(True, "bool"))]
        if counting:
            most = p.Convert(self.bound, "int32")
            noted.append(ByOne(block(Store(self.needs, Value(0), most, MAX, atomic=True))))
        fits = compare("<=", self.used, self.tables.slots)
        return [*before, If(fits, block(*body), block(*noted))]

    def _bounded(self, producer: p.Block) -> list[Stmt]:
        """How often `producer` inserts a key; of innermost loops the lengths are added up."""
        others = {
            n.args[0]
            for n in walk(producer)
            if isinstance(n, Helper) and n.name == "claim" and n.args[0] != self.set
        }
        if others:  # whose keys are not known before
            return [Set(self.bound, self.size if len(self.vars) == 1 else Value(_MOST))]
        counted = block(*_Bound(self).of(producer))
        own: dict[Node, Node] = {
            name: replace(name, name=f"{name.name}_of_bound") for name in _declared(counted)
        }
        return [Set(self.bound, Value(0)), substitute(counted, own)]


@dataclass(frozen=True)
class _Bound:
    """Code that inserts, as code that counts how often."""

    table: Table

    def of(self, node: Stmt) -> list[Stmt]:
        bound = self.table.bound
        more = Set(bound, bound + 1)
        match node:
            case p.Block(body=body):
                return [each for s in body for each in self.of(s)]
            case ByOne():
                mine = any(n == self.table.set for n in walk(node))
                return [more] if mine else []
            case For(begin=begin, end=end, body=body):
                inner = without_dead(block(*self.of(body)))
                if inner.body == (more,):
                    return [Set(bound, bound + arithmetic("max", end - begin, Value(0)))]
                made = self._shared(replace(_plain(node), body=inner))
                return [made] if _moves(inner) else []
            case p.While(body=body):
                inner = block(*self.of(body))
                return [replace(node, body=inner)] if _moves(inner) else []
            case If(condition=condition, then=then, otherwise=otherwise):
                first = block(*self.of(then))
                other = None if otherwise is None else block(*self.of(otherwise))
                empty = not first.body and (other is None or not other.body)
                return [] if empty else [If(condition, first, other)]
            case Declare():
                return [node]
            case Set(name=name) if name.type != "bool":
                return [node]
        return []

    def _shared(self, loop: For) -> For:
        """Threads count together, where nothing else depends on the order."""
        changed = {n.name for n in walk(loop.body) if isinstance(n, Set)}
        if changed != {self.table.bound} or any(isinstance(n, For) for n in walk(loop.body)):
            return loop
        total = p.Reduction(self.table.bound, ADD, Value(0))
        return replace(loop, unit="thread", units=self.table.tables.lanes, reductions=(total,))


def _moves(body: Stmt) -> bool:
    """Whether a loop changes what is known outside of it: the bound, or where an operand stands."""
    return any(isinstance(n, Set) and n.name not in _declared(body) for n in walk(body))


def _declared(code: Stmt) -> list[Name]:
    return [
        n.name if isinstance(n, Declare) else n.var
        for n in walk(code)
        if isinstance(n, (Declare, For))
    ]


def _plain(loop: For) -> For:
    return For(loop.var, loop.begin, loop.end, loop.body)


def maker_of(lanes: int, slots: int) -> Callable[..., Workspace]:
    """What makes workspaces that so many threads fill together."""
    return partial(Table, tables=Tables(lanes, slots))


def tables_of(workspaces: Workspaces) -> list[Table]:
    """The workspaces that are tables."""
    return [w for w in workspaces.table.values() if isinstance(w, Table) and w.lists]
