"""The default format of a result: from the operands' formats and the operators' laws.

A mode of the result is *bounded* if the value is the fill wherever the sparse operands that have
the mode are absent; otherwise it is dense. An operand is *thin* if it leaves few entries: it is
sparse along a mode of the result, or intersects another along a variable where both are sparse.
The result is sparse if it is the fill wherever the thin operands are absent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, cast

from openwork.algebra.types import FLOAT64, Number, number
from openwork.format.formats import CSF, Format, dense
from openwork.format.levels import Compressed, Dense, Level
from openwork.index.absence import without
from openwork.index.checks import check_result, extents
from openwork.index.nodes import (
    Absent,
    Access,
    Assignment,
    Expr,
    IndexVar,
    Reduce,
    Selected,
    TensorVar,
)
from openwork.tensor.convert.pack import check_order
from openwork.tensor.exchange.facts import facts_for
from openwork.tree import Node, bottom_up, children, walk


def result_format(rhs: Expr, lhs: Sequence[IndexVar], fill: Number = 0) -> Format:
    """The format of a result over the variables `lhs` whose absent entries are `fill`.

    >>> from openwork.format.formats import CSR
    >>> from openwork.algebra import operators as ops
    >>> from openwork.index.nodes import Literal, TensorVar, apply
    >>> import numpy as np
    >>> i, j, k = IndexVar("i"), IndexVar("j"), IndexVar("k")
    >>> A, B = (TensorVar(n, CSR, np.dtype("float64"), 0, (None, None)) for n in "AB")
    >>> result_format(apply(ops.MUL, Access(A, (i, k)), Access(B, (k, j))), (i, j))
    ow.CSR
    >>> result_format(apply(ops.ADD, Access(A, (i, j)), Literal(1.0)), (i, j))
    ow.dense(2)
    """
    rhs = _by_variables(rhs)
    operands = sparse_accesses(rhs)
    kept = [var for var in lhs if _is_bounded(rhs, var, lhs, fill, operands)]
    thin = [a for a in operands if _is_thin(rhs, a, lhs, operands)]
    few_modes = len(lhs) <= 2 and len(kept) < len(lhs)  # one dense mode makes a matrix dense
    if not kept or few_modes or not _is_fill(rhs, thin, lhs, fill):
        return dense(len(lhs))
    levels, variables = _pattern(rhs, kept, lhs, fill, operands)
    # Dense modes follow below the pattern of the others.
    variables = (*variables, *(var for var in lhs if var not in kept))
    levels = (*levels, *[Dense] * (len(lhs) - len(levels)))
    return Format(levels, [lhs.index(var) for var in variables])


def _by_variables(rhs: Expr) -> Expr:
    """`rhs` as if elements at other coordinates were at those of the variables in them."""
    names = (f"_{number}" for number in count())

    def rule(node: Node) -> Node | None:
        if not isinstance(node, Selected) or node.border not in (None, node.tensor.fill):
            return None
        places = []
        for place in node.coordinates:
            found = {var for var in walk(place) if isinstance(var, IndexVar)}
            places.append(found.pop() if len(found) == 1 else IndexVar(next(names)))
        return Access(node.tensor, tuple(places))

    return cast(Expr, bottom_up(rule)(rhs))


_LEFT = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\(([^()]*)\)|\[([^\[\]]*)\])?\s*=(?!=)")


def undeclared_result(text: str, names: Collection[str]) -> TensorVar | None:
    """What stands for a result that is not among `names` while its statement is parsed.

    >>> print(undeclared_result("C(i,k) = A(i,k)", ["A"]))
    C
    """
    match = _LEFT.match(text)
    if match is None or match[1] in names:
        return None
    listed = (match[2] or match[3] or "").split(",")
    order = 0 if listed == [""] else len(listed)
    return TensorVar(match[1], dense(order), FLOAT64, shape=(None,) * order)


def inferred(
    assignment: Assignment, zero: Number | None, format: Format | None, make: Callable[..., Any]
) -> Assignment:
    """An assignment whose result has the format, element type and shape that follow from it.

    Args:
        assignment: with any result.
        zero: the semiring's, which absent entries are.
        format: of the result, if it is given.
        make: from name, shape and facts to an operand.
    """
    check_result(assignment)
    lhs, rhs = assignment.lhs, assignment.rhs
    fill = fill_of(rhs) if zero is None else zero
    chosen = result_format(rhs, lhs.vars, fill) if format is None else format
    check_order(chosen, len(lhs.vars))
    known = extents(replace(assignment, op=None))
    facts = facts_for(chosen, rhs.dtype, 0 if zero is None and chosen.is_dense else fill)
    result = make(lhs.tensor.name, tuple(known.get(var) for var in lhs.vars), facts)
    return replace(assignment, lhs=replace(lhs, tensor=result.tensor_var))


def said_of_result(assignment: Assignment, given: bool) -> str:
    """What `explain()` says about an inferred result; `given`: its format was asked for."""
    made = assignment.lhs.tensor
    shape = "x".join("?" if extent is None else str(extent) for extent in made.shape)
    told = f"{made}: {shape} {made.dtype}" if made.shape else f"{made}: {made.dtype}"
    if made.fill != 0:
        told += f", absent entries are {made.fill}"
    if not given:
        told += f", {made.format!r}"
    return f"{told}: as follows from the operands"


def absent_value(rhs: Expr) -> Number | None:
    """The value of `rhs` where no sparse operand has an entry, if it is a constant."""
    left = without(rhs, sparse_accesses(rhs))
    return left.value if isinstance(left, Absent) else None


def fill_of(rhs: Expr) -> Number:
    """The fill of a result: its value where all operands are absent, else zero.

    If absent zeros become something else, as in `cos(A)`, the result is dense. It has another fill
    only if an operand has one.
    """
    value = absent_value(rhs)
    chosen = any(access.tensor.fill != 0 for access in sparse_accesses(rhs))
    return value if value is not None and chosen else 0


def sparse_accesses(expr: Expr) -> tuple[Access, ...]:
    """The distinct accesses to sparse tensors, in order."""
    found = (node for node in walk(expr) if isinstance(node, Access))
    return tuple(dict.fromkeys(a for a in found if not a.tensor.format.is_dense))


def _is_fill(rhs: Expr, absent: Collection[Access], lhs: Sequence[IndexVar], fill: Number) -> bool:
    """Whether the result is `fill` where the accesses `absent` have no entry."""
    left = without(rhs, absent)
    if not absent or not isinstance(left, Absent):
        return False
    if left.value != left.value:
        return fill != fill
    # An implicit sum leaves zero unchanged, and no other number.
    return left.value == number(fill, left.typed) and (left.value == 0 or not _summed(rhs, lhs))


def _summed(rhs: Expr, lhs: Sequence[IndexVar]) -> set[IndexVar]:
    """The variables that are summed over implicitly, without a `Reduce`."""
    nodes = tuple(walk(rhs))
    bound = {node.var for node in nodes if isinstance(node, Reduce)}
    return {v for v in nodes if isinstance(v, IndexVar)} - bound - set(lhs)


def _is_bounded(
    rhs: Expr,
    var: IndexVar,
    lhs: Sequence[IndexVar],
    fill: Number,
    operands: Sequence[Access],
) -> bool:
    """Whether the result is `fill` where the sparse operands with `var` have no entry."""
    bounds = [a for a in operands if var in a.vars and _stays_sparse(rhs, a, var, lhs, operands)]
    return _is_fill(rhs, bounds, lhs, fill)


def _is_thin(
    rhs: Expr, access: Access, lhs: Sequence[IndexVar], operands: Sequence[Access]
) -> bool:
    """Whether `access` leaves few entries of the result."""
    for var in access.vars:
        if not _sparse_along(access, var):
            continue
        if var in lhs and _stays_sparse(rhs, access, var, lhs, operands):
            return True
        if var not in lhs and any(
            _sparse_along(other, var) and _meet(rhs, var, access, other, lhs) for other in operands
        ):
            return True
    return False


def _sparse_along(access: Access, var: IndexVar) -> bool:
    return any(not level.full for level in access.levels_along((var,)))


def _meet(rhs: Expr, var: IndexVar, one: Access, two: Access, lhs: Sequence[IndexVar]) -> bool:
    """Whether two operands intersect along `var`, as rows of one and columns of the other.

    Operands with the same modes intersect, too, but a sum over all that they share is seldom empty.
    """
    mine, theirs = ({v for v in a.vars if v in lhs} for a in (one, two))
    if not mine - theirs or not theirs - mine:
        return False
    scope = _scope(rhs, var)
    return all(isinstance(without(scope, (a,)), Absent) for a in (one, two))


def _stays_sparse(
    rhs: Expr,
    access: Access,
    var: IndexVar,
    lhs: Sequence[IndexVar],
    operands: Sequence[Access],
) -> bool:
    """Whether reductions leave `access` sparse along `var`.

    Reducing a variable that is stored above `var` takes the union of runs of `var`. A union of few
    runs is sparse, that of all of them is not: so another sparse operand must select the runs.
    """
    above = access.level_vars[: access.level_vars.index(var)]
    for reduced in (v for v in above if v not in lhs):
        scope = _scope(rhs, reduced)
        picking = [a for a in operands if reduced in a.vars and var not in a.vars]
        if not picking or not isinstance(without(scope, picking), Absent):
            return False
    return True


def _scope(expr: Expr, var: IndexVar) -> Expr:
    """The smallest part of `expr` that holds every use of `var`."""
    using = [part for part in children(expr) if _uses(part, var)]
    if len(using) == 1 and isinstance(using[0], Expr) and not isinstance(using[0], IndexVar):
        return _scope(using[0], var)
    return expr


def _uses(node: Node, var: IndexVar) -> bool:
    return any(part == var for part in walk(node) if isinstance(part, IndexVar))


def _prefix(levels: tuple[Level, ...], count: int) -> tuple[Level, ...]:
    """The first levels of an operand as those of a result: a prefix of COO is not a list."""
    prefix = levels[:count]
    if count == len(levels) or all(level.unique for level in prefix):
        return prefix
    return tuple(level if level.full else Compressed for level in prefix)


def _pattern(
    rhs: Expr,
    kept: Sequence[IndexVar],
    lhs: Sequence[IndexVar],
    fill: Number,
    operands: Sequence[Access],
) -> tuple[tuple[Level, ...], tuple[IndexVar, ...]]:
    """Levels for the variables `kept`, and their order: one operand's, if it alone decides."""
    count = len(kept)
    prefixes = {
        a: (_prefix(a.tensor.format.levels, count), a.level_vars[:count])
        for a in operands
        if set(a.level_vars[:count]) == set(kept) and len(set(a.vars)) == len(a.vars)
    }
    for access, prefix in prefixes.items():
        if _is_fill(rhs, (access,), lhs, fill) and not all(level.full for level in prefix[0]):
            return prefix
    if len(prefixes) == len(operands) and len(set(prefixes.values())) == 1:
        return next(iter(prefixes.values()))
    if count != 2:
        return CSF(count).levels, tuple(kept)
    columns = all(a.tensor.format.order == (1, 0) for a in operands)
    rows_empty = all(not a.tensor.format.levels[0].full for a in operands)
    outer = Compressed if rows_empty else Dense
    return (outer, Compressed), tuple(reversed(kept)) if columns else tuple(kept)
