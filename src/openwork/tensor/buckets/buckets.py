"""Statements by buckets of rows: several statements with one result, run as one kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from openwork.algebra.types import BOOL
from openwork.errors import DataError, ScheduleError, ShapeError
from openwork.format.formats import as_format
from openwork.frozen import frozen
from openwork.index.nodes import Access, Apply, Assignment, Expr, IndexVar, TensorVar
from openwork.index.show import show
from openwork.index.terms import as_variable
from openwork.loops.fresh import fresh_name
from openwork.runtime.storage import Storage
from openwork.tensor.buckets.rows import ROWS, Bucket, Partition, format_of_rows, format_of_view
from openwork.tensor.buckets.split import Split, split
from openwork.tensor.exchange.facts import facts_for, facts_of
from openwork.tensor.kernel.kernel import Kernel
from openwork.tensor.kernel.target import Loader

Make = Callable[[Assignment], Any]  # a statement without a schedule


@frozen(repr=False)
class Buckets:
    """A statement whose rows are computed in buckets, by the lengths of an operand's rows.

    `ow.Statement.bucket` makes them.

    Args:
        statements: one for each bucket, with its schedule.
        bounds: the longest row of each bucket but the last.
        text: the call that makes them, as Python.
        decision: where this choice comes from, if it was not written down.
    """

    statements: tuple[Any, ...]
    bounds: tuple[int, ...]
    text: str
    _split: Split = field(repr=False)
    _partition: Partition = field(repr=False)
    _make: Make = field(repr=False, compare=False)
    decision: str = field(default="", compare=False)

    def compile(
        self, target: str = "cpu", *, deterministic: bool = False, loader: Loader | None = None
    ) -> BucketKernel:
        """Compile all statements for a target; the arguments are those of `Statement.compile`.

        Raises:
            ToolchainError: E606 for a target that does not exist.
            ScheduleError: a bucket's schedule is not legal there; E317 as for any statement.
        """
        chosen = {"deterministic": deterministic, "loader": loader}
        kernels = [stmt.compile(target, **chosen) for stmt in self.statements]
        return BucketKernel(self, kernels, target, loader)

    def said(self, n: int) -> str:
        """Which rows the bucket `n` has."""
        if n == len(self.bounds):
            return f"rows of more than {self.bounds[-1]} entries"
        return f"rows of up to {self.bounds[n]} entries"

    def __str__(self) -> str:
        lines = [f"{show(self._split.written)}, by the rows of {self._split.access.tensor}:"]
        for n, stmt in enumerate(self.statements):
            lines.append(f"  {self.said(n)}: {stmt.commands or 'default schedule'}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Buckets of {show(self._split.written)}: {self.text}>"


class BucketKernel:
    """The kernels of all buckets, called as one.

    The rows of an operand are sorted into buckets at its first use, and that is kept as long as it
    lives. A bucket without a format reads the entries where they are. One with a format has a copy
    of its rows, as `A.to(...)` has: it does not see values that are changed in place later.
    """

    def __init__(
        self, buckets: Buckets, kernels: Sequence[Kernel], target: str, loader: Loader | None
    ) -> None:
        self._buckets, self._kernels = buckets, tuple(kernels)
        self._target, self._loader = target, loader
        chosen = buckets._split
        self._result = chosen.written.lhs.tensor.source
        self._operand = chosen.access.tensor.source
        self._whole = chosen.access.tensor.name
        self._others = [name for name in kernels[0]._templates if name != chosen.name]
        self._dense = chosen.written.lhs.tensor.format.is_dense
        self._merged: Kernel | None = None

    @property
    def source(self) -> str:
        """The sources of all buckets, one after the other."""
        sources = zip(self._kernels, range(len(self._kernels)), strict=True)
        return "\n".join(f"// {self._buckets.said(n)}\n{k.source}" for k, n in sources)

    def explain(self) -> str:
        """How the rows are taken apart, and what was chosen for each bucket."""
        lines = [
            f"statement: {show(self._buckets._split.written)}",
            f"in buckets, by the lengths of the rows of {self._whole}:",
        ]
        if self._buckets.decision:
            lines.insert(1, f"  {self._buckets.decision}")
        parts: Sequence[Any] = [None] * len(self._kernels)
        if self._operand is not None and self._operand._storage is not None:
            parts = self._buckets._partition.of(self._operand._storage)
        for n, (part, kernel) in enumerate(zip(parts, self._kernels, strict=True)):
            many = "" if part is None else f": {part.count:,} rows, {part.entries:,} entries"
            lines.append(f"{self._buckets.said(n)}{many}")
            lines += [f"  {line}" for line in kernel.explain().splitlines()]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<BucketKernel {show(self._buckets._split.written)}: {self._buckets.text}>"

    def __call__(self, /, *, out: Any = None, **operands: Any) -> Any:
        """Compute the result, as a kernel does.

        Raises:
            ShapeError: E202 if an argument does not fit what was compiled, E203 if one is missing
                or unknown, E201 if extents disagree.
        """
        buckets, own = self._split_rows(operands)
        if not self._dense:
            return self._merged_result(buckets, own, out)
        name = self._buckets._split.name
        made: Any = None
        if out is not None:  # operands may share its memory, and all buckets read them
            self._kernels[0]._check_out(out)
            made = type(self._result).of(out.storage.copy(), out.name)
        for n, (rows, kernel) in enumerate(zip(buckets, self._kernels, strict=True)):
            if n == 0 or rows.count:
                made = kernel(out=made, **{name: part_of(self._operand, rows.storage, name)}, **own)
        return made if out is None else _delivered(made.storage, out)

    def _split_rows(self, operands: Mapping[str, Any]) -> tuple[tuple[Bucket, ...], dict[str, Any]]:
        """The operand's buckets, and the other operands."""
        whole, name = self._operand, self._whole
        for given in operands:
            if given not in self._others and given != name:
                raise ShapeError(
                    f"the kernel has no operand {given}",
                    code="E203",
                    hint=f"its operands are {', '.join(dict.fromkeys((*self._others, name)))}",
                )
        if name in operands:
            whole = self._operand.__openwork_coerce__(operands[name])
        listed = self._buckets._split.listed
        own = {n: each for n, each in operands.items() if listed or n != name}
        return self._buckets._partition.of(whole.storage), own

    def _merged_result(self, buckets: Sequence[Bucket], own: Mapping[str, Any], out: Any) -> Any:
        """A sparse result: each bucket's, merged."""
        name = self._buckets._split.name
        parts = [
            kernel(**{name: part_of(self._operand, rows.storage, name)}, **own)
            for rows, kernel in zip(buckets, self._kernels, strict=True)
        ]
        chosen = self._buckets._split
        lhs = chosen.written.lhs
        names = [fresh_name(f"{lhs.tensor}_{n}", {lhs.tensor.name}) for n in range(len(parts))]
        if self._merged is None:
            rhs: Expr | None = None
            for called, part in zip(names, parts, strict=True):
                access = Access(replace(part.tensor_var, name=called), lhs.vars)
                rhs = access if rhs is None else Apply(chosen.combine, (rhs, access))
            assert rhs is not None  # noqa: S101 - there are at least two buckets
            merge = self._buckets._make(replace(chosen.written, rhs=rhs))
            self._merged = merge.compile(self._target, loader=self._loader)
        return self._merged(out=out, **dict(zip(names, parts, strict=True)))


