"""Whether two evaluators must agree on a statement, and how closely. `generate` draws with this.

C leaves undefined what NumPy defines (a float that no integer can hold), rounding differs with the
order of a sum, and a comparison or a truncation turns a rounding error into another answer. From
bounds alone, `Analysis` finds the statements where none of this matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import Protocol

import numpy as np

from openwork.algebra import operators as ops
from openwork.algebra.operators import Op
from openwork.algebra.types import DType
from openwork.index.nodes import Access, Apply, Assignment, Cast, Expr, IndexVar, Literal, Reduce
from openwork.runtime.storage import Array

MOST = 1e12  # floats beyond this are not worth comparing
WORST = 1e-2  # nor is an answer that may be off by more
_TRUTH = (ops.LT, ops.LE, ops.GT, ops.GE, ops.EQ, ops.NE, ops.AND, ops.OR, ops.XOR, ops.NOT)
_ORDERED = (ops.MIN, ops.MAX, ops.LT, ops.LE, ops.GT, ops.GE)
_SAME_SIZE = ("neg", "abs", "conj", "real", "imag", "floor", "ceil")
# How large an argument may be so that a rounding error in it is not blown up.
_SMOOTH = {"exp": 12.0, "sin": 100.0, "cos": 100.0, "tanh": 100.0}


class Unsafe(Exception):
    """Two right evaluators could differ on the statement."""


class HasValues(Protocol):
    """A tensor's data."""

    @property
    def values(self) -> Array: ...


@dataclass(frozen=True)
class Facts:
    """What holds of a value at every point.

    `bound`: no finite value is larger. `exact`: nothing was rounded. `finite`: neither NaN nor
    infinite. `reduced`: there is a reduction in it, so its presence depends on entries that meet.
    """

    bound: float
    exact: bool = True
    finite: bool = True
    reduced: bool = False


