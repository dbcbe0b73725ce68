"""Workspaces that GPU threads fill together: a hash set of keys, and a list of them.

A unit of threads reuses one table for all rows of a result that it computes. An upper bound of a
row's keys is counted first, from the trip counts of the loops that insert them; it determines how
many slots the row uses. Most rows fit a small table in shared memory, which a few threads fill.
The others are listed, and whole blocks compute them afterwards: *long* rows with a table in all of
the block's shared memory, *far* rows with a table or a bitmap in global memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import partial

from openwork.algebra.operators import ADD, MAX, MIN, Op
from openwork.frozen import frozen
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
from openwork.program.simplify.dead import without_dead
from openwork.tree import Node, replace, substitute, walk

NEAR, LONG, FAR = range(3)  # tiers
TIER = Name("piece_tier")  # of the longest row of a piece
# An upper bound of the keys of a far row, the number of long pieces, and of far pieces.
NOTED = Array("pieces_noted", "int32")
MOST_SLOTS = Name("far_slots")  # of a table for so many keys
_COUNT = "uint64"  # whatever the index type: the products of a row may overflow 32 bits
_NEAR_EACH = 64  # insertions per thread into a near table, at most
_MOST = 1 << 29  # keys of a row, beyond which no memory would hold its table
# The types with hardware atomic adds.
_ATOMIC = ("int32", "uint32", "int64", "uint64", "float32", "float64", "complex64", "complex128")


@frozen
class Table(Workspace):
    """A workspace that lists its keys, filled by GPU threads together.

    `made`: how the result is assembled. `tier`: the rows it is for, by their number of keys.
    """

    made: Append = field(default_factory=Append)
    tier: int = NEAR

    def at(self, tier: int) -> Table:
        return replace(self, tier=tier)

    @property
    def lanes(self) -> int:
        """The number of threads that fill it."""
        return self.made.lanes if self.tier == NEAR else self.made.many

    @property
    def keys(self) -> Array:
        return Array(f"{self.name}_keys", self._type)

    @property
    def _type(self) -> str:
        """The type of keys: with one mode, that of the result's coordinates."""
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
        """Keys by slot, -1 for an empty slot."""
        return Array(f"{self.name}_set", self._type)

    @property
    def bits(self) -> Array:
        """A bit for every key, where a row has a bitmap."""
        return Array(f"{self.name}_bits", "uint32")

    @property
    def tally(self) -> Array:
        """One number: the number of keys, in memory that the threads of a block share."""
        return Array(f"{self.name}_tally", "int32")

    @property
    def bound(self) -> Name:
        """The number of insertions for the current row."""
        return Name(f"{self.name}_bound", _COUNT)

    @property
    def _most_keys(self) -> Expr:
        """An upper bound of the number of keys of the current row."""
        limit = p.Convert(p.Apply(MIN, (self.bound, Value(_MOST, _COUNT)), _COUNT), INDEX)
        return arithmetic("min", limit, self.size)

    @property
    def used(self) -> Name:
        """The number of slots that the current row uses: a power of two."""
        return Name(f"{self.name}_used")

    @property
    def near_bytes(self) -> int:
        """The shared memory that a unit of threads needs for a near table."""
        return self.made.slots * self._slot_bytes

    @property
    def _slot_bytes(self) -> int:
        key = 4 if self._type == "int32" else 8
        return key + key * 3 // 4 + self.tensor.dtype.itemsize

    @property
    def long_slots(self) -> int:
        """The number of slots in the table of a long row."""
        return 1 << (MOST_SHARED // self._slot_bytes).bit_length() >> 1

    @property
    def is_map(self) -> bool:
        """Whether the current row has a bitmap instead of a table."""
        far = self.tier == FAR and self.made.mapped
        return far and len(self.vars) == 1 and is_blank(self.identity)

    def setup(self, valued: bool = True) -> list[Stmt]:
        """Allocate memory for a unit, and declare its counters."""
        if not self.lists:
            return super().setup(valued)
        if self.is_map:
            return _map_setup(self, valued)
        size: Expr = arithmetic("max", MOST_SLOTS, Value(self.long_slots))
        listed = size
        if self.tier != FAR:
            slots = self.made.slots if self.tier == NEAR else self.long_slots
            size, listed = Value(slots), Value(max(1, slots * 3 // 4))
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
        """Whether warps insert concurrently, and so combine values atomically."""
        type, added = self.tensor.dtype.name, op is not None and op.adds
        return self.tier != NEAR and self.made.atomic and added and type in _ATOMIC

    def combined(self, at: Expr, value: Expr, op: Op | None) -> Store:
        """`vals[at] op= value` for an existing value; atomically if warps insert concurrently."""
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
        """Bound the insertions, clear the table, fill it, sort its keys."""
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
        """Record that the current row is too long."""
        keys = p.Convert(self._most_keys, "int32")
        most = Store(NOTED, Value(0), keys, MAX, atomic=True)
        far = block(Set(TIER, Value(FAR)), ByOne(block(most)))
        longer = block(Set(TIER, arithmetic("max", TIER, Value(LONG))))
        return block(If(compare("<=", self.used, self.long_slots), longer, far))

    def _bounded(self, producer: p.Block) -> list[Stmt]:
        """Bound the insertions of `producer` by the trip counts of its innermost loops."""
        others = {
            n.args[0]
            for n in walk(producer)
            if isinstance(n, Helper) and n.facts.inserts and n.args[0] != self.set
        }
        if others:  # whose keys are not known beforehand
            return [Set(self.bound, p.Convert(self.size, _COUNT))]
        counted = block(*_Bound(self).of(producer))
        own: dict[Node, Node] = {
            name: replace(name, name=f"{name.name}_of_bound") for name in _declared(counted)
        }
        return [Set(self.bound, Value(0, _COUNT)), substitute(counted, own)]


@frozen
class _Bound:
    """Rewrites code that inserts into code that counts the insertions."""

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
        """Let threads count together, where the order does not matter."""
        changed = {n.name for n in walk(loop.body) if isinstance(n, Set)}
        if changed != {self.table.bound} or any(isinstance(n, For) for n in walk(loop.body)):
            return loop
        total = p.Reduction(self.table.bound, ADD, Value(0, _COUNT))
        by = p.Unit("thread", count=self.table.lanes)
        return replace(loop, by=by, reductions=(total,))


def _moves(body: Stmt) -> bool:
    """Whether a loop changes outer variables: the bound, or the position in an operand."""
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
    """The constructor of workspaces that GPU threads fill together."""
    return partial(Table, made=made)


def tables_of(workspaces: Workspaces) -> list[Table]:
    """The workspaces that are tables."""
    return [w for w in workspaces.table.values() if isinstance(w, Table) and w.lists]


MOST_KEYS = Name("far_keys")  # of a far row, as read by the host
_SUMS = 32  # one for each warp of a block


def _words(table: Table) -> Expr:
    return (table.size + 31) / 32


def _map_setup(table: Table, valued: bool) -> list[Stmt]:
    """Allocate memory for a block: no keys, and all values at the identity."""
    return [
        *([Allocate(table.vals, table.size, zeroed=True)] if valued else []),
        Allocate(table.bits, _words(table), zeroed=True),
        Allocate(table.keys, arithmetic("max", MOST_KEYS, Value(table.long_slots))),
        Allocate(table.tally, Value(_SUMS)),
        Declare(table.count, Value(0)),
    ]


def _around_map(table: Table, producer: Block, consumer: Block) -> list[Stmt]:
    """Fill the bitmap, list its keys in order, and clear it."""
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
