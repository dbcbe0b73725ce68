"""NumPy, SciPy and other libraries' objects as storage, without copies if possible.

The caller's objects are never changed: SciPy's in-place sorting is not called on them.
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
from scipy import sparse

from openwork.algebra.encodings import Ternary
from openwork.algebra.entries import Entry
from openwork.algebra.meaning import is_held
from openwork.algebra.types import DType, Number, as_dtype, number
from openwork.errors import DataError, FormatError, ShapeError
from openwork.format.formats import CSC, CSF, CSR, DCSR, Format, dense
from openwork.format.layouts import AOS
from openwork.frozen import frozen
from openwork.runtime.storage import Array, Storage
from openwork.tensor.convert.convert import convert
from openwork.tensor.convert.pack import (
    from_dense,
    pack,
)
from openwork.tensor.exchange.facts import Facts, facts_of
from openwork.tensor.exchange.gpu import from_gpu, is_gpu_object
from openwork.tensor.exchange.libraries import library_of, plain
from openwork.tensor.exchange.records import as_records, blocks_of
from openwork.tensor.exchange.scipy import (
    admit_in_order,
    from_bsr,
    from_dia,
    from_lil,
    shared_values,
)
from openwork.tensor.exchange.torch import as_known, is_torch
from openwork.tensor.exchange.validate import (
    admit,
    as_index_array,
    as_values,
    check_coords,
    check_shape,
    truth_values,
)

# CSR has a position for each row. Beyond this many rows, and this many per entry, DCSR is the
# default.
_ROWS_IN_ANY_CASE, _ROWS_PER_ENTRY = 1 << 26, 16


@frozen
class Wish:
    """The properties that the caller wants; None leaves one to the object."""

    name: str
    format: Format | None = None
    dtype: DType | Ternary | None = None
    fill: Number | None = None
    shape: tuple[int, ...] | None = None
    share: bool = False  # use the caller's index arrays, which must not change


def storage_from(obj: Any, wish: Wish) -> Storage:
    """The storage of `obj`, as `wish` describes it.

    Raises:
        FormatError: E405 when `obj` cannot become a tensor.
        DataError: E501 to E505 when its arrays are invalid.

    >>> storage_from([[1, 0], [0, 2]], Wish("A", CSR)).values
    array([1, 2])
    """
    for accepts, read in _READERS:
        if accepts(obj, wish):
            storage = read(obj, wish)
            break
    else:
        raise _no_tensor(obj, "it is neither a number nor an array")
    if wish.shape is not None and storage.shape != wish.shape:
        raise FormatError(
            f"{wish.name} has the shape {storage.shape}, not {wish.shape}", code="E405"
        )
    if wish.format is not None:
        storage = convert(storage, wish.format)
    return storage if wish.dtype is None else storage.astype(wish.dtype)


def _no_tensor(obj: object, reason: str, hint: str | None = None) -> FormatError:
    usual = "ow.tensor takes NumPy arrays, SciPy sparse arrays, nested lists, (coords, values)"
    message = f"{type(obj).__name__} cannot become a tensor: {reason}"
    return FormatError(message, code="E405", hint=hint or usual)


# From objects that hold a storage


def _holds_storage(obj: Any, wish: Wish) -> bool:
    return isinstance(getattr(obj, "storage", None), Storage)


def _from_storage(obj: Any, wish: Wish) -> Storage:
    storage = cast(Storage, obj.storage)
    if wish.fill is None:
        return storage
    return replace(storage, fill=number(wish.fill, storage.dtype))


# From NumPy arrays and what becomes one


def from_numpy(array: Array, wish: Wish) -> Storage:
    """A dense array: row- or column-major as in memory, copied only if it is neither."""
    if isinstance(wish.dtype, Entry):
        array = as_records(array, wish.dtype, wish.name)
    dtype = as_dtype(array.dtype)
    if dtype != array.dtype:  # the other byte order
        array = array.astype(dtype)
    array = truth_values(array)
    fill = number(wish.fill or 0, dtype)
    if wish.format is not None and not wish.format.is_dense:
        return from_dense(array, wish.format, fill)
    if array.flags.c_contiguous or not array.flags.f_contiguous:
        return from_dense(array, dense(array.ndim), fill)
    return from_dense(array, dense(array.ndim, range(array.ndim)[::-1]), fill)


def _from_array_like(obj: Any, wish: Wish) -> Storage:
    if isinstance(obj, np.ma.MaskedArray):
        raise _no_tensor(obj, "tensors have no masks", hint="fill it first: a.filled(0)")
    try:
        array = np.asarray(obj) if _has_array(obj, wish) else np.from_dlpack(obj)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise _no_tensor(obj, str(error)) from error
    return from_numpy(array, wish)


def _from_sequence(obj: Any, wish: Wish) -> Storage:
    try:
        array = np.asarray(obj)
    except ValueError as error:
        hint = "(coords, values) need shape=(...)"
        if len(obj) in (2, 3) and isinstance(obj, tuple):
            hint += "; ow.tensor(scipy.sparse.csr_array(...)) takes SciPy's order of arrays"
        raise _no_tensor(obj, "its rows differ in length", hint=hint) from error
    if array.dtype.kind not in "biufc":
        raise _no_tensor(obj, "not everything in it is a number")
    return from_numpy(array, wish)


def _from_number(obj: Any, wish: Wish) -> Storage:
    foreign = not isinstance(obj, np.generic | int | float | complex)
    array = np.asarray(float(obj) if foreign else obj)  # a fraction or a decimal is foreign
    if array.dtype.kind not in "biufc":
        raise _no_tensor(obj, f"{obj} does not fit into 64 bits")
    return from_numpy(array, wish)


def _has_array(obj: Any, wish: Wish) -> bool:
    return hasattr(obj, "__array_interface__") or hasattr(obj, "__array__")


# From coordinates and values


def from_coo(coords: Any, values: Any, wish: Wish) -> Storage:
    """Entries by coordinate, in any order; duplicates are summed, zeros kept."""
    shape = wish.shape or ()
    made = as_values(values, "values")
    if isinstance(wish.dtype, Entry):
        made = as_records(made, wish.dtype, "values")
    if made.ndim != 1:
        raise DataError(
            f"values has {made.ndim} dimensions, but must have one",
            code="E505",
            hint="coords come first: (coords, values)" if np.ndim(coords) == 1 else None,
        )
    dtype = as_dtype(made.dtype if made.size or made.dtype.kind in "biufcV" else float)
    checked = check_coords(coords, shape, len(made))
    format = wish.format or usual(shape, len(made))
    if wish.format is None and format == DCSR:
        tell_of_rows(wish.name, shape, len(made), calls=5)
    return pack(checked, truth_values(made.astype(dtype)), shape, format, wish.fill or 0)


def usual(shape: tuple[int, ...], entries: int) -> Format:
    """The default format of entries given by coordinate.

    >>> usual((3, 4), 2), usual((2**31, 4), 2), usual((2, 3, 4), 2)
    (ow.CSR, ow.DCSR, ow.CSF(3))
    """
    if len(shape) != 2:
        return CSF(len(shape))
    return CSR if shape[0] <= max(_ROWS_IN_ANY_CASE, _ROWS_PER_ENTRY * entries) else DCSR


def tell_of_rows(name: str, shape: tuple[int, ...], entries: int, calls: int) -> None:
    """Warn that a matrix is not stored as CSR; the user's code is `calls` frames up."""
    warnings.warn(
        f"{name} has {shape[0]} rows and {entries} entries: it is stored as DCSR, which takes no "
        "space for empty rows. Pass format= to choose another.",
        RuntimeWarning,
        stacklevel=calls + 1,
    )


