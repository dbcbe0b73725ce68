"""Workspaces that the threads of a GPU fill together: a hash set of keys, and a list of them.

A unit of threads has a table for the rows of a result that it makes, one after the other. How many
keys a row has at most is counted before, from the lengths of the loops that insert them, and that
many slots are used of it. Most rows fit a small table in shared memory, and a few threads do them.
What does not fit is noted and done afterwards by whole blocks: *long* rows with a table in all of
the block's shared memory, *far* ones with a table, or a map of bits, in global memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from openwork.algebra.operators import ADD, MAX, MIN, Op
from openwork.loops.plan.assembly import Append
from openwork.program import nodes as p
from openwork.program.gpu_nodes import MOST_SHARED, ByOne
from openwork.program.lower.base.workspace import Workspace, Workspaces, is_blank
from openwork.program.lower.result.gpu_sharing import by_warps, side_by_side
from openwork.program.nodes import (
    INDEX,
    Allocate,
    Array,
    Block,
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
from openwork.program.simplify import without_dead
from openwork.tree import Node, substitute, walk

NEAR, LONG, FAR = range(3)  # tiers
TIER = Name("piece_tier")  # of the longest row of a piece
# The most keys that a far row may have, how many pieces are long, and how many are far.
NOTED = Array("pieces_noted", "int32")
MOST_SLOTS = Name("far_slots")  # of a table for so many keys
_COUNT = "uint64"  # whatever indices are: the products of a row may be too many for 32 bits
_NEAR_EACH = 64  # keys that a thread inserts into a near table, at most
_MOST = 1 << 29  # keys of a row, which no memory would hold tables for
# What the hardware adds to atomically.
_ATOMIC = ("int32", "uint32", "int64", "uint64", "float32", "float64", "complex64", "complex128")


@dataclass(frozen=True)
class Table(Workspace):
    """A workspace that lists its keys, filled by the threads of a GPU.

    `made`: how its result is. `tier`: which rows it is for, by how many keys they have.
    """

    made: Append = field(default_factory=Append)
    tier: int = NEAR

    def at(self, tier: int) -> Table:
        return replace(self, tier=tier)

    @property
    def lanes(self) -> int:
        """How many threads fill it."""
        return self.made.lanes if self.tier == NEAR else self.made.many

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
            names.array(result, level, fact).type
            for level, kind in enumerate(result.format.levels)
            for fact in kind.arrays
            if fact.holds == "coordinates"
        }
        return "int32" if widths == {"int32"} else INDEX

    @property
    def set(self) -> Array:
        """Keys by slot, -1 where there is none."""
        return Array(f"{self.name}_set", self._type)

    @property
    def bits(self) -> Array:
        """A bit for every key, where a row has a map."""
        return Array(f"{self.name}_bits", "uint32")

    @property
    def tally(self) -> Array:
        """One number: how many keys there are, for the threads of a block to meet."""
        return Array(f"{self.name}_tally", "int32")

    @property
    def bound(self) -> Name:
        """How often a key is inserted for the row at hand."""
        return Name(f"{self.name}_bound", _COUNT)

    @property
    def _most_keys(self) -> Expr:
        """How many keys the row at hand has, at most."""
        limit = p.Convert(p.Apply(MIN, (self.bound, Value(_MOST, _COUNT)), _COUNT), INDEX)
        return arithmetic("min", limit, self.size)

    @property
    def used(self) -> Name:
        """How many slots the row at hand uses: a power of two."""
        return Name(f"{self.name}_used")

    @property
    def near_bytes(self) -> int:
        """How much shared memory a unit of threads needs for a near table."""
        return self.made.slots * self._slot_bytes

    @property
    def _slot_bytes(self) -> int:
        key = 4 if self._type == "int32" else 8
        return key + key * 3 // 4 + self.tensor.dtype.itemsize

    @property
    def long_slots(self) -> int:
        """How many slots the table of a long row has."""
        return 1 << (MOST_SHARED // self._slot_bytes).bit_length() >> 1

    @property
    def is_map(self) -> bool:
        """Whether the row at hand has a map instead of a table."""
        far = self.tier == FAR and self.made.mapped
        return far and len(self.vars) == 1 and is_blank(self.identity)

    def setup(self, valued: bool = True) -> list[Stmt]:
        """Memory for a unit, and what it knows about its table."""
        if not self.lists:
            return super().setup(valued)
        if self.is_map:
            return _map_setup(self, valued)
        size: Expr = arithmetic("max", MOST_SLOTS, Value(self.long_slots))
        listed = size
        if self.tier != FAR:
            slots = self.made.slots if self.tier == NEAR else self.long_slots
            size, listed = Value(slots), Value(slots * 3 // 4)
        return [
            Allocate(self.set, size),
            *([Allocate(self.vals, size)] if valued else []),
            Allocate(self.keys, listed),
            Allocate(self.tally, Value(1)),
            Declare(self.bound, Value(0, _COUNT)),
            Declare(self.used, Value(0)),
            Declare(self.count, Value(0)),
        ]

    def insert(self, coordinates: list[Expr], value: Expr | None, op: Op | None) -> list[Stmt]:
        if not self.lists:
            return super().insert(coordinates, value, op)
        at, slot = Name(f"{self.name}_key"), Name(f"{self.name}_slot")
        known = Declare(at, self.key(coordinates), fixed=True)
        if self.is_map:
            marked = Do(Helper("mark_bit", (self.bits, at)))
            stored = None if value is None else self.combined(at, value, op)
            return [ByOne(block(known, marked, stored))]
        claim = Helper("claim", (self.set, self.used, at))
        if value is None:
            return [ByOne(block(known, Do(claim)))]
        found = Declare(slot, claim, fixed=True)
        first = Value(-1) - slot
        if self.meets(op):
            any_slot = arithmetic("max", slot, first)
            return [ByOne(block(known, found, self.combined(any_slot, value, op)))]
        stores = block(Store(self.vals, first, value)), block(self._again(slot, value, op))
        return [ByOne(block(known, found, If(compare("<", slot, 0), *stores)))]

    def meets(self, op: Op | None) -> bool:
        """Whether warps that insert at once combine values of the row at hand atomically."""
        type, added = self.tensor.dtype.name, op is not None and op.adds
        return self.tier != NEAR and self.made.atomic and added and type in _ATOMIC

    def combined(self, at: Expr, value: Expr, op: Op | None) -> Store:
        """`vals[at] op= value`, where there is a value already: atomically, if others may, too."""
        if self.meets(op):
            return Store(self.vals, at, value, op, atomic=True)
        return self._again(at, value, op)

    def value_index(self, position: Expr) -> Expr:
        if not self.lists:
            return super().value_index(position)
        if self.is_map:
            return Load(self.keys, position)
        return Helper("slot_of", (self.set, self.used, Load(self.keys, position)))

    def around(self, producer: p.Block, consumer: p.Block, counting: bool) -> list[Stmt]:
        """Count what is inserted at most, make the table empty, fill it, put its keys in order."""
        at, lanes, made = Name(f"{self.name}_at"), self.lanes, self.made
        consumer = side_by_side(consumer, lanes)
        if self.tier != NEAR and made.atomic:
            producer = by_warps(producer, self.vals, lanes // made.lanes, made.lanes)
        if self.is_map:
            return _around_map(self, producer, consumer)
        stores = [n for n in walk(producer) if isinstance(n, Store) and n.array == self.vals]
        zeros = any(store.atomic for store in stores)
        cleared = block(
            Store(self.set, at, Value(-1, self._type)),
            Store(self.vals, at, self.identity) if zeros else None,
        )
        empty = For(at, Value(0), self.used, cleared, simd=True)
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
        slots = Helper("table_slots", (self._most_keys,))
        before = [*self._bounded(producer), Set(self.used, slots)]
        if self.tier != NEAR:
            return [*before, *body]
        few = compare("<=", self.bound, Value(_NEAR_EACH * lanes, _COUNT))
        fits = p.Binary("&&", few, compare("<=", self.used, made.slots))
        return [*before, If(fits, block(*body), self._noted() if counting else None)]

    def _noted(self) -> p.Block:
        """That the row at hand is too long."""
        keys = p.Convert(self._most_keys, "int32")
        most = Store(NOTED, Value(0), keys, MAX, atomic=True)
        far = block(Set(TIER, Value(FAR)), ByOne(block(most)))
        longer = block(Set(TIER, arithmetic("max", TIER, Value(LONG))))
        return block(If(compare("<=", self.used, self.long_slots), longer, far))

    def _bounded(self, producer: p.Block) -> list[Stmt]:
        """How often `producer` inserts a key; of innermost loops the lengths are added up."""
        others = {
            n.args[0]
            for n in walk(producer)
            if isinstance(n, Helper) and n.facts.inserts and n.args[0] != self.set
        }
        if others:  # whose keys are not known before
            return [Set(self.bound, p.Convert(self.size, _COUNT))]
        counted = block(*_Bound(self).of(producer))
        own: dict[Node, Node] = {
            name: replace(name, name=f"{name.name}_of_bound") for name in _declared(counted)
        }
        return [Set(self.bound, Value(0, _COUNT)), substitute(counted, own)]


@dataclass(frozen=True)
class _Bound:
    """Code that inserts, as code that counts how often."""

    table: Table

    def of(self, node: Stmt) -> list[Stmt]:
        bound = self.table.bound
        more = Set(bound, Value(1, _COUNT), ADD)
        match node:
            case p.Block(body=body):
                return [each for s in body for each in self.of(s)]
            case ByOne():
                mine = any(n == self.table.set for n in walk(node))
                return [more] if mine else []
            case For(begin=begin, end=end, body=body):
                inner = without_dead(block(*self.of(body)))
                if inner.body == (more,):
                    length = arithmetic("max", end - begin, Value(0))
                    return [Set(bound, p.Convert(length, _COUNT), ADD)]
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
        total = p.Reduction(self.table.bound, ADD, Value(0, _COUNT))
        by = p.Unit("thread", count=self.table.lanes)
        return replace(loop, by=by, reductions=(total,))


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


def maker_of(made: Append) -> Callable[..., Workspace]:
    """What makes workspaces that threads fill together, as a result is to be made."""
    return partial(Table, made=made)


def tables_of(workspaces: Workspaces) -> list[Table]:
    """The workspaces that are tables."""
    return [w for w in workspaces.table.values() if isinstance(w, Table) and w.lists]


MOST_KEYS = Name("far_keys")  # of a row that is far, as the host has learnt it
_SUMS = 32  # one for each warp of a block


def _words(table: Table) -> Expr:
    return (table.size + 31) / 32


def _map_setup(table: Table, valued: bool) -> list[Stmt]:
    """Memory for a block: no key is there, and all values are at the identity."""
    return [
        *([Allocate(table.vals, table.size, zeroed=True)] if valued else []),
        Allocate(table.bits, _words(table), zeroed=True),
        Allocate(table.keys, arithmetic("max", MOST_KEYS, Value(table.long_slots))),
        Allocate(table.tally, Value(_SUMS)),
        Declare(table.count, Value(0)),
    ]


def _around_map(table: Table, producer: Block, consumer: Block) -> list[Stmt]:
    """Fill the map, list its keys in order, and make it empty again."""
    at, found = Name(f"{table.name}_at"), (table.bits, _words(table), table.tally)
    if not any(node == table.keys for node in walk(consumer)):
        return [producer, Set(table.count, Helper("tally_bits", found)), consumer]
    valued = any(isinstance(n, Store) and n.array == table.vals for n in walk(producer))
    forget = Store(table.vals, Load(table.keys, at), table.identity)
    forgotten = For(at, Value(0), table.count, block(forget), "forget the values", simd=True)
    return [
        producer,
        Set(table.count, Helper("list_bits", (*found, table.keys))),
        consumer,
        *([forgotten] if valued else []),
    ]
