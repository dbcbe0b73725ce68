"""The names of tensors, their arrays and index variables in generated code.

A user's names never reach the code: the result is R, operands are A, B, C, ..., temporaries W,
and loop variables i, j, k, ... from the outermost in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property, lru_cache
from types import SimpleNamespace

from openwork.algebra.types import numbers_of, size_of
from openwork.errors import InternalError
from openwork.format.layouts import (
    AOS,
    WITH_COORDINATES,
    Placement,
    coordinate_placement,
    placement,
)
from openwork.format.levels import ArrayFact
from openwork.frozen import frozen
from openwork.index.nodes import Access, IndexVar, TensorVar
from openwork.loops.fresh import fresh_name
from openwork.loops.plan.blocks import Block
from openwork.loops.relations import Relation
from openwork.program.lower.base.specialization import Specialization
from openwork.program.nodes import Array, Expr, Name, Role, Value, arithmetic
from openwork.program.remarks import harmless, named


def _letters(letters: str) -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield from (letter if number == 1 else f"{letter}{number}x" for letter in letters)


# By what a level says about its array.
_ROLES = {"positions": Role.POSITION, "coordinates": Role.COORDINATE}


@lru_cache(maxsize=1024)  # programs name the same few arrays again and again
def value_array(tensor: str, type: str, where: Placement | None = None) -> Array:
    """The values of the tensor or workspace that is called `tensor` in the code."""
    return Array(f"{tensor}_vals", type, Role.VALUE, tensor, where)


def index_array(
    tensor: str, level: int, fact: ArrayFact, type: str, where: Placement | None = None
) -> Array:
    """An index array of a level of the tensor that is called `tensor` in the code."""
    return _index_array(tensor, level, fact.name, fact.holds, type, where)


@lru_cache(maxsize=1024)
def _index_array(
    tensor: str, level: int, name: str, holds: str, type: str, where: Placement | None
) -> Array:
    role = _ROLES.get(holds, Role.NUMBER)
    return Array(f"{tensor}_{name}{level + 1}", type, role, tensor, where)


class LevelView(SimpleNamespace):
    """The values that a level's formulas are evaluated on: its arrays, and sizes on demand."""

    def __init__(self, names: Names, access: Access, level: int, arrays: dict[str, Array]) -> None:
        super().__init__(**arrays)
        self._asked = (names, access, level)

    @property
    def extent(self) -> Expr:
        """The extent of the level."""
        names, access, level = self._asked
        return names.extent(access.level_vars[level])

    @property
    def total(self) -> Expr:
        """The extent of a mode whose blocks the level counts."""
        names, access, level = self._asked
        outer = access.level_vars[level]
        return names.size_of(next(b.var for b in names.blocks if b.outer == outer))

    @property
    def parents(self) -> Expr:
        """The number of places of the level above."""
        names, access, level = self._asked
        return names.parents(access, level)


