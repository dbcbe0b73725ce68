"""Loop order: one in which every operand can be walked, and which operands must be converted.

A level that cannot be located has to be walked below its parents, so its variable must come after
theirs. Where the storage orders of the accesses conflict, the cheapest set of accesses gives way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from openwork.index.nodes import Access, IndexVar

Edge = tuple[IndexVar, IndexVar]


@dataclass(frozen=True)
class Order:
    """The loops from the outermost in, and the accesses whose storage does not fit them."""

    vars: tuple[IndexVar, ...]
    misfits: frozenset[Access]


def walk_edges(access: Access) -> frozenset[Edge]:
    """`(a, b)` for every `b` that can only be walked once `a` is known."""
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
    # What is stored densely below the last sparse level is written in any order, but inside it.
    edges |= {(chain[-1], var) for var in result.level_vars[len(chain) :]} if chain else set()
    return frozenset(edges)


def choose_order(
    variables: Sequence[IndexVar],
    constraints: dict[Access, frozenset[Edge]],
    costs: dict[Access, float],
    accesses: Sequence[Access],
) -> Order:
    """The loop order, giving up the cheapest set of `constraints` that makes one possible."""
    candidates = [access for access, edges in constraints.items() if edges]
    for misfits in _by_cost(candidates, costs):
        edges = {e for a, es in constraints.items() if a not in misfits for e in es}
        order = _topological(variables, edges, accesses)
        if order is not None:
            return Order(order, misfits)
    return Order(tuple(variables), frozenset(candidates))


def _by_cost(candidates: list[Access], costs: dict[Access, float]) -> list[frozenset[Access]]:
    """Sets of accesses to give up, the cheapest first; few are ever looked at."""
    if not candidates:
        return [frozenset()]
    most = len(candidates) if len(candidates) <= 8 else 2
    sets = [frozenset(c) for n in range(most + 1) for c in combinations(candidates, n)]
    if most < len(candidates):
        sets.append(frozenset(candidates))
    return sorted(sets, key=lambda s: (sum(costs[a] for a in s), len(s)))


def _topological(
    variables: Sequence[IndexVar], edges: set[Edge], accesses: Sequence[Access]
) -> tuple[IndexVar, ...] | None:
    """An order that respects `edges`: walked variables first, then dense ones by stride."""
    walked = {v for e in edges for v in e} | {
        var
        for access in accesses
        for level, var in zip(access.tensor.format.levels, access.level_vars, strict=True)
        if not level.full
    }
    unit_stride = {
        var: sum(bool(a.level_vars) and a.level_vars[-1] == var for a in accesses)
        for var in variables
    }

    def rank(var: IndexVar) -> tuple[bool, int, int]:
        dense = var not in walked
        return (dense, unit_stride[var] if dense else 0, variables.index(var))

    order: list[IndexVar] = []
    left = set(variables)
    while left:
        free = [v for v in left if not any(a in left and b == v for a, b in edges)]
        if not free:
            return None
        order.append(min(free, key=rank))
        left.remove(order[-1])
    return tuple(order)
