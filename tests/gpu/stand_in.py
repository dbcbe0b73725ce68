"""A stand-in for CuPy, over NumPy: the runtime's steps for a GPU, where there is none.

Arrays claim to be on a GPU; kernels are compiled and run by the emulator.
"""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from openwork.runtime.emulator import Emulator


class ndarray(np.ndarray):
    """An array that says it is on a GPU, on which one that was."""

    gpu = 0

    def __array_finalize__(self, other: Any) -> None:
        self.gpu = getattr(other, "gpu", 0)

    @property
    def device(self) -> Any:  # type: ignore[override]
        return types.SimpleNamespace(id=self.gpu)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.__array_interface__, "version": 3}


def _on_gpu(array: Any) -> Any:
    return np.asarray(array).view(ndarray)


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


def module() -> types.ModuleType:
    """Something to have as `cupy` in `sys.modules`."""
    cupy = types.ModuleType("cupy")

    class Failure(Exception):
        pass

    def here(array: Any) -> Any:
        made = _on_gpu(array)
        made.gpu = cupy.cuda.runtime.getDevice()
        return made

    def upload(array: Any) -> Any:
        already = isinstance(array, ndarray)
        return array if already else here(np.array(array))

    cupy.ndarray = ndarray
    cupy.asarray = upload
    cupy.ascontiguousarray = lambda a: (
        a if a.flags.c_contiguous and isinstance(a, ndarray) else here(np.ascontiguousarray(a))
    )
    cupy.asnumpy = lambda a: np.array(a)
    cupy.empty = lambda n, dtype: here(np.full(n, 77).astype(dtype))
    cupy.zeros = lambda n, dtype=float: here(np.zeros(n, dtype))
    cupy.cumsum = lambda a, **more: here(np.cumsum(a, **more))
    cupy.arange = lambda n, dtype=None: here(np.arange(n, dtype=dtype))
    cupy.argsort = lambda a: here(np.argsort(a, kind="stable"))
    cupy.bincount = lambda a, minlength=0: here(np.bincount(a, minlength=minlength))
    cupy.searchsorted = lambda *args, **more: here(np.searchsorted(*args, **more))
    runtime = types.SimpleNamespace(
        getDeviceCount=lambda: 1,
        getDevice=lambda: 0,
        memGetInfo=lambda: (1 << 33, 1 << 33),
        CUDARuntimeError=Failure,
    )
    cupy.cuda = types.SimpleNamespace(
        alloc=alloc,
        runtime=runtime,
        driver=types.SimpleNamespace(CUDADriverError=Failure),
        memory=types.SimpleNamespace(OutOfMemoryError=Failure),
        get_current_stream=lambda gpu=-1: types.SimpleNamespace(ptr=0),
    )
    return cupy


class Emulated:
    """What takes the place of the parts of `Cuda` that need a GPU."""

    emulator = Emulator()

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
        return [int(n) for n in array[index : index + count]]

    @staticmethod
    def fill(self: Any, array: Any, value: Any) -> None:
        array[...] = value
