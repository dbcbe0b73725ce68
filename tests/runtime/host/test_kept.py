"""Blocks that are kept: reused, given back, bounded, and clear where that is promised."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.runtime.host.programs import KINDS, check_program

import openwork as ow
from openwork.runtime.host import kept, library
from openwork.runtime.host.toolchain import Toolchain

pytestmark = [pytest.mark.needs_cc, pytest.mark.optimized]

MEGABYTE = 1 << 20


@pytest.fixture(autouse=True)
def _nothing_kept(toolchain: Toolchain) -> Iterator[None]:
    library._shared_by_all(toolchain)
    kept.release()
    yield
    kept.release()


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_has_one_owner(kind: str, toolchain: Toolchain, tmp_path: Path) -> None:
    check_program("kept_check.c", kind, toolchain, tmp_path)


def matrix(rows: int, seed: int) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    at = rng.integers(0, rows, (2, 6 * rows))
    return sp.csr_array((rng.integers(1, 5, 6 * rows).astype(float), tuple(at)), (rows, rows))


def squared(A: sp.csr_array) -> Any:
    made = ow.empty(A.shape, format=ow.CSR, name="C")
    return ow.parse("C(i,k) = A(i,j) * A(j,k)", C=made, A=ow.tensor(A, name="A")).compile()


def test_memory_of_a_freed_result_is_that_of_the_next() -> None:
    call = squared(matrix(3000, 0))
    first = call()
    place, size = first.storage.values.ctypes.data, first.storage.values.nbytes
    del first
    assert call().storage.values.ctypes.data == place
    assert kept.release() >= size > 1 << 16
    assert kept.release() == 0


def test_a_result_in_use_is_left_alone() -> None:
    A = matrix(3000, 0)
    call = squared(A)
    results = [call() for _ in range(4)]
    values = results[0].storage.values
    del results[0]
    again = [call() for _ in range(3)]
    for each in (*results, *again):
        np.testing.assert_array_equal(each.to_scipy().toarray(), (A @ A).toarray())
    np.testing.assert_array_equal(values, again[0].storage.values)


def test_kernels_begin_with_clear_workspaces_whatever_was_in_a_block() -> None:
    dirty = ctypes.CDLL(None).malloc
    dirty.argtypes, dirty.restype = [ctypes.c_size_t], ctypes.c_void_p
    A = matrix(20_000, 1)
    call, wanted = squared(A), A @ A
    for _ in range(3):
        for size in (20_000, 80_000, 160_000, MEGABYTE, 4 * MEGABYTE):
            block = dirty(size)
            ctypes.memset(block, 0xA5, size)
            kept.free(block)
        got = call().to_scipy()
        assert (got != wanted).nnz == 0


def test_calls_by_several_threads_share_what_is_kept() -> None:
    matrices = [matrix(2000 + 500 * n, n) for n in range(4)]
    calls = [(squared(A), (A @ A).toarray()) for A in matrices]

    def run(n: int) -> None:
        call, wanted = calls[n % 4]
        np.testing.assert_array_equal(call().to_scipy().toarray(), wanted)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(run, range(24)))


def test_the_oldest_blocks_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENWORK_KEPT_BYTES", str(10 * MEGABYTE))
    kept.release()
    take = library._common.ow_kept_take  # type: ignore[union-attr]
    take.argtypes, take.restype = [ctypes.c_size_t], ctypes.c_void_p
    malloc = ctypes.CDLL(None).malloc
    malloc.argtypes, malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    blocks = [malloc(size * MEGABYTE) for size in (2, 3, 4, 5, 11)]
    for block in blocks:
        kept.free(block)
    assert take(3 * MEGABYTE) == blocks[2], "the smallest of those that are large enough"
    assert take(2 * MEGABYTE) is None, "at most twice as large"
    assert take(6 * MEGABYTE) is None
    assert take(4 * MEGABYTE) == blocks[3]
    assert kept.release() == 0
    for block in blocks[2:4]:
        kept.free(block)


def test_nothing_is_kept_if_the_user_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENWORK_KEPT_BYTES", "0")
    kept.release()
    call = squared(matrix(3000, 2))
    call(), call()
    assert kept.release() == 0


FORKS = """
import os
from tests.runtime.host.test_kept import matrix, squared
from openwork.runtime.host import kept, library
A = matrix(3000, 0)
call, wanted = squared(A), A @ A
call()
child = os.fork()
if child == 0:
    right = all((call().to_scipy() != wanted).nnz == 0 for _ in range(3))
    os._exit(0 if right and kept.release() > 0 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_has_what_is_kept() -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
