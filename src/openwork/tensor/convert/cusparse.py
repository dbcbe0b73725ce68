"""cuSPARSE conversions on plain arrays: CuPy's matrices check their indices and synchronize.

For 32-bit indices, on CuPy's current stream.
"""

from __future__ import annotations

import importlib
from typing import Any

from openwork.runtime.gpu.cuda import Cuda

# NumPy's type characters, and CUDA's type numbers. Values are only moved, so that integers go as
# floating-point numbers of their size.
ELEMENTS = {"f": 0, "d": 1, "F": 4, "D": 5, "i": 0}
_VALUES_TOO, _FROM_ZERO, _IN_ORDER = 1, 0, 1  # copy values too; zero-based indices; algorithm


def row_of_each(pos: Any, entries: int) -> Any:
    """The row of each entry of a matrix whose rows begin at `pos`."""
    library, handle = _library()
    rows = Cuda().cp.empty(entries, dtype=pos.dtype)
    if entries:
        count = int(pos.size) - 1
        library.xcsr2coo(handle, pos.data.ptr, entries, count, rows.data.ptr, _FROM_ZERO)
    return rows


def transposed(pos: Any, crd: Any, values: Any, extent: int) -> tuple[Any, Any, Any]:
    """CSR as CSC, with `extent` columns: positions, coordinates, values."""
    library, handle = _library()
    cp, count, entries = Cuda().cp, int(pos.size) - 1, int(crd.size)
    if not entries:
        return cp.zeros(extent + 1, dtype=pos.dtype), crd, values
    made = [cp.empty(n, dtype=t) for n, t in
            ((extent + 1, pos.dtype), (entries, crd.dtype), (entries, values.dtype))]  # fmt: skip
    first, rows, moved = made
    matrix = [handle, count, extent, entries, *(a.data.ptr for a in (values, pos, crd))]
    result = [a.data.ptr for a in (moved, first, rows)]
    kind = [ELEMENTS[values.dtype.char], _VALUES_TOO, _FROM_ZERO, _IN_ORDER]
    room = cp.empty(library.csr2cscEx2_bufferSize(*matrix, *result, *kind), dtype="int8")
    library.csr2cscEx2(*matrix, *result, *kind, room.data.ptr)
    return first, rows, moved


def _library() -> tuple[Any, Any]:
    library = importlib.import_module("cupy_backends.cuda.libs.cusparse")
    return library, Cuda().cp.cuda.device.get_cusparse_handle()
