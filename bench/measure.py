"""Timing on a noisy machine: contestants take turns, and ratios are taken within a turn."""

from __future__ import annotations

import math
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy

import openwork as ow
from openwork.runtime.host.toolchain import find_toolchain

LEAST, MOST = 5, 41


@dataclass(frozen=True)
class Turns:
    """The seconds of each contestant, per turn."""

    seconds: Mapping[str, list[float]]

    def median(self, name: str) -> float:
        """The median time of one contestant."""
        return statistics.median(self.seconds[name])

    def speed(self, name: str, over: str) -> float:
        """The speed-up of `name` over `over`: the median over the turns."""
        pairs = zip(self.seconds[over], self.seconds[name], strict=True)
        return statistics.median(theirs / ours for theirs, ours in pairs)


def interleave(
    contestants: Mapping[str, Callable[[], object]], budget: float, settle: float = 0.0
) -> Turns:
    """Time the contestants in turns for about `budget` seconds, each once per turn.

    Each turn has a new order, so that none always follows the same neighbour. The first turn warms
    the caches and does not count.

    Args:
        contestants: what to call, by name.
        budget: seconds for all turns.
        settle: seconds of warm-up before a contestant is timed, at least one call; 0 for none.
            Thread pools spin for a while after a call, on cores that the next contestant needs.
    """
    names = list(contestants)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    start = time.perf_counter()
    for call in contestants.values():
        _settle(call, settle)
        call()
    one_turn = time.perf_counter() - start
    rng = random.Random(0)
    for _ in range(int(min(max(budget / one_turn, LEAST), MOST))):
        for name in rng.sample(names, len(names)):
            _settle(contestants[name], settle)
            start = time.perf_counter()
            contestants[name]()
            seconds[name].append(time.perf_counter() - start)
    return Turns(seconds)


def _settle(call: Callable[[], object], seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        call()


def geometric_mean(numbers: Sequence[float]) -> float:
    """The geometric mean: that of r and 1/r is 1."""
    return math.exp(statistics.fmean(map(math.log, numbers)))


def environment() -> str:
    """The machine and the versions, as Markdown."""
    toolchain = find_toolchain()
    assert toolchain is not None, "benchmarks need a C compiler"
    compiler = toolchain.version.splitlines()[0]
    flags = " ".join((*toolchain.flags(), *toolchain.libraries))
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    facts = {
        "processor": f"{_processor()}, {ow.thread_count()} CPUs for this process, load {load}",
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "compiler": f"{compiler}; `{flags}`",
        "versions": f"Openwork {ow.__version__}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}, SciPy {scipy.__version__}",
    }
    return "\n".join(f"- {name}: {text}" for name, text in facts.items())


def _processor() -> str:
    """The name of the CPU; where Linux gives none (Arm), its implementer and part numbers."""
    info = Path("/proc/cpuinfo")
    if not info.is_file():
        return platform.processor() or platform.machine()
    lines = [line.partition(":") for line in info.read_text().splitlines()]
    facts = {name.strip(): text.strip() for name, _, text in lines}
    if "model name" in facts:
        return facts["model name"]
    return f"Arm implementer {facts.get('CPU implementer')} part {facts.get('CPU part')}"
