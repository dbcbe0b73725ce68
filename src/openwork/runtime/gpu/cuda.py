"""A CUDA GPU, reached through CuPy: compiled by NVRTC, cached, launched on the current stream."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self, cast

import numpy as np

from openwork.errors import DataError, ToolchainError
from openwork.program.gpu_nodes import Kernel
from openwork.runtime import cache
from openwork.runtime.gpu.relaunch import Ready, Relaunch, Slices
from openwork.runtime.gpu.streams import callers_stream
from openwork.runtime.memory import address
from openwork.runtime.storage import Array, Storage

_FLAGS = ("--std=c++17", "--device-int128", "-default-device")
_BLOCKS_PER_PROCESSOR = 8
_SCRATCH_PART = 32  # of the memory of a GPU


def cupy() -> Any:
    """CuPy, with a working GPU.

    Raises:
        ToolchainError: E607 if it is not installed, or finds no GPU.
    """
    try:
        module = importlib.import_module("cupy")
    except ImportError:
        raise ToolchainError(
            "GPU kernels run through CuPy, which is not installed",
            code="E607",
            hint="pip install 'openwork[cuda]'; target=\"cuda-emulated\" needs no GPU",
        ) from None
    try:
        module.cuda.runtime.getDeviceCount()
    except Exception as error:
        raise ToolchainError(
            f"CuPy finds no GPU: {error}",
            code="E607",
            hint='target="cuda-emulated" needs none; openwork[cuda] is installed',
        ) from None
    return module


def is_on_gpu(array: Any) -> bool:
    """Whether an array is in GPU memory."""
    return hasattr(array, "__cuda_array_interface__")


def address_of(array: Any) -> int:
    """The address of an array."""
    if is_on_gpu(array):
        return int(array.__cuda_array_interface__["data"][0])
    return address(array)


@dataclass(eq=False)
class DeviceStorage(Storage):
    """A tensor's arrays in GPU memory, as CuPy arrays.

    `of_torch`: they share memory with torch tensors, or were computed from such.
    """

    of_torch: bool = False

    @classmethod
    def later(cls, facts: Mapping[str, Any], array: Callable[[Any], Any], place: Any) -> Self:
        """A storage whose values are wrapped in an array on first use.

        `facts`: all fields but the values, by name.
        """
        made = cls.__new__(cls)
        made.__dict__ = {**facts, "_later": (array, place)}
        return made

    def __getattr__(self, name: str) -> Any:
        if name != "values" or "_later" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        array, place = self.__dict__["_later"]
        self.values = array(place)
        return self.values

    @classmethod
    def of(cls, storage: Storage) -> DeviceStorage:
        """The storage with all arrays on the current GPU; arrays already there are not copied."""
        device = Cuda()
        levels = tuple(
            {name: device.upload(array) for name, array in level.items()}
            for level in storage.levels
        )
        values = device.upload(storage.values)
        arrays = storage.with_packed(levels, values)
        facts = storage.shape, storage.format, storage.dtype
        if not isinstance(storage, DeviceStorage):
            return cls(*facts, arrays, values, storage.fill)
        return cls(*facts, arrays, values, storage.fill, storage.borrowed, storage.of_torch)

    def host(self) -> Storage:
        """The same in main memory."""
        with callers_stream(self.of_torch):
            values = Cuda().download(self.values)
        pattern = self._pattern()
        return replace(pattern, values=values, levels=pattern.with_packed(pattern.levels, values))

    @staticmethod
    def _zeros(count: int, dtype: np.dtype[Any]) -> Any:
        return Cuda().empty(count, dtype, zeroed=True)

    def runs(self) -> Iterator[tuple[Array, Array, Array]]:
        """As `Storage.runs`, of the levels in main memory."""
        return self._pattern().runs()

    def _pattern(self) -> Storage:
        """The levels in main memory, with no values."""
        device, none = Cuda(), np.empty(0, dtype=np.int8)
        with callers_stream(self.of_torch):
            levels = tuple(
                {name: device.download(array) for name, array in level.items()}
                for level in self.levels
            )
        return Storage(self.shape, self.format, self.dtype, levels, none, self.fill)

    @cached_property
    def pointers(self) -> tuple[int, ...]:
        raise DataError(
            "a CPU kernel was given a tensor on the GPU",
            code="E511",
            hint='copy it back with A.to("cpu"), or compile(target="cuda")',
        )


class Cuda:
    """The current GPU."""

    name, in_main_memory = "cuda", False

    @cached_property
    def cp(self) -> Any:
        """CuPy."""
        return cupy()

    @cached_property
    def _count(self) -> int:
        return int(self.cp.cuda.runtime.getDeviceCount())

    @property
    def model(self) -> str:
        """What the current GPU is called."""
        number = self.current
        if number not in self._models:
            found = self.cp.cuda.runtime.getDeviceProperties(number)["name"]
            self._models[number] = str(found.decode() if isinstance(found, bytes) else found)
        return self._models[number]

    @cached_property
    def _models(self) -> dict[int, str]:
        return {}

    @property
    def current(self) -> int:
        """The number of the current GPU."""
        return 0 if self._count == 1 else int(self.cp.cuda.runtime.getDevice())

    def load(self, source: str, kernels: Sequence[Kernel]) -> Any:
        """The kernels of a source, by name; compiled unless cached."""
        cp = self.cp
        arch = f"sm_{cp.cuda.Device().compute_capability}"
        version = ".".join(map(str, cp.cuda.nvrtc.getVersion()))
        flags = (*_FLAGS, f"-arch={arch}")
        key = cache.CacheKey(source, f"nvrtc {version}", flags, arch)
        path = cache.lookup_or_build(key, lambda folder: _compile(cp, folder, flags))
        module = cp.cuda.function.Module()
        try:
            module.load(path.read_bytes())
        except Exception as error:
            raise ToolchainError(
                f"the compiled kernel does not load: {error}", code="E604"
            ) from None
        return {k.name: (module, module.get_function(k.name)) for k in kernels}

    def upload(self, array: Any) -> Any:
        """A host array, copied to the device; a device array is returned as it is."""
        if is_on_gpu(array):
            lies = getattr(getattr(array, "device", None), "id", None)
            if lies is not None and lies != self.current:
                raise DataError(
                    f"a tensor is on GPU {lies}, but the current GPU is {self.current}",
                    code="E511",
                    hint=f"with cupy.cuda.Device({lies}): ..., or copy it over: cupy.array(a)",
                )
            return array if isinstance(array, self.cp.ndarray) else self.cp.asarray(array)
        return self._tried(lambda: self.cp.asarray(array))

    def download(self, array: Any) -> Any:
        """A device array, copied to the host."""
        return self._tried(lambda: self.cp.asnumpy(array))

    def empty(self, count: int, dtype: np.dtype[Any], zeroed: bool = False) -> Any:
        """A new array."""
        make = self.cp.zeros if zeroed else self.cp.empty
        return self._tried(lambda: make(count, dtype))

    def fill(self, array: Any, value: Any) -> None:
        """Set every element to `value`."""
        if value == 0:
            array.data.memset_async(0, array.nbytes)
        else:
            array.fill(value)

    def scan(self, array: Any) -> None:
        """Inclusive prefix sum, in place."""
        self._tried(lambda: self.cp.cumsum(array, out=array))

    def numbers(self, array: Any, index: int, count: int) -> list[int]:
        """Elements of an integer array, read back to the host."""
        return list(self._tried(lambda: self._numbers(array, index, count)))

    def _numbers(self, array: Any, index: int, count: int) -> list[int]:
        # Indexing one element would create an array first, which takes twice as long.
        cuda, size = self.cp.cuda, array.dtype.itemsize
        place = cuda.alloc_pinned_memory(size * count)
        stream = cuda.get_current_stream().ptr
        source, to_host = array.data.ptr + index * size, cuda.runtime.memcpyDeviceToHost
        cuda.runtime.memcpyAsync(place.ptr, source, size * count, to_host, stream)
        cuda.runtime.streamSynchronize(stream)
        return [int(n) for n in np.frombuffer(place, array.dtype, count)]

    def launch(
        self, function: Any, grid: tuple[int, int], kernel: Kernel, args: Sequence[Any], wide: bool
    ) -> Any:
        """Run a kernel on the current stream; returns what `ready` needs to relaunch it."""
        index = np.int64 if wide else np.int32
        count = len(kernel.scalars)
        held = [
            index(arg) if name.type == "int64" else np.dtype(name.type).type(arg)
            for arg, name in zip(args, kernel.scalars, strict=False)
        ]
        held += [np.uint64(0) if arg is None else arg for arg in args[count:]]
        run, shape, threads = function[1], (grid[0], grid[1], 1), (kernel.threads, 1, 1)
        self._tried(lambda: run(shape, threads, tuple(held)))
        named = zip(kernel.arrays, held[count:], strict=True)
        counters = [arg for array, arg in named if array in kernel.counters]
        return Relaunch(self.cp, run, (grid[0], grid[1]), kernel.threads, held, counters)

    def another(self, array: Any) -> Slices:
        """A fast allocator of arrays like this small one, for the current stream."""
        alloc = self.cp.cuda.alloc
        return Slices(self.cp, array, lambda size: self._tried(lambda: alloc(size)))

    def ready(self, launched: Sequence[Relaunch], old: Any, stream: Any) -> Ready:
        """Relaunches kernels on a stream, with another array in place of `old`."""
        return Ready(launched, old, stream, self._tried)

    def settle(self) -> None:
        """Wait for the current stream, so that other streams may read what it has made."""
        self.cp.cuda.get_current_stream().synchronize()

    @property
    def stream(self) -> Callable[[], Any]:
        """A function that returns the current stream of the GPU that is current now.

        Asking CUDA for the current GPU takes longer than the rest of a repeated call.
        """
        current, gpu = self.cp.cuda.get_current_stream, self.cp.cuda.runtime.getDevice()
        try:
            current(gpu)
        except TypeError:  # before CuPy 13
            return cast(Callable[[], Any], current)
        return partial(current, gpu)

    @property
    def is_recording(self) -> bool:
        """Whether launches on the current stream are captured into a graph."""
        return bool(getattr(self.cp.cuda.get_current_stream(), "is_capturing", bool)())

    @property
    def free(self) -> int:
        """Bytes of the GPU that are free, those that CuPy holds for reuse included."""
        pool = self.cp.get_default_memory_pool()
        return int(self.cp.cuda.runtime.memGetInfo()[0]) + int(pool.free_bytes())

    @cached_property
    def most_scratch(self) -> int:
        """The most bytes of scratch memory that all units of a kernel may have together."""
        return int(self.cp.cuda.runtime.memGetInfo()[1]) // _SCRATCH_PART

    @property
    def blocks(self) -> int:
        """The number of blocks of a grid whose work only the GPU knows."""
        processors = self.cp.cuda.Device().attributes["MultiProcessorCount"]
        return int(processors) * _BLOCKS_PER_PROCESSOR

    def _tried(self, action: Any) -> Any:
        """The result of `action`; CUDA's errors become ours."""
        cp = self.cp
        try:
            return action()
        except cp.cuda.memory.OutOfMemoryError as error:
            raise MemoryError(str(error)) from None
        except (cp.cuda.runtime.CUDARuntimeError, cp.cuda.driver.CUDADriverError) as error:
            raise ToolchainError(
                f"the GPU reported an error: {error}",
                code="E608",
                hint="after an illegal access, restart the process; please report it",
            ) from None


def _compile(cp: Any, folder: Path, flags: tuple[str, ...]) -> None:
    """Compile the source in `folder` to a cubin."""
    source = (folder / cache.SOURCE).read_text()
    nvrtc = cp.cuda.nvrtc
    program = nvrtc.createProgram(source, "kernel.cu", [], [])
    try:
        nvrtc.compileProgram(program, list(flags))
        cubin = nvrtc.getCUBIN(program)
    except nvrtc.NVRTCError as error:
        log = nvrtc.getProgramLog(program)
        kept = cache.keep_failed(source)
        raise ToolchainError(
            f"NVRTC refused the generated code: {error}\n{log[:2000]}",
            code="E602",
            hint=f"please report this, with the source kept in {kept}" if kept else None,
        ) from None
    finally:
        nvrtc.destroyProgram(program)
    (folder / cache.LIBRARY).write_bytes(cubin)
