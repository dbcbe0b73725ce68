"""Semirings by GraphBLAS' names: an operator that adds, and one that multiplies, as in min_second.

What multiplies is applied where both operands have an entry, and absent entries are the identity of
what adds. So first, second and pair are multiplications like any other.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from openwork.algebra import operators as ops
from openwork.algebra.operators import INF, SEMIRINGS, Op, Semiring
from openwork.algebra.types import Number
from openwork.errors import ParseError
from openwork.index.define import operator

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
    if times is PAIR and add in ("any", "lor", "land"):
        plus, zero, times = ops.OR, False, _BOTH  # whether there is any
    if times.annihilator != zero:
        times = replace(times, annihilator=zero, left_annihilator=None)
    return Semiring(name, plus, times, zero)


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
            f"{wanted!r} is not a semiring", code="E111", hint=f"such as {', '.join(SEMIRINGS)}"
        )
    found = SEMIRINGS.get(wanted) or _composed(wanted)
    if found is None:
        raise ParseError(
            f"there is no semiring {wanted}",
            code="E111",
            hint=f"the semirings are {', '.join(SEMIRINGS)}, and GraphBLAS' names such as "
            f"min_second: one of {', '.join(_ADDS)} with one of {', '.join(_MULTIPLIES)}; "
            "ow.semiring defines more",
        )
    return found
