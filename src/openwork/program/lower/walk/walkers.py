"""How operands take part in a loop: iterated over, located by formula, or searched."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from openwork.errors import InternalError
from openwork.format.levels import Level
from openwork.frozen import frozen
from openwork.index.nodes import Access, IndexVar
from openwork.program.lower.base.names import Names
from openwork.program.lower.base.ranges import Range
from openwork.program.lower.base.scope import Place, Scope
from openwork.program.lower.base.workspace import Workspaces
from openwork.program.nodes import (
    Array,
    Binary,
    Declare,
    Expr,
    Helper,
    If,
    Load,
    Name,
    Set,
    Stmt,
    Value,
    While,
    block,
    compare,
)
from openwork.tree import replace, substitute


@frozen
class Participant:
    """The role of one access in a loop over one variable.

    `walk` is the level whose segment drives the loop, if there is one; then each level in `steps`
    is reached by its known coordinate: by formula, or where `searched`, by a search.
    """

    access: Access
    walk: int | None
    steps: tuple[int, ...]
    searched: frozenset[int] = field(default=frozenset())

    @property
    def sparse(self) -> bool:
        """Whether the access may have no entry at a coordinate."""
        return self.walk is not None or bool(self.searched)


def participant(
    access: Access, var: IndexVar, scope: Scope, known: bool = False
) -> Participant | None:
    """The role of `access` in a loop over `var`; no level is iterated over if that is `known`."""
    levels, variables = access.tensor.format.levels, access.level_vars
    at = len(scope.reached(access))
    walk = None
    if not known and at < len(levels) and variables[at] == var and _is_walked(levels[at]):
        walk, at = at, at + 1
    steps: list[int] = []
    while at < len(levels) and (variables[at] == var or variables[at] in scope.coords):
        steps.append(at)
        at += 1
    if walk is None and not steps:
        return None
    searched = frozenset(n for n in steps if not levels[n].locates)
    return Participant(access, walk, tuple(steps), searched)


def _is_walked(level: Level) -> bool:
    """Whether loops iterate over the segments of a level, rather than test each coordinate."""
    return level.walks and not level.locates


@frozen
class Beside:
    """Interleaved segments, traversed together: one of them is that of parent `first + lane`."""

    first: Expr
    lane: Expr


@frozen
class Walker:
    """An iterator over a segment of positions: from `position` to `end`, now at `coordinate`."""

    part: Participant
    position: Name
    end: Name
    coordinate: Name
    segment: Name | None  # one past the positions that share the coordinate, if several can
    names: Names
    workspaces: Workspaces
    parent: Place
    window: Range | None = None  # of coordinates
    part_of_run: tuple[Expr, Expr] | None = None  # of positions
    beside: Beside | None = None
    present: Expr | None = None  # whether it has a parent at all, where that may be absent

    @property
    def level(self) -> int:
        """The level that it iterates over."""
        if self.part.walk is None:
            raise InternalError(f"{self.part.access} is not walked")
        return self.part.walk

    def bounds(self) -> tuple[Expr, Expr]:
        """The first position, and one past the last."""
        if self.part_of_run is not None:
            return self.part_of_run
        level = self.part.access.tensor.format.levels[self.level]
        view = self.workspaces.view(self.part.access, self.level)
        first, last = self.parent.position, self.parent.last
        return _expr(level.begin(view, first)), _expr(level.end(view, last))

    @property
    def confined(self) -> bool:
        """Whether only a part of the segment is traversed."""
        return self.window is not None or self.part_of_run is not None

    def _searched(self) -> list[Stmt]:
        """The position and end of the part of the segment whose coordinates lie in the window."""
        begin, end = self.bounds()
        if self.window is None:
            raise InternalError(f"{self.part.access} is not confined to a window")
        lo, hi, cut = self.window.lo, self.window.hi, self.window.seams
        stored = self.stored
        if stored is not None and cut is not None:
            names = self.position, self.end
            found: tuple[Expr, ...] = tuple(
                Helper("lower_bound", (stored, *names, bound)) for bound in (lo, hi)
            )
            found = cut.places.get(self.part.access, found)
            return [
                Declare(self.position, begin),
                Declare(self.end, end),
                *(
                    If(here, block(Set(name, place)))
                    for here, name, place in zip(cut.here, names, found, strict=True)
                ),
            ]
        if stored is not None:
            first = Helper("lower_bound", (stored, begin, end, lo))
            last = Helper("lower_bound", (stored, self.position, end, hi))
            return [Declare(self.position, first), Declare(self.end, last, fixed=True)]

        def pass_below(name: Name, bound: Expr) -> Stmt:
            below = compare("<", self.coordinate_at(name), bound)
            more = Binary("&&", compare("<", name, end), below)
            return While(more, block(Set(name, name + 1)))

        return [
            Declare(self.position, begin),
            pass_below(self.position, lo),
            Declare(self.end, self.position),
            pass_below(self.end, hi),
        ]

    @property
    def stored(self) -> Array | None:
        """The array of coordinates, if it can be searched."""
        level = self.part.access.tensor.format.levels[self.level]
        view = self.workspaces.view(self.part.access, self.level)
        return searchable(level, view, self.parent.position)

    @property
    def looks_ahead(self) -> bool:
        """Whether the segment is one of many in an operand, whose coordinates lie in an array."""
        return (
            self.level > 0
            and self.part.access.tensor in self.names.operands
            and self.segment is None
            and not self.part.searched
            and self.stored is not None
        )

    def coordinate_at(self, position: Expr) -> Expr:
        """The coordinate stored at `position`."""
        level = self.part.access.tensor.format.levels[self.level]
        view = self.workspaces.view(self.part.access, self.level)
        if self.beside is None:
            return _expr(level.coordinate(view, self.parent.position, position))
        parent = self.beside.first + self.beside.lane
        found = _expr(level.coordinate(view, parent, position))
        # Indexed by the place of the entry: adjacent lanes load adjacent elements.
        return substitute(found, {level.place(view, parent, position): self.place().position})

    def declare(self) -> list[Stmt]:
        """The position and end, before the loop; nothing to walk where the parent is absent."""
        code = self._declared()
        if self.present is None:
            return code
        empty = [Declare(name, Value(0)) for name in (self.position, self.end)]
        return [*empty, If(self.present, block(*map(_assigned, code)))]

    def _declared(self) -> list[Stmt]:
        if self.window is not None and self.part_of_run is None:
            return self._searched()
        begin, end = self.bounds()
        return [Declare(self.position, begin), Declare(self.end, end, fixed=True)]

    def find_segment(self, value: Expr) -> list[Stmt]:
        """Skip all positions with coordinate `value`, where a coordinate may occur many times."""
        if self.segment is None:
            return []
        more = Binary(
            "&&",
            compare("<", self.segment, self.end),
            compare("==", self.coordinate_at(self.segment), value),
        )
        step = Set(self.segment, self.segment + 1)
        return [Declare(self.segment, self.position), While(more, block(step))]

    def advance(self, matched: Expr) -> Stmt:
        """Advance past the current coordinate if it was `matched`."""
        if self.segment is not None:
            return Set(self.position, self.segment)
        return Set(self.position, self.position + matched)

    def place(self) -> Place:
        """The current place in the level."""
        level = self.part.access.tensor.format.levels[self.level]
        view = self.workspaces.view(self.part.access, self.level)
        if self.beside is not None:
            place = _expr(level.place(view, self.beside.first, self.position))
            return Place(place + self.beside.lane)
        place = _expr(level.place(view, self.parent.position, self.position))
        return Place(place, self.segment)


def make_walker(
    part: Participant,
    var: str,
    scope: Scope,
    names: Names,
    workspaces: Workspaces,
    declared: bool,
    window: Range | None = None,
    part_of_run: tuple[Expr, Expr] | None = None,
) -> tuple[Walker, Scope]:
    """A walker for the level that `part` iterates over, with names that are free in `scope`.

    `declared`: the position is declared before the loop, rather than by it.
    """
    access, level = part.access, part.walk
    if level is None:
        raise InternalError(f"{access} is not walked")
    tensor = names.of(access.tensor)
    position, scope = scope.fresh(f"p{tensor}{level + 1}", lasting=declared)
    end, scope = scope.fresh(f"{position.name}_end", lasting=declared)
    coordinate, scope = scope.fresh(f"{var}{tensor}")
    segment = None
    if not access.tensor.format.levels[level].unique:
        segment, scope = scope.fresh(f"{position.name}_next")
    reached = scope.reached(access)
    parent = reached[-1] if reached else Place(Value(0))
    walker = Walker(
        part, position, end, coordinate, segment, names, workspaces, parent, window, part_of_run,
        present=scope.perhaps.get(access),
    )  # fmt: skip
    return walker, scope


def take_steps(
    part: Participant, present: Expr | None, scope: Scope, names: Names, workspaces: Workspaces
) -> tuple[list[Stmt], Expr | None, Scope]:
    """Reach the levels in `part.steps`; returns code for searches and the condition of presence."""
    code: list[Stmt] = []
    access = part.access
    for n in part.steps:
        level = access.tensor.format.levels[n]
        view = workspaces.view(access, n)
        parent = (scope.reached(access) or (Place(Value(0)),))[-1]
        coordinate = scope.coords[access.level_vars[n]]
        if n not in part.searched:
            place = _expr(level.locate(view, parent.position, coordinate))
            scope = scope.reach(access, Place(place))
            continue
        found, scope = scope.fresh(f"p{names.of(access.tensor)}{n + 1}")
        if level.finds and present is None:  # the flag itself is the condition
            formula, there = level.find(view, parent.position, coordinate)
            code.append(Declare(found, _expr(formula), fixed=True))
            present = substitute(there, {_expr(formula): found})
            scope = scope.reach(access, Place(found))
            continue
        looked, there, scope = _look_up(level, view, parent, coordinate, found, scope)
        if isinstance(looked, Expr) and present is None:
            code.append(Declare(found, looked, fixed=True))
        else:
            steps = [Set(found, looked)] if isinstance(looked, Expr) else looked
            code.append(Declare(found, Value(-1)))
            if isinstance(there.end, Name):
                code.append(Declare(there.end, Value(-1)))
            code += steps if present is None else [If(present, block(*steps))]
        present = compare("<=", Value(0), found)
        scope = scope.reach(access, there)
    return code, present, scope


def _look_up(
    level: Level, view: Any, parent: Place, coordinate: Expr, found: Name, scope: Scope
) -> tuple[Expr | list[Stmt], Place, Scope]:
    """The place of a coordinate, or -1: by formula, by binary search, or by a linear scan.

    Returns a value for `found`, or code that sets it if the coordinate is present, and the place.
    """
    if level.finds:
        place, there = level.find(view, parent.position, coordinate)
        return [If(there, block(Set(found, _expr(place))))], Place(found), scope
    begin, end = _expr(level.begin(view, parent.position)), _expr(level.end(view, parent.last))
    stored = searchable(level, view, parent.position)
    lies = _expr(level.place(view, parent.position, found))  # elsewhere than its position, in DIA
    if stored is not None and level.unique and lies == found:
        return Helper("search", (stored, begin, end, coordinate)), Place(found), scope
    at, scope = scope.fresh(f"{found.name}_at")
    stands = _expr(level.coordinate(view, parent.position, at))
    place = Place(found)
    ends: list[Stmt] = []
    if stored is not None:
        first: list[Stmt] = [
            Declare(at, Helper("lower_bound", (stored, begin, end, coordinate)), fixed=True)
        ]
        if not level.unique:
            last, scope = scope.fresh(f"{found.name}_end")  # loops ask for it at each turn
            place = Place(found, last)
            ends = [Set(last, Helper("lower_bound", (stored, at, end, coordinate + 1)))]
    else:
        away = compare("!=", stands, coordinate)
        on = Binary("&&", compare("<", at, end), away)
        first = [Declare(at, begin), While(on, block(Set(at, at + 1)))]
    there = Binary("&&", compare("<", at, end), compare("==", stands, coordinate))
    hit = Set(found, _expr(level.place(view, parent.position, at)))
    return [*first, If(there, block(hit, *ends))], place, scope


def searchable(level: Level, view: Any, parent: Expr) -> Array | None:
    """The array of sorted coordinates of a segment, indexed by position, if there is one."""
    if not level.ordered:
        return None
    probe = Name("probe")
    stored = level.coordinate(view, parent, probe)
    return stored.array if isinstance(stored, Load) and stored.index == probe else None


def _assigned(stmt: Stmt) -> Stmt:
    return Set(stmt.name, stmt.value) if isinstance(stmt, Declare) else stmt


def _expr(value: object) -> Expr:
    if isinstance(value, Expr):
        return value
    if isinstance(value, int):
        return Value(value)
    raise InternalError(f"a level's formula gave {value!r}")


def without_walk(part: Participant) -> Participant:
    """`part` after its iterated level has been reached."""
    return replace(part, walk=None)
