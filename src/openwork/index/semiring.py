"""Semirings: the same statement with another meaning of `+`, `*` and absent entries."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import isinf
from typing import Any, cast

from openwork.algebra import operators as ops
from openwork.algebra.operators import INF, SEMIRINGS, Op, Semiring
from openwork.algebra.types import Number, number, strong
from openwork.errors import ParseError
from openwork.index.define import operator
from openwork.index.einstein import insert_sums
from openwork.index.nodes import Apply, Assignment, Expr, Reduce, TensorVar
from openwork.index.words import name_operators
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


# Semirings by GraphBLAS' names: an operator that adds, and one that multiplies, as in min_second.
# What multiplies is applied where both operands have an entry, and absent entries are the identity
# of what adds. So first, second and pair are multiplications like any other.

FIRST = operator("first", lambda a, b: a)
SECOND = operator("second", lambda a, b: b)
PAIR = operator("pair", lambda a, b: 1)
_BOTH = operator("pair", lambda a, b: True)

# What adds, and what an absent entry is. Any of several values will do: it is the least one.
_ADDS: dict[str, tuple[Op, Number]] = {
    "plus": (ops.ADD, 0),
    "times": (ops.MUL, 1),
    "min": (ops.MIN, INF),
    "max": (ops.MAX, -INF),
    "any": (ops.MIN, INF),
    "lor": (ops.OR, False),
    "land": (ops.AND, True),
    "lxor": (ops.XOR, False),
}
_MULTIPLIES: dict[str, Op] = {
    "first": FIRST,
    "second": SECOND,
    "pair": PAIR,
    "oneb": PAIR,
    "plus": ops.ADD,
    "minus": ops.SUB,
    "rminus": operator("rminus", lambda a, b: b - a),
    "times": ops.MUL,
    "div": operator("quotient", lambda a, b: a / b),  # of integers, as they are
    "rdiv": operator("rdiv", lambda a, b: b / a),
    "min": ops.MIN,
    "max": ops.MAX,
    "lor": ops.OR,
    "land": ops.AND,
    "lxor": ops.XOR,
    "eq": ops.EQ,
    "ne": ops.NE,
    "lt": ops.LT,
    "le": ops.LE,
    "gt": ops.GT,
    "ge": ops.GE,
}


@lru_cache(maxsize=512)
def _composed(name: str) -> Semiring | None:
    """The semiring of a name such as `min_second`; None if it is none."""
    add, _, mul = name.partition("_")
    if add not in _ADDS or mul not in _MULTIPLIES:
        return None
    plus, zero = _ADDS[add]
    times = _MULTIPLIES[mul]
    if times is PAIR and add in ("any", "lor"):
        plus, zero, times = ops.OR, False, _BOTH  # whether there is any
    if times is ops.ADD and isinf(zero.real):
        times = ops.MIN_PLUS.mul if zero.real > 0 else ops.MAX_PLUS.mul
    if times.annihilator != zero:
        times = replace(times, annihilator=zero, left_annihilator=None)
    return Semiring(name, plus, times, zero)


# Texts have words for the operators of all; those of one absent value are the same.
for _add in ("plus", "times", "min", "max", "any"):
    for _mul in _MULTIPLIES if _add != "any" else ("pair",):
        _made = _composed(f"{_add}_{_mul}")
        if _made is not None:
            name_operators(_made)


def semiring_named(wanted: Any) -> Semiring:
    """A semiring as it is, or by its name.

    >>> semiring_named("min_second").zero, semiring_named("plus_pair").mul.name
    (inf, 'pair')

    Raises:
        ParseError: E111 if there is none of this name.
    """
    if isinstance(wanted, Semiring):
        return wanted
    if not isinstance(wanted, str):
        raise ParseError(
            f"{wanted} is not a semiring", code="E111", hint=f"such as {', '.join(SEMIRINGS)}"
        )
    found = SEMIRINGS.get(wanted.lower()) or _composed(wanted.lower())
    if found is None:
        raise ParseError(
            f"there is no semiring {wanted}",
            code="E111",
            hint=f"the semirings are {', '.join(SEMIRINGS)}, and GraphBLAS' names such as "
            f"min_second: one of {', '.join(_ADDS)} with one of {', '.join(_MULTIPLIES)}; "
            "ow.semiring defines more",
        )
    return found
