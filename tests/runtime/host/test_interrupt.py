"""Ctrl-C while a kernel runs. In processes of their own: the signal must not hit the test run."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from openwork.runtime.host import interrupt

pytestmark = pytest.mark.skipif(os.name != "posix", reason="no POSIX signals here")

SETUP = """
import ctypes, os, signal, threading, time
import numpy as np
from openwork.runtime.host import interrupt, library, support
support.support_library()  # compiling it would take longer than a signal
spin = library.load('''
long spin(const volatile int *stop, long rounds) {
  long done = 0;
  while (!*stop && done < rounds) done++;
  return done;
}
''').spin
spin.argtypes, spin.restype = (ctypes.c_void_p, ctypes.c_long), ctypes.c_long
LONG, SHORT = 50_000_000_000, 1000
sent = 0.0
def kick():
    global sent
    sent = time.perf_counter()
    os.kill(os.getpid(), signal.SIGINT)
def kick_soon(delay=0.05):
    # The time runs from when the thread is known to have started: that alone can take as long.
    started = threading.Event()
    def later():
        started.wait()
        time.sleep(delay)
        kick()
    timer = threading.Thread(target=later)
    timer.start()
    started.set()
    return timer
"""


def run(script: str) -> str:
    answer = subprocess.run(
        [sys.executable, "-c", SETUP + script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.mark.needs_cc
def test_ctrl_c_stops_a_kernel_and_leaves_the_process_usable() -> None:
    trials = """
for _ in range(20):
    timer = kick_soon(0.02)
    try:
        with interrupt.watching() as stop:
            assert stop == interrupt.stop_flag()
            spin(stop, LONG)
        print("not interrupted")
    except KeyboardInterrupt:
        if time.perf_counter() - sent > 0.5:
            print("late")
    timer.join()
    with interrupt.watching() as stop:
        if spin(stop, SHORT) != SHORT:
            print("the next kernel was stopped too")
# Outside, the signal goes to Python alone, and a blocking call is interrupted as ever.
timer = kick_soon()
try:
    time.sleep(20)
except KeyboardInterrupt:
    print("slept", time.perf_counter() - sent < 0.5)
"""
    assert run(trials) == "slept True\n"


@pytest.mark.needs_cc
def test_nested_watches() -> None:
    script = """
timer = kick_soon()
try:
    with interrupt.watching() as outer:
        try:
            with interrupt.watching() as inner:
                assert inner == outer
                spin(inner, LONG)
        except KeyboardInterrupt:
            print("inner")
        print(spin(outer, SHORT) == SHORT)
        timer = kick_soon()
        spin(interrupt.stop_flag(), LONG)
except KeyboardInterrupt:
    print("outer")
print(interrupt.stop_flag() != outer)
"""
    assert run(script) == "inner\nTrue\nouter\nTrue\n"


@pytest.mark.needs_cc
def test_a_stopped_kernel_never_passes_for_a_finished_one() -> None:
    """A program may handle SIGINT without an exception; the kernel has no result all the same."""
    script = """
signal.signal(signal.SIGINT, lambda number, frame: print("handled"))
timer = kick_soon()
try:
    with interrupt.watching() as stop:
        spin(stop, LONG)
    print("a result")
except KeyboardInterrupt:
    print("interrupted")
"""
    assert run(script) == "handled\ninterrupted\n"


@pytest.mark.needs_cc
@pytest.mark.parametrize("handler", ["SIG_IGN", "SIG_DFL"])
def test_who_does_not_listen_is_not_watched(handler: str) -> None:
    script = f"""
signal.signal(signal.SIGINT, signal.{handler})
with interrupt.watching() as stop:
    print(stop == interrupt.stop_flag(), ctypes.c_int32.from_address(stop).value)
    if signal.{handler} == signal.SIG_IGN:
        kick()
    print(spin(stop, SHORT) == SHORT)
print(signal.getsignal(signal.SIGINT) == signal.{handler})
"""
    assert run(script) == "True 0\nTrue\nTrue\n"


@pytest.mark.needs_cc
def test_other_threads_are_not_stopped() -> None:
    """Python interrupts the main thread only, so no other may lose its result."""
    script = """
answers = []
def work():
    with interrupt.watching() as stop:
        answers.append(spin(stop, 300_000_000) == 300_000_000)
worker = threading.Thread(target=work)
worker.start()
timer = kick_soon(0.02)
try:
    with interrupt.watching() as stop:
        spin(stop, LONG)
except KeyboardInterrupt:
    print("main")
worker.join()
print(answers)
"""
    assert run(script) == "main\n[True]\n"


@pytest.mark.needs_cc
def test_a_handler_set_inside_stays() -> None:
    script = """
def mine(number, frame):
    print("mine")
with interrupt.watching():
    signal.signal(signal.SIGINT, mine)
kick()
time.sleep(0.01)
"""
    assert run(script) == "mine\n"


def test_without_a_compiler_the_flag_stays_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "_switch", None)
    monkeypatch.setattr(interrupt, "support_library", lambda: None)
    with interrupt.watching() as stop, interrupt.watching() as again:
        assert stop == again == interrupt.stop_flag()


def test_a_thread_gets_the_quiet_flag() -> None:
    seen: list[int] = []

    def work() -> None:
        with interrupt.watching() as stop:
            seen.extend((stop, interrupt.stop_flag()))

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert seen == [interrupt.stop_flag()] * 2
