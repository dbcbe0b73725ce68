"""Bounds on the number of entries of a sparse result, before it is computed.

If not even the lower bound fits into memory, the call is refused. The upper bound is allocated; the
system assigns pages as they are written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from openwork.algebra.operators import Op
from openwork.algebra.types import number
from openwork.format.levels.width import index_dtype
from openwork.frozen import frozen
from openwork.index.absence import without
from openwork.index.nodes import Absent, Access, Apply, Assignment, Cast, Expr, IndexVar, Reduce
from openwork.runtime.memory import available, check_memory
from openwork.runtime.storage import Storage
from openwork.tree import walk

Extents = Mapping[IndexVar, int]

# From this many entries on, inspecting the operands for a better estimate pays.
_MANY = 1 << 16
# The part of free memory that is allocated for a result of unknown size.
_SHARE = 4


@frozen
class Entries:
    """The number of entries of an expression over `vars`: from `least` to `most`."""

    least: int
    most: int
    vars: frozenset[IndexVar]


def entries(
    assignment: Assignment,
    operands: Mapping[str, Storage],
    extents: Extents,
    full: bool | None = None,
) -> Entries:
    """The number of entries of the result, each with its block of dense levels below.

    `full`: what `is_full` says, if that is known.
    """
    found = _entries(assignment.rhs, operands, extents)
    lhs = assignment.lhs
    levels = lhs.tensor.format.levels
    depth = max(n + 1 for n, level in enumerate(levels) if not level.full)
    below = math.prod(extents[v] for v in lhs.level_vars[depth:])
    whole = math.prod(extents[v] for v in lhs.level_vars[:depth])
    if is_full(assignment) if full is None else full:
        return Entries(whole, whole, frozenset(lhs.vars))
    least = -(-min(found.least, whole * below) // max(1, below))
    return Entries(least, min(found.most, whole), frozenset(lhs.vars))


def is_full(assignment: Assignment) -> bool:
    """Whether a result has an entry for every coordinate, whatever its sparse operands hold.

    It has if the expression has a value even where all of them are absent: `max(A, x)` with a dense
    `x`, or anything that differs from the result's fill there.
    """
    lhs = assignment.lhs
    reads = [node for node in walk(assignment.rhs) if isinstance(node, Access)]
    left = without(assignment.rhs, [a for a in reads if not a.tensor.format.is_dense])
    if not isinstance(left, Absent):
        return bool(lhs.vars)
    nothing = lhs.tensor.fill if assignment.op is None else assignment.op.identity_of(lhs.dtype)
    return number(left.value, lhs.dtype) != number(nothing, lhs.dtype)


def steps(assignment: Assignment, operands: Mapping[str, Storage], extents: Extents) -> float:
    """A quick upper estimate of the iterations of a statement's loops."""
    return float(max(_visited(assignment.rhs, operands, extents)[1:]))


def _visited(
    expr: Expr, operands: Mapping[str, Storage], extents: Extents
) -> tuple[frozenset[IndexVar], int, int]:
    """The variables of an expression, the most coordinates at which it may be present, and the
    most at which any part of it may be."""
    match expr:
        case Access(tensor=tensor, vars=variables):
            stored = operands[tensor.name].places
            return frozenset(variables), stored, stored
        case Reduce(var=var, expr=inner):
            found, most, so_far = _visited(inner, operands, extents)
            kept = found - {var}
            return kept, min(most, math.prod(extents[v] for v in kept)), so_far
        case Apply(op=op, args=args):
            parts = [_visited(arg, operands, extents) for arg in args]
            either = frozenset().union(*(found for found, _, _ in parts))
            size = math.prod(extents[v] for v in either)
            whole = size
            if len(args) == 1:
                whole = parts[0][1]
            elif _meets(op, expr):
                larger = [most for found, most, _ in parts if found == either]
                whole = min(larger) if larger else math.prod(most for _, most, _ in parts)
            elif _unites(op, expr):
                whole = sum(
                    most * math.prod(extents[v] for v in either - found) for found, most, _ in parts
                )
            whole = min(whole, size)
            return either, whole, max(whole, *(so_far for _, _, so_far in parts))
        case Cast(expr=inner):
            return _visited(inner, operands, extents)
    return frozenset(), 1, 1


def check_size(assignment: Assignment, found: Entries, extents: Extents) -> None:
    """Raise `MemoryError` if not even the fewest entries fit into memory."""
    lhs = assignment.lhs
    levels, variables = lhs.tensor.format.levels, lhs.level_vars
    first = next(n for n, level in enumerate(levels) if not level.full)
    runs = math.prod(extents[v] for v in variables[:first])
    needed = 4 * runs + found.least * _entry(lhs, extents)
    check_memory(needed, f"{lhs.tensor}, with {found.least:,} entries,")


def limit(lhs: Access, extents: Extents) -> int:
    """The most entries of a result that fit into memory now."""
    left = available()
    return 1 << 62 if left is None else left // _entry(lhs, extents)


