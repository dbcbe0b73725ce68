"""NVRTC through ctypes: CUDA text to machine code for a GPU that need not be there."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import re
from pathlib import Path

FLAGS = ("--std=c++17", "--device-int128", "-default-device", "-arch=sm_90", "--ptxas-options=-v")


@functools.cache
def library() -> ctypes.CDLL | None:
    """NVRTC, if a wheel of it is installed."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for path in sorted(Path(folder).glob("**/libnvrtc.so.*")):
            if "alt" not in path.name:
                return ctypes.CDLL(str(path))
    return None


def compile_text(source: str) -> str:
    """What NVRTC has to say about `source`; fails if it does not compile."""
    nvrtc = library()
    assert nvrtc is not None
    program = ctypes.c_void_p()
    create = nvrtc.nvrtcCreateProgram
    assert create(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None) == 0
    options = (ctypes.c_char_p * len(FLAGS))(*(f.encode() for f in FLAGS))
    status = nvrtc.nvrtcCompileProgram(program, len(FLAGS), options)
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    text = log.value.decode(errors="replace")
    assert status == 0, f"{text}\n{source}"
    return text


def registers(log: str) -> dict[str, tuple[int, int]]:
    """For each kernel: its registers, and the bytes that it spills."""
    found: dict[str, tuple[int, int]] = {}
    name = ""
    for line in log.splitlines():
        entry = re.search(r"Compiling entry function '(\w+)'", line)
        if entry is not None:
            name = entry[1]
        stack = re.search(r"(\d+) bytes stack frame", line)
        if stack is not None:
            found[name] = (0, int(stack[1]))
        used = re.search(r"Used (\d+) registers", line)
        if used is not None:
            found[name] = (int(used[1]), found.get(name, (0, 0))[1])
    return found
