"""The table of this machine's CPU, which default schedules read."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from openwork.loops.schedule.machines import ANY_CPU, Cpu
from openwork.runtime.host import launch
from openwork.runtime.host.calibration import recall
from openwork.runtime.host.cpu import gathers_are_fast


@cache
def this_cpu() -> Cpu:
    """What is known about the CPU: what a calibration measured, else what its flags tell."""
    known = recall()
    if known is None:
        return replace(ANY_CPU, gathers=gathers_are_fast())
    launch.share_from(known.serial_below)
    return replace(ANY_CPU, gathers=known.gathers, serial_below=known.serial_below)
