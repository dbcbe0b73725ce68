"""A watch over memory while a kernel makes a result whose size nobody knows.

Systems hand out more memory than there is, and end a process when it uses what it was given. So a
thread looks from time to time how much is left, and stops the kernel as Ctrl-C would.
"""

from __future__ import annotations

import ctypes
import threading
from types import TracebackType

from openwork.runtime.interrupt import QUIET
from openwork.runtime.memory import available, installed

_SECONDS = 0.01  # between two looks
# What is left to the rest of the system: far more than threads fill between two looks.
_SHARE, _LEAST = 32, 1 << 28
_RAISED = 2  # not 1, which means Ctrl-C


class memory_watch:
    """While the block runs, the flag is raised that a kernel polls if memory runs short.

    Args:
        flag: the address of the flag that Ctrl-C raises; one that stays down is left alone.
    """

    def __init__(self, flag: int) -> None:
        self._own = ctypes.c_int32(0)
        shared = flag != QUIET
        self.address = flag if shared else ctypes.addressof(self._own)
        self._flag = ctypes.c_int32.from_address(self.address)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="memory watch", daemon=True)
        self.raised = False

    def __enter__(self) -> memory_watch:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        if self._flag.value == _RAISED:
            self._flag.value = 0

    def _look(self) -> None:
        kept = max(_LEAST, installed() // _SHARE)
        while not self._over.wait(_SECONDS):
            left = available()
            if left is not None and left < kept and self._flag.value == 0:
                self.raised = True
                self._flag.value = _RAISED
                return
