"""Create tensors: from other libraries' objects, from arrays, empty ones, and placeholders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openwork.algebra.encodings import Ternary, as_stored
from openwork.algebra.entries import Entry
from openwork.algebra.types import DType, Number
from openwork.errors import FormatError
from openwork.format.formats import Format, as_format, dense
from openwork.format.layouts import TERNARY
from openwork.tensor.convert.pack import check_order, pack
from openwork.tensor.exchange.facts import facts_for
from openwork.tensor.exchange.interop import Wish, from_levels, storage_from
from openwork.tensor.exchange.validate import check_shape
from openwork.tensor.operand import auto_name
from openwork.tensor.tensor import Tensor


def tensor(
    obj: object,
    format: Format | str | None = None,
    name: str | None = None,
    dtype: object = None,
    fill: Number | None = None,
    shape: object = None,
    share: bool = False,
) -> Tensor:
    """A tensor with the contents of `obj`; values are not copied if the layout agrees.

    Args:
        obj: a NumPy array, a SciPy sparse array or matrix, a number, nested lists, a pair
            `(coords, values)` together with `shape`, a tensor, or anything that NumPy can view.
            Duplicate coordinates are summed; explicit zeros are kept.
        format: how to store it, as in `ow.CSR` or `"CSR"`. By default the object's own: dense
            arrays stay row- or column-major, CSR and CSC stay so, other sparse matrices become
            CSR, and tensors of more modes CSF. A sparse format stores only the elements of a dense
            array that differ from `fill`.
        name: the name in statements and messages; by default T1, T2, ...
        dtype: the element type; by default the object's.
        fill: the value of absent entries; by default 0, or a tensor's own.
        shape: the extents, needed only for `(coords, values)`.
        share: use the object's index arrays without a copy. Changing them afterwards, as
            SciPy's in-place methods do, makes kernels read and write out of bounds.

    Values are shared where the layout agrees; index arrays are copied as they are checked.

    Raises:
        FormatError: E405 when `obj` is none of these, E401 when the format does not fit.
        DataError: E501 to E505 when the object's arrays are malformed.

    >>> tensor([[1.0, 0.0, 2.0]], format="CSR", name="A")
    <Tensor A: 1x3 float64, ow.CSR, 2 stored>
    >>> tensor(([[0, 0], [1, 1]], [3.0, 4.0]), shape=(2, 2)).to_numpy()
    array([[0., 7.],
           [0., 0.]])
    >>> tensor("text")
    Traceback (most recent call last):
    openwork.errors.FormatError: E405: str cannot become a tensor...
    """
    called = auto_name() if name is None else check_name(name)
    if isinstance(format, str):
        format = as_format(format, _order_of(obj, shape))
    wish = Wish(
        called,
        None if format is None else as_format(format),
        None if dtype is None else as_stored(dtype),
        None if fill is None else _as_fill(fill),
        None if shape is None else check_shape(shape),
        share,
    )
    storage = storage_from(obj, wish)
    _check_fill(storage.fill, storage.dtype)
    return Tensor.of(storage, called)


def check_name(name: object) -> str:
    """A tensor's name: any text. It is only displayed; generated code has its own names."""
    if isinstance(name, str) and name:
        return name
    raise FormatError(f"{name!r} is not a name for a tensor", code="E405", hint="name='A'")


def _check_fill(fill: object, dtype: DType) -> Number:
    """The value of absent entries, which has to be an element of this type."""
    number = _as_fill(fill)
    if isinstance(dtype, Entry):
        dtype.numbers(number)
    return number


def _as_fill(fill: object) -> Number:
    """The value of absent entries, as a Python number."""
    plain = fill.item() if isinstance(fill, np.generic) else fill
    if isinstance(plain, bool | int | float | complex):
        return plain
    raise FormatError(f"absent entries cannot be {fill!r}", code="E405", hint="fill=0")


def _order_of(obj: object, shape: object) -> int | None:
    """The number of modes of a tensor to be made, where that is easily known."""
    if shape is not None:
        return len(check_shape(shape))
    known = getattr(obj, "ndim", None)
    if isinstance(obj, list):
        known = np.ndim(obj)
    return known if isinstance(known, int) else None


