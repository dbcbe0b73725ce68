"""How much memory and how many threads this process may have.

The tightest limit counts: of the machine, of each control group of the process, and of the process
itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from math import inf
from pathlib import Path
from time import monotonic

from openwork.runtime.cgroups import PROCESS, Group, groups

try:
    import resource
except ImportError:  # not on every system
    resource = None  # type: ignore[assignment]

_MEMINFO = Path("/proc/meminfo")
# File pages, which the kernel can reclaim. In version 1, the sums over all groups below have
# other names.
_GIVEN_UP = {2: ("inactive_file", "active_file"), 1: ("total_inactive_file", "total_active_file")}
# Files with a group's memory limits, by version: above "high" processes are only throttled, but
# almost to a standstill.
_MOST = {2: ("memory.max", "memory.high"), 1: ("memory.limit_in_bytes",)}
_TAKEN = {2: "memory.current", 1: "memory.usage_in_bytes"}


def memory_left(process: Path = PROCESS, meminfo: Path = _MEMINFO) -> int | None:
    """The bytes available now without swapping; None where the system does not say."""
    known = [_of_machine(meminfo), *_of_groups(process), *_of_process(process)]
    return min((left for left in known if left is not None), default=None)


def memory_total(process: Path = PROCESS) -> int | None:
    """The most bytes that this process could have; None where the system does not say."""
    known = (installed(), *(most for _, most in _limited(process)))
    return min((most for most in known if most), default=None)


def installed() -> int:
    """The memory of the machine, in bytes; 0 where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 0


def threads_left(process: Path = PROCESS) -> int | None:
    """How many more threads the control groups allow; None if there is no limit."""
    pairs = ((g.number("pids.max"), g.number("pids.current")) for g in groups("pids", process))
    left = [most - (taken or 0) for most, taken in pairs if most is not None]
    return max(0, min(left)) if left else None


def _of_machine(meminfo: Path) -> int | None:
    try:
        with meminfo.open(encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return installed() or None


def _of_groups(process: Path) -> Iterator[int]:
    """The bytes that each group may still use."""
    for group, most in _limited(process):
        taken = group.number(_TAKEN[group.version])
        if taken is not None:
            details = group.numbers("memory.stat")
            given_up = sum(details.get(name, 0) for name in _GIVEN_UP[group.version])
            yield max(0, most - taken + min(given_up, taken))


def _limited(process: Path) -> tuple[tuple[Group, int], ...]:
    """The groups with a limit below the machine's memory, and their limits."""
    return _limited_now(process, int(monotonic()))  # limits seldom change, and the files are slow


@lru_cache(maxsize=16)
def _limited_now(process: Path, now: int) -> tuple[tuple[Group, int], ...]:
    whole = installed() or inf
    pairs = ((group, _most(group)) for group in groups("memory", process))
    return tuple((group, most) for group, most in pairs if most is not None and most < whole)


def _most(group: Group) -> int | None:
    found = [group.number(name) for name in _MOST[group.version]]
    if group.version == 1:  # its ancestors may be invisible here
        found.append(group.numbers("memory.stat").get("hierarchical_memory_limit"))
    return min((most for most in found if most is not None), default=None)


def _of_process(process: Path) -> Iterator[int]:
    """What the limits of the process leave: of address space, and of data."""
    if resource is None:
        return
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    if all(limit == resource.RLIM_INFINITY for limit in limits):
        return
    try:
        words = (process / "statm").read_text().split()
    except OSError:
        return
    for limit, pages in zip(limits, (int(words[0]), int(words[5])), strict=True):
        if limit != resource.RLIM_INFINITY:
            yield max(0, limit - pages * resource.getpagesize())
