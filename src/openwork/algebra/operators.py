"""Operators as data: what they compute, and the laws that decide how operands are merged.

The compiler never looks at an operator's name, only at its laws. They say what becomes of an
application where an operand is absent: an annihilator removes the other operand (intersection), an
identity keeps it (union), anything else is computed with the fill value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, cast

import numpy as np

from openwork.algebra.entries import Entry
from openwork.algebra.meaning import has_records, meaning, multiple_of_one
from openwork.algebra.types import (
    BOOL,
    DType,
    Kind,
    Number,
    as_element,
    computed,
    number,
    promote,
    resolved_types,
    strong,
)
from openwork.errors import DataError, ParseError
from openwork.frozen import frozen

INF = float("inf")


@frozen
class Op:
    """A scalar operator.

    A law given as a number holds on both sides; `left_*` and `right_*` laws are for one argument
    (`left_annihilator=0`: `0 op x == 0`). Infinities stand for the extreme value of any type.
    """

    name: str
    arity: int = 2
    identity: Number | None = None
    annihilator: Number | None = None
    right_identity: Number | None = None
    left_annihilator: Number | None = None
    commutes: bool = False
    associates: bool = False
    idempotent: bool = False  # x op x == x
    selects: bool = False  # the first argument picks between the other two
    compares: bool = False  # compares numbers exactly, across types
    when_less: bool = False  # of a comparison: its value for `smaller op larger`
    mirror: str | None = None  # of a comparison: the operator for swapped arguments
    adds: bool = False  # addition, which hardware has as an atomic
    multiplies: bool = False  # multiplication, which hardware fuses with an addition
    lanewise: bool = False  # has SIMD instructions for floats, which round as scalar ones do
    natural: int | None = None  # this argument must not be negative for integers
    real: bool = False  # takes real numbers only
    cheap: bool = False  # costs less than a mispredicted branch
    symbol: str | None = None  # infix spelling, when there is one
    definition: object = None  # an expression over parameters, if the user defined it
    ufunc: Callable[..., Any] = field(default=np.add, compare=False, repr=False)
    typing: np.ufunc | None = field(default=None, compare=False, repr=False)

    def __hash__(self) -> int:
        return hash(self.name)  # its laws follow, or a comparison tells

    def __str__(self) -> str:
        return self.name

    @property
    def mirrored(self) -> Op:
        """Of a comparison: `a op b == b mirrored a`."""
        return BUILTIN[self.name if self.mirror is None else self.mirror]

    def __reduce_ex__(self, protocol: Any) -> Any:
        # A built-in operator unpickles to the same object, in another process, too.
        known = BUILTIN.get(self.name) is self
        return (_built_in, (self.name,)) if known else super().__reduce_ex__(protocol)

    def __call__(self, *args: Any) -> Any:
        """Apply to expressions or numbers; the first expression in `args` builds the node."""
        for arg in args:
            build = getattr(arg, "__openwork_apply__", None)
            if build is not None:
                return build(self, args)
        return self.ufunc(*args)

    def result(self, kinds: Sequence[Kind]) -> DType:
        """The element type of the result for arguments of `kinds`."""
        if self.selects:
            records = [kind for kind in kinds[1:] if isinstance(kind, Entry)]
            weak = len(records) == 1 and any(kind in (int, float) for kind in kinds[1:])
            return computed(promote(*(records if weak else kinds[1:])))
        if has_records(kinds):
            return meaning(self.name, tuple(kinds)).result
        if self.typing is None:
            return computed(promote(*kinds))
        if self.real and any(strong(kind).kind == "c" for kind in kinds):
            raise ParseError(
                f"{self.name} is not defined for complex numbers",
                code="E108",
                hint="compute with ow.real(e) and ow.imag(e)",
            )
        return resolved_types(self.typing, tuple(kinds), self.name)[-1]

    def argument_type(self, kinds: Sequence[Kind], position: int) -> DType:
        """The type an argument is converted to before the operator is applied."""
        if self.selects:
            return BOOL if position == 0 else self.result(kinds)
        if has_records(kinds):
            return meaning(self.name, tuple(kinds)).arguments[position]
        if self.typing in _KEEP_ARGUMENTS:
            return computed(strong(kinds[position]))
        if self.compares and self.typing is not None:
            return resolved_types(self.typing, tuple(kinds), self.name)[position]
        return self.result(kinds)

    def identity_of(self, dtype: DType) -> Number:
        """The value of an empty reduction."""
        if self.identity is None:
            raise ParseError(
                f"{self.name} has no identity, so it cannot reduce",
                code="E111",
                hint="declare it: ow.operator(..., identity=...)",
            )
        return number(self.identity, dtype)

    def compute(self, values: Sequence[Number], kinds: Sequence[Kind], result: DType) -> Number:
        """The operator on numbers, in the arithmetic of `kinds`, as a number of type `result`.

        Where an argument or the result is a record, a number stands for so many times one.
        """
        if has_records(kinds) and self.selects:
            return values[1] if values[0] else values[2]
        if has_records(kinds) and self.definition is None:
            return meaning(self.name, tuple(kinds)).on_numbers(values)
        if has_records((*kinds, result)):
            return self._of_records(values, kinds, result)
        args = [
            np.array(number(v, self.argument_type(kinds, n)), dtype=self.argument_type(kinds, n))
            for n, v in enumerate(values)
        ]
        with np.errstate(all="ignore"):
            return cast(Number, np.asarray(self.ufunc(*args)).astype(result).item())

    def _of_records(self, values: Sequence[Number], kinds: Sequence[Kind], to: DType) -> Number:
        """A user's operator on numbers that stand for records: so many times one."""
        args = [as_element(v, strong(kind)) for v, kind in zip(values, kinds, strict=True)]
        with np.errstate(all="ignore"):
            made = np.asarray(self.ufunc(*args))
        if not isinstance(to, Entry):
            return cast(Number, made.astype(to).item())
        return multiple_of_one(to, [each.item() for each in to.split(to.cast(made))])


