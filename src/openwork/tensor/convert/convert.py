"""Conversion between formats: `convert` chooses among five methods, and says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from openwork.errors import InternalError
from openwork.format.formats import COO, Format
from openwork.format.layouts import AOS
from openwork.format.levels import Compressed, Dense
from openwork.runtime.gpu.cuda import DeviceStorage
from openwork.runtime.host.toolchain import find_toolchain
from openwork.runtime.storage import Storage
from openwork.tensor.convert.gpu import by_cupy
from openwork.tensor.convert.lists import by_lists
from openwork.tensor.convert.pack import by_numpy, check_order
from openwork.tensor.convert.relayout import relayout
from openwork.tensor.convert.rows import by_rows, rows_reach

# Runs the statement `B(i,j) = A(i,j)`: from the storage of A, and a format, to the storage of B.
Assign = Callable[[Storage, Format], Storage]

# Below this many entries, NumPy finishes before a compiler would.
LEAST_ENTRIES = 1 << 18


def convert(
    storage: Storage, format: Format, *, exact: bool = False, assign: Assign | None = None
) -> Storage:
    """The same tensor in another format.

    The first of these methods that applies is used:

    1. `gpu.py`, in GPU memory: cuSPARSE and CuPy convert between CSR, CSC and COO.
    2. `rows.py`: handwritten C converts CSR, CSC and COO by counting. It is linear in the entries
       and writes each of them once, which no order of loops does.
    3. A statement, `B(i,j) = A(i,j)`: threads iterate over the source and append to the result.
       Only for callers that can compile one, which pass `assign`.
    4. `lists.py`: generated programs list the entries, sort them by counting, and pack them.
    5. `pack.py`: NumPy does the same. It always applies and needs no compiler.

    For few entries a compiler takes longer than NumPy; so 3 and 4 need `LEAST_ENTRIES` or more.
    If neither 1 nor 3 applies on a GPU, the CPU converts. All of them have records one after
    another: other layouts are made last, where the tensor is.

    Args:
        storage: the tensor.
        format: the format to convert it to.
        exact: keep everything that is stored. Otherwise explicit zeros stay entries, but dense
            levels contribute only what differs from the fill value.
        assign: runs a statement that copies a tensor, if the caller can.

    >>> from openwork.format.formats import CSC, CSR
    >>> from openwork.tensor.convert.pack import from_dense
    >>> import numpy as np
    >>> convert(from_dense(np.array([[0, 0, 1], [2, 0, 0]]), CSR), CSC).levels[1]["crd"]
    array([1, 0], dtype=int32)
    """
    check_order(format, len(storage.shape))
    format = format.of(storage.dtype)
    if format == storage.format:
        return storage
    if {format.layout, storage.format.layout} != {AOS}:
        plain = storage.laid_out(AOS, relayout)
        there = convert(plain, format.with_layout(AOS), exact=exact, assign=assign)
        return there.laid_out(format.layout, relayout)
    gpu = storage if isinstance(storage, DeviceStorage) else None
    many = storage.places >= LEAST_ENTRIES
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
        made = by_lists(storage, format, exact)  # NumPy transposes dense arrays without a list
    if made is None:
        made = by_numpy(storage, format, exact)
    made.borrowed = storage.borrowed  # arrays that both formats have are shared
    return made


def _by_statement(storage: Storage, format: Format, assign: Assign) -> Storage | None:
    """`storage` in another format by a statement, if one can do it, perhaps by way of CSR or CSC.

    These are an intermediate step to formats with another order, with blocks or padding: `rows.py`
    and cuSPARSE do the rest.
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
    """Whether loops visit all entries in order, and nothing but entries."""
    levels = format.levels
    if format.tiled or levels[-1].stuffs:
        return False
    return all(level.ordered and (level.walks or level.locates) for level in levels)


def _is_appended(format: Format) -> bool:
    """Whether a result is built by appending: its levels are dense or compressed."""
    kinds = [(level.full and not level.arrays) or level.appends for level in format.levels]
    return not format.tiled and not format.is_dense and all(kinds) and format.levels[-1].appends


def convert_blocks(storage: Storage, format: Format) -> Storage:
    """The tensor in `format`, with two modes for each mode that is stored in blocks.

    Blocks may reach beyond the shape; elements there are no entries. Only unsplit modes show
    this, so they are split after the conversion.
    """
    # The modes after those in blocks are split.
    modes = sorted(storage.format.parts, key=lambda part: (part[0], part[1] or 0))
    order = tuple(modes[mode][0] for mode in format.order)
    whole = Format(format.levels, order, storage.format.tiles, format.layout)
    found = convert(storage, whole, exact=True)
    extents = dict(zip(found.format.parts, found.extents, strict=True))
    shape = tuple(extents[part] for part in modes)
    order = tuple(modes.index(part) for part in found.format.parts)
    if order != format.order:
        raise InternalError(f"{storage.format!r} cannot be viewed as {format!r}")
    return replace(found, shape=shape, format=format)
