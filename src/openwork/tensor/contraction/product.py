"""Products of several factors in a statement, whose sums may be taken in any order.

That needs laws: `add` distributes over `mul`, and both associate. Where `mul` does not commute, as
for quaternions, factors stay in their order.
"""

from __future__ import annotations

from collections.abc import Iterator

from openwork.algebra import operators as ops
from openwork.algebra.entries import Entry
from openwork.algebra.operators import Op
from openwork.algebra.types import Number
from openwork.frozen import frozen
from openwork.index.einstein import free_vars
from openwork.index.nodes import Access, Apply, Assignment, Cast, Expr, IndexVar, Literal, Reduce
from openwork.tree import Node, children, walk

# Additions with the multiplications that distribute over them. Operators of users are not tested
# for this law, and some named semirings (`plus_pair`) do not obey it.
_SEMIRINGS = (ops.PLUS_TIMES, ops.MIN_PLUS, ops.MAX_PLUS, ops.OR_AND, ops.MAX_TIMES)


@frozen
class Product:
    """`node`: the sum by `add` over the variables `summed` of the product of `factors`.

    `zero`: the identity of `add`, which is what absent entries stand for.
    """

    node: Reduce
    add: Op
    mul: Op
    zero: Number
    factors: tuple[Expr, ...]
    summed: tuple[IndexVar, ...]
    commutes: bool

    @property
    def free(self) -> tuple[IndexVar, ...]:
        """The variables of the whole."""
        return free_vars(self.node)


def products(assignment: Assignment) -> list[Product]:
    """The products that may be cut into steps; sums of `assignment` are explicit."""
    return list(_products(assignment.rhs))


def _products(node: Node) -> Iterator[Product]:
    if isinstance(node, Reduce):
        found = _product(node)
        if found is not None:
            yield found
            return
    for child in children(node):
        yield from _products(child)


def _product(node: Reduce) -> Product | None:
    """The product under a chain of sums, if laws and types allow another order of sums."""
    summed: list[IndexVar] = []
    inner: Expr = node
    while isinstance(inner, Reduce) and inner.op == node.op:
        summed.append(inner.var)
        inner = inner.expr
    if not isinstance(inner, Apply):
        return None
    semiring = next((s for s in _SEMIRINGS if (s.add, s.mul) == (node.op, inner.op)), None)
    if semiring is None:
        return None
    factors = tuple(_factors(inner, inner.op))
    commutes = all(each.commutes for each in _applications(inner, inner.op))
    used = set().union(*(free_vars(factor) for factor in factors))
    if not used.issuperset(summed) or not _same_types(inner, factors):
        return None
    if not all(_absent_is(semiring.zero, factor) for factor in factors):
        return None
    return Product(node, node.op, inner.op, semiring.zero, factors, tuple(summed), commutes)


def _factors(expr: Expr, mul: Op) -> Iterator[Expr]:
    if isinstance(expr, Apply) and expr.op == mul:
        for arg in expr.args:
            yield from _factors(arg, mul)
    else:
        yield expr


def _applications(expr: Expr, mul: Op) -> Iterator[Apply]:
    if isinstance(expr, Apply) and expr.op == mul:
        yield expr
        for arg in expr.args:
            yield from _applications(arg, mul)


def _same_types(product: Apply, factors: tuple[Expr, ...]) -> bool:
    """Whether a partial product holds what the whole one would: floats, or one type of integers.

    int8 factors wrap where float64 ones beside them do not.
    """
    types = {f.dtype for f in factors if not (isinstance(f, Literal) and f.typed is None)}
    if product.op == ops.AND:
        return True
    if any(isinstance(each, Entry) for each in types):
        return len(types) == 1 and product.dtype in types
    return types == {product.dtype} or all(each.kind in "fc" for each in types)


def _absent_is(zero: Number, factor: Expr) -> bool:
    """Whether absent entries of the tensors in `factor` are the semiring's zero."""
    plain = factor.expr if isinstance(factor, Cast) else factor
    return all(
        node.tensor.format.is_dense or node.tensor.fill == zero
        for node in walk(plain)
        if isinstance(node, Access)
    )
