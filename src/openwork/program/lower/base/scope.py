"""What is known at a point of the program while loops are lowered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TypeVar

from openwork.frozen import frozen
from openwork.index.nodes import Access, IndexVar, TensorVar
from openwork.loops.fresh import fresh_name
from openwork.loops.nodes import Stmt
from openwork.program.lower.base.append import Appender
from openwork.program.lower.base.ranges import Range, Seam, Stretch
from openwork.program.nodes import INDEX, Block, Expr, For, If, Name, Value, block, compare
from openwork.tree import replace

K = TypeVar("K")
V = TypeVar("V")


@frozen
class Place:
    """A position in a level, or with `end` the run of positions that share a coordinate."""

    position: Expr
    end: Expr | None = None

    @property
    def last(self) -> Expr:
        """The last position of the run."""
        return self.position if self.end is None else self.end - 1


@frozen
class Tile:
    """`width` columns from `first` on, to which a loop over `var` is restricted.

    `counter`: the name of the loops' counter. `end`: where the columns end, if perhaps earlier.
    """

    var: IndexVar
    first: Expr
    width: int
    counter: str
    end: Expr | None = None

    def loop(self, at: Name, body: Block) -> For:
        """for (at = 0; at < width; at++) body"""
        if self.end is not None:
            body = block(If(compare("<", self.first + at, self.end), body))
        return For(at, Value(0), Value(self.width), body, unrolled=True)


@frozen
class Bounds:
    """The ranges of variables at a point of the program.

    `ranges` are the values that variables run over, computed where their first loop begins; `runs`
    those of a split variable in the run of its inner variable; `windows` restrict loops to a part
    of them, and `stretches` to a part that depends on an outer variable. `full`: inner variables of
    splits whose runs are complete here.
    """

    ranges: Mapping[IndexVar, Range] = field(default_factory=dict)
    runs: Mapping[IndexVar, Range] = field(default_factory=dict)
    windows: Mapping[IndexVar, Range] = field(default_factory=dict)
    stretches: Mapping[IndexVar, Stretch | Seam] = field(default_factory=dict)
    full: frozenset[IndexVar] = frozenset()

    def confined(self, *variables: IndexVar) -> bool:
        """Whether a loop over one of `variables` is restricted to a part of its values."""
        return any(v in self.windows or v in self.stretches for v in variables)


@frozen
class Sharing:
    """How threads share a point of the program.

    `parallel`: it is inside a parallel loop. `atomic`: tensors that other threads write as well;
    `racing`: those for which a GPU schedule leaves atomics to inner loops. `owned`: when an
    accumulated entry of an atomic tensor is written by this thread alone. `last`: what is written
    here ends the run of a GPU thread, whose neighbour may go on with the same entry. `thread`: a
    GPU thread runs this, with memory of its own.
    """

    parallel: bool = False
    atomic: frozenset[TensorVar] = frozenset()
    racing: frozenset[TensorVar] = frozenset()
    owned: Expr | None = None
    last: bool = False
    thread: bool = False

    def alone(self, tensor: TensorVar) -> Sharing:
        """Where no other thread writes `tensor`."""
        return replace(self, atomic=self.atomic - {tensor})


@frozen
class Part:
    """The positions of an operand that a thread takes, run by run.

    `parents`: those of the current position, which it advances from one run to the next.
    """

    window: Range
    parents: tuple[Expr | None, ...]


@frozen
class Taken:
    """Names in use: `here`, in code around this point, and `lasting`, anywhere in the program."""

    here: frozenset[str] = frozenset()
    lasting: set[str] = field(default_factory=set)  # one set for the whole program


@frozen
class Scope:
    """Bound coordinates, places reached in each tensor, accumulators, names in use.

    `whole`: each position of the result is written exactly once here, so the result need not be
    initialized. `reducing`: an enclosing loop is over a reduction variable. `depth`: the number of
    enclosing loops. `flags`: the flag to set when a tensor is written. `perhaps`: operands that may
    be absent here, and the condition under which they are present; they have a place only then.
    `settled`: an assignment that is only reached where it has work. `parts`: the positions that the
    thread takes before and after the current run. `appender` assembles the
    result, or the current piece of it.
    """

    coords: Mapping[IndexVar, Expr] = field(default_factory=dict)
    places: Mapping[Access, tuple[Place, ...]] = field(default_factory=dict)
    accumulators: Mapping[Access, Expr] = field(default_factory=dict)
    tiles: Mapping[IndexVar, Tile] = field(default_factory=dict)
    flags: Mapping[TensorVar, Name] = field(default_factory=dict)
    perhaps: Mapping[Access, Expr] = field(default_factory=dict)
    settled: Stmt | None = None
    parts: Mapping[Access, Part] = field(default_factory=dict)
    bounds: Bounds = field(default_factory=Bounds)
    sharing: Sharing = field(default_factory=Sharing)
    taken: Taken = field(default_factory=Taken)
    appender: Appender | None = None
    whole: bool = True
    reducing: bool = False
    depth: int = 0

    @property
    def counting(self) -> bool:
        """Whether this pass counts entries of the result, and computes no values."""
        return self.appender is not None and self.appender.counts

    @property
    def tier(self) -> int:
        """Which rows of the result are computed here, by their number of keys."""
        return 0 if self.appender is None else self.appender.tier

    def fresh(self, base: str, type: str = INDEX, *, lasting: bool = False) -> tuple[Name, Scope]:
        """A name like `base` that is not in use here, and the scope in which it is.

        A `lasting` name is declared outside any loop of its own, so that sibling code, which has
        another scope, must not declare it again.
        """
        name = fresh_name(base, self.taken.here, self.taken.lasting)
        if lasting:
            self.taken.lasting.add(name)
        taken = replace(self.taken, here=self.taken.here | {name})
        return Name(name, type), replace(self, taken=taken)

    def without_name(self, name: str) -> Scope:
        """With `name` free again, for siblings of the code that used it."""
        return replace(self, taken=replace(self.taken, here=self.taken.here - {name}))

    def fresh_ends(self, base: str) -> tuple[Name, Name, Scope]:
        """Lasting names for the begin and the end of a range."""
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

    def given(self, conditions: Mapping[Access, Expr | None]) -> Scope:
        """With operands present under `conditions`; None: certainly."""
        table = {a: c for a, c in {**self.perhaps, **conditions}.items() if c is not None}
        return replace(self, perhaps=table)

    def accumulate(self, access: Access, place: Expr) -> Scope:
        """With `access` accumulated in `place`, a scalar or an element of a local array."""
        return replace(self, accumulators=_with(self.accumulators, access, place))

    def flag(self, tensor: TensorVar, name: Name) -> Scope:
        """With `name` set whenever `tensor` is written."""
        return replace(self, flags=_with(self.flags, tensor, name))

    def remember(self, var: IndexVar, values: Range) -> Scope:
        """With `values` known as the range of `var`."""
        ranges = _with(self.bounds.ranges, var, values)
        return replace(self, bounds=replace(self.bounds, ranges=ranges))

    def enter(self, var: IndexVar, run: Range) -> Scope:
        """With `run` known as the range of the inner variable `var` of a split."""
        return replace(self, bounds=replace(self.bounds, runs=_with(self.bounds.runs, var, run)))

    def taking(self, access: Access, part: Part) -> Scope:
        """With runs of positions of `access` that follow one another in a thread."""
        return replace(self, parts=_with(self.parts, access, part))

    def complete(self, var: IndexVar) -> Scope:
        """With complete runs for the inner variable `var` of a split."""
        return replace(self, bounds=replace(self.bounds, full=self.bounds.full | {var}))

    def narrow(self, var: IndexVar, window: Range) -> Scope:
        """With loops over `var` restricted to `window`."""
        windows = _with(self.bounds.windows, var, window)
        return replace(self, bounds=replace(self.bounds, windows=windows))

    def stretch(self, var: IndexVar, stretch: Stretch | Seam) -> Scope:
        """With loops over `var` restricted to a range of pairs."""
        stretches = _with(self.bounds.stretches, var, stretch)
        return replace(self, bounds=replace(self.bounds, stretches=stretches))

    def reached(self, access: Access) -> tuple[Place, ...]:
        """The places of the levels of `access` that are known so far."""
        return self.places.get(access, ())

    def is_reached(self, access: Access) -> bool:
        """Whether the element of `access` itself is reached."""
        return len(self.reached(access)) == access.tensor.ndim


def _with(table: Mapping[K, V], key: K, value: V) -> Mapping[K, V]:
    return {**table, key: value}