def negative_power() -> DataError:
    """The error for an integer raised to a negative power, which NumPy refuses, too."""
    return DataError(
        "an integer is raised to a negative power",
        code="E515",
        hint="compute with floats: ow.cast('float64', base) ** exponent, or A.astype('float64')",
    )


def _power(base: Any, exponent: Any) -> Any:
    try:
        return np.power(base, exponent)
    except ValueError as error:
        raise negative_power() from error


def _add_beyond(far: float) -> Op:
    """Addition with the annihilator `far`, an infinity; for integers, their extreme value."""
    return replace(ADD, annihilator=far, ufunc=partial(_up_to, far))


def _up_to(far: float, a: Any, b: Any) -> Any:
    total = np.add(a, b)
    if total.dtype.kind not in "iu":
        return total
    extreme = number(far, total.dtype)
    return np.where((np.asarray(a) == extreme) | (np.asarray(b) == extreme), extreme, total)


def _select(condition: Any, yes: Any, no: Any) -> Any:
    return np.where(np.asarray(condition) != 0, yes, no)


def _real(x: Any) -> Any:
    return np.real(x)


def _imag(x: Any) -> Any:
    return np.imag(x)


def _unary(name: str, ufunc: np.ufunc, symbol: str | None = None, cheap: bool = False) -> Op:
    return Op(name, 1, ufunc=ufunc, typing=ufunc, symbol=symbol, cheap=cheap)


def _of_reals(name: str, ufunc: np.ufunc, arity: int = 1, **laws: Any) -> Op:
    return Op(name, arity, ufunc=ufunc, typing=ufunc, real=True, **laws)


def _compare(
    name: str, symbol: str, ufunc: np.ufunc, when_less: bool = False, mirror: str | None = None
) -> Op:
    return Op(
        name, 2, symbol=symbol, ufunc=ufunc, typing=ufunc, commutes=mirror is None, cheap=True,
        compares=True, when_less=when_less, mirror=mirror,
    )  # fmt: skip


_MONOID: dict[str, Any] = {"commutes": True, "associates": True, "cheap": True}
_LATTICE: dict[str, Any] = {**_MONOID, "idempotent": True}

