"""A watch over memory while a kernel makes a result whose size nobody knows.

Systems hand out more memory than there is, and end a process when it uses what it was given. So a
thread looks from time to time how much is left, and stops the kernel as Ctrl-C would.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from openwork.runtime.interrupt import QUIET
from openwork.runtime.limits import memory_left
from openwork.runtime.memory import headroom

_SECONDS = 0.01  # between two looks
_RAISED = 2  # not 1, which means Ctrl-C


class Watch:
    """The flag that a kernel polls, and whether it was raised because memory ran short."""

    def __init__(self, flag: ctypes.c_int32) -> None:
        self.raised = False
        self._flag = flag

    @property
    def address(self) -> int:
        """Where the flag is."""
        return ctypes.addressof(self._flag)

    def look(self, over: threading.Event) -> None:
        """Look again and again, until it is over or memory runs short."""
        kept = headroom()
        while not over.wait(_SECONDS):
            left = memory_left()
            if left is not None and left < kept and self._flag.value == 0:
                self.raised = True
                self._flag.value = _RAISED
                return

    def lower(self) -> None:
        """Lower the flag, unless somebody else has raised it."""
        if self._flag.value == _RAISED:
            self._flag.value = 0


@contextmanager
def memory_watch(flag: int) -> Iterator[Watch]:
    """While the block runs, the flag is raised that a kernel polls if memory runs short.

    Args:
        flag: the address of the flag that Ctrl-C raises; one that stays down is left alone.
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
