"""Concrete index notation: loops over index variables around assignments.

    S ::= forall i: S                        a loop; its tag says which hardware runs it
        | A[i, j] = e  |  A[i, j] op= e      an assignment, or an accumulation
        | S where S                          the second computes a temporary that the first reads
        | S ; S                              one after the other

Expressions are those of index notation without reductions: a reduction is a loop around an
accumulation.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from openwork.algebra.operators import Op
from openwork.index.nodes import Access, Expr, IndexVar, TensorVar
from openwork.index.show import show
from openwork.tree import Node


class ParallelUnit(Enum):
    """The hardware that runs the iterations of a loop."""

    CPUThread = "CPUThread"
    CPUVector = "CPUVector"


class OutputRaceStrategy(Enum):
    """How iterations that write to one place are kept apart."""

    NoRaces = "NoRaces"


@dataclass(frozen=True)
class Tag:
    """What runs a loop's iterations, and how their writes are kept apart."""

    unit: ParallelUnit
    race: OutputRaceStrategy


class Stmt(Node):
    """A statement of concrete index notation."""

    def __str__(self) -> str:
        return text(self)


@dataclass(frozen=True)
class Forall(Stmt):
    """`body` for every value of `var`."""

    var: IndexVar
    body: Stmt
    tag: Tag | None = None

    __str__ = Stmt.__str__


@dataclass(frozen=True)
class Assign(Stmt):
    """`lhs = rhs`, or `lhs op= rhs`."""

    lhs: Access
    rhs: Expr
    op: Op | None = None

    __str__ = Stmt.__str__


@dataclass(frozen=True)
class Where(Stmt):
    """`consumer` reads `temporary`, which `producer` has just computed from nothing.

    `guarded`: the producer may find no entry at all, and then the temporary is absent, which to the
    consumer is not the same as its identity.
    """

    consumer: Stmt
    producer: Stmt
    temporary: TensorVar
    guarded: bool = False

    __str__ = Stmt.__str__


@dataclass(frozen=True)
class Sequence(Stmt):
    """`first`, and then `then`."""

    first: Stmt
    then: Stmt

    __str__ = Stmt.__str__


def text(stmt: Stmt, indent: str = "") -> str:
    """The statement as a reader would write it, a loop a line."""
    match stmt:
        case Forall(var=var, body=body, tag=tag):
            note = "" if tag is None else f"  [{tag.unit.value}, {tag.race.value}]"
            return f"{indent}forall {var}:{note}\n{text(body, indent + '  ')}"
        case Assign(lhs=lhs, rhs=rhs, op=op):
            sign = "=" if op is None else f"{op.symbol or op.name}="
            return f"{indent}{show(lhs)} {sign} {show(rhs)}"
        case Where(consumer=consumer, producer=producer):
            return f"{text(consumer, indent)}\n{indent}where\n{text(producer, indent + '  ')}"
        case Sequence(first=first, then=then):
            return f"{text(first, indent)}\n{text(then, indent)}"
    return repr(stmt)


def written(stmt: Stmt) -> Access:
    """The access that `stmt` finally writes to, temporaries aside."""
    while not isinstance(stmt, Assign):
        match stmt:
            case Forall(body=body):
                stmt = body
            case Where(consumer=consumer):
                stmt = consumer
            case Sequence(then=then):
                stmt = then
    return stmt.lhs
