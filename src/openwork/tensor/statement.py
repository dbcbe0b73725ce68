"""Statements: index notation over tensors, to be inspected, scheduled and compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, NoReturn, overload

from openwork.algebra.operators import Op, Semiring
from openwork.errors import ParseError, ScheduleError, ShapeError, UserError
from openwork.format.formats import Format, as_format
from openwork.index.checks import check, extents
from openwork.index.nodes import Access, Assignment, TensorVar
from openwork.index.parse import parse_assignment
from openwork.index.semiring import semiring_named, under
from openwork.index.terms import as_expr
from openwork.loops.nodes import Stmt
from openwork.loops.plan.plan import Plan
from openwork.loops.schedule.command import Command
from openwork.loops.schedule.draft import Draft
from openwork.loops.schedule.legality.gpu import check_for_cpu, check_for_gpu
from openwork.loops.schedule.schedulable import Schedulable
from openwork.pipeline import scheduled_for_cpu, scheduled_for_gpu, started
from openwork.program.device.deterministic import check_exact
from openwork.recipes.choose import suggested
from openwork.runtime.storage import Storage
from openwork.tensor.buckets.buckets import BucketKernel, Buckets, bucketed
from openwork.tensor.buckets.choice import BucketChoice
from openwork.tensor.contraction.blas import matrix_product
from openwork.tensor.contraction.kernel import Stepwise
from openwork.tensor.contraction.steps import Cutting
from openwork.tensor.draw.html import statement_html
from openwork.tensor.exchange.facts import facts_of
from openwork.tensor.kernel.kernel import Kernel, R
from openwork.tensor.kernel.machine import this_cpu
from openwork.tensor.kernel.promises import bounds_hold, has_bounds, ignores_races
from openwork.tensor.kernel.target import Loader, Target
from openwork.tensor.kernel.targets import find_target
from openwork.tensor.learnt import Signature, compared_schedules, said_of
from openwork.tensor.measure import entries_of, runs_of, statistics_of, stored_in
from openwork.tensor.operand import Operand
from openwork.tensor.result_format import (
    inferred,
    result_format,
    said_of_result,
    undeclared_result,
)
from openwork.tensor.transposes import Turning
from openwork.trace import Trace
from openwork.tree import substitute, walk

# What is asked of a statement that its kernel or its result has, and other compilers' commands.
_ELSEWHERE = {
    **dict.fromkeys(("run", "compute", "evaluate", "result"), "stmt.compile()()"),
    **dict.fromkeys(("to_numpy", "numpy"), "stmt.compile()().to_numpy()"),
    **dict.fromkeys(("kernel", "build"), "stmt.compile()"),
    "source": "stmt.compile().source",
    "explain": "stmt.compile().explain()",
    "symbolic": "stmt.compile().symbolic()",
    **dict.fromkeys(("shape", "dtype", "format"), "stmt.compile()(), whose facts these are"),
    "tile": "stmt.split(i, i0, i1, 4).split(j, j0, j1, 4).reorder(i0, j0, i1, j1)",
    "vectorize": 'stmt.parallelize(j, "CPUVector", "NoRaces")',
    "parallel": 'stmt.parallelize(i, "CPUThread", "NoRaces")',
}


class Statement(Schedulable, Generic[R]):
    """What to compute: an assignment over tensors, and how: a schedule. Immutable.

    `told`: what `explain()` says about the assignment.
    """

    def __init__(
        self, assignment: Assignment, scheduled: Draft | None = None, told: str = ""
    ) -> None:
        self._assignment, self._given, self._told = assignment, scheduled, told

    @property
    def assignment(self) -> Assignment:
        """The assignment as it was written."""
        return self._assignment

    @cached_property
    def _draft(self) -> Draft:
        """The loops that the next command transforms."""
        if self._given is not None:
            return self._given
        start = started(self._assignment, entries_of(self._assignment))
        if not self._told:
            return start
        return replace(start, decisions=(self._told, *start.decisions))

    @property
    def _base(self) -> Plan:
        return self._draft.plan

    def _scheduled(self, command: Command) -> Statement[R]:
        return Statement(self._assignment, self._draft._scheduled(command), self._told)

    @property
    def _commands(self) -> tuple[Command, ...]:
        return () if self._given is None else self._given.commands

    @cached_property
    def _planned(self) -> Draft:
        """The scheduled loops for a CPU."""
        return scheduled_for_cpu(self._draft, this_cpu(), runs_of(self._assignment))

    def _planned_for(self, target: Target, exact: bool) -> Draft:
        """The loops for a target; `exact`: a default schedule without atomics."""
        if target.gpu:
            if self._given is not None:
                plain = Statement(self._assignment)
                check_for_gpu(self._given.plan, lambda: suggested(plain))
            return scheduled_for_gpu(
                self._draft, statistics_of(self._assignment), target.table, exact
            )
        check_for_cpu(self._planned.plan)
        return self._planned

    @property
    def commands(self) -> str:
        """The schedule as text; `schedule` reads it back."""
        return ", ".join(map(str, self._commands))

    def default_schedule(self, target: str = "cpu") -> str:
        """The default schedule as text, to read and to start from; `schedule` takes it.

        Scheduled by this text, the statement has the same loops and the same kernel as without a
        schedule. Three things differ. The default keeps a fallback for data that breaks its bounds,
        while a bound of yours is a promise. It is chosen anew for other data, while a text stays.
        And conversions of operands by which a GPU assembles a result row by row have no command:
        then the text is empty, as it is where the default changes nothing.

        >>> import openwork as ow
        >>> A, B = ow.placeholder("A", order=2, format=ow.CSR), ow.placeholder("B", order=2)
        >>> spmm = ow.parse("C(i,k) = A(i,j) * B(j,k)", C=ow.empty((9, 5)), A=A, B=B)
        >>> spmm.default_schedule()
        'parallelize(i,CPUThread,NoRaces)'

        Raises:
            ToolchainError: E606 for a target that does not exist.
        """
        chosen, plain = find_target(target), Statement(self._assignment)
        draft = plain._planned_for(chosen, exact=False)
        text = ", ".join(map(str, draft.commands))
        with suppress(ScheduleError):
            if plain.schedule(text)._planned_for(chosen, exact=False).plan == draft.plan:
                return text
        return ""

    @property
    def loops(self) -> Stmt:
        """The loop nest that computes the statement; print it to read it."""
        return self._planned.plan.loops

    @overload
    def compile(
        self,
        target: str = "cpu",
        *,
        deterministic: bool = False,
        tune: None = None,
        optimize: bool = True,
        loader: Loader | None = None,
    ) -> Kernel[R]: ...

    @overload
    def compile(
        self,
        target: str = "cpu",
        *,
        deterministic: bool = False,
        tune: str,
        optimize: bool = True,
        loader: Loader | None = None,
    ) -> Kernel[R] | BucketKernel: ...

    def compile(
        self,
        target: str = "cpu",
        *,
        deterministic: bool = False,
        tune: str | None = None,
        optimize: bool = True,
        loader: Loader | None = None,
    ) -> Kernel[R] | BucketKernel:
        """Compile the statement for a target.

        `optimize`: a product of several operands without a schedule is cut into steps where these
        are estimated to be faster, and dense matrices are multiplied by BLAS; False keeps one
        kernel. `explain()` says which.

        `tune`: `"recorded"` takes the schedule, or the buckets of rows, that `ow.tune.search` found
        for operands like these in the same formats, and the default if there is none. It measures
        nothing and converts nothing.

        `deterministic`: results are bit-reproducible for a fixed thread count. CPU kernels are by
        default; on a GPU, schedules without atomics are then chosen.

        `loader` turns the source of a kernel into a function; only code that compiles many kernels
        together needs another than the target's own.

        Raises:
            ToolchainError: E606 for a target that does not exist.
            ScheduleError: E317 if the schedule has atomics, but `deterministic` is set; E303 for
                another `tune`.
        """
        chosen = find_target(target)
        if tune is not None:
            recorded = self._recorded(chosen, tune, deterministic)
            try:
                return recorded.compile(target, deterministic=deterministic, loader=loader)
            except ScheduleError:  # it has atomics, perhaps
                return self.compile(target, deterministic=deterministic, loader=loader)
        if optimize and self._given is None and loader is None:
            return self._compiled(target, deterministic, stored_in(self._assignment))
        return self._one_kernel(chosen, deterministic, loader)

    def _compiled(
        self, target: str, deterministic: bool, stored: Mapping[str, Storage]
    ) -> Kernel[R]:
        """The kernel, in steps where that is faster; `stored`: the operands' data, by name."""
        chosen = find_target(target)
        check(self._assignment)
        steps = Cutting(self._assignment, stored, result_format, Operand).steps()
        if steps is None:
            return self._one_kernel(chosen, deterministic, None, shortcut=True)
        *before, last = [
            (each.lhs.tensor.name, Statement(each)._one_kernel(chosen, deterministic, None, True))
            for each in steps.assignments
        ]
        one = partial(self._one_kernel, chosen, deterministic, None)
        told = (*([self._told] if self._told else []), *steps.decisions)
        made = Stepwise(self._assignment, told, before, last[1], one)
        made._origin = (_recompiled, (self, target, deterministic, None))
        return made

    def _one_kernel(
        self, chosen: Target, deterministic: bool, loader: Loader | None, shortcut: bool = False
    ) -> Kernel[R]:
        """The kernel of the statement; `shortcut`: BLAS may take its place."""
        draft = self._planned_for(chosen, deterministic)
        plan, trace = draft.whole, Trace.after(draft.stages, draft.decisions)
        sources = {
            var.name: var.source for var in walk(self._assignment) if isinstance(var, TensorVar)
        }
        for name, source in sources.items():
            if source is None:
                raise ShapeError(f"{name} is not backed by a tensor", code="E203")
        result = sources.pop(plan.user_result.name)
        turning = None
        if plan.kept:
            compiled = partial(self._turned, plan.kept, chosen.name, loader)
            turning = Turning(plan.kept, sources, compiled, trace.decide)
        by_blas = None
        if shortcut and not deterministic:
            by_blas = matrix_product(self._assignment, tuple(sources))
            if by_blas is not None:
                trace.decide("matrices that are neither small nor thin are multiplied by BLAS")
        made = Kernel(plan, trace, sources, result, chosen, loader, turning, by_blas)
        if deterministic:
            check_exact(plan, made._launcher.compiled.bodies)
            trace.decide("deterministic: no atomic updates")
        made._origin = (_recompiled, (self, chosen.name, deterministic, loader, shortcut))
        return made

    def bucket(
        self,
        i: Any,
        by: str = "length",
        bounds: Sequence[int] = (8, 64, 1024),
        *,
        schedules: Sequence[str | None] | None = None,
        formats: Sequence[Any] | None = None,
    ) -> Buckets:
        """Compute the rows along `i` in buckets, by how many entries they have.

        Each bucket is a statement with a schedule of its own, and perhaps a format: short rows need
        another kernel than long ones. All write to one result. Rows are sorted into buckets once
        per operand, and entries stay where they are unless a format is given.

        Args:
            i: a variable of the result, which the first level of a sparse operand stores.
            by: `"length"`: the entries of a row of that operand.
            bounds: the longest row of each bucket; one more has the rest.
            schedules: of each bucket, as text; None is the default schedule.
            formats: of each bucket's rows; None leaves them where they are. A copy, as `A.to` makes
                one. Where the first level is dense, only rows of the bucket are stored.

        Raises:
            ScheduleError: E316 if rows cannot be computed apart; E303 for other arguments.

        Example:
            >>> import numpy as np, openwork as ow
            >>> A = ow.tensor(np.tri(100), format="CSR", name="A")
            >>> stmt = ow.parse("y(i) = A(i,j) * x(j)",
            ...     y=ow.empty(100), A=A, x=ow.tensor(np.ones(100), name="x"))
            >>> rows = stmt.bucket("i", bounds=(10, 50), schedules=(None, None, "reorder(i,j)"))
            >>> print(rows)
            y(i) = sum(j, A(i,j) * x(j)), by the rows of A:
              rows of up to 10 entries: default schedule
              rows of up to 50 entries: default schedule
              rows of more than 50 entries: reorder(i,j)
            >>> bool((rows.compile()().to_numpy() == np.arange(1, 101)).all())
            True
        """
        if self._given is not None:
            raise ScheduleError(
                "a schedule cannot be taken apart into buckets",
                code="E303",
                hint="statement.bucket(i, schedules=(...)) has one for each bucket",
            )
        return bucketed(self._assignment, i, by, bounds, schedules, formats, Statement)

    def _recorded(self, target: Target, tune: str, exact: bool) -> Statement | Buckets:
        """The statement as a record has it; itself where there is none that fits.

        A record may come from strangers: a schedule that is right only if a promise holds is not
        taken. Data of other extents, for which a bound does not hold, falls back to the default.
        """
        if tune != "recorded":
            raise ScheduleError(
                f"tune={tune!r} is not known",
                code="E303",
                hint='tune="recorded"; ow.tune.search(statement) measures',
            )
        if self._given is not None:
            return self
        signature = Signature.of(self._assignment, statistics_of(self._assignment))
        for far, record in signature.nearest(target.machine):
            if record.formats:
                continue
            text, said = signature.own(record.schedule), said_of(record, far)
            if not text:
                if not compared_schedules(record):
                    continue
                return Statement(self._assignment, told=said)
            with suppress(ScheduleError):
                chosen = BucketChoice.read(text)
                if chosen is None:
                    draft = self.schedule(text)._draft
                    if ignores_races(draft.plan):
                        continue
                    if has_bounds(draft.plan):
                        if not bounds_hold(draft.plan, extents(self._assignment)):
                            continue
                        draft = replace(draft, otherwise=self._planned_for(target, exact))
                    return Statement(self._assignment, draft.said(said))
                if chosen.formats is None:
                    made = self.bucket(chosen.var, bounds=chosen.bounds)
                    return replace(made, decision=said)
        return self

    def _turned(self, name: str, target: str, loader: Loader | None, storage: Storage) -> Kernel:
        """The kernel of the statement with another storage of the operand `name`."""
        operand = Operand(name, storage.shape, facts_of(storage), storage)
        old = next(n for n in walk(self._assignment) if isinstance(n, TensorVar) and n.name == name)
        turned = replace(operand.tensor_var, fill=old.fill)  # a semiring's zero is the statement's
        rhs = substitute(self._assignment.rhs, {old: turned})
        made = Statement(replace(self._assignment, rhs=rhs)).compile(target, loader=loader)
        operand._storage = None  # calls pass the data
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        assignment = self._assignment
        result = assignment.lhs.tensor
        if result.source is not None:
            blank = result.source.__openwork_blank__(assignment)
            lhs = replace(assignment.lhs, tensor=replace(result, source=blank))
            assignment = replace(assignment, lhs=lhs)
        return _rescheduled, (assignment, self._commands, self._told)

    def __copy__(self) -> Statement:
        return self  # immutable

    def __repr__(self) -> str:
        return f"<Statement {self}>"

    def _repr_html_(self) -> str:
        """The loops, a colour for each, for notebooks."""
        try:
            loops = str(self.loops)
        except UserError as error:  # displaying a statement never raises
            loops = str(error)
        return statement_html(str(self), loops, self.commands)

    # Textbook wrong calls

    def __call__(self, *args: object, **operands: object) -> NoReturn:
        raise ParseError(
            "a statement is not called: it says what to compute",
            code="E112",
            hint="stmt.compile()(...) computes it, ow.compute(text, A=A, ...) does both at once",
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            tail = f"; write {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
            raise AttributeError(f"a Statement has no attribute {name!r}{tail}")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Statement)
            and self._assignment == other._assignment
            and self._commands == other._commands
        )

    def __hash__(self) -> int:
        return hash((self._assignment, self._commands))