def _entry(lhs: Access, extents: Extents) -> int:
    """The bytes of an entry, including its block of dense levels below."""
    levels, variables = lhs.tensor.format.levels, lhs.level_vars
    depth = max(n + 1 for n, level in enumerate(levels) if not level.full)
    below = math.prod(extents[v] for v in variables[depth:])
    return below * lhs.dtype.itemsize + index_dtype(extents[variables[depth - 1]]).itemsize


def room_for(found: Entries, entry: int, least: int) -> int:
    """How many entries to allocate: the most, unless that takes too much of free memory.

    Never zero: a kernel returns arrays, however short.
    """
    if found.most <= max(least, _MANY):
        return max(1, min(found.most, least))
    left = available()
    most = found.most if left is None else left // _SHARE // max(1, entry)
    return max(least, min(found.most, most))


def may_not_fit(found: Entries, lhs: Access, extents: Extents) -> bool:
    """Whether a result with the most entries might not fit into memory.

    While its chunks are concatenated, entries may exist twice.
    """
    if found.most <= _MANY:
        return False
    left = available()
    return left is not None and 2 * found.most * _entry(lhs, extents) > left


def _entries(expr: Expr, operands: Mapping[str, Storage], extents: Extents) -> Entries:
    match expr:
        case Access(tensor=tensor, vars=variables):
            stored = operands[tensor.name].nnz
            apart = len(set(variables)) == len(variables) and _tells_apart(expr)
            return Entries(stored if apart else 0, stored, frozenset(variables))
        case Cast(expr=inner):
            return _entries(inner, operands, extents)
        case Reduce(var=var, expr=inner):
            whole = _entries(inner, operands, extents)
            kept = whole.vars - {var}
            most = min(whole.most, math.prod(extents[v] for v in kept))
            return Entries(-(-whole.least // max(1, extents[var])), most, kept)
        case Apply(op=op, args=(left_arg, right_arg)):
            left, right = (_entries(arg, operands, extents) for arg in (left_arg, right_arg))
            either = left.vars | right.vars
            size = math.prod(extents[v] for v in either)
            if _unites(op, expr):
                return _sum(left, right, either, size, extents)
            if _meets(op, expr):
                least, most = _joined(left_arg, right_arg, left, right, operands)
                return Entries(least, min(most, size), either)
            return Entries(0, size, either)
    found = frozenset(v for v in extents if any(node == v for node in walk(expr)))
    return Entries(0, math.prod(extents[v] for v in found), found)


def _unites(op: Op, expr: Apply) -> bool:
    laws = (op.identity, op.right_identity)
    return any(law is not None and number(law, expr.dtype) == number(0, expr.dtype) for law in laws)


def _meets(op: Op, expr: Apply) -> bool:
    law = op.annihilator
    return law is not None and number(law, expr.dtype) == number(0, expr.dtype)


def _sum(
    left: Entries, right: Entries, variables: frozenset[IndexVar], whole: int, extents: Extents
) -> Entries:
    """A union; an operand without a variable has its entries at every value of it."""
    least = most = 0
    for one in (left, right):
        times = math.prod(extents[v] for v in variables - one.vars)
        least, most = max(least, one.least * times), most + one.most * times
    return Entries(least, min(most, whole), variables)


def _joined(
    one: Expr, other: Expr, left: Entries, right: Entries, operands: Mapping[str, Storage]
) -> tuple[int, int]:
    """Bounds on the number of matching pairs of entries."""
    if not left.vars & right.vars:
        return left.least * right.least, left.most * right.most
    if left.vars >= right.vars or right.vars >= left.vars:
        # Each entry of the larger one matches at most one of the other.
        return 0, min(e.most for e in (left, right) if e.vars >= left.vars | right.vars)
    if isinstance(one, Access) and isinstance(other, Access):
        for a, b in ((one, other), (other, one)):
            pairs = _pairs(a, b, operands)
            if pairs is not None:
                return pairs if _tells_apart(a) and _tells_apart(b) else 0, pairs
    return 0, left.most * right.most


def _tells_apart(access: Access) -> bool:
    """Whether stored entries have distinct coordinates."""
    levels = access.tensor.format.levels
    return not levels or levels[-1].unique


def _pairs(a: Access, b: Access, operands: Mapping[str, Storage]) -> int | None:
    """The number of matching pairs of entries: the lengths of `b`'s runs at `a`'s coordinates."""
    shared = set(a.vars) & set(b.vars)
    first, second = operands[a.tensor.name], operands[b.tensor.name]
    levels = second.format.levels
    if len(shared) != 1 or b.level_vars[0] not in shared or len(levels) != 2 or not levels[0].full:
        return None
    at = a.level_vars.index(b.level_vars[0])
    if len(first.levels) != len(a.level_vars):  # dense, and viewed in another's blocks
        return None
    pos, crd = second.levels[1].get("pos"), first.levels[at].get("crd")
    if pos is None or crd is None or at + 1 != len(a.level_vars):
        return None
    return int(np.take(np.diff(pos), crd).sum(dtype=np.int64))