def _delivered(storage: Any, out: Any) -> Any:
    """Put a dense result into the tensor given as `out`."""
    place = out.__openwork_place__()
    if isinstance(place.values, np.ndarray) and not place.values.flags.writeable:
        raise DataError(f"{out.name} is read-only", code="E505")
    place.values[...] = storage.values
    out.__openwork_store__(place)
    return out


def bucketed(
    assignment: Assignment,
    var: Any,
    by: str,
    bounds: Sequence[int],
    schedules: Sequence[str | None] | None,
    formats: Sequence[Any] | None,
    make: Make,
) -> Buckets:
    """The statements of an assignment by buckets; for the arguments see `Statement.bucket`.

    `make`: makes a statement of an assignment.
    """
    limits = _checked(by, bounds)
    count = len(limits) + 1
    texts = _each("schedules", schedules, count)
    named = [None if f is None else as_format(f) for f in _each("formats", formats, count)]
    loop = as_variable(var) or IndexVar(str(var))
    found = split(assignment, loop, any(f is not None for f in named))
    own = found.access.tensor
    wanted = tuple(None if f is None else format_of_rows(f) for f in named)
    partition = Partition(limits, wanted, found.listed)
    storage = getattr(own.source, "_arrays", None)
    kept = None if storage is None else partition.of(storage)
    statements = []
    for n, text in enumerate(texts):
        if kept is not None:
            source = part_of(own.source, kept[n].storage, found.name)
        else:
            format = ROWS if found.listed else wanted[n] or format_of_view(own.format)
            source = _blank(own, format, found)
        stmt = make(found.bucket(source, joins=n > 0 and own_result(found)))
        statements.append(stmt.schedule(text) if text else stmt)
    said = _said(loop, by, limits, texts, formats)
    return Buckets(tuple(statements), limits, said, found, partition, make)


