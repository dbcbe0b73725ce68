"""The words of the text form: what the printer writes and the parser reads."""

from __future__ import annotations

from openwork.algebra import operators as ops
from openwork.algebra.operators import BUILTIN, SEMIRINGS, Op, Semiring
from openwork.algebra.types import NAMES, Number

# Functions of elements. `min` and `max` reduce instead when their first argument is a variable.
FUNCTIONS: dict[str, Op] = {
    **BUILTIN,
    "minimum": ops.MIN,
    "maximum": ops.MAX,
    "logical_and": ops.AND,
    "logical_or": ops.OR,
    "logical_xor": ops.XOR,
    "logical_not": ops.NOT,
}
REDUCTIONS: dict[str, Op] = {
    "sum": ops.ADD,
    "prod": ops.MUL,
    "min": ops.MIN,
    "max": ops.MAX,
    "any": ops.OR,
    "all": ops.AND,
}
REDUCTION_WORD: dict[Op, str] = {op: word for word, op in REDUCTIONS.items()}
CONSTANTS: dict[str, Number] = {
    "inf": float("inf"),
    "nan": float("nan"),
    "True": True,
    "False": False,
}
# `border(x(i+1), 0)`: an element whose value beyond the extents is 0. `cast(type, e)`,
# `complex(re, im)` of two numbers, `index(i)` for the value of a variable whose name is also a
# tensor's, `reduce(operator, j, e)`.
FORMS = ("border", "cast", "complex", "index", "reduce")
# Any word but a tensor's may carry this prefix; it tells `ow.sum(...)` from a tensor named `sum`.
PREFIX = "ow."
ASSIGNMENT_SIGNS: dict[str, Op] = {
    op.symbol: op
    for op in (ops.ADD, ops.MUL, ops.BITWISE_OR, ops.BITWISE_AND, ops.BITWISE_XOR)
    if op.symbol is not None
}


# The operators that only semirings have: addition whose annihilator is infinity, and such.
SEMIRING_OPERATORS: dict[str, Op] = {}
_SEMIRING_WORD: dict[Op, str] = {}


def name_operators(semiring: Semiring) -> None:
    """Give the operators of a semiring their words; equal ones keep the first."""
    for role, op in (("add", semiring.add), ("mul", semiring.mul)):
        if BUILTIN.get(op.name) != op:
            word = f"{semiring.name}.{role}"
            SEMIRING_OPERATORS[word] = op
            _SEMIRING_WORD.setdefault(op, word)


for _semiring in SEMIRINGS.values():
    name_operators(_semiring)
RESERVED = frozenset((*FUNCTIONS, *REDUCTIONS, *CONSTANTS, *FORMS, *NAMES))


def infix(op: Op) -> str | None:
    """The sign that stands for `op` between its arguments (before it, for `-` and `~` of one).

    >>> infix(ops.MUL), infix(ops.SQRT)
    ('*', None)
    """
    return op.symbol if BUILTIN.get(op.name) == op else None


def word(op: Op) -> str:
    """The name that `op` is called by.

    >>> word(ops.SQRT), word(ops.MIN_PLUS.mul)
    ('sqrt', 'min_plus.mul')
    """
    return _SEMIRING_WORD.get(op, op.name)
