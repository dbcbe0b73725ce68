"""Random statements over records. The same state of the generator gives the same case.

Operands have entry types of one family, so that most products are defined; the order of factors
matters. All numbers are small multiples of a power of two: results are exact, in any order of sums.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from tests.random.analysis import HasValues, Unsafe
from tests.random.entries import FAMILIES, PATH, TURN, UNIT
from tests.random.generate import Case, Draw, Operand

from openwork.algebra import operators as ops
from openwork.algebra.entries import Complex, Dual, Entry, Quaternion
from openwork.algebra.operators import Op
from openwork.algebra.types import DType, Number, as_numbers
from openwork.errors import FormatError, ParseError
from openwork.index.nodes import (
    Access,
    Apply,
    Assignment,
    Expr,
    IndexVar,
    Literal,
    Reduce,
    apply,
)
from openwork.index.terms import as_expr
from openwork.tree import walk

_LARGEST = 2.0**22  # times two to the power of halvings: what float32 holds exactly
_LARGEST_HALF = 2.0**10  # ... what float16 does
_TRIES = 12
_LITERALS = (0, 1, 2, -1, 0.5, 2.0, 0.0)


def record_case(rng: random.Random, formats: random.Random | None = None) -> Case:
    """Draw a statement in which some elements are records."""
    for _ in range(2000):
        try:
            case = _Records(rng, 3, False, formats, None).case()
        except (FormatError, ParseError, Unsafe):  # a fill value that no record stands for, ...
            continue
        if case.has_records:
            return case
    raise AssertionError("no legal statement over records in 2000 draws")


@dataclass(frozen=True)
class _Size:
    """No number is larger than `bound`, and all are multiples of `1 / 2 ** halvings`."""

    bound: float
    halvings: int = 0

    def checked(self, largest: float = _LARGEST) -> _Size:
        if self.bound * 2.0**self.halvings > largest:
            raise Unsafe
        return self


class _Sizes:
    """The sizes of the expressions of one statement over `tensors`."""

    def __init__(self, tensors: Mapping[str, HasValues], extents: Mapping[IndexVar, int]) -> None:
        self.tensors, self.extents = tensors, extents

    def of(self, expr: Expr) -> _Size:
        """The size of `expr`; raises `Unsafe` if its numbers may be rounded."""
        match expr:
            case Access(tensor=tensor):
                return self.data(self.tensors[tensor.name])
            case Literal(value=value):
                return _Size(abs(value), 0 if value == int(value.real) else 1)
            case IndexVar():
                return _Size(self.extents[expr])
            case Apply(op=op, args=args):
                return self.applied(op, [self.of(arg) for arg in args], args).checked()
            case Reduce(op=op, var=var, expr=inner):
                return self.reduced(op, self.of(inner), self.extents[var], inner).checked()
            case _ if hasattr(expr, "expr"):
                return self.of(expr.expr)
        raise Unsafe

    def data(self, tensor: HasValues) -> _Size:
        if tensor.values.dtype == UNIT.dtype:
            return _Size(1.0)
        numbers = as_numbers(tensor.values)
        return _Size(float(np.abs(numbers[np.isfinite(numbers)]).max(initial=1)))

    def applied(self, op: Op, sizes: list[_Size], args: tuple[Expr, ...]) -> _Size:
        halvings = max(size.halvings for size in sizes)
        match op.name:
            case "add" | "sub":
                return _Size(sum(size.bound for size in sizes), halvings)
            case "mul":
                return self.product(*sizes, terms=max(map(_count, args)))
            case "div" if isinstance(args[1], Literal) and args[1].value == 2:
                return _Size(sizes[0].bound, halvings + 1)
            case "div" if isinstance(args[1].dtype, Entry) and sizes[1].bound == 1:  # by a unit
                return self.product(*sizes, terms=max(map(_count, args)))
            case "neg" | "conj" | "real" | "eq" | "ne" | "lt" | "select":
                return _Size(max(size.bound for size in sizes), halvings)
        raise Unsafe

    def reduced(self, op: Op, size: _Size, extent: int, inner: Expr) -> _Size:
        if op is ops.ADD:
            return _Size(size.bound * max(extent, 1), size.halvings)
        total = _Size(1.0)
        for _ in range(extent):
            total = self.product(total, size, terms=_count(inner)).checked()
        return total

    def product(self, a: _Size, b: _Size, terms: int) -> _Size:
        return _Size(max(a.bound, 1.0) * max(b.bound, 1.0) * terms, a.halvings + b.halvings)


def _count(expr: Expr) -> int:
    """How many terms a number of a product with `expr` has at most."""
    return expr.dtype.decoded.size if isinstance(expr.dtype, Entry) else 1


def _unit(which: int, sign: float) -> tuple[float, ...]:
    """The stored numbers of a quaternion with one number that is not zero."""
    numbers = np.zeros(4)
    numbers[which] = sign
    return tuple(float(each) for each in UNIT.encode(list(numbers)))


class _Records(Draw):
    """One attempt at a statement over elements of one family of types."""

    def __init__(
        self,
        rng: random.Random,
        max_order: int,
        nonfinite: bool,
        other: random.Random | None,
        integers: random.Random | None,
    ) -> None:
        self.family = rng.choice(FAMILIES)
        if UNIT in self.family and rng.random() < 0.5:  # products of them are such, too
            self.family = (UNIT,)
        super().__init__(rng, max_order, nonfinite, other, integers)
        self.semiring = None

    def dtype(self) -> DType:
        kinds = self.family
        weights = [4 if isinstance(kind, Entry) else 1 for kind in kinds]
        return self.rng.choices(kinds, weights)[0]

    def operand(self, name: str) -> Access:
        self.semiring, self.base = None, self.dtype()
        return super().operand(name)

    def value(self, dtype: DType) -> Number:
        """An element as NumPy takes it, with small whole numbers."""
        if not isinstance(dtype, Entry):
            return super().value(dtype) if dtype.kind == "i" else float(self.rng.randint(-2, 2))
        if self.rng.random() < 0.08:
            return dtype.zero  # type: ignore[return-value]
        if self.family == (PATH,):
            return tuple(self.rng.randint(0, 3) for _ in dtype.fields)  # type: ignore[return-value]
        if dtype == UNIT:  # one of eight, which are stored exactly
            return _unit(self.rng.randrange(4), self.rng.choice((-1.0, 1.0)))  # type: ignore[return-value]
        return tuple(self.rng.choice((-2, -1, -1, 0, 1, 1, 2)) for _ in dtype.fields)  # type: ignore[return-value]

    def leaf(self) -> Expr:
        kind = self.rng.random()
        if kind < 0.9 or self.family in ((PATH,), (UNIT,)):
            return self.access()
        return as_expr(self.rng.choice(_LITERALS)) if kind < 0.97 else self.rng.choice(self.vars)

    def tree(self, depth: int) -> Expr:
        if self.family == (UNIT,):
            return self.sum_of_products()
        form = self.rng.choices([form for form, _ in _FORMS], [weight for _, weight in _FORMS])[0]
        return form(self, depth - 1)

    def fitting(self, op: Op, left: Expr, make: Callable[[], Expr]) -> Expr:
        """`op` of `left` and the first of some operands for which it is defined, on either side."""
        for _ in range(_TRIES):
            right = make()
            pairs = [(left, right), (right, left)]
            for pair in pairs if self.rng.random() < 0.5 else pairs[::-1]:
                try:
                    return apply(op, *pair)
                except ParseError:
                    continue
        raise Unsafe

    def sum_of_products(self) -> Expr:
        total: Expr | None = None
        weights = (1, 0, 0) if self.family == (UNIT,) else (5, 4, 2)
        for _ in range(self.rng.choices((1, 2, 3), weights)[0]):
            if total is None:
                total = self.term()
                continue
            sign = ops.SUB if self.rng.random() < 0.25 and self.family != (PATH,) else ops.ADD
            total = self.fitting(sign, total, self.term)
        assert total is not None
        return total

    def term(self) -> Expr:
        term = self.leaf()
        for _ in range(self.rng.choices((0, 1, 2, 3), (3, 5, 3, 1))[0]):
            if self.rng.random() < 0.12:
                term = apply(ops.CONJ, term)
            term = self.fitting(ops.MUL, term, self.leaf)
        return term

    def reduction(self, depth: int) -> Expr:
        body = self.sub(depth)
        inside = [n for n in dict.fromkeys(walk(body)) if isinstance(n, IndexVar)] or self.vars
        op = ops.MUL if self.rng.random() < 0.12 else ops.ADD
        return Reduce(op, self.rng.choice(inside), body)

    def result_type(self, rhs: Expr, dtype: DType, op: Op | None) -> DType:
        """Often one that takes less memory, if there is one in the family."""
        if not isinstance(dtype, Entry) or self.rng.random() < 0.5:
            return dtype
        if UNIT in self.family and op is None and _is_unit(rhs):
            return UNIT
        half = any(isinstance(kind, Entry) and kind.scalar == "float16" for kind in self.family)
        return dtype.over("float16") if half else dtype

    def tolerance(
        self,
        tensors: dict[str, Operand],
        known: dict[IndexVar, int],
        written_out: Assignment,
        result: Operand,
    ) -> float:
        sizes = _Sizes(tensors, known)
        size = sizes.of(written_out.rhs)
        if written_out.op not in (None, ops.ADD):
            raise Unsafe
        if written_out.op is not None:
            size = sizes.applied(ops.ADD, [size, sizes.data(result)], ())
        made = written_out.lhs.dtype
        # What is stored is divided by its length, unless that is one.
        if made == UNIT and (written_out.op is not None or not _is_unit(written_out.rhs)):
            raise Unsafe
        half = isinstance(made, Entry) and made.scalar == "float16"
        size.checked(_LARGEST_HALF if half else _LARGEST)
        return 0.0


def _is_unit(expr: Expr) -> bool:
    """Whether elements are quaternions of length one, or zero: products of such."""
    match expr:
        case Access():
            return expr.dtype == UNIT
        case Apply(op=op, args=args):
            return op in (ops.MUL, ops.NEG, ops.CONJ) and all(map(_is_unit, args))
    return False


def _condition(draw: _Records, depth: int) -> Expr:
    return draw.fitting(draw.rng.choice((ops.EQ, ops.NE)), draw.sub(depth), draw.leaf)


def _select(draw: _Records, depth: int) -> Expr:
    yes, test = draw.sub(depth), _condition(draw, depth - 1)
    for _ in range(_TRIES):
        no = draw.sub(depth)
        number = isinstance(no, Literal) and isinstance(yes.dtype, Entry)
        if no.dtype == yes.dtype or number:
            return apply(ops.SELECT, test, yes, no)
    raise Unsafe


def _divide(draw: _Records, depth: int) -> Expr:
    """By an operand whose elements have one number that is not zero: 1 or -1, so nothing rounds.

    A dual number may have a slope, too.
    """
    left = draw.sub(depth)
    for _ in range(_TRIES):
        right = draw.access()
        dtype, data = right.dtype, draw.tensors[right.tensor.name]
        known = isinstance(dtype, Complex | Quaternion | Dual) or dtype == TURN
        if not isinstance(dtype, Entry) or not known or not data.format.is_dense:
            continue
        numbers = np.random.default_rng(draw.rng.getrandbits(32))
        which = numbers.integers(dtype.size, size=data.values.shape)
        sign = numbers.choice((-1.0, 1.0), data.values.shape)
        for n, field in enumerate(dtype.fields):
            data.values[field] = np.where(which == n, sign, 0)
        if isinstance(dtype, Dual):
            data.values["value"], data.values["slope"] = sign, which
        return apply(ops.DIV, left, right)
    raise Unsafe


Form = Callable[[_Records, int], Expr]
_FORMS: tuple[tuple[Form, int], ...] = (
    (lambda d, n: d.fitting(ops.MUL, d.sub(n), lambda: d.sub(n)), 36),
    (lambda d, n: d.fitting(ops.ADD, d.sub(n), lambda: d.sub(n)), 18),
    (lambda d, n: d.fitting(ops.SUB, d.sub(n), lambda: d.sub(n)), 8),
    (lambda d, n: apply(ops.NEG, d.sub(n)), 4),
    (lambda d, n: apply(ops.CONJ, d.sub(n)), 6),
    (lambda d, n: apply(ops.REAL, d.sub(n)), 2),
    (lambda d, n: apply(ops.DIV, d.sub(n), Literal(2)), 4),
    (_divide, 16),
    (_condition, 2),
    (_select, 4),
    (_Records.reduction, 10),
)
