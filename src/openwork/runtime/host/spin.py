"""How long OpenMP threads spin for work before they sleep: not long.

GNU's threads spin 300,000 times, about half a millisecond or more. In a virtual machine with two
CPUs, kernels of 60 microseconds took 700 for seconds on end, presumably because two threads shared
a CPU and the spinning one kept the other from running. A fifth of that spin still bridges the time
between two calls; a tenth did not always, and a sleeping thread takes 15 microseconds to wake.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

_ROUNDS = 60_000
_SETTINGS = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


@cache
def shorten_waits() -> None:
    """Load GNU OpenMP with a short spin, unless the user has set one; once.

    It reads its settings when it is loaded. If it is loaded already, nothing changes; other
    compilers bring their own OpenMP.
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
