"""Programs that check parts of Openwork's own C, plain and under sanitizers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from openwork.runtime.host import pool
from openwork.runtime.host.toolchain import Toolchain

HERE, SOURCES = Path(__file__).parent, Path(pool.__file__).parent
KINDS = {"plain": (), "race": ("-fsanitize=thread",), "memory": ("-fsanitize=address,undefined",)}
_NO_SANITIZER = ("unexpected memory mapping", "cannot find")


def check_program(name: str, kind: str, toolchain: Toolchain, folder: Path, times: int = 1) -> None:
    """Build a program of this folder, run it so many times, and expect that it says nothing."""
    program = folder / "check"
    flags = ("-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", *KINDS[kind])
    places = ("-I", str(SOURCES), str(HERE / name), "-o", str(program))
    made = subprocess.run(
        (*toolchain.command, *flags, *places, "-lpthread", "-ldl"), capture_output=True, text=True
    )
    if kind != "plain" and any(words in made.stderr for words in _NO_SANITIZER):
        pytest.skip("the compiler has no sanitizer")
    assert made.returncode == 0, made.stderr
    for _ in range(times):
        done = subprocess.run([str(program)], capture_output=True, text=True, timeout=120)
        if any(words in done.stderr for words in _NO_SANITIZER):
            pytest.skip("the sanitizer does not start with the memory layout of this system")
        assert (done.returncode, done.stderr) == (0, "")
