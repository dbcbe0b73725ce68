"""Ctrl-C during a long kernel.

Python handles SIGINT only between its own instructions, so a kernel would run to its end first.
Around a long call we therefore install a handler before Python's: it raises a flag that kernels
poll, then forwards the signal. The kernel returns early, and the KeyboardInterrupt that follows is
Python's own.
"""

from __future__ import annotations

import ctypes
import os
import threading
from _thread import get_ident
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from openwork.runtime.host.support import support_library
from openwork.runtime.limits import memory_left
from openwork.runtime.memory import headroom

# The flag that kernels poll when nothing may stop them: without a compiler, on threads other than
# the main one (which Python never interrupts), and in calls too short to be watched.
_quiet = ctypes.c_int32(0)
QUIET = ctypes.addressof(_quiet)


class _Switch:
    """The handler and flag of the support library."""

    def __init__(self, library: ctypes.CDLL) -> None:
        # Through PyDLL, because releasing the GIL costs more than these calls.
        quick = ctypes.PyDLL(library._name, handle=library._handle)
        self.on = quick.ow_watch_begin
        self.off = quick.ow_watch_end
        self.on.restype, self.off.restype = ctypes.c_int32, None
        self.flag = ctypes.c_int32.in_dll(library, "ow_stop")
        self.address = ctypes.addressof(self.flag)


_switch: _Switch | None = None
_depth = 0
_main = threading.main_thread().ident


def _fork() -> None:
    """In a child, the thread that forked is the main one."""
    global _main
    _main = get_ident()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fork)


class watching:
    """While the block runs, Ctrl-C raises the flag whose address `with` returns.

    Only the main thread is watched; elsewhere the address is that of a flag that stays down. Blocks
    may be nested. A block whose flag was raised always ends with an exception, for a stopped kernel
    has no result: Python's KeyboardInterrupt, or one raised here, if the program's own SIGINT
    handler raises nothing.
    """

    __slots__ = ("_watched",)

    def __enter__(self) -> int:
        global _depth
        self._watched = False
        if get_ident() != _main:
            return QUIET
        switch = _switch or _find_switch()
        if switch is None:
            return QUIET
        # Each level lowers the flag again and reinstalls a missing handler, so that a level whose
        # exit was cut short by an exception leaves nothing behind that could stop a kernel.
        # Nothing below can be interrupted: Python checks for signals at calls and backward jumps.
        if switch.on():
            self._watched = True
            _depth += 1
            return switch.address
        return QUIET

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        global _depth
        switch = _switch
        if switch is None or not self._watched:
            return
        _depth -= 1
        if _depth == 0:
            switch.off()
        if switch.flag.value:
            switch.flag.value = 0
            if kind is None:
                raise KeyboardInterrupt


def stop_flag() -> int:
    """The address of the int32 flag that a kernel launched now should poll.

    It may differ at each launch: inside `watching()` on the main thread it is the flag that Ctrl-C
    raises, everywhere else one that stays zero.
    """
    watched = _depth > 0 and get_ident() == _main
    return _switch.address if watched and _switch is not None else QUIET


def _find_switch() -> _Switch | None:
    global _switch
    library = support_library()
    # The first library found stays: a flag must not move while a kernel polls it.
    if library is not None and _switch is None:
        _switch = _Switch(library)
    return _switch


_SECONDS = 0.01  # between two checks
_RAISED = 2  # not 1, which means Ctrl-C


class Watch:
    """The flag that a kernel polls, and whether it was raised because memory ran short."""

    def __init__(self, flag: ctypes.c_int32) -> None:
        self.raised = False
        self._flag = flag

    @property
    def address(self) -> int:
        """The address of the flag."""
        return ctypes.addressof(self._flag)

    def look(self, over: threading.Event) -> None:
        """Check repeatedly, until the call is over or memory runs short."""
        kept = headroom()
        while not over.wait(_SECONDS):
            left = memory_left()
            if left is not None and left < kept and self._flag.value == 0:
                self.raised = True
                self._flag.value = _RAISED
                return

    def lower(self) -> None:
        """Lower the flag, unless Ctrl-C has raised it."""
        if self._flag.value == _RAISED:
            self._flag.value = 0


@contextmanager
def memory_watch(flag: int) -> Iterator[Watch]:
    """While the block runs, stop the kernel if memory runs short, through the flag that it polls.

    Args:
        flag: the address of the flag that Ctrl-C raises; the one that stays down is not touched.
    """
    own = flag == QUIET
    watch = Watch(ctypes.c_int32(0) if own else ctypes.c_int32.from_address(flag))
    over = threading.Event()
    thread = threading.Thread(target=watch.look, args=(over,), name="memory watch", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        over.set()
        thread.join()
        watch.lower()
