"""Memory of results: blocks are used again, within a limit, and never by two arrays at once."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from openwork.runtime import memory, promised

FLOAT64 = np.dtype("float64")


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LARGE", 1 << 20)  # so that the tests need less of it
    memory.release()


def address(array: memory.Array) -> int:
    return int(array.__array_interface__["data"][0])


def test_a_block_is_used_again_once_nobody_looks_at_it() -> None:
    first = memory.allocate(1 << 18, FLOAT64)
    where, view = address(first), first[5:]
    del first
    assert address(memory.allocate(1 << 18, FLOAT64)) != where  # the view still holds it
    del view
    again = memory.allocate((1 << 18) - 1000, np.dtype("int64"))
    assert address(again) == where
    assert again.dtype == np.int64 and again.flags.writeable and again.size == (1 << 18) - 1000


def test_what_is_kept_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_KEPT_BYTES", 8 << 20)
    blocks = [memory.allocate((1 << 18) + (n << 17), FLOAT64) for n in range(6)]
    blocks.clear()
    assert sum(size * len(queue) for size, queue in memory._kept.items()) <= 8 << 20
    memory.release()
    assert not memory._kept


def test_threads_never_share_a_block() -> None:
    wrong = []

    def work(mark: int) -> None:
        for _ in range(200):
            array = memory.allocate(1 << 17, FLOAT64)
            array[::4096] = mark
            if (array[::4096] != mark).any():
                wrong.append(mark)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_small_and_huge_arrays_are_plain_ones() -> None:
    assert memory.allocate(10, FLOAT64).base is None
    assert memory.allocate(0, FLOAT64).size == 0


def test_an_impossible_array_is_refused() -> None:
    with pytest.raises(MemoryError, match="GiB"):
        memory.allocate(10**13, FLOAT64)


def test_many_small_results_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_unseen", 0)
    monkeypatch.setattr(memory, "memory_left", lambda: 1000)
    alive = []
    with pytest.raises(MemoryError, match="the result needs"):
        for _ in range(100):
            alive.append(memory.allocate(1 << 12, FLOAT64))
    assert len(alive) < 40


def test_what_was_promised_and_not_written_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three results that each fit, and together do not: the third one is refused."""
    size, whole = 1 << 26, 3 << 26
    monkeypatch.setattr(memory, "memory_left", lambda: whole)
    monkeypatch.setattr(memory, "memory_total", lambda: whole)
    first, second = (memory.zeros(size // 8, FLOAT64) for _ in range(2))
    with pytest.raises(MemoryError, match=r"needs 64.0 MiB, and 6\d.\d MiB are free"):
        memory.zeros(size // 8, FLOAT64)
    if Path("/proc/self/smaps").exists():
        second[:] = 1  # the system counts it now; here its answer stays the same
        memory.zeros(size // 8, FLOAT64)
    del first, second
    memory.zeros(size // 8, FLOAT64)
    assert not promised._spans


def test_something_is_left_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "memory_total", lambda: 64 << 30)
    monkeypatch.setattr(memory, "memory_left", lambda: 21 << 30)
    with pytest.raises(MemoryError, match=r"21\.0 GiB are free, of which 2\.0 GiB stay"):
        memory.check_memory(20 << 30, "it")
    memory.check_memory(19 << 30, "it")
    monkeypatch.setattr(memory, "memory_total", lambda: 1 << 28)
    assert memory.headroom() == 1 << 26
