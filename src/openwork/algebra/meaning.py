"""What built-in operators mean on records: the types, and the formula number by number."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from operator import and_, or_
from typing import Any

import numpy as np

from openwork.algebra.entries import (
    Complex,
    Defined,
    Entry,
    Formula,
    Grid,
    Numbers,
    Real,
    product,
    widest,
)
from openwork.algebra.types import BOOL, SUPPORTED, DType, Kind, Number
from openwork.errors import InternalError, ParseError
from openwork.frozen import frozen

_PRODUCTS = (
    "products: numbers with everything, quaternions with quaternions, complex with complex, dual "
    "with dual, block(r, k) * block(k, c), block(r, k) * vector(k), conj(vector(n)) * vector(n), "
    "and blocks and vectors with their elements; ow.entry.define(...) defines others"
)
_QUOTIENTS = (
    "quotients: everything by numbers, and by quaternions, complex and dual numbers what they "
    "multiply; ow.entry.define(..., inverse=...) defines others"
)
_CONVERTED = "NumPy's complex numbers become records by A.astype(ow.entry.complex())"
_SUMS = "sums and differences need two entries of one type"


@frozen
class Meaning:
    """An operator on records: what its arguments are converted to, and its result."""

    arguments: tuple[DType, ...]
    result: DType
    formula: Formula

    def on_arrays(self, values: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        """The operator on arrays of records and numbers."""
        split = [
            type.split(array) if isinstance(type, Entry) else [array]
            for type, array in zip(self.arguments, values, strict=True)
        ]
        numbers = self.formula(*split)
        if isinstance(self.result, Entry):
            return self.result.joined(numbers)
        return np.asarray(numbers[0]).astype(self.result, copy=False)

    def on_numbers(self, values: Sequence[Number]) -> Number:
        """The operator on numbers that stand for records: so many times one."""
        split = [
            np.array(type.numbers(value) if isinstance(type, Entry) else (value,))
            for type, value in zip(self.arguments, values, strict=True)
        ]
        with np.errstate(all="ignore"):  # what is divided by zero is a number, too
            numbers = [np.asarray(each).item() for each in self.formula(*split)]
        if not isinstance(self.result, Entry):
            return numbers[0]  # type: ignore[no-any-return]
        return multiple_of_one(self.result, numbers)


def multiple_of_one(entry: Entry, numbers: Numbers) -> Number:
    """The number that a record stands for: how many times one it is."""
    unit = entry.one or ()
    times = next((n for n, each in zip(numbers, unit, strict=False) if each == 1), 0.0)
    for multiple in (0.0, 1.0, float(times)):
        if entry.has(multiple) and np.array_equal(numbers, entry.numbers(multiple), equal_nan=True):
            return multiple
    raise InternalError(f"{numbers} is no multiple of one")


def has_records(kinds: Sequence[Kind]) -> bool:
    """Whether one of `kinds` is an entry type."""
    for kind in kinds:  # noqa: SIM110 quicker than `any`, and asked for every operator
        if isinstance(kind, Entry):
            return True
    return False


@lru_cache(maxsize=4096)
def meaning(operator: str, kinds: tuple[Kind, ...]) -> Meaning:
    """What a built-in operator means for arguments of `kinds`, some of which are records.

    Raises:
        ParseError: E108 if it means nothing for them.
    """
    entries = _entries(kinds)
    made = None if entries is None else _meaning(operator, entries)
    if made is not None:
        return made
    shown = " and ".join(kind.__name__ if isinstance(kind, type) else str(kind) for kind in kinds)
    hints = {"mul": _products(kinds), "add": _SUMS, "sub": _SUMS, "div": _QUOTIENTS}
    plain = any(
        kind is complex or (isinstance(kind, np.dtype) and kind.kind == "c") for kind in kinds
    )
    hint = _CONVERTED if plain else hints.get(operator)
    raise ParseError(f"{operator} is not defined for {shown}", code="E108", hint=hint)


def _products(kinds: Sequence[Kind]) -> str:
    """The products that there are, with those of the users' types among `kinds`."""
    own = [
        each
        for kind in dict.fromkeys(kinds)
        if isinstance(kind, Defined)
        for each in kind.known_products
    ]
    return _PRODUCTS if not own else f"{_PRODUCTS}, here {', '.join(own)}"


def is_held(kind: Kind, dtype: DType) -> bool:
    """Whether an entry type can hold values of `kind`, or a number type records: it cannot."""
    if not isinstance(dtype, Entry) or not isinstance(kind, Entry):
        return False
    return kind.decoded.family == dtype.decoded.family


def conversion(given: Entry, wanted: Entry) -> Meaning:
    """What converts between an encoded type and the one that its elements are computed in."""
    return Meaning((given,), wanted, lambda a: wanted.encode(given.decode(a)))


def stays(kind: Kind, dtype: DType) -> bool:
    """Whether a value of `kind` is its own product with one, as a value of `dtype`.

    A number is not, where the product is a record: one times 2 is a quaternion.
    """
    records = has_records((kind, dtype))
    return not records or is_held(kind, dtype)


