"""C on the threads of the compiler's own OpenMP, as people write it by hand."""

from __future__ import annotations

import ctypes
import tempfile
from dataclasses import replace
from pathlib import Path

from openwork.runtime.host.toolchain import find_toolchain


def load(source: str) -> ctypes.CDLL:
    """The library of a C text."""
    toolchain = find_toolchain()
    assert toolchain is not None, "the benchmarks need a C compiler"
    plain = replace(toolchain, pooled=False)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "source.c").write_text(source, encoding="utf-8")
        plain.compile(Path(folder), plain.flags())
        return ctypes.CDLL(f"{folder}/kernel.so")
