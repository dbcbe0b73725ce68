"""The Einstein convention made explicit: which sums an assignment means, and where they stand.

A variable that is used on the right only is summed, term by term: over the smallest product that
holds all its uses in the term. So `A(i,j)*x(j) + z(i)` is `sum(j, A(i,j)*x(j)) + z(i)`, and in
`(A(i,j)*x(j) + b(i)) * z(i)` the sum stays inside the parentheses. A variable whose uses all lie
in the argument of a function, or in a denominator, could be summed inside or outside: refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import cast

import numpy as np

from openwork.algebra import operators as ops
from openwork.algebra.entries import Entry
from openwork.algebra.meaning import is_held
from openwork.algebra.operators import Op
from openwork.algebra.types import DType, Kind, promote, strong
from openwork.errors import ParseError, Span
from openwork.frozen import frozen
from openwork.index.nodes import (
    Absent,
    Access,
    Apply,
    Assignment,
    Cast,
    Expr,
    IndexVar,
    Literal,
    Parameter,
    Reduce,
    Selected,
)
from openwork.index.show import show
from openwork.tree import Node, bottom_up, children

# f(a + b) == f(a) + f(b): a sum may stand inside or outside, with the same value.
_LINEAR = (ops.NEG, ops.CONJ, ops.REAL, ops.IMAG)
_RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


def explicit(assignment: Assignment) -> Assignment:
    """`assignment` with every sum written out, in the type it accumulates in.

    After `lhs op= rhs` with another operator than `+`, a variable that is used on the right only is
    reduced with that operator over the whole right side: `y(i) min= A(i,j)` takes the minimum over
    j. Every reduction is computed in the wider of the element types of its summand and of the
    result.

    Raises:
        ParseError: E105 when a sum could stand in two places, or two sums share a variable.

    >>> from openwork.algebra.types import FLOAT64
    >>> from openwork.format.formats import dense
    >>> from openwork.index.nodes import TensorVar
    >>> from openwork.index.parse import parse_assignment
    >>> orders = {"y": 1, "A": 2, "x": 1, "z": 1}
    >>> tensors = {n: TensorVar(n, dense(o), FLOAT64, shape=(3,) * o) for n, o in orders.items()}
    >>> show(explicit(parse_assignment("y(i) = A(i,j) * x(j) + z(i) + 0", tensors)))
    'y(i) = sum(j, A(i,j) * x(j)) + z(i) + 0'
    >>> explicit(parse_assignment("y(i) = exp(A(i,j))", tensors))
    Traceback (most recent call last):
    ...
    openwork.errors.ParseError: E105: it is not clear where to sum over j
      y(i) = exp(A(i,j))
             ^^^^^^^^^^^
      hint: write sum(j, exp(A(i,j))) or exp(sum(j, A(i,j)))
    """
    summed = insert_sums(assignment)
    lhs = summed.lhs.dtype

    def widen(node: Node) -> Node | None:
        if not isinstance(node, Reduce):
            return None
        dtype = _accumulator(node.op, node.expr.kind, lhs)
        return None if dtype == node.expr.dtype else replace(node, expr=Cast(dtype, node.expr))

    rhs = bottom_up(widen)(summed.rhs)
    return summed if rhs is summed.rhs else replace(summed, rhs=cast(Expr, rhs))


def insert_sums(assignment: Assignment) -> Assignment:
    """`assignment` with every sum written out; element types are left alone."""
    lhs, rhs = assignment.lhs, assignment.rhs
    _refuse_shadows(rhs, frozenset(lhs.vars), frozenset())
    todo = [v for v in free_vars(rhs) if v not in lhs.vars]
    if assignment.op in (None, ops.ADD):
        rhs = _place(rhs, frozenset(todo))
    elif assignment.op is not None:
        rhs = _wrapped(assignment.op, todo, rhs)
    if todo:  # a new sum may stand around an old one over the same variable
        _refuse_shadows(rhs, frozenset(lhs.vars), frozenset())
    return assignment if rhs is assignment.rhs else replace(assignment, rhs=rhs)


def free_vars(expr: Expr) -> tuple[IndexVar, ...]:
    """The index variables of `expr` that no reduction in it binds, in the order of first use.

    >>> i, j, k = map(IndexVar, "ijk")
    >>> [str(v) for v in free_vars(Apply(ops.MUL, (j, Reduce(ops.ADD, i, Apply(ops.ADD, (i, k))))))]
    ['j', 'k']
    """
    return tuple(dict.fromkeys(_uses(expr)))


def _uses(expr: Node) -> Iterator[IndexVar]:
    match expr:
        case IndexVar():
            yield expr
        case Reduce(var=var, expr=inner):
            yield from (use for use in _uses(inner) if use != var)
        case _:
            for child in children(expr):
                yield from _uses(child)


def _place(expr: Expr, todo: frozenset[IndexVar]) -> Expr:
    """`expr` with each of its variables in `todo` summed, term by term."""
    if todo.isdisjoint(free_vars(expr)):
        return expr
    match expr:
        case Apply(op=op, args=args) if op in (ops.ADD, ops.SUB, ops.NEG):
            return replace(expr, args=tuple(_place(arg, todo) for arg in args))
        case Reduce(op=ops.ADD, var=var, expr=inner):
            return replace(expr, expr=_place(inner, todo - {var}))
    return _place_in_product(expr, todo)


def _place_in_product(term: Expr, todo: frozenset[IndexVar]) -> Expr:
    """Sum around the whole product, or inside the one factor that holds all uses if it is a sum."""
    factors = list(_factors(term))
    here: list[IndexVar] = []
    inside: dict[int, set[IndexVar]] = {}
    for var in free_vars(term):
        if var not in todo:
            continue
        holders = [n for n, factor in enumerate(factors) if var in free_vars(factor.expr)]
        only = factors[holders[0]]
        if len(holders) > 1 or only.is_plain:
            here.append(var)
        elif only.is_sum:
            inside.setdefault(holders[0], set()).add(var)
        else:
            raise _ambiguous(var, term, only)
    if inside:
        new = [_place(f.expr, frozenset(inside.get(n, ()))) for n, f in enumerate(factors)]
        term = _rebuilt(term, iter(new))
    return _wrapped(ops.ADD, here, term)


@frozen
class _Factor:
    """A factor of a product; `owner` is the function or quotient that hides it, if one does."""

    expr: Expr
    owner: Expr | None = None

    @property
    def is_plain(self) -> bool:
        """Whether a variable in it is a factor of the whole product."""
        plain = (Access, Selected, IndexVar, Literal, Absent, Parameter)
        return self.owner is None and isinstance(self.expr, plain)

    @property
    def is_sum(self) -> bool:
        """Whether it is a sum, whose terms are summed separately."""
        match self.expr:
            case Apply(op=op):
                return self.owner is None and op in (ops.ADD, ops.SUB)
            case Reduce(op=op):
                return self.owner is None and op == ops.ADD
        return False


def _factors(expr: Expr) -> Iterator[_Factor]:
    """The factors of a product, from left to right, through quotients, signs and casts."""
    match expr:
        case Apply(op=ops.MUL, args=(left, right)):
            yield from _factors(left)
            yield from _factors(right)
        case Apply(op=ops.DIV, args=(left, right)):
            yield from _factors(left)
            yield _Factor(right, expr)
        case Apply(op=op, args=(inner,)) if op in _LINEAR:
            yield from _factors(inner)
        case Cast(expr=inner):
            yield from _factors(inner)
        case _:
            yield _Factor(expr)


def _rebuilt(expr: Expr, new: Iterator[Expr]) -> Expr:
    """The product `expr` with its factors replaced by `new`, in order."""
    match expr:
        case Apply(op=ops.MUL, args=(left, right)):
            return replace(expr, args=(_rebuilt(left, new), _rebuilt(right, new)))
        case Apply(op=ops.DIV, args=(left, _)):
            return replace(expr, args=(_rebuilt(left, new), next(new)))
        case Apply(op=op, args=(inner,)) if op in _LINEAR:
            return replace(expr, args=(_rebuilt(inner, new),))
        case Cast(expr=inner):
            return replace(expr, expr=_rebuilt(inner, new))
    return next(new)


def _wrapped(op: Op, variables: Collection[IndexVar], expr: Expr) -> Expr:
    """`expr` reduced over `variables`, the first of them outermost."""
    span = _span(expr)
    for var in reversed(list(variables)):
        expr = Reduce(op, var, expr, span)
    return expr


def _ambiguous(var: IndexVar, term: Expr, factor: _Factor) -> ParseError:
    """The error for a variable that only `factor`, a function or a denominator, uses."""
    place = factor.expr if factor.owner is None else factor.owner
    match factor.expr:
        case Apply(args=args) if factor.owner is None:
            parts = [Reduce(ops.ADD, var, a) if var in free_vars(a) else a for a in args]
            within: Expr = replace(factor.expr, args=tuple(parts))
        case Reduce(expr=inner) if factor.owner is None:
            within = replace(factor.expr, expr=Reduce(ops.ADD, var, inner))
        case inner:
            within = Reduce(ops.ADD, var, inner)
    if isinstance(factor.owner, Apply):
        within = replace(factor.owner, args=(factor.owner.args[0], within))
    return ParseError(
        f"it is not clear where to sum over {var}",
        code="E105",
        span=_span(place),
        hint=f"write {show(Reduce(ops.ADD, var, term))} or {show(within)}",
    )


def _span(expr: Expr) -> Span | None:
    return expr.span if isinstance(expr, (Access, Selected, Apply, Reduce)) else None


def _refuse_shadows(expr: Node, results: frozenset[IndexVar], outer: frozenset[IndexVar]) -> None:
    """Raise if a reduction variable is bound already, by the result or an outer reduction."""
    if isinstance(expr, Reduce):
        if expr.var in results or expr.var in outer:
            why = "the result" if expr.var in results else "a reduction around this one"
            raise ParseError(
                f"{expr.var} is reduced here, but it is also a variable of {why}",
                code="E105",
                span=expr.span,
                hint=f"rename it in {show(expr)}",
            )
        outer = outer | {expr.var}
    for child in children(expr):
        _refuse_shadows(child, results, outer)


def _accumulator(op: Op, kind: Kind, lhs: DType) -> DType:
    """The type that `op` reduces a summand of `kind` in, for a result of type `lhs`."""
    while (own := _applied(op, strong(kind))) != strong(kind):
        kind = own  # "or" over numbers is computed on truth values
    summand = strong(kind)
    if isinstance(summand, Entry) or isinstance(lhs, Entry):
        return promote(kind, lhs) if is_held(kind, lhs) else summand
    if lhs.kind == "c" and summand.kind != "c":
        lhs = np.empty(0, lhs).real.dtype
    wide = promote(kind, lhs)
    # uint64 and int64 promote to float64, and a result of lower kind does not widen the sum.
    if _RANK[wide.kind] > _RANK[lhs.kind] or _applied(op, wide) != wide:
        return summand
    return wide


def _applied(op: Op, dtype: DType) -> DType:
    """The type of `op` applied to two values of type `dtype`."""
    return Apply(op, (Parameter(0, dtype), Parameter(1, dtype))).dtype
