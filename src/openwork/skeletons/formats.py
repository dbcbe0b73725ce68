"""The format that a type is: the one whose own type has this shape, a user's level included."""

from __future__ import annotations

from collections.abc import Iterator

from openwork.format.formats import Format, as_format
from openwork.format.layouts import AOS, PACKED
from openwork.format.levels import (
    Compressed,
    Dense,
    Growing,
    Lengths,
    Level,
    Ragged,
    Singleton,
)
from openwork.skeletons.build import Typed, as_type
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.nodes import ArrayType, Nat, PairType, Scalar, Type
from openwork.skeletons.language.stored import refuse, same_shape, typed
from openwork.skeletons.matrices import leaf_of
from openwork.skeletons.parse import type_from


def type_of(format: Format | str, value: object = "float64") -> Typed:
    """The type of a format: coordinates and values as a pair, unless they are packed.

    Entries that do not follow one another, as in ELLPACK, are flat arrays.

    Raises:
        PatternError: E709 if it has no type: where flags say which entries are there, and for
            coordinates of 8 or 16 bits.

    >>> from openwork.format.formats import BSR, RAGGED
    >>> type_of(RAGGED)
    [i -> [float64]_{toNat(A_pos@(i + 1)) - toNat(A_pos@i)}]_n0
    >>> print(type_of(BSR(2, 3).with_layout("AoS"), "float32").type.second)
    [i -> [[[float32]_3]_2]_{toNat(A_pos@(i + 1)) - toNat(A_pos@i)}]_{((n0 + 1) / 2)}
    """
    return Typed(typed(as_format(format), as_type(value), apart=True).type)


def format_of(type: object) -> Format:
    """The format that stores data of a type, with its layout.

    A type does not say which mode comes first: that of `ow.CSC` is that of `ow.CSR`.

    Args:
        type: a type, or its text.

    Raises:
        PatternError: E709 if no format does.

    >>> from openwork.skeletons.build import array, int32, nats, pair, to_nat
    >>> n = nats("n"); lengths = array(n, int32)
    >>> format_of(array(n, lambda i: array(to_nat(lengths[i]), pair(int32, "float64"))))
    ow.LIL.with_layout('packed')
    >>> format_of(array(n, lambda i: array(i + 1, "float64")))
    ow.lower_triangular
    >>> format_of("[i -> ([int]_{toNat(o@(i+1)-o@i)}, [float]_{toNat(o@(i+1)-o@i)})]_n")
    ow.CSR
    """
    given = type_from(type) if isinstance(type, str) else as_type(type)
    known = _rows_of_pairs_apart(given)
    value = _value_of(known)
    for format in _candidates(known):
        wanted = typed(format.with_layout(AOS), value)
        if same_shape(wanted.type, known, {}):
            return format
        packed = format.with_layout(PACKED) if format.packed_array else format
        if same_shape(typed(packed, value).type, known, {}):
            return packed
        if same_shape(wanted.nested(value, len(wanted.runs), pairs=True), known, {}):
            return format
    refuse(
        f"{known} is the type of no format",
        "[[T]_m]_n, rows of (int, T) by offsets or lengths, rows of T by offsets",
    )


def _rows_of_pairs_apart(type: Type) -> Type:
    """`[([int]_n, [T]_n)]_m` lies in memory as `([[int]_n]_m, [[T]_n]_m)` does."""
    if isinstance(type, PairType):
        return PairType(_rows_of_pairs_apart(type.first), _rows_of_pairs_apart(type.second))
    if not isinstance(type, ArrayType):
        return type
    inner = _rows_of_pairs_apart(type.element)
    if not isinstance(inner, PairType) or isinstance(inner.first, Scalar):
        return n.array_type(inner, type.length, type.var)
    each = (n.array_type(part, type.length, type.var) for part in (inner.first, inner.second))
    return PairType(*each)


def _value_of(type: Type) -> Type:
    """The type of the values: what is innermost, behind coordinates."""
    while not isinstance(type, Scalar):
        type = type.second if isinstance(type, PairType) else leaf_of(type)
    return type


def _candidates(type: Type) -> Iterator[Format]:
    """Formats that might have a type: a level for each array around the values."""
    lengths, coordinates = list(_lengths(type)), _coordinates(type)
    levels = list[Level]()
    for depth, (length, around) in enumerate(lengths):
        rise, first = _linear(length, around) if around and depth == 1 else (0, 0)
        if rise or first:
            levels.append(Growing(rise, first))
        elif not any(isinstance(a, n.ToNat) for a in length.atoms):
            levels.append(Dense)
        elif len(length.terms) == 1 and depth and coordinates:
            levels.append(Lengths)
        else:
            levels.append(Compressed if coordinates else Ragged)
    blocks = [length.constant or 0 for length, _ in lengths[-2:]]
    if len(levels) == 4 and all(blocks) and levels[1] in (Compressed, Lengths):
        yield Format(levels, (0, 1, 0, 1), blocks)
    singles = coordinates - levels.count(Compressed) - levels.count(Lengths)
    if singles > 0 and Compressed in levels:
        at = len(levels) - 1 - levels[::-1].index(Compressed)
        below = [*[Singleton(unique=False)] * (singles - 1), Singleton]
        levels[at : at + 1] = [Compressed(unique=False), *below]
    yield Format(levels)


def _coordinates(type: Type) -> int:
    """How many coordinates each value has."""
    if isinstance(type, PairType):
        return 1 + _coordinates(type.second)
    return _coordinates(type.element) if isinstance(type, ArrayType) else 0


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
