"""Kernels: a compiled statement that can be called again and again."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from openwork.errors import DataError, InternalError, ShapeError
from openwork.format.formats import Format
from openwork.index.nodes import TensorVar
from openwork.index.show import show
from openwork.loops.nodes import Stmt
from openwork.loops.plan.assembly import Append
from openwork.loops.plan.plan import Plan
from openwork.loops.plan.symbolic import known_pattern, narrows
from openwork.loops.schedule.default.cpu import shared_by_threads
from openwork.loops.schedule.draft import Draft
from openwork.loops.schedule.machines import ANY_CPU
from openwork.runtime.host.launch import BoundBroken, PositionOverflow
from openwork.runtime.host.toolchain import HOW_TO_GET_ONE, find_toolchain
from openwork.runtime.memory import address, allocate, zeros
from openwork.runtime.reference import evaluate, masked_to_coo, to_masked
from openwork.runtime.storage import Array, Storage
from openwork.tensor.convert.pack import convert, pack
from openwork.tensor.kernel.binding import Binder, Binding, Loader, Shape, load_function
from openwork.tensor.kernel.promises import broken_bound
from openwork.tensor.kernel.result_size import is_full, limit
from openwork.tensor.kernel.symbolic import Computes, SymbolicPlan
from openwork.tensor.kernel.warm import Repeated, Warm, WarmAppended
from openwork.trace import Trace
from openwork.tree import walk


class Kernel:
    """A compiled statement.

    Calling it computes a fresh result from the tensors of the statement, or from others given by
    name: same format, element type and number of modes, any shapes that fit. It may be called
    from several threads at once.
    """

    _origin: tuple[Any, ...] | None = None  # what makes the same kernel in another process

    def __init__(
        self,
        plan: Plan,
        trace: Trace,
        templates: Mapping[str, Any],
        result: Any,
        loader: Loader = load_function,
    ) -> None:
        self._plan, self._trace = plan, trace
        self._templates, self._result, self._loader = dict(templates), result, loader
        self._binder = Binder(plan, self._templates, trace, loader)
        self._latest: Binding | None = None
        self._warm: Repeated | None = None
        self._other: Kernel | None = None
        self._converts_result = plan.converts_result
        self._simple = self._binder.takes_as_given
        self._check = checks_results()
        self._native = find_toolchain() is not None
        known = {n: getattr(t, "_storage", None) for n, t in self._templates.items()}
        self._compiled = self._binder.compile(
            tuple(known.get(var.name) for var in self._binder.operands)
        )
        if self._native:
            loader(self._compiled)
        else:
            warnings.warn(
                f"no C compiler was found, so Openwork answers slowly; {HOW_TO_GET_ONE}",
                stacklevel=4,
            )

    _language = "C"

    # -- for readers ----------------------------------------------------------------------------

    @property
    def source(self) -> str:
        """The C text, for the index widths of the latest call."""
        latest = self._latest
        return (self._compiled if latest is None else latest.compiled).source

    @property
    def loops(self) -> Stmt:
        """The loop nest."""
        return self._plan.loops

    def explain(self) -> str:
        """What was chosen, and why."""
        lines = [f"statement: {show(self._plan.assignment)}", "loops:"]
        lines += [f"  {line}" for line in str(self._plan.loops).splitlines()]
        lines += ["decisions:", *(f"  {decision}" for decision in self._trace.decisions)]
        lines += self._fullness()
        if not self._native:
            lines.append("  no C compiler: the reference evaluator answers")
        seconds = sum(stage.seconds for stage in self._trace.stages)
        length = len(self.source.splitlines())
        lines.append(f"{length} lines of {self._language}, written in {seconds * 1e3:.1f} ms")
        return "\n".join(lines)

    def _fullness(self) -> list[str]:
        """That a sparse result has an entry for every coordinate, and how many these are."""
        plan = self._plan
        if not isinstance(plan.assembly, Append) or not is_full(plan.assignment):
            return []
        shape = self._result.shape
        known = not any(extent is None for extent in shape)
        count = f": {math.prod(shape):,} entries" if known else ""
        reason = "full, as something is left where operands are absent"
        return [f"  {plan.user_result}: {reason}{count}"]

    def __repr__(self) -> str:
        return f"<Kernel {show(self._plan.assignment)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._origin is None:
            raise InternalError(f"{self!r} was compiled from no statement")
        return self._origin

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
        warm = self._warm if out is None else None
        if warm is not None and not operands:
            result = warm.again()
            if result is not None:
                return result
        given = self._given(operands)
        if out is not None:
            self._check_out(out)
        elif warm is not None and operands:
            result = warm(given)
            if result is not None:
                return result
        target = self._result if out is None else out
        old = target.__openwork_before__(self._plan.written) if self._binder.adds else None
        if not self._native:
            storage = self._refer(given, target.shape, old)
        else:
            storage = self._launch(given, target.shape, old, out)
            if self._check:
                self._compare(storage, given, target.shape, old)
        if out is None:
            return self._result.__openwork_result__(storage)
        return _deliver(storage, out)

    def symbolic(self, /, **operands: Any) -> SymbolicPlan:
        """Find the pattern of the result once, to compute its values again and again.

        Args:
            **operands: tensors (or arrays) to use in place of the statement's own, by name; only
                the patterns of sparse ones matter.

        Raises:
            ShapeError: as for a call; E206 if the statement adds to what a sparse result holds.

        Example:
            >>> import numpy as np, openwork as ow
            >>> i, j = ow.indices("i j")
            >>> A, B = (ow.tensor(m, format=ow.CSR, name=n) for m, n in [(np.eye(2), "A"),
            ...                                                          (np.tri(2), "B")])
            >>> C = ow.empty((2, 2), format=ow.CSR, name="C")
            >>> plan = ow.assign(C[i, j], A[i, j] + B[i, j]).compile().symbolic(A=A, B=B)
            >>> plan.result_nnz, plan.shape
            (3, (2, 2))
            >>> plan(A=3 * A).to_numpy()
            array([[4., 0.],
                   [1., 4.]])
        """
        plan = self._plan
        if self._binder.adds:
            raise ShapeError(
                f"{plan.user_result} keeps its old entries, so that its pattern is never settled",
                code="E206",
                hint="write the sum into another result: D = C + ...",
            )
        given = self._given(operands)
        first = self(**operands).storage
        compute: Computes = self
        if isinstance(plan.assembly, Append) and self._native:
            compute = self._under(first) if narrows(plan) else self._again(first)
        text = show(plan.assignment)
        names = tuple(self._templates)

        def filled(more: Mapping[str, Any]) -> dict[str, Any]:
            return {**operands, **more}

        return SymbolicPlan(
            text,
            names,
            given,
            first,
            lambda *, out=None, **more: compute(out=out, **filled(more)),
            lambda more: self._given(filled(more)),
            (_symbolic_again, (self, operands)),
        )

    def _under(self, result: Storage) -> Kernel:
        """A kernel for results with the pattern of `result`."""
        name = f"{self._plan.result.name}'pattern"
        under = Draft(self._plan.written, known_pattern(self._plan, name))
        draft = shared_by_threads(under, ANY_CPU)
        plan, trace = draft.plan, Trace(decisions=list(draft.decisions))
        held = convert(result, self._plan.result.format, exact=True)
        dtype = next(
            v.dtype for v in walk(plan.loops) if isinstance(v, TensorVar) and v.name == name
        )
        values = np.empty(held.values.size, dtype)  # nobody reads them
        pattern = Storage(held.shape, held.format, dtype, held.levels, values, held.fill)
        templates = {**self._templates, name: type(self._result).of(pattern, name)}
        return Kernel(plan, trace, templates, self._result, self._loader)

    def _again(self, first: Storage) -> Computes:
        """The whole computation, whose results share the index arrays of `first`."""

        def compute(*, out: Any = None, **operands: Any) -> Any:
            made = self(out=out, **operands)
            shared = replace(made.storage, levels=first.levels)
            return type(made).of(shared, made.name) if out is None else made

        return compute

    def _given(self, operands: Mapping[str, Any]) -> tuple[Storage, ...]:
        """The storage of every operand, in order."""
        templates = self._templates
        if not operands:
            return tuple([template.storage for template in templates.values()])
        for name in operands:
            if name not in templates:
                raise ShapeError(
                    f"the kernel has no operand {name}",
                    code="E203",
                    hint=f"its operands are {', '.join(templates) or 'none'}",
                )
        return tuple(
            [
                (
                    template.__openwork_coerce__(operands[name]) if name in operands else template
                ).storage
                for name, template in templates.items()
            ]
        )

    def _check_out(self, out: Any) -> None:
        result = self._plan.user_result
        if not hasattr(out, "__openwork_store__"):
            raise ShapeError(
                f"out is a {type(out).__module__}.{type(out).__name__}, not a tensor of Openwork",
                code="E202",
                hint="wrap it: out=ow.tensor(array) shares the memory of a contiguous array",
            )
        if (out.format, out.dtype) != (result.format, result.dtype):
            raise ShapeError(
                f"out is {out.format!r} of {out.dtype}, but the kernel computes {result.format!r} "
                f"of {result.dtype}",
                code="E202",
            )

    def _launch(
        self, given: tuple[Storage, ...], shape: Shape, old: Storage | None, out: Any
    ) -> Storage:
        """Run the compiled kernel; a call like the one before is bound already."""
        plan, binder = self._plan, self._binder
        binding, fixed = self._latest, out is not None
        operands = given if self._simple else binder.operands_of(given, old)
        if binding is None or fixed or binder.converts or not binding.fits(given, shape):
            if plan.otherwise is not None and not binder.keeps_bounds(given, shape):
                return self._for_other_extents(plan.otherwise)._launch(given, shape, old, out)
            binding = self._latest = binder.bind(given, operands, shape, fixed)
        if isinstance(plan.assembly, Append):
            try:
                storage = self._appended(binding)
            except BoundBroken:
                raise broken_bound(plan) from None
            except PositionOverflow:
                binder.widen(binding)
                binding = self._latest = binder.bind(given, operands, shape, fixed)
                storage = self._appended(binding)
            if not fixed and not self._check and not self._converts_result:
                suits = WarmAppended.suits(plan.assembly, binding, binder)
                repeated = (binding, plan.user_result, self._templates.values(), self._result)
                self._warm = WarmAppended(*repeated) if suits else None
        else:
            values = self._values(binding, operands, old, out)
            work = binding.work + binding.count
            pointers = (*binding.pointers, address(values))
            try:
                steps = binding.steps + binding.count
                given_for = (pointers, binding.sizes, work, 0, binding.tight, steps)
                binding.executable.run(*given_for)
            except BoundBroken:
                raise broken_bound(plan) from None
            storage = self._storage(binding, binder.levels(operands), values)
            if not fixed and not self._check and not self._converts_result:
                suits, user = Warm.suits(binding, binder), plan.user_result
                mine = self._templates.values()
                self._warm = Warm(binding, binder, user, mine, self._result) if suits else None
        return storage

    def _for_other_extents(self, plan: Plan) -> Kernel:
        """The kernel for data that breaks a bound which the default schedule counts on."""
        if self._other is None:
            self._other = Kernel(plan, Trace(), self._templates, self._result, self._loader)
        return self._other

    def _storage(
        self, binding: Binding, levels: tuple[Mapping[str, Array], ...], values: Array
    ) -> Storage:
        """The result as the user stores it."""
        plan, tensor, user = self._plan, self._plan.result, self._plan.user_result
        if not self._converts_result:
            return self._around(binding.shape, user.format, levels, values)
        shape = binding.shape if plan.native is None else binding.extents
        made = self._around(shape, tensor.format, levels, values)
        made = convert(made, plan.native or user.format, exact=True)
        return replace(made, shape=binding.shape, format=user.format)

    def _around(
        self,
        shape: tuple[int, ...],
        format: Format,
        levels: tuple[Mapping[str, Array], ...],
        values: Array,
    ) -> Storage:
        """A storage of the arrays of a result."""
        tensor = self._plan.result
        return Storage(shape, format, tensor.dtype, levels, values, tensor.fill)

    def _values(
        self, binding: Binding, operands: tuple[Storage, ...], old: Storage | None, out: Any
    ) -> Array:
        """Memory for the values of a result whose positions are known."""
        dtype, initial, count = self._plan.result.dtype, binding.compiled.initial, binding.count
        if out is not None and out.format.is_dense and not self._converts_result:
            values: Array = out.__openwork_place__().values
            if not any(np.may_share_memory(values, s.values) for s in operands):
                if not values.flags.writeable:
                    raise DataError(f"{out.name} cannot be written to", code="E505")
                if initial is not None:
                    values.fill(initial)
                elif old is not None and old.values is not values:
                    values[...] = old.values
                return values
        if old is not None and self._plan.assignment.op is not None:
            return old.values.copy()
        if initial == 0:
            return zeros(count, dtype)
        values = allocate(count, dtype)
        if initial is not None:
            values.fill(initial)
        return values

    def _appended(self, binding: Binding) -> Storage:
        """A result from the arrays that the kernel makes."""
        room, assembly, lhs = binding.room, self._plan.assembly, self._plan.assignment.lhs
        if isinstance(assembly, Append) and assembly.strategy == "count":
            room = limit(lhs, dict(zip(lhs.vars, binding.extents, strict=True)))
        sizes, tight = binding.sizes, binding.tight
        given = (binding.pointers, sizes, binding.work, room, tight, binding.steps)
        made = binding.executable.run(*given)
        arrays = iter(made)
        levels = tuple(
            {fact.name: next(arrays) for fact in level.arrays}
            for level in self._plan.result.format.levels
        )
        return self._storage(binding, levels, next(arrays))

    def _compare(
        self, result: Storage, given: tuple[Storage, ...], shape: Shape, old: Storage | None
    ) -> None:
        """Raise if a result differs from the reference's."""
        _check_agreement(result, self._refer(given, shape, old), repr(self))

    def _refer(self, given: tuple[Storage, ...], shape: Shape, old: Storage | None) -> Storage:
        """The result by the reference evaluator."""
        written, user = self._plan.written, self._plan.user_result
        pairs = zip(self._templates, given, strict=True)
        operands = {name: to_masked(storage) for name, storage in pairs}
        before = None if old is None or written.op is None else to_masked(old)
        result = evaluate(written, operands, self._binder.extents(given, shape), before)
        coords, values = masked_to_coo(result)
        if user.format.is_dense:
            coords = np.indices(result.values.shape).reshape(user.ndim, result.values.size)
            values = result.values.reshape(-1)
        return pack(coords, values, result.values.shape, user.format, user.fill)


def _symbolic_again(kernel: Kernel, operands: Mapping[str, Any]) -> SymbolicPlan:
    """A symbolic plan from what was pickled of it."""
    return kernel.symbolic(**operands)


def checks_results() -> bool:
    """Whether every result is compared with the reference's: `OPENWORK_CHECK`."""
    return os.environ.get("OPENWORK_CHECK", "") not in ("", "0")


def _deliver(storage: Storage, out: Any) -> Any:
    """Put a result into the tensor that was given for it."""
    if out.format.is_dense:
        place = out.__openwork_place__()
        if storage.values is not place.values:
            place.values[...] = storage.values
        storage = place
    out.__openwork_store__(storage)
    return out


def _check_agreement(result: Storage, expected: Storage, kernel: str) -> None:
    got, want = to_masked(result).values, to_masked(expected).values
    tolerance = 0.0 if want.dtype.kind in "biu" else 1e-4
    if not np.allclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True):
        raise InternalError(f"{kernel} disagrees with the reference evaluator")
