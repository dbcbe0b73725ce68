"""In which order a product is computed: the cheapest tree of steps by estimated cost.

Up to eight factors, all trees are compared; any part of a tree may be one kernel over its factors.
With more, the cheapest step is taken first, again and again. Factors that do not commute are joined
with their neighbours only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from math import inf, prod

from openwork.frozen import frozen
from openwork.index.nodes import IndexVar
from openwork.tensor.contraction.costs import step_cost
from openwork.tensor.contraction.sizes import Size, join, spread

_MOST_COMPARED = 8
# Results of steps with a larger share of entries are stored whole.
_DENSE = 0.15
# Elements of such a result at most.
_MOST_ELEMENTS = 1 << 27

Members = frozenset[int]  # of the factors, by number


@frozen
class Tree:
    """One step: the product of `parts`, which are factors, by number, or steps before."""

    parts: tuple[Tree | int, ...]
    cost: float  # with those of the steps before

    @cached_property
    def members(self) -> Members:
        """The factors in it."""
        return frozenset().union(
            *(frozenset((p,)) if isinstance(p, int) else p.members for p in self.parts)
        )

    @property
    def is_one_kernel(self) -> bool:
        """Whether nothing is computed before."""
        return all(isinstance(part, int) for part in self.parts)

    def __str__(self) -> str:
        return f"({' '.join(map(str, self.parts))})"


class Search:
    """The search over the factors of one product.

    Args:
        sizes: of the factors.
        kept: the variables of the result.
        result: the size of the result, as it is stored.
        exact: whether results of steps list what one kernel would, because the result lists its
            entries. Elsewhere they are dense where that is faster.
        plain: whether BLAS knows the operators and the element type.
        commutes: whether factors may change places.
    """

    def __init__(
        self,
        sizes: Sequence[Size],
        kept: Sequence[IndexVar],
        result: Callable[[Size], Size],
        exact: bool,
        plain: bool,
        commutes: bool,
    ) -> None:
        self._sizes, self._kept, self._result = list(sizes), tuple(kept), result
        self._exact, self._plain, self._commutes = exact, plain, commutes
        self._all = frozenset(range(len(sizes)))
        self._known: dict[Members, Size] = {}
        self._best: dict[Members, Tree] = {}
        self._linked: dict[Members, bool] = {}

    def best(self) -> Tree:
        """The cheapest tree."""
        if len(self._all) > _MOST_COMPARED:
            return self._greedy()
        return self._cheapest(self._all)

    def one_kernel(self) -> Tree:
        """All factors in one step."""
        return self._joined(tuple(sorted(self._all)))

    def all_trees(self) -> list[Tree]:
        """Every tree of steps with two operands each, and the one kernel: for benchmarks."""
        return [self.one_kernel(), *self._trees(tuple(sorted(self._all)))]

    def _trees(self, ordered: Sequence[int]) -> Iterator[Tree]:
        for one, two in self._cuts(ordered):
            for left in self._parts(one):
                for right in self._parts(two):
                    yield self._joined((left, right))

    def _parts(self, ordered: Sequence[int]) -> list[Tree | int]:
        if len(ordered) > 1:
            return list(self._trees(ordered))
        return [self._part(frozenset(ordered))]

    def kept_of(self, members: Members) -> tuple[IndexVar, ...]:
        """The variables of the product of `members` that are used outside of it."""
        outside = set(self._kept)
        for n in self._all - members:
            outside.update(self._sizes[n].distinct)
        inside = dict.fromkeys(v for n in sorted(members) for v in self._sizes[n].order)
        return tuple(var for var in inside if var in outside)

    def size(self, members: Members) -> Size:
        """The size of the product of `members`: a factor, or the result of a step."""
        known = self._known.get(members)
        if known is None:
            known = self._known[members] = self._estimate(members)
        return known

    def _estimate(self, members: Members) -> Size:
        sizes = [self._sizes[n] for n in sorted(members)]
        kept = self.kept_of(members)
        if len(sizes) == 1 and len(kept) == len(sizes[0].distinct):
            return sizes[0]
        count = join(sizes)
        places = {v: min(s.distinct[v] for s in sizes if v in s.distinct) for v in kept}
        entries = spread(count, prod(places.values()))
        listed = frozenset(v for v in kept if any(v in s.sparse for s in sizes))
        extent = {v: max(s.distinct[v] for s in sizes if v in s.distinct) for v in kept}
        whole = prod(extent.values())
        if listed and (self._exact or entries < _DENSE * whole):
            return Size(entries, places, kept, listed)
        if whole > _MOST_ELEMENTS:
            return Size(inf, extent, kept, frozenset())
        return Size(whole, extent, kept, frozenset())

    def _output(self, members: Members) -> Size:
        size = self.size(members)
        return self._result(size) if members == self._all else size

    def _joined(self, parts: Sequence[Tree | int]) -> Tree:
        """The step that joins `parts`."""
        members = [frozenset((p,)) if isinstance(p, int) else p.members for p in parts]
        whole = frozenset().union(*members)
        # A factor that goes into the step directly has all of its variables.
        sizes = [
            self._sizes[p] if isinstance(p, int) else self.size(m)
            for p, m in zip(parts, members, strict=True)
        ]
        before = sum(p.cost for p in parts if isinstance(p, Tree))
        kept = self._kept if whole == self._all else self.kept_of(whole)
        cost = step_cost(sizes, self._output(whole), kept, self._plain)
        return Tree(tuple(parts), before + cost)

    def _cheapest(self, members: Members) -> Tree:
        known = self._best.get(members)
        if known is not None:
            return known
        ordered = tuple(sorted(members))
        found = self._joined(ordered)
        for one, two in self._cuts(ordered):
            parts = [self._part(frozenset(half)) for half in (one, two)]
            if sum(part.cost for part in parts if isinstance(part, Tree)) >= found.cost:
                continue
            tree = self._joined(parts)
            if tree.cost < found.cost:
                found = tree
        self._best[members] = found
        return found

    def _part(self, members: Members) -> Tree | int:
        """A factor as it is, or summed over what no other factor has; or a step."""
        if len(members) > 1:
            return self._cheapest(members)
        (factor,) = members
        return self._summed(factor) or factor

    def _summed(self, factor: int) -> Tree | None:
        """A factor summed over the variables that nothing else has; None if there are none."""
        size = self._sizes[factor]
        kept = self.kept_of(frozenset((factor,)))
        if len(kept) == len(size.distinct) or len(self._all) == 1:
            return None
        return self._joined((factor,))

    def _cuts(self, ordered: Sequence[int]) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
        """The ways to cut in two; the first factor is in the first half."""
        if not self._commutes:
            yield from ((ordered[:n], ordered[n:]) for n in range(1, len(ordered)))
            return
        first, *rest = ordered
        whole = self._connected(ordered)
        for chosen in range((1 << len(rest)) - 1):
            one = (first, *(r for n, r in enumerate(rest) if chosen >> n & 1))
            two = tuple(r for n, r in enumerate(rest) if not chosen >> n & 1)
            # Outer products are seldom cheap: not where every step can share a variable.
            if not whole or (self._connected(one) and self._connected(two)):
                yield one, two

    def _connected(self, members: Sequence[int]) -> bool:
        """Whether variables that factors share lead from each of `members` to all others."""
        known = self._linked.get(frozenset(members))
        if known is None:
            reached, waiting = set(self._sizes[members[0]].distinct), list(members[1:])
            while near := [n for n in waiting if not reached.isdisjoint(self._sizes[n].distinct)]:
                reached.update(*(self._sizes[n].distinct for n in near))
                waiting = [n for n in waiting if n not in near]
            known = self._linked[frozenset(members)] = not waiting
        return known

    def _greedy(self) -> Tree:
        """The step that costs least first, and then the next."""
        parts: list[Tree | int] = [self._part(frozenset((n,))) for n in sorted(self._all)]
        while len(parts) > 1:
            least = inf
            for one, two in self._pairs(parts):
                both = (parts[one], parts[two])
                tree = self._joined(both)
                alone = tree.cost - sum(p.cost for p in both if isinstance(p, Tree))
                after = alone + self.size(tree.members).entries
                if after < least:
                    least, place, other, found = after, one, two, tree
            parts[place] = found
            del parts[other]
        (last,) = parts
        return last if isinstance(last, Tree) else self._joined((last,))

    def _pairs(self, parts: Sequence[Tree | int]) -> list[tuple[int, int]]:
        """The pairs that may be joined: those that share a variable, if any do."""
        every = [(a, b) for b in range(len(parts)) for a in range(b)]
        if not self._commutes:
            return [(n, n + 1) for n in range(len(parts) - 1)]

        def variables(part: Tree | int) -> set[IndexVar]:
            if isinstance(part, int):
                return set(self._sizes[part].distinct)
            return set(self.size(part.members).distinct)

        return [p for p in every if variables(parts[p[0]]) & variables(parts[p[1]])] or every
