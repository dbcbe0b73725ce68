"""Run CUDA source without a GPU: a C++ compiler compiles it under `emulator.hpp`.

For tests and for readers, not for speed. The source is what NVRTC gets, plus functions that
call the kernels.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from functools import cache as cache_results
from pathlib import Path
from typing import Any

import numpy as np

from openwork.errors import ToolchainError
from openwork.program.gpu_nodes import Kernel
from openwork.render.cuda.cuda import parameters
from openwork.runtime import cache
from openwork.runtime.host.toolchain import Toolchain, find_toolchain, no_toolchain, run_compiler
from openwork.runtime.storage import Array

HEADER, _RACES = (Path(__file__).with_name(name) for name in ("emulator.hpp", "races.hpp"))
# Report out-of-range indices of shared and local arrays; link no C++ library.
_FLAGS = (
    "-x", "c++", "-std=c++17", "-fPIC", "-w", "-fno-exceptions", "-fno-rtti", "-fsanitize=bounds",
    "-ffp-contract=off", "-fno-strict-aliasing", "-fno-threadsafe-statics",
)  # fmt: skip
# The compiler calls functions of races.hpp before each access, and marks volatile ones.
_SEEN = ("-fsanitize=thread", "--param=tsan-distinguish-volatile=1")
_SEEN_CLANG = ("-fsanitize=thread", "-mllvm", "-tsan-distinguish-volatile=1")
# Of a library that only needs what is in the process anyway; reading the C library's takes longer
# than all the rest of linking.
_LINKED = ("-nodefaultlibs",), ("-lm", "-lgcc")
OPTIMIZE = "-O1"  # tests compile much and run little, so they use less
_OBJECT, _REST = "kernel.o", "rest.cpp"
_ELSEWHERE = "-DEMULATED_ELSEWHERE"  # what runs the threads is linked, not compiled again
ORDERS = 3  # forwards, backwards, shuffled
races = os.environ.get("OPENWORK_EMULATED_RACES", "") not in ("", "0")  # detect races; slow
_lock = threading.RLock()  # a process has one set of fibres and shared memory
_loaded: dict[str, ctypes.CDLL] = {}
_precompiled: dict[tuple[Path, Toolchain, tuple[str, ...], str], tuple[Path, Path]] = {}


def header() -> str:
    """What precedes CUDA source, for a C++ compiler."""
    return _header(bool(races))


@cache_results
def _header(races: bool) -> str:
    text = HEADER.read_text()
    if not races:
        return text
    before, _, rest = text.partition("// {\n")
    return before + _RACES.read_text() + rest.partition("// }\n")[2]


def emulated_source(texts: Sequence[tuple[str, Sequence[Kernel]]]) -> str:
    """C++ for CUDA sources, each with its kernels; source n is in the namespace `text_n`."""
    parts = [header()]
    for n, (text, kernels) in enumerate(texts):
        parts += [f"namespace text_{n} {{", text, *(_entry(n, k) for k in kernels), "}"]
    return "\n".join(parts).replace('extern "C" __global__', "static __global__")


def _entry(n: int, kernel: Kernel) -> str:
    """A function that runs a kernel on every thread of a grid."""
    types = [type.replace("*__restrict__", "*") for type, _ in parameters(kernel)]
    args = ", ".join(f"*({type} *)a[{at}]" for at, type in enumerate(types))
    return (
        f"static void call_{kernel.name}(void *g) {{ void **a = (void **)g; "
        f"{kernel.name}({args}); }}\n"
        f'extern "C" int enter_{n}_{kernel.name}(void **a, unsigned x, unsigned y, int order) {{\n'
        f"  return emulated::launch(x, y, {kernel.threads}, order, call_{kernel.name}, a);\n}}"
    )


def load_emulated(source: str) -> ctypes.CDLL:
    """The library of an emulated source.

    Raises:
        ToolchainError: E601 without a compiler, E602 if it rejects the source.
    """
    toolchain = find_toolchain()
    if toolchain is None:
        raise no_toolchain()
    with _lock:
        if source not in _loaded:
            flags: tuple[str, ...] = (*_FLAGS, OPTIMIZE)
            head = next((h for h in map(_header, (False, True)) if source.startswith(h)), "")
            if head == _header(True):
                flags += _SEEN_CLANG if "clang" in toolchain.version else _SEEN
            key = cache.CacheKey(source, toolchain.version, flags, toolchain.cpu)
            path = cache.lookup_or_build(key, lambda dir: _compile(toolchain, dir, flags, head))
            library = ctypes.CDLL(str(path))
            library.emulated_message.restype = ctypes.c_char_p
            _loaded[source] = library
        return _loaded[source]


def _compile(toolchain: Toolchain, folder: Path, flags: tuple[str, ...], head: str) -> None:
    """Compile the source in `folder`, which begins with `head`."""
    (folder / _REST).write_text((folder / cache.SOURCE).read_text()[len(head) :])
    before, after = _LINKED if toolchain.kind == "gcc" else ((), ("-lm",))
    ahead: tuple[str, ...] = ()
    if head:
        declared, defined = _precompile(toolchain, folder, flags, head)
        ahead, after = (_ELSEWHERE, "-include", str(declared)), (str(defined), *after)
    _run(toolchain, folder, *flags, *ahead, "-c", "-o", _OBJECT, _REST)
    _run(toolchain, folder, "-shared", *before, "-o", cache.LIBRARY, _OBJECT, *after)
    for name in (_OBJECT, _REST):
        (folder / name).unlink()


def _run(toolchain: Toolchain, folder: Path, *arguments: str) -> None:
    """Run a compiler on the source in `folder`.

    Raises:
        ToolchainError: E602 if it fails.
    """
    problem = run_compiler((*toolchain.command, *arguments), folder)
    if problem is not None:
        kept = cache.keep_failed((folder / cache.SOURCE).read_text())
        raise ToolchainError(
            f"{' '.join(toolchain.command)} refused the generated CUDA:\n{problem}",
            code="E602",
            hint=f"it needs a C++ compiler (g++); the source is kept in {kept}",
        )


def _precompile(
    toolchain: Toolchain, folder: Path, flags: tuple[str, ...], head: str
) -> tuple[Path, Path]:
    """A file with the text `head`, to include with `_ELSEWHERE`, and the object it leaves out.

    Both are made once per process. Beside the text lies what GCC made of it, which takes half the
    time; compilers that cannot read that read the text. `folder`: of a source that needs them.
    """
    private = cache.private_directory()
    place = private, toolchain, flags, head
    if place not in _precompiled:
        file = private / f"emulator-{len(_precompiled)}.hpp"
        file.write_text(head)
        object = file.with_suffix(".o")
        _run(toolchain, folder, *flags, "-c", "-o", str(object), str(file))
        if toolchain.kind == "gcc":
            language = ("-x", "c++-header", *flags[2:], _ELSEWHERE, "-o", f"{file}.gch")
            run_compiler((*toolchain.command, *language, str(file)), private)
        _precompiled[place] = file, object
    return _precompiled[place]


class Emulator:
    """The CPU in place of a GPU: arrays are NumPy's."""

    name, model, in_main_memory = "cuda-emulated", "", True

    def __init__(self) -> None:
        self.order = int(os.environ.get("OPENWORK_EMULATED_ORDER", "0")) % ORDERS

    def load(self, source: str, kernels: Sequence[Kernel]) -> Any:
        """The kernels of a source, by name, as `launch` takes them."""
        library = load_emulated(emulated_source([(source, kernels)]))
        return {k.name: (library, getattr(library, f"enter_0_{k.name}")) for k in kernels}

    def upload(self, array: Array) -> Array:
        """A host array, on the device."""
        return array

    def empty(self, count: int, dtype: np.dtype[Any], zeroed: bool = False) -> Array:
        """A new array."""
        return np.zeros(max(count, 1), dtype) if zeroed else _poisoned(count, dtype)

    def fill(self, array: Array, value: Any) -> None:
        """Set every element to `value`."""
        array.fill(value)

    def scan(self, array: Array) -> None:
        """Inclusive prefix sum, in place."""
        np.cumsum(array, out=array)

    def numbers(self, array: Array, index: int, count: int) -> list[int]:
        """Elements of an index array, read back to the host."""
        return [int(n) for n in array[index : index + count]]

    def download(self, array: Array) -> Array:
        """A device array, on the host."""
        return array

    def launch(
        self, function: Any, grid: tuple[int, int], kernel: Kernel, args: Sequence[Any], wide: bool
    ) -> Any:
        """Run a kernel; returns what `ready` needs to relaunch it.

        Raises:
            ToolchainError: E608 with the fault, and its block and thread.
        """
        library, enter = function
        held = [
            _held(arg, name.type, wide) for arg, name in zip(args, kernel.scalars, strict=False)
        ]
        held += [ctypes.c_void_p(_address(arg)) for arg in args[len(held) :]]
        pointers = (ctypes.c_void_p * max(1, len(held)))(*(ctypes.addressof(h) for h in held))
        with _lock:
            seen = hasattr(library, "emulated_watch")
            for array in args[len(kernel.scalars) :] if seen else ():
                if array is not None and array.size:
                    given = (ctypes.c_void_p(_address(array)), ctypes.c_size_t(array.nbytes))
                    library.emulated_watch(*given, ctypes.c_size_t(array.itemsize))
            failed = enter(pointers, grid[0], grid[1], self.order)
            message = library.emulated_message().decode() if failed else ""
            if seen:
                library.emulated_forget()
        if failed:
            raise ToolchainError(
                f"{kernel.name} failed under the emulator: {message}",
                code="E608",
                hint="please report this, with kernel.source",
            )
        return function, grid, kernel, args, wide

    def another(self, array: Any) -> Another:
        """An allocator of arrays like this one."""
        return Another(self, array)

    def ready(self, launched: Sequence[Any], old: Any, stream: Any) -> Ready:
        """Relaunches kernels, with another array in place of `old`."""
        return Ready(self, launched, old)

    def settle(self) -> None:
        """Wait for the current stream: every launch has ended when it returns."""

    def stream(self) -> Any:
        """The current stream: there is only one."""
        return None

    @property
    def current(self) -> int:
        """The number of the current device: there is only one."""
        return 0

    is_recording = False
    free = 1 << 32  # bytes, as if

    @property
    def most_scratch(self) -> int:
        """The most bytes of scratch memory that all units of a kernel may have together."""
        return 1 << 28

    @property
    def blocks(self) -> int:
        """The number of blocks of a grid whose work only the GPU knows."""
        return 3


