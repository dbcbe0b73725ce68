"""The provenance graph: what each index variable derives from.

It answers questions about spaces and dependences without generating code; how values and bounds
are recovered is in `program/lower/derived/`, one function per relation and question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from openwork.errors import InternalError
from openwork.frozen import frozen
from openwork.index.nodes import Access, IndexVar
from openwork.loops.relations import Cut, Fuse, Pos, Precompute, Relation


@frozen
class Provenance:
    """The relations of a schedule, in the order they were made."""

    relations: tuple[Relation, ...] = ()

    @cached_property
    def above(self) -> dict[IndexVar, Relation]:
        """The relation that made each derived variable."""
        return {child: r for r in self.relations for child in r.children}

    @cached_property
    def variables(self) -> frozenset[IndexVar]:
        """Every variable that a relation names."""
        return frozenset(v for r in self.relations for v in (*r.parents, *r.children))

    def roots(self, var: IndexVar) -> frozenset[IndexVar]:
        """The underived variables that `var` comes from."""
        relation = self.above.get(var)
        if relation is None:
            return frozenset([var])
        return frozenset(root for parent in relation.parents for root in self.roots(parent))

    def roots_of(self, variables: Iterable[IndexVar]) -> frozenset[IndexVar]:
        """The underived variables that any of `variables` comes from."""
        return frozenset(root for var in variables for root in self.roots(var))

    def underived(self, var: IndexVar) -> tuple[IndexVar, ...]:
        """The underived variables of `var` in the order they were fused."""
        relation = self.above.get(var)
        if relation is None:
            return (var,)
        found = (u for parent in relation.parents for u in self.underived(parent))
        return tuple(dict.fromkeys(found))

    def ancestors(self, var: IndexVar) -> Iterator[IndexVar]:
        """`var`, and every variable it comes from."""
        yield var
        relation = self.above.get(var)
        for parent in relation.parents if relation else ():
            yield from self.ancestors(parent)

    @cached_property
    def cuts(self) -> tuple[Cut, ...]:
        """The relations that cut variables into runs."""
        return tuple(r for r in self.relations if isinstance(r, Cut))

    @cached_property
    def has_positions(self) -> bool:
        """Whether any variable is in a position space."""
        return any(isinstance(r, Pos) for r in self.relations)

    def unrenamed(self, var: IndexVar) -> IndexVar:
        """The variable with the values of `var`, before it was bounded or renamed."""
        relation = self.above.get(var)
        if relation is None or not relation.renames:
            return var
        return self.unrenamed(relation.parents[0])

    def space(self, var: IndexVar) -> Pos | None:
        """The relation that put `var` into a position space; None in coordinate space."""
        relation = self.above.get(var)
        if relation is None or relation.to_coordinates:
            return None
        return relation if isinstance(relation, Pos) else self.space(relation.parents[0])

    def position_space(self, var: IndexVar) -> Pos:
        """The relation that put `var` into its position space."""
        pos = self.space(var)
        if pos is None:
            raise InternalError(f"{var} is not in position space")
        return pos

    def origin(self, pos: Pos) -> IndexVar:
        """The variable that positions replace: a fused one, or that of one level."""
        fuse = self.above.get(self.unrenamed(pos.parent))
        return fuse.fused if isinstance(fuse, Fuse) else self.underived(pos.parent)[-1]

    def spaces(self, var: IndexVar) -> list[Pos]:
        """Every `pos` relation among the ancestors of `var`."""
        return [r for v in self.ancestors(var) if isinstance(r := self.above.get(v), Pos)]

    def same_values(self, var: IndexVar) -> IndexVar:
        """The variable that `var` is another name of, in the loops that fill a workspace."""
        relation = self.above.get(var)
        return self.same_values(relation.parent) if isinstance(relation, Precompute) else var

    def strided(self, var: IndexVar) -> bool:
        """Whether consecutive values of `var` are not adjacent: it counts the runs of a split."""
        relation = self.above.get(var)
        if relation is None or len(relation.parents) > 1:
            return False
        return relation.counts_runs(var) or self.strided(relation.parents[0])

    def concerns(self, var: IndexVar, others: Iterable[IndexVar]) -> bool:
        """Whether `var` is a part of one of `others`, or the other way round."""
        mine = set(self.ancestors(var))
        return any(other in mine or var in self.ancestors(other) for other in others)

    def recoverable(self, known: Iterable[IndexVar]) -> frozenset[IndexVar]:
        """All variables whose values follow from those of `known`, upwards and downwards.

        A run and the place within it follow from a value; a fused value from both of its parts,
        and both parts from it.
        """
        found = set(known)
        while True:
            more = {
                v
                for r in self.relations
                for v in (*r.parents, *r.children)
                if v not in found and (found >= {*r.parents} or found >= {*r.children})
            }
            if not more:
                return frozenset(found)
            found |= more


def level_of(access: Access, var: IndexVar) -> int:
    """The level of `access` that `var` indexes; -1 if none."""
    return access.level_vars.index(var) if var in access.level_vars else -1