def part_of(source: Any, storage: Storage, name: str) -> Any:
    """The operand `source` with some of its rows, or a list of these, under a name."""
    return source.__openwork_part__(name, storage.shape, facts_of(storage), storage)


def own_result(found: Split) -> bool:
    """Whether buckets write into one result, instead of each into its own."""
    return found.written.lhs.tensor.format.is_dense


def _blank(own: TensorVar, format: Any, found: Split) -> Any:
    """The operand of a bucket before there is data."""
    shape = own.shape if own.shape is not None else (None,) * own.format.ndim
    if found.listed:
        shape = (shape[own.format.order[0]],)
        return own.source.__openwork_part__(found.name, shape, facts_for(format, BOOL), None)
    facts = facts_for(format, own.dtype, own.fill)
    return own.source.__openwork_part__(found.name, shape, facts, None)


def _checked(by: str, bounds: Sequence[int]) -> tuple[int, ...]:
    """The bounds, if they are possible."""
    if by != "length":
        raise ScheduleError(f"rows cannot be sorted by {by!r}", code="E303", hint='by="length"')
    found = _whole_numbers(bounds)
    if not found or found[0] < 1 or list(found) != sorted(set(found)):
        raise ScheduleError(
            f"bounds={bounds!r} are not increasing positive numbers",
            code="E303",
            hint="bounds=(8, 64, 1024) gives four buckets",
        )
    return found


def _whole_numbers(given: object) -> tuple[int, ...]:
    """Python's or NumPy's integers as Python's; none if there is anything else."""
    if not isinstance(given, Iterable):
        return ()
    found = tuple(given)
    if any(isinstance(each, bool) or not isinstance(each, int | np.integer) for each in found):
        return ()
    return tuple(map(int, found))


def _each(what: str, given: Sequence[Any] | None, count: int) -> tuple[Any, ...]:
    """One for each bucket."""
    if given is None:
        return (None,) * count
    if isinstance(given, str) or len(given) != count:
        raise ScheduleError(
            f"{what}={given!r} has not one for each of {count} buckets",
            code="E303",
            hint=f"{what}=({', '.join(['None'] * count)})",
        )
    return tuple(given)


def _said(
    var: IndexVar,
    by: str,
    bounds: tuple[int, ...],
    schedules: Sequence[str | None],
    formats: Sequence[Any] | None,
) -> str:
    """The call as text."""
    text = f'bucket("{var}", by="{by}", bounds={bounds}'
    if any(schedules):
        text += f", schedules={tuple(s or None for s in schedules)}"
    if formats is not None and any(f is not None for f in formats):
        text += f", formats={tuple(None if f is None else str(f) for f in formats)}"
    return f"{text})"
