"""A counting sort of a list of entries: a program that is linear in entries and keys.

The sort is stable, so lists are sorted by several keys one after another, the last first; or by all
of them in one pass, as digits of one number, if entries then stay near to where they were. Each
part of the list has its own counters.
"""

from __future__ import annotations

from openwork.frozen import frozen
from openwork.program.nodes import (
    Array,
    Declare,
    Expr,
    For,
    Load,
    Name,
    Program,
    Set,
    Stmt,
    Store,
    Value,
    block,
)
from openwork.tensor.convert.list_entries import (
    CUT,
    CUTS,
    arguments,
    extent_of,
    list_of,
    over_parts,
    part_of,
)
from openwork.tensor.convert.pack_entries import ENTRIES

KEYS = Name("keys")
_P = Name("p")


@frozen
class Key:
    """A sort key: the coordinate of a mode, its block (part 0), or its offset in the block (1)."""

    mode: int
    part: int | None = None
    tile: int = 0

    def of(self, coordinate: Expr) -> Expr:
        """The key of an entry."""
        if self.part is None:
            return coordinate
        return coordinate / self.tile if self.part == 0 else coordinate % self.tile


@frozen
class Sorting:
    """What the program depends on: the keys, and the types of the list and of the counters."""

    keys: tuple[Key, ...]
    types: tuple[str, ...]
    dtype: str
    width: str

    @property
    def sizes(self) -> tuple[Name, ...]:
        """The sizes that the program takes: parts, entries, the number of combined keys, and the
        extent of each key."""
        return CUTS, ENTRIES, KEYS, *map(extent_of, range(len(self.keys)))

    def _number(self, crd: list[Array]) -> Expr:
        """The keys of an entry as one number."""
        number: Expr = Value(0)
        for n, key in enumerate(self.keys):
            number = number * extent_of(n) + key.of(Load(crd[key.mode], _P))
        return number

    def program(self) -> Program:
        """Count the keys of each part, take prefix sums, scatter the entries."""
        crd, values = list_of("L", self.types, self.dtype)
        to_crd, to_values = list_of("S", self.types, self.dtype)
        counts = Array("counts", self.width)
        lo, hi = part_of(Value(0), ENTRIES)
        slot, to = Name("slot"), Name("to")
        find = Declare(slot, CUT * KEYS + self._number(crd), True)
        count = over_parts(
            For(_P, lo, hi, block(find, Store(counts, slot, Load(counts, slot) + 1)), polls=1024)
        )
        moves: list[Stmt] = [
            Store(new, to, Load(old, _P))
            for old, new in zip((*crd, values), (*to_crd, to_values), strict=True)
        ]
        begin = [Declare(to, Load(counts, slot), True), Store(counts, slot, to + 1)]
        move = over_parts(For(_P, lo, hi, block(find, *begin, *moves), polls=1024))
        given = arguments([*crd, values], "operand")
        made = arguments([counts, *to_crd, to_values], "result")
        body = block(count, *self._starts(counts), move)
        return Program((*given, *made), self.sizes, body, "sort by counting")

    def _starts(self, counts: Array) -> list[Stmt]:
        """How many entries each part has for a key  =>  where the first of them goes"""
        at, key, slot = Name("sum"), Name("key"), Name("slot")
        found = Name("found")
        one = block(
            Declare(slot, CUT * KEYS + key, True),
            Declare(found, Load(counts, slot), True),
            Store(counts, slot, at),
            Set(at, at + found),
        )
        parts = For(CUT, Value(0), CUTS, one)
        return [Declare(at, Value(0)), For(key, Value(0), KEYS, block(parts), polls=1024)]


ROWS, DIAGONALS = Name("rows"), Name("diagonals")


@frozen
class Marking:
    """What the program depends on: the modes of rows and columns, and the types of the list."""

    modes: tuple[int, int]
    types: tuple[str, ...]

    def program(self) -> Program:
        """marks[part, column - row + rows] = 1 for all entries"""
        crd, _ = list_of("L", self.types, "int8")
        marks = Array("marks", "int8")
        row, column = (Load(crd[mode], _P) for mode in self.modes)
        mark = Store(marks, CUT * DIAGONALS + (column - row + ROWS), Value(1, "int8"))
        lo, hi = part_of(Value(0), ENTRIES)
        body = over_parts(For(_P, lo, hi, block(mark), polls=1024))
        given = (*arguments(crd, "operand"), *arguments([marks], "result"))
        return Program(given, (CUTS, ENTRIES, ROWS, DIAGONALS), block(body), "mark diagonals")
