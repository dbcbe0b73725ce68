"""The format that a type is: the one whose own type has this shape, a user's level included."""

from __future__ import annotations

from collections.abc import Iterator

from openwork.format.formats import BSR, COO, CSF, CSR, DCSR, LIL, RAGGED, Format, dense
from openwork.format.layouts import AOS, PACKED
from openwork.format.levels import Dense, Growing
from openwork.skeletons.build import Typed, as_type
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.nodes import ArrayType, Nat, PairType, Scalar, Type
from openwork.skeletons.language.stored import refuse, same_shape, typed
from openwork.skeletons.matrices import leaf_of


def type_of(format: Format, value: object = "float64") -> Typed:
    """The type of a format: coordinates and values as a pair, unless they are packed.

    Raises:
        PatternError: E709 if its entries do not follow one another.

    >>> type_of(RAGGED)
    [i -> [float64]_{toNat(A_pos@(i + 1)) - toNat(A_pos@i)}]_n0
    >>> print(type_of(BSR(2, 3).with_layout("AoS"), "float32").type.second)
    [i -> [[[float32]_3]_2]_{toNat(A_pos@(i + 1)) - toNat(A_pos@i)}]_{((n0 + 1) / (2))}
    """
    return Typed(typed(format, as_type(value)).type)


def format_of(type: object) -> Format:
    """The format that stores data of a type, with its layout.

    Raises:
        PatternError: E709 if no format does.

    >>> from openwork.skeletons.build import array, int32, nats, pair, to_nat
    >>> n = nats("n"); lengths = array(n, int32)
    >>> format_of(array(n, lambda i: array(to_nat(lengths[i]), pair(int32, "float64"))))
    ow.LIL.with_layout('packed')
    >>> format_of(array(n, lambda i: array(i + 1, "float64")))
    ow.lower_triangular
    """
    known = as_type(type)
    for format in _candidates(known):
        value = _value_of(known)
        wanted = typed(format.with_layout(AOS), value)
        if same_shape(wanted.type, known, {}):
            return format
        packed = wanted.nested(value, len(wanted.runs), pairs=True)
        if same_shape(packed, known, {}):
            return format.with_layout(PACKED) if format.packed_array else format
    refuse(f"{known} is the type of no format", "[[T]_m]_n, rows of (int, T) by offsets or lengths")


def _value_of(type: Type) -> Type:
    """The type of the values: what is innermost, behind coordinates."""
    while not isinstance(type, Scalar):
        type = type.second if isinstance(type, PairType) else leaf_of(type)
    return type


def _candidates(type: Type) -> Iterator[Format]:
    """Formats that might have a type, those with fewer arrays first."""
    lengths = list(_lengths(type))
    yield from (dense(order) for order in range(1, 5))
    match lengths:
        case [_, (length, var)] if var:
            rise, first = _linear(length, var)
            if rise or first:
                yield Format([Dense, Growing(rise, first)])
    yield from (CSR, LIL, RAGGED, DCSR, CSF(1), CSF(3), COO(2), COO(3))
    numbers = [length.constant for length, _ in lengths[-2:]]
    if len(lengths) == 4 and all(numbers):
        yield BSR(numbers[0] or 1, numbers[1] or 1)


def _lengths(type: Type) -> Iterator[tuple[Nat, str]]:
    """The lengths of the arrays around the values, each with the variable around it."""
    around = ""
    while not isinstance(type, Scalar):
        if isinstance(type, PairType):
            type = type.second
            around = around if isinstance(type, Scalar) else ""
        elif isinstance(type, ArrayType):
            yield type.length, around
            around, type = type.var, type.element


def _linear(length: Nat, var: str) -> tuple[int, int]:
    """How a length grows with a variable: `rise * var + first`; zeros if it does not."""
    at = n.named(var)
    first = n.substituted(length, {var: n.nat(0)})
    start = first.constant if isinstance(first, Nat) else None
    for rise in (dict(length.terms).get((n.Named(var),), 0),):
        if start is not None and rise > 0 and start >= 0 and length == at * rise + start:
            return rise, start
    return 0, 0
