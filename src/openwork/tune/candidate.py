"""Candidates: formats of operands and a schedule, as text and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from openwork.index.nodes import TensorVar
from openwork.tensor.operand import Operand
from openwork.tensor.statement import Statement
from openwork.tree import Node, substitute, walk


@dataclass(frozen=True)
class Candidate:
    """A way to compute a statement.

    Args:
        schedule: its commands as text; "" is the default schedule.
        formats: operands that are converted before, each with its format as text.
        origin: which part of the space it comes from.

    >>> print(Candidate("split(i,i0,i1,8)", (("A", "SELL(32)"),)).text)
    A = A.to("SELL(32)")
    stmt = stmt.schedule("split(i,i0,i1,8)")
    """

    schedule: str = ""
    formats: tuple[tuple[str, str], ...] = ()
    origin: str = field(default="default", compare=False)

    @property
    def text(self) -> str:
        """Lines of Python that do the same: convert first, write the statement, schedule it."""
        lines = [f'{name} = {name}.to("{format}")' for name, format in self.formats]
        if self.schedule:
            lines.append(f'stmt = stmt.schedule("{self.schedule}")')
        return "\n".join(lines)

    def __str__(self) -> str:
        formats = [f"{name}: {format}" for name, format in self.formats]
        return "; ".join([*formats, self.schedule or "default schedule"])

    def applied(self, stmt: Statement, operands: Mapping[str, Operand]) -> Statement:
        """`stmt` with this schedule, over `operands` in place of those that are converted.

        Raises:
            ScheduleError: the schedule does not fit the statement.
        """
        made = with_operands(stmt, {name: operands[name] for name, _ in self.formats})
        return made.schedule(self.schedule) if self.schedule else made


def operands_of(stmt: Statement) -> dict[str, Operand]:
    """The tensors on the right of a statement, by name."""
    found = (node for node in walk(stmt.assignment.rhs) if isinstance(node, TensorVar))
    return {var.name: var.source for var in found if isinstance(var.source, Operand)}


def with_operands(stmt: Statement, changed: Mapping[str, Operand]) -> Statement:
    """The statement, without its schedule, over other tensors of the same names."""
    if not changed:
        return Statement(stmt.assignment)
    rhs = stmt.assignment.rhs
    table: dict[Node, Node] = {
        var: replace(changed[var.name].tensor_var, name=var.name)
        for var in walk(rhs)
        if isinstance(var, TensorVar) and var.name in changed
    }
    return Statement(replace(stmt.assignment, rhs=substitute(rhs, table)))
