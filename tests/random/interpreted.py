"""Kernels that the interpreter runs: nothing is compiled, and everything is checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
from tests.random.generate import Case, assert_agrees
from tests.random.test_property import statement_of

from openwork.pipeline import Compiled
from openwork.program import nodes as p
from openwork.program.contract import OVERFLOWED
from openwork.program.interpret.interpret import NO_MEMORY, OK, interpret
from openwork.program.interpret.memory import poison
from openwork.runtime.host.launch import PositionOverflow
from openwork.runtime.reference import to_masked
from openwork.runtime.storage import Array, Storage
from openwork.tensor.exchange.validate import validate
from openwork.tensor.kernel import cpu
from openwork.tensor.kernel.promises import Promises
from openwork.tensor.statement import Statement
from openwork.tree import walk


class Interpreted:
    """Stands in for an executable; arrays come to it as they are, not as addresses."""

    threads = 3
    results: ClassVar[dict[int, Array]] = {}  # by address

    def __init__(self, program: p.Program, compiled: Compiled) -> None:
        self.program, self.writes_all = program, compiled.initial is None

    def run(
        self,
        arrays: Sequence[Any],
        extents: Sequence[int],
        work: float,
        room: int,
        tight: bool = False,
        steps: float | None = None,
    ) -> list[Array]:
        roles = [argument.role for argument in self.program.arguments]
        given = [self.results[a] if isinstance(a, int) else a for a in arrays]
        given += [None] * roles.count("made")
        for role, array in zip(roles, given, strict=True):
            if role == "result" and self.writes_all:
                array.fill(poison(array.dtype))
        # Hardly any room, so that arrays have to grow; but no limit to what is counted first.
        counts = any(isinstance(n, p.Fail) and n.status == NO_MEMORY for n in walk(self.program))
        sizes = [self.threads, 1 << 40 if counts else 1, *extents]
        status, made = interpret(self.program, given, sizes, seed=len(given))
        if status == OVERFLOWED:
            raise PositionOverflow
        assert status == OK
        return made


class Accumulating(Interpreted):
    """For statements that add to what the result holds, which must not be poisoned."""

    def __init__(self, program: p.Program, compiled: Compiled) -> None:
        super().__init__(program, compiled)
        self.writes_all = False


@contextmanager
def interpreting(executable: type[Interpreted]) -> Iterator[None]:
    """Kernels hand arrays themselves to `executable`, and need no compiler."""
    new_values = cpu.CpuLauncher._values

    def arrays(self: Storage) -> list[Array]:
        return self.addressed

    def noted_values(*args: Any) -> Array:
        values = new_values(*args)
        executable.results[values.__array_interface__["data"][0]] = values
        return values

    keep = Promises.keep

    def noted_cuts(*args: Any) -> tuple[Array, ...]:
        cuts = keep(*args)
        executable.results.update({a.__array_interface__["data"][0]: a for a in cuts})
        return cuts

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Promises, "keep", noted_cuts)
        patch.setattr(Storage, "pointers", property(arrays))
        patch.setattr(cpu.CpuLauncher, "_values", noted_values)
        patch.setattr(cpu, "Executable", executable)
        patch.setattr(cpu, "find_toolchain", lambda: "the interpreter")
        yield
    executable.results.clear()


def run_case(case: Case, stmt: Statement | None = None) -> None:
    """Fail unless the interpreter computes what the reference does."""
    adds = case.assignment.op is not None
    with interpreting(Accumulating if adds else Interpreted):
        made = stmt or statement_of(case)
        storage = made.compile(loader=lambda compiled: compiled)().storage
    validate(storage, "the result")
    result = to_masked(storage)
    present = None if case.result.format.is_dense else result.present
    dtype = case.assignment.lhs.dtype
    assert_agrees(result.values, present, case.expected(), dtype, atol=case.atol)