class Analysis:
    """Facts about the expressions of one statement over `tensors`."""

    def __init__(self, tensors: Mapping[str, HasValues], extents: Mapping[IndexVar, int]) -> None:
        self.tensors, self.extents = tensors, extents
        self.largest, self.eps = 1.0, 0.0

    def tolerance(self, assignment: Assignment, result: HasValues) -> float:
        """By how much right answers may differ; raises `Unsafe` if there is no telling."""
        lhs = assignment.lhs.dtype
        facts = self.converted(self.of(assignment.rhs), assignment.rhs.dtype, lhs)
        if assignment.op is not None:
            facts = self.applied(assignment.op, [self.data(result), facts], (), lhs)
        atol = 0.0 if facts.exact else 1000 * self.eps * self.largest
        if atol > WORST:
            raise Unsafe
        return atol

    def of(self, expr: Expr) -> Facts:
        """The facts about `expr`."""
        match expr:
            case Access(tensor=tensor):
                return self.fitted(self.data(self.tensors[tensor.name]), expr.dtype)
            case Literal(value=value):
                return self.fitted(Facts(abs(value)), expr.dtype)
            case IndexVar():
                return Facts(self.extents[expr])
            case Cast(to=to, expr=inner):
                return self.converted(self.of(inner), inner.dtype, to)
            case Apply(op=op, args=args):
                kinds = [arg.kind for arg in args]
                given = [
                    self.converted(self.of(arg), arg.dtype, op.argument_type(kinds, n))
                    for n, arg in enumerate(args)
                ]
                return self.applied(op, given, args, expr.dtype)
            case Reduce(op=op, var=var, expr=inner):
                facts = self.converted(self.of(inner), inner.dtype, expr.dtype)
                return self.combined(op, facts, self.extents[var], expr.dtype)
        raise Unsafe

    def data(self, tensor: HasValues) -> Facts:
        values = tensor.values[np.isfinite(tensor.values)]
        largest = float(np.abs(values.astype(complex)).max(initial=0))
        return Facts(largest, finite=values.size == tensor.values.size)

    def fitted(self, facts: Facts, dtype: DType) -> Facts:
        """`facts` about a value computed in `dtype`: integers wrap, floats round."""
        if dtype.kind == "b":
            return replace(facts, bound=1.0)
        if dtype.kind in "iu":
            return replace(facts, bound=min(facts.bound, float(np.iinfo(dtype).max)))
        precision = np.finfo(dtype)
        self.eps = max(self.eps, float(precision.eps))
        self.largest = max(self.largest, facts.bound)
        if facts.bound > MOST or (dtype.kind == "c" and not facts.finite):
            raise Unsafe
        return replace(facts, exact=facts.exact and facts.bound < 2.0 ** (precision.nmant - 4))

    def converted(self, facts: Facts, source: DType, to: DType) -> Facts:
        """`facts` after a conversion, which C must define."""
        if source == to:
            return facts
        if to.kind == "b" and not facts.exact:
            raise Unsafe
        if to.kind in "iu" and source.kind in "fc":
            limit = float(np.iinfo(to).max) if to.kind == "i" else 0.0
            if not (facts.exact and facts.finite and facts.bound < limit):
                raise Unsafe
        if to.kind == "u" and source.kind == "i":
            facts = replace(facts, bound=float(np.iinfo(to).max))
        return self.fitted(facts, to)

    def applied(self, op: Op, args: list[Facts], nodes: Sequence[Expr], dtype: DType) -> Facts:
        """The facts about `op` on `args`, whose expressions are `nodes`."""
        types = {node.dtype.kind for node in nodes} | {dtype.kind}
        if "c" in types and op.name in [o.name for o in _ORDERED]:
            raise Unsafe
        exact, finite = all(a.exact for a in args), all(a.finite for a in args)
        bounds = [a.bound for a in args]
        match op.name:
            case name if name in [o.name for o in _TRUTH]:
                bound = 1.0
                if not exact:
                    raise Unsafe
            case "add" | "sub":
                bound = sum(bounds)
            case "mul":
                bound = bounds[0] * bounds[1]
            case "min" | "max":
                bound = max(bounds)
            case "select":
                bound = max(bounds[1:])
                if not args[0].exact:
                    raise Unsafe
            case "div":
                bound, exact = bounds[0] * 2, False
                finite = finite and self.divides(nodes[1], args, dtype)
            case "pow":
                # Other exponents than numbers are natural ones, of integers.
                most = min(bounds[1], 16.0)
                bound, exact = _power(max(bounds[0], 1.0), most), dtype.kind in "iu"
                known = isinstance(nodes[1], Literal) or (exact and bounds[1] <= 64)
                if dtype.kind == "c" or not known:
                    raise Unsafe
            case "bitwise_and" | "bitwise_or" | "bitwise_xor" | "invert" | "left_shift":
                bound = float("inf")  # as many bits as there are
            case "right_shift":
                bound = bounds[0]
            case "floor_divide" | "remainder":
                # A rounded quotient may be the next whole number, and there may be nothing to it.
                if not exact or (dtype.kind == "f" and not self.divides(nodes[1], args, dtype)):
                    raise Unsafe
                bound = bounds[0] if name == "floor_divide" else bounds[1]
                bound = max(bound, 1.0)
            case "sqrt" | "log":  # of something that is exact and not negative
                if not args[0].exact or not _is_positive(nodes[0]) or dtype.kind == "c":
                    raise Unsafe
                bound, exact = bounds[0], False
            case name if name in _SAME_SIZE:
                bound = bounds[0] * (1.5 if "c" in types else 1)
                exact = exact and "c" not in types
                if name in ("floor", "ceil") and not exact:
                    raise Unsafe
            case name if name in _SMOOTH and bounds[0] <= _SMOOTH[name] and finite:
                grows = name == "exp" or "c" in types
                bound, exact = exp(min(bounds[0], 12.0)) if grows else 1.0, False
            case _:
                raise Unsafe
        if dtype.kind == "u" and op.name in ("sub", "neg", "remainder"):
            bound = float("inf")
        return self.fitted(Facts(bound, exact, finite, any(a.reduced for a in args)), dtype)

    def divides(self, divisor: Expr, args: list[Facts], dtype: DType) -> bool:
        """Whether a quotient is finite; a divisor that may be zero has to be plain data."""
        match divisor:
            case Apply(op=ops.ADD, args=(Apply(op=ops.ABS), Literal(value=1))):
                if not _may_wrap(args[1], divisor.dtype):
                    return True
            case Literal(value=value) if value != 0:
                return True
            case Access() | IndexVar() if dtype.kind != "c" and not args[0].reduced:
                return False
        raise Unsafe

    def combined(self, op: Op, facts: Facts, extent: int, dtype: DType) -> Facts:
        """The facts about `extent` values reduced by `op`."""
        bound, finite = facts.bound, facts.finite
        if op.name in ("min", "max"):
            if dtype.kind == "c":
                raise Unsafe
            if extent == 0:
                bound, finite = (float("inf") if dtype.kind in "iu" else bound), False
        elif op.name == "mul":
            bound = max(bound, 1.0) ** extent
        elif op.name == "add":
            bound = bound * max(extent, 1)
        elif not facts.exact:
            raise Unsafe
        return self.fitted(Facts(bound, facts.exact, finite, True), dtype)


def _may_wrap(facts: Facts, dtype: DType) -> bool:
    """Whether integers of `dtype` may have become others on the way: one more may be none."""
    return dtype.kind in "iu" and facts.bound >= float(np.iinfo(dtype).max)


def _is_positive(expr: Expr) -> bool:
    """Whether `expr` is written so that it cannot be negative."""
    match expr:
        case Apply(op=ops.ABS):
            return True
        case Apply(op=ops.ADD, args=(Apply(op=ops.ABS), Literal())):
            return True
    return False


def _power(base: float, exponent: float) -> float:
    """`base` to a power; infinity where no float is as large."""
    try:
        return base**exponent
    except OverflowError:
        return float("inf")
