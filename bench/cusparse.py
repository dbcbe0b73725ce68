"""cuSPARSE called directly: SpMV and SpMM with all of its algorithms for CSR, SpMV for BSR.

CuPy and torch use one algorithm each, without preprocessing. Here every algorithm is preprocessed
before it is timed, and the fastest counts. Dense matrices are row-major.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from typing import Any

import cupy as cp
from gpu_clock import median

# Constants from cusparse.h.
SPMV_ALGORITHMS = {"default": 0, "csr 1": 2, "csr 2": 3}
SPMM_ALGORITHMS = {"default": 0, "csr 1": 4, "csr 2": 6, "csr 3": 12}
_INT32, _FROM_ZERO, _BY_ROWS = 2, 0, 2
_TYPES = {"float32": 0, "float64": 1}

Pointer = ctypes.c_void_p


class Missing(Exception):
    """cuSPARSE does not support the algorithm for this matrix."""


def spmv(A: Any, x: Any, y: Any, across: bool = False) -> Iterator[tuple[str, Callable[[], Any]]]:
    """y = A x by each algorithm; `across`: y = A^T x."""
    handle = _Library(A)
    dense = [handle.vector(v) for v in (x, y)]
    yield from handle.ways("cusparseSpMV", SPMV_ALGORITHMS, (int(across),), dense)


def spmm(A: Any, B: Any, C: Any, across: bool = False) -> Iterator[tuple[str, Callable[[], Any]]]:
    """C = A B by each algorithm; `across`: C = A^T B."""
    handle = _Library(A)
    dense = [handle.matrix(m) for m in (B, C)]
    yield from handle.ways("cusparseSpMM", SPMM_ALGORITHMS, (int(across), 0), dense)


def fastest(ways: Iterator[tuple[str, Callable[[], Any]]], want: Any, made: Any) -> float:
    """Milliseconds of the library's fastest algorithm; all must be correct."""
    times = [math.inf]
    for name, run in ways:
        made.fill(0)
        run()
        error = float(abs(made - want).max()) / (float(abs(want).max()) or 1.0)
        assert error < (1e-3 if made.dtype.itemsize <= 4 else 1e-9), (name, error)
        times.append(median(run, reps=7))
    return min(times)


def bsrmv(shape: tuple[int, int], pos: Any, crd: Any, blocks: Any, x: Any) -> Callable[[], Any]:
    """y = A x for a matrix of `shape` blocks, row-major ones of shape (entries, size, size)."""
    rows, columns = shape
    arrays = _blocks(pos, crd, blocks)
    vector = cp.ascontiguousarray(cp.asarray(x))
    made = cp.zeros(rows * blocks.shape[1], dtype=blocks.dtype)
    sizes = (rows, columns, len(crd))
    return _by_blocks("bsrmv", (0, 0, *sizes), arrays, blocks, [(vector, ()), (made, ())])


def bsrmm(shape: tuple[int, int], pos: Any, crd: Any, blocks: Any, x: Any) -> Callable[[], Any]:
    """Y = A X likewise; X and Y are laid out column by column, as cuSPARSE wants them."""
    (rows, columns), size, wide = shape, blocks.shape[1], x.shape[1]
    arrays = _blocks(pos, crd, blocks)
    given = cp.asfortranarray(cp.asarray(x))
    made = cp.zeros((rows * size, wide), dtype=blocks.dtype, order="F")
    dense = [(given, (columns * size,)), (made, (rows * size,))]
    sizes = (rows, wide, columns, len(crd))
    return _by_blocks("bsrmm", (0, 0, 0, *sizes), arrays, blocks, dense)


def _blocks(pos: Any, crd: Any, blocks: Any) -> list[Any]:
    narrow = (cp.asarray(index).astype("int32") for index in (pos, crd))  # it takes no others
    return [cp.ascontiguousarray(cp.asarray(a)) for a in (blocks, *narrow)]


