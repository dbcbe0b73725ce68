"""How long the threads of OpenMP wait for work before they sleep: not long.

GNU's threads look for work 300,000 times before they do, about half a millisecond or more. In a
virtual machine with two CPUs, kernels of 60 microseconds were seen to take 700 for seconds on end,
presumably because two threads shared a CPU and the one that looked kept the other from running. A
fifth of that wait still bridges the time between two calls; a tenth did not always, and a thread
that sleeps takes 15 microseconds to wake.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

_ROUNDS = 60_000
_SETTINGS = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


@cache
def shorten_waits() -> None:
    """Load GNU OpenMP with short waits, unless the user has set them; once.

    It reads its settings when it is loaded. Where it is loaded already, it stays as it is; kernels
    of other compilers have an OpenMP of their own.
    """
    if any(os.environ.get(name) for name in _SETTINGS):
        return
    name = _SETTINGS[0]
    os.environ[name] = str(_ROUNDS)
    try:
        ctypes.CDLL("libgomp.so.1")
    except OSError:
        pass
    finally:
        del os.environ[name]
