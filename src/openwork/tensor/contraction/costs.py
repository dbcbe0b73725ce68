"""The estimated time of a step: of one loop nest over its operands, or of a matrix product.

Nanoseconds on one core; only their ratios matter. They were measured by bench/contractions.py.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from openwork.frozen import frozen
from openwork.index.nodes import IndexVar
from openwork.tensor.contraction.sizes import Size, skew, spread

_ENTER = 1.5  # an iteration of a loop around others
_ENTRY = 1.0  # an innermost iteration, over listed coordinates
_LANE = 0.1  # an innermost iteration, over neighbours
_SCATTER = 5.0  # a contribution to a sparse result, through a workspace
_LISTED = 8.0  # an entry of a sparse result
_WRITTEN = 1.0  # an element of a dense result
_CONVERTED = 12.0  # an entry that is stored in another order first
_BLAS = 0.04  # a multiplication and an addition
_MOVED = 3.0  # an element that BLAS needs elsewhere
CALL = 1.5e4  # a step


@frozen
class Matrices:
    """The variables of a product of dense matrices, perhaps of many such products."""

    batch: tuple[IndexVar, ...]
    left: tuple[IndexVar, ...]
    right: tuple[IndexVar, ...]
    summed: tuple[IndexVar, ...]


def as_matrices(
    left: Collection[IndexVar], right: Collection[IndexVar], kept: Collection[IndexVar]
) -> Matrices | None:
    """The roles of the variables, if the product over all but `kept` is one of matrices."""
    both = [var for var in left if var in right]
    only_left = [var for var in left if var not in right]
    only_right = [var for var in right if var not in left]
    if any(var not in kept for var in (*only_left, *only_right)):
        return None
    batch = tuple(var for var in both if var in kept)
    summed = tuple(var for var in both if var not in kept)
    return Matrices(batch, tuple(only_left), tuple(only_right), summed)


def pays(roles: Matrices, size: dict[IndexVar, float] | dict[IndexVar, int]) -> bool:
    """Whether BLAS is faster than a loop nest: for matrices that are neither thin nor small."""
    m, n, k = (prod(size[var] for var in each) for each in (roles.left, roles.right, roles.summed))
    return min(m, n, k) >= 4 and m * n * k >= 1 << 18


def step_cost(
    operands: Sequence[Size], result: Size, kept: Collection[IndexVar], plain: bool
) -> float:
    """The time of one step; `plain`: BLAS knows the operators and the element type."""
    writing = result.entries * (_WRITTEN if result.is_dense else _LISTED)
    if plain and len(operands) == 2 and all(o.is_dense for o in (*operands, result)):
        roles = as_matrices(operands[0].order, operands[1].order, kept)
        extents = {**operands[0].distinct, **operands[1].distinct}
        if roles is not None and pays(roles, extents):
            return CALL + prod(extents.values()) * _BLAS + _MOVED * _moved(roles, operands, result)
    return CALL + writing + _nest(operands, result, kept)


def _moved(roles: Matrices, operands: Sequence[Size], result: Size) -> float:
    """The elements that BLAS needs in another order."""
    groups = (
        (roles.batch, roles.left, roles.summed),
        (roles.batch, roles.summed, roles.right),
        (roles.batch, roles.left, roles.right),
    )
    return sum(
        size.entries
        for size, (batch, one, two) in zip((*operands, result), groups, strict=True)
        if size.order not in ((*batch, *one, *two), (*batch, *two, *one))
    )


def _nest(operands: Sequence[Size], result: Size, kept: Collection[IndexVar]) -> float:
    """The time of the fastest of some loop nests.

    They have few iterations outside, or sparse operands, or neighbours inside.
    """
    every = frozenset[IndexVar]().union(*(operand.distinct for operand in operands))
    listed = frozenset[IndexVar]().union(*(operand.sparse for operand in operands))
    last = {operand.order[-1] for operand in operands if operand.order} - listed
    choices = {frozenset[IndexVar](), listed, *(every - {var} for var in last)}
    skewed = skew(operands)
    return min(_Nest(operands, result, kept, skewed).time(first) for first in choices)


class _Nest:
    """A loop nest that is made from the outside in; sparse operands are iterated as stored."""

    def __init__(
        self, operands: Sequence[Size], result: Size, kept: Collection[IndexVar], skewed: float
    ) -> None:
        self._operands, self._kept, self._skewed = operands, kept, skewed
        self._result = result
        self._after = [_edges(each) for each in (*operands, result)]
        self._entries = [1.0] * len(operands)  # along the variables of the loops so far
        self._left = [len(operand.distinct) for operand in operands]
        self._placed: dict[IndexVar, None] = {}

    def time(self, first: frozenset[IndexVar]) -> float:
        """The estimate; the variables in `first` go outside of the others, where they can."""
        waiting = dict.fromkeys(var for operand in self._operands for var in operand.order)
        total, around, scattered, var = 0.0, 1.0, False, None
        while waiting:
            ready = [v for v in waiting if all(self._is_ready(v, e) for e in self._after)]
            if not ready:  # an operand is converted
                total += self._conversion() * _CONVERTED
                continue
            # Of equal ones, a variable that is summed goes outside: neighbours are then results.
            _, _, _, var = min(
                (
                    (v not in first and bool(first), self._joined(v), v in self._kept, v)
                    for v in ready
                ),
                key=lambda each: each[:3],
            )
            scattered |= var in self._result.sparse and any(
                v not in self._kept for v in self._placed
            )
            del waiting[var]
            if not waiting:
                around *= self._skewed
            visited = around * max(self._runs(var), self._joined(var))
            around *= self._place(var)
            total += visited * (_ENTER if waiting else self._pace(var))
        if scattered and var is not None:
            total += around * _SCATTER * (1.0 if self._pace(var) == _ENTRY else _LANE / _ENTRY * 2)
        return total

    def _is_ready(self, var: IndexVar, after: dict[IndexVar, Sequence[IndexVar]]) -> bool:
        return all(v in self._placed for v in after.get(var, ()))

    def _pace(self, var: IndexVar) -> float:
        """The time of an iteration of the innermost loop."""
        return _LANE if all(_beside(var, operand) for operand in self._operands) else _ENTRY

    def _inside(self, n: int, var: IndexVar) -> float:
        """The coordinates of operand `n` along the loops so far and `var`."""
        operand = self._operands[n]
        if self._left[n] == 1:
            return operand.entries
        places = operand.distinct[var]
        for v in self._placed:
            places *= operand.distinct.get(v, 1.0)
        return spread(operand.entries, places) if operand.sparse else places

    def _joined(self, var: IndexVar) -> float:
        """The joint iterations over `var`, for each of the loops so far."""
        factor, shared = 1.0, []
        for n, operand in enumerate(self._operands):
            if var in operand.distinct:
                factor *= self._inside(n, var) / max(self._entries[n], 1e-9)
                shared.append(operand.distinct[var])
        for distinct in sorted(shared)[1:]:
            factor /= max(distinct, 1.0)
        return factor

    def _runs(self, var: IndexVar) -> float:
        """The iterations over `var`: lists are merged, or one of them is iterated."""
        runs = [
            self._inside(n, var) / max(self._entries[n], 1e-9)
            for n, operand in enumerate(self._operands)
            if var in operand.sparse
        ]
        if runs:
            return sum(runs)
        return max(operand.distinct.get(var, 0.0) for operand in self._operands)

    def _place(self, var: IndexVar) -> float:
        """Add a loop; the joint iterations over it for each of those outside."""
        factor = self._joined(var)
        for n, operand in enumerate(self._operands):
            if var in operand.distinct:
                self._entries[n] = self._inside(n, var)
                self._left[n] -= 1
        self._placed[var] = None
        return factor

    def _conversion(self) -> float:
        """The entries of the operand that is stored in another order first."""
        some = [n for n in range(len(self._operands)) if self._after[n]]
        if not some:
            self._after[-1] = {}
            return 0.0
        smallest = min(some, key=lambda n: self._operands[n].entries)
        self._after[smallest] = {}
        return self._operands[smallest].entries


def _edges(size: Size) -> dict[IndexVar, Sequence[IndexVar]]:
    """For each listed variable, those that must be known before."""
    return {var: size.order[:n] for n, var in enumerate(size.order) if var in size.sparse}


def _beside(var: IndexVar, operand: Size) -> bool:
    """Whether neighbours along `var` lie beside each other, or are the same element."""
    return var not in operand.distinct or (not operand.sparse and operand.order[-1] == var)