class Another:
    """New arrays like a given one."""

    def __init__(self, emulator: Emulator, array: Any) -> None:
        self._emulator, self._like = emulator, array

    def __call__(self) -> Any:
        return self._emulator.empty(self._like.size, self._like.dtype)

    def array(self, place: Any) -> Any:
        """The array at a place."""
        return place


class Ready:
    """Launches that write to another result each time."""

    stream = None

    def __init__(self, emulator: Emulator, launched: Sequence[Any], old: Any) -> None:
        self._emulator, self._launched, self._old = emulator, launched, old
        self.place = old

    def into(self, place: Any) -> None:
        """Set where the next result goes."""
        self.place = place

    def go(self) -> None:
        """Launch them."""
        for function, grid, kernel, args, wide in self._launched:
            given = [self.place if arg is self._old else arg for arg in args]
            self._emulator.launch(function, grid, kernel, given, wide)


def _poisoned(count: int, dtype: np.dtype[Any]) -> Array:
    array = np.empty(max(count, 1), dtype)
    array.view(np.uint8).fill(0xA5)
    return array


def _held(value: Any, type: str, wide: bool) -> Any:
    if type == "int64":
        return (ctypes.c_int64 if wide else ctypes.c_int32)(int(value))
    return np.ctypeslib.as_ctypes_type(np.dtype(type))(value)


def _address(array: Any) -> int:
    return 0 if array is None else int(array.__array_interface__["data"][0])
