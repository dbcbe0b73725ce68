"""Element types: which exist, and how NumPy's promotion rules combine them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import numpy as np

from openwork.algebra.entries import NAMED, STORED, Entry, widest
from openwork.errors import ElementTypeError, ParseError

Scalar = np.dtype[Any]
DType = Scalar | Entry
# A Python number in an expression is weak: it takes the type of the other operand (NEP 50).
Weak = type[int] | type[float] | type[complex]
Kind = DType | Weak
Number = bool | int | float | complex

NAMES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
SUPPORTED: dict[str, Scalar] = {name: np.dtype(name) for name in NAMES}
_BY_DTYPE: dict[Scalar, Scalar] = {t: t for t in SUPPORTED.values()}

# Kernels have one more type, for keys of workspaces with very many modes.
_KINDS = {name: dtype.kind for name, dtype in SUPPORTED.items()} | {"int128": "i"}
_BYTES = {name: dtype.itemsize for name, dtype in SUPPORTED.items()} | {"int128": 16}

BOOL, INT32, INT64 = SUPPORTED["bool"], SUPPORTED["int32"], SUPPORTED["int64"]
UINT64 = SUPPORTED["uint64"]
FLOAT16, FLOAT32, FLOAT64 = SUPPORTED["float16"], SUPPORTED["float32"], SUPPORTED["float64"]
COMPLEX128 = SUPPORTED["complex128"]
_LIMITS: dict[DType, tuple[int, int]] = {
    t: (int(np.iinfo(t).min), int(np.iinfo(t).max)) for t in SUPPORTED.values() if t.kind in "iu"
}
_STRONG: dict[type, DType] = {int: INT64, float: FLOAT64, complex: COMPLEX128}

# Hints where a ufunc does not support the types.
_BITS = "only integers and bools have bits: {}, or cast to an integer, as in ow.cast('int64', e)"
_SHIFTS = _BITS.format("multiply by a power of two")
_HINTS: dict[np.ufunc, str] = {
    np.bitwise_and: _BITS.format("use ow.logical_and(a, b) for truth values"),
    np.bitwise_or: _BITS.format("use ow.logical_or(a, b) for truth values"),
    np.bitwise_xor: _BITS.format("use ow.logical_xor(a, b) for truth values"),
    np.invert: _BITS.format("use ow.logical_not(e) for truth values"),
    np.left_shift: _SHIFTS,
    np.right_shift: _SHIFTS,
    np.negative: "for a bool, use ow.logical_not(e), or cast it: ow.cast('int8', e)",
    np.subtract: "for bools, use ow.logical_xor(a, b), or cast them: ow.cast('int8', e)",
}


def _kind(type: str) -> str:
    known = _KINDS.get(type)
    return NAMED[type].kind if known is None else known


def named(type: str) -> DType:
    """The element type of a name in programs."""
    known = SUPPORTED.get(type)
    return NAMED[type] if known is None else known


def is_record(type: str) -> bool:
    """Whether `type` is an entry type: its elements are records."""
    return type in NAMED


def is_integer(type: str) -> bool:
    """Whether `type` is an integer type, signed or not; bool is not."""
    return _kind(type) in "iu"


def is_signed(type: str) -> bool:
    """Whether `type` is a signed integer type."""
    return _kind(type) == "i"


def is_unsigned(type: str) -> bool:
    """Whether `type` is an unsigned integer type."""
    return _kind(type) == "u"


def is_float(type: str) -> bool:
    """Whether `type` is a real floating-point type."""
    return _kind(type) == "f"


def is_complex(type: str) -> bool:
    """Whether `type` is complex."""
    return _kind(type) == "c"


def size_of(type: str) -> int:
    """The size of an element of `type`, in bytes."""
    return _BYTES[type] if type in _BYTES else NAMED[type].itemsize


def half_of(type: str) -> str:
    """The type of the real and of the imaginary part of a complex `type`."""
    return "float32" if type == "complex64" else "float64"


def as_dtype(spec: object) -> DType:
    """The supported element type that `spec` names, in native byte order.

    >>> as_dtype("float64"), as_dtype(np.int8), as_dtype(float)
    (dtype('float64'), dtype('int8'), dtype('float64'))
    """
    if isinstance(spec, Entry):
        return spec
    if isinstance(spec, np.dtype) and spec in _BY_DTYPE:
        return _BY_DTYPE[spec]
    if isinstance(spec, np.dtype) and spec in STORED:
        return STORED[spec]
    try:
        dtype = np.dtype(cast(Any, spec)).newbyteorder("=")
    except TypeError as error:
        raise ElementTypeError(
            f"{spec!r} is not an element type",
            code="E402",
            hint="types are NumPy's, such as 'float64', and ow.entry's; formats go to `format=`",
        ) from error
    if dtype not in _BY_DTYPE:
        raise ElementTypeError(
            f"Openwork has no element type {dtype}",
            code="E402",
            hint=f"the element types are {', '.join(NAMES)}",
        )
    return _BY_DTYPE[dtype]


def strong(kind: Kind) -> DType:
    """The element type of `kind`, with a weak Python number at its default width."""
    return _STRONG[kind] if isinstance(kind, type) else kind


def computed(dtype: DType) -> DType:
    """The type that elements are computed in: another one if they take less memory.

    Half precision is for memory only. Small integers become it under NumPy's sqrt, exp, ..., too.
    """
    if isinstance(dtype, Entry):
        return dtype.decoded
    return FLOAT32 if dtype == FLOAT16 else dtype


def promote(*kinds: Kind) -> DType:
    """The smallest type that holds all of `kinds`, by NumPy's rules.

    >>> promote(np.dtype("int8"), np.dtype("float32")), promote(np.dtype("float32"), float)
    (dtype('float32'), dtype('float32'))
    """
    if any(isinstance(kind, Entry) for kind in kinds):
        return _widest_entry(kinds)
    distinct = dict.fromkeys(kinds)
    kind, *others = distinct if len(distinct) > 1 else map(strong, distinct)
    for other in others:
        kind = result_type(np.multiply, (kind, other))
    return strong(kind)


def _widest_entry(kinds: tuple[Kind, ...]) -> Entry:
    """The entry type of one family that holds all of `kinds`."""
    entries = [kind for kind in kinds if isinstance(kind, Entry)]
    if len({entry.family for entry in entries}) > 1:
        entries = [entry.decoded for entry in entries]
    if len(entries) < len(kinds) or len({entry.family for entry in entries}) > 1:
        shown = " and ".join(str(strong(kind)) for kind in kinds)
        raise ParseError(f"no element type holds {shown}", code="E108", hint="cast one of them")
    return entries[0].over(widest(*(entry.scalar for entry in entries)))


def result_type(ufunc: np.ufunc, kinds: tuple[Kind, ...]) -> DType:
    """The element type that `ufunc` gives for arguments of `kinds`."""
    return resolved_types(ufunc, kinds)[-1]


@lru_cache(maxsize=1024)
def resolved_types(
    ufunc: np.ufunc, kinds: tuple[Kind, ...], operator: str | None = None
) -> tuple[DType, ...]:
    """The types that `ufunc` converts arguments of `kinds` to, and that of its result."""
    if all(isinstance(kind, type) for kind in kinds):
        kinds = tuple(strong(kind) for kind in kinds)
    try:
        # NumPy resolves Python's own number types as weak, which its stubs do not say yet.
        dtypes = ufunc.resolve_dtypes(cast(Any, (*kinds, *[None] * ufunc.nout)))
    except TypeError as error:
        shown = ", ".join(str(strong(kind)) for kind in kinds)
        raise ParseError(
            f"{operator or ufunc.__name__} is not defined for {shown}",
            code="E108",
            hint=_HINTS.get(ufunc, "cast an argument first, as in ow.cast('float64', e)"),
        ) from error
    return tuple(computed(as_dtype(each)) for each in dtypes)


def holds(dtype: DType, value: Number) -> bool:
    """Whether `dtype` can hold an integer; other numbers always fit.

    >>> holds(np.dtype("uint8"), 255), holds(np.dtype("uint8"), -1), holds(np.dtype("float32"), -1)
    (True, False, True)
    """
    if isinstance(dtype, Entry) or dtype.kind not in "iu" or not isinstance(value, int):
        return True
    limits = _LIMITS[dtype]
    return limits[0] <= value <= limits[1]


def numbers_of(count: int, dtype: DType) -> tuple[int, Scalar]:
    """How many numbers so many elements are, and of which type."""
    return (
        (count * dtype.size, np.dtype(dtype.scalar)) if isinstance(dtype, Entry) else (count, dtype)
    )


def as_element(value: Number, dtype: DType) -> np.ndarray[Any, Any]:
    """A number as an element of an array; a record is so many times one."""
    if isinstance(dtype, Entry):
        return dtype.record(value)
    return np.array(number(value, dtype), dtype)


def copied(elements: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy of contiguous elements; NumPy copies records field by field, which takes long."""
    if elements.dtype.names is None:
        return elements.copy()
    return elements.view(np.uint8).copy().view(elements.dtype)


def as_numbers(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Records as an array with component axes last; numbers as they are."""
    dtype = as_dtype(array.dtype)
    return dtype.components(array) if isinstance(dtype, Entry) else array


def number(value: Number, dtype: DType) -> Number:
    """`value` as a Python number that `dtype` can hold; infinities become the extreme integers.

    >>> number(float("inf"), np.dtype("int8")), number(0.0, np.dtype("bool"))
    (127, False)
    """
    if type(value) is float and dtype.kind == "f" and (dtype.itemsize == 8 or value in (0, 1)):
        return value  # most numbers are
    if isinstance(dtype, Entry):
        return value
    if dtype.kind == "b":
        return value == float("inf") or (value != float("-inf") and bool(value))
    if dtype.kind in "iu":
        least, most = _LIMITS[dtype]
        if type(value) is int and least <= value <= most:
            return value
        if value == float("inf"):
            return most
        if value == float("-inf"):
            return least
        real = value.real if isinstance(value, complex) else value
        return 0 if real != real else int(np.array(int(real)).astype(dtype))
    if isinstance(value, complex) and dtype.kind == "f":
        value = value.real
    with np.errstate(over="ignore"):
        return cast(Number, np.array(value).astype(dtype).item())
