"""Concrete index notation: loops over index variables around assignments.

    S ::= forall i: S                        a loop; its tag says which hardware runs it
        | A[i, j] = e  |  A[i, j] op= e      an assignment, or an accumulation
        | S where S                          the second computes a temporary that the first reads
        | S ; S                              one after the other
        | S such that r, ...                 the loops of S derive from the tensors' variables by r

Expressions are those of index notation without reductions: a reduction is a loop around an
accumulation.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from openwork.algebra.operators import Op
from openwork.index.nodes import Access, Expr, IndexVar, TensorVar
from openwork.index.show import show
from openwork.loops.relations import Relation
from openwork.tree import Node


class ParallelUnit(Enum):
    """The hardware that runs the iterations of a loop."""

    CPUThread = "CPUThread"
    CPUVector = "CPUVector"
    GPUBlock = "GPUBlock"
    GPUWarp = "GPUWarp"
    GPUThread = "GPUThread"
    GPUGroup = "GPUGroup"

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU has it."""
        return self not in (ParallelUnit.CPUThread, ParallelUnit.CPUVector)


class OutputRaceStrategy(Enum):
    """How iterations that write to one place are kept apart.

    `NoRaces`: it is proven that none do. `Atomics`: each such write is indivisible. `Temporary`:
    every thread writes to an array of its own, and these are combined in order.
    `ParallelReduction`: the sums of threads or lanes are combined. `IgnoreRaces`: the user knows
    that none do.
    """

    NoRaces = "NoRaces"
    Atomics = "Atomics"
    Temporary = "Temporary"
    ParallelReduction = "ParallelReduction"
    IgnoreRaces = "IgnoreRaces"


@dataclass(frozen=True)
class Tag:
    """What runs a loop's iterations, and how their writes are kept apart.

    `chunk`: threads take so many iterations at a time, whoever is free; None: equal parts.
    `group_size`: so many neighbouring threads of a GPU combine what they write, by a `reduction`
    that is "parallel", to one entry, or "segment", to one for each run of threads that share it.
    `resident`: so many threads are to fit a multiprocessor of a GPU; the fewer, the more registers
    each of them may have.
    """

    unit: ParallelUnit
    race: OutputRaceStrategy
    chunk: int | None = None
    group_size: int | None = None
    reduction: str | None = None
    resident: int | None = None

    def __str__(self) -> str:
        if self.group_size is not None:
            return f"{self.unit.value} of {self.group_size}, {self.reduction} reduction"
        more = "" if self.chunk is None else f", {self.chunk} at a time"
        more += "" if self.resident is None else f", {self.resident} threads resident"
        return f"{self.unit.value}, {self.race.value}{more}"


@dataclass(frozen=True)
class Ahead(Node):
    """Ask for `access` as it will be `distance` iterations later."""

    access: Access
    distance: int


class Stmt(Node):
    """A statement of concrete index notation."""

    def __str__(self) -> str:
        return text(self)


@dataclass(frozen=True)
class Forall(Stmt):
    """`body` for every value of `var`.

    `unroll`: so many iterations are written out, all of them for 0; None: as the compiler likes.
    `merge`: how operands that must meet find each other, "two_finger" or "gallop".
    """

    var: IndexVar
    body: Stmt
    tag: Tag | None = None
    unroll: int | None = None
    merge: str = "two_finger"
    ahead: tuple[Ahead, ...] = ()

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
    consumer is not the same as its identity. `swept`: what the consumer has read it resets, so that
    all is at the identity again for the next producer.
    """

    consumer: Stmt
    producer: Stmt
    temporary: TensorVar
    guarded: bool = False
    swept: bool = False

    __str__ = Stmt.__str__


@dataclass(frozen=True)
class Sequence(Stmt):
    """`first`, and then `then`."""

    first: Stmt
    then: Stmt

    __str__ = Stmt.__str__


@dataclass(frozen=True)
class SuchThat(Stmt):
    """`body`, whose loop variables derive by `relations` from those that tensors are indexed by."""

    body: Stmt
    relations: tuple[Relation, ...]

    __str__ = Stmt.__str__


def text(stmt: Stmt, indent: str = "") -> str:
    """The statement as a reader would write it, a loop a line."""
    match stmt:
        case Forall(var=var, body=body):
            return f"{indent}forall {var}:{_notes(stmt)}\n{text(body, indent + '  ')}"
        case SuchThat(body=body, relations=relations):
            such = f"\n{indent}such that "
            return text(body, indent) + such + f",\n{indent}  ".join(map(str, relations))
        case Assign(lhs=lhs, rhs=rhs, op=op):
            sign = "=" if op is None else f"{op.symbol or op.name}="
            return f"{indent}{show(lhs)} {sign} {show(rhs)}"
        case Where(consumer=consumer, producer=producer):
            return f"{text(consumer, indent)}\n{indent}where\n{text(producer, indent + '  ')}"
        case Sequence(first=first, then=then):
            return f"{text(first, indent)}\n{text(then, indent)}"
    return repr(stmt)


def _notes(loop: Forall) -> str:
    """What a loop's tags say, for the reader."""
    notes = [] if loop.tag is None else [str(loop.tag)]
    if loop.unroll is not None:
        notes.append(f"unroll {loop.unroll}" if loop.unroll else "unroll")
    if loop.merge != "two_finger":
        notes.append(loop.merge)
    notes += [f"prefetch {a.access} {a.distance} ahead" for a in loop.ahead]
    return f"  [{'; '.join(notes)}]" if notes else ""


def relations_of(stmt: Stmt) -> tuple[Relation, ...]:
    """The relations that the variables of `stmt` derive by."""
    return stmt.relations if isinstance(stmt, SuchThat) else ()


def nest_of(stmt: Stmt) -> Stmt:
    """The loops of `stmt` without its relations."""
    return stmt.body if isinstance(stmt, SuchThat) else stmt


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
            case SuchThat(body=body):
                stmt = body
    return stmt.lhs
