"""Conversion between formats: `convert` decides which way is taken, and says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from openwork.errors import InternalError
from openwork.format.formats import COO, Format
from openwork.format.levels import Compressed, Dense
from openwork.runtime.gpu.cuda import DeviceStorage
from openwork.runtime.host.toolchain import find_toolchain
from openwork.runtime.storage import Storage
from openwork.tensor.convert.gpu import by_cupy
from openwork.tensor.convert.lists import by_lists
from openwork.tensor.convert.pack import by_numpy, check_order
from openwork.tensor.convert.rows import by_rows, rows_reach

# Runs the statement `B(i,j) = A(i,j)`: from the storage of A, and a format, to the storage of B.
Assign = Callable[[Storage, Format], Storage]

# Below so many entries, NumPy is done before a compiler would be.
LEAST_ENTRIES = 1 << 18


def convert(
    storage: Storage, format: Format, *, exact: bool = False, assign: Assign | None = None
) -> Storage:
    """The same tensor in another format.

    The first of these ways that leads there is taken:

    1. `gpu.py`, in a GPU's memory: cuSPARSE and CuPy know rows, columns and lists of entries.
    2. `rows.py`: CSR, CSC and COO become other rows by C that counts. It is linear in the entries
       and writes each of them once, which no order of loops does.
    3. A statement, `B(i,j) = A(i,j)`: threads append to the result while they walk the source.
       Only for callers that can compile one, which hand in `assign`.
    4. `lists.py`: generated programs list the entries, sort them by counting, and pack them.
    5. `pack.py`: NumPy does the same. It leads everywhere and needs no compiler.

    A compiler takes longer than NumPy for few entries; so 3 and 4 are for `LEAST_ENTRIES` and more.
    A GPU that knows neither 1 nor 3 leaves the conversion to the CPU.

    Args:
        storage: the tensor.
        format: the format to convert it to.
        exact: keep all that is stored. Otherwise, explicit zeros stay entries, but out of dense
            levels only what differs from the fill is taken.
        assign: runs a statement that copies a tensor, if the caller can.

    >>> from openwork.format.formats import CSC, CSR
    >>> from openwork.tensor.convert.pack import from_dense
    >>> import numpy as np
    >>> convert(from_dense(np.array([[0, 0, 1], [2, 0, 0]]), CSR), CSC).levels[1]["crd"]
    array([1, 0], dtype=int32)
    """
    check_order(format, len(storage.shape))
    if format == storage.format:
        return storage
    gpu = storage if isinstance(storage, DeviceStorage) else None
    many = storage.values.size >= LEAST_ENTRIES
    if gpu is not None:
        made: Storage | None = by_cupy(gpu, format)
    else:
        made = by_rows(storage, format)
        many = many and find_toolchain() is not None
    if made is None and many and assign is not None:
        assigned = _by_statement(storage, format, assign)
        if assigned is not None:
            return assigned
    if made is None and gpu is not None:
        there = DeviceStorage.of(convert(gpu.host(), format, exact=exact))
        made = replace(there, of_torch=gpu.of_torch)
    if made is None and many and not (storage.format.is_dense and format.is_dense):
        made = by_lists(storage, format, exact)  # NumPy turns dense arrays without a list
    if made is None:
        made = by_numpy(storage, format, exact)
    made.borrowed = storage.borrowed  # arrays that both formats have are shared
    return made


def _by_statement(storage: Storage, format: Format, assign: Assign) -> Storage | None:
    """`storage` in another format by a statement, if one leads there, or to rows on the way.

    Rows are a stop on the way to what is sorted otherwise, or has blocks or padding: `rows.py`
    and cuSPARSE take them from there.
    """
    source, on_gpu = storage.format, isinstance(storage, DeviceStorage)
    if storage.fill != 0:
        return None
    if on_gpu and source.is_dense and not (format.is_dense or format.tiled):
        listed = convert(storage, COO(format.ndim, format.order))
        return convert(listed, format, assign=assign)
    if not _is_walked(source):
        return None
    if source.order == format.order and _is_appended(format):
        return assign(storage, format)
    if on_gpu and format.is_dense:
        return assign(storage, format)
    if format.ndim != 2:
        return None
    rows = Format([Dense, Compressed], source.order)
    turned = source.order != format.order and not format.is_dense
    if source == rows or not (turned if on_gpu else rows_reach(rows, format)):
        return None
    return convert(assign(storage, rows), format)


def _is_walked(format: Format) -> bool:
    """Whether loops meet all entries in order, and nothing that nobody asked for."""
    levels = format.levels
    if format.tiled or levels[-1].stuffs:
        return False
    return all(level.ordered and (level.walks or level.locates) for level in levels)


def _is_appended(format: Format) -> bool:
    """Whether a result is built by appending, the levels being dense or compressed."""
    kinds = [(level.full and not level.arrays) or level.appends for level in format.levels]
    return not format.tiled and not format.is_dense and all(kinds) and format.levels[-1].appends


def convert_blocks(storage: Storage, format: Format) -> Storage:
    """The tensor with two modes for each that is stored in blocks, in the `format` of that.

    Blocks may reach beyond the shape. What is stored there is no entry, and as long as the modes
    are whole this can be seen: so they are taken apart after the conversion.
    """
    # The modes once those in blocks are taken apart.
    modes = sorted(storage.format.parts, key=lambda part: (part[0], part[1] or 0))
    order = tuple(modes[mode][0] for mode in format.order)
    found = convert(storage, Format(format.levels, order, storage.format.tiles), exact=True)
    extents = dict(zip(found.format.parts, found.extents, strict=True))
    shape = tuple(extents[part] for part in modes)
    order = tuple(modes.index(part) for part in found.format.parts)
    if order != format.order:
        raise InternalError(f"{storage.format!r} cannot be seen as {format!r}")
    return replace(found, shape=shape, format=format)
