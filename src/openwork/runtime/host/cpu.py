"""Facts about the CPU, without asking a compiler."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from pathlib import Path

# What Linux does about gather data sampling, which concerns processors before Sapphire Rapids.
_GATHERS = Path("/sys/devices/system/cpu/vulnerabilities/gather_data_sampling")

# Intel processors from Skylake to Cascade Lake, by model. Since a microcode fix of 2019 (the jump
# conditional code erratum) they do not cache decoded code where a jump crosses or ends on a 32-byte
# boundary. Depending on alignment, the same loop took up to 1.4 times as long.
_PICKY = frozenset({0x4E, 0x55, 0x5E, 0x8E, 0x9E, 0xA6})


# Intel processors with AVX-512 whose gathers leak data unless microcode slows them down, to 60
# cycles for eight numbers: Skylake-X to Rocket Lake, by model.
_LEAKY = frozenset({0x55, 0x6A, 0x6C, 0x7D, 0x7E, 0x8C, 0x8D, 0xA7})


@cache
def cpu_identity() -> str:
    """A text that differs between CPUs with different features."""
    facts = [platform.machine()]
    try:
        with open("/proc/cpuinfo") as lines:
            # The first processor is enough: Linux reports the features that all cores share.
            for line in lines:
                if not line.strip():
                    break
                if not line.startswith(("processor", "cpu MHz", "bogomips", "BogoMIPS")):
                    facts.append(" ".join(line.split()))
    except OSError:
        facts += [platform.processor(), platform.release()]
    return "\n".join(facts)


def cpu_digest() -> str:
    """A short name for the CPU's features."""
    return _digest(cpu_identity())


@cache
def _digest(identity: str) -> str:
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def gathers_are_fast(identity: str | None = None, mitigated: str | None = None) -> bool:
    """Whether vectors are gathered with masks, and faster than element by element; here by default.

    Processors with AVX-512 do both, unless microcode slows gathers down (gather data sampling). A
    virtual machine's kernel may not know that, and says that it is not affected.

    >>> gathers_are_fast("flags : avx512f avx512vl", "Not affected")
    True
    >>> gathers_are_fast("flags : avx512f avx512vl", "Mitigation: Microcode")
    False
    >>> intel = "vendor_id : GenuineIntel\\ncpu family : 6"
    >>> skylake = f"{intel}\\nmodel : 85\\nflags : avx512f avx512vl"
    >>> gathers_are_fast(skylake, "Not affected"), gathers_are_fast(skylake, "Vulnerable")
    (False, True)
    """
    identity = cpu_identity() if identity is None else identity
    if not has_masked_gathers(identity):
        return False
    if mitigated is None:
        try:
            mitigated = _GATHERS.read_text()
        except OSError:
            mitigated = ""  # an old Linux, or another system: it says nothing
    if _is_intel(identity, _LEAKY):
        return mitigated.startswith("Vulnerable")
    return not mitigated.startswith(("Mitigation", "Unknown"))


def has_masked_gathers(identity: str | None = None) -> bool:
    """Whether vectors may be gathered with masks at all, fast or not; here by default."""
    facts = _facts(cpu_identity() if identity is None else identity)
    return {"avx512f", "avx512vl"} <= set(facts.get("flags", "").split())


def selects_stay(machine: str | None = None) -> bool:
    """Whether compilers select between two values without a branch when asked to; here by default.

    For x86 they seldom do.

    >>> selects_stay("aarch64"), selects_stay("x86_64")
    (True, False)
    """
    name = (platform.machine() if machine is None else machine).lower()
    return name not in ("x86_64", "amd64", "x86", "i386", "i686")


def jumps_are_picky(identity: str | None = None) -> bool:
    """Whether jumps across 32-byte boundaries are slow on this CPU; ours by default.

    >>> jumps_are_picky("vendor_id : GenuineIntel\\ncpu family : 6\\nmodel : 85")
    True
    >>> jumps_are_picky("vendor_id : AuthenticAMD\\ncpu family : 25\\nmodel : 85")
    False
    """
    return _is_intel(cpu_identity() if identity is None else identity, _PICKY)


def _is_intel(identity: str, models: frozenset[int]) -> bool:
    """Whether this is one of these models of Intel's."""
    facts = _facts(identity)
    if facts.get("vendor_id") != "GenuineIntel" or facts.get("cpu family") != "6":
        return False
    return facts.get("model", "").isdigit() and int(facts["model"]) in models


def _facts(identity: str) -> dict[str, str]:
    return dict(line.split(" : ", 1) for line in identity.splitlines() if " : " in line)
