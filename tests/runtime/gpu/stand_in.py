"""A stand-in for CuPy, over NumPy: the runtime's steps for a GPU, where there is none.

Arrays claim to be on a GPU; kernels are compiled and run by the emulator.
"""

from __future__ import annotations

import ctypes
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from scipy import sparse

from openwork.runtime.gpu.emulator import Emulator


class ndarray(NDArrayOperatorsMixin):
    """An array that says on which GPU it is, and that NumPy may not read, as CuPy's."""

    def __init__(self, shape: Any, dtype: Any = float, memory: Any = None) -> None:
        self.held, self.gpu = np.ndarray(shape, dtype, memory), 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # NumPy would read it by one of these
            raise AttributeError(name)
        found = getattr(self.held, name)
        return _wrapped(found, self.gpu) if callable(found) else found

    def __array__(self, *args: Any, **more: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **more: Any) -> Any:
        if any(isinstance(each, np.ndarray) and each.ndim for each in inputs):
            raise TypeError("Unsupported type <class 'numpy.ndarray'>")
        return _wrapped(getattr(ufunc, method), self.gpu)(*inputs, **more)

    def __array_function__(self, function: Any, types: Any, args: Any, more: Any) -> Any:
        if any(isinstance(each, np.ndarray) and each.ndim for each in args):
            raise TypeError("Unsupported type <class 'numpy.ndarray'>")
        return _wrapped(function, self.gpu)(*args, **more)

    def __getitem__(self, key: Any) -> Any:
        return _on_gpu(self.held[plain(key)], self.gpu)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.held[plain(key)] = plain(value)

    def __len__(self) -> int:
        return len(self.held)

    def __bool__(self) -> bool:
        return bool(self.held)

    def __int__(self) -> int:
        return int(self.held)

    def __float__(self) -> float:
        return float(self.held)

    def get(self) -> Any:
        return self.held.copy()

    @property
    def device(self) -> Any:
        return types.SimpleNamespace(id=self.gpu)

    @property
    def data(self) -> Any:
        return types.SimpleNamespace(ptr=self.held.__array_interface__["data"][0])

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.held.__array_interface__, "version": 3}


def _on_gpu(array: Any, gpu: int = 0) -> Any:
    made = object.__new__(ndarray)
    made.held, made.gpu = np.asarray(plain(array)), gpu
    return made


def plain(value: Any) -> Any:
    """What NumPy takes: arrays of a GPU as those that they hold."""
    if isinstance(value, tuple | list):
        return type(value)(map(plain, value))
    return value.held if isinstance(value, ndarray) else value


def _wrapped(function: Any, gpu: int = 0) -> Any:
    """A function of NumPy's for arrays of a GPU."""

    def run(*args: Any, **more: Any) -> Any:
        more = {name: plain(value) for name, value in more.items()}
        made = function(*plain(args), **more)
        return _on_gpu(made, gpu) if isinstance(made, np.ndarray | np.generic) else made

    return run


def _scattered(array: Any) -> bool:
    return not array.flags.c_contiguous


class Pointer(np.ndarray):
    """Memory that something is added to the address of."""

    def __add__(self, offset: int) -> Any:
        return self[offset:]


def alloc(size: int) -> Any:
    """New memory."""
    return np.full(size, 77, np.uint8).view(Pointer)


class _Memory:
    def __init__(self, array: Any) -> None:
        self.array = array


def modules() -> Iterator[types.ModuleType]:
    """What is to stand beside `cupy` in `sys.modules`."""
    yield from (_sparse(), _cusparse())


def _sparse() -> types.ModuleType:
    """Something to have as `cupyx.scipy.sparse`: as much of CuPy's matrices as is asked of them."""
    made = types.ModuleType("cupyx.scipy.sparse")

    def matrix(kind: Any) -> Any:
        def make(arrays: Any, shape: Any) -> Any:
            values, *_ = plain(arrays)
            if values.dtype.char not in "?fdFD":
                raise ValueError("Only bool, float32, float64, complex64 and complex128")
            return _Matrix(kind(plain(arrays), shape=shape))

        return make

    for name in ("csr_matrix", "csc_matrix"):
        setattr(made, name, matrix(getattr(sparse, name)))
    return made