def _entries(kinds: Sequence[Kind]) -> list[Entry] | None:
    """The entry types of `kinds`, numbers included; None if one cannot be an entry's number."""
    records = [kind.decoded for kind in kinds if isinstance(kind, Entry)]
    found: list[Entry] = []
    for kind in kinds:
        if isinstance(kind, Entry):
            found.append(kind.decoded)
        elif isinstance(kind, type) and kind in (int, float):  # weak: as the numbers beside it
            found.append(Real(records[0].scalar))
        elif isinstance(kind, np.dtype) and kind.kind in "biuf":
            found.append(Real(widest(kind.name, records[0].scalar)))
        else:
            return None
    return found


def _meaning(operator: str, entries: list[Entry]) -> Meaning | None:
    match operator, entries:
        case "mul", [left, right]:
            found = product(left, right)
            return None if found is None else _made((left, right), found.result, found.formula)
        case "add", [left, right] if left.family == right.family and left.sum is not None:
            wide = left.over(widest(left.scalar, right.scalar))
            return _made((wide, wide), wide, left.sum)
        case "add" | "sub", [left, right] if left.family == right.family and left.sum is None:
            wide = left.over(widest(left.scalar, right.scalar))
            return _made((wide, wide), wide, _add if operator == "add" else _subtract)
        case "div", [left, Real() as right] if left.sum is None:
            wide = left.over(widest(left.scalar, right.scalar))
            return _made((wide, right), wide, lambda a, b: [each / b[0] for each in a])
        case "div", [left, right]:
            return _quotient(left, right)
        case "eq" | "ne", [left, right] if left.family == right.family:
            wide = left.over(widest(left.scalar, right.scalar))
            formula = _equal if operator == "eq" else _unequal
            return Meaning((wide, wide), BOOL, formula)
        case "eq" | "ne", [Real(), Real()]:
            return None
        case "eq" | "ne", [left, Real()]:
            formula = _is_number(left, operator == "eq")
            return Meaning((left, _plain(entries[1])), BOOL, formula)
        case "eq" | "ne", [Real(), right]:
            turned = _is_number(right, operator == "eq")
            return Meaning((_plain(entries[0]), right), BOOL, lambda a, b: turned(b, a))
        case "neg", [only] if only.sum is None:
            return _made((only,), only, lambda a: [-each for each in a])
        case "conj", [only]:
            return _made((only,), only.conjugated, only.conjugate)
        case "real", [only] if only.one is not None and not isinstance(only, Grid):
            return _made((only,), Real(only.scalar), lambda a: [a[0]])
        case "imag", [Complex() as only]:
            return _made((only,), Real(only.scalar), lambda a: [a[1]])
    return None


def _quotient(left: Entry, right: Entry) -> Meaning | None:
    """The product with the inverse on the right."""
    found = product(left, right)
    if found is None or right.invert([1.0] * right.size) is None:
        return None
    times = found.formula
    return _made((left, right), found.result, lambda a, b: times(a, right.invert(b)))


def _add(a: Numbers, b: Numbers) -> list[Any]:
    return [x + y for x, y in zip(a, b, strict=True)]


def plus(entry: Entry) -> Formula:
    """The sum of two elements of a type, as a formula."""
    return _add if entry.sum is None else entry.sum


def _subtract(a: Numbers, b: Numbers) -> list[Any]:
    return [x - y for x, y in zip(a, b, strict=True)]


def _equal(a: Numbers, b: Numbers) -> list[Any]:
    return [reduce(and_, [x == y for x, y in zip(a, b, strict=True)])]


def _is_number(entry: Entry, equal: bool) -> Formula:
    """Whether an element is a number: so many times one. Without a one, only 0 is an element."""

    def formula(a: Numbers, b: Numbers) -> list[Any]:
        number, unit = b[0], entry.one
        multiple = None if unit is None else [number * each if each else 0.0 for each in unit]
        if multiple is not None and not any(entry.zero):  # 0 times one is zero
            return (_equal if equal else _unequal)(a, multiple)
        if equal:
            zero = _equal([*a, number], [*entry.zero, 0.0])[0]
            other = [] if multiple is None else [_equal(a, multiple)[0] & (number != 0)]
            return [reduce(or_, [zero, *other])]
        zero = _unequal([*a, number], [*entry.zero, 0.0])[0]
        other = [] if multiple is None else [_unequal(a, multiple)[0] | (number == 0)]
        return [reduce(and_, [zero, *other])]

    return formula


def _unequal(a: Numbers, b: Numbers) -> list[Any]:
    return [reduce(or_, [x != y for x, y in zip(a, b, strict=True)])]


def _made(arguments: Sequence[Entry], result: Entry, formula: Formula) -> Meaning:
    return Meaning(tuple(map(_plain, arguments)), _plain(result), formula)


def _plain(entry: Entry) -> DType:
    """A number type in place of a record of one number."""
    return SUPPORTED[entry.scalar] if isinstance(entry, Real) else entry
