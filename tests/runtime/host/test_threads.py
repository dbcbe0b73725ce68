"""How many threads a kernel gets, and that a forked child does not wait for ever."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from openwork.errors import ToolchainError
from openwork.runtime.host import threads
from openwork.runtime.host.threads import most_threads, set_num_threads, thread_count


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No wishes from the environment, and none left behind."""
    monkeypatch.delenv("OPENWORK_NUM_THREADS", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    set_num_threads(None)
    yield
    set_num_threads(None)


def test_the_order_of_wishes(monkeypatch: pytest.MonkeyPatch) -> None:
    if hasattr(os, "sched_getaffinity"):
        assert thread_count() == len(os.sched_getaffinity(0))
    monkeypatch.setenv("OMP_NUM_THREADS", "7,2")
    assert thread_count() == 7
    monkeypatch.setenv("OPENWORK_NUM_THREADS", "5")
    assert thread_count() == 5
    set_num_threads(3)
    assert thread_count() == 3
    set_num_threads(None)
    assert thread_count() == 5


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no CPU affinity here")
def test_affinity_is_obeyed() -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        time.sleep(0.06)  # it is asked for only now and then
        assert thread_count() == 1
    finally:
        os.sched_setaffinity(0, before)
        time.sleep(0.06)


def test_what_openmp_cannot_read_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = thread_count()
    for text in ("", "many", "-1", "0"):
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        assert thread_count() == usual


@pytest.mark.parametrize("text", ["many", "0", "-3", "1.5"])
def test_a_bad_wish_in_our_own_variable_is_an_error(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENWORK_NUM_THREADS", text)
    with pytest.raises(ToolchainError, match="OPENWORK_NUM_THREADS") as caught:
        thread_count()
    assert caught.value.code == "E605"


@pytest.mark.parametrize("count", [0, -1, 1.5, "2"])
def test_a_bad_number_is_an_error(count: Any) -> None:
    with pytest.raises(ToolchainError, match="E605: set_num_threads was given"):
        set_num_threads(count)


FORK = """
import os, sys
import numpy as np
from openwork.runtime.host import support, threads
from openwork.runtime.host.toolchain import find_toolchain
threads.set_num_threads(2)
crd = np.arange(1_000_000, dtype=np.int32)
def check():
    support.check_coordinates(crd, None, len(crd), array="crd")
check()
for _ in range(5):
    child = os.fork()
    if child == 0:
        threads.set_num_threads(2)
        check()
        os._exit(threads.thread_count())
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == (2 if find_toolchain().pooled else 1), status
assert threads.thread_count() == 2
check()
print("done")
"""


@pytest.mark.needs_cc
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_works_after_a_parallel_region() -> None:
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert answer.stdout == "done\n", answer.stderr


@pytest.mark.parametrize("count", [True, np.True_, np.float64(2)])
def test_what_only_looks_like_a_number_is_an_error(count: Any) -> None:
    with pytest.raises(ToolchainError, match="E605: set_num_threads was given"):
        set_num_threads(count)


@pytest.mark.parametrize("count", [40_000, 2**31, 2**70])
def test_more_threads_than_can_be_started_are_an_error(count: int) -> None:
    with pytest.raises(ToolchainError, match=f"E605.*given {count}, but this process may have"):
        set_num_threads(count)
    assert thread_count() < count
    set_num_threads(most_threads())
    assert thread_count() == most_threads() >= 1


@pytest.mark.parametrize("variable", ["OPENWORK_NUM_THREADS", "OMP_NUM_THREADS"])
def test_the_environment_is_cut_to_what_can_be_had(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads._bounded.cache_clear()
    monkeypatch.setenv(variable, "40000")
    with pytest.warns(RuntimeWarning, match=f"{variable} is 40000") as seen:
        assert [thread_count() for _ in range(3)] == [most_threads()] * 3
    assert len(seen) == 1  # it is said once


def test_a_group_of_few_processes_has_few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "threads_left", lambda: 4)
    threads._startable.cache_clear()
    try:
        assert most_threads() == 5
        with pytest.raises(ToolchainError, match="this process may have 5"):
            set_num_threads(6)
    finally:
        threads._startable.cache_clear()
