"""Unsorted operands: which are used as they are, and which are sorted first.

An operand that alone decides where there is work is traversed in any order, if the places of the
result are known beforehand. All else needs sorted coordinates: merging several operands, appending
to a result, and finding all positions of a duplicate coordinate. For these an operand is sorted
before the kernel runs.
"""

from __future__ import annotations

from dataclasses import replace

from openwork.format.formats import Format
from openwork.format.levels import Level
from openwork.index.absence import without
from openwork.index.nodes import Absent, Access, Assignment, TensorVar
from openwork.loops.plan.assembly import Append, accesses_of, choose_assembly
from openwork.trace import Trace
from openwork.tree import Node, substitute


def rises(format: Format) -> bool:
    """Whether the coordinates of every level are sorted within a run."""
    return all(level.ordered for level in format.levels)


def sorted_operands(
    assignment: Assignment, trace: Trace
) -> tuple[Assignment, tuple[tuple[TensorVar, TensorVar], ...]]:
    """`assignment` over sorted operands where their order matters, before and after sorting.

    The order of the result does not matter here: operands that are merged are always sorted.
    """
    accesses = accesses_of(assignment.rhs)
    if all(rises(access.tensor.format) for access in accesses):
        return assignment, ()
    table: dict[TensorVar, TensorVar] = {}
    for access in accesses:
        tensor = access.tensor
        if rises(tensor.format) or _walks_alone(assignment, access) or tensor in table:
            continue
        stored = tensor.format
        format = Format([rising(level) for level in stored.levels], stored.order, stored.tiles)
        table[tensor] = tensor.converted("o", format)
        trace.decide(
            f"{tensor}: its coordinates are unsorted, and sorted before each call, as {format!r}"
        )
    new: dict[Node, Node] = {
        a: replace(a, tensor=table[a.tensor]) for a in accesses if a.tensor in table
    }
    return replace(assignment, rhs=substitute(assignment.rhs, new)), tuple(table.items())


def rising(level: Level) -> Level:
    """`level` with sorted coordinates."""
    return level if level.ordered else level(ordered=True)


def _walks_alone(assignment: Assignment, access: Access) -> bool:
    """Whether the entries of `access` are all the work there is, each independently."""
    left = without(assignment.rhs, (access,))
    nothing = assignment.lhs.tensor.fill
    if assignment.op is not None:
        nothing = assignment.op.identity_of(assignment.lhs.dtype)
    others = [a for a in accesses_of(assignment.rhs) if a != access]
    return (
        isinstance(left, Absent)
        and left.value == nothing
        and not isinstance(choose_assembly(assignment), Append)
        and all(level.unique for level in access.tensor.format.levels)
        and len(set(access.vars)) == len(access.vars)
        and all(level.locates for a in others for level in a.tensor.format.levels)
    )
