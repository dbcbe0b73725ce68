"""From a statement to the statements of its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from openwork.algebra import operators as ops
from openwork.algebra.entries import Entry
from openwork.algebra.types import DType, computed, promote
from openwork.format.formats import Format, dense
from openwork.frozen import frozen
from openwork.index.einstein import free_vars, insert_sums
from openwork.index.nodes import (
    Access,
    Apply,
    Assignment,
    Cast,
    Expr,
    IndexVar,
    Reduce,
    TensorVar,
)
from openwork.index.show import show
from openwork.runtime.storage import Storage
from openwork.tensor.contraction.order import Search, Tree
from openwork.tensor.contraction.product import Product, products
from openwork.tensor.contraction.sizes import Size, size_of
from openwork.tensor.exchange.facts import Facts, facts_for
from openwork.tree import Node, substitute, walk

# Steps are worth it from this share of the time of one kernel on.
_WORTH = 0.75
_BLAS_TYPES = "fFdD"

FormatOf = Callable[[Expr, Sequence[IndexVar], Any], Format]
Make = Callable[[str, Sequence[int | None], Facts], Any]


@frozen
class Steps:
    """Statements in the order they run: the last one computes the result.

    `decisions`: the order and its cost, in words.
    """

    assignments: tuple[Assignment, ...]
    decisions: tuple[str, ...]


class Cutting:
    """Cuts one statement.

    Args:
        assignment: the statement.
        stored: the operands' data, by name, as far as there is any.
        format_of: the format that follows for a result.
        make: an operand for the result of a step.
        choose: the tree of steps; the cheapest, unless a benchmark tries others.
    """

    def __init__(
        self,
        assignment: Assignment,
        stored: Mapping[str, Storage],
        format_of: FormatOf,
        make: Make,
        choose: Callable[[Search], Tree] | None = None,
    ) -> None:
        self._whole, self._stored = assignment, stored
        self._format_of, self._make, self._choose = format_of, make, choose
        self._extents = _extents(assignment, stored)
        self._names = {n.name for n in walk(assignment) if isinstance(n, (TensorVar, IndexVar))}
        self._before: list[Assignment] = []
        self._decisions: list[str] = []

    def steps(self) -> Steps | None:
        """The steps; None where one kernel is estimated to be as fast, or sizes are unknown."""
        whole = insert_sums(self._whole)
        table: dict[Node, Node] = {}
        for product in products(whole):
            made = self._cut(product, whole)
            if made is not None:
                table[product.node] = made
        if not table:
            return None
        last = replace(whole, rhs=substitute(whole.rhs, table))
        return Steps((*self._before, last), tuple(self._decisions))

    def _cut(self, product: Product, whole: Assignment) -> Expr | None:
        """What replaces the product in the last step; None if it stays."""
        if not _may_gain(product):
            return None
        sizes = [self._size(factor) for factor in product.factors]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            return None
        search = self._search(product, whole, known)
        one = search.one_kernel()
        best = search.best() if self._choose is None else self._choose(search)
        if best.is_one_kernel or (self._choose is None and best.cost > _WORTH * one.cost):
            return None
        parts = [self._operand(part, product, search) for part in best.parts]
        made = _summed(product, [expr for _, expr in sorted(parts, key=lambda p: p[0])])
        order = _told(best, [show(factor) for factor in product.factors])
        self._decisions.append(
            f"steps: {order}, {_time(best.cost)} by estimate; {_time(one.cost)} in one kernel"
        )
        return made

    def _search(self, product: Product, whole: Assignment, sizes: list[Size]) -> Search:
        lhs = whole.lhs
        alone = whole.rhs == product.node and whole.op is None
        levels = zip(lhs.tensor.format.levels, lhs.level_vars, strict=True)
        listed = frozenset(var for level, var in levels if not level.full)

        def stored(size: Size) -> Size:
            """The result as the statement stores it."""
            order = tuple(var for var in lhs.level_vars if var in size.distinct)
            return replace(size, order=order, sparse=listed & set(order))

        types = {factor.dtype for factor in product.factors}
        plain = alone and (product.add, product.mul) == (ops.ADD, ops.MUL) and len(types) == 1
        plain = plain and all(_is_plain(each) for each in types)
        return Search(sizes, product.free, stored, bool(listed), plain, product.commutes)

    def _size(self, factor: Expr) -> Size | None:
        """The size of a factor; a function of tensors counts as dense."""
        inner = factor.expr if isinstance(factor, Cast) else factor
        if isinstance(inner, Access):
            return size_of(inner, self._extents, self._stored.get(inner.tensor.name))
        variables = free_vars(factor)
        full: dict[IndexVar, float] = {}
        entries = 1.0
        for var in variables:
            extent = self._extents.get(var)
            if extent is None:
                return None
            full[var] = float(extent)
            entries *= extent
        return Size(entries, full, variables, frozenset())

    def _operand(self, part: Tree | int, product: Product, search: Search) -> tuple[int, Expr]:
        """A part of a step as a factor, behind all statements that compute it; and its place."""
        if isinstance(part, int):
            return part, product.factors[part]
        below = sorted(
            (self._operand(each, product, search) for each in part.parts), key=lambda p: p[0]
        )
        members = part.members
        kept, size = search.kept_of(members), search.size(members)
        inside = dict.fromkeys(v for n in sorted(members) for v in free_vars(product.factors[n]))
        here = set().union(*(free_vars(expr) for _, expr in below))
        rhs = _summed(
            product, [expr for _, expr in below], [v for v in inside if v in here and v not in kept]
        )
        if size.is_dense:  # neighbours are those that the result has beside each other
            kept = tuple(sorted(kept, key=lambda v: _rank(v, product.free)))
        format = dense(len(kept)) if size.is_dense else self._format_of(rhs, kept, product.zero)
        facts = facts_for(format, self._type(rhs), product.zero)
        shape = tuple(self._extents.get(var) for var in kept)
        result = self._make(self._name(), shape, facts).tensor_var
        access = Access(result, kept)
        self._before.append(Assignment(access, rhs))
        return below[0][0], access

    def _type(self, rhs: Expr) -> DType:
        """The element type of a step: not narrower than that of the result, for floats."""
        lhs = self._whole.lhs.dtype
        plain = not isinstance(lhs, Entry) and not isinstance(rhs.dtype, Entry)
        if plain and lhs.kind in "fc" and rhs.dtype.kind in "fc":
            wide = promote(rhs.dtype, lhs)
            return wide if wide.kind == rhs.dtype.kind else rhs.dtype
        return computed(rhs.dtype)

    def _name(self) -> str:
        number = next(n for n in range(1, 10**6) if f"step{n}" not in self._names)
        self._names.add(f"step{number}")
        return f"step{number}"


def _may_gain(product: Product) -> bool:
    """Whether there are steps: three factors, or two of which one can be summed before."""
    variables = [set(free_vars(factor)) for factor in product.factors]
    count = sum(map(bool, variables))
    if count > 2:
        return True
    shared = [set(product.free), *variables]
    return count == 2 and any(sum(v in each for each in shared) == 1 for v in product.summed)


def _extents(assignment: Assignment, stored: Mapping[str, Storage]) -> dict[IndexVar, int | None]:
    """The extents of the variables, from the data of operands whose shape is open."""
    known: dict[IndexVar, int | None] = {}
    for node in walk(assignment):
        if isinstance(node, Access):
            storage = stored.get(node.tensor.name)
            shape = node.tensor.shape if storage is None else storage.shape
            for var, extent in zip(node.vars, shape, strict=True):
                known[var] = known.get(var) if extent is None else extent
    return known


def _is_plain(dtype: DType) -> bool:
    return not isinstance(dtype, Entry) and dtype.char in _BLAS_TYPES


def _rank(var: IndexVar, free: Sequence[IndexVar]) -> int:
    return free.index(var) if var in free else -1


def _summed(
    product: Product, factors: Sequence[Expr], summed: Sequence[IndexVar] | None = None
) -> Expr:
    """The product of `factors`, in order, summed over those of its variables that are to be."""
    rhs = reduce(lambda left, right: Apply(product.mul, (left, right)), factors)
    if summed is None:
        here = free_vars(rhs)
        summed = [var for var in product.summed if var in here]
    for var in reversed(summed):
        rhs = Reduce(product.add, var, rhs)
    return rhs


def _told(tree: Tree | int, names: Sequence[str]) -> str:
    """The order, in brackets: `A(i,j) * (B(j,k) * x(k))`."""
    if isinstance(tree, int):
        return names[tree]
    parts = [
        _told(part, names) if isinstance(part, int) else f"({_told(part, names)})"
        for part in tree.parts
    ]
    return " * ".join(parts)


def _time(nanoseconds: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds / 1e3:.3g} us"
