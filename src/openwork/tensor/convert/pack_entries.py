"""From a sorted list of entries to levels: programs that append, or locate positions.

The list is partitioned among threads. An entry differs from the one before it from some level on:
there, and at each level below that is appended to, it gets a new position. One program counts the
new positions of each part; another stores coordinates, where runs begin, and values. Other levels
locate each coordinate by formula: dense ones, and those whose arrays are known already. Both do the
same as the levels' own `pack`; a level that packs otherwise is left to it.
"""

from __future__ import annotations

from functools import cached_property

from openwork.format.formats import Format
from openwork.format.levels import (
    Bitmap,
    Compressed,
    Dense,
    Diagonals,
    Lengths,
    Level,
    Range,
    Singleton,
)
from openwork.frozen import frozen
from openwork.program.lower.base.names import value_array
from openwork.program.nodes import (
    Array,
    Declare,
    Expr,
    For,
    If,
    Load,
    Name,
    Program,
    Set,
    Stmt,
    Store,
    Value,
    block,
    compare,
    expr,
)
from openwork.tensor.convert.list_entries import (
    COUNTS,
    CUT,
    CUTS,
    FIRSTS,
    View,
    arguments,
    extent_of,
    list_of,
    over_parts,
    part_of,
    views,
)

ENTRIES = Name("entries")
_P = Name("p")


def appended(level: Level) -> bool:
    """Whether a level has a position for each run of equal coordinates, one after another."""
    return type(level).pack in (type(Compressed).pack, type(Lengths).pack)


def single(level: Level) -> bool:
    """Whether a level is a singleton: one coordinate at the position of its parent."""
    return type(level).pack is type(Singleton).pack


def located(level: Level) -> bool:
    """Whether a formula locates each coordinate, given arrays that do not grow."""
    known = [type(each).pack for each in (Dense, Bitmap, Range, Diagonals)]
    return type(level).pack in known and (level.locates or level.finds)