@frozen
class Names:
    """The naming of one kernel."""

    result: TensorVar
    operands: tuple[TensorVar, ...]
    temporaries: tuple[TensorVar, ...]
    loops: Sequence[IndexVar]
    facts: Specialization
    relations: tuple[Relation, ...] = ()
    sizes: dict[IndexVar, Expr] = field(default_factory=dict)  # upper bounds for derived variables
    blocks: tuple[Block, ...] = ()
    narrow: frozenset[IndexVar] = frozenset()  # variables whose values are known to fit 32 bits

    @cached_property
    def tensors(self) -> dict[str, str]:
        """Each tensor's name in the code."""
        table = {self.result.name: "R"}
        table |= dict(
            zip((t.name for t in self.operands), _letters("ABCDEFGHKLMNPQSTUV"), strict=False)
        )
        table |= dict(zip((t.name for t in self.temporaries), _letters("WXYZ"), strict=False))
        return table

    @cached_property
    def variables(self) -> dict[IndexVar, str]:
        """Each loop variable's name in the code."""
        table = dict(zip(self.loops, _letters("ijklmnoqrst"), strict=False))
        for relation in self.relations:
            names = relation.names(table[relation.parents[0]])
            for child, name in zip(relation.children, names, strict=True):
                table[child] = fresh_name(name, set(table.values()))
        return table

    def of(self, tensor: TensorVar) -> str:
        """The name of `tensor` in the code."""
        return self.tensors[tensor.name]

    def said(self, tensor: TensorVar) -> str:
        """The name of `tensor`, in a comment."""
        return named(self.tensors[tensor.name])

    @property
    def words(self) -> dict[str, str]:
        """What the user calls the tensors and variables of the code, in comments."""
        words = {name: harmless(user) for user, name in self.tensors.items()}
        return words | {name: harmless(var.name) for var, name in self.variables.items()}

    def extent(self, var: IndexVar) -> Expr:
        """The extent of the modes that `var` indexes; for a derived variable, an upper bound."""
        block = self.inner_blocks.get(var)
        return Value(block.size) if block else self.sizes.get(var) or self.size_of(var)

    @cached_property
    def inner_blocks(self) -> dict[IndexVar, Block]:
        """The block that each variable inside blocks belongs to."""
        return {block.inner: block for block in self.blocks}

    def ends_early(self, var: IndexVar) -> bool:
        """Whether a mode may end inside the last block that `var` indexes."""
        block = self.inner_blocks.get(var)
        return block is not None and block.var not in self.facts.whole

    @property
    def takes_long(self) -> bool:
        """Whether the kernel may run for longer than Ctrl-C should take."""
        return self.facts.long.kernel

    def is_long(self, var: IndexVar, run: bool) -> bool:
        """Whether a loop over all values of `var`, or over a segment of stored ones, takes long."""
        return var in (self.facts.long.runs if run else self.facts.long.loops)

    def reach_of(self, var: IndexVar, outer: Expr | None) -> Expr:
        """The end of a loop over `var`: in the last block, the end of the mode."""
        block = self.inner_blocks.get(var)
        if block is None or not self.ends_early(var):
            return self.extent(var)
        if outer is None:
            raise InternalError(f"{var} runs within a block that is not known")
        rest = self.size_of(block.var) - outer * block.size
        return arithmetic("min", Value(block.size), rest)

    def size_of(self, var: IndexVar) -> Name:
        """The extent of the modes that an underived `var` indexes, an argument of the kernel."""
        return Name(f"{self.variables[var]}_size")

    def cuts(self, outer: IndexVar) -> Array:
        """The points at which a user's function cuts, for the runs that `outer` counts."""
        return Array(f"{self.variables[outer]}_cuts", "int64", Role.CUT)

    def values(self, tensor: TensorVar, base: str | None = None) -> Array:
        """The values of `tensor`, or of `base` in its place."""
        layout, where = tensor.format.layout, None
        if layout != AOS:
            size, scalar = numbers_of(1, tensor.dtype)
            where = placement(layout, size, scalar.itemsize, self._beside(tensor))
        return value_array(base or self.of(tensor), tensor.dtype.name, where)

    def _beside(self, tensor: TensorVar) -> int:
        """The bytes of the coordinate that is packed with each value of a tensor; 0 for none."""
        level, name = len(tensor.format.levels) - 1, tensor.format.packed_array
        if tensor.format.layout not in WITH_COORDINATES or name is None:
            return 0
        return size_of(self.facts.width(tensor.name, level, name))

    @property
    def strides(self) -> tuple[TensorVar, ...]:
        """The tensors whose numbers have arrays of their own, a stride apart."""
        tensors = dict.fromkeys((*self.operands, self.result))
        found = ((tensor, self.values(tensor).placement) for tensor in tensors)
        return tuple(tensor for tensor, where in found if where is not None and where.strided)

    def array(
        self, tensor: TensorVar, level: int, fact: ArrayFact, base: str | None = None
    ) -> Array:
        """An index array of `tensor`, or of `base` in its place."""
        width, format, where = self.facts.width(tensor.name, level, fact.name), tensor.format, None
        packed = format.layout in WITH_COORDINATES and level + 1 == len(format.levels)
        if packed and fact.name == format.packed_array:
            size, scalar = numbers_of(1, tensor.dtype)
            where = coordinate_placement(format.layout, size, scalar.itemsize, size_of(width))
        return index_array(base or self.of(tensor), level, fact, width, where)

    def view(self, access: Access, level: int) -> SimpleNamespace:
        """The values that the formulas of a level are evaluated on."""
        facts = access.tensor.format.levels[level].arrays
        arrays = {f.name: self.array(access.tensor, level, f) for f in facts}
        return LevelView(self, access, level, arrays)

    def parents(self, access: Access, level: int) -> Expr:
        """The number of places of the level above `level`."""
        count: Expr = Value(1)
        for n in range(level):
            count = access.tensor.format.levels[n].children(self.view(access, n), count)
        return count

    def size(self, variables: Sequence[IndexVar]) -> Expr:
        """The product of the extents of `variables`."""
        product: Expr = Value(1)
        for var in variables:
            product = product * self.extent(var)
        return product