ADD = Op(
    "add", 2, identity=0, symbol="+", ufunc=np.add, typing=np.add, adds=True, lanewise=True,
    **_MONOID,
)  # fmt: skip
SUB = Op(
    "sub", 2, right_identity=0, symbol="-", ufunc=np.subtract, typing=np.subtract, cheap=True,
    lanewise=True,
)  # fmt: skip
MUL = Op(
    "mul", 2, identity=1, annihilator=0, symbol="*", ufunc=np.multiply, typing=np.multiply,
    multiplies=True, lanewise=True, **_MONOID,
)  # fmt: skip
DIV = Op(
    "div", 2, right_identity=1, left_annihilator=0, symbol="/", ufunc=np.true_divide,
    typing=np.true_divide, lanewise=True,
)  # fmt: skip
# An absent 0 stays absent under division by anything; a stored one does not. There is no right
# identity: `x // 1` rounds floats down.
FLOOR_DIVIDE = Op(
    "floor_divide", 2, left_annihilator=0, symbol="//", ufunc=np.floor_divide,
    typing=np.floor_divide,
)  # fmt: skip
REMAINDER = Op(
    "remainder", 2, left_annihilator=0, symbol="%", ufunc=np.remainder, typing=np.remainder
)
POW = Op("pow", 2, right_identity=1, symbol="**", ufunc=_power, typing=np.power, natural=1)
MIN = Op(
    "min", 2, identity=INF, annihilator=-INF, ufunc=np.minimum, typing=np.minimum, lanewise=True,
    **_LATTICE,
)  # fmt: skip
MAX = Op(
    "max", 2, identity=-INF, annihilator=INF, ufunc=np.maximum, typing=np.maximum, lanewise=True,
    **_LATTICE,
)  # fmt: skip
# Logic: every element counts as true or false, and the result is a bool.
AND = Op(
    "and", 2, identity=True, annihilator=False, ufunc=np.logical_and, typing=np.logical_and,
    **_LATTICE,
)  # fmt: skip
OR = Op(
    "or", 2, identity=False, annihilator=True, ufunc=np.logical_or, typing=np.logical_or,
    **_LATTICE,
)  # fmt: skip
XOR = Op("xor", 2, identity=False, ufunc=np.logical_xor, typing=np.logical_xor, **_MONOID)
# Bits of integers, and truth values; -1 has all bits set, in any type.
BITWISE_AND = Op(
    "bitwise_and", 2, identity=-1, annihilator=0, symbol="&", ufunc=np.bitwise_and,
    typing=np.bitwise_and, **_LATTICE,
)  # fmt: skip
BITWISE_OR = Op(
    "bitwise_or", 2, identity=0, annihilator=-1, symbol="|", ufunc=np.bitwise_or,
    typing=np.bitwise_or, **_LATTICE,
)  # fmt: skip
BITWISE_XOR = Op(
    "bitwise_xor", 2, identity=0, symbol="^", ufunc=np.bitwise_xor, typing=np.bitwise_xor,
    **_MONOID,
)  # fmt: skip
LEFT_SHIFT = Op(
    "left_shift", 2, right_identity=0, left_annihilator=0, symbol="<<", ufunc=np.left_shift,
    typing=np.left_shift,
)  # fmt: skip
RIGHT_SHIFT = Op(
    "right_shift", 2, right_identity=0, left_annihilator=0, symbol=">>", ufunc=np.right_shift,
    typing=np.right_shift,
)  # fmt: skip
INVERT = _unary("invert", np.invert, "~", cheap=True)
NOT = _unary("not", np.logical_not, cheap=True)
NEG = _unary("neg", np.negative, "-", cheap=True)
ABS = _unary("abs", np.absolute, cheap=True)
SQRT, EXP, LOG = _unary("sqrt", np.sqrt), _unary("exp", np.exp), _unary("log", np.log)
SIN, COS, TAN = _unary("sin", np.sin), _unary("cos", np.cos), _unary("tan", np.tan)
TANH, FLOOR, CEIL = _unary("tanh", np.tanh), _unary("floor", np.floor), _unary("ceil", np.ceil)
# Of C's mathematical library, by its names and those of the array API standard.
EXP2, EXPM1 = _of_reals("exp2", np.exp2), _of_reals("expm1", np.expm1)
LOG2, LOG10 = _of_reals("log2", np.log2), _of_reals("log10", np.log10)
LOG1P, CBRT = _of_reals("log1p", np.log1p), _of_reals("cbrt", np.cbrt)
ASIN, ACOS = _of_reals("asin", np.arcsin), _of_reals("acos", np.arccos)
ATAN, ATAN2 = _of_reals("atan", np.arctan), _of_reals("atan2", np.arctan2, 2)
SINH, COSH = _of_reals("sinh", np.sinh), _of_reals("cosh", np.cosh)
ASINH, ACOSH = _of_reals("asinh", np.arcsinh), _of_reals("acosh", np.arccosh)
ATANH, HYPOT = _of_reals("atanh", np.arctanh), _of_reals("hypot", np.hypot, 2, commutes=True)
# Halves are rounded to even numbers.
TRUNC, ROUND = _of_reals("trunc", np.trunc), _of_reals("round", np.rint)
SIGN = _of_reals("sign", np.sign)
COPYSIGN = _of_reals("copysign", np.copysign, 2, left_annihilator=0)
CONJ = _unary("conj", np.conjugate)
REAL = Op("real", 1, ufunc=_real, typing=np.absolute)
IMAG = Op("imag", 1, ufunc=_imag, typing=np.absolute)
LT = _compare("lt", "<", np.less, when_less=True, mirror="gt")
LE = _compare("le", "<=", np.less_equal, when_less=True, mirror="ge")
GT = _compare("gt", ">", np.greater, mirror="lt")
GE = _compare("ge", ">=", np.greater_equal, mirror="le")
EQ = _compare("eq", "==", np.equal)
NE = _compare("ne", "!=", np.not_equal, when_less=True)
SELECT = Op("select", 3, ufunc=_select, selects=True, cheap=True)

