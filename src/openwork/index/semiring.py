"""Semirings: the same statement with another meaning of `+`, `*` and absent entries."""

from __future__ import annotations

from dataclasses import replace
from math import isinf
from typing import cast

from openwork.algebra import operators as ops
from openwork.algebra.operators import Op, Semiring
from openwork.algebra.types import number, strong
from openwork.errors import ParseError
from openwork.index.einstein import insert_sums
from openwork.index.nodes import Apply, Assignment, Expr, Reduce, TensorVar
from openwork.tree import Node, bottom_up

_INVERSES = (ops.SUB, ops.DIV, ops.NEG, ops.FLOOR_DIVIDE, ops.REMAINDER)


def under(semiring: Semiring, assignment: Assignment) -> Assignment:
    """`assignment` computed in `semiring`.

    `+`, sums and `+=` become the semiring's addition, `*` its multiplication, and an entry that is
    absent stands for the semiring's zero instead of the number 0.

    Raises:
        ParseError: E111 for `-`, `/`, `//` and `%`, which semirings do not have.

    >>> from openwork.algebra.types import FLOAT64
    >>> from openwork.format.formats import CSR, dense
    >>> from openwork.index.parse import parse_assignment
    >>> from openwork.index.show import show
    >>> tensors = {"A": TensorVar("A", CSR, FLOAT64, shape=(3, 3))}
    >>> tensors |= {n: TensorVar(n, dense(1), FLOAT64, shape=(3,)) for n in "dp"}
    >>> shortest = under(ops.MIN_PLUS, parse_assignment("d(i) = A(i,j) * p(j)", tensors))
    >>> show(shortest)
    'd(i) = min(j, min_plus.mul(A(i,j), p(j)))'
    >>> shortest.lhs.tensor.fill
    inf
    """
    if semiring == ops.PLUS_TIMES:
        return assignment
    assignment = insert_sums(assignment)

    def meaning(op: Op) -> Op:
        return {ops.ADD: semiring.add, ops.MUL: semiring.mul}.get(op, op)

    def rule(node: Node) -> Node | None:
        match node:
            case Apply(op=op) if op in _INVERSES:
                raise ParseError(
                    f"{semiring} has no {op.symbol}",
                    code="E111",
                    span=node.span,
                    hint=f"{semiring} has only + ({semiring.add}) and * ({semiring.mul})",
                )
            case Apply(op=op) | Reduce(op=op) if meaning(op) is not op:
                made = replace(node, op=meaning(op))
                _check_infinity(semiring, made)
                return made
            case TensorVar(fill=fill) if fill == 0:
                return _with_zero(node, semiring)
        return None

    lhs = assignment.lhs
    if lhs.tensor.fill == 0 or not lhs.tensor.format.is_dense:
        lhs = replace(lhs, tensor=_with_zero(lhs.tensor, semiring))
    op = None if assignment.op is None else meaning(assignment.op)
    return replace(assignment, lhs=lhs, op=op, rhs=cast(Expr, bottom_up(rule)(assignment.rhs)))


def _check_infinity(semiring: Semiring, node: Node) -> None:
    """Infinity stands for the extreme integer, which is finite where it becomes a fraction."""
    if not (isinstance(node, Apply) and node.op == semiring.mul and isinf(semiring.zero.real)):
        return
    kinds = [arg.kind for arg in node.args]
    types = [strong(kind) for kind in kinds]
    for n, dtype in enumerate(types):
        seen = dtype if node.op.definition is not None else node.op.argument_type(kinds, n)
        if dtype.kind in "iu" and seen.kind == "f":
            raise ParseError(
                f"{semiring} makes fractions of {dtype}, which has no infinity",
                code="E111",
                span=node.span,
                hint="convert the operands first: A.astype('float64')",
            )


def _with_zero(tensor: TensorVar, semiring: Semiring) -> TensorVar:
    return replace(tensor, fill=number(semiring.zero, tensor.dtype))
