"""An assignment as one for each bucket of rows: each computes its rows of the result.

Where a result entry without the operand is absent, such as in `y(i) = A(i,j) * x(j)`, the operand
is replaced by the rows of the bucket. Elsewhere, such as in `y(i) = A(i,j) * x(j) + b(i)`, a list
of the rows selects what is computed: `y(i) = select(rows(i), A(i,j) * x(j) + b(i), 0)`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from openwork.algebra.operators import ADD, MAX, MIN, SELECT, Op
from openwork.algebra.types import BOOL, Number, number
from openwork.errors import ScheduleError
from openwork.frozen import frozen
from openwork.index.absence import without
from openwork.index.checks import check
from openwork.index.einstein import explicit
from openwork.index.nodes import Absent, Access, Apply, Assignment, IndexVar, Literal, TensorVar
from openwork.index.show import show
from openwork.loops.fresh import fresh_name
from openwork.loops.plan.assembly import accesses_of
from openwork.tensor.buckets.rows import ROWS, has_lengths
from openwork.tree import substitute, walk


@frozen
class Split:
    """How an assignment is split.

    Args:
        written: the assignment, with sums written out.
        access: to the operand whose rows are taken apart.
        name: of the operand that differs between buckets: this one, or the list of rows.
        combine: the operator by which a bucket joins its rows to those before.
        neutral: what other rows contribute.
        listed: rows are selected by a list.
    """

    written: Assignment
    access: Access
    name: str
    combine: Op
    neutral: Number
    listed: bool

    def bucket(self, source: Any, joins: bool) -> Assignment:
        """The assignment of a bucket.

        Args:
            source: the operand that differs.
            joins: whether it adds to a result, instead of beginning it.
        """
        rhs, old = self.written.rhs, self.access.tensor
        if self.listed:
            shape = None if old.shape is None else (old.shape[old.format.order[0]],)
            rows = TensorVar(self.name, ROWS, BOOL, shape=shape, source=source)
            chosen = Access(rows, self.access.level_vars[:1])
            rhs = Apply(SELECT, (chosen, rhs, Literal(self.neutral, self.written.lhs.dtype)))
        else:
            mine = replace(old, format=source.format, source=source)
            rhs = substitute(rhs, {old: mine})
        op = self.combine if joins or self.written.op is not None else None
        return replace(self.written, rhs=rhs, op=op)


def split(assignment: Assignment, var: IndexVar, formatted: bool) -> Split:
    """How to compute an assignment by buckets of the rows that `var` runs over.

    `formatted`: buckets are stored in formats of their own.

    Raises:
        ScheduleError: E316 if no operand has rows along `var`, if they are not rows of the result,
            or if a bucket cannot be computed by itself.
    """
    written = explicit(check(assignment))
    access = _with_rows(written, var)
    uses = [n for n in walk(written.rhs) if isinstance(n, Access) and n.tensor == access.tensor]
    alone = len(uses) == 1
    left = without(written.rhs, {access}) if alone else written.rhs
    dtype = written.lhs.dtype
    if written.op is not None:
        combine = written.op
        if combine.identity is None:
            raise _cannot(written, f"{combine} has no identity, which other rows would add")
        neutral = number(combine.identity, dtype)
    else:
        neutral = number(left.value, dtype) if isinstance(left, Absent) else number(0, dtype)
        found = [op for op in (ADD, MIN, MAX) if number(op.identity or 0, dtype) == neutral]
        if not found:
            raise _cannot(written, f"rows without entries are {neutral}")
        combine = found[0]
    if isinstance(left, Absent) and number(left.value, dtype) == neutral:
        return Split(written, access, access.tensor.name, combine, neutral, listed=False)
    if formatted:
        raise _cannot(
            written,
            f"{access.tensor} is not all that a row needs, so its rows cannot be stored apart",
        )
    taken = {n.name for n in walk(written) if isinstance(n, TensorVar | IndexVar)}
    name = fresh_name("rows", taken)
    return Split(written, access, name, combine, neutral, listed=True)


def _with_rows(written: Assignment, var: IndexVar) -> Access:
    """The first operand with rows along a variable."""
    if var not in written.lhs.vars:
        raise _cannot(written, f"{var} is not a variable of the result")
    for access in accesses_of(written.rhs):
        if access.level_vars[:1] == (var,) and has_lengths(access.tensor.format):
            return access
    raise _cannot(
        written,
        f"no operand stores the entries of each {var} as a run",
        'such as compressed rows: A = A.to("CSR")',
    )


def _cannot(written: Assignment, why: str, hint: str | None = None) -> ScheduleError:
    return ScheduleError(
        f"{show(written)} cannot be computed by buckets of rows: {why}",
        code="E316",
        hint=hint or "schedule the statement as a whole",
    )