def _by_blocks(
    routine: str, flags: tuple[int, ...], arrays: list[Any], blocks: Any, dense: list[Any]
) -> Callable[[], Any]:
    """A call of a routine for BSR, made once to see whether there is one."""
    lib, handle = ctypes.CDLL(_path()), Pointer(cp.cuda.device.get_cusparse_handle())
    single = blocks.dtype == "float32"
    name = f"cusparse{'S' if single else 'D'}{routine}"
    number = ctypes.c_float if single else ctypes.c_double
    about = Pointer()
    lib.cusparseCreateMatDescr(ctypes.byref(about))
    (x, x_more), (made, made_more) = dense
    given = (
        handle, *flags, ctypes.byref(number(1)), about,
        *(Pointer(a.data.ptr) for a in arrays), blocks.shape[1],
        Pointer(x.data.ptr), *x_more, ctypes.byref(number(0)), Pointer(made.data.ptr), *made_more,
    )  # fmt: skip

    def call() -> Any:
        status = getattr(lib, name)(*given)
        if status:
            raise Missing(f"{name}: {status}")
        return made

    call()
    call.kept = [*arrays, x]  # type: ignore[attr-defined]  # whose memory the call reads
    return call


class _Library:
    """cuSPARSE with a CSR matrix."""

    def __init__(self, A: Any) -> None:
        self.lib = ctypes.CDLL(_path())
        self.type = _TYPES[A.dtype.name]
        self.handle = Pointer(cp.cuda.device.get_cusparse_handle())
        self.call("cusparseSetStream", self.handle, Pointer(cp.cuda.get_current_stream().ptr))
        number = ctypes.c_float if self.type == 0 else ctypes.c_double
        self.one, self.zero = number(1), number(0)
        self.kept: list[Any] = [A]
        self.A = Pointer()
        sizes = [ctypes.c_int64(n) for n in (*A.shape, A.nnz)]
        arrays = [Pointer(a.data.ptr) for a in (A.indptr, A.indices, A.data)]
        kinds = (_INT32, _INT32, _FROM_ZERO, self.type)
        self.call("cusparseCreateCsr", ctypes.byref(self.A), *sizes, *arrays, *kinds)

    def call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.lib, name)(*arguments)
        if status:
            raise Missing(f"{name}: {status}")

    def vector(self, values: Any) -> Pointer:
        made, size = Pointer(), ctypes.c_int64(values.size)
        self.kept.append(values)
        where = Pointer(values.data.ptr)
        self.call("cusparseCreateDnVec", ctypes.byref(made), size, where, self.type)
        return made

    def matrix(self, values: Any) -> Pointer:
        made, (rows, columns) = Pointer(), values.shape
        self.kept.append(values)
        sizes = [ctypes.c_int64(n) for n in (rows, columns, columns)]
        where = Pointer(values.data.ptr)
        self.call("cusparseCreateDnMat", ctypes.byref(made), *sizes, where, self.type, _BY_ROWS)
        return made

    def ways(
        self, name: str, algorithms: dict[str, int], flags: tuple[int, ...], dense: list[Pointer]
    ) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Each supported algorithm, preprocessed. `flags`: 1 for the transposed matrix."""
        one, zero = ctypes.byref(self.one), ctypes.byref(self.zero)
        for which, number in algorithms.items():
            first, second = dense
            given = (self.handle, *flags, one, self.A, first, zero, second, self.type, number)
            size = ctypes.c_size_t()
            try:
                self.call(f"{name}_bufferSize", *given, ctypes.byref(size))
                room = cp.empty(max(1, size.value), dtype=cp.uint8)
                where = Pointer(room.data.ptr)
                self.call(f"{name}_preprocess", *given, where)
                self.call(name, *given, where)
            except Missing:
                continue
            self.kept.append(room)
            yield which, lambda given=given, where=where: self.call(name, *given, where)


def _path() -> str:
    """The library that CuPy has loaded."""
    cp.cuda.device.get_cusparse_handle()
    with open("/proc/self/maps") as maps:
        for line in maps:
            if "libcusparse.so" in line:
                return line.split()[-1]
    raise RuntimeError("cuSPARSE is not loaded")
