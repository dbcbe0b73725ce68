"""Binding: everything about a call that depends on its operands alone, worked out once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import ReferenceType, ref

from openwork.errors import InternalError, ShapeError
from openwork.format.levels.width import INT32_LIMIT, index_dtype
from openwork.index.nodes import IndexVar
from openwork.loops.nodes import Where, relations_of, written
from openwork.loops.plan.assembly import Append, InPlace, Shared, accesses_of
from openwork.loops.plan.blocks import extents_of_blocks, whole_vars
from openwork.loops.plan.plan import Plan
from openwork.loops.provenance import Provenance
from openwork.pipeline import Compiled, back
from openwork.program.lower.base.specialization import LongLoops, Specialization, Width
from openwork.program.nodes import Allocate, For, Grow
from openwork.runtime.host.launch import Executable
from openwork.runtime.host.library import load
from openwork.runtime.host.threads import thread_count
from openwork.runtime.memory import LARGE, address, available
from openwork.runtime.storage import Array, Storage, copied_levels
from openwork.tensor.convert.convert import convert, convert_blocks
from openwork.tensor.kernel.long_loops import LoopLengths
from openwork.tensor.kernel.promises import Promises
from openwork.tensor.kernel.result_size import check_size, entries, may_not_fit, room_for
from openwork.trace import Trace
from openwork.tree import Node, walk

Extents = Mapping[IndexVar, int]
Shape = tuple[int | None, ...]
Loader = Callable[[Compiled], Any]

_BYTES = 16  # of an element of a workspace, at most
_LONG = 1 << 13  # elements; fewer are little memory, however many threads have them
_MOST_ROOM = 1 << 28


def load_function(compiled: Compiled) -> Any:
    """The C function of a kernel, compiled if nobody has done so before."""
    return load(compiled.source).kernel


@dataclass(frozen=True, eq=False)
class Binding:
    """A kernel with its operands in place.

    It remembers the user's operands without keeping them alive. A result whose positions are known
    will have `count` values.
    """

    given: tuple[ReferenceType[Storage], ...]
    result_shape: Shape
    executable: Executable
    compiled: Compiled
    pointers: tuple[int, ...]
    sizes: tuple[int, ...]
    work: float
    steps: float
    room: int
    tight: bool  # the result may need more memory than there is
    shape: tuple[int, ...]
    extents: tuple[int, ...]  # of the modes that the kernel sees
    count: int
    wide: bool
    cuts: tuple[Array, ...] = ()

    def fits(self, given: tuple[Storage, ...], result_shape: Shape) -> bool:
        """Whether this is the binding of `given`."""
        for mine, theirs in zip(self.given, given, strict=True):
            if mine() is not theirs:
                return False
        return self.result_shape is result_shape or self.result_shape == result_shape


class Binder:
    """Binds operands to the kernel of a plan, compiling it for each choice of index widths."""

    def __init__(
        self, plan: Plan, templates: Mapping[str, Any], trace: Trace, loader: Loader
    ) -> None:
        self._plan, self._trace, self._load = plan, trace, loader
        self._names = names = tuple(templates)
        self._promises = Promises(plan, templates)
        self.operands = tuple(dict.fromkeys(a.tensor for a in accesses_of(plan.assignment.rhs)))
        self._derived = {d.var.name: d for d in plan.derived}
        self._modes = _modes(plan)
        self._texts: dict[object, Compiled] = {}
        self._ready: dict[object, tuple[Executable, Compiled]] = {}
        self._wide = False  # the positions of a result once did not fit int32
        self.adds = plan.assignment.op is not None or any(
            d.source == plan.user_result.name for d in plan.derived
        )
        self.converts = bool(plan.derived)
        self._places = (
            None if self.converts else [names.index(var.name) for var in self.operands]
        )  # where the loops' operands stand among the user's
        self._lengths = LoopLengths(plan, self.operands)
        self._allocating: dict[str, bool] = {}  # by the text of a kernel
        self._keyed = [  # workspaces whose keys are linearised coordinates
            (
                node.temporary.name,
                Provenance(relations_of(plan.loops)).roots_of(written(node.producer).vars),
            )
            for node in walk(plan.loops)
            if isinstance(node, Where) and not node.temporary.format.is_dense
        ]
        self.takes_as_given = self._places == list(range(len(names)))
        levels = plan.user_result.format.levels if plan.native else plan.result.format.levels
        self._no_arrays: tuple[Mapping[str, Array], ...] = ({},) * len(levels)
        self._shared: tuple[int, int] | None = None  # the operand with the pattern, and how deep
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
        """Work out a call.

        Args:
            given: the user's operands.
            operands: the operands of the loops.
            result_shape: the shape of the result, as far as it is known.
            fixed: the result must have that shape, whatever the operands have.
        """
        plan, lhs, wide = self._plan, self._plan.assignment.lhs, self._wide
        whole = self._extents(given, result_shape, fixed)
        extents = extents_of_blocks(whole, plan.blocks)
        cuts = self._promises.keep(extents, given, operands, self.operands)
        executable, compiled = self._executable(operands, extents, wide)
        work = float(sum(storage.values.size for storage in operands))
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
        if room == 0:
            tight = self._takes_much(compiled, extents, count)
        return Binding(
            given=tuple(ref(storage) for storage in given),
            result_shape=result_shape,
            executable=executable,
            compiled=compiled,
            pointers=self._pointers(operands, cuts),
            cuts=cuts,
            sizes=tuple(extents[var] for var in compiled.variables),
            work=work,
            steps=max(work, self._steps(operands, extents)),
            room=room,
            tight=tight,
            shape=shape,
            extents=tuple(extents[var] for var in lhs.vars),
            count=count,
            wide=wide,
        )

    def _takes_much(self, compiled: Compiled, extents: Extents, count: int) -> bool:
        """Whether what a kernel takes besides its result may be more than memory can hold.

        Each thread may have a copy of the result, or a workspace as long as a mode.
        """
        longest = max(count, *extents.values()) if extents else count
        if longest < _LONG or not self._allocates(compiled):
            return False
        size = _BYTES * thread_count() * longest
        if size < LARGE:
            return False
        left = available()
        return left is not None and 2 * size > left

    def _allocates(self, compiled: Compiled) -> bool:
        """Whether a kernel takes memory besides its result."""
        known = self._allocating.get(compiled.source)
        if known is None:
            known = any(map(_takes_memory, walk(compiled.program.body)))
            self._allocating[compiled.source] = known
        return known

    def _pointers(self, operands: tuple[Storage, ...], cuts: tuple[Array, ...]) -> tuple[int, ...]:
        return (
            *(pointer for storage in operands for pointer in storage.pointers),
            *(address(array) for array in cuts),
        )

    def _room(
        self, operands: tuple[Storage, ...], extents: Extents, usual: int, wide: bool
    ) -> tuple[int, bool]:
        """For how many entries of a new result to make room at first, if it can be held at all;
        and whether it may still turn out to be too large."""
        assignment = self._plan.assignment
        held = {var.name: storage for var, storage in zip(self.operands, operands, strict=True)}
        found = entries(assignment, held, extents)
        check_size(assignment, found, extents)
        room = room_for(found, assignment.lhs.dtype.itemsize + 8, usual)
        room = min(room, _MOST_ROOM if wide else INT32_LIMIT.value)
        return room, may_not_fit(found, assignment.lhs, extents)

    def widen(self, overflowed: Binding) -> None:
        """From now on, count the positions of results in 64 bits."""
        if overflowed.wide:
            raise InternalError("64-bit positions overflowed")
        self._wide = True

    def operands_of(self, given: tuple[Storage, ...], old: Storage | None) -> tuple[Storage, ...]:
        """The operands as the loops want them."""
        if self._places is not None:
            return tuple([given[n] for n in self._places])
        return tuple(self.operand(var.name, given, old) for var in self.operands)

    def levels(self, operands: tuple[Storage, ...]) -> tuple[Mapping[str, Array], ...]:
        """The index arrays of a result that has none of its own."""
        if self._shared is None:
            return self._no_arrays
        position, depth = self._shared
        pattern = operands[position]
        arrays = pattern.levels[:depth]
        if pattern.borrowed:  # a result outlives the call, and its arrays are its own
            arrays = copied_levels(arrays)
        return (*arrays, *self._no_arrays[depth:])

    def levels_again(self, binding: Binding) -> tuple[Mapping[str, Array], ...]:
        """The same, for the operands of a binding, which somebody else has to keep alive."""
        if self._shared is None:
            return self._no_arrays
        there = [storage for reference in binding.given if (storage := reference()) is not None]
        return self.levels(tuple(there))

    def operand(self, name: str, given: tuple[Storage, ...], old: Storage | None) -> Storage:
        """An operand as the loops want it, converted where the plan says so."""
        derived = self._derived.get(name)
        if derived is not None:
            source = self.operand(derived.source, given, old)
            if derived.var.format.ndim != source.format.ndim:
                return convert_blocks(source, derived.var.format)
            return convert(source, derived.var.format, exact=True)
        if name in self._names:
            return given[self._names.index(name)]
        if old is None:
            raise InternalError(f"{name} has no data")
        return old

    def keeps_bounds(self, given: tuple[Storage, ...], result_shape: Shape) -> bool:
        """Whether these operands have the extents that the plan counts on."""
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
        for name, mode, var in self._modes:
            if name in self._names:
                extent: int | None = given[self._names.index(name)].shape[mode]
            elif var in extents and not (fixed or self.adds):
                continue  # a new result takes the shape of the operands
            else:
                extent = result_shape[mode]
            if extent is None:
                raise ShapeError(
                    f"nothing says how far {var} runs: mode {mode} of {name} has no extent",
                    code="E106",
                    hint=f"give {name} a shape, or pass out=",
                )
            if extents.setdefault(var, extent) != extent:
                raise ShapeError(
                    f"{var} runs over {extents[var]} in {first[var]}, but mode {mode} of {name} "
                    f"has extent {extent}",
                    code="E201",
                )
            first.setdefault(var, name)
        return extents

    def _executable(
        self, operands: tuple[Storage, ...], extents: Extents, wide: bool
    ) -> tuple[Executable, Compiled]:
        """The kernel for these operands, compiled if it is new."""
        facts = (
            self._result_widths(extents, wide),
            self._wide_keys(extents),
            self._whole_blocks(extents),
            self._long_loops(operands, extents),
        )
        key = (tuple([storage.widths for storage in operands]), facts)
        ready = self._ready.get(key)
        if ready is None:
            compiled = self.compile(operands, Specialization(*facts))
            ready = (Executable(compiled.program, self._load(compiled)), compiled)
            self._ready[key] = ready
        return ready

    def _long_loops(
        self, operands: Sequence[Storage | None], extents: Extents | None = None
    ) -> LongLoops:
        """The loops that take so long that they have to look at the flag of Ctrl-C themselves."""
        return self._lengths.long(operands, extents)

    def _steps(self, operands: Sequence[Storage | None], extents: Extents) -> float:
        """About how many iterations all loops have, at most."""
        return self._lengths.steps(operands, extents)

    def compile(
        self, operands: tuple[Storage | None, ...], facts: Specialization | None = None
    ) -> Compiled:
        """The kernel as text, where `facts` are known but for the index widths of the operands.

        Index arrays of operands without data are taken to be int32.
        """
        if facts is None:
            known = {block.var: block.extent for block in self._plan.blocks}
            whole, long = self._whole_blocks(known), self._long_loops(operands)
            facts = Specialization(self._result_widths(None), whole=whole, long=long)
        widths = list(facts.widths)
        for var, storage in zip(self.operands, operands, strict=True):
            for level, kind in enumerate(var.format.levels):
                for n in (fact.name for fact in kind.arrays):
                    array = None if storage is None else storage.levels[level].get(n)
                    usual = f"int{kind.bits or 32}"
                    width = usual if array is None else array.dtype.name
                    widths.append(((var.name, level, n), width))
        facts = replace(facts, widths=tuple(widths))
        if facts not in self._texts:
            self._texts[facts] = self._back(facts)
        return self._texts[facts]

    def _whole_blocks(self, extents: Mapping[IndexVar, int | None]) -> frozenset[IndexVar]:
        """The modes that blocks divide without a rest, so that none has to be looked at."""
        return frozenset(
            block.var
            for block in self._plan.blocks
            if (extents.get(block.var) or 1) % block.size == 0
        )

    def _wide_keys(self, extents: Extents) -> frozenset[str]:
        """The workspaces that have more keys than 64 bits tell apart."""
        return frozenset(
            name
            for name, variables in self._keyed
            if math.prod(extents.get(v, 1) for v in variables) >= 2**63
        )

    def _back(self, facts: Specialization) -> Compiled:
        return back(self._plan, facts, self._trace)

    def _result_widths(self, extents: Extents | None, wide: bool = False) -> tuple[Width, ...]:
        """The element types of the index arrays that the kernel makes."""
        if not isinstance(self._plan.assembly, Append):
            return ()
        found: list[Width] = []
        lhs = self._plan.assignment.lhs
        for level, kind in enumerate(lhs.tensor.format.levels):
            extent = 0 if extents is None else extents[lhs.level_vars[level]]
            for fact in kind.arrays:
                if fact.holds == "positions":
                    width = "int64" if wide else "int32"
                else:
                    width = index_dtype(extent - 1).name
                found.append(((lhs.tensor.name, level, fact.name), width))
        return tuple(found)


def _takes_memory(node: Node) -> bool:
    return isinstance(node, (Allocate, Grow)) or (isinstance(node, For) and bool(node.copies))


def _modes(plan: Plan) -> list[tuple[str, int, IndexVar]]:
    """Which mode of which of the user's tensors each variable runs over, operands first."""
    sources = {d.var.name: d.source for d in plan.derived}
    found = []
    for access in (*accesses_of(plan.assignment.rhs), plan.assignment.lhs):
        name = access.tensor.name
        while name in sources:
            name = sources[name]
        variables = whole_vars(access.vars, plan.blocks)
        found += [(name, mode, var) for mode, var in enumerate(variables)]
    return list(dict.fromkeys(found))
