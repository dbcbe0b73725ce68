"""Kernels: compiled statements, which can be called repeatedly."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Protocol

import numpy as np

from openwork.algebra.types import as_numbers, numbers_of
from openwork.errors import InternalError, ShapeError
from openwork.index.nodes import TensorVar
from openwork.index.show import show
from openwork.loops.nodes import Stmt
from openwork.loops.plan.assembly import Append
from openwork.loops.plan.plan import Plan
from openwork.loops.plan.symbolic import known_pattern, narrows
from openwork.loops.schedule.draft import Draft
from openwork.loops.schedule.schedulable import Schedulable
from openwork.runtime.reference import evaluate, masked_to_coo, to_masked
from openwork.runtime.storage import Storage
from openwork.tensor.convert.convert import convert
from openwork.tensor.convert.pack import pack
from openwork.tensor.draw.html import kernel_html
from openwork.tensor.kernel.binding import Shape
from openwork.tensor.kernel.result_size import is_full
from openwork.tensor.kernel.symbolic import Computes, SymbolicPlan
from openwork.tensor.kernel.target import Launcher, Loader, Target
from openwork.tensor.kernel.warm import Repeated
from openwork.trace import Trace
from openwork.tree import walk

# What calls return. Users' statements compute tensors, which nothing here knows.
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    R = TypeVar("R", default=Any)
else:
    from typing import TypeVar

    R = TypeVar("R")


class Turning(Protocol):
    """Replaces a launcher where the transpose of an operand is kept."""

    def launcher(self, given: tuple[Storage, ...], usual: Launcher) -> tuple[Any, bool]:
        """The launcher for a call with the operands `given`, and whether it stays the same."""


# The result for given operands without a kernel, where that is faster; None elsewhere.
Shortcut = Callable[[tuple[Storage, ...]], Storage | None]


# What is asked of a kernel that its result has.
_AFTER = {"to_numpy": ".to_numpy()", "numpy": ".to_numpy()", "shape": ".shape", "dtype": ".dtype"}


class Kernel(Generic[R]):
    """A compiled statement.

    Calling it computes a fresh result from the tensors of the statement, or from others given by
    name: same format, element type and number of modes, any shapes that fit. It is thread-safe.
    """

    _origin: tuple[Any, ...] | None = None  # recreates the kernel in another process

    def __init__(
        self,
        plan: Plan,
        trace: Trace,
        templates: Mapping[str, Any],
        result: Any,
        target: Target,
        loader: Loader | None = None,
        turning: Turning | None = None,
        shortcut: Shortcut | None = None,
    ) -> None:
        self._plan, self._trace, self._target = plan, trace, target
        self._templates, self._result, self._loader = dict(templates), result, loader
        self._launcher = target.launcher(plan, trace, self._templates, result, loader)
        self._turning, self._latest = turning, self._launcher
        self._warm: Repeated | None = None
        self._shortcut = shortcut
        self._check = checks_results()
        if self._launcher.missing is not None:
            warnings.warn(self._launcher.missing, stacklevel=4)

    # -- for readers ----------------------------------------------------------------------------

    @property
    def source(self) -> str:
        """The source, for the index widths of the latest call; comments have the user's names."""
        return self._latest.compiled.shown

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
        if self._launcher.missing is not None:
            lines.append("  no C compiler: the reference evaluator computes the result")
        seconds = sum(stage.seconds for stage in self._trace.stages)
        length = len(self.source.splitlines())
        language = self._target.language
        lines.append(f"{length} lines of {language}, written in {seconds * 1e3:.1f} ms")
        return "\n".join(lines)

    def _fullness(self) -> list[str]:
        """A note if a sparse result has an entry for every coordinate, and how many."""
        plan = self._plan
        if not isinstance(plan.assembly, Append) or not is_full(plan.assignment):
            return []
        shape = self._result.shape
        known = not any(extent is None for extent in shape)
        count = f": {math.prod(shape):,} entries" if known else ""
        reason = "full, because absent operands do not make it absent"
        return [f"  {plan.user_result}: {reason}{count}"]

    def __repr__(self) -> str:
        return f"<Kernel {show(self._plan.assignment)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._origin is None:
            raise InternalError(f"{self!r} was not compiled from a statement")
        return self._origin

    # -- calling --------------------------------------------------------------------------------

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if callable(getattr(Schedulable, name, None)):
                name += (
                    f"'; schedule the statement before it is compiled: 'stmt.{name}(...).compile()"
                )
            elif name in ("run", "to_numpy", "numpy", "result", "shape", "dtype"):
                name += f"'; call the kernel: 'kernel(){_AFTER.get(name, '')}"
            elif name in ("time", "benchmark"):
                name += "'; write 'timeit.repeat(kernel, number=1)"
            raise AttributeError(f"a Kernel has no attribute '{name}'")

    def _repr_html_(self) -> str:
        """The statement, its loops, what was decided, and the source, for notebooks."""
        plan = self._plan
        text = show(plan.assignment)
        return kernel_html(text, str(plan.loops), self._trace.decisions, self.source)

    def __call__(self, /, *positional: Any, out: Any = None, **operands: Any) -> R:
        """Compute the result.

        Args:
            out: a tensor to write the result into, instead of a new one.
            **operands: tensors (or arrays) to use instead of the statement's, by name.

        Raises:
            ShapeError: E202 if an argument does not fit what was compiled, E203 if one is missing
                or unknown, E201 if extents disagree.
        """
        if positional:
            names = ", ".join(f"{name}={name}" for name in self._templates)
            raise ShapeError(
                "operands of a kernel go by name", code="E203", hint=f"write kernel({names})"
            )
        warm = self._warm
        result: R | None
        if warm is not None:
            if out is not None:
                result = warm.into(out, operands)
            else:
                result = warm.with_others(operands) if operands else warm.again()
            if result is not None:
                return result
        given = self._given(operands)
        if out is not None:
            self._check_out(out)
        elif warm is not None and operands:
            result = warm(given)
            if result is not None:
                return result
        launcher, place = self._launcher, self._result if out is None else out
        old = place.__openwork_before__(self._plan.written) if launcher.binder.adds else None
        # A kernel that adds to `out` writes over what the reference evaluator starts from.
        before = old.copy() if self._check and old is not None else old
        short = None if self._shortcut is None else self._shortcut(given)
        if short is not None and (out is None or out.shape == short.shape):
            storage = short
            if self._check:
                self._compare(storage, given, place.shape, before)
        elif launcher.missing is not None:
            storage = self._refer(given, place.shape, old)
        else:
            final = True
            if self._turning is not None:
                launcher, final = self._turning.launcher(given, launcher)
            self._latest = launcher
            storage = launcher.launch(given, place.shape, old, out)
            if self._check:
                self._compare(storage, given, place.shape, before)
            else:
                self._warm = launcher.warm if final else None
        made: R
        made = self._result.__openwork_result__(storage) if out is None else _deliver(storage, out)
        return made

    def repeated(self, operands: Mapping[str, Any]) -> Any:
        """The result if the call before had operands much like these; None if it had not.

        Much alike are the same sparse tensors, and dense ones and arrays of the same shape.
        """
        warm = self._warm
        return None if warm is None else warm.with_others(operands)

    def symbolic(self, /, **operands: Any) -> SymbolicPlan:
        """Compute the pattern of the result once, and its values many times.

        Args:
            **operands: tensors (or arrays) to use instead of the statement's, by name; only the
                patterns of sparse ones matter.

        Raises:
            ShapeError: as for a call; E206 if the statement accumulates into a sparse result.

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
        if self._launcher.binder.adds:
            raise ShapeError(
                f"{plan.user_result} keeps its old entries, so its pattern changes with them",
                code="E206",
                hint="write the sum into another result: D = C + ...",
            )
        given = self._given(operands)
        made: Any = self(**operands)
        first = made.storage
        compute: Computes = self
        if isinstance(plan.assembly, Append) and self._launcher.missing is None:
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
        draft = self._target.for_pattern(Draft(self._plan.written, known_pattern(self._plan, name)))
        if draft is None:
            return self
        plan, trace = draft.plan, Trace(decisions=list(draft.decisions))
        held = convert(result, self._plan.result.format, exact=True)
        dtype = next(
            v.dtype for v in walk(plan.loops) if isinstance(v, TensorVar) and v.name == name
        )
        values = np.empty(*numbers_of(held.places, dtype))  # never read
        pattern = Storage(held.shape, held.format, dtype, held.levels, values, held.fill)
        templates = {**self._templates, name: type(self._result).of(pattern, name)}
        return Kernel(plan, trace, templates, self._result, self._target, self._loader)

    def _again(self, first: Storage) -> Computes:
        """The whole computation, whose results share the index arrays of `first`."""

        def compute(*, out: Any = None, **operands: Any) -> Any:
            made: Any = self(out=out, **operands)
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

    def _compare(
        self, result: Storage, given: tuple[Storage, ...], shape: Shape, old: Storage | None
    ) -> None:
        """Raise if a result differs from the reference evaluator's."""
        expected = self._refer(given, shape, old)
        made = (to_masked(each).values for each in (result.host(), expected))
        got, want = map(as_numbers, made)
        tolerance = 0.0 if want.dtype.kind in "biu" else 1e-4
        if not np.allclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True):
            raise InternalError(f"{self!r} disagrees with the reference evaluator")

    def _refer(self, given: tuple[Storage, ...], shape: Shape, old: Storage | None) -> Storage:
        """The reference evaluator's result."""
        written, user = self._plan.written, self._plan.user_result
        pairs = zip(self._templates, given, strict=True)
        operands = {name: to_masked(storage.host()) for name, storage in pairs}
        before = None if old is None or written.op is None else to_masked(old.host())
        extents = self._launcher.binder.extents(given, shape)
        result = evaluate(written, operands, extents, before)
        coords, values = masked_to_coo(result)
        if user.format.is_dense:
            coords = np.indices(result.values.shape).reshape(user.ndim, result.values.size)
            values = result.values.reshape(-1)
        return pack(coords, values, result.values.shape, user.format, user.fill)


def _symbolic_again(kernel: Kernel, operands: Mapping[str, Any]) -> SymbolicPlan:
    """Unpickle a symbolic plan."""
    return kernel.symbolic(**operands)


def checks_results() -> bool:
    """Whether every result is compared with the reference evaluator's: `OPENWORK_CHECK`."""
    return os.environ.get("OPENWORK_CHECK", "") not in ("", "0")


def _deliver(storage: Storage, out: Any) -> Any:
    """Put a result into the tensor given as `out`."""
    if out.format.is_dense:
        place = out.__openwork_place__()
        if storage.values is not place.values:
            place.values[...] = storage.values
        storage = place
    out.__openwork_store__(storage)
    return out