def _rescheduled(
    assignment: Assignment, commands: tuple[Command, ...], told: str = ""
) -> Statement:
    """Unpickle a statement."""
    stmt = Statement(assignment, told=told)
    for command in commands:
        stmt = stmt._scheduled(command)
    return stmt


def _recompiled(
    stmt: Statement,
    target: str,
    deterministic: bool,
    loader: Loader | None,
    optimize: bool = True,
) -> Kernel:
    """Unpickle a kernel; its code is in the cache."""
    return stmt.compile(target, deterministic=deterministic, optimize=optimize, loader=loader)


def assign(
    lhs: object, rhs: object, op: Op | None = None, *, semiring: Semiring | str | None = None
) -> Statement:
    """The statement `lhs = rhs`, or `lhs op= rhs`.

    Args:
        lhs: an access to the result, such as `y[i]`, or a scalar tensor itself.
        rhs: an expression; a variable that occurs only here is summed over.
        op: an operator to combine the result's old entries with, such as `ow.ADD`.
        semiring: what `+` and `*` mean, such as `"min_plus"`.
    """
    result = as_expr(lhs)
    if not isinstance(result, Access):
        raise ParseError("the left-hand side is not an access to a tensor", code="E107")
    if op is not None and not isinstance(op, Op):
        raise ParseError(f"{op!r} is not an operator", code="E111", hint="such as ow.ADD")
    return Statement(_with_semiring(Assignment(result, as_expr(rhs), op), semiring))


