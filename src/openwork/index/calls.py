"""What a word with arguments stands for in the text form: functions, reductions, conversions."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from openwork.algebra import operators as ops
from openwork.algebra.operators import Op
from openwork.algebra.types import NAMES, SUPPORTED, DType, Number, number
from openwork.errors import ParseError, Span
from openwork.index.nodes import Cast, Expr, IndexVar, Literal, Reduce, apply, check_condition
from openwork.index.select import bordered
from openwork.index.words import REDUCTIONS

T = TypeVar("T")
# Forms whose first argument is a name: of a type, an operator or a variable.
NAMED_FIRST = {"cast": "an element type", "reduce": "an operator", "index": "an index variable"}


def call(
    word: str, name: str | None, args: Sequence[Expr], operators: Mapping[str, Op], span: Span
) -> Expr:
    """The expression that `word(args)` stands for.

    `name` is the first argument of the forms in `NAMED_FIRST`; `args` are the others.

    >>> print(call("sum", None, [IndexVar("j"), Literal(2)], {}, Span("", 0, 0)))
    sum(j, 2)
    """
    match word:
        case "cast":
            (expr,) = _exactly(1, word, args)
            return Cast(_known(name, SUPPORTED, "element type"), expr)
        case "index":
            _exactly(0, word, args)
            return IndexVar(name or "")
        case "reduce":
            return _reduction(word, _known(name, operators, "operator"), args, span)
        case "border":
            element, value = _exactly(2, word, args)
            return bordered(element, value, span)
        case "complex":
            return _complex(_exactly(2, word, args))
    op = operators.get(word)
    if op is None and word in NAMES:
        return _converted(SUPPORTED[word], _exactly(1, word, args)[0])
    over_variable = bool(args) and isinstance(args[0], IndexVar)
    if word in REDUCTIONS and (op is None or (op in (ops.MIN, ops.MAX) and over_variable)):
        return _reduction(word, REDUCTIONS[word], args, span)
    if op is None:
        raise ParseError(f"no function is called {word}", code="E103")
    given = _exactly(op.arity, word, args)
    if op.selects:
        check_condition(given[0])
    return apply(op, *given, span=span)


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint with the word nearest to `name`, if one is near."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f"did you mean {near[0]}?" if near else None


def _known(name: str | None, table: Mapping[str, T], what: str) -> T:
    if name is None or name not in table:
        hint = did_you_mean(name or "", table)
        raise ParseError(f"no {what} is called {name}", code="E103", hint=hint)
    return table[name]


def _exactly(wanted: int, word: str, args: Sequence[Expr]) -> Sequence[Expr]:
    if len(args) != wanted:
        before = 1 if word in NAMED_FIRST else 0
        needs = f"{wanted + before} argument{'' if wanted + before == 1 else 's'}"
        raise ParseError(f"{word} takes {needs}, got {len(args) + before}", code="E102")
    return args


def _reduction(word: str, op: Op, args: Sequence[Expr], span: Span) -> Expr:
    """`sum(j, k, e)` sums over j and within that over k."""
    *variables, expr = args or [Literal(0)]
    wrong = [v for v in variables if not isinstance(v, IndexVar)]
    if wrong or not variables:
        raise ParseError(
            f"{word} needs index variables to run over, then an expression",
            code="E102",
            hint=f"for example {word}({'max, ' if word == 'reduce' else ''}j, A(i,j))",
        )
    for var in reversed(variables):
        if isinstance(var, IndexVar):
            expr = Reduce(op, var, expr, span)
    return expr


def _complex(args: Sequence[Expr]) -> Expr:
    parts = [a.value for a in args if isinstance(a, Literal) and a.typed is None]
    if len(parts) != 2 or any(isinstance(part, complex) for part in parts):
        raise ParseError(
            "complex takes two real numbers",
            code="E102",
            hint="complex(1.0, 2.0); for expressions: a + 1j * b",
        )
    return Literal(complex(float(parts[0].real), float(parts[1].real)))


def _converted(dtype: DType, expr: Expr) -> Expr:
    """A typed literal for a number, a cast for anything else."""
    if not isinstance(expr, Literal) or expr.typed is not None:
        return Cast(dtype, expr)
    if not _holds(dtype, expr.value):
        raise ParseError(
            f"{dtype} cannot hold {expr.value!r}",
            code="E108",
            hint=f"cast({dtype}, {expr.value!r}) converts it",
        )
    return Literal(number(expr.value, dtype), dtype)


def _holds(dtype: DType, value: Number) -> bool:
    """Whether `dtype` can hold `value`, up to rounding of fractions."""
    if isinstance(value, complex):
        return dtype.kind == "c"
    if dtype.kind == "b":
        return value in (0, 1)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return bool(limits.min <= value <= limits.max) and value == int(value)
    return True
