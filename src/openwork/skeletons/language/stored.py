"""A format as a type: what its levels say about runs, as lengths of arrays.

The formulas of levels are evaluated over naturals: a run from `pos[p]` to `pos[p+1]` is an array of
`toNat(pos@(p+1)) - toNat(pos@p)` elements. So no level is known by name, and a user's own has a
type, too. Coordinates that lie in an array are an array beside the values, or packed with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NoReturn

from openwork.errors import FormatError, PatternError
from openwork.format.formats import Format
from openwork.format.layouts import PACKED
from openwork.format.levels import Level
from openwork.frozen import frozen
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.nodes import ArrayType, Nat, PairType, Scalar, Type

_COLUMN = Scalar("int32")


@frozen
class _Array:
    """An array of a level, whose elements are naturals; `holds` as in `ArrayFact`."""

    name: str
    holds: str

    def __getitem__(self, index: Nat | int) -> Nat:
        if self.holds == "positions" and not n.nat(index).terms:
            return n.nat(0)  # positions count from 0
        return n.to_nat(n.At(n.Var(self.name), n.OfNat(n.nat(index))))


@frozen
class Run:
    """A level as a type: how many entries the run of each parent has, which `var` counts.

    `coordinate`, and the `place` of an entry in memory: in terms of these variables. `stored`: the
    array that the coordinate lies in, or "".
    """

    var: str
    length: Nat
    coordinate: Nat
    stored: str
    place: Nat


@frozen
class Typed:
    """The type of a format: its runs, the arrays that their lengths read, and its entries.

    `sources`: for each array the level, and its name there. `apart`: entries do not follow one
    another; values and their coordinates are flat arrays of so many places, and a formula says
    where an entry lies. `nats`: naturals that are lengths of such arrays, and nothing else.
    """

    format: Format
    name: str
    runs: tuple[Run, ...]
    helpers: dict[str, Type]
    sources: dict[str, tuple[int, str]]
    value: Type
    apart: Nat | None = None
    nats: tuple[str, ...] = ()

    @property
    def packed(self) -> bool:
        """Whether each value lies beside its coordinate."""
        return self.format.layout == PACKED

    @property
    def by_rows(self) -> bool:
        """Whether modes come in order, with coordinates that are stored or count along a run."""
        modes = list(dict.fromkeys(self.format.order))
        return modes == sorted(modes) and all(map(self.counts, self.runs))

    def counts(self, run: Run) -> bool:
        """Whether the coordinates of a run are stored, or count along it."""
        return bool(run.stored) or run.coordinate == n.named(run.var)

    def nested(self, element: Type, depth: int, pairs: bool = False) -> Type:
        """An array of elements, in the runs of some levels; `pairs`: with their coordinate."""
        last = max((k for k, run in enumerate(self.runs) if run.stored), default=-1)
        if self.apart is not None:
            return ArrayType(PairType(_COLUMN, element) if pairs else element, self.apart)
        for k in reversed(range(depth)):
            run = self.runs[k]
            if pairs and k == last:
                element = PairType(_COLUMN, element)
            if run.length != n.nat(1) or not run.stored:
                element = n.array_type(element, run.length, run.var)
        return element

    @property
    def params(self) -> dict[str, Type]:
        """The parameters that a tensor fills: arrays of lengths, of coordinates, of values."""
        last = max((k for k, run in enumerate(self.runs) if run.stored), default=-1)
        coordinates = {
            run.stored: self.nested(_COLUMN, k + 1)
            for k, run in enumerate(self.runs)
            if run.stored and not (self.packed and k == last)
        }
        values = self.nested(self.value, len(self.runs), self.packed)
        return {**self.helpers, **coordinates, self.name: values}

    @property
    def type(self) -> Type:
        """One type: coordinates and values as a pair, unless they are packed."""
        *coordinates, type = (t for k, t in self.params.items() if k not in self.helpers)
        for each in reversed(coordinates):
            type = PairType(each, type)
        return type


def typed(
    format: Format, value: Type, name: str = "A", extents: Sequence[Nat] | None = None,
    apart: bool = False,
) -> Typed:  # fmt: skip
    """The type of a format whose values have the type `value`.

    `apart`: entries of the last level need not follow one another.

    Raises:
        PatternError: E709 if its formulas are no naturals, or its entries do not follow one
            another.
    """
    own = tuple(extents or (n.named(f"n{mode}") for mode in range(format.ndim)))
    sizes, names = _sizes(format, own), [f.name for level in format.levels for f in level.arrays]
    runs, place, parents = list[Run](), n.nat(0), n.nat(1)
    helpers, sources = dict[str, Type](), dict[str, tuple[int, str]]()
    strided = apart and any(level.strided for level in format.levels[-1:])
    try:
        for k, level in enumerate(format.levels):
            called = {f.name: f"{name}_{f.name}{k if names.count(f.name) > 1 else ''}"
                      for f in level.arrays}  # fmt: skip
            arrays = {f.name: _Array(called[f.name], f.holds) for f in level.arrays}
            view = SimpleNamespace(extent=sizes[k], parents=parents, **arrays)
            may_lie_apart = strided and level is format.levels[-1]
            run = _run(level, view, place, "ijklmnop"[k % 8], may_lie_apart)
            runs.append(run)
            sources |= {long: (k, short) for short, long in called.items()}
            helpers |= _read(level, called, run, parents)
            place, parents = run.place, n.nat(level.children(view, parents))
    except (TypeError, AttributeError, FormatError):
        refuse(f"{format!r} has no type of arrays in arrays: flags say which of its entries are "
               "there, or its numbers are narrower than the language has",
               "ow.CSR, ow.ELL, ow.BSR(2, 2), ow.ragged")  # fmt: skip
    places = f"n_{name}"
    known = {a.name for e in own for a in e.atoms if isinstance(a, n.Named)}
    lengths = (t.length for t in helpers.values() if isinstance(t, ArrayType))
    extra = {v for length in lengths for v in n.names_of(length)} - known
    if not strided:
        return Typed(format, name, tuple(runs), helpers, sources, value)
    nats = (*sorted(extra), places)
    return Typed(format, name, tuple(runs), helpers, sources, value, n.named(places), nats)


def refuse(message: str, hint: str | None = None) -> NoReturn:
    """What has no such type, or is the type of no format."""
    raise PatternError(message, code="E709", hint=hint)


def _sizes(format: Format, extents: Sequence[Nat]) -> list[Nat]:
    """The extent of each level."""
    found = []
    for mode, part in format.parts:
        tile = format.tiles[mode]
        blocks = n.divided(extents[mode] + (tile - 1), n.nat(tile)) if part == 0 else n.nat(tile)
        found.append(extents[mode] if part is None else blocks)
    return found


def _run(level: Level, view: Any, parent: Nat, var: str, may_lie_apart: bool) -> Run:
    """A level as a type."""
    narrow = level.bits not in (None, 32, 64)
    if not level.walks or narrow:
        raise FormatError("its entries are no array", code="E401")
    if (level.strided or not level.contiguous) and not may_lie_apart:
        raise FormatError("entries lie apart", code="E401")
    begin, end = n.nat(level.begin(view, parent)), n.nat(level.end(view, parent))
    if end - begin == n.nat(1):
        single = _coordinates(level, view, parent, begin, begin)
        if single[1]:
            return Run(var, end - begin, *single, begin)
    position = begin + n.named(var)
    place = n.nat(level.place(view, parent, position))
    return Run(var, end - begin, *_coordinates(level, view, parent, position, place), place)


def _coordinates(
    level: Level, view: Any, parent: Nat, position: Nat, place: Nat
) -> tuple[Nat, str]:
    """The coordinate at a position, and the array that it is read from, if that is all."""
    coordinate = n.nat(level.coordinate(view, parent, position))
    match coordinate.terms:
        case (((n.ToNat(expr=n.At(array=n.Var(name=array), index=n.OfNat(nat=at))),), 1),):
            return coordinate, array if at == place else ""
    return coordinate, ""


def _read(level: Level, called: dict[str, str], run: Run, parents: Nat) -> dict[str, Type]:
    """The arrays that formulas of a run read, but those with the coordinates."""
    values = [run.length] if run.stored else [run.length, run.coordinate]
    values += [run.place] if level.strided else []
    read = {a.name for value in values for a in n.walk_all(value) if isinstance(a, n.Var)}
    # Nothing but the array itself says how long it is where that does not follow from the parents.
    own = {f.name: n.named(f"n_{called[f.name]}") for f in level.arrays if f.per == "own"}
    return {
        called[f.name]: ArrayType(_COLUMN, own.get(f.name, parents + f.extra))
        for f in level.arrays
        if called[f.name] in read and f.per != "child"
    }


def same_shape(wanted: Type, given: Type, arrays: dict[str, str], depth: int = 0) -> bool:
    """Whether a type has the shape of another, whatever its extents and arrays are called.

    `arrays`: what those of `wanted` are called in `given`, which is filled.
    """
    match wanted, given:
        case Scalar(), Scalar():
            return wanted == given
        case PairType(), PairType():
            return same_shape(wanted.first, given.first, arrays, depth) and same_shape(
                wanted.second, given.second, arrays, depth
            )
        case ArrayType(), ArrayType():
            at = n.named(f".{depth}")
            return _same_length(wanted.length, given.length, arrays) and same_shape(
                wanted.at(at), given.at(at), arrays, depth + 1
            )
    return False


def _same_length(wanted: Nat, given: Nat, arrays: dict[str, str]) -> bool:
    if not _depends(wanted):
        return not _depends(given) and wanted.constant in (None, given.constant)
    for one, other in zip(_arrays(wanted), _arrays(given), strict=False):
        arrays.setdefault(one, other)
    renamed = {one: n.Var(other) for one, other in arrays.items()}
    return n.substituted(wanted, {}, renamed) == given


def _depends(value: Nat) -> bool:
    """Whether a length depends on data, or on a position."""
    return any(
        isinstance(a, n.ToNat) or (isinstance(a, n.Named) and a.name.startswith("."))
        for a in n.walk_all(value)
    )


def _arrays(value: Nat) -> list[str]:
    return list(dict.fromkeys(a.name for a in n.walk_all(value) if isinstance(a, n.Var)))
