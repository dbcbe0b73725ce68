"""What all relations have in common, and the two families: cuts and renamings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from openwork.frozen import frozen
from openwork.index.nodes import IndexVar
from openwork.tree import Node


class Relation(Node, ABC):
    """One step of a derivation: `parents` were replaced by `children`.

    `renames`: the child has the values of its parent. `to_coordinates`: children are coordinates,
    or numbers of pairs, even where parents are positions.
    """

    renames: ClassVar[bool] = False
    to_coordinates: ClassVar[bool] = False

    @property
    @abstractmethod
    def parents(self) -> tuple[IndexVar, ...]:
        """The variables that were replaced."""

    @property
    @abstractmethod
    def children(self) -> tuple[IndexVar, ...]:
        """The variables that came in their place."""

    @abstractmethod
    def names(self, base: str) -> tuple[str, ...]:
        """What the children are called in code, where the first parent is called `base`."""

    def counts_runs(self, var: IndexVar) -> bool:
        """Whether `var` counts runs of the parent, so that consecutive values are apart."""
        return False


@frozen
class Cut(Relation):
    """Runs of a variable: `outer` counts them, `inner` runs within one."""

    parent: IndexVar
    outer: IndexVar
    inner: IndexVar

    @property
    def parents(self) -> tuple[IndexVar, ...]:
        return (self.parent,)

    @property
    def children(self) -> tuple[IndexVar, ...]:
        return (self.outer, self.inner)

    @property
    def length(self) -> int | None:
        """How many values all runs but the last have, if that is a constant."""
        return None

    @property
    def even(self) -> bool:
        """Whether all runs but the last are of equal length."""
        return True

    def names(self, base: str) -> tuple[str, ...]:
        return (f"{base}0", f"{base}1")

    def counts_runs(self, var: IndexVar) -> bool:
        return var == self.outer


@frozen
class Renaming(Relation):
    """One variable in place of another, for the same iterations."""

    parent: IndexVar
    child: IndexVar

    @property
    def parents(self) -> tuple[IndexVar, ...]:
        return (self.parent,)

    @property
    def children(self) -> tuple[IndexVar, ...]:
        return (self.child,)

    def names(self, base: str) -> tuple[str, ...]:
        return (base,)
