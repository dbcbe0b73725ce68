"""What lowering a program knows and collects: statements, names, loops around, facts to check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from openwork.algebra.operators import Op
from openwork.loops.fresh import take_name
from openwork.program import nodes as p
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.nodes import Expr, Fn, Nat, Signature
from openwork.skeletons.lower.lowered import InRange, Prefix
from openwork.skeletons.lower.memory import Buffer, Path
from openwork.skeletons.lower.values import Code, Env, Number, Two, Value


@dataclass
class Context:
    """The state of lowering one program.

    `computed`: an integer expression as code. `sums`: how sums of lengths are removed. `gpu`: for
    which units. `spelled`: naturals as text, to show a stage that no kernel is made from: "nested",
    "sums", "closed" or "refined".
    """

    signature: Signature
    computed: Callable[[Expr, Env], p.Expr]
    sums: str = "closed"
    gpu: bool = False
    spelled: str = ""
    free: bool = True  # no map of the program says which threads it runs on
    unitless: bool = False  # none says on which unit it runs

    out: list[p.Stmt] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    scalars: dict[str, p.Name] = field(default_factory=dict)
    env: dict[str, Value] = field(default_factory=dict)
    inside: tuple[str, ...] = ()  # the units of the loops around
    spans: list[tuple[Nat, Nat]] = field(default_factory=list)  # of the loops directly inside
    sums_here: dict[Nat, Nat] = field(default_factory=dict)  # sums that a loop has computed
    probing: int = 0  # how many sums are being removed
    trying: int = 0  # how many trials this is inside of

    prefixes: dict[tuple[Nat, Nat], Prefix] = field(default_factory=dict)
    offsets: set[str] = field(default_factory=set)
    indices: list[InRange] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)  # by stage
    loads: dict[p.Array, tuple[Buffer, Path]] = field(default_factory=dict)
    guarded: bool = False

    def fresh(self, base: str) -> str:
        """A name that nothing has."""
        return take_name(base, self.taken)

    def note(self, stage: str, text: str, at: int | None = None) -> None:
        """A decision to tell, and the stage that takes it; `at`: before which others."""
        if (stage, text) not in self.notes:
            self.notes.insert(len(self.notes) if at is None else at, (stage, text))

    @contextmanager
    def block(self) -> Iterator[list[p.Stmt]]:
        """Statements inside a loop, which are collected in a list."""
        outer, sums = self.out, self.sums_here
        self.out, self.sums_here = [], dict(sums)
        try:
            yield self.out
        finally:
            self.out, self.sums_here = outer, sums

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Whatever is lowered here leaves no trace."""
        kept = (
            self.taken.copy(), self.indices.copy(), self.notes.copy(), self.spans.copy(),
            self.guarded,
        )  # fmt: skip
        self.trying += 1
        try:
            with self.block():
                yield
        finally:
            self.trying -= 1
        (self.taken, self.indices, self.notes, self.spans, self.guarded) = kept

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Sums have closed forms here, whatever the program has."""
        sums, self.sums = self.sums, "closed"
        try:
            yield
        finally:
            self.sums = sums

    def variable(self, var: p.Name) -> Nat:
        """A variable of the program as a natural."""
        self.scalars[var.name] = var
        return n.named(var.name)

    def declared(self, value: p.Expr) -> Code:
        """An index that the program computes here, once."""
        name = p.Name(self.fresh("j"))
        self.out.append(p.Declare(name, value, fixed=True))
        return Code(name.name, name)


class Evaluator(Protocol):
    """What makes values of expressions: reductions and results ask it, and it asks them.

    A value that is a late reduction is computed where a number or a pair is needed.
    """

    context: Context

    def number(self, value: Value) -> Number:
        """A value as a number."""

    def pair(self, value: Value) -> Two:
        """A value as a pair."""

    def applied(self, op: Op, args: list[Number]) -> Number:
        """An operator on numbers."""

    def called(self, fn: Fn, value: Value, env: Env) -> Value:
        """A function of a value."""

    def bound(self, value: Value) -> Value:
        """A value that is computed once, however often it is used."""
