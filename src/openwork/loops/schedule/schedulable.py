"""The scheduling methods of a statement: each gives a new statement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

from openwork.errors import ScheduleError
from openwork.index.nodes import Assignment
from openwork.index.show import show
from openwork.loops.nodes import OutputRaceStrategy, ParallelUnit
from openwork.loops.plan.plan import Plan
from openwork.loops.relations import BoundType
from openwork.loops.schedule.command import Command, understand
from openwork.loops.schedule.options import CPU, GPU, Option, options
from openwork.loops.schedule.text import read_schedule

S = TypeVar("S", bound="Schedulable")


class Schedulable(ABC):
    """What can be scheduled: a statement, or a draft. Loops are given as index variables or names.

    Each command checks what it needs and raises `ScheduleError` with the reason and a way out.
    docs/scheduling.md says what each does, when it is legal and what it buys.
    """

    @property
    @abstractmethod
    def assignment(self) -> Assignment:
        """The assignment as it was written."""

    @property
    @abstractmethod
    def _base(self) -> Plan:
        """The loops that the next command changes."""

    @abstractmethod
    def _scheduled(self: S, command: Command) -> S:
        """The same after a command."""

    def __str__(self) -> str:
        return show(self.assignment)

    def _do(self: S, name: str, *args: Any, **options: Any) -> S:
        return self._scheduled(understand(self._base, name, args, options))

    def pos(self: S, i: Any, p: Any, access: Any, parents: str | None = None) -> S:
        """Move `i` to the position space of an operand: `p` counts its stored entries.

        `parents="stored"`: GPU threads with few positions look up the row of each in an array.
        """
        return self._do("pos", i, p, access, parents=parents)

    def coord(self: S, p: Any, c: Any) -> S:
        """Move from positions `p` back to coordinates `c`."""
        return self._do("coord", p, c)

    def reorder(self: S, *loops: Any) -> S:
        """Nest two or more loops, one directly inside the other, in the order given."""
        return self._do("reorder", *loops)

    def order(self: S, *loops: Any) -> S:
        """Nest the loops in the order given; those that are not named stay where they are."""
        return self._do("order", *loops)

    def fuse(self: S, i: Any, j: Any, f: Any) -> S:
        """Fuse the loop over `i` and that over `j`, directly inside it, into one over `f`."""
        return self._do("fuse", i, j, f)

    def split(self: S, i: Any, i0: Any, i1: Any, factor: int) -> S:
        """Cut `i` into runs of `factor` values: `i0` counts the runs, `i1` runs within one."""
        return self._do("split", i, i0, i1, factor)

    def divide(
        self: S,
        i: Any,
        i0: Any,
        i1: Any,
        parts: int,
        *,
        balance: str | None = None,
        split_points: Callable[..., Any] | None = None,
        assign: str | None = None,
        chunk: int | None = None,
    ) -> S:
        """Cut `i` into `parts` runs: equally long, with equal work, or at given points.

        Or deal its values out to `parts` turns.

        Args:
            i: the loop to cut.
            i0: counts the runs.
            i1: runs within one.
            parts: how many runs.
            balance: `"nnz"` divides the stored entries evenly.
            split_points: called as `split_points(tensors, parts)` before a kernel runs, with the
                operands by name; returns `parts + 1` sorted values of `i`, from its first to one
                past its last (positions, if `i` is in position space).
            assign: `"stride"`: turn `i0` has every `parts`-th value, from `i0` on. `"dynamic"`:
                each of `parts` threads or blocks takes the next `chunk` values, until there are
                none.
            chunk: how many values are taken at a time, for `assign="dynamic"`; 1 if left out.
        """
        more = {"split_points": split_points, "assign": assign, "chunk": chunk}
        return self._do("divide", i, i0, i1, parts, balance=balance, **more)

    def bound(
        self: S, i: Any, ib: Any, value: int | BoundType | str, kind: BoundType | str | int
    ) -> S:
        """Promise where the values of `i` begin or end; data that breaks it is refused.

        The kind may also come before the value.
        """
        return self._do("bound", i, ib, value, kind)

    def unroll(self: S, i: Any, factor: int | None = None) -> S:
        """Unroll `i` by `factor`, or completely."""
        return self._do("unroll", i, factor)

    def precompute(self: S, expr: Any, i: Any, ip: Any, workspace: Any = None) -> S:
        """Compute a part of the expression into a workspace over `i`, in a loop over `ip`."""
        return self._do("precompute", expr, i, ip, workspace)

    def parallelize(
        self: S,
        i: Any,
        unit: ParallelUnit | str,
        race: OutputRaceStrategy | str = OutputRaceStrategy.NoRaces,
        *,
        chunk: int | None = None,
        group_size: int | None = None,
        reduction: str | None = None,
        resident: int | None = None,
        threads: int | None = None,
        blocks_per_sm: int | None = None,
        writes: Any = None,
    ) -> S:
        """Run the iterations of `i` on threads, vector lanes, or the units of a GPU.

        Args:
            i: the loop.
            unit: `CPUThread`, `CPUVector`, `GPUBlock`, `GPUWarp`, `GPUThread` or `GPUGroup`.
            race: how races between writes to the same entry are avoided.
            chunk: iterations that a CPU thread or a `GPUBlock` takes at a time.
            group_size: adjacent GPU threads that combine what they write, for `GPUGroup`.
            reduction: `"parallel"` into one entry, or `"segment"` into one for each run of threads.
            resident: launch bounds in threads per multiprocessor, for `GPUBlock`; fewer threads
                have more registers each, and more loads in flight.
            threads: how many a block has, for `GPUBlock`; by default as many as the loops inside.
            blocks_per_sm: launch bounds in blocks per multiprocessor, for `GPUBlock`.
            writes: a tensor or its name: of several loops over `i`, only those that compute it.
        """
        group = {"group_size": group_size, "reduction": reduction}
        block = {"resident": resident, "threads": threads, "blocks_per_sm": blocks_per_sm}
        return self._do("parallelize", i, unit, race, chunk=chunk, writes=writes, **group, **block)

    def mergeby(self: S, i: Any, strategy: str) -> S:
        """Intersect sparse operands along `i` by `"gallop"` or `"two_finger"`."""
        return self._do("mergeby", i, strategy)

    def prefetch(self: S, access: Any, i: Any, distance: int) -> S:
        """Prefetch an operand's entries `distance` iterations of `i` ahead."""
        return self._do("prefetch", access, i, distance)

    def assemble(self: S, strategy: str) -> S:
        """Assemble a sparse result by `"count"`, `"append"` or `"serial"`.

        >>> import openwork as ow
        >>> i, j = ow.indices("i j")
        >>> A, B = (ow.placeholder(n, order=2, format=ow.CSR) for n in "AB")
        >>> stmt = ow.assign(ow.empty((9, 9), format=ow.CSR, name="C")[i, j], A[i, j] + B[i, j])
        >>> stmt.assemble("count").commands
        'assemble(count)'
        """
        return self._do("assemble", strategy)

    def stream(self: S, result: Any) -> S:
        """Write the result by non-temporal stores, which bypass the cache."""
        return self._do("stream", result)

    def schedule(self: S, text: str, /, **functions: Any) -> S:
        """Apply the commands that `text` writes, in order.

        Args:
            text: such as `"split(i,i0,i1,32), parallelize(i0,CPUThread,NoRaces)"`.
            **functions: what the names given to `split_points` stand for.
        """
        if not isinstance(text, str):
            raise ScheduleError(
                f"{text!r} is not a text", code="E311", hint='stmt.schedule("split(i,i0,i1,32)")'
            )
        result = self
        for name, args, given, span in read_schedule(text, functions):
            try:
                command = understand(result._base, name, args, given, span)
                result = result._scheduled(command)
            except ScheduleError as error:
                if error.span is not None:
                    raise
                raise ScheduleError(
                    error.message, code=error.code, span=span, hint=error.hint
                ) from None
        return result

    def legal(self, target: str = "cpu") -> list[Option]:
        """Which commands apply to which loops now; each prints as text for `schedule`."""
        return options(self._base, CPU if target == "cpu" else GPU)
