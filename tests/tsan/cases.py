"""The statements that run under ThreadSanitizer, their parallel schedules, and races put in."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.random.schedules import random_schedule
from tests.random.test_property import case_of, statement_of
from tests.whole.test_golden import MATRIX, VECTOR, draw

import openwork as ow
from openwork.loops.nodes import Forall, OutputRaceStrategy, ParallelUnit
from openwork.tree import walk

SCALAR = ow.dense(0)
m, n, k, r = 23, 17, 9, 6  # more than there are threads, and no multiples of their number
FIRST_SEED = 9_000_000  # far from those of the property test
CSF = ow.CSF(3)
POSITIONS = "fuse(i,j,f), pos(f,p,A), "
Operands = dict[str, tuple[tuple[int, ...], ow.Format]]


class Tensors(NamedTuple):
    """A statement, how its tensors are stored, and what is done before a loop is given to threads.

    Of each schedule, every loop is tried with every way to keep threads apart that is legal.
    """

    text: str
    result: tuple[tuple[int, ...], ow.Format]
    operands: Operands
    schedules: tuple[str, ...] = ("",)
    dtype: str = "float64"
    semiring: str | None = None

    def statement(self) -> ow.Statement:
        """The statement over tensors with data."""
        tensors = {
            name: ow.tensor(draw(shape, format, self.dtype, seed), format=format)
            for seed, (name, (shape, format)) in enumerate(self.operands.items())
        }
        shape, format = self.result
        tensors[self.text.split("(")[0].split(" ")[0]] = ow.empty(shape, self.dtype, format)
        return ow.parse(self.text, semiring=self.semiring, **tensors)


def spmv(format: ow.Format, *schedules: str, **more: str) -> Tensors:
    operands: Operands = {"A": ((m, n), format), "x": ((n,), VECTOR)}
    return Tensors("y(i) = A(i,j) * x(j)", ((m,), VECTOR), operands, schedules or ("",), **more)


def total(*schedules: str, **more: str) -> Tensors:
    operands: Operands = {"A": ((m, n), ow.CSR), "B": ((m, n), ow.CSR)}
    return Tensors("a = A(i,j) * B(i,j)", ((), SCALAR), operands, schedules or ("",), **more)


STATEMENTS = {
    "SpMV": spmv(
        ow.CSR,
        "",
        "split(i,i0,i1,4)",
        "divide(i,i0,i1,5,balance=nnz)",
        "pos(j,p,A), split(p,p0,p1,3)",
        "precompute(A(i,j)*x(j),j,jw)",
        POSITIONS + "split(p,p0,p1,8)",
        POSITIONS + "divide(p,p0,p1,7)",
        "fuse(i,j,f), split(f,f0,f1,8)",
        "stream(y)",
    ),
    "SpMV by columns": spmv(ow.CSC, "", "fuse(j,i,f), pos(f,p,A), split(p,p0,p1,8)"),
    "SpMV of empty rows": spmv(ow.DCSR, "", POSITIONS + "split(p,p0,p1,8)"),
    "SpMV of bytes": spmv(ow.CSC, dtype="int8"),
    "SpMV of complex numbers": spmv(ow.CSC, dtype="complex128"),
    "SpMV of complex halves": spmv(ow.CSC, dtype="complex64"),
    "SpMV over min and plus": spmv(ow.CSC, semiring="min_plus"),
    "SpMV over or and and": spmv(ow.CSC, dtype="bool"),
    "SpMM": Tensors(
        "Y(i,k) = A(i,j) * X(j,k)",
        ((m, k), MATRIX),
        {"A": ((m, n), ow.CSR), "X": ((n, k), MATRIX)},
        (
            "",
            "split(i,i0,i1,4), pos(j,p,A), split(p,p0,p1,4), order(i0,i1,p0,k,p1)",
            "split(k,k0,k1,4), order(i,k0,j,k1), precompute(A(i,j)*X(j,k),k1,k1w)",
            POSITIONS + "split(p,p0,p1,8)",
        ),
    ),
    "SDDMM": Tensors(
        "Y(i,j) = A(i,j) * B(i,k) * C(j,k)",
        ((m, n), ow.CSR),
        {"A": ((m, n), ow.CSR), "B": ((m, k), MATRIX), "C": ((n, k), MATRIX)},
        ("", POSITIONS + "split(p,p0,p1,8)", "split(i,i0,i1,4)"),
    ),
    "MTTKRP": Tensors(
        "Y(i,j) = X(i,k,l) * B(k,j) * C(l,j)",
        ((m, r), MATRIX),
        {"X": ((m, n, k), CSF), "B": ((n, r), MATRIX), "C": ((k, r), MATRIX)},
        (
            "",
            "order(i,k,l,j), precompute(X(i,k,l)*C(l,j),j,jw), split(i,i0,i1,4)",
            "fuse(i,k,f), fuse(f,l,g), pos(g,p,X), split(p,p0,p1,16)",
        ),
    ),
    "MTTKRP of the second mode": Tensors(
        "Y(k,j) = X(i,k,l) * B(i,j) * C(l,j)",
        ((n, r), MATRIX),
        {"X": ((m, n, k), CSF), "B": ((m, r), MATRIX), "C": ((k, r), MATRIX)},
    ),
    "sum": total("", "split(i,i0,i1,4)", "precompute(A(i,j)*B(i,j),j,jw)"),
    "sum of bytes": total(dtype="int8"),
    "maximum": total(semiring="max_times"),
    "SpGEMM into a dense result": Tensors(
        "C(i,j) = A(i,k) * B(k,j)",
        ((m, n), MATRIX),
        {"A": ((m, k), ow.CSR), "B": ((k, n), ow.CSR)},
        ("", "precompute(A(i,k)*B(k,j),j,jw)"),
    ),
    "sparse product of rows": Tensors(
        "y(i) = A(i,k) * B(k,j) * x(j)",
        ((m,), VECTOR),
        {"A": ((m, k), ow.CSR), "B": ((k, n), ow.CSR), "x": ((n,), VECTOR)},
        ("", "precompute(A(i,k)*B(k,j),j,jw)"),
    ),
    "addition": Tensors(
        "C(i,j) = A(i,j) + B(i,j)",
        ((m, n), MATRIX),
        {"A": ((m, n), ow.CSR), "B": ((m, n), ow.CSR)},
        ("", "split(j,j0,j1,4)"),
    ),
    "column sums": Tensors("a(j) = B(i,j)", ((n,), VECTOR), {"B": ((m, n), ow.CSR)}),
}

# Schedules under which threads do write to one place, which ThreadSanitizer has to see.
RACES = {
    "a sum into a shared row": (
        STATEMENTS["SpMV by columns"],
        "parallelize(j,CPUThread,IgnoreRaces)",
    ),
    "the same, in chunks": (
        STATEMENTS["SpMV by columns"],
        "parallelize(j,CPUThread,IgnoreRaces,chunk=2)",
    ),
    "a row cut between two threads": (
        STATEMENTS["SpMV"],
        POSITIONS + "split(p,p0,p1,8), parallelize(p0,CPUThread,IgnoreRaces)",
    ),
}


@dataclass(frozen=True)
class Prepared:
    """A statement whose schedule gives a loop to threads."""

    name: str
    statement: ow.Statement
    races: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.statement.commands}"


def systematic() -> Iterator[Prepared]:
    """Each statement above under all of its parallel schedules, in equal parts and in chunks."""
    for name, tensors in STATEMENTS.items():
        plain = tensors.statement()
        for text in tensors.schedules:
            prepared = plain.schedule(text) if text else plain
            for number, option in enumerate(threaded(prepared)):
                yield Prepared(name, prepared.schedule(option))
                if number % 3 == 0:
                    in_chunks = f"{option[:-1]},chunk=2)"
                    yield Prepared(name, prepared.schedule(in_chunks))


def threaded(stmt: ow.Statement) -> list[str]:
    """The commands that legally give a loop of `stmt` to threads."""
    found = [option for option in stmt.legal() if option.name == "parallelize"]
    return [str(each) for each in found if ParallelUnit.CPUThread in each.command.arguments]


def at_random(count: int, first: int = FIRST_SEED) -> Iterator[Prepared]:
    """`count` random statements under random schedules that give a loop to threads."""
    seed = first
    while count > 0:
        stmt = random_schedule(random.Random(seed), statement_of(case_of(seed)))
        if strategies(stmt):
            yield Prepared(f"seed {seed}", stmt)
            count -= 1
        seed += 1


def planted() -> Iterator[Prepared]:
    """Statements that race."""
    for name, (tensors, schedule) in RACES.items():
        yield Prepared(name, tensors.statement().schedule(schedule), races=True)


def strategies(stmt: ow.Statement) -> set[OutputRaceStrategy]:
    """How the threads of `stmt` are kept apart; nothing if it has none."""
    loops = [node for node in walk(stmt.loops) if isinstance(node, Forall)]
    tags = [loop.tag for loop in loops if loop.tag is not None]
    return {tag.race for tag in tags if tag.unit is ParallelUnit.CPUThread}
