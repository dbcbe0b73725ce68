"""How many threads a kernel may use.

Where loops run on the threads of a compiler's OpenMP, and not on our pool, a child of `os.fork`
always gets one: OpenMP keeps the threads of its last parallel region for the next; in the child
they are gone, and a second parallel region would wait for them forever. Processes that are spawned,
or call `exec`, are not affected.
"""

from __future__ import annotations

import operator
import os
import warnings
from functools import cache
from math import inf
from sys import maxsize
from time import monotonic
from typing import SupportsIndex

import numpy as np

from openwork.errors import ToolchainError
from openwork.runtime.limits import threads_left

_chosen: int | None = None
_forked = _by_the_compiler = False
# More threads per CPU than this are a typing error, and end the process where it may not start
# them; but so many threads are always allowed.
_MOST_PER_CPU, _MOST_ANYWAY = 4, 256


def thread_count() -> int:
    """The number of threads for the next kernel, at least 1.

    In a forked child it may be 1, see above. Otherwise it is the first of these that is set: the
    last `set_num_threads`, `OPENWORK_NUM_THREADS`, `OMP_NUM_THREADS`, the CPUs that this process
    may run on. Values of the environment above `most_threads()` are reduced to that, with a
    warning.
    A call costs a few microseconds, so call it only for a kernel that is worth threads.

    Raises:
        ToolchainError: E605, when `OPENWORK_NUM_THREADS` is not a positive whole number.
    """
    if _forked and _by_the_compiler:
        return 1
    if _chosen is not None:
        return _chosen
    ours = os.environ.get("OPENWORK_NUM_THREADS")
    if ours:
        count = _positive(ours)
        if count is None:
            raise _refusal(f"OPENWORK_NUM_THREADS is {ours!r}")
        return _bounded("OPENWORK_NUM_THREADS", count)
    # OMP_NUM_THREADS may list a number for each nesting depth; the first is the outermost. It is
    # not our variable: like OpenMP itself, we ignore what cannot be parsed.
    listed = os.environ.get("OMP_NUM_THREADS")
    theirs = _positive(listed.split(",")[0]) if listed else None
    return available_cpus() if theirs is None else _bounded("OMP_NUM_THREADS", theirs)


def set_num_threads(count: SupportsIndex | None) -> None:
    """Let kernels of this process use `count` threads; None goes back to the environment.

    Raises:
        ToolchainError: E605, when `count` is not a positive whole number, or above
            `most_threads()`.
    """
    global _chosen
    if count is None:
        _chosen = None
        return
    try:
        number = 0 if isinstance(count, bool | np.bool_) else operator.index(count)
    except TypeError:
        number = 0
    if number < 1:
        raise _refusal(f"set_num_threads was given {count!r}")
    if number > most_threads():
        raise ToolchainError(
            f"set_num_threads was given {number}, but this process may have {most_threads()}",
            code="E605",
            hint=f"it has {available_cpus()} CPUs; more threads than CPUs only wait for each other",
        )
    _chosen = number


def most_threads() -> int:
    """The largest number of threads for a kernel.

    Four per CPU of the machine, or 256 if that is more; fewer where control groups limit this
    process.
    """
    most = max(_MOST_ANYWAY, _MOST_PER_CPU * (os.cpu_count() or 1))
    return min(most, _startable())


@cache
def _startable() -> int:
    """How many threads this process may have, this one included."""
    left = threads_left()
    return 1 + (maxsize - 1 if left is None else left)


@cache
def _bounded(variable: str, count: int) -> int:
    """The count of an environment variable, at most `most_threads()`."""
    most = most_threads()
    if count > most:
        warnings.warn(
            f"E605: {variable} is {count}, but this process may have {most} threads: it uses those",
            RuntimeWarning,
            stacklevel=3,
        )
    return min(count, most)


def _positive(text: str) -> int | None:
    try:
        count = int(text)
    except ValueError:
        return None
    return count if count > 0 else None


_CURRENT = 0.05  # seconds for which the number of CPUs is cached
_asked: tuple[float, int] = (-inf, 1)  # the time, and the number of CPUs then


def available_cpus() -> int:
    """The number of CPUs that this process may run on; cached for a moment."""
    global _asked
    when, count = _asked
    now = monotonic()
    if now - when > _CURRENT:
        known = hasattr(os, "sched_getaffinity")
        count = len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1
        _asked = now, max(1, min(count, _startable()))
    return _asked[1]


def _refusal(what: str) -> ToolchainError:
    return ToolchainError(
        f"{what}, but the number of threads must be a positive integer",
        code="E605",
        hint="use 1 for serial kernels, or leave it out to use every CPU of this process",
    )


def leave_to_the_compiler() -> None:
    """From now on some loops run on threads of a compiler's OpenMP."""
    global _by_the_compiler
    _by_the_compiler = True


def _mark_forked() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_forked)
