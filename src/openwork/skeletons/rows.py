"""The entries of a row, as patterns: mapped, combined, or searched for a coordinate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import count
from typing import cast

from openwork.algebra.operators import ADD, MUL
from openwork.format.formats import Format
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.nodes import Expr, Nat, Type
from openwork.skeletons.language.stored import Typed, refuse, typed

Entry = Callable[[Expr, Expr], Expr]  # of a coordinate and a value
_names = count(1)


def entries_of(
    format: Format, value: Type, name: str, extents: Sequence[Nat], guarded: bool
) -> Entries:
    """The entries of the rows of a matrix.

    `guarded`: indices that follow from positions are tested in the kernel, as nothing proves them.

    Raises:
        PatternError: E709 for formats whose rows are no arrays.
    """
    known = typed(format, value, name, extents)
    match [run.stored != "" for run in known.runs]:
        case [False, True] if known.by_rows:
            return Listed(known, guarded)
        case [False, False] if known.by_rows and not format.tiled:
            return Counted(known, guarded)
        case [False, True, False, False] if known.by_rows:
            return Blocks(known, guarded, extents[1])
    return refuse(
        f"{name} is stored as {format!r}", "dense, ow.CSR, ow.LIL, ow.BSR(2, 2), ow.ragged, "
        "ow.lower_triangular"
    )  # fmt: skip


class Entries(ABC):
    """The entries of a matrix, row by row."""

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

    def folded(self, row: Expr, entry: Entry, fold: n.Reduce) -> Expr:
        """What `entry` makes of all entries of a row, combined."""
        return n.piped(self.mapped(row, entry), fold)

    @abstractmethod
    def mapped(self, row: Expr, entry: Entry) -> Expr:
        """What `entry` makes of each entry, as an array."""

    def searched(self, row: Expr, found: Callable[[Expr, Expr, Expr], Expr], fill: Expr) -> Expr:
        """`found(coordinate, value, otherwise)` from the first entry to the last."""
        one, all_before = fresh("e"), fresh("found")
        body = found(n.Part(one, 1), n.Part(one, 2), all_before)
        step = n.Fun(all_before.name, n.Fun(one.name, body))
        return n.piped(self.mapped(row, n.Pair), n.Reduce(step, fill, "Seq"))

    def index(self, value: Nat) -> Expr:
        """A natural as an index."""
        return n.Noted(n.OfNat(value), n.Scalar("int64")) if self.guarded else n.OfNat(value)


class Listed(Entries):
    """Coordinates in an array beside the values, or packed with them: CSR, LIL."""

    def mapped(self, row: Expr, entry: Entry) -> Expr:
        values = n.At(n.Var(self.known.name), row)
        stored = self.known.runs[1].stored
        rows = values if self.packed else n.Zip(n.At(n.Var(stored), row), values)
        one = fresh("e")
        return n.piped(rows, n.Map(n.Fun(one.name, entry(n.Part(one, 1), n.Part(one, 2)))))


class Counted(Entries):
    """Coordinates count along the row, and nothing stores them: ragged and triangular."""

    def mapped(self, row: Expr, entry: Entry) -> Expr:
        outer, inner = self.known.runs
        length = cast(Nat, n.substituted(inner.length, {outer.var: n.to_nat(row)}))
        name = fresh("k").name
        at = n.named(name)
        value = n.At(n.At(n.Var(self.known.name), row), self.index(at))
        if any(isinstance(a, n.ToNat) for a in n.walk_all(length)):
            length = n.chosen(n.nat(0) < length, length, 0)  # nothing is proved of data
        return n.Generate(length, n.NFun(name, entry(self.index(at), value)))


class Blocks(Entries):
    """Dense blocks: each has some columns of a row, the last perhaps fewer."""

    def __init__(self, known: Typed, guarded: bool, columns: Nat) -> None:
        super().__init__(known, guarded)
        (self.high, self.wide), self.columns = known.format.tiles, columns

    def folded(self, row: Expr, entry: Entry, fold: n.Reduce) -> Expr:
        return n.piped(self._blocks(row, entry, fold), fold)

    def mapped(self, row: Expr, entry: Entry) -> Expr:
        return refuse(
            f"{self.known.name} has rows of blocks, which are combined, and neither searched nor "
            "stored", "ow.CSR",
        )  # fmt: skip

    def _blocks(self, row: Expr, entry: Entry, fold: n.Reduce) -> Expr:
        """What is combined of each block."""
        place, stored = n.to_nat(row), self.known.runs[1].stored
        blocks = self.index(n.divided(place, n.nat(self.high)))
        inside = self.index(n.remainder(place, n.nat(self.high)))
        one, name = fresh("e"), fresh("c").name
        first, tile = n.Part(one, 1), n.Part(one, 2)
        left = self.columns - n.to_nat(first) * self.wide
        width = n.chosen(n.nat(0) < left, n.lesser(self.wide, left), 0)
        at = n.Apply(ADD, (n.Apply(MUL, (first, n.Literal(self.wide))), n.OfNat(n.named(name))))
        value = n.At(n.At(tile, inside), n.OfNat(n.named(name)))
        every = n.Generate(width, n.NFun(name, entry(at, value)))
        rows = n.Zip(n.At(n.Var(stored), blocks), n.At(n.Var(self.known.name), blocks))
        return n.piped(rows, n.Map(n.Fun(one.name, n.piped(every, fold))))


def fresh(base: str) -> n.Var:
    """A variable with a name of its own, of which `base` is shown."""
    return n.Var(f"{base}#{next(_names)}")
