"""Sparse matrices that parameters make up: rows of different lengths, with their coordinates."""

from __future__ import annotations

from collections.abc import Sequence

from openwork.format.formats import CSR, LIL, Format
from openwork.format.layouts import PACKED
from openwork.frozen import frozen
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.nodes import ArrayType, Nat, Scalar, Signature, Type

INDICES = (Scalar("int32"), Scalar("int64"))


def rows_of(type: Type) -> tuple[Format, str] | None:
    """CSR or LIL, by the lengths of the rows, and the array that has these; None elsewhere."""
    if not isinstance(type, ArrayType) or not type.var or not isinstance(type.element, ArrayType):
        return None
    length, i = type.element.length, n.named(type.var)
    reads = [a.expr for a in length.atoms if isinstance(a, n.ToNat) and isinstance(a.expr, n.At)]
    names = {str(e.array) for e in reads}
    if len(names) != 1:
        return None
    (name,) = names

    def at(k: Nat) -> Nat:
        return n.to_nat(n.At(n.Var(name), n.OfNat(k)))

    if length == at(i + 1) - at(i):
        return CSR, name
    return (LIL, name) if length == at(i) else None


def leaf_of(type: Type) -> Type:
    """What the innermost arrays hold."""
    while isinstance(type, ArrayType):
        type = type.element
    return type


@frozen
class Matrix:
    """A matrix whose values, or pairs of coordinates and values, are the parameter `name`."""

    name: str
    coordinates: str  # the parameter with the coordinates; "" where they lie in the pairs
    lengths: str  # the parameter with the lengths, or the offsets, of the rows
    format: Format
    value: str  # the type of the values


def matrices_in(signature: Signature) -> list[Matrix]:
    """The matrices that parameters make up, where there is no doubt which ones belong together."""
    groups: dict[str, list[tuple[str, Format, Type]]] = {}
    for name, type in zip(signature.params, signature.types, strict=True):
        found = rows_of(type)
        if found is not None and isinstance(type, ArrayType):
            rows = type.element
            if isinstance(rows, ArrayType) and not isinstance(rows.element, ArrayType):
                groups.setdefault(found[1], []).append((name, found[0], leaf_of(type)))
    return [made for lengths, group in groups.items() for made in _grouped(lengths, group)]


def _grouped(lengths: str, group: Sequence[tuple[str, Format, Type]]) -> list[Matrix]:
    match group:
        case [(name, format, n.PairType(first=index, second=Scalar(name=value)))]:
            if index in INDICES:
                return [Matrix(name, "", lengths, format.with_layout(PACKED), value)]
        case [(one, format, Scalar() as a), (other, _, Scalar() as b)]:
            if a in INDICES and b not in INDICES:
                return [Matrix(other, one, lengths, format, b.name)]
            if b in INDICES and a not in INDICES:
                return [Matrix(one, other, lengths, format, a.name)]
    return []
