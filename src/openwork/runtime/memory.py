"""Refusing an allocation that cannot succeed, before the system kills the process for it."""

from __future__ import annotations

import os

_SMALL = 1 << 28


def check_memory(size: int, what: str) -> None:
    """Raise `MemoryError` if `size` bytes for `what` are more than the machine has left."""
    if size < _SMALL:
        return
    left = _available()
    if left is not None and size > left:
        raise MemoryError(
            f"{what} needs {size / 2**30:.1f} GiB, and {left / 2**30:.1f} GiB are free"
        )


def _available() -> int | None:
    """Memory that can be had without swapping, in bytes; None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None
