"""The allocator of `make guard` notices what it is there for."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PLANTED = """
import ctypes
c = ctypes.CDLL(None)
c.malloc.restype, c.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
block = c.malloc(48)
{fault}
c.free(block)
"""


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None or platform.libc_ver()[0] != "glibc":
        pytest.skip("needs a C compiler, and GNU's C library to stand in front of")
    made = tmp_path_factory.mktemp("guard") / "guard.so"
    source = Path(__file__).with_name("guard.c")
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", made, source], check=True)
    return made


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("ctypes.memset(block, 1, 48)", ""),
        ("ctypes.memset(block + 48, 1, 4)", "written behind a block of bytes: 48"),
        ("ctypes.memset(block - 8, 1, 4); ctypes.memset(block - 32, 1, 4)", "in front of a block"),
    ],
)
def test_what_is_written_outside_of_a_block(guard: Path, fault: str, words: str) -> None:
    ran = _run(guard, PLANTED.format(fault=fault))
    assert (ran.returncode == 0) == (not words)
    assert words in ran.stderr


def test_fresh_memory_holds_small_numbers(guard: Path) -> None:
    look = "print(*(ctypes.c_int32 * 12).from_address(block))"
    numbers = [int(word) for word in _run(guard, PLANTED.format(fault=look)).stdout.split()]
    assert len(numbers) == 12 and any(numbers) and all(0 <= n < 8 for n in numbers)


def _run(guard: Path, program: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LD_PRELOAD": str(guard)}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
