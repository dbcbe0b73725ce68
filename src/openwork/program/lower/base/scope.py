"""What is known at a place in the program while loops are lowered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from openwork.index.nodes import Access, IndexVar, TensorVar
from openwork.loops.relations import Pos
from openwork.program.nodes import INDEX, Expr, Name, Value, arithmetic, compare
from openwork.tree import fresh_name

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class Place:
    """A position in a level, or with `end` the run of positions that share a coordinate."""

    position: Expr
    end: Expr | None = None

    @property
    def last(self) -> Expr:
        """The last position of the run."""
        return self.position if self.end is None else self.end - 1


@dataclass(frozen=True)
class Tile:
    """`width` columns from `first` on, over which a loop over `var` runs instead of all."""

    var: IndexVar
    first: Name
    width: int


@dataclass(frozen=True)
class Ends:
    """The ends of a window of coordinates, at either of which it may be that nothing is cut off.

    `here`: whether something is. `places`: the positions of operands there, if it is.
    """

    here: tuple[Expr, Expr]
    places: Mapping[Access, tuple[Expr, Expr]]


@dataclass(frozen=True)
class Range:
    """The values of a variable: from `lo` up to below `hi`.

    `pos`: they are positions, of the level that this relation names, or `within` a run of such;
    `levels` then has the first and last positions of the levels above it, outermost first.
    `missing`: positions of an operand that has no entry here. `first` and `last`: whether a window
    of positions is the first or the last of all; None if it certainly is.

    `fixed`: how many values there are, where that is a constant; `multiple`: what their number can
    be divided by without a rest. `everything`: all coordinates of a dimension. `counts`: the
    variable whose values are the places in this range, from zero on; there are `most` of them, or
    fewer. `longest`: places in any run, of which the one that is meant may have fewer.
    `cut`: what is known about the ends of a window.
    """

    lo: Expr
    hi: Expr
    pos: Pos | None = None
    within: Pos | None = None
    levels: tuple[tuple[Expr, Expr], ...] = ()
    fixed: int | None = None
    multiple: int = 1
    missing: bool = False
    first: Expr | None = None
    last: Expr | None = None
    everything: bool = False
    counts: IndexVar | None = None
    most: int | None = None
    longest: bool = False
    cut: Ends | None = None

    @property
    def size(self) -> Expr:
        """How many values there are."""
        return Value(self.fixed) if self.fixed is not None else self.hi - self.lo


@dataclass(frozen=True)
class Stretch:
    """A stretch of the pairs of two fused variables, as it bounds the inner one.

    The pairs from number `lo` up to below `hi`, of `outer` and an inner variable of `size` values
    from `first` on.
    """

    outer: IndexVar
    outer_first: Expr
    lo: Expr
    hi: Expr
    size: Expr
    first: Expr

    def window(self, outer: Expr) -> Range:
        """What the inner variable has where the outer one is known."""
        before = (outer - self.outer_first) * self.size
        lo = arithmetic("max", self.lo - before, Value(0))
        hi = arithmetic("min", self.hi - before, self.size)
        return Range(self.first + lo, self.first + hi)


@dataclass(frozen=True)
class Seam:
    """The pairs of `outer` and an inner variable from one cut to another, as they bound the latter.

    A cut is before a pair, of which it has the two values. The inner variable has `size` values.
    `places`: the positions of operands at both cuts, where they are known.
    """

    outer: IndexVar
    first: tuple[Expr, Expr]
    last: tuple[Expr, Expr]
    size: Expr
    places: Mapping[Access, tuple[Expr, Expr]]

    def window(self, outer: Expr) -> Range:
        """What the inner variable has where the outer one is known."""
        begins, ends = compare("==", outer, self.first[0]), compare("==", outer, self.last[0])
        lo, hi = begins * self.first[1], self.size - ends * (self.size - self.last[1])
        return Range(lo, hi, cut=Ends((begins, ends), self.places))


@dataclass(frozen=True)
class Scope:
    """Coordinates that are bound, places reached in each tensor, accumulators, names in use.

    `ranges` are the values that variables run over, worked out where their first loop began; `runs`
    those of a split variable in the run that its inner part runs over; `windows` are parts of them
    that a loop is to run over instead of all, and `stretches` such parts that depend on an outer
    variable. `full`: inner variables of splits whose runs are complete here. `atomic`: tensors that
    other threads write to as well; `racing`: those where a GPU's schedule leaves that to loops
    inside.

    `whole`: every position of the result written here is reached exactly once, so the result need
    not be initialised. `reducing`: some loop around this place is over a reduction variable.
    `parallel`: threads share a loop around this place. `flags`: what to raise when something is
    written to a tensor.
    """

    coords: Mapping[IndexVar, Expr] = field(default_factory=dict)
    places: Mapping[Access, tuple[Place, ...]] = field(default_factory=dict)
    accumulators: Mapping[Access, Expr] = field(default_factory=dict)
    tiles: Mapping[IndexVar, Tile] = field(default_factory=dict)
    flags: Mapping[TensorVar, Name] = field(default_factory=dict)
    ranges: Mapping[IndexVar, Range] = field(default_factory=dict)
    runs: Mapping[IndexVar, Range] = field(default_factory=dict)
    windows: Mapping[IndexVar, Range] = field(default_factory=dict)
    stretches: Mapping[IndexVar, Stretch | Seam] = field(default_factory=dict)
    full: frozenset[IndexVar] = frozenset()
    atomic: frozenset[TensorVar] = frozenset()
    racing: frozenset[TensorVar] = frozenset()
    taken: frozenset[str] = frozenset()
    lasting: set[str] = field(default_factory=set)  # one set for the whole program
    whole: bool = True
    reducing: bool = False
    parallel: bool = False
    depth: int = 0

    def fresh(self, base: str, type: str = INDEX, *, lasting: bool = False) -> tuple[Name, Scope]:
        """A name like `base` that is not in use here, and the scope in which it is.

        A `lasting` name is declared outside of any loop of its own, so that code beside it, which
        has another scope, must not declare it again.
        """
        name = fresh_name(base, self.taken, self.lasting)
        if lasting:
            self.lasting.add(name)
        return Name(name, type), replace(self, taken=self.taken | {name})

    def bind(self, var: IndexVar, value: Expr) -> Scope:
        """With `var` at coordinate `value`."""
        return replace(self, coords=_with(self.coords, var, value))

    def reach(self, access: Access, place: Place) -> Scope:
        """With the next level of `access` at `place`."""
        return replace(self, places=_with(self.places, access, (*self.reached(access), place)))

    def without(self, absent: set[Access]) -> Scope:
        """With no place in operands that have no entry here."""
        places = {a: places for a, places in self.places.items() if a not in absent}
        return replace(self, places=places)

    def accumulate(self, access: Access, place: Expr) -> Scope:
        """With `access` kept in `place`, a scalar or an element of a local array."""
        return replace(self, accumulators=_with(self.accumulators, access, place))

    def flag(self, tensor: TensorVar, name: Name) -> Scope:
        """With `name` raised whenever something is written to `tensor`."""
        return replace(self, flags=_with(self.flags, tensor, name))

    def remember(self, var: IndexVar, values: Range) -> Scope:
        """With `values` known to be what `var` runs over."""
        return replace(self, ranges=_with(self.ranges, var, values))

    def narrow(self, var: IndexVar, window: Range) -> Scope:
        """With a loop over `var` to run over `window` only."""
        return replace(self, windows=_with(self.windows, var, window))

    def stretch(self, var: IndexVar, stretch: Stretch | Seam) -> Scope:
        """With a loop over `var` to stay within a stretch of pairs."""
        return replace(self, stretches=_with(self.stretches, var, stretch))

    def reached(self, access: Access) -> tuple[Place, ...]:
        """The places of the levels of `access` that are known so far."""
        return self.places.get(access, ())

    def is_reached(self, access: Access) -> bool:
        """Whether the element of `access` itself is known."""
        return len(self.reached(access)) == access.tensor.ndim


def _with(table: Mapping[K, V], key: K, value: V) -> Mapping[K, V]:
    return {**table, key: value}
