"""Entry types for random statements, in families whose elements multiply each other."""

from __future__ import annotations

from itertools import product as pairs

import numpy as np

import openwork as ow
from openwork.algebra.entries import Entry, Real, product
from openwork.algebra.types import SUPPORTED, DType

entry = ow.entry

# a*b, a*d + b*e of lower triangular 2x2 matrices: a product that does not commute.
TRIANGLE = entry.define(
    "triangle",
    ["a", "b", "d"],
    one=(1, 0, 1),
    mul=lambda s, t: (s.a * t.a, s.b * t.a + s.d * t.b, s.d * t.d),
    conj=lambda s: (s.d, -s.b, s.a),
)
AFFINE = entry.define(
    "affine",
    {"linear": "float32", "constant": "float32"},
    one=(1, 0),
    commutative=True,
    mul=lambda s, t: (s.linear * t.linear, s.linear * t.constant + s.constant * t.linear),
)
# What a quaternion's first two numbers do to pairs: a product of two types, into a third.
PAIR = entry.define("pair", {"u": "float64", "v": "float64"})
TURN = entry.define(
    "turn",
    {"c": "float64", "s": "float64"},
    one=(1, 0),
    mul=lambda s, t: (s.c * t.c - s.s * t.s, s.c * t.s + s.s * t.c),
    inverse=lambda t: (t.c / (t.c * t.c + t.s * t.s), -t.s / (t.c * t.c + t.s * t.s)),
    products={
        (PAIR, True): (PAIR, lambda t, p: (t.c * p.u - t.s * p.v, t.s * p.u + t.c * p.v)),
    },
)
# A sum that mixes the numbers of a record: the shorter of two paths, with the label it carries.
PATH = entry.define(
    "path",
    {"length": "float64", "label": "float64"},
    zero=(float("inf"), float("inf")),
    one=(0, 0),
    add=lambda s, t: (
        ow.minimum(s.length, t.length),
        ow.select(
            s.length < t.length,
            s.label,
            ow.select(t.length < s.length, t.label, ow.minimum(s.label, t.label)),
        ),
    ),
    mul=lambda s, t: (s.length + t.length, s.label + t.label),
)

_NUMBERS = tuple(SUPPORTED[name] for name in ("float64", "float32", "int32", "int64"))
_Q = entry.quaternion()
_SIDES = (2, 3)
UNIT = entry.unit_quaternion()
FAMILIES: tuple[tuple[DType, ...], ...] = (
    (_Q, entry.quaternion("float32"), *_NUMBERS),
    (entry.complex(), entry.complex("float32"), *_NUMBERS),
    (entry.dual(), entry.dual("float32"), *_NUMBERS),
    (
        *(entry.block(*sides) for sides in pairs(_SIDES, _SIDES)),
        *(entry.vector(n) for n in _SIDES),
        SUPPORTED["float64"],
    ),
    (entry.block(2, 2, "float32"), entry.vector(2, "float32"), SUPPORTED["float32"]),
    (
        entry.block(2, 2, entry.complex()),
        entry.vector(2, entry.complex()),
        entry.complex(),
        SUPPORTED["int32"],
    ),
    (entry.block(2, 2, _Q), entry.vector(2, _Q), _Q),
    (entry.block(2, 2, entry.block(2, 2)), entry.vector(2, entry.vector(2)), entry.block(2, 2)),
    (TRIANGLE, TRIANGLE.over("float32"), *_NUMBERS),
    (AFFINE, entry.block(2, 2, AFFINE), SUPPORTED["float32"]),
    (TURN, PAIR, SUPPORTED["float64"]),
    (PATH,),
    # Numbers that memory holds in half precision, and quaternions of length one in three numbers.
    (entry.quaternion("float16"), entry.quaternion("float32"), SUPPORTED["float32"]),
    (entry.block(2, 2, "float16"), entry.vector(2, "float16"), entry.vector(2, "float32")),
    (UNIT, _Q, SUPPORTED["float64"]),
)


def _closed() -> dict[str, Entry]:
    """All entry types that statements over the families can have, by the name in messages."""
    found: dict[str, Entry] = {}
    for family in FAMILIES:
        known = [each for each in family if isinstance(each, Entry)]
        for _ in range(2):
            made = [product(a, b) for a in known for b in known]
            results = [m.result for m in made if m is not None and not isinstance(m.result, Real)]
            known = list(dict.fromkeys([*known, *results, *(each.conjugated for each in known)]))
        wide = [each.over(scalar) for each in known for scalar in ("float32", "float64")]
        found |= {str(each): each for each in (*known, *wide)}
    return found


ENTRIES = _closed()


def element_type(name: str) -> DType:
    """The type with this name: of numbers, or of one of `ENTRIES`."""
    return ENTRIES[name] if name in ENTRIES else SUPPORTED[name]


def spelled(dtype: DType) -> str:
    """A Python expression for an element type, and for `np.dtype` of its elements."""
    return f'element_type("{dtype}")' if isinstance(dtype, Entry) else f'"{dtype}"'


def stored(dtype: DType) -> np.dtype:
    """The NumPy type of elements."""
    return dtype.dtype if isinstance(dtype, Entry) else dtype
