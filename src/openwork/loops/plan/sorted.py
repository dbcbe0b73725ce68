"""Operands whose coordinates are in no order, and what can be done with them as they are.

One operand that alone decides where there is work is walked in whatever order it has, into places
that are known beforehand. All else takes coordinates that rise: merging several operands,
appending to a result, and finding all positions of a coordinate that may occur twice. For these an
operand is sorted before the kernel runs.
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
    """Whether the coordinates of every level rise within a run."""
    return all(level.ordered for level in format.levels)


def sorted_operands(
    assignment: Assignment, trace: Trace
) -> tuple[Assignment, tuple[tuple[TensorVar, TensorVar], ...]]:
    """`assignment` over sorted operands where their order matters, as they are and as they become.

    The order of a result is nobody's concern here: it is computed in order, then converted.
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
        format = Format([_rising(level) for level in stored.levels], stored.order, stored.tiles)
        table[tensor] = tensor.converted("o", format)
        trace.decide(
            f"{tensor}: its coordinates are in no order, and sorted before each call, as {format!r}"
        )
    new: dict[Node, Node] = {
        a: replace(a, tensor=table[a.tensor]) for a in accesses if a.tensor in table
    }
    return replace(assignment, rhs=substitute(assignment.rhs, new)), tuple(table.items())


def _rising(level: Level) -> Level:
    return level if level.ordered else level(ordered=True)


def _walks_alone(assignment: Assignment, access: Access) -> bool:
    """Whether the entries of `access` are all the work there is, each for itself."""
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
