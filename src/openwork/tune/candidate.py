"""Candidates: formats of operands and a schedule, as text and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from openwork.frozen import frozen
from openwork.index.nodes import TensorVar
from openwork.tensor.buckets.choice import BucketChoice
from openwork.tensor.operand import Operand
from openwork.tensor.statement import Statement
from openwork.tree import Node, substitute, walk

COPY = "copy"  # in place of a format: a copy, which begins at a cache line


@frozen
class Candidate:
    """A way to compute a statement.

    Args:
        schedule: its commands as text; "" is the default schedule. Or `bucket(i,8=ELL,64)`: rows in
            buckets of these lengths, the first in a format of its own.
        formats: operands that are converted before, each with its format as text, or `COPY`.
        origin: which part of the space it comes from.
        bytes: what its formats take, if that is known.

    >>> print(Candidate("split(i,i0,i1,8)", (("A", "SELL(32)"),)).text)
    A = A.to("SELL(32)")
    stmt = stmt.schedule("split(i,i0,i1,8)")
    """

    schedule: str = ""
    formats: tuple[tuple[str, str], ...] = ()
    origin: str = field(default="default", compare=False)
    bytes: float = field(default=0.0, compare=False)

    @property
    def text(self) -> str:
        """Lines of Python that do the same: convert first, write the statement, schedule it."""
        lines = [
            f"{name} = {name}.copy()" if format == COPY else f'{name} = {name}.to("{format}")'
            for name, format in self.formats
        ]
        if self.buckets is not None:
            lines.append(f"stmt = stmt.{self.buckets.call}")
        elif self.schedule:
            lines.append(f'stmt = stmt.schedule("{self.schedule}")')
        return "\n".join(lines)

    def __str__(self) -> str:
        formats = [f"{name}: {format}" for name, format in self.formats]
        return "; ".join([*formats, self.schedule or "default schedule"])

    @property
    def buckets(self) -> BucketChoice | None:
        """How rows are put into buckets, if they are."""
        return BucketChoice.read(self.schedule)

    @property
    def converts(self) -> bool:
        """Whether operands, or some of their rows, are stored anew."""
        return bool(self.formats) or (self.buckets is not None and self.buckets.formats is not None)

    def applied(self, stmt: Statement, operands: Mapping[str, Operand]) -> Any:
        """`stmt` with this schedule, over `operands` in place of those that are converted.

        Raises:
            ScheduleError: the schedule does not fit the statement.
        """
        made = with_operands(stmt, {name: operands[name] for name, _ in self.formats})
        chosen = self.buckets
        if chosen is not None:
            return made.bucket(chosen.var, bounds=chosen.bounds, formats=chosen.formats)
        return made.schedule(self.schedule) if self.schedule else made


def operands_of(stmt: Statement) -> dict[str, Operand]:
    """The tensors on the right of a statement, by name."""
    found = (node for node in walk(stmt.assignment.rhs) if isinstance(node, TensorVar))
    return {var.name: var.source for var in found if isinstance(var.source, Operand)}


def with_operands(stmt: Statement, changed: Mapping[str, Operand]) -> Statement:
    """The statement, without its schedule, over other tensors of the same names.

    What absent entries stand for is the statement's: in a semiring, its zero.
    """
    if not changed:
        return Statement(stmt.assignment)
    rhs, lhs = stmt.assignment.rhs, stmt.assignment.lhs

    def other(var: TensorVar) -> TensorVar:
        return replace(changed[var.name].tensor_var, name=var.name, fill=var.fill)

    table: dict[Node, Node] = {
        var: other(var) for var in walk(rhs) if isinstance(var, TensorVar) and var.name in changed
    }
    if lhs.tensor.name in changed:
        lhs = replace(lhs, tensor=other(lhs.tensor))
    return Statement(replace(stmt.assignment, lhs=lhs, rhs=substitute(rhs, table)))
