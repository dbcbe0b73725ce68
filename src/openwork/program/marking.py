"""Which diagonals a list of entries meets: a mark for each, in one array for every part."""

from __future__ import annotations

from dataclasses import dataclass

from openwork.program.listing import CUT, CUTS, arguments, list_of, over_parts, part_of
from openwork.program.nodes import Array, For, Load, Name, Program, Store, Value, block
from openwork.program.packing import ENTRIES

ROWS, DIAGONALS = Name("rows"), Name("diagonals")
_P = Name("p")


@dataclass(frozen=True)
class Marking:
    """What decides the program: the modes of rows and columns, and the types of the list."""

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
