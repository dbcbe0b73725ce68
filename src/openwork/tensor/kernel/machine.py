"""The table of this machine's CPU, which default schedules read."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from openwork.loops.schedule.machines import ANY_CPU, Cpu
from openwork.runtime.host import launch
from openwork.runtime.host.calibration import recall
from openwork.runtime.host.cpu import gathers_are_fast, selects_stay


@cache
def this_cpu() -> Cpu:
    """What is known about the CPU: what a calibration measured, else what its flags tell."""
    cpu = replace(ANY_CPU, selects=selects_stay())
    known = recall()
    if known is None:
        return replace(cpu, gathers=gathers_are_fast())
    launch.share_from(known.serial_below)
    return replace(cpu, gathers=known.gathers, serial_below=known.serial_below)
