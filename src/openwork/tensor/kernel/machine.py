"""The tables of this machine's CPU and GPUs, which default schedules read."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from functools import cache

from openwork.loops.schedule.machines import ANY_CPU, Cpu, Gpu
from openwork.recipes.devices.tables import H200, noted_table, write_table
from openwork.runtime.cache import read_note, write_note
from openwork.runtime.host import launch
from openwork.runtime.host.calibration import recall
from openwork.runtime.host.cpu import gathers_are_fast, has_masked_gathers, selects_stay


@cache
def this_cpu() -> Cpu:
    """What is known about the CPU: what a calibration measured, else what its flags tell."""
    fast = gathers_are_fast()
    cpu = replace(ANY_CPU, selects=selects_stay(), fills=has_masked_gathers() and not fast)
    known = recall()
    if known is None:
        return replace(cpu, gathers=fast)
    launch.share_from(known.serial_below)
    return replace(cpu, gathers=known.gathers, serial_below=known.serial_below)


@cache
def gpu_of(model: str) -> Gpu:
    """The table of a GPU: what a calibration found, else the one that ships."""
    return noted_table(read_note(_note(model))) or H200


def keep_gpu(model: str, table: Gpu) -> None:
    """Note the table of a GPU for this process and later ones."""
    write_note(_note(model), json.loads(write_table(table, model, "by a calibration")))
    gpu_of.cache_clear()


def _note(model: str) -> str:
    return f"gpu-{hashlib.sha256(model.encode()).hexdigest()[:16]}"
