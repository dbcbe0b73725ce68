"""Entry types as users name them: `ow.entry.quaternion("float32")`, `ow.entry.block(3, 3)`."""

from __future__ import annotations

import operator

from openwork.algebra.entries import SCALARS, Complex, Dual, Entry, Grid, Quaternion, Real, Vector
from openwork.algebra.types import as_dtype
from openwork.errors import FormatError

_LARGEST = 64  # numbers of a record: its formulas are written out


def complex(scalar: object = "float64") -> Entry:
    """Complex numbers whose parts a layout may separate."""
    return Complex(_scalar(scalar))


def quaternion(scalar: object = "float64") -> Entry:
    """Quaternions, with Hamilton's product; the components are w, x, y, z.

    >>> quaternion("float32").shape
    (4,)
    """
    return Quaternion(_scalar(scalar))


def dual(scalar: object = "float64") -> Entry:
    """Numbers with a derivative: products follow the product rule."""
    return Dual(_scalar(scalar))


def block(rows: int, columns: int, element: object = "float64") -> Entry:
    """Dense blocks of numbers, or of another entry type.

    Blocks multiply blocks and vectors as matrices do. `ow.conj` gives the adjoint.

    >>> block(3, 3, complex("float32")).shape
    (3, 3, 2)
    """
    inner = _element(element)
    high, wide = _extent(rows), _extent(columns)
    return Grid(inner.scalar, high, wide, _element(element, high * wide))


def vector(length: int, element: object = "float64") -> Entry:
    """Short columns of numbers, or of another entry type.

    >>> vector(3, "float32").shape
    (3,)
    """
    inner = _element(element)
    return Vector(inner.scalar, _extent(length), 1, _element(element, length))


def _scalar(spec: object) -> str:
    """The type of a record's numbers."""
    dtype = as_dtype(spec)
    if isinstance(dtype, Entry) or dtype.name not in SCALARS:
        raise FormatError(
            f"records have no numbers of {dtype}",
            code="E402",
            hint=f"their types are {' and '.join(SCALARS)}",
        )
    return dtype.name


def _element(spec: object, times: int = 1) -> Entry:
    """What a block or vector consists of."""
    entry = spec if isinstance(spec, Entry) else Real(_scalar(spec))
    if entry.size * times > _LARGEST:
        raise FormatError(
            f"a record of {entry.size * times} numbers is too large",
            code="E402",
            hint=f"up to {_LARGEST}; ow.BSR(r, c) stores larger blocks",
        )
    return entry


def _extent(count: int) -> int:
    extent = operator.index(count)
    if extent < 1:
        raise FormatError(f"a block cannot have {extent} rows or columns", code="E402")
    return extent