def _is_coo(obj: Any, wish: Wish) -> bool:
    return isinstance(obj, tuple) and len(obj) == 2 and wish.shape is not None


# From SciPy


def from_scipy(matrix: Any, wish: Wish) -> Storage:
    """A SciPy sparse array or matrix. CSR, CSC, BSR, DIA and LIL keep their format, and the first
    three share their arrays; others become CSR or CSF.

    If the columns of a row are unsorted or repeat, a sorted copy is made.
    """
    if matrix.format in ("csr", "csc") or (
        isinstance(wish.dtype, Entry) and matrix.format == "bsr"
    ):
        return _from_compressed(matrix, wish)
    if matrix.format in _KINDS:
        return _KINDS[matrix.format](matrix, wish.name, wish.fill, wish.share)
    if matrix.format != "coo":
        matrix = matrix.tocoo()
    coords = getattr(matrix, "coords", None) or (matrix.row, matrix.col)
    shape = check_shape(matrix.shape)
    return from_coo(coords, matrix.data, replace(wish, shape=shape))


def _from_compressed(matrix: Any, wish: Wish) -> Storage:
    """CSR or CSC with the arrays of `matrix`; a SciPy vector has only one row."""
    shape = check_shape(matrix.shape)
    format = CSF(1) if len(shape) == 1 else CSC if matrix.format == "csc" else CSR
    labels = {"pos": "indptr", "crd": "indices", "values": "data"}
    labels = {ours: f"{wish.name}.{theirs}" for ours, theirs in labels.items()}
    pos = as_index_array(matrix.indptr, labels["pos"])
    crd = as_index_array(matrix.indices, labels["crd"])
    values = np.asarray(matrix.data)
    if isinstance(wish.dtype, Entry) and matrix.format == "bsr":
        values = blocks_of(matrix, wish.dtype, wish.name)
        shape = tuple(n // block for n, block in zip(shape, matrix.blocksize, strict=True))
    elif isinstance(wish.dtype, Entry):
        values = as_records(values, wish.dtype, labels["values"])
    # SciPy's arrays may be longer than the number of entries.
    used = int(pos[-1]) if len(pos) else 0
    if 0 <= used < len(crd) and used <= len(values):
        crd, values = crd[:used], values[:used]
    dtype = as_dtype(values.dtype)
    values = shared_values(values)
    arrays = {"pos": pos, "crd": crd}
    levels: tuple[dict[str, Array], ...] = ({},) * (len(shape) - 1) + (arrays,)
    storage = Storage.of_values(shape, format, levels, values, number(wish.fill or 0, dtype))
    admitted = admit_in_order(storage, wish.name, labels, wish.share)
    return admitted if wish.share else _narrowed(admitted)


def _narrowed(storage: Storage) -> Storage:
    """`storage` with 32-bit indices where they suffice: kernels read half as much of them.

    Only after it is checked: what does not fit would turn into another number.
    """
    if max(storage.places, *storage.shape, 0) > np.iinfo(np.int32).max:
        return storage
    levels = [
        {key: array.astype(np.int32, copy=False) for key, array in arrays.items()}
        for arrays in storage.levels
    ]
    for arrays in levels:
        for array in arrays.values():
            array.flags.writeable = False
    return replace(storage, levels=tuple(levels))


_KINDS = {"bsr": from_bsr, "dia": from_dia, "lil": from_lil}


# The first reader that accepts an object reads it.
def _from_gpu(obj: Any, wish: Wish) -> Storage:
    storage = from_gpu(obj, wish.name, wish.share)
    if wish.format not in (None, storage.format) or wish.dtype not in (None, storage.dtype):
        return storage.host()
    return storage


_TORCH = "ow.tensor takes torch's strided, COO, CSR, CSC and BSR tensors, of NumPy's element types"


def _from_torch(obj: Any, wish: Wish) -> Storage:
    try:
        known = as_known(obj)
    except (TypeError, ValueError, RuntimeError) as error:
        raise _no_tensor(obj, str(error), _TORCH) from error
    if isinstance(known, tuple):
        coords, values = known
        return from_coo(coords, values, replace(wish, shape=tuple(obj.shape)))
    return from_scipy(known, wish) if sparse.issparse(known) else from_numpy(known, wish)


def _from_library(obj: Any, wish: Wish) -> Storage:
    known = plain(obj)
    if isinstance(known, tuple):
        coords, values, fill = known
        number = fill.item() if isinstance(fill, np.generic) else fill
        own = number if wish.fill is None else wish.fill
        return from_coo(coords, values, replace(wish, shape=tuple(obj.shape), fill=own))
    if known is None:
        raise _no_tensor(obj, f"of {library_of(obj)}, arrays, frames and graphs can")
    return storage_from(known, replace(wish, shape=None))


_READERS: tuple[tuple[Callable[[Any, Wish], bool], Callable[[Any, Wish], Storage]], ...] = (
    (_holds_storage, _from_storage),
    (lambda obj, wish: is_gpu_object(obj), _from_gpu),
    (lambda obj, wish: is_torch(obj), _from_torch),
    (lambda obj, wish: isinstance(obj, np.ndarray) and type(obj) is np.ndarray, from_numpy),
    (lambda obj, wish: sparse.issparse(obj), from_scipy),
    (lambda obj, wish: isinstance(obj, numbers.Number | np.generic), _from_number),
    (lambda obj, wish: library_of(obj) is not None, _from_library),
    (_is_coo, lambda obj, wish: from_coo(obj[0], obj[1], wish)),
    (lambda obj, wish: isinstance(obj, list | tuple | range), _from_sequence),
    (lambda obj, wish: hasattr(obj, "to_scipy"), lambda obj, w: from_scipy(obj.to_scipy(), w)),
    (lambda obj, wish: _has_array(obj, wish) or hasattr(obj, "__dlpack__"), _from_array_like),
)


def from_levels(
    format: Format,
    shape: object,
    levels: Any,
    values: object,
    name: str,
    fill: Number = 0,
    *,
    share: bool = False,
) -> Storage:
    """The storage with exactly these arrays, after validation.

    Args:
        format: the format of the arrays.
        shape: the extent of each mode.
        levels: per level, a mapping such as `{"pos": ..., "crd": ...}`, or the arrays in the
            level's order; nothing for a dense level.
        values: one value per position of the last level, in order, whatever the layout.
        name: the tensor's name in messages.
        fill: the value of absent entries.
        share: use the caller's index arrays instead of copies.
    """
    extents = check_shape(shape)
    given = list(levels)
    if format.ndim != len(extents) or len(format.levels) != len(given):
        raise DataError(
            f"{format!r} has {format.ndim} modes and {len(format.levels)} levels, but the shape "
            f"has {len(extents)} modes, and arrays of {len(given)} levels were given",
            code="E501",
        )
    made: list[dict[str, Array]] = []
    for n, (level, arrays) in enumerate(zip(format.levels, given, strict=True)):
        if not hasattr(arrays, "items"):
            names = [fact.name for fact in level.arrays]
            listed = list(arrays or ())
            if len(listed) != len(names):
                raise DataError(
                    f"level {n}, {level}, has the arrays ({', '.join(names)}), and {len(listed)} "
                    "were given",
                    code="E501",
                )
            arrays = dict(zip(names, listed, strict=True))
        wide = {fact.name for fact in level.arrays if fact.holds == "positions"}
        made.append(
            {k: as_index_array(a, f"{name}.levels[{n}].{k}", k in wide) for k, a in arrays.items()}
        )
    data = as_values(values, f"{name}.values")
    dtype = as_dtype(data.dtype)
    data = shared_values(data)
    plain = format.with_layout(AOS)
    storage = Storage.of_values(extents, plain, tuple(made), data, number(fill, dtype))
    return admit(storage, name, share=share).laid_out(format.layout)


def _is_safe(given: DType, wanted: DType) -> bool:
    """Whether a conversion of elements loses nothing."""
    if isinstance(given, Entry) and isinstance(wanted, Entry):
        exact = wanted in (given.over(wanted.scalar), wanted.decoded)
        return is_held(given, wanted) and exact and given.itemsize <= wanted.itemsize
    return not isinstance(wanted, Entry) and bool(np.can_cast(given, wanted, "safe"))


def fitted(storage: Storage, facts: Facts, name: str) -> Storage:
    """`storage` as the argument of a kernel that was compiled for `facts`.

    Converts only where that is cheap and exact: never to a dense format, nor to a narrower type.
    """
    given = facts_of(storage)
    both_sparse = not (facts.format.is_dense or given.format.is_dense)
    if len(storage.shape) != facts.format.ndim:
        problem = f"the argument has {len(storage.shape)} modes"
    elif facts.format.is_dense and not given.format.is_dense:
        problem = f"the argument is sparse, {given.format!r}"
    elif not _is_safe(given.dtype, facts.dtype):
        problem = f"the argument has elements of {given.dtype}"
    elif both_sparse and given.key != facts.key:
        problem = f"absent entries of the argument are {given.fill}, not {facts.fill}"
    else:
        return convert(storage, facts.format).astype(facts.dtype)
    raise ShapeError(
        f"{name} was compiled as {facts.format!r} of {facts.dtype}: {problem}",
        code="E202",
        hint="convert the argument with .to(format) or .astype(dtype), or compile for it",
    )
