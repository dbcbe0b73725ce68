"""Temporaries: scalars, dense workspaces, and workspaces that keep a list of their keys.

A listing workspace is keyed by the linearised coordinates of its modes. With one mode it has a
value and a flag for every key, and a list of the flagged ones. With more modes, or for hypersparse
keys, a hash table maps a key to its slot. Either way the keys are sorted before they are read, so
that the result is appended in order, unless nothing depends on their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace

import numpy as np

from openwork.algebra.entries import Entry
from openwork.algebra.operators import Op
from openwork.algebra.types import named
from openwork.errors import InternalError
from openwork.format.levels import is_hashed
from openwork.frozen import frozen
from openwork.index.nodes import Access, IndexVar, TensorVar
from openwork.program.elements import combine, converted
from openwork.program.lower.base.names import Names
from openwork.program.lower.base.scope import Place
from openwork.program.nodes import (
    INDEX,
    Allocate,
    Array,
    Declare,
    Do,
    Expr,
    For,
    Free,
    Grow,
    Growing,
    Helper,
    If,
    Load,
    Local,
    Name,
    Role,
    Set,
    Stmt,
    Store,
    Value,
    block,
    compare,
)
from openwork.tree import replace

# Workspaces of a constant size of at most so many elements are local arrays.
_MOST_LOCAL = 128


@frozen
class Workspace:
    """The arrays of one temporary that is not a scalar.

    `swept`: it is dense, and its values are the identity whenever a producer begins.
    """

    tensor: TensorVar
    vars: tuple[IndexVar, ...]
    names: Names
    swept: bool = False

    def at(self, tier: int) -> Workspace:
        """The workspace for rows of a tier: on a CPU, always the same."""
        return self

    @property
    def lists(self) -> bool:
        """Whether it lists the keys that were written."""
        return not self.tensor.format.is_dense

    @property
    def hashed(self) -> bool:
        """Whether a hash table maps keys to slots."""
        return self.lists and is_hashed(self.tensor.format.levels)

    @property
    def name(self) -> str:
        """The name in the code."""
        return self.names.of(self.tensor)

    @property
    def vals(self) -> Array:
        """Values by key, or by slot where hashed."""
        return self.names.values(self.tensor)

    @property
    def keys(self) -> Array:
        """The keys that were written.

        64-bit numbers, 128-bit ones where 64 bits are too few, or a mode's 32-bit coordinates.
        """
        type = "int128" if self.tensor.name in self.names.facts.wide_keys else INDEX
        if not self.hashed and self.vars[0] in self.names.narrow:
            type = "int32"
        return Array(f"{self.name}_keys", type)

    def key(self, coordinates: Sequence[Expr]) -> Expr:
        """`(i * extent + j) * extent + k`, in the type of keys, but not in a narrower one."""
        key = coordinates[0]
        if self.keys.type == "int128":
            key = converted(key, "int128")
        for var, coordinate in zip(self.vars[1:], coordinates[1:], strict=True):
            key = key * self.names.extent(var) + coordinate
        return key

    def stride(self, level: int) -> Expr | None:
        """The distance between the keys of adjacent coordinates of a mode; None for 1."""
        inner = self.vars[level + 1 :]
        if not inner:
            return None
        product = converted(self.names.extent(inner[0]), self.keys.type)
        for var in inner[1:]:
            product = product * self.names.extent(var)
        return product

    @property
    def slots(self) -> Array:
        """The slot of each key in `keys`, where hashed."""
        return Array(f"{self.name}_slots", INDEX)

    @property
    def listed(self) -> Array:
        """A flag for every key that was written, where not hashed."""
        return Array(f"{self.name}_listed", "uint8")

    @property
    def marks(self) -> Array:
        """A bitmap of all keys, in which they are sorted; otherwise it is empty."""
        return Array(f"{self.name}_marks", "uint64")

    @property
    def table(self) -> Array:
        """The hash table: slots, or -1."""
        return Array(f"{self.name}_table", INDEX, Role.TABLE, self.name)

    @property
    def mask(self) -> Name:
        """The size of the hash table less one."""
        return Name(f"{self.name}_mask")

    @property
    def count(self) -> Name:
        """The number of keys that were written."""
        return Name(f"{self.name}_count")

    @property
    def room(self) -> Name:
        """The number of keys that there is memory for, where hashed."""
        return Name(f"{self.name}_room")

    @property
    def size(self) -> Expr:
        """The number of possible keys."""
        return self.names.size(self.vars)

    def value_index(self, position: Expr) -> Expr:
        """The index of the value of the key at `position` in the sorted list."""
        return Load(self.slots if self.hashed else self.keys, position)

    def _growing(self, valued: bool) -> tuple[Growing, ...]:
        arrays = (self.keys, self.slots, *([self.vals] if valued else []))
        return tuple(Growing(array, Value(1)) for array in arrays)

    @property
    def local(self) -> int | None:
        """The number of values, if it is so small that they may stay in registers."""
        size = self.size
        known = int(size.value.real) if isinstance(size, Value) else _MOST_LOCAL + 1
        return known if not self.lists and not self.swept and known <= _MOST_LOCAL else None

    def setup(self, valued: bool = True) -> list[Stmt]:
        """Allocate memory, before any loop; not `valued`: for keys alone."""
        if self.local is not None or not (valued or self.lists):
            return []
        blank = is_blank(self.identity)
        if not self.lists:
            zeroed = self.swept and blank
            filled = self._filled() if self.swept and not blank else []
            return [Allocate(self.vals, self.size, zeroed=zeroed), *filled]
        if not self.hashed:
            return [
                *([Allocate(self.vals, self.size, zeroed=blank)] if valued else []),
                Allocate(self.listed, self.size, zeroed=True),
                Allocate(self.marks, self.size / 64 + 1, zeroed=True),
                Allocate(self.keys, self.size + 1),  # one more is written before it is known
                Declare(self.count, Value(0)),
                *(self._filled() if valued and not blank else []),
            ]
        return [
            *(Allocate(growing.array, Value(64)) for growing in self._growing(valued)),
            Allocate(self.table, Value(0)),
            Declare(self.mask, Value(-1)),
            Declare(self.room, Value(64)),
            Declare(self.count, Value(0)),
        ]

    def cleanup(self, valued: bool = True) -> list[Stmt]:
        """Free the memory, after all loops."""
        return [Free(s.array) for s in self.setup(valued) if isinstance(s, Allocate)]

    def declare(self) -> list[Stmt]:
        """Declare a local array, right before its use."""
        return [] if self.local is None else [Local(self.vals, self.local)]

    def prepare(self) -> list[Stmt]:
        """Before the producer: set all values to the identity; a list is already empty."""
        return [] if self.lists or self.swept else self._filled()

    @property
    def identity(self) -> Value:
        """The value of keys that were not written."""
        return Value(self.tensor.fill, self.tensor.dtype.name)

    def _filled(self) -> list[Stmt]:
        """Set all values to the identity."""
        at = Name(f"{self.name}_at")
        clear = For(at, Value(0), self.size, block(Store(self.vals, at, self.identity)), "clear")
        return [replace(clear, simd=self.local is None, unrolled=self.local is not None)]

    def insert(self, coordinates: list[Expr], value: Expr | None, op: Op | None) -> list[Stmt]:
        """`w[coordinates] op= value`, and list the key; without a value: the key alone."""
        key = self.key(coordinates)
        if not self.hashed:
            note = Set(self.count, Helper("note", (self.listed, self.keys, self.count, key)))
            # Values of keys that were not written are the identity.
            return [note] if value is None else [note, self._again(key, value, op)]
        slot, at = Name(f"{self.name}_slot"), Name(f"{self.name}_key", self.keys.type)
        find = Helper("find", (self.table, self.mask, self.keys, self.count, at))
        first = block(
            Grow(self.room, self.count + 1, self._growing(value is not None)),
            Store(self.keys, self.count, at),
            Store(self.slots, self.count, self.count),
            None if value is None else Store(self.vals, slot, value),
            Set(self.count, self.count + 1),
        )
        again = None if value is None else block(self._again(slot, value, op))
        return [
            Declare(at, key, fixed=True),
            Declare(slot, find, fixed=True),
            If(compare("==", slot, self.count), first, again),
        ]

    def _again(self, at: Expr, value: Expr, op: Op | None) -> Store:
        if op is not None:
            value, op = combine(op, Load(self.vals, at), value)
        return Store(self.vals, at, value, op)

    def finish(self, ordered: bool = True) -> list[Stmt]:
        """Between producer and consumer: sort the keys, if they must be `ordered`."""
        if not self.lists or not ordered:
            return []
        if self.hashed:
            return [Do(Helper("sort_pairs", (self.keys, self.slots, self.count)))]
        return [Do(Helper("order_keys", (self.keys, self.count, self.marks)))]

    def reset(self, valued: bool = True) -> list[Stmt]:
        """After the consumer: empty the list; `valued`: it has values to reset."""
        if not self.lists:
            return []
        empty = Set(self.count, Value(0))
        if self.hashed:
            return [Do(Helper("clear", (self.table, self.mask))), empty]
        at = Name(f"{self.name}_at")
        key = Load(self.keys, at)
        forget = block(
            Store(self.vals, key, self.identity) if valued else None,
            Store(self.listed, key, Value(0, "uint8")),
        )
        return [For(at, Value(0), self.count, forget, "an empty workspace"), empty]


def is_blank(value: Value) -> bool:
    """Whether zeroed memory holds `value`; it does not hold -0.0."""
    type = named(value.type)
    held = type.record(value.value) if isinstance(type, Entry) else np.array(value.value, type)
    return not any(held.tobytes())


@frozen
class Workspaces:
    """All temporaries of a kernel that are not scalars, by tensor."""

    names: Names
    table: dict[TensorVar, Workspace]
    make: Callable[..., Workspace] = Workspace

    def add(
        self, tensor: TensorVar, variables: tuple[IndexVar, ...], swept: bool = False
    ) -> Workspace:
        """A workspace for `tensor`."""
        return self.table.setdefault(tensor, self.make(tensor, variables, self.names, swept))

    def view(self, access: Access, level: int) -> SimpleNamespace:
        """The values that the formulas of a level of any tensor are evaluated on."""
        work = self.table.get(access.tensor)
        if work is None or not work.lists:
            return self.names.view(access, level)
        return SimpleNamespace(
            keys=work.keys,
            count=work.count,
            extent=self.names.extent(work.vars[level]),
            stride=work.stride(level),
        )

    def at(self, tensor: TensorVar, tier: int) -> Workspace:
        """The workspace of `tensor` for rows of a tier."""
        if tensor not in self.table:
            raise InternalError(f"{tensor} is no workspace")
        return self.table[tensor].at(tier)

    def element(self, access: Access, place: Place, tier: int) -> Load:
        """The value of `access`, whose last level stands at `place`."""
        work = self.at(access.tensor, tier)
        at = work.value_index(place.position) if work.lists else place.position
        return Load(work.vals, at)
