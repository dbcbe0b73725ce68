"""The dependent type of a format: arrays whose lengths are entries of other arrays.

In the notation of position-dependent arrays, packed CSR is
`[i -> [(int32, float64)]_(pos[i+1]-pos[i])]_m`:
`m` rows, and the length of row `i` is a difference of two positions. Unpacked, it is a pair of
arrays, one with the coordinates and one with the values. No level spells out its type: its formulas
are evaluated symbolically.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

from openwork.algebra.entries import Entry
from openwork.errors import FormatError
from openwork.format.layouts import AOS, PACKED, SOA, TERNARY, WITH_COORDINATES
from openwork.format.levels.base import Level
from openwork.format.levels.width import index_dtype
from openwork.frozen import frozen

Monomial = tuple[str, ...]


class Term:
    """A sum of products of names, as text; equal terms cancel.

    >>> n, p = Term.named("n"), Term.named("p")
    >>> print(p * n + n - p * n, (p + 1) // 2, (p + 1) * n)
    n (p+1)/2 p*n+n
    """

    def __init__(self, parts: dict[Monomial, int]) -> None:
        self.parts = {names: times for names, times in parts.items() if times}

    @classmethod
    def named(cls, name: str) -> Term:
        """The term that is this name."""
        return cls({(name,): 1})

    @classmethod
    def of(cls, value: Any) -> Term:
        """A number, or a term, as a term."""
        return value if isinstance(value, Term) else cls({(): int(value)})

    def __add__(self, other: Any) -> Term:
        parts = dict(self.parts)
        for names, times in Term.of(other).parts.items():
            parts[names] = parts.get(names, 0) + times
        return Term(parts)

    def __mul__(self, other: Any) -> Term:
        made = Term({})
        for names, times in self.parts.items():
            for more, others in Term.of(other).parts.items():
                made += Term({names + more: times * others})
        return made

    __radd__ = __add__
    __rmul__ = __mul__

    def __sub__(self, other: Any) -> Term:
        return self + Term.of(other) * -1

    def __rsub__(self, other: Any) -> Term:
        return Term.of(other) - self

    def __floordiv__(self, other: Any) -> Term:
        return self._joined("/", other)

    def __mod__(self, other: Any) -> Term:
        return self._joined("%", other)

    def __gt__(self, other: Any) -> Term:
        return Term.named(f"{self} > {other}")

    def __lt__(self, other: Any) -> Term:
        return Term.named(f"{self} < {other}")

    def __ge__(self, other: Any) -> Term:
        return Term.named(f"{self} >= {other}")

    def __le__(self, other: Any) -> Term:
        return Term.named(f"{self} <= {other}")

    def __and__(self, other: Any) -> Term:
        return Term.named(f"{self} and {other}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Term | int) and not (self - other).parts

    __hash__ = None  # type: ignore[assignment]

    def _joined(self, sign: str, other: Any) -> Term:
        if not self.parts:
            return self
        return Term.named(f"{enclosed(str(self))}{sign}{enclosed(str(other))}")

    def __str__(self) -> str:
        signed = sorted(self.parts.items(), key=lambda part: part[1] < 0)
        texts = []
        for names, times in signed:
            factors = [str(abs(times))] if abs(times) != 1 or not names else []
            factors += [enclosed(name) if factors or len(names) > 1 else name for name in names]
            texts.append(("-" if times < 0 else "+") + "*".join(factors))
        return "".join(texts).removeprefix("+") or "0"


def enclosed(text: str) -> str:
    """`text` in parentheses, if it is more than one name or number."""
    depth, plain = 0, True
    for letter in text:
        depth += (letter in "[(") - (letter in ")]")
        plain = plain and (depth > 0 or letter not in "+-*/% ")
    return text if plain else f"({text})"


class _Coordinate(Term):
    """An element of an array of coordinates, as it lies there."""


@frozen
class _Named:
    """An array whose elements are terms; `holds` as in `ArrayFact`. Positions count from 0."""

    name: str
    holds: str

    def __getitem__(self, index: Any) -> Term:
        at = Term.of(index)
        if self.holds == "positions" and not at.parts:
            return at
        return (_Coordinate if self.holds == "coordinates" else Term).named(f"{self.name}[{at}]")


@frozen
class _Run:
    """The formulas of one level as text; `stored`: its coordinates are in an array."""

    variable: str
    count: Term
    coordinate: str
    place: Term
    strided: bool
    stored: bool
    guard: str


@frozen
class Spelled:
    """How entries are spelled: as the elements of `arrays` arrays, or of one that is `packed` with
    coordinates; `note`: what the notation cannot say."""

    element: str
    arrays: int = 1
    packed: bool = False
    note: str = ""


def spelled_entry(entry: object, layout: str) -> Spelled:
    """The spelling of entries in a layout; an array for each number only if these are known."""
    if layout == SOA and isinstance(entry, Entry):
        return Spelled(entry.scalar, entry.size)
    packed, element = layout in WITH_COORDINATES, "int2" if layout == TERNARY else str(entry)
    return Spelled(element, packed=packed, note="" if layout in (AOS, PACKED) else layout)


def dependent_type(
    levels: Sequence[Level],
    parts: Sequence[tuple[int, int | None]],
    tiles: Sequence[int],
    entry: Spelled,
    extents: Sequence[int] | None = None,
) -> str:
    """The type of the storage of a format: see `Format.type`. `extents`: of each level."""
    runs: list[_Run] = []
    parent, parents = Term({}), Term.of(1)
    names = [fact.name for level in levels for fact in level.arrays]
    for n, (level, (mode, part)) in enumerate(zip(levels, parts, strict=True)):
        size = _size(mode, part, tiles) if extents is None else Term.of(extents[n])
        arrays = {
            fact.name: _Named(
                f"{fact.name}{n}" if names.count(fact.name) > 1 else fact.name, fact.holds
            )
            for fact in level.arrays
        }
        view = SimpleNamespace(extent=size, parents=parents, **arrays)
        try:
            runs.append(_run(level, view, parent, _variable(mode, part, len(tiles)), len(runs)))
            parents = Term.of(level.children(view, parents))
        except (TypeError, AttributeError, FormatError):  # formulas that need numbers
            run = Term.named(f"run{n}")
            runs.append(_Run(f"p{n}", run, "", Term.named(f"p{n}"), False, False, ""))
            parents = Term.named(f"places{n}")
        parent = runs[-1].place
    where = _clauses(runs, [_variable(*part, len(tiles)) for part in parts])
    return _spelled(levels, runs, entry, extents or [None] * len(levels), where)


def _run(level: Level, view: SimpleNamespace, parent: Term, name: str, depth: int) -> _Run:
    """The formulas of one level. The variable of a level is its coordinate, if that counts along
    the run, and the position otherwise."""
    begin, end = Term.of(level.begin(view, parent)), Term.of(level.end(view, parent))
    if end - begin == 1:
        variable, position = "", begin
    elif Term.of(level.coordinate(view, parent, begin + Term.named(name))) == Term.named(name):
        variable, position = name, begin + Term.named(name)
    else:
        variable = "pqrstuvw"[depth % 8]
        position = Term.named(variable)
    coordinate = Term.of(level.coordinate(view, parent, position))
    guard = "" if level.walks else str(level.find(view, parent, coordinate)[1])
    place = Term.of(level.place(view, parent, position))
    return _Run(
        variable,
        end - begin,
        str(coordinate),
        place,
        bool(variable) and place != position,
        isinstance(coordinate, _Coordinate),
        guard,
    )


def _clauses(runs: Sequence[_Run], names: Sequence[str]) -> list[str]:
    """Formulas of coordinates that are not stored, and of the places of strided entries."""
    where = []
    for run, name in zip(runs, names, strict=True):
        if run.coordinate and not run.stored and run.coordinate != run.variable:
            where.append(f"{name} = {run.coordinate}")
        if run.strided:
            where.append(f"{run.variable} at {run.place}")
    return where


def _spelled(
    levels: Sequence[Level],
    runs: Sequence[_Run],
    entry: Spelled,
    extents: Sequence[int | None],
    where: Sequence[str],
) -> str:
    arrays = []
    for n, (level, run, extent) in enumerate(zip(levels, runs, extents, strict=True)):
        if run.stored and not (entry.packed and n + 1 == len(levels)):
            arrays.append(_nested(runs[: n + 1], _width(level, extent), where))
    element = entry.element
    if entry.packed:
        element = f"({_width(levels[-1], extents[-1])}, {element})"
    values = _nested(runs, element, where, guarded=True)
    arrays.append(values if entry.arrays == 1 else f"[{values}]_{entry.arrays}")
    text = arrays[0] if len(arrays) == 1 else f"({', '.join(arrays)})"
    text += f" where {', '.join(where)}" if where else ""
    return f"{text} as {entry.note}" if entry.note else text


def _nested(runs: Sequence[_Run], element: str, where: Sequence[str], guarded: bool = False) -> str:
    """An array of elements in the runs of some levels; a level of one entry each adds nothing."""
    for run in reversed([run for run in runs if run.variable]):
        element += f" if {run.guard}" if run.guard and guarded else ""
        arrow = f"{run.variable} -> " if _mentions(run.variable, [element, *where]) else ""
        element = f"[{arrow}{element}]_{enclosed(str(run.count))}"
    return element


def _mentions(variable: str, texts: Iterable[str]) -> bool:
    """Whether a variable occurs in a text as a word of its own."""
    words = "".join(c if c.isalnum() or c == "_" else " " for c in " ".join(texts)).split()
    return variable in words


def _width(level: Level, extent: int | None) -> str:
    if level.bits is not None:
        return f"int{level.bits}"
    return "int32" if extent is None else str(index_dtype(max(extent - 1, 0)))


def _size(mode: int, part: int | None, tiles: Sequence[int]) -> Term:
    """The extent of a level as text; the number of blocks is rounded up."""
    if part == 1:
        return Term.of(tiles[mode])
    names = {1: ["n"], 2: ["m", "n"]}.get(len(tiles), [f"n{mode}" for mode in range(len(tiles))])
    return Term.named(names[mode] if part is None else f"{names[mode]}/{tiles[mode]}")


def _variable(mode: int, part: int | None, modes: int) -> str:
    """The name of a coordinate: `i`, or `ib` for the block that holds it and `ii` within it."""
    name = "ijklmno"[mode] if modes <= 7 else f"i{mode}"
    return name + {None: "", 0: "b", 1: name}[part]
