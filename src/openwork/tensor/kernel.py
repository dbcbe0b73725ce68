"""Kernels: a compiled statement that can be called again and again."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from openwork.errors import DataError, InternalError, ShapeError
from openwork.format.width import INT32_LIMIT, index_dtype
from openwork.index.nodes import IndexVar
from openwork.index.show import show
from openwork.loops.nodes import Stmt
from openwork.loops.plan import Plan
from openwork.loops.result import Append, Shared, accesses_of
from openwork.pipeline import Compiled, back
from openwork.runtime.launch import Executable, PositionOverflow
from openwork.runtime.library import load
from openwork.runtime.memory import check_memory
from openwork.runtime.reference import evaluate, masked_to_coo, to_masked
from openwork.runtime.storage import Array, Storage
from openwork.runtime.toolchain import HOW_TO_GET_ONE, find_toolchain
from openwork.tensor.pack import convert, pack
from openwork.trace import Trace

_MOST_ROOM = 1 << 28
Extents = Mapping[IndexVar, int]
Widths = dict[tuple[str, int, str], str]
Loader = Callable[[Compiled], Any]


def load_function(compiled: Compiled) -> Any:
    """The C function of a kernel, compiled if nobody has done so before."""
    return load(compiled.source).kernel


class Kernel:
    """A compiled statement.

    Calling it computes a fresh result from the tensors of the statement, or from others given by
    name: same format, element type and number of modes, any shapes that fit. It may be called
    from several threads at once.
    """

    def __init__(
        self,
        plan: Plan,
        trace: Trace,
        templates: Mapping[str, Any],
        result: Any,
        loader: Loader = load_function,
    ) -> None:
        self._plan, self._trace = plan, trace
        self._templates, self._result = dict(templates), result
        self._operands = list(dict.fromkeys(a.tensor for a in accesses_of(plan.assignment.rhs)))
        self._derived = {d.var.name: d for d in plan.derived}
        self._modes = _modes(plan)
        self._adds = plan.assignment.op is not None or any(
            d.source == plan.user_result.name for d in plan.derived
        )
        self._ready: dict[object, tuple[Executable, Compiled]] = {}
        self._wide = False  # the positions of a result once did not fit int32
        self._check = os.environ.get("OPENWORK_CHECK", "") not in ("", "0")
        self._load = loader
        self._native = find_toolchain() is not None
        self._compiled = back(plan, self._expected_widths(), trace)
        if self._native:
            loader(self._compiled)
        else:
            warnings.warn(
                f"no C compiler was found, so Openwork answers slowly; {HOW_TO_GET_ONE}",
                stacklevel=4,
            )

    # -- for readers ----------------------------------------------------------------------------

    @property
    def source(self) -> str:
        """The C text, for the index widths of the latest call."""
        return self._compiled.source

    @property
    def loops(self) -> Stmt:
        """The loop nest."""
        return self._plan.loops

    def explain(self) -> str:
        """What was chosen, and why."""
        lines = [f"statement: {show(self._plan.assignment)}", "loops:"]
        lines += [f"  {line}" for line in str(self._plan.loops).splitlines()]
        lines += ["decisions:", *(f"  {decision}" for decision in self._trace.decisions)]
        if not self._native:
            lines.append("  no C compiler: the reference evaluator answers")
        seconds = sum(stage.seconds for stage in self._trace.stages)
        length = len(self.source.splitlines())
        lines.append(f"{length} lines of C, written in {seconds * 1e3:.1f} ms")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Kernel {show(self._plan.assignment)}>"

    # -- calling --------------------------------------------------------------------------------

    def __call__(self, /, *, out: Any = None, **operands: Any) -> Any:
        """Compute the result.

        Args:
            out: a tensor to write the result into, instead of a new one.
            **operands: tensors (or arrays) to use in place of the statement's own, by name.

        Raises:
            ShapeError: E202 if an argument does not fit what was compiled, E203 if one is missing
                or unknown, E201 if extents disagree.
        """
        bound = self._bind(operands)
        if out is not None:
            self._check_out(out)
        extents = self._extents(bound, out)
        old = (self._result if out is None else out).storage if self._adds else None
        if not self._native:
            storage = self._refer(bound, extents, old)
        else:
            storage = self._launch(bound, extents, old, out)
            if self._check:
                _compare(storage, self._refer(bound, extents, old), repr(self))
        if out is None:
            return self._result.__openwork_result__(storage)
        return _deliver(storage, out)

    def _bind(self, given: Mapping[str, Any]) -> dict[str, Storage]:
        """The storage of every operand, by name."""
        for name in given:
            if name not in self._templates:
                raise ShapeError(
                    f"the kernel has no operand {name}",
                    code="E203",
                    hint=f"its operands are {', '.join(self._templates) or 'none'}",
                )
        return {
            name: (template.__openwork_coerce__(given[name]) if name in given else template).storage
            for name, template in self._templates.items()
        }

    def _check_out(self, out: Any) -> None:
        result = self._plan.user_result
        if (out.format, out.dtype) != (result.format, result.dtype):
            raise ShapeError(
                f"out is {out.format!r} of {out.dtype}, but the kernel computes {result.format!r} "
                f"of {result.dtype}",
                code="E202",
            )

    def _extents(self, bound: Mapping[str, Storage], out: Any) -> dict[IndexVar, int]:
        """The extent of every index variable; the tensors must agree on it."""
        extents: dict[IndexVar, int] = {}
        first: dict[IndexVar, str] = {}
        own = self._plan.user_result.name
        for name, mode, var in self._modes:
            if name != own:
                extent = bound[name].shape[mode]
            elif out is not None:
                extent = out.shape[mode]
            elif var in extents and not self._adds:
                continue  # a new result takes the shape of the operands
            else:
                extent = self._result.shape[mode]
            if extents.setdefault(var, extent) != extent:
                raise ShapeError(
                    f"{var} runs over {extents[var]} in {first[var]}, but mode {mode} of {name} "
                    f"has extent {extent}",
                    code="E201",
                )
            first.setdefault(var, name)
        return extents

    # -- compiled -------------------------------------------------------------------------------

    def _launch(
        self, bound: Mapping[str, Storage], extents: Extents, old: Storage | None, out: Any
    ) -> Storage:
        storages = [self._operand(var.name, bound, old) for var in self._operands]
        pointers = [address for storage in storages for address in storage.pointers]
        work = float(sum(storage.values.size for storage in storages))
        while True:
            executable, compiled = self._executable(storages, extents)
            sizes = [extents[var] for var in compiled.variables]
            if not isinstance(self._plan.assembly, Append):
                storage = self._in_place(compiled, storages, extents, old, out)
                executable.run([*pointers, storage.pointers[-1]], sizes, work + storage.nnz, 0)
                break
            room = min(int(work) + 8, _MOST_ROOM if self._wide else INT32_LIMIT.value)
            try:
                made = executable.run(pointers, sizes, work, room)
            except PositionOverflow:
                self._wide = True
                continue
            storage = self._appended(made, extents)
            break
        if self._plan.converts_result:
            return convert(storage, self._plan.user_result.format, exact=True)
        return storage

    def _operand(self, name: str, bound: Mapping[str, Storage], old: Storage | None) -> Storage:
        """An operand as the loops want it, converted where the plan says so."""
        derived = self._derived.get(name)
        if derived is not None:
            source = self._operand(derived.source, bound, old)
            return convert(source, derived.var.format, exact=True)
        if name in bound:
            return bound[name]
        if old is None:
            raise InternalError(f"{name} has no data")
        return old

    def _executable(self, storages: list[Storage], extents: Extents) -> tuple[Executable, Compiled]:
        """The kernel for the index widths of these operands, compiled if it is new."""
        wide = self._result_widths(extents)
        key = (tuple(storage.widths for storage in storages), wide)
        ready = self._ready.get(key)
        if ready is None:
            widths: Widths = {}
            for var, storage in zip(self._operands, storages, strict=True):
                for level, arrays in enumerate(storage.levels):
                    widths |= {(var.name, level, n): a.dtype.name for n, a in arrays.items()}
            widths |= dict(wide)
            compiled = back(self._plan, widths, self._trace)
            ready = self._ready[key] = (
                Executable(compiled.program, self._load(compiled)),
                compiled,
            )
            self._compiled = compiled
        return ready

    def _result_widths(
        self, extents: Extents | None
    ) -> tuple[tuple[tuple[str, int, str], str], ...]:
        """The element types of the index arrays of a result that is appended to."""
        if not isinstance(self._plan.assembly, Append):
            return ()
        lhs, found = self._plan.assignment.lhs, []
        for level, kind in enumerate(lhs.tensor.format.levels):
            extent = 0 if extents is None else extents[lhs.level_vars[level]]
            for fact in kind.arrays:
                if fact.holds == "positions":
                    width = "int64" if self._wide else "int32"
                else:
                    width = index_dtype(extent - 1).name
                found.append(((lhs.tensor.name, level, fact.name), width))
        return tuple(found)

    def _expected_widths(self) -> Widths:
        """The widths that the statement's own tensors have; int32 where there is no data."""
        widths: Widths = dict(self._result_widths(None))
        for var in self._operands:
            storage = getattr(self._templates.get(var.name), "_storage", None)
            if isinstance(storage, Storage):
                for level, arrays in enumerate(storage.levels):
                    widths |= {(var.name, level, n): a.dtype.name for n, a in arrays.items()}
        return widths

    # -- results --------------------------------------------------------------------------------

    def _in_place(
        self,
        compiled: Compiled,
        storages: list[Storage],
        extents: Extents,
        old: Storage | None,
        out: Any,
    ) -> Storage:
        """Arrays for a result whose positions are known: dense, or with an operand's pattern."""
        lhs, assembly = self._plan.assignment.lhs, self._plan.assembly
        shape = tuple(extents[var] for var in lhs.vars)
        levels: tuple[Mapping[str, Array], ...] = tuple({} for _ in lhs.vars)
        count, below = 1, lhs.level_vars
        if isinstance(assembly, Shared):
            operand = storages[self._operands.index(assembly.operand.tensor)]
            levels = (*operand.levels[: assembly.depth], *levels[assembly.depth :])
            count, below = operand.positions(assembly.depth - 1), below[assembly.depth :]
        count *= math.prod(extents[var] for var in below)
        values = self._values(compiled, count, storages, old, out)
        tensor = lhs.tensor
        return Storage(shape, tensor.format, tensor.dtype, levels, values, tensor.fill)

    def _values(
        self,
        compiled: Compiled,
        count: int,
        storages: list[Storage],
        old: Storage | None,
        out: Any,
    ) -> Array:
        dtype, initial = self._plan.result.dtype, compiled.initial
        if out is not None and out.format.is_dense and not self._plan.converts_result:
            values: Array = out.storage.values
            if not any(np.may_share_memory(values, s.values) for s in storages):
                if not values.flags.writeable:
                    raise DataError(f"{out.name} cannot be written to", code="E505")
                if initial is not None:
                    values.fill(initial)
                return values
        if old is not None and self._plan.assignment.op is not None:
            return old.values.copy()
        check_memory(count * dtype.itemsize, f"the result {self._plan.result}")
        if initial is None:
            return np.empty(count, dtype)
        return np.zeros(count, dtype) if initial == 0 else np.full(count, initial, dtype)

    def _appended(self, made: list[Array], extents: Extents) -> Storage:
        """A result from the arrays that the kernel made."""
        lhs = self._plan.assignment.lhs
        arrays = iter(made)
        levels = tuple(
            {fact.name: next(arrays) for fact in level.arrays} for level in lhs.tensor.format.levels
        )
        shape = tuple(extents[var] for var in lhs.vars)
        tensor = lhs.tensor
        return Storage(shape, tensor.format, tensor.dtype, levels, next(arrays), tensor.fill)

    def _refer(
        self, bound: Mapping[str, Storage], extents: Extents, old: Storage | None
    ) -> Storage:
        """The result by the reference evaluator."""
        operands = {
            var.name: to_masked(self._operand(var.name, bound, old)) for var in self._operands
        }
        before = None if old is None or self._plan.assignment.op is None else to_masked(old)
        result = evaluate(self._plan.assignment, operands, extents, before)
        user = self._plan.user_result
        coords, values = masked_to_coo(result)
        if user.format.is_dense:
            coords = np.indices(result.values.shape).reshape(user.ndim, -1)
            values = result.values.reshape(-1)
        return pack(coords, values, result.values.shape, user.format, user.fill)


def _modes(plan: Plan) -> list[tuple[str, int, IndexVar]]:
    """Which mode of which of the user's tensors each variable runs over, operands first."""
    sources = {d.var.name: d.source for d in plan.derived}
    found = []
    for access in (*accesses_of(plan.assignment.rhs), plan.assignment.lhs):
        name = access.tensor.name
        while name in sources:
            name = sources[name]
        found += [(name, mode, var) for mode, var in enumerate(access.vars)]
    return list(dict.fromkeys(found))


def _deliver(storage: Storage, out: Any) -> Any:
    """Put a result into the tensor that was given for it."""
    values: Array = out.storage.values
    if not out.format.is_dense:
        out.__openwork_store__(storage)
    elif storage.values is not values:
        values[...] = storage.values
    return out


def _compare(result: Storage, expected: Storage, kernel: str) -> None:
    """Raise if a kernel's result differs from the reference's."""
    got, want = to_masked(result).values, to_masked(expected).values
    tolerance = 0.0 if want.dtype.kind in "biu" else 1e-4
    if not np.allclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True):
        raise InternalError(f"{kernel} disagrees with the reference evaluator")
