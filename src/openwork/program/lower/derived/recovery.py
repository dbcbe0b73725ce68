"""Recovery: the values of index variables from those that are known.

The relation that derived a variable answers each question about it: what it runs over (`values`),
its value where that follows from others (`value`), an upper bound for the number of its values
(`most`), and the window of coordinates or positions that enclosing runs confine it to. `Values`
has the questions; each relation answers them in a subclass in `relations/`. Positions are absolute:
they index the arrays of their level.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from openwork.errors import InternalError
from openwork.frozen import frozen
from openwork.index.nodes import IndexVar
from openwork.loops.provenance import Provenance
from openwork.loops.relations import Relation
from openwork.program.lower.base.context import Context
from openwork.program.lower.base.ranges import Range
from openwork.program.lower.base.scope import Scope
from openwork.program.nodes import Declare, Expr, Name, Stmt, Value
from openwork.tree import replace

R = TypeVar("R", bound=Relation)
Found = tuple[list[Stmt], Range, Scope]
Ends = tuple[Expr, Expr]
ZERO = Value(0)


@frozen
class Recovery:
    """The values of one kernel's variables; `answers` holds a `Values` per kind of relation."""

    ctx: Context
    answers: Mapping[type[Relation], type[Values[Any]]]

    @property
    def provenance(self) -> Provenance:
        """What each variable derives from."""
        return self.ctx.provenance

    def of(self, relation: Relation) -> Values[Any]:
        """The answers of a relation."""
        return self.answers[type(relation)](relation, self)

    def above(self, var: IndexVar) -> Values[Any] | None:
        """The answers of the relation that derived `var`; None if it is underived."""
        relation = self.provenance.above.get(var)
        return None if relation is None else self.of(relation)

    def values(self, var: IndexVar, scope: Scope) -> Found:
        """What `var` runs over here: code to compute it, the range, and the scope that knows it."""
        if var in scope.bounds.ranges:
            return [], scope.bounds.ranges[var], scope
        code, found, scope = self._values(var, scope)
        more, found, scope = self._named(var, found, scope)
        return [*code, *more], found, scope.remember(var, found)

    def known(self, var: IndexVar, scope: Scope) -> Range:
        """What `var` runs over, where the code that computes it is elsewhere."""
        if var in scope.bounds.ranges:
            return scope.bounds.ranges[var]
        _, found, _ = self._values(var, scope)
        return found

    def _values(self, var: IndexVar, scope: Scope) -> Found:
        above = self.above(var)
        return (
            ([], self.ctx.everything(var, scope), scope)
            if above is None
            else above.values(var, scope)
        )

    def _named(self, var: IndexVar, found: Range, scope: Scope) -> Found:
        """Name bounds that are costly to compute."""
        base = self.ctx.names.variables[var]
        code, (lo, hi), scope = named_ends(base, (found.lo, found.hi), scope)
        return code, replace(found, lo=lo, hi=hi), scope

    def value(self, var: IndexVar, scope: Scope) -> Expr | None:
        """The value of `var`, if it follows from what is known here."""
        if var in scope.coords:
            return scope.coords[var]
        above = self.above(var)
        return None if above is None else above.value(var, scope)

    def most(self, var: IndexVar) -> Expr:
        """An upper bound for the number of values of `var`, known before any loop."""
        above = self.above(var)
        return self.ctx.names.extent(var) if above is None else above.most(var)

    def outermost_window(
        self, var: IndexVar, scope: Scope
    ) -> tuple[list[Stmt], Ends | None, Scope]:
        """The coordinates that the outermost underived variable of `var` is confined to."""
        above, piece = self.above(var), scope.bounds.ranges.get(var)
        if above is None and piece is not None and not piece.everything:
            return [], (piece.lo, piece.hi), scope  # of a result that is assembled in pieces
        return ([], None, scope) if above is None else above.outermost_window(var, scope)

    def window_above(
        self, var: IndexVar, window: Ends, scope: Scope
    ) -> tuple[list[Stmt], Ends, Scope]:
        """A window of `var` as a window of its underived variable."""
        above = self.above(var)
        return ([], window, scope) if above is None else above.window_above(var, window, scope)

    def position_window(
        self, var: IndexVar, scope: Scope
    ) -> tuple[list[Stmt], Range | None, Scope]:
        """The positions that the enclosing runs confine `var` to; None: all."""
        above = self.above(var)
        if above is None:
            raise InternalError(f"{var} has no window of positions")
        return above.position_window(var, scope)


@frozen
class Values(ABC, Generic[R]):
    """The questions to a relation about the values of its children; `var` is one of them."""

    relation: R
    recovery: Recovery

    @property
    def ctx(self) -> Context:
        """What stays the same throughout the kernel."""
        return self.recovery.ctx

    @abstractmethod
    def values(self, var: IndexVar, scope: Scope) -> Found:
        """What `var` runs over."""

    @abstractmethod
    def value(self, var: IndexVar, scope: Scope) -> Expr | None:
        """The value of `var`, from those of the parents; None if they are not known."""

    @abstractmethod
    def most(self, var: IndexVar) -> Expr:
        """An upper bound for the number of values of `var`, known before any loop."""

    def outermost_window(
        self, var: IndexVar, scope: Scope
    ) -> tuple[list[Stmt], Ends | None, Scope]:
        """The coordinates that the outermost underived variable of `var` is confined to."""
        raise InternalError(f"{var} has no window of coordinates")

    def window_above(
        self, var: IndexVar, window: Ends, scope: Scope
    ) -> tuple[list[Stmt], Ends, Scope]:
        """A window of `var` as a window of its underived variable."""
        raise InternalError(f"{var} has no window of coordinates")

    def position_window(
        self, var: IndexVar, scope: Scope
    ) -> tuple[list[Stmt], Range | None, Scope]:
        """The positions that the enclosing runs confine `var` to; None: all."""
        raise InternalError(f"{var} has no window of positions")


def named_ends(base: str, ends: Ends, scope: Scope) -> tuple[list[Stmt], Ends, Scope]:
    """Name ends that are costly to compute `base`_begin and `base`_end."""
    code: list[Stmt] = []
    named: list[Expr] = []
    for end, side in zip(ends, ("begin", "end"), strict=True):
        if isinstance(end, (Name, Value)):
            named.append(end)
            continue
        name, scope = scope.fresh(f"{base}_{side}", lasting=True)
        code.append(Declare(name, end, fixed=True))
        named.append(name)
    return code, (named[0], named[1]), scope


def ceiling(size: Expr, n: int) -> Expr:
    """size / n, rounded up."""
    if isinstance(size, Value):
        return Value(-(-int(size.value.real) // n))
    return (size + (n - 1)) / n
