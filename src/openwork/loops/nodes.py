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

from enum import Enum

from openwork.algebra.operators import Op
from openwork.frozen import frozen
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
        """Whether it is a unit of a GPU."""
        return self not in (ParallelUnit.CPUThread, ParallelUnit.CPUVector)


class OutputRaceStrategy(Enum):
    """How races are avoided between iterations that write to the same entry.

    `NoRaces`: it is proven that none do. `Atomics`: such writes are atomic. `Temporary`: every
    thread writes to a private copy, and the copies are combined in order. `ParallelReduction`: the
    partial sums of threads or lanes are reduced. `IgnoreRaces`: the user promises that none do.
    """

    NoRaces = "NoRaces"
    Atomics = "Atomics"
    Temporary = "Temporary"
    ParallelReduction = "ParallelReduction"
    IgnoreRaces = "IgnoreRaces"


@frozen
class Tag:
    """The unit that runs a loop's iterations, and how races are avoided.

    `chunk`: dynamic scheduling, by so many iterations at a time; None: equal parts. `turns`: so
    many units take them. `group_size`:
    so many adjacent GPU threads combine what they write, by a `reduction` that is "parallel", into
    one entry, or "segment", into one for each run of threads with the same entry. `resident`:
    launch bounds, in threads per multiprocessor; fewer threads have more registers each. `threads`:
    of a block, and `blocks`: launch bounds in blocks per multiprocessor.
    """

    unit: ParallelUnit
    race: OutputRaceStrategy
    chunk: int | None = None
    group_size: int | None = None
    reduction: str | None = None
    resident: int | None = None
    turns: int | None = None
    threads: int | None = None
    blocks: int | None = None

    def __str__(self) -> str:
        if self.group_size is not None:
            return f"{self.unit.value} of {self.group_size}, {self.reduction} reduction"
        more = "" if self.chunk is None else f", {self.chunk} at a time"
        more += "" if self.turns is None else f" by {self.turns}"
        more += "" if self.resident is None else f", {self.resident} threads resident"
        more += "" if self.threads is None else f", {self.threads} threads"
        more += "" if self.blocks is None else f", {self.blocks} per multiprocessor"
        return f"{self.unit.value}, {self.race.value}{more}"


@frozen(repr=False)
class Ahead(Node):
    """Prefetch `access` as it will be `distance` iterations later."""

    access: Access
    distance: int


class Stmt(Node):
    """A statement of concrete index notation."""

    def __str__(self) -> str:
        return text(self)


@frozen(repr=False)
class Forall(Stmt):
    """`body` for every value of `var`.

    `unroll`: the unroll factor; 0: all iterations; None: the C compiler decides. `merge`: how
    operands are intersected, "two_finger" or "gallop".
    """

    var: IndexVar
    body: Stmt
    tag: Tag | None = None
    unroll: int | None = None
    merge: str = "two_finger"
    ahead: tuple[Ahead, ...] = ()

    __str__ = Stmt.__str__


@frozen(repr=False)
class Assign(Stmt):
    """`lhs = rhs`, or `lhs op= rhs`."""

    lhs: Access
    rhs: Expr
    op: Op | None = None

    __str__ = Stmt.__str__


@frozen(repr=False)
class Where(Stmt):
    """`consumer` reads `temporary`, which `producer` computes first.

    `guarded`: where the producer finds no entry, the temporary is absent, which the consumer tells
    from the identity. `swept`: the consumer resets what it reads to the identity, for the next
    producer.
    """

    consumer: Stmt
    producer: Stmt
    temporary: TensorVar
    guarded: bool = False
    swept: bool = False

    __str__ = Stmt.__str__


@frozen(repr=False)
class Sequence(Stmt):
    """`first`, and then `then`."""

    first: Stmt
    then: Stmt

    __str__ = Stmt.__str__


@frozen(repr=False)
class SuchThat(Stmt):
    """`body`, whose loop variables derive by `relations` from the variables that index tensors."""

    body: Stmt
    relations: tuple[Relation, ...]

    __str__ = Stmt.__str__


def text(stmt: Stmt, indent: str = "") -> str:
    """The statement as text, one loop per line."""
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
    """A loop's tags as text."""
    notes = [] if loop.tag is None else [str(loop.tag)]
    if loop.unroll is not None:
        notes.append(f"unroll {loop.unroll}" if loop.unroll else "unroll")
    if loop.merge != "two_finger":
        notes.append(loop.merge)
    notes += [f"prefetch {a.access} {a.distance} ahead" for a in loop.ahead]
    return f"  [{'; '.join(notes)}]" if notes else ""


def relations_of(stmt: Stmt) -> tuple[Relation, ...]:
    """The relations by which the variables of `stmt` derive."""
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
