"""Memory of results: blocks are used again, within a limit, and never by two arrays at once."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from openwork.runtime import memory

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


def test_a_container_has_less_than_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [str(tmp_path / name) for name in ("max", "current", "stat")]
    monkeypatch.setattr(memory, "_CONTAINER", files)
    whole = memory.available()
    assert whole
    for limit, left in (("5000000\n", 3_000_100), ("1000000\n", 0)):
        texts = (limit, "2000000\n", "file 9\ninactive_file 100\n")
        for path, text in zip(files, texts, strict=True):
            Path(path).write_text(text)
        assert memory.available() == left
    Path(files[0]).write_text("max\n")
    assert memory.available() > whole // 2