def empty(
    shape: object,
    dtype: object = "float64",
    format: Format | str | None = None,
    name: str | None = None,
    fill: Number = 0,
) -> Tensor:
    """A tensor whose elements are all `fill`: dense, or a sparse one without stored entries.

    >>> empty((2, 3), name="y")
    <Tensor y: 2x3 float64, ow.dense(2), 6 stored>
    >>> empty((2, 3), format="CSR", name="C").nnz
    0
    """
    extents = check_shape(shape)
    kind, wanted = _wanted(dtype, format, len(extents))
    nothing = np.zeros((len(extents), 0), dtype=np.int64)
    storage = pack(nothing, np.zeros(0, dtype=kind), extents, wanted, _check_fill(fill, kind))
    return Tensor.of(storage, None if name is None else check_name(name))


def _wanted(dtype: object, format: Format | str | None, order: int) -> tuple[DType, Format]:
    """The element type and the format of a tensor without data."""
    wanted = dense(order) if format is None else as_format(format, order)
    check_order(wanted, order)
    kind = as_stored(dtype)
    return (
        (kind.scalar, wanted.with_layout(TERNARY)) if isinstance(kind, Ternary) else (kind, wanted)
    )


def placeholder(
    name: str,
    order: int,
    format: Format | str | None = None,
    dtype: object = "float64",
    shape: Sequence[int | None] | None = None,
    fill: Number = 0,
) -> Tensor:
    """A tensor without data, to compile for; the kernel takes the data under this name.

    Args:
        name: the keyword under which the kernel takes the tensor.
        order: the number of modes.
        format: how it will be stored; dense if left out.
        dtype: the element type.
        shape: the extents that are known in advance, None for the others.
        fill: the value of absent entries.

    >>> placeholder("P", order=2, format="CSR", dtype="float32")
    <Tensor P: ?x? float32, ow.CSR, no data>
    """
    kind, wanted = _wanted(dtype, format, order)
    extents: tuple[int | None, ...] = (None,) * order
    if shape is not None:
        extents = tuple(None if n is None else check_shape(n)[0] for n in shape)
        check_order(wanted, len(extents))
    facts = facts_for(wanted, kind, _check_fill(fill, kind))
    return Tensor(check_name(name), extents, facts)


def from_arrays(
    format: Format | str,
    shape: object,
    levels: Sequence[Mapping[str, Any] | Sequence[Any] | None],
    values: object,
    name: str | None = None,
    fill: Number = 0,
    share: bool = False,
) -> Tensor:
    """A tensor over index arrays and values that are in `format` already.

    Args:
        format: the format of the arrays, which are checked once.
        shape: the extent of each mode.
        levels: for each level its arrays, by name or in order: `{"pos": p, "crd": c}` or `(p, c)`
            for a compressed level, nothing (`()`, `{}` or None) for a dense one.
        values: one value per position of the last level, shared if type and layout allow it.
        name: the name in statements and messages; by default T1, T2, ...
        fill: the value of absent entries.
        share: use these index arrays without a copy; they must not change afterwards.

    Raises:
        DataError: E501 to E505, naming the array, the index and the value at fault.

    >>> from_arrays("CSR", (2, 3), [None, ([0, 1, 2], [2, 0])], [5.0, 6.0]).to_numpy()
    array([[0., 0., 5.],
           [6., 0., 0.]])
    >>> from_arrays("CSR", (2, 3), [None, ([0, 1, 2], [2, 3])], [5.0, 6.0], name="A")
    Traceback (most recent call last):
    openwork.errors.DataError: E503: A.levels[1].crd[1] is 3, outside its mode of extent 3...
    """
    called = auto_name() if name is None else check_name(name)
    wanted, absent = as_format(format), _as_fill(fill)
    made = from_levels(wanted, shape, levels, values, called, absent, share=share)
    _check_fill(absent, made.dtype)
    return Tensor.of(made, called)