_LOGIC = (np.logical_and, np.logical_or, np.logical_xor, np.logical_not)
_KEEP_ARGUMENTS = (np.absolute, *_LOGIC)

BUILTIN: dict[str, Op] = {
    op.name: op
    for op in (
        *(ADD, SUB, MUL, DIV, POW, MIN, MAX, AND, OR, XOR, NOT, NEG, ABS, SQRT, EXP, LOG),
        *(FLOOR_DIVIDE, REMAINDER, BITWISE_AND, BITWISE_OR, BITWISE_XOR, INVERT),
        *(LEFT_SHIFT, RIGHT_SHIFT),
        *(EXP2, EXPM1, LOG2, LOG10, LOG1P, CBRT, ASIN, ACOS, ATAN, ATAN2, SINH, COSH),
        *(ASINH, ACOSH, ATANH, HYPOT, TRUNC, ROUND, SIGN, COPYSIGN),
        *(SIN, COS, TAN, TANH, FLOOR, CEIL, CONJ, REAL, IMAG, LT, LE, GT, GE, EQ, NE, SELECT),
    )
}
# NumPy's universal functions that are operators of ours.
UFUNCS: dict[np.ufunc, Op] = {
    op.typing: op for op in BUILTIN.values() if op.typing is not None and op not in (REAL, IMAG)
}


def _built_in(name: str) -> Op:
    return BUILTIN[name]


@frozen
class Semiring:
    """What `+` and `*` mean, and the value `zero` of an absent entry.

    `zero` is the identity of `add` and annihilates under `mul`.
    """

    name: str
    add: Op
    mul: Op
    zero: Number

    def __str__(self) -> str:
        return self.name

    def __post_init__(self) -> None:
        if self.add.identity != self.zero or self.mul.annihilator != self.zero:
            raise ParseError(
                f"semiring {self.name}: {self.zero} must be the identity of {self.add} "
                f"and the annihilator of {self.mul}",
                code="E111",
            )


PLUS_TIMES = Semiring("plus_times", ADD, MUL, 0)
MIN_PLUS = Semiring("min_plus", MIN, _add_beyond(INF), INF)
MAX_PLUS = Semiring("max_plus", MAX, _add_beyond(-INF), -INF)
OR_AND = Semiring("or_and", OR, AND, False)
# For nonnegative numbers, such as reliabilities: an absent entry is 0.
MAX_TIMES = Semiring("max_times", replace(MAX, identity=0), MUL, 0)

SEMIRINGS: dict[str, Semiring] = {
    s.name: s for s in (PLUS_TIMES, MIN_PLUS, MAX_PLUS, OR_AND, MAX_TIMES)
}
