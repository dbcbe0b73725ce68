"""Binding: all of a call that depends on its operands alone, computed once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any
from weakref import ReferenceType, ref

import numpy as np

from openwork.errors import InternalError, ShapeError
from openwork.format.layouts import PACKED
from openwork.format.levels.width import INT32_LIMIT
from openwork.index.nodes import Access, IndexVar
from openwork.loops.plan.assembly import Append, InPlace, Shared, accesses_of
from openwork.loops.plan.blocks import extents_of_blocks, whole_vars
from openwork.loops.plan.plan import Plan
from openwork.pipeline import Compiled
from openwork.runtime.gpu.cuda import DeviceStorage
from openwork.runtime.storage import Array, Storage, copied_levels, placement_of
from openwork.tensor.convert.convert import convert, convert_blocks
from openwork.tensor.kernel.compiler import Compiler, Extents
from openwork.tensor.kernel.promises import Promises
from openwork.tensor.kernel.result_size import (
    check_size,
    entries,
    is_full,
    may_not_fit,
    room_for,
)
from openwork.tensor.rearrange.selections import check_bounds, give_extents, made

Shape = tuple[int | None, ...]

_MOST_ROOM = 1 << 28


@dataclass(eq=False)
class Binding:
    """A kernel with its operands bound.

    It holds weak references to the user's operands. `used`: the operands of the loops; selections
    live as long as the binding. `tables`: which of `given` have coordinates of selections, and what
    these were. `count`: the number of values of a result whose
    positions are known. `fixed`: the result had to have `result_shape`. `ready`: the target's part,
    which can run repeatedly.
    """

    given: tuple[ReferenceType[Storage], ...]
    used: tuple[Callable[[], Storage | None], ...]
    tables: tuple[tuple[int, Array], ...]
    shapes: tuple[tuple[int, ...], ...]  # of the user's operands
    result_shape: Shape
    compiled: Compiled
    sizes: tuple[int, ...]
    work: float
    room: int
    tight: bool  # the result may not fit into memory
    shape: tuple[int, ...]
    extents: Extents
    count: int
    wide: bool
    fixed: bool
    cuts: tuple[Array, ...] = ()
    ready: Any = None

    def fits(self, given: tuple[Storage, ...], result_shape: Shape) -> bool:
        """Whether this is the binding of `given`."""
        for mine, theirs in zip(self.given, given, strict=True):
            if mine() is not theirs:
                return False
        if self.result_shape is not result_shape and self.result_shape != result_shape:
            return False
        return not self.tables or self.same_tables()

    def same_tables(self) -> bool:
        """Whether the tables of coordinates are as they were: their arrays may be the user's."""
        for at, before in self.tables:
            table = self.given[at]()
            if table is None or not np.array_equal(table.host().values, before):
                return False
        return True


