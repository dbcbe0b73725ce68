"""The entries of a row or a column, as patterns: mapped, combined, or searched for a coordinate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import count
from typing import TypeVar, cast

from openwork.algebra.operators import ADD, EQ, MUL, SELECT
from openwork.errors import PatternError
from openwork.format.formats import Format
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.nodes import Expr, Nat, Type
from openwork.skeletons.language.stored import Typed, refuse, typed

Entry = Callable[[Expr, Expr], Expr]  # of a coordinate and a value
T = TypeVar("T")
_names = count(1)


def entries_of(
    format: Format, value: Type, name: str, extents: Sequence[Nat], guarded: bool
) -> Entries:
    """The entries of a matrix, run by run: its rows, or its columns where these are stored.

    `guarded`: indices that follow from positions are tested in the kernel, as nothing proves them.

    Raises:
        PatternError: E709 for formats whose rows are no arrays.
    """
    if format.ndim != 2:
        refuse(f"{name} has {format.ndim} modes, and is stored as {format!r}",
               "matrices have rows: of other tensors, ow.dense(n)")  # fmt: skip
    if not format.levels[0].full:
        refuse(f"{name} is stored as {format!r}: only rows that have entries are there, and no "
               "formula says where the row of a number is", f"ow.CSR, and {name}.to(ow.CSR) in "
               "the call")  # fmt: skip
    try:
        known = typed(format, value, name, extents, apart=True)
    except PatternError:
        refuse(f"{name} is stored as {format!r}, whose rows are no arrays",
               f"ow.CSR, and {name}.to(ow.CSR) in the call")  # fmt: skip
    match [run.stored != "" for run in known.runs]:
        case [False, True] if known.apart is None:
            return Listed(known, guarded)
        case [False, _] if not format.tiled and known.counts(known.runs[0]):
            return Computed(known, guarded)
        case [False, True, False, False] if known.by_rows:
            return Blocks(known, guarded, extents[1])
    return refuse(
        f"{name} is stored as {format!r}", "dense, ow.CSR, ow.CSC, ow.LIL, ow.ELL, ow.BSR(2, 2), "
        "ow.ragged, ow.lower_triangular"
    )  # fmt: skip


class Entries(ABC):
    """The entries of a matrix, run by run: those of a row, or of a column."""

    def __init__(self, known: Typed, guarded: bool) -> None:
        self.known, self.guarded = known, guarded

    @property
    def params(self) -> dict[str, Type]:
        """The parameters that the matrix fills."""
        return self.known.params

    @property
    def packed(self) -> bool:
        """Whether coordinates lie beside their values."""
        return self.known.packed

    def along(self, variables: Sequence[T]) -> tuple[T, T]:
        """Of two variables the one that counts runs, and the one of the coordinates in a run."""
        outer = self.known.format.order[0]
        return variables[outer], variables[1 - outer]

    @abstractmethod
    def folded(self, run: Expr, entry: Entry, fold: n.Reduce) -> Expr:
        """What `entry` makes of all entries of a run, combined."""

    @abstractmethod
    def searched(self, run: Expr, wanted: Expr, fill: Expr) -> Expr:
        """The value of the entry with a coordinate, or `fill`."""

    def mapped(self, run: Expr, entry: Entry) -> Expr:
        """What `entry` makes of each entry of a run, as an array."""
        return refuse(f"the entries of {self.known.name} are no array", "ow.CSR")

    def index(self, value: Nat) -> Expr:
        """A natural as an index."""
        return n.Noted(n.OfNat(value), n.Scalar("int64")) if self.guarded else n.OfNat(value)


class Runs(Entries):
    """Each run is an array."""

    def folded(self, run: Expr, entry: Entry, fold: n.Reduce) -> Expr:
        return n.piped(self.mapped(run, entry), fold)

    def searched(self, run: Expr, wanted: Expr, fill: Expr) -> Expr:
        """From the first entry to the last."""
        one, before = fresh("e"), fresh("found")
        body = n.Apply(SELECT, (n.Apply(EQ, (n.Part(one, 1), wanted)), n.Part(one, 2), before))
        step = n.Fun(before.name, n.Fun(one.name, body))
        return n.piped(self.mapped(run, n.Pair), n.Reduce(step, fill, "Seq"))


class Listed(Runs):
    """Coordinates in an array beside the values, or packed with them: CSR, CSC, LIL."""

    def mapped(self, run: Expr, entry: Entry) -> Expr:
        values = n.At(n.Var(self.known.name), run)
        stored = self.known.runs[1].stored
        rows = values if self.packed else n.Zip(n.At(n.Var(stored), run), values)
        one = fresh("e")
        return n.piped(rows, n.Map(n.Fun(one.name, entry(n.Part(one, 1), n.Part(one, 2)))))


class Computed(Runs):
    """Coordinates, or places, follow from the number of an entry: ragged, triangular, in bands;
    padded rows side by side (ELLPACK), and diagonals."""

    def mapped(self, run: Expr, entry: Entry) -> Expr:
        outer, inner = self.known.runs
        name = fresh("k").name
        at = n.named(name)

        def here(value: Nat) -> Nat:
            made = n.substituted(value, {outer.var: n.to_nat(run), inner.var: at})
            return cast(Nat, self._guarded(made))

        length = here(inner.length)
        if any(isinstance(a, n.ToNat) for a in n.walk_all(length)):
            length = n.chosen(n.nat(0) < length, length, 0)  # nothing is proved of data
        values: Expr = n.Var(self.known.name)
        if self.known.apart is None:
            value: Expr = n.At(n.At(values, run), self.index(at))
        else:
            value = n.At(values, self.index(here(inner.place)))
        if not inner.stored:
            made = entry(self.index(here(inner.coordinate)), value)
        elif self.packed:
            made = entry(n.Part(value, 1), n.Part(value, 2))
        else:
            made = entry(n.At(n.Var(inner.stored), self.index(here(inner.place))), value)
        return n.Generate(length, n.NFun(name, made))

    def _guarded(self, node: n.Node) -> n.Node:
        """A formula whose own indices are tested, too: which of the slices of rows it is."""
        match node:
            case n.At(array=array, index=n.OfNat(nat=index)) if self.guarded:
                return n.At(array, self.index(cast(Nat, self._guarded(index))))
        return n.changed(node, self._guarded)


class Blocks(Entries):
    """Dense blocks: each has some columns of a row, the last perhaps fewer."""

    def __init__(self, known: Typed, guarded: bool, columns: Nat) -> None:
        super().__init__(known, guarded)
        (self.high, self.wide), self.columns = known.format.tiles, columns

    def folded(self, run: Expr, entry: Entry, fold: n.Reduce) -> Expr:
        """What is combined of each block, combined."""
        one, name = fresh("e"), fresh("c").name
        first = n.Part(one, 1)
        left = self.columns - n.to_nat(first) * self.wide
        width = n.chosen(n.nat(0) < left, n.lesser(self.wide, left), 0)
        at = n.Apply(ADD, (n.Apply(MUL, (first, n.Literal(self.wide))), n.OfNat(n.named(name))))
        value = self._value(one, run, n.OfNat(n.named(name)))
        every = n.Generate(width, n.NFun(name, entry(at, value)))
        each = n.Map(n.Fun(one.name, n.piped(every, fold)))
        return n.piped(self._blocks(run), each, fold)

    def searched(self, run: Expr, wanted: Expr, fill: Expr) -> Expr:
        """The element of the block that has the column."""
        one, before, column = fresh("e"), fresh("found"), n.to_nat(wanted)
        block = n.OfNat(n.divided(column, n.nat(self.wide)))
        inside = self.index(n.remainder(column, n.nat(self.wide)))
        there = n.Apply(EQ, (n.Part(one, 1), block))
        body = n.Apply(SELECT, (there, self._value(one, run, inside), before))
        step = n.Fun(before.name, n.Fun(one.name, body))
        return n.piped(self._blocks(run), n.Reduce(step, fill, "Seq"))

    def _blocks(self, run: Expr) -> Expr:
        """The blocks that a row goes through, each with its coordinate."""
        at = self.index(n.divided(n.to_nat(run), n.nat(self.high)))
        stored = self.known.runs[1].stored
        return n.Zip(n.At(n.Var(stored), at), n.At(n.Var(self.known.name), at))

    def _value(self, block: Expr, run: Expr, column: Expr) -> Expr:
        inside = self.index(n.remainder(n.to_nat(run), n.nat(self.high)))
        return n.At(n.At(n.Part(block, 2), inside), column)


def fresh(base: str) -> n.Var:
    """A variable with a name of its own, of which `base` is shown."""
    return n.Var(f"{base}#{next(_names)}")
