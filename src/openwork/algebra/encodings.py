"""Encoded entry types: elements that take fewer numbers in memory than they are computed with."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import numpy as np

from openwork.algebra.entries import Entry, Numbers, Product, Quaternion
from openwork.algebra.operators import MAX, SELECT, SQRT
from openwork.algebra.types import DType, Scalar, as_dtype
from openwork.errors import FormatError
from openwork.frozen import frozen

# Powers of two, so that nothing is rounded: as small as x, y and z get together, and by what they
# are multiplied if w is negative. The least product exceeds what they can be otherwise.
_NEAR, _FAR = 2.0**-60, 2.0**62
_LARGEST = 1.9  # |x| + |y| + |z| is at most the square root of 3
_NOTHING = 2.0**-100  # shorter quaternions are zero


@frozen
class UnitQuaternion(Entry):
    """A quaternion of length one, or zero: x, y, z, and the sign of w.

    w follows from x, y and z, up to its sign: if it is negative, all three are multiplied by a
    power of two that makes them larger than they can be otherwise. Three zeros are zero; to tell it
    from one and minus one, these have a tiny x.
    """

    family = "unit quaternion"
    shape = (4,)
    fields = ("unit_x", "unit_y", "unit_z")
    one = (_NEAR, 0.0, 0.0)

    @property
    def decoded(self) -> Entry:
        return Quaternion(self.scalar).decoded

    def encode(self, a: Numbers) -> list[Any]:
        squared = reduce(add, [each * each for each in a])
        close, length = abs(squared - 1.0) < 16 * float(np.finfo(self.scalar).eps), SQRT(squared)
        w, *vector = (SELECT(close, each, each / length) for each in a)
        vector = [
            SELECT(squared < _NOTHING, old * 0.0, x) for old, x in zip(a[1:], vector, strict=True)
        ]
        tiny = reduce(add, map(abs, vector)) < _NEAR
        x = SELECT(tiny, vector[0] * 0.0 + _NEAR, vector[0])
        vector[0] = SELECT(squared < _NOTHING, a[1] * 0.0, x)
        return [SELECT(w < 0.0, each * _FAR, each) for each in vector]

    def decode(self, a: Numbers) -> list[Any]:
        stored = reduce(add, map(abs, a))
        negative = stored > _LARGEST
        vector = [SELECT(negative, each * (1 / _FAR), each) for each in a]
        tiny = reduce(add, map(abs, vector)) < 2 * _NEAR
        vector = [SELECT(tiny, each * 0.0, each) for each in vector]
        size = SQRT(MAX(1.0 - reduce(add, [each * each for each in vector]), 0.0))
        w = SELECT(negative, -size, SELECT(stored > 0.0, size, size * 0.0))
        return [w, *vector]

    def has(self, value: complex) -> bool:
        return value in (0, 1, -1)

    def numbers(self, value: complex) -> tuple[float, ...]:
        if value == 0:
            return self.zero
        if not self.has(value):
            raise FormatError(
                f"{value} is no {self.family}", code="E402", hint="numbers that are: 0, 1 and -1"
            )
        numbers = self.decoded.numbers(value)
        return tuple(float(each) for each in self.encode(list(np.array(numbers))))

    def records(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return self.cast(self.decoded.records(array))

    def components(self, records: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return self.decoded.components(self.decoded.cast(records))

    # What it is a quaternion for

    def times(self, other: Entry) -> Product | None:
        return None

    def conjugate(self, a: Numbers) -> list[Any]:
        return self.encode(self.decoded.conjugate(self.decode(a)))

    @property
    def acts_on(self) -> Entry:
        return self.decoded

    def matrices(self, records: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return self.decoded.matrices(self.decoded.cast(records))

    def of_matrices(self, matrices: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return self.cast(self.decoded.of_matrices(matrices))


@frozen
class Ternary:
    """Numbers that are -1, 0 or 1, each in two bits of its coordinate: a type and a layout.

    Where a tensor is made, it stands for both. The tensor's elements are the numbers themselves,
    so that they have all the operators of their type.
    """

    scalar: Scalar

    def __str__(self) -> str:
        return f"ternary<{self.scalar}>"


def as_stored(spec: object) -> DType | Ternary:
    """The element type that `spec` names, or the encoding."""
    return spec if isinstance(spec, Ternary) else as_dtype(spec)