class Binder:
    """Binds operands to the kernels of a plan, which `compiler` generates."""

    def __init__(self, plan: Plan, templates: Mapping[str, Any], compiler: Compiler) -> None:
        self._plan, self._compiler = plan, compiler
        self.names = names = tuple(templates)
        self._promises = Promises(plan, templates)
        self.operands = compiler.operands
        self._derived = {d.var.name: d for d in plan.derived}
        self._modes = _modes(plan)
        self._selections = tuple(d.selection for d in plan.derived if d.selection is not None)
        self.adds = plan.assignment.op is not None or any(
            d.source == plan.user_result.name for d in plan.derived
        )
        self.converts = any(d.selection is None for d in plan.derived)
        self.result_type = plan.result.dtype
        plain = not plan.derived
        # The loops' operands among the user's.
        self._places = [names.index(var.name) for var in self.operands] if plain else None
        self.takes_as_given = self._places == list(range(len(names)))
        coordinates = (s.coordinate for s in self._selections)
        tables = dict.fromkeys(c.tensor.name for c in coordinates if isinstance(c, Access))
        self._tables = tuple(map(names.index, tables))
        # Calls with the same operands have the same arrays.
        self.repeats = not self.adds and (self.takes_as_given or bool(self._selections))
        self.repeats = self.repeats and not self.converts
        levels = plan.user_result.format.levels if plan.native else plan.result.format.levels
        self._no_arrays: tuple[Mapping[str, Array], ...] = ({},) * len(levels)
        self._shared: tuple[int, int] | None = None  # the operand with the pattern, and its levels
        if isinstance(plan.assembly, Shared):
            tensor = plan.assembly.operand.tensor
            self._shared = (self.operands.index(tensor), plan.assembly.depth)

    def bind(
        self,
        given: tuple[Storage, ...],
        operands: tuple[Storage, ...],
        result_shape: Shape,
        fixed: bool,
    ) -> Binding:
        """Bind a call.

        Args:
            given: the user's operands.
            operands: the operands of the loops.
            result_shape: the shape of the result, as far as it is known.
            fixed: the result must have that shape, whatever the operands' shapes.
        """
        plan, lhs, wide = self._plan, self._plan.assignment.lhs, self._compiler.wide
        whole = self._extents(given, result_shape, fixed)
        extents = extents_of_blocks(whole, plan.blocks)
        cuts = self._promises.keep(extents, given, operands, self.operands)
        compiled = self._compiler.kernel(operands, extents)
        work = float(sum(storage.places for storage in operands))
        shape = tuple(whole[var] for var in whole_vars(lhs.vars, plan.blocks))
        count, below = 1, lhs.level_vars
        if self._shared is not None:
            position, depth = self._shared
            count, below = operands[position].positions(depth - 1), below[depth:]
        room, tight = 0, False
        if isinstance(plan.assembly, Append):
            room, tight = self._room(operands, extents, int(work) + 8, wide)
        elif isinstance(plan.assembly, InPlace):
            # Blocks of the result may reach beyond its shape.
            blocks = plan.native is not None and plan.user_result.format.tiled
            count = math.prod(plan.user_result.format.extents(shape) if blocks else shape)
        else:
            count *= math.prod(extents[var] for var in below)
        return Binding(
            given=tuple(ref(storage) for storage in given),
            used=self._used(operands),
            tables=tuple((at, given[at].host().values.copy()) for at in self._tables),
            shapes=tuple(storage.shape for storage in given),
            result_shape=result_shape,
            compiled=compiled,
            cuts=cuts,
            sizes=self._sizes(compiled, extents, operands, count),
            work=work,
            room=room,
            tight=tight,
            shape=shape,
            extents=extents,
            count=count,
            wide=wide,
            fixed=fixed,
        )

    def _used(self, operands: tuple[Storage, ...]) -> tuple[Callable[[], Storage | None], ...]:
        """The operands of the loops; nobody else has the selections among them."""
        pairs = zip(self.operands, operands, strict=True)
        return tuple(
            ref(storage) if var.name in self.names else partial(_itself, storage)
            for var, storage in pairs
        )

    def _sizes(
        self, compiled: Compiled, extents: Extents, operands: tuple[Storage, ...], count: int
    ) -> tuple[int, ...]:
        """The extents and strides that a kernel takes; `count`: the elements of the result."""
        result = self._plan.result
        strides = {v.name: s.stride for v, s in zip(self.operands, operands, strict=True)}
        if result.name in compiled.strides and result.name not in strides:
            where = placement_of(result.format, result.dtype)
            strides[result.name] = where.stride(int(where.room(count)))
        extra = (strides[name] for name in compiled.strides)
        return (*(extents[var] for var in compiled.variables), *extra)

    def _room(
        self, operands: tuple[Storage, ...], extents: Extents, usual: int, wide: bool
    ) -> tuple[int, bool]:
        """The first capacity of a new result, in entries, if it can fit into memory at all; and
        whether it may still turn out to be too large."""
        assignment = self._plan.assignment
        held = {var.name: storage for var, storage in zip(self.operands, operands, strict=True)}
        found = entries(assignment, held, extents, self._full)
        check_size(assignment, found, extents)
        room = room_for(found, assignment.lhs.dtype.itemsize + 8, usual)
        room = min(room, _MOST_ROOM if wide else INT32_LIMIT.value)
        return room, may_not_fit(found, assignment.lhs, extents)

    @cached_property
    def _full(self) -> bool:
        """Whether the result has all entries, whatever sparse operands hold."""
        return is_full(self._plan.assignment)

    def operands_of(
        self, given: tuple[Storage, ...], old: Storage | None, shape: Shape, fixed: bool
    ) -> tuple[Storage, ...]:
        """The operands of the loops; `shape`, `fixed`: of the result, as for `bind`."""
        if self._places is not None:
            return tuple([given[n] for n in self._places])
        extents = self._extents(given, shape, fixed) if self._selections else {}
        return tuple(self.operand(var.name, given, old, extents) for var in self.operands)

    def levels(self, operands: tuple[Storage, ...]) -> tuple[Mapping[str, Array], ...]:
        """The index arrays of a result that shares an operand's pattern."""
        if self._shared is None:
            return self._no_arrays
        position, depth = self._shared
        return self._levels_of(operands[position], depth)

    def _levels_of(self, pattern: Storage, depth: int) -> tuple[Mapping[str, Array], ...]:
        """The index arrays of a result whose first `depth` levels are those of `pattern`."""
        arrays = pattern.levels[:depth]
        # A result outlives the call, so it needs its own arrays, and it has no room for others.
        if pattern.borrowed or pattern.format.layout == PACKED:
            arrays = copied_levels(arrays)
        return (*arrays, *self._no_arrays[depth:])

    def levels_again(self, binding: Binding) -> tuple[Mapping[str, Array], ...]:
        """The same, for the operands of a binding, which the caller must keep alive."""
        if self._shared is None:
            return self._no_arrays
        pattern = binding.used[self._shared[0]]()
        if pattern is None:
            raise InternalError("the operand whose pattern a result shares is gone")
        return self._levels_of(pattern, self._shared[1])

    def operand(
        self,
        name: str,
        given: tuple[Storage, ...],
        old: Storage | None,
        extents: Mapping[IndexVar, int],
    ) -> Storage:
        """An operand of the loops, converted if the plan says so."""
        derived = self._derived.get(name)
        if derived is not None and derived.selection is not None:
            table = given[self.names.index(derived.source)]
            on_gpu = any(isinstance(each, DeviceStorage) for each in given)
            return made(derived.selection, extents, table, on_gpu)
        if derived is not None:
            source = self.operand(derived.source, given, old, extents)
            if derived.var.format.ndim != source.format.ndim:
                return convert_blocks(source, derived.var.format)
            return convert(source, derived.var.format, exact=True)
        if name in self.names:
            return given[self.names.index(name)]
        if old is None:
            raise InternalError(f"{name} has no data")
        return old

    def keeps_bounds(self, given: tuple[Storage, ...], result_shape: Shape) -> bool:
        """Whether these operands have the extents that the plan relies on."""
        whole = self._extents(given, result_shape, fixed=False)
        return self._promises.hold(extents_of_blocks(whole, self._plan.blocks))

    def extents(self, given: tuple[Storage, ...], result_shape: Shape) -> dict[IndexVar, int]:
        """The extent of every index variable; the tensors must agree on it."""
        return self._extents(given, result_shape, fixed=False)

    def _extents(
        self, given: tuple[Storage, ...], result_shape: Shape, fixed: bool
    ) -> dict[IndexVar, int]:
        extents: dict[IndexVar, int] = {}
        first: dict[IndexVar, str] = {}
        if self._selections:
            self._select(given, result_shape, extents)
        for name, mode, var in self._modes:
            if name in self.names:
                extent: int | None = given[self.names.index(name)].shape[mode]
            elif var in extents and not (fixed or self.adds):
                continue  # a new result takes the shape of the operands
            else:
                extent = result_shape[mode]
            if extent is None:
                raise ShapeError(
                    f"the extent of {var} is unknown: mode {mode} of {name} has no extent",
                    code="E106",
                    hint=f"give {name} a shape, or pass out=",
                )
            if extents.setdefault(var, extent) != extent:
                raise ShapeError(
                    f"{var} has extent {extents[var]} in {first[var]}, but mode {mode} of {name} "
                    f"has extent {extent}",
                    code="E201",
                )
            first.setdefault(var, name)
        check_bounds(extents, self._selections)
        return extents

    def _select(
        self, given: tuple[Storage, ...], result_shape: Shape, extents: dict[IndexVar, int]
    ) -> None:
        """Extents that selections give to variables which no operand has."""
        known: dict[IndexVar, int] = {}
        for name, mode, var in self._modes:
            extent = (
                given[self.names.index(name)].shape[mode]
                if name in self.names
                else result_shape[mode]
            )
            if extent is not None:
                known.setdefault(var, extent)
        before = set(known)
        give_extents(known, self._selections)
        extents.update((var, known[var]) for var in known if var not in before)


def _itself(storage: Storage) -> Storage:
    return storage


def _modes(plan: Plan) -> list[tuple[str, int, IndexVar]]:
    """The tensor, mode and variable of every mode of the user's tensors, operands first."""
    sources = {d.var.name: d.source for d in plan.derived}
    found = []
    selections = {d.var.name: d.selection for d in plan.derived if d.selection is not None}
    for access in (*accesses_of(plan.assignment.rhs), plan.assignment.lhs):
        name = access.tensor.name
        while name in sources and name not in selections:
            name = sources[name]
        if name in selections:
            continue
        variables = whole_vars(access.vars, plan.blocks)
        found += [(name, mode, var) for mode, var in enumerate(variables)]
    for selection in selections.values():
        found.append((selection.tensor, selection.mode, selection.column))
        if isinstance(selection.coordinate, Access):
            table = selection.coordinate
            found += [(table.tensor.name, mode, var) for mode, var in enumerate(table.vars)]
    # Operands first: a new result takes their extents.
    found.sort(key=lambda each: each[0] == plan.user_result.name)
    return list(dict.fromkeys(found))