def by_name(function: str, text: str) -> ParseError:
    """The error of operands without names."""
    return ParseError(
        "operands of a statement go by the names that its text has for them",
        code="E103",
        hint=f"ow.{function}({text!r}, A=A, x=x)"
        + (f", or ow.einsum({text!r}, A, x)" if "->" in str(text) else ""),
    )


def parse(
    text: str,
    /,
    *unnamed: Any,
    semiring: Semiring | str | None = None,
    format: Format | str | None = None,
    **names: Any,
) -> Statement:
    """Parse a statement in index notation.

    Args:
        text: for example `"y(i) = A(i,j) * x(j)"`.
        semiring: what `+` and `*` mean, such as `"min_plus"`.
        format: of a result that is not among `names`; by default it follows from the operands, as
            its shape and element type do.
        **names: the tensors, and your own operators, by their names in the text.

    Raises:
        ParseError: E101 to E104, each with a caret under the fault.

    >>> import openwork as ow
    >>> A = ow.placeholder("A", order=2, format=ow.CSR)
    >>> parse("C(i,k) = A(i,j) * A(j,k)", A=A).assignment.lhs.tensor.format
    ow.CSR
    """
    if unnamed:
        raise by_name("parse", text)
    if not isinstance(text, str):
        raise ParseError(
            f"{text!r} is not a string", code="E101", hint='ow.parse("y(i) = x(i)", ...)'
        )
    operators = {name: value for name, value in names.items() if isinstance(value, Op)}
    tensors = {
        name: _renamed(value, name) for name, value in names.items() if name not in operators
    }
    undeclared = undeclared_result(text, names)
    if undeclared is not None:
        tensors[undeclared.name] = undeclared
    assignment = _with_semiring(parse_assignment(text, tensors, operators), semiring)
    if undeclared is None:
        return Statement(assignment)
    zero = None if semiring is None else semiring_named(semiring).zero
    wanted = None if format is None else as_format(format)
    maker = next((type(t.source) for t in tensors.values() if t.source is not None), Operand)
    assignment = inferred(assignment, zero, wanted, maker)
    return Statement(assignment, told=said_of_result(assignment, wanted is not None))


def _renamed(tensor: Any, name: str) -> TensorVar:
    """A tensor under its name in the text."""
    var = getattr(tensor, "tensor_var", None)
    if not isinstance(var, TensorVar):
        raise ParseError(
            f"{name} is a {type(tensor).__name__}, not a tensor",
            code="E112",
            hint=f"wrap it: {name}=ow.tensor(...)",
        )
    return TensorVar(name, var.format, var.dtype, var.fill, var.shape, var.source)


def _with_semiring(assignment: Assignment, semiring: Semiring | str | None) -> Assignment:
    return assignment if semiring is None else under(semiring_named(semiring), assignment)
