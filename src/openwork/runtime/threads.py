"""How many threads a kernel may use.

A child made by `os.fork` always gets one. GNU OpenMP keeps the threads of its last parallel region
for the next; in a forked child they are gone, and a second parallel region would wait for them
for ever. Processes that are spawned, or that replace themselves by `exec`, are not affected.
"""

from __future__ import annotations

import operator
import os
from math import inf
from time import monotonic
from typing import SupportsIndex

from openwork.errors import ToolchainError

_chosen: int | None = None
_forked = False


def thread_count() -> int:
    """The number of threads for the next kernel, at least 1.

    In a child made by fork it is 1. Otherwise the first of these that is given: the
    last `set_num_threads`, `OPENWORK_NUM_THREADS`, `OMP_NUM_THREADS`, the CPUs that this process
    may run on. Asking costs a few microseconds, so ask only for a kernel that is worth threads.

    Raises:
        ToolchainError: E605, when `OPENWORK_NUM_THREADS` is not a positive whole number.
    """
    if _forked:
        return 1
    if _chosen is not None:
        return _chosen
    ours = os.environ.get("OPENWORK_NUM_THREADS")
    if ours:
        count = _positive(ours)
        if count is None:
            raise _refusal(f"OPENWORK_NUM_THREADS is {ours!r}")
        return count
    # OMP_NUM_THREADS may list a number for each depth of nesting; the first is the outermost. It
    # is not ours to police: like OpenMP itself, we pass over what cannot be read.
    listed = os.environ.get("OMP_NUM_THREADS")
    theirs = _positive(listed.split(",")[0]) if listed else None
    return _available() if theirs is None else theirs


def set_num_threads(count: SupportsIndex | None) -> None:
    """Let kernels of this process use `count` threads; None goes back to the environment.

    Raises:
        ToolchainError: E605, when `count` is not a positive whole number.
    """
    global _chosen
    if count is None:
        _chosen = None
        return
    try:
        number = operator.index(count)
    except TypeError:
        number = 0
    if number < 1:
        raise _refusal(f"set_num_threads was given {count!r}")
    _chosen = number


def _positive(text: str) -> int | None:
    try:
        count = int(text)
    except ValueError:
        return None
    return count if count > 0 else None


_CURRENT = 0.05  # seconds for which the number of CPUs is taken to stay the same
_asked: tuple[float, int] = (-inf, 1)  # when, and what the answer was


def _available() -> int:
    global _asked
    when, count = _asked
    now = monotonic()
    if now - when > _CURRENT:
        known = hasattr(os, "sched_getaffinity")
        count = len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1
        _asked = now, max(1, count)
    return _asked[1]


def _refusal(what: str) -> ToolchainError:
    return ToolchainError(
        f"{what}, and a number of threads is a whole number above zero",
        code="E605",
        hint="give 1 for serial kernels, or leave it out to use every CPU of this process",
    )


def _mark_forked() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_forked)
