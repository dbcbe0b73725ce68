"""How a result is assembled: written in place, with an operand's pattern, or by appending."""

from __future__ import annotations

from openwork.format.levels import Level
from openwork.frozen import frozen
from openwork.index.absence import without
from openwork.index.nodes import Absent, Access, Assignment, Expr
from openwork.tree import walk


@frozen
class InPlace:
    """Every position is known beforehand: a dense result, or a scalar."""


@frozen
class Shared:
    """The first `depth` levels have the pattern of `operand`; the levels below are full."""

    operand: Access
    depth: int


@frozen
class Append:
    """Coordinates are appended in order while the result is computed.

    `strategy`: in one "serial" pass, or in parallel for pieces of the outermost loop: "append" each
    to private arrays that are then concatenated, or "count" all pieces first, and then fill them in
    place. `lanes`: threads of a GPU per piece; 0 on a CPU. They share a hash table of `slots` in
    shared memory. `share`: rows and entries of operands per piece, cut by merge path; 0 where
    pieces are rows. `many`: threads of a block that computes a long row. `atomic`: they accumulate
    by atomics, in any order. `mapped`: a row that is too large for a hash table in shared memory
    has a dense workspace and a bitmap.
    """

    strategy: str = "serial"
    lanes: int = 0
    slots: int = 0
    share: int = 0
    many: int = 256
    atomic: bool = False
    mapped: bool = False


STRATEGIES = ("count", "append", "serial")

Assembly = InPlace | Shared | Append


def accesses_of(expr: Expr) -> tuple[Access, ...]:
    """The different accesses in `expr`, in order."""
    return tuple(dict.fromkeys(node for node in walk(expr) if isinstance(node, Access)))


def choose_assembly(assignment: Assignment) -> Assembly:
    """The cheapest assembly that gives the result its pattern."""
    result = assignment.lhs
    if result.tensor.format.is_dense:
        return InPlace()
    for operand in accesses_of(assignment.rhs):
        depth = _shared_depth(assignment, operand)
        if depth is not None:
            return Shared(operand, depth)
    return Append()


def _agree(stored: tuple[Level, ...], wanted: tuple[Level, ...]) -> bool:
    """Whether levels are those that are wanted; sorted coordinates do where any order does."""
    return len(stored) == len(wanted) and all(
        one == other
        or (type(one) is type(other) and not other.ordered and one == other(ordered=True))
        for one, other in zip(stored, wanted, strict=True)
    )


def _shared_depth(assignment: Assignment, operand: Access) -> int | None:
    """How many levels the result shares with `operand`, if it has exactly its pattern.

    That is so when the levels and variables agree down to the last that is not full, nothing is
    left of the right-hand side where `operand` is absent, and no other operand is sparse along
    the shared variables (it would thin out the pattern).
    """
    result = assignment.lhs
    levels = result.tensor.format.levels
    depth = max(n + 1 for n, level in enumerate(levels) if not level.full)
    if (
        not _agree(operand.tensor.format.levels[:depth], levels[:depth])
        or operand.level_vars[:depth] != result.level_vars[:depth]
        or len(set(operand.level_vars)) != len(operand.level_vars)
    ):
        return None
    if depth < len(operand.level_vars) and not levels[depth - 1].unique:
        return None  # duplicate coordinates are one entry of the result
    left = without(assignment.rhs, (operand,))
    if not (isinstance(left, Absent) and left.value == result.tensor.fill):
        return None
    shared = set(result.level_vars)
    for other in accesses_of(assignment.rhs):
        if other != operand and any(
            var in shared and not level.full
            for level, var in zip(other.tensor.format.levels, other.level_vars, strict=True)
        ):
            return None
    below = set(result.level_vars[depth:])
    alike = (operand.tensor.format.levels, operand.level_vars) == (levels, result.level_vars)
    if below & set(operand.level_vars) and not alike:
        return None
    return depth
