"""Triangular systems: forward and backward substitution, on several threads by levels.

A substitution reads the unknowns that it writes, so it is no statement; its loops are in C, for the
types at hand. Which rows are independent is found once per tensor.
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from openwork.algebra.entries import Entry
from openwork.algebra.types import promote
from openwork.errors import DataError, ShapeError
from openwork.format.formats import CSC, CSR
from openwork.runtime.host.interrupt import watching
from openwork.runtime.host.library import load
from openwork.runtime.host.threads import thread_count
from openwork.runtime.host.toolchain import find_toolchain
from openwork.runtime.memory import address
from openwork.runtime.storage import Array, Storage
from openwork.tensor.convert.convert import convert
from openwork.tensor.convert.pack import to_dense
from openwork.tensor.exchange.export import to_scipy
from openwork.tensor.functions.join import as_tensor
from openwork.tensor.rearrange.shape import of_array, on_device_of
from openwork.tensor.tensor import Tensor

# With fewer entries than this per level, most levels are done before other threads have begun.
_FEW_A_LEVEL = 1 << 12
_TYPES = {"float32": "float", "float64": "double",
          "complex64": "float _Complex", "complex128": "double _Complex"}  # fmt: skip


_Levels = tuple[int, Array, Array]
_levels_of: WeakKeyDictionary[Storage, dict[bool, _Levels]] = WeakKeyDictionary()


def solve_triangular(A: Any, b: Any, lower: bool = True, unit_diagonal: bool = False) -> Tensor:
    """The solution x of `A @ x == b` for a triangular matrix; the other triangle is not read.

    CSR and CSC are used as they are, other sparse formats are converted each time. Rows of CSR that
    do not depend on each other are solved on several threads: which ones is found the first time.

    Args:
        A: a square matrix.
        b: a vector, or a matrix of several right-hand sides.
        lower: which triangle of `A`.
        unit_diagonal: the diagonal is taken to be ones, and is not read.

    Raises:
        ShapeError: E204 if the shapes do not fit.
        DataError: E517 if an element of the diagonal is zero or absent.

    >>> L = as_tensor([[2.0, 0.0], [1.0, 4.0]]).to("CSR")
    >>> solve_triangular(L, [2.0, 9.0]).to_numpy()
    array([1., 2.])
    """
    left, right = as_tensor(A), as_tensor(b)
    lower, unit = bool(lower), bool(unit_diagonal)
    size = left.shape[0] if left.order else 0
    if left.order != 2 or left.shape != (size, size):
        raise ShapeError(f"{left.name} of shape {left.shape} is not square", code="E204")
    if right.order not in (1, 2) or right.shape[0] != size:
        raise ShapeError(
            f"{right.name} of shape {right.shape} is no right-hand side of {size} rows", code="E204"
        )
    dtype = promote(left.dtype, right.dtype, np.dtype("float32"))
    if isinstance(dtype, Entry) or str(dtype) not in _TYPES:
        raise ShapeError(f"a triangle of {dtype} cannot be solved", code="E204")
    x = np.array(to_dense(right.storage.host()), dtype=str(dtype), order="C")
    host = left.storage.host()
    if host.format.is_dense:
        x = _by_blas(to_dense(host).astype(x.dtype), x, lower, unit, left.name)
    elif left.fill != 0:
        raise ShapeError(f"absent elements of {left.name} are {left.fill}", code="E204")
    elif x.size or size:
        _substitute(host, x, lower, unit, left.name)
    return Tensor.of(on_device_of(left.storage, of_array(x, right.storage)))


def _by_blas(matrix: Array, x: Array, lower: bool, unit: bool, name: str) -> Array:
    zero = np.flatnonzero(matrix.diagonal() == 0)
    if len(zero) and not unit:
        raise _singular(name, int(zero[0]))
    solve = import_module("scipy.linalg").solve_triangular
    made: Array = solve(matrix, x, lower=lower, unit_diagonal=unit, check_finite=False)
    return made


def _singular(name: str, row: int) -> DataError:
    return DataError(
        f"element ({row}, {row}) of the diagonal of {name} is zero or absent",
        code="E517",
        hint="unit_diagonal=True takes the diagonal to be ones",
    )


def _substitute(storage: Storage, x: Array, lower: bool, unit: bool, name: str) -> None:
    """Replace the right-hand sides in `x` by the unknowns."""
    rows = storage if storage.format == CSC else convert(storage, CSR)
    arrays = rows.levels[1]
    values = np.ascontiguousarray(rows.elements, dtype=x.dtype)
    if find_toolchain() is None:
        triangle = _triangle(rows, lower)
        missing = np.flatnonzero(triangle.diagonal() == 0)
        if len(missing) and not unit:
            raise _singular(name, int(missing[0]))
        solve = import_module("scipy.sparse.linalg").spsolve_triangular
        x[:] = solve(triangle, x, lower=lower, unit_diagonal=unit)
        return
    library = _library(_integer(arrays["pos"]), _integer(arrays["crd"]), _TYPES[str(x.dtype)])
    count = rows.shape[0]
    pattern = (arrays["pos"], arrays["crd"])
    diagonal = np.empty(count, np.int64)
    missing = library.find_diagonal(_n(count), *_at(*pattern, values, diagonal))
    if missing >= 0 and not unit:
        raise _singular(name, missing)
    columns = 1 if x.ndim == 1 else x.shape[1]
    given = (_n(count), *_at(*pattern, values), _n(lower), _n(unit), *_at(diagonal))
    threads = thread_count() if values.size * columns >= _FEW_A_LEVEL * 4 else 1
    with watching() as flag:
        stop = ctypes.c_void_p(flag)
        if rows.format == CSC:
            library.solve_columns(*given, _n(columns), *_at(x), stop)
            return
        levels = _levels(rows, library, lower, diagonal, stop) if threads > 1 else None
        if levels is None or values.size * columns < levels[0] * _FEW_A_LEVEL:
            library.solve_rows(*given, _n(columns), *_at(x), stop)
        else:
            number, starts, order = levels
            more = (_n(number), *_at(starts, order), _n(threads), stop)
            library.solve_levels(*given, _n(columns), *_at(x), *more)


def _levels(rows: Storage, library: Any, lower: bool, diagonal: Array, stop: Any) -> _Levels | None:
    """How many levels a triangle has, where each begins, and the rows in their order."""
    found = _levels_of.setdefault(rows, {})
    if lower not in found:
        arrays, count = rows.levels[1], rows.shape[0]
        level = np.empty(count, np.int32)
        starts, order = np.empty(2 * (count + 1), np.int64), np.empty(count, np.int64)
        pattern = _at(arrays["pos"], arrays["crd"])
        more = _at(diagonal, level, starts, order)
        number = library.find_levels(_n(count), *pattern, _n(lower), *more, stop)
        if not number:  # stopped
            return None
        found[lower] = (number, starts, order)
    return found[lower]


def _triangle(rows: Storage, lower: bool) -> Any:
    """One triangle as SciPy's matrix, where there is no compiler."""
    matrix = to_scipy(rows, "A").tocoo()
    kept = matrix.row >= matrix.col if lower else matrix.row <= matrix.col
    pattern = (matrix.row[kept], matrix.col[kept])
    return type(matrix)((matrix.data[kept], pattern), shape=matrix.shape).tocsr()


def _integer(array: Array) -> str:
    return "__INT32_TYPE__" if array.dtype == np.int32 else "__INT64_TYPE__"


def _n(number: int) -> ctypes.c_int64:
    return ctypes.c_int64(number)


def _at(*arrays: Array) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(address(array)) for array in arrays]


@cache
def _library(pos: str, crd: str, value: str) -> ctypes.CDLL:
    head = [
        "typedef __INT32_TYPE__ int32_t;",
        "typedef __INT64_TYPE__ int64_t;",
        f"typedef {pos} POS;",
        f"typedef {crd} CRD;",
        f"typedef {value} VALUE;",
    ]
    text = Path(__file__).with_name("triangular.c").read_text()
    library = load("\n".join([*head, text]))
    library.find_diagonal.restype = library.find_levels.restype = ctypes.c_int64
    return library
