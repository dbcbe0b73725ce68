"""Memory of results: blocks are used again, within a limit, and never by two arrays at once."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import openwork as ow
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


def test_large_arrays_of_records_have_their_fields() -> None:
    """Conversions of large tensors of records once failed, as these had lost them."""
    kind = ow.entry.quaternion()
    large = memory.allocate(1 << 16, kind.dtype)
    assert (large.dtype, large.nbytes) == (kind.dtype, 2 << 20)
    rng = np.random.default_rng(0)
    coords, values = np.arange(1 << 15)[None].repeat(2, axis=0), rng.random((1 << 15, 4))
    A = ow.tensor((coords, values), shape=(1 << 15, 1 << 15), dtype=kind)
    for format in (ow.CSC, ow.SELL(32), ow.COO(2), ow.BSR(1, 2)):
        assert A.to(format).to(ow.CSR).equals(A)


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


@pytest.fixture
def nothing_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no large array were alive, whatever other tests have left."""
    monkeypatch.setattr(promised, "_spans", {})


@pytest.mark.usefixtures("nothing_promised")
def test_what_was_promised_and_not_written_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three results that each fit, and together do not: the third one is refused."""
    size, whole, written = 1 << 26, 3 << 26, 0
    monkeypatch.setattr(memory, "memory_left", lambda: whole)
    monkeypatch.setattr(memory, "memory_total", lambda: whole)
    monkeypatch.setattr(memory, "unwritten", lambda: promised.promised() - written)
    first, second = (memory.zeros(size // 8, FLOAT64) for _ in range(2))
    with pytest.raises(MemoryError, match=r"needs 64.0 MiB, but 64.0 MiB are free"):
        memory.zeros(size // 8, FLOAT64)
    written = size  # the system counts one of them now; here its answer stays the same
    memory.zeros(size // 8, FLOAT64)
    written = 0
    del first, second
    memory.zeros(size // 8, FLOAT64)
    assert not promised._spans


@pytest.mark.usefixtures("nothing_promised")
def test_what_the_system_says_of_large_arrays() -> None:
    """Memory that was written to has pages."""
    if not Path("/proc/self/smaps").exists():
        pytest.skip("no /proc/self/smaps")
    size = 1 << 26
    array = memory.zeros(size // 8, FLOAT64)
    array[:] = 1
    assert promised.unwritten() < size // 2
    other = memory.zeros(size // 8, FLOAT64)
    assert promised.unwritten() <= 2 * size
    del other


SMAPS = """\
1000000-5000000 rw-p 00000000 00:00 0
Size:              65536 kB
KernelPageSize:        4 kB
Rss:               16384 kB
VmFlags: rd wr mr mw me ac
5000000-9000000 r--p 00000000 00:00 0
Size:              65536 kB
Rss:                   0 kB
9000000-9400000 rw-p 00000000 00:00 0                          [heap]
Size:               4096 kB
Rss:                   0 kB
"""


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], 0),
        ([(0x1000000, 0x5000000)], 48 << 20),  # a quarter has pages
        ([(0x1000000, 0x2000000)], 16 << 20),  # and it need not be this quarter
        ([(0x5000000, 0x9000000)], 0),  # nobody can write there
        ([(0x1000000, 0x5000000), (0x9100000, 0x9300000)], 50 << 20),
        ([(0xA000000, 0xB000000)], 0),
    ],
)
def test_pages_that_are_not_there(
    spans: list[tuple[int, int]], expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "smaps").write_text(SMAPS)
    monkeypatch.setattr(promised, "_spans", dict(enumerate(spans)))
    assert promised.unwritten(tmp_path / "smaps") == expected
    assert promised.unwritten(tmp_path / "none") == 0


@pytest.mark.usefixtures("nothing_promised")
def test_something_is_left_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "memory_total", lambda: 64 << 30)
    monkeypatch.setattr(memory, "memory_left", lambda: 21 << 30)
    with pytest.raises(MemoryError, match=r"21\.0 GiB are free, of which 2\.0 GiB are reserved"):
        memory.check_memory(20 << 30, "it")
    memory.check_memory(19 << 30, "it")
    monkeypatch.setattr(memory, "memory_total", lambda: 1 << 28)
    assert memory.headroom() == 1 << 26