class _Matrix:
    """A matrix of SciPy's whose arrays say that they are on a GPU."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.held, name)
        return _on_gpu(found) if isinstance(found, np.ndarray) else found


def _cusparse() -> types.ModuleType:
    """Something to have as CuPy's binding of cuSPARSE: as much of it as is asked for."""
    made = types.ModuleType("cupy_backends.cuda.libs.cusparse")
    elements = {0: "f", 1: "d", 4: "F", 5: "D"}

    def at(place: int, count: int, dtype: Any = np.int32) -> Any:
        size = count * np.dtype(dtype).itemsize
        return np.frombuffer((ctypes.c_char * size).from_address(place), dtype)

    def rows(handle: Any, pos: int, entries: int, count: int, into: int, base: int) -> None:
        at(into, entries)[:] = np.repeat(np.arange(count), np.diff(at(pos, count + 1)))

    def columns(
        handle: Any, count: int, extent: int, entries: int, values: int, pos: int, crd: int,
        moved: int, first: int, found: int, kind: int, action: int, base: int, way: int, room: int,
    ) -> None:  # fmt: skip
        dtype = elements[kind]
        arrays = at(values, entries, dtype), at(crd, entries), at(pos, count + 1)
        turned = sparse.csr_matrix(arrays, shape=(count, extent)).tocsc()
        at(moved, entries, dtype)[:] = turned.data
        at(first, extent + 1)[:], at(found, entries)[:] = turned.indptr, turned.indices

    made.xcsr2coo, made.csr2cscEx2 = rows, columns
    made.csr2cscEx2_bufferSize = lambda *args: 16
    return made


def module() -> types.ModuleType:
    """Something to have as `cupy` in `sys.modules`."""
    cupy = types.ModuleType("cupy")

    class Failure(Exception):
        pass

    def here(array: Any) -> Any:
        return _on_gpu(array, cupy.cuda.runtime.getDevice())

    def upload(array: Any) -> Any:
        already = isinstance(array, ndarray)
        return array if already else here(np.array(array))

    cupy.ndarray = ndarray
    cupy.asarray = upload
    cupy.ascontiguousarray = lambda a: upload(np.ascontiguousarray(a) if _scattered(a) else a)
    cupy.asnumpy = lambda a: np.array(plain(a))
    cupy.empty = lambda n, dtype: here(np.full(n, 77).astype(dtype))
    cupy.zeros = lambda n, dtype=float: here(np.zeros(n, dtype))
    cupy.nonzero = lambda a: tuple(map(here, np.nonzero(plain(a))))
    for name in ("cumsum", "bincount", "searchsorted"):
        setattr(cupy, name, _wrapped(getattr(np, name)))
    cupy.arange = lambda *args, dtype=None: here(np.arange(*args, dtype=dtype))
    cupy.argsort = lambda a: here(np.argsort(a.held, kind="stable"))
    runtime = types.SimpleNamespace(
        getDeviceCount=lambda: 1,
        getDeviceProperties=lambda number: {"name": b"a stand-in"},
        getDevice=lambda: 0,
        memGetInfo=lambda: (1 << 33, 1 << 33),
        CUDARuntimeError=Failure,
    )
    cupy.cuda = types.SimpleNamespace(
        alloc=alloc,
        runtime=runtime,
        driver=types.SimpleNamespace(CUDADriverError=Failure),
        memory=types.SimpleNamespace(OutOfMemoryError=Failure),
        get_current_stream=lambda gpu=-1: types.SimpleNamespace(ptr=0, synchronize=lambda: None),
        device=types.SimpleNamespace(get_cusparse_handle=lambda: 1),
    )
    return cupy


class _Emulator(Emulator):
    """The emulator, for arrays that say they are on a GPU."""

    def launch(self, function: Any, grid: Any, kernel: Any, args: Any, wide: bool) -> Any:
        super().launch(function, grid, kernel, plain(args), wide)
        return function, grid, kernel, args, wide


class Emulated:
    """What takes the place of the parts of `Cuda` that need a GPU."""

    emulator = _Emulator()

    @staticmethod
    def load(self: Any, source: str, kernels: Any) -> Any:
        return Emulated.emulator.load(source, kernels)

    @staticmethod
    def launch(self: Any, function: Any, grid: Any, kernel: Any, args: Any, wide: bool) -> Any:
        return Emulated.emulator.launch(function, grid, kernel, args, wide)

    @staticmethod
    def ready(self: Any, launched: Any, old: Any, stream: Any) -> Any:
        return Emulated.emulator.ready(launched, old, stream)

    @staticmethod
    def numbers(self: Any, array: Any, index: int, count: int) -> list[int]:
        return [int(n) for n in array.held[index : index + count]]

    @staticmethod
    def fill(self: Any, array: Any, value: Any) -> None:
        array[...] = value
