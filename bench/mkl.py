"""MKL's sparse routines, called directly: handles are created once, as in a C program.

`sparse_dot_mkl`, the usual Python binding, makes the same calls with a new handle each time.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from hand import address

NO_TRANSPOSE, GENERAL, ROW_MAJOR = 10, 20, 101
MANY = 1000  # expected calls, a hint to the inspector


class Description(ctypes.Structure):
    """`struct matrix_descr`: a general matrix."""

    _fields_ = (("type", ctypes.c_int), ("mode", ctypes.c_int), ("diagonal", ctypes.c_int))


PLAIN = Description(GENERAL, 0, 0)


def load(threads: int) -> ctypes.CDLL:
    """MKL on `threads` threads of the OpenMP runtime already loaded; OSError if not installed.

    It is looked for in `$MKLROOT/lib`, beside Python, and where the system has libraries.
    """
    # The threads of a second OpenMP runtime would spin while others are timed.
    os.environ.setdefault("MKL_THREADING_LAYER", "GNU")
    prefixes = [each for each in (os.environ.get("MKLROOT"), sys.prefix) if each]
    own = [lib for each in prefixes for lib in sorted(Path(each, "lib").glob("libmkl_rt.so*"))]
    name = str(own[0]) if own else ctypes.util.find_library("mkl_rt")
    if name is None:
        raise OSError("libmkl_rt was not found")
    library = ctypes.CDLL(name)
    library.MKL_Set_Num_Threads(threads)
    return library


def version(library: ctypes.CDLL) -> str:
    """The version string of the library."""
    text = ctypes.create_string_buffer(200)
    library.MKL_Get_Version_String(text, 200)
    return text.value.decode().strip()


class Matrix:
    """A handle to SciPy arrays, or to a result of MKL."""

    def __init__(self, library: ctypes.CDLL, source: Any = None) -> None:
        self._library, self._source = library, source
        self.handle = ctypes.c_void_p()
        if source is not None:
            starts, columns = (
                a.astype(np.int32, copy=False) for a in (source.indptr, source.indices)
            )
            self._arrays = starts, columns, np.ascontiguousarray(source.data, np.float64)
            first, rest, values = (address(array) for array in self._arrays)
            made = (first, ctypes.c_void_p(first.value + 4), rest, values)
            self.call("mkl_sparse_d_create_csr", ctypes.byref(self.handle), 0, *source.shape, *made)

    def call(self, name: str, *given: Any) -> None:
        """Call a routine, whose status must be 0."""
        status = getattr(self._library, name)(*given)
        if status:
            raise RuntimeError(f"{name} gave {status}")

    def inspect(self, columns: int = 1) -> Matrix:
        """Run the inspector: MKL converts the matrix for many products."""
        if columns == 1:
            self.call("mkl_sparse_set_mv_hint", self.handle, NO_TRANSPOSE, PLAIN, MANY)
        else:
            given = NO_TRANSPOSE, PLAIN, ROW_MAJOR, columns, MANY
            self.call("mkl_sparse_set_mm_hint", self.handle, *given)
        self.call("mkl_sparse_optimize", self.handle)
        return self

    def times_dense(self, x: Any) -> Callable[[], Any]:
        """A x, for a vector or a row-major matrix."""
        rows, one, zero = self._source.shape[0], ctypes.c_double(1), ctypes.c_double(0)
        X, columns = address(x), x.shape[1] if x.ndim == 2 else 1

        def vector() -> Any:
            y = np.empty(rows)
            self.call("mkl_sparse_d_mv", NO_TRANSPOSE, one, self.handle, PLAIN, X, zero, address(y))
            return y

        def matrix() -> Any:
            y = np.empty((rows, columns))
            given = ROW_MAJOR, X, columns, columns, zero, address(y), columns
            self.call("mkl_sparse_d_mm", NO_TRANSPOSE, one, self.handle, PLAIN, *given)
            return y

        return vector if x.ndim == 1 else matrix

    def times(self, other: Matrix) -> Matrix:
        """A B with sorted rows, which needs a second routine."""
        result = Matrix(self._library)
        into = ctypes.byref(result.handle)
        self.call("mkl_sparse_spmm", NO_TRANSPOSE, self.handle, other.handle, into)
        self.call("mkl_sparse_order", result.handle)
        return result

    def plus(self, other: Matrix) -> Matrix:
        """A + B."""
        result = Matrix(self._library)
        given = ctypes.c_double(1), other.handle, ctypes.byref(result.handle)
        self.call("mkl_sparse_d_add", NO_TRANSPOSE, self.handle, *given)
        return result

    def to_scipy(self) -> Any:
        """A copy of the entries."""
        base, rows, columns = (ctypes.c_int() for _ in range(3))
        starts, ends, indices = (ctypes.POINTER(ctypes.c_int)() for _ in range(3))
        values = ctypes.POINTER(ctypes.c_double)()
        found = base, rows, columns, starts, ends, indices, values
        self.call("mkl_sparse_d_export_csr", self.handle, *map(ctypes.byref, found))
        count = ends[rows.value - 1] if rows.value else 0
        indptr = np.append(np.ctypeslib.as_array(starts, (rows.value,)), count)
        parts = (np.ctypeslib.as_array(each, (count,)).copy() for each in (values, indices))
        return sp.csr_array((*parts, indptr), (rows.value, columns.value))

    def __del__(self) -> None:
        if self.handle:
            self._library.mkl_sparse_destroy(self.handle)
