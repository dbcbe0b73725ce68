"""What there is to know about the CPU before a compiler is asked."""

from __future__ import annotations

import platform
from functools import cache

# Intel's processors from Skylake to Cascade Lake, by model. Since a correction of 2019 they decode
# code anew, each time, where a jump ends on or crosses a line of 32 bytes. By which of them happen
# to lie there, the same loop took up to 1.4 times as long.
_PICKY = frozenset({0x4E, 0x55, 0x5E, 0x8E, 0x9E, 0xA6})


@cache
def cpu_identity() -> str:
    """A text that differs between CPUs with different features."""
    facts = [platform.machine()]
    try:
        with open("/proc/cpuinfo") as lines:
            # The first processor speaks for all: Linux reports what every core has.
            for line in lines:
                if not line.strip():
                    break
                if not line.startswith(("processor", "cpu MHz", "bogomips", "BogoMIPS")):
                    facts.append(" ".join(line.split()))
    except OSError:
        facts += [platform.processor(), platform.release()]
    return "\n".join(facts)


def jumps_are_picky(identity: str | None = None) -> bool:
    """Whether jumps across lines of 32 bytes are slow on the CPU with this identity, or on ours.

    >>> jumps_are_picky("vendor_id : GenuineIntel\\ncpu family : 6\\nmodel : 85")
    True
    >>> jumps_are_picky("vendor_id : AuthenticAMD\\ncpu family : 25\\nmodel : 85")
    False
    """
    lines = (cpu_identity() if identity is None else identity).splitlines()
    facts = dict(line.split(" : ", 1) for line in lines if " : " in line)
    if facts.get("vendor_id") != "GenuineIntel" or facts.get("cpu family") != "6":
        return False
    return facts.get("model", "").isdigit() and int(facts["model"]) in _PICKY