@frozen
class Packing:
    """What the programs depend on: the format, and the types of all arrays.

    `types`: of the coordinates of the list, by mode; `widths`: of the arrays of each level.
    """

    format: Format
    widths: tuple[tuple[tuple[str, str], ...], ...]
    types: tuple[str, ...]
    dtype: str

    @staticmethod
    def suits(format: Format) -> bool:
        """Whether all levels are appended to, located, or singletons.

        Below a level that repeats coordinates there is a list, with one position per entry.
        """
        once = False
        for level in format.levels:
            if once and not single(level):
                return False
            once |= not level.unique
            if not level.ordered or not (appended(level) or located(level) or single(level)):
                return False
            if single(level) and not once:
                return False
        return bool(format.levels)

    @cached_property
    def appends(self) -> list[int]:
        """The levels that are appended to, by number."""
        return [n for n, level in enumerate(self.format.levels) if appended(level)]

    def each(self, n: int) -> bool:
        """Whether every entry has its own position at level `n`."""
        levels = self.format.levels
        return any(not level.unique for level in levels[: n + 1]) or all(
            single(level) for level in levels[n + 1 :]
        )

    @cached_property
    def counted(self) -> list[int]:
        """The levels whose positions must be counted."""
        return [n for n in self.appends if not self.each(n)]

    @property
    def in_order(self) -> bool:
        """Whether the values of the list can be used unchanged."""
        levels = self.format.levels
        last = max((n for n, level in enumerate(levels) if not single(level)), default=-1)
        return last in self.appends

    @cached_property
    def views(self) -> tuple[View, ...]:
        """The levels as inputs of their formulas."""
        return views(self.format, "R", [dict(level) for level in self.widths])

    @property
    def sizes(self) -> tuple[Name, ...]:
        """The sizes that the programs take: parts, entries, extents, parents of levels."""
        levels = range(len(self.format.levels))
        return (CUTS, ENTRIES, *map(extent_of, levels), *(self._parents(n) for n in levels))

    def _parents(self, n: int) -> Name:
        return Name(f"parents{n + 1}")

    def _column(self, n: int, p: Expr) -> Expr:
        """The coordinate of an entry at level `n`."""
        mode, part = self.format.parts[n]
        crd = Load(list_of("L", self.types, self.dtype)[0][mode], p)
        tile = self.format.tiles[mode]
        return crd if part is None else crd / tile if part == 0 else crd % tile

    # -- counting -------------------------------------------------------------------------------

    def counting(self) -> Program:
        """Counts the new positions of each part, at each level where they are counted."""
        lo, hi = part_of(Value(0), ENTRIES)
        totals = {n: Name(f"n{n + 1}") for n in self.counted}
        steps: list[Stmt] = []
        for n in range(max(self.counted) + 1):
            steps.append(self._differs(n))
            if n in totals:
                steps.append(If(self._new(n), block(Set(totals[n], totals[n] + 1))))
        width = len(self.counted)
        code = over_parts(
            *(Declare(name, Value(0)) for name in totals.values()),
            For(_P, lo, hi, block(*steps), polls=1024),
            *(Store(COUNTS, CUT * width + k, totals[n]) for k, n in enumerate(self.counted)),
        )
        crd, _ = list_of("L", self.types, self.dtype)
        given = (*arguments(crd, "operand"), *arguments([COUNTS], "result"))
        return Program(given, self.sizes, block(code), f"count the positions of {self.format}")

    def _new(self, n: int) -> Name:
        return Name(f"new{n + 1}", "bool")

    def _differs(self, n: int) -> Declare:
        """Whether an entry differs from the one before it, at level `n` or above."""
        here = compare("!=", self._column(n, _P), self._column(n, _P - 1))
        before: Expr = self._new(n - 1) if n else compare("==", _P, 0)
        return Declare(self._new(n), compare("||", before, here), True)

    # -- storing --------------------------------------------------------------------------------

    def storing(self) -> Program:
        """Stores the arrays of all levels, and the values."""
        lo, hi = part_of(Value(0), ENTRIES)
        first, last = Name("lo"), Name("hi")
        head: list[Stmt] = [Declare(first, lo, True), Declare(last, hi, True)]
        width = len(self.counted)
        head += [
            Declare(self._count(n), Load(FIRSTS, CUT * width + k))
            for k, n in enumerate(self.counted)
        ]
        head += [Declare(self._before(n), Value(-1)) for n in self.appends[:] if n]
        if any(self.appends):
            head.append(If(compare("<", 0, first), block(*self._resumed(first - 1))))
        loop = For(_P, first, last, block(*self._entry()), polls=1024)
        code = over_parts(*head, loop, If(compare("==", last, ENTRIES), block(*self._tails())))
        crd, values = list_of("L", self.types, self.dtype)
        stored = [self._array(n, name) for n in range(len(self.widths)) for name in self._made(n)]
        kept = [
            view.arrays[name]
            for n, view in enumerate(self.views)
            for name in sorted(view.arrays)
            if name not in self._made(n)
        ]
        given = [*crd, values, FIRSTS, *kept]
        made = [*stored, value_array("R", self.dtype)]
        given_made = (*arguments(given, "operand"), *arguments(made, "result"))
        return Program(given_made, self.sizes, block(code), f"pack {self.format}")

    def _made(self, n: int) -> list[str]:
        """The arrays of a level that the program stores; others are known already."""
        level = self.format.levels[n]
        if appended(level):
            return ["crd", "pos"]
        return [fact.name for fact in level.arrays if fact.per == "child" or single(level)]

    def _array(self, n: int, name: str) -> Array:
        return self.views[n].arrays[name]

    def _count(self, n: int) -> Name:
        return Name(f"n{n + 1}")

    def _before(self, n: int) -> Name:
        """The parent of the entry before, at level `n`."""
        return Name(f"before{n + 1}")

    def _place(self, n: int, parent: Expr, coordinate: Expr) -> Expr:
        level, view = self.format.levels[n], self.views[n]
        if level.locates:
            return expr(level.locate(view, parent, coordinate))
        return expr(level.find(view, parent, coordinate)[0])

    def _resumed(self, p: Expr) -> list[Stmt]:
        """The parents of the last entry before a part."""
        code: list[Stmt] = []
        place: Expr = Value(0)
        for n, level in enumerate(self.format.levels[: max(self.appends) + 1]):
            if n in self.appends:
                if n:
                    code.append(Set(self._before(n), place))
                place = p if self.each(n) else self._count(n) - 1
            elif not single(level):
                place = self._place(n, place, self._column(n, p))
        return code

    def _entry(self) -> list[Stmt]:
        """What is stored for one entry, from the outermost level in."""
        code: list[Stmt] = []
        place: Expr = Value(0)
        deepest = max(self.counted, default=-1)
        for n, level in enumerate(self.format.levels):
            here, at = Name(f"c{n + 1}"), Name(f"at{n + 1}")
            code.append(Declare(here, self._column(n, _P), True))
            if n <= deepest:
                code.append(self._differs(n))
            if n in self.appends:
                code += self._append(n, place, here)
                place = _P if self.each(n) else self._count(n) - 1
            elif not single(level):
                place = self._place(n, place, here)
            code.append(Declare(at, place, True))
            place = at
            if n not in self.appends:
                stored = here if single(level) else Value(1)
                code += [Store(self._array(n, name), place, stored) for name in self._made(n)]
        values = list_of("L", self.types, self.dtype)[1]
        if not self.in_order:
            code.append(Store(value_array("R", self.dtype), place, Load(values, _P)))
        return code

    def _append(self, n: int, parent: Expr, coordinate: Expr) -> list[Stmt]:
        """Append a new position at level `n`, if there is one, and begin the runs up to it."""
        position = _P if self.each(n) else self._count(n)
        code: list[Stmt] = []
        if n:
            code += [*self._begun(n, parent + 1, position), Set(self._before(n), parent)]
        code.append(Store(self._array(n, "crd"), position, coordinate))
        if self.each(n):
            return code
        code.append(Set(self._count(n), self._count(n) + 1))
        return [If(self._new(n), block(*code))]

    def _begun(self, n: int, end: Expr, position: Expr) -> list[Stmt]:
        """Runs after the one of the entry before, up to `end`, begin at `position`."""
        run = Name(f"run{n + 1}")
        begin = Store(self._array(n, "pos"), run, position)
        return [For(run, self._before(n) + 1, end, block(begin))]

    def _tails(self) -> list[Stmt]:
        """Runs after the last entry are empty."""
        code: list[Stmt] = []
        for n in self.appends:
            total = ENTRIES if self.each(n) else self._count(n)
            if n:
                code += self._begun(n, self._parents(n) + 1, total)
            else:
                pos = self._array(0, "pos")
                code += [Store(pos, Value(0), Value(0)), Store(pos, Value(1), total)]
        return code
