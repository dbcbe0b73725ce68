"""Loop order: every operand is traversed in storage order, or converted.

A level without `locate` is iterated below its parents, so its variable must come after theirs.
Where storage orders conflict, or force a nest that does far too much work (SpGEMM by inner
products, say), operands are converted. The cheapest set of conversions wins, by a rough count of
the iterations of conversions and loops together.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from itertools import combinations, islice
from math import prod

from openwork.format.formats import Format
from openwork.format.levels import Compressed
from openwork.frozen import frozen
from openwork.index.nodes import Access, IndexVar

Edge = tuple[IndexVar, IndexVar]

# The cost of a conversion per entry, in iterations of a loop.
_CONVERSION = 10.0
# Guesses for tensors without data.
_EXTENT, _RUN = 1000.0, 10.0
# How many pairs of conversions and order are examined, few conversions first.
_MOST_TRIED = 300


@frozen
class Order:
    """The loops from the outermost in, and the accesses whose storage does not fit them."""

    vars: tuple[IndexVar, ...]
    misfits: frozenset[Access]


@frozen
class Costs:
    """What is known, or guessed, about sizes."""

    extents: Mapping[IndexVar, int | None]
    entries: Mapping[str, float]

    def extent(self, var: IndexVar) -> float:
        """The extent of `var`."""
        known = self.extents.get(var)
        return _EXTENT if known is None else float(known)

    def stored(self, access: Access) -> float:
        """The number of entries of the tensor."""
        if access.tensor.name in self.entries:
            return self.entries[access.tensor.name]
        sizes = [self.extent(var) for var in access.vars]
        return max(sizes, default=1.0) * _RUN

    def run(self, access: Access, var: IndexVar) -> float:
        """How many entries of `access` a loop over `var` visits, below known outer coordinates."""
        levels, variables = access.tensor.format.levels, access.level_vars
        at = variables.index(var)
        if levels[at].full:
            return self.extent(var)
        parents = 1.0
        for n, (level, outer) in enumerate(zip(levels[:at], variables[:at], strict=True)):
            parents *= self.extent(outer)
            if not level.full:
                parents = min(parents, self._places(access, n))
        return min(self.extent(var), max(1.0, self._places(access, at) / max(parents, 1.0)))

    def _places(self, access: Access, level: int) -> float:
        """About how many places a level has: below each are all of those at full levels."""
        below = list(zip(access.tensor.format.levels, access.level_vars, strict=True))[level + 1 :]
        each = prod(self.extent(var) for kind, var in below if kind.full)
        return self.stored(access) / max(each, 1.0)

    def work(self, order: Sequence[IndexVar], runs: Sequence[Mapping[IndexVar, float]]) -> float:
        """Iterations of a nest in which the sparsest operand drives each loop.

        `runs`: for each operand, the trip counts of loops along it.
        """
        total, around = 0.0, 1.0
        for var in order:
            mine = [table[var] for table in runs if var in table]
            around *= min(mine, default=self.extent(var))
            total += around
        return total


def walk_edges(access: Access) -> frozenset[Edge]:
    """`(a, b)` for every `b` that can only be iterated once `a` is known."""
    edges: set[Edge] = set()
    seen: list[IndexVar] = []
    for level, var in zip(access.tensor.format.levels, access.level_vars, strict=True):
        if not level.full and var not in seen:
            edges |= {(before, var) for before in seen}
        seen.append(var)
    return frozenset(edges)


def append_edges(result: Access) -> frozenset[Edge]:
    """A result is appended to in the order of its levels, down to the last that is not full."""
    levels = result.tensor.format.levels
    sparse = [n for n, level in enumerate(levels) if not level.full]
    chain = result.level_vars[: sparse[-1] + 1] if sparse else ()
    edges = {(chain[n], later) for n in range(len(chain)) for later in chain[n + 1 :]}
    # Dense levels below the last sparse one are written in any order, but inside it.
    edges |= {(chain[-1], var) for var in result.level_vars[len(chain) :]} if chain else set()
    return frozenset(edges)


def choose_order(
    variables: Sequence[IndexVar],
    constraints: Mapping[Access, frozenset[Edge]],
    operands: Sequence[Access],
    result: Access,
    costs: Costs,
    always: frozenset[Edge] = frozenset(),
) -> Order:
    """The cheapest loop order that keeps `always`, with the accesses to be converted for it."""
    candidates = [access for access, edges in constraints.items() if edges]
    entries = {a: costs.stored(a) for a in operands}
    # Slightly less than its operands together, so that one conversion beats several.
    entries[result] = 0.9 * sum(entries.values())
    orders = _Orders(variables, [*operands, result])
    holders: dict[Edge, set[Access]] = {}
    for access, edges in constraints.items():
        for edge in edges:
            holders.setdefault(edge, set()).add(access)

    def tries() -> Iterator[Order]:
        # A single operand is traversed in storage order; only conflicts call for conversions.
        for misfits in _subsets(candidates) if len(candidates) > 1 else [frozenset[Access]()]:
            edges = always.union(e for e, those in holders.items() if not those <= misfits)
            for order in orders.with_edges(edges):
                yield Order(order, misfits)

    runs: dict[tuple[int, tuple[IndexVar, ...]], dict[IndexVar, float]] = {}

    def runs_of(number: int, order: Order) -> dict[IndexVar, float]:
        """The trip counts of loops along one operand, which many orders have in common."""
        access = operands[number]
        misfits = access in order.misfits
        mine = tuple([v for v in order.vars if v in access.vars]) if misfits else ()
        if (number, mine) not in runs:
            walked = converted(access, order.vars) if misfits else access
            runs[number, mine] = {v: costs.run(walked, v) for v in dict.fromkeys(walked.vars)}
        return runs[number, mine]

    def cost(order: Order, best: float) -> float:
        conversions = _CONVERSION * sum(entries[a] for a in order.misfits)
        if conversions >= best:
            return conversions  # whatever the loops cost
        tables = [runs_of(n, order) for n in range(len(operands))]
        return costs.work(order.vars, tables) + conversions

    everything = next(iter(orders.with_edges(always)))
    unordered = Order(everything, frozenset(candidates))
    chosen, least = unordered, cost(unordered, float("inf"))
    for order in islice(tries(), _MOST_TRIED):
        found = cost(order, least)
        if found < least or (found == least and chosen is unordered):
            chosen, least = order, found
    return chosen


def _subsets(candidates: list[Access]) -> Iterator[frozenset[Access]]:
    """Sets of accesses to convert, small ones first."""
    for size in range(len(candidates) + 1):
        yield from map(frozenset, combinations(candidates, size))


def converted(access: Access, order: Sequence[IndexVar]) -> Access:
    """`access` to the same tensor, stored so that it can be traversed in `order`.

    It has the same number of leading full levels, then compressed ones. A full level below a
    sparse one also stores coordinates without entries; in another mode order those would be others,
    so such levels are not kept.
    """
    levels = access.tensor.format.levels
    modes = sorted(range(len(levels)), key=lambda m: (order.index(access.vars[m]), m))
    leading = next((n for n, level in enumerate(levels) if not level.full), len(levels))
    storage = Format([*levels[:leading], *[Compressed] * (len(levels) - leading)], modes)
    return Access(replace(access.tensor, format=storage), access.vars, access.span)


def _in_a_circle(before: Mapping[IndexVar, set[IndexVar]]) -> bool:
    """Whether some variables each have to come before themselves."""
    try:
        TopologicalSorter(before).prepare()
    except CycleError:
        return True
    return False


class _Orders:
    """The orders of `variables` that respect some edges, the likeliest first.

    Variables of sparse levels come first; then dense ones by stride, so that the innermost loop
    runs along memory.
    """

    def __init__(self, variables: Sequence[IndexVar], accesses: Sequence[Access]) -> None:
        self.variables = variables
        self.sparse = {
            var
            for access in accesses
            for level, var in zip(access.tensor.format.levels, access.level_vars, strict=True)
            if not level.full
        }
        innermost = Counter(a.level_vars[-1] for a in accesses if a.level_vars)
        self.by_stride = sorted(variables, key=lambda var: innermost[var])
        self._known: dict[frozenset[Edge], list[tuple[IndexVar, ...]]] = {}

    def with_edges(self, edges: frozenset[Edge]) -> Sequence[tuple[IndexVar, ...]]:
        """The orders in which for each edge the first variable comes before the second."""
        if edges not in self._known:
            self._known[edges] = list(islice(self._all(edges), _MOST_TRIED))
        return self._known[edges]

    def _all(self, edges: frozenset[Edge]) -> Iterator[tuple[IndexVar, ...]]:
        walked = self.sparse.union(*edges)
        first = [var for var in self.variables if var in walked]
        rest = [var for var in self.by_stride if var not in walked]
        before = defaultdict[IndexVar, set[IndexVar]](set)
        for a, b in edges:
            before[b].add(a)
        if _in_a_circle(before):
            return iter(())  # else every beginning of an order would be tried

        def extend(order: tuple[IndexVar, ...]) -> Iterator[tuple[IndexVar, ...]]:
            left = [var for var in first if var not in order]
            if not left:
                yield (*order, *rest)
            for var in left:
                if before[var].isdisjoint(left):
                    yield from extend((*order, var))

        return extend(())
