"""The table of this machine's CPU, which default schedules read."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from openwork.loops.schedule.machines import ANY_CPU, Cpu
from openwork.runtime.host.cpu import gathers_are_fast


@cache
def this_cpu() -> Cpu:
    """What is known about the CPU without measuring."""
    return replace(ANY_CPU, gathers=gathers_are_fast())
