"""Targets: how a plan becomes kernels, how these are compiled, and how they run.

A target is one object. It creates a launcher for each kernel, which has the target's compiler and
runs bound calls. This module has what all targets share.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from openwork.format.formats import Format
from openwork.loops.plan.plan import Plan
from openwork.loops.schedule.draft import Draft
from openwork.loops.schedule.machines import Gpu
from openwork.pipeline import Compiled
from openwork.recipes.devices.tables import H200
from openwork.runtime.host.launch import BoundBroken, PositionOverflow
from openwork.runtime.storage import Array, Storage
from openwork.tensor.convert.convert import convert
from openwork.tensor.kernel.binding import Binder, Binding, Shape
from openwork.tensor.kernel.compiler import Compiler
from openwork.tensor.kernel.promises import broken_bound
from openwork.tensor.kernel.warm import Repeated
from openwork.trace import Trace

Loader = Callable[[Any], Any]  # from a compiled kernel to a function


class Target(ABC):
    """Where kernels run.

    `name`: its name in `compile(target=...)`. `language`: of the source. `gpu`: it takes GPU
    schedules, and only those.
    """

    name: str
    language: str
    gpu: bool

    @abstractmethod
    def launcher(
        self,
        plan: Plan,
        trace: Trace,
        templates: Mapping[str, Any],
        result: Any,
        loader: Loader | None,
    ) -> Launcher:
        """The launcher that runs `plan`.

        `templates`: the operands of the statement, by name. `result`: its result. `loader`: turns
        a compiled kernel into a function, instead of the target's own way.
        """

    @property
    @abstractmethod
    def machine(self) -> str:
        """The target and where it runs, as records of tuning name them."""

    @property
    def model(self) -> str:
        """What the device calls itself; "" for the CPU and the emulator."""
        return ""

    @property
    def table(self) -> Gpu:
        """The table by which schedules for a GPU are chosen."""
        return H200

    @abstractmethod
    def for_pattern(self, draft: Draft) -> Draft | None:
        """A scheduled draft that computes values for a known pattern; None if it gains nothing."""


class Launcher(ABC):
    """Runs the kernels of one plan on one target; for its arguments see `Target.launcher`.

    `missing`: what must be installed before anything runs, or None. `latest`: the call before.
    `warm`: repeats it with less overhead, if possible.
    """

    missing: str | None = None

    def __init__(
        self,
        target: Target,
        compiler: Compiler,
        plan: Plan,
        templates: Mapping[str, Any],
        result: Any,
        loader: Loader | None,
    ) -> None:
        self._target, self._compiler, self._plan = target, compiler, plan
        self._templates, self._result, self._loader = templates, result, loader
        self.binder = Binder(plan, templates, compiler)
        self.latest: Binding | None = None
        self.warm: Repeated | None = None
        self._other: Launcher | None = None
        self._converts_result = plan.converts_result
        self._simple = self.binder.takes_as_given
        known = {n: getattr(t, "_storage", None) for n, t in templates.items()}
        self._first = compiler.before_calls(tuple(known.get(v.name) for v in compiler.operands))

    @property
    def compiled(self) -> Compiled:
        """The kernel of the latest call."""
        return self._first if self.latest is None else self.latest.compiled

    def launch(
        self, given: tuple[Storage, ...], shape: Shape, old: Storage | None, out: Any
    ) -> Storage:
        """Run the kernel; a call like the one before reuses its binding.

        Args:
            given: the user's operands.
            shape: the shape of the result, as far as it is known.
            old: the old contents of the result, if they matter.
            out: a tensor to write the result into.
        """
        plan, binder, binding = self._plan, self.binder, self.latest
        again = binding is not None and (out is None or binding.fixed) and not binder.converts
        operands = self._as_before(binding, given, shape) if again else None
        if binding is None or operands is None:
            operands = given
            if not self._simple:
                operands = binder.operands_of(given, old, shape, out is not None)
            if plan.otherwise is not None and not binder.keeps_bounds(given, shape):
                return self._for_other_extents(plan.otherwise).launch(given, shape, old, out)
            binding = self._bound(given, operands, shape, out)
        try:
            try:
                return self._run(binding, operands, old, out)
            except PositionOverflow:
                self._compiler.widen(binding.wide)
                binding = self._bound(given, operands, shape, out)
                return self._run(binding, operands, old, out)
        except BoundBroken:
            raise broken_bound(plan) from None

    def _bound(
        self, given: tuple[Storage, ...], operands: tuple[Storage, ...], shape: Shape, out: Any
    ) -> Binding:
        binding = self.binder.bind(given, operands, shape, out is not None)
        binding.ready = self._ready(binding, operands)
        self.latest = binding
        return binding

    def _as_before(
        self, binding: Binding | None, given: tuple[Storage, ...], shape: Shape
    ) -> tuple[Storage, ...] | None:
        """The operands of the loops of this binding, if the call has its operands."""
        if binding is None or not self._holds(binding, given, shape):
            return None
        if self._simple:
            return given
        used = [each() for each in binding.used]
        return tuple([storage for storage in used if storage is not None])

    def _holds(self, binding: Binding, given: tuple[Storage, ...], shape: Shape) -> bool:
        """Whether a call has the operands of this binding."""
        return binding.fits(given, shape)

    @abstractmethod
    def _ready(self, binding: Binding, operands: tuple[Storage, ...]) -> Any:
        """What running a binding needs, such as loaded functions."""

    @abstractmethod
    def _run(
        self, binding: Binding, operands: tuple[Storage, ...], old: Storage | None, out: Any
    ) -> Storage:
        """The result of a bound call."""

    def _for_other_extents(self, plan: Plan) -> Launcher:
        """The launcher for data that breaks a bound of the default schedule."""
        if self._other is None:
            made = (plan, Trace(), self._templates, self._result, self._loader)
            self._other = self._target.launcher(*made)
        return self._other

    def _storage(
        self, binding: Binding, levels: tuple[Mapping[str, Array], ...], values: Array
    ) -> Storage:
        """The result as the user stores it."""
        plan, user, shape = self._plan, self._plan.user_result, binding.shape
        if not self._converts_result:
            return self._around(shape, user.format, levels, values)
        if plan.native is not None:
            shape = tuple(binding.extents[var] for var in plan.assignment.lhs.vars)
        made = self._around(shape, plan.result.format, levels, values)
        made = convert(made, plan.native or user.format, exact=True)
        return replace(made, shape=binding.shape, format=user.format)

    def _around(
        self,
        shape: tuple[int, ...],
        format: Format,
        levels: tuple[Mapping[str, Array], ...],
        values: Array,
    ) -> Storage:
        """The storage of a result's arrays."""
        tensor = self._plan.result
        return Storage(shape, format, tensor.dtype, levels, values, tensor.fill)
