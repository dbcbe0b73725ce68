"""Conversions that the compiler generates: the statement `B(i,j) = A(i,j)`, assembled by threads.

It is taken where the result can be built by appending while the source is walked, and where there
is enough to do to be worth a kernel. Others are in `tensor.direct`, by hand where counting or
merging beats any order of loops, or go through lists of entries: see `tensor.lists`.
"""

from __future__ import annotations

from openwork.format.formats import COO, Format
from openwork.format.levels import Compressed, Dense
from openwork.runtime.host.toolchain import find_toolchain
from openwork.runtime.storage import Storage
from openwork.tensor.broadcast import Layout
from openwork.tensor.convert.gpu import is_converted_on_gpu
from openwork.tensor.convert.pack import convert
from openwork.tensor.convert.rows import direct, is_direct
from openwork.tensor.eager import Result, T, run

# Below so many entries, NumPy is done before a compiler would be.
LEAST_ENTRIES = 1 << 18


def generated(tensor: T, format: Format) -> Storage | None:
    """`tensor` in another format, by a kernel, if that is how it is best converted.

    Between matrices of which a direct way begins at rows of runs, these are generated first.
    """
    storage = tensor.storage
    source = storage.format
    if storage.values.size < LEAST_ENTRIES or storage.fill != 0:
        return None
    if tensor.device == "cuda" and source.is_dense and not format.is_dense:
        return _listed_first(tensor, format)
    if not _is_walked(source):
        return None
    if tensor.device == "cuda":
        return _on_gpu(tensor, format)
    if find_toolchain() is None or is_direct(source, format):
        return None
    if _is_appended(format) and source.order == format.order:
        return _run(tensor, format)
    rows = Format([Dense, Compressed], source.order) if source.ndim == 2 else None
    if rows is None or not is_direct(rows, format):
        return None
    return direct(_run(tensor, rows), format)


def _listed_first(tensor: T, format: Format) -> Storage | None:
    """A dense tensor on a GPU by the list of its entries, unless it is converted at once."""
    if format.tiled or is_converted_on_gpu(tensor.storage.format, format):
        return None
    found = type(tensor).of(convert(tensor.storage, COO(format.ndim, format.order)))
    return generated(found, format) or convert(found.storage, format)


def _on_gpu(tensor: T, format: Format) -> Storage | None:
    """By kernels of the GPU, where they write a dense result or append to one."""
    source, way = tensor.storage.format, format
    if is_converted_on_gpu(source, format):
        return None
    if source.order != format.order and format.ndim == 2 and not format.is_dense:
        way = Format([Dense, Compressed], source.order)  # which is transposed afterwards
    if source == way or not (way.is_dense or (_is_appended(way) and way.order == source.order)):
        return None
    made = _run(tensor, way)
    return made if way == format else convert(made, format)


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


def _run(tensor: T, format: Format) -> Storage:
    modes = tuple(range(format.ndim))
    layout = Layout((modes,), modes, ((),))
    dtype = tensor.storage.dtype
    made = run(("to", format), layout, [tensor], lambda found: Result(found[0], format, dtype))
    return made.storage
