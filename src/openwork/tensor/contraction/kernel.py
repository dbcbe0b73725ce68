"""A kernel that runs in steps: each computes an operand of those after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from openwork.errors import ShapeError
from openwork.index.nodes import Assignment
from openwork.index.show import show
from openwork.loops.nodes import Sequence as InSequence, Stmt
from openwork.tensor.draw.html import kernel_html
from openwork.tensor.kernel.kernel import Kernel
from openwork.tensor.kernel.symbolic import SymbolicPlan


class Stepwise(Kernel):
    """A compiled statement whose last step is this kernel.

    Args:
        whole: the statement.
        decisions: the order of the steps and what it costs, in words.
        before: the steps that come first: the name of what each computes, and its kernel.
        last: the last step; this kernel takes its place.
        one: compiles the statement as one kernel.
    """

    def __init__(
        self,
        whole: Assignment,
        decisions: Sequence[str],
        before: Sequence[tuple[str, Kernel]],
        last: Kernel,
        one: Callable[[], Kernel],
    ) -> None:
        self.__dict__.update(last.__dict__)
        self._whole, self._told, self._before, self._one = whole, tuple(decisions), before, one
        made = {name for name, _ in before}
        self._needs = {name: tuple(n for n in step._templates) for name, step in before}
        self._own = tuple(dict.fromkeys(
            name
            for kernel in (*(step for _, step in before), last)
            for name in kernel._templates
            if name not in made
        ))  # fmt: skip
        self._last = last

    @property
    def source(self) -> str:
        """The source of all steps, one after the other."""
        parts = []
        for n, kernel in enumerate(self._steps, 1):
            text = show(kernel._plan.assignment)
            parts.append(f"// step {n} of {len(self._steps)}: {text}\n{kernel.source}")
        return "\n".join(parts)

    @property
    def _steps(self) -> list[Kernel]:
        return [*(step for _, step in self._before), self._last]

    @property
    def loops(self) -> Stmt:
        """The loop nests, one after the other."""
        first, *others = [kernel.loops for kernel in self._steps]
        for loops in others:
            first = InSequence(first, loops)
        return first

    def explain(self) -> str:
        """The steps, why they are taken in this order, and what was chosen for each."""
        lines = [f"statement: {show(self._whole)}", *self._told]
        for n, kernel in enumerate(self._steps, 1):
            lines.append(f"step {n}:")
            lines += [f"  {line}" for line in kernel.explain().splitlines()]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Kernel {show(self._whole)}, in {len(self._steps)} steps>"

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return kernel_html(show(self._whole), str(self.loops), self._told, self.source)

    def __call__(self, /, *positional: Any, out: Any = None, **operands: Any) -> Any:
        """Compute the result, as other kernels do."""
        if positional:
            names = ", ".join(f"{name}={name}" for name in self._own)
            raise ShapeError(
                "operands of a kernel go by name", code="E203", hint=f"write kernel({names})"
            )
        for name in operands:
            if name not in self._own:
                raise ShapeError(
                    f"the kernel has no operand {name}",
                    code="E203",
                    hint=f"its operands are {', '.join(self._own)}",
                )
        known = dict(operands)
        for name, step in self._before:
            known[name] = step(**_chosen(known, self._needs[name]))
        return self._last(out=out, **_chosen(known, self._last._templates))

    def repeated(self, operands: Mapping[str, Any]) -> Any:
        """None: the results of steps are new in each call."""
        return None

    def symbolic(self, /, **operands: Any) -> SymbolicPlan:
        """The pattern of the result once, and its values many times, by one kernel."""
        return self._one().symbolic(**operands)


def _chosen(known: Mapping[str, Any], names: Any) -> dict[str, Any]:
    return {name: known[name] for name in names if name in known}
