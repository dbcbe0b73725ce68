"""What is known at a place in the program while loops are lowered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from openwork.index.nodes import Access, IndexVar, TensorVar
from openwork.loops.fresh import fresh_name
from openwork.program.lower.base.append import Appender
from openwork.program.lower.base.ranges import Range, Seam, Stretch
from openwork.program.nodes import INDEX, Expr, Name

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
class Bounds:
    """What variables run over at a place.

    `ranges` are the values that variables run over, worked out where their first loop began; `runs`
    those of a split variable in the run that its inner part runs over; `windows` are parts of them
    that a loop is to run over instead of all, and `stretches` such parts that depend on an outer
    variable. `full`: inner variables of splits whose runs are complete here.
    """

    ranges: Mapping[IndexVar, Range] = field(default_factory=dict)
    runs: Mapping[IndexVar, Range] = field(default_factory=dict)
    windows: Mapping[IndexVar, Range] = field(default_factory=dict)
    stretches: Mapping[IndexVar, Stretch | Seam] = field(default_factory=dict)
    full: frozenset[IndexVar] = frozenset()

    def confined(self, *variables: IndexVar) -> bool:
        """Whether a loop over one of `variables` is to run over a part of its values."""
        return any(v in self.windows or v in self.stretches for v in variables)


@dataclass(frozen=True)
class Sharing:
    """What threads have to do with a place.

    `parallel`: they share a loop around it. `atomic`: tensors that other threads write to as well;
    `racing`: those where a GPU's schedule leaves that to loops inside.
    """

    parallel: bool = False
    atomic: frozenset[TensorVar] = frozenset()
    racing: frozenset[TensorVar] = frozenset()

    def alone(self, tensor: TensorVar) -> Sharing:
        """Where nobody else writes to `tensor`."""
        return replace(self, atomic=self.atomic - {tensor})


@dataclass(frozen=True)
class Taken:
    """Names in use: `here`, in code around this place, and `lasting`, anywhere in the program."""

    here: frozenset[str] = frozenset()
    lasting: set[str] = field(default_factory=set)  # one set for the whole program


@dataclass(frozen=True)
class Scope:
    """Coordinates that are bound, places reached in each tensor, accumulators, names in use.

    `whole`: every position of the result written here is reached exactly once, so the result need
    not be initialised. `reducing`: some loop around this place is over a reduction variable.
    `depth`: loops around it. `flags`: what to raise when something is written to a tensor.
    `appender` keeps the books of the result, or of the piece of it at hand.
    """

    coords: Mapping[IndexVar, Expr] = field(default_factory=dict)
    places: Mapping[Access, tuple[Place, ...]] = field(default_factory=dict)
    accumulators: Mapping[Access, Expr] = field(default_factory=dict)
    tiles: Mapping[IndexVar, Tile] = field(default_factory=dict)
    flags: Mapping[TensorVar, Name] = field(default_factory=dict)
    bounds: Bounds = field(default_factory=Bounds)
    sharing: Sharing = field(default_factory=Sharing)
    taken: Taken = field(default_factory=Taken)
    appender: Appender | None = None
    whole: bool = True
    reducing: bool = False
    depth: int = 0

    @property
    def counting(self) -> bool:
        """Whether entries of the result are counted here, and no values computed."""
        return self.appender is not None and self.appender.counts

    @property
    def tier(self) -> int:
        """Which rows of the result are done here, by how many keys they have."""
        return 0 if self.appender is None else self.appender.tier

    def fresh(self, base: str, type: str = INDEX, *, lasting: bool = False) -> tuple[Name, Scope]:
        """A name like `base` that is not in use here, and the scope in which it is.

        A `lasting` name is declared outside of any loop of its own, so that code beside it, which
        has another scope, must not declare it again.
        """
        name = fresh_name(base, self.taken.here, self.taken.lasting)
        if lasting:
            self.taken.lasting.add(name)
        taken = replace(self.taken, here=self.taken.here | {name})
        return Name(name, type), replace(self, taken=taken)

    def without_name(self, name: str) -> Scope:
        """With `name` free again, for code beside that which took it."""
        return replace(self, taken=replace(self.taken, here=self.taken.here - {name}))

    def fresh_ends(self, base: str) -> tuple[Name, Name, Scope]:
        """Lasting names for where a range begins, and where it ends."""
        lo, scope = self.fresh(f"{base}_lo", lasting=True)
        hi, scope = scope.fresh(f"{base}_hi", lasting=True)
        return lo, hi, scope

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
        ranges = _with(self.bounds.ranges, var, values)
        return replace(self, bounds=replace(self.bounds, ranges=ranges))

    def enter(self, var: IndexVar, run: Range) -> Scope:
        """With `run` known to be that which the inner variable `var` of a split runs over."""
        return replace(self, bounds=replace(self.bounds, runs=_with(self.bounds.runs, var, run)))

    def complete(self, var: IndexVar) -> Scope:
        """With the runs complete that the inner variable `var` of a split runs over."""
        return replace(self, bounds=replace(self.bounds, full=self.bounds.full | {var}))

    def narrow(self, var: IndexVar, window: Range) -> Scope:
        """With a loop over `var` to run over `window` only."""
        windows = _with(self.bounds.windows, var, window)
        return replace(self, bounds=replace(self.bounds, windows=windows))

    def stretch(self, var: IndexVar, stretch: Stretch | Seam) -> Scope:
        """With a loop over `var` to stay within a stretch of pairs."""
        stretches = _with(self.bounds.stretches, var, stretch)
        return replace(self, bounds=replace(self.bounds, stretches=stretches))

    def reached(self, access: Access) -> tuple[Place, ...]:
        """The places of the levels of `access` that are known so far."""
        return self.places.get(access, ())

    def is_reached(self, access: Access) -> bool:
        """Whether the element of `access` itself is known."""
        return len(self.reached(access)) == access.tensor.ndim


def _with(table: Mapping[K, V], key: K, value: V) -> Mapping[K, V]:
    return {**table, key: value}
