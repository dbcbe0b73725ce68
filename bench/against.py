"""Kernels x inputs x peers in one run: one row of measurements per kernel and input."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from hand import bandwidth, room_for_two
from kernels import cases
from measure import Turns, geometric_mean, interleave
from peers import Call, Openwork, Peer, find_peers

OURS = Openwork.name
# Thread pools spin for a few milliseconds before they sleep.
SETTLE = 0.003
# A row with less room for two threads than this is measured again.
QUIET = 1.4
TRIES = 3


@dataclass(frozen=True)
class Row:
    """One kernel on one input, measured."""

    kernel: str
    data: str
    nnz: int
    bound: float  # memory roofline: seconds to move the bytes at the measured bandwidth
    turns: Turns
    room: float
    tries: int

    @property
    def rivals(self) -> list[str]:
        """All contestants but Openwork."""
        return [name for name in self.turns.seconds if name != OURS]

    def ratio(self, rival: str) -> float:
        """The speed-up of Openwork over `rival`."""
        return self.turns.speed(OURS, rival)

    @property
    def best(self) -> str:
        """The fastest of the rivals."""
        return min(self.rivals, key=self.turns.median)


@dataclass(frozen=True)
class Run:
    """All rows, and the setting they were measured in."""

    threads: int
    peers: list[Peer]
    absent: dict[str, str]
    bandwidth: dict[str, float]
    rows: list[Row]

    def kernels(self) -> list[str]:
        """The kernels in the order in which they were first measured."""
        return list(dict.fromkeys(row.kernel for row in self.rows))

    def of(self, kernel: str) -> list[Row]:
        """The rows of one kernel."""
        return [row for row in self.rows if row.kernel == kernel]

    def mean(self, kernel: str, rival: str) -> float | None:
        """The geometric mean of the speed-ups over one rival; None if it lacks the kernel."""
        ratios = [row.ratio(rival) for row in self.of(kernel) if rival in row.rivals]
        return geometric_mean(ratios) if ratios else None


def run(threads: int, quick: bool, only: str = "", new_pattern: bool = False) -> Run:
    """Measure the kernels of one kind, or `only` the rows whose name contains that."""
    peers, absent = find_peers(threads)
    for name, reason in absent.items():
        print(f"{name} is absent: {reason}", file=sys.stderr)
    speeds = bandwidth(threads, 200 if quick else 1000)
    rows: list[Row] = []
    start = time.perf_counter()
    for case in cases(quick, only, new_pattern):
        bound = case.bytes / max(speeds.values())
        turns, room, tries = _quietest(case.contestants(peers), 0.2 if quick else 1.0)
        row = Row(case.kernel, case.data, case.nnz, bound, turns, room, tries)
        rows.append(row)
        _progress(row, time.perf_counter() - start)
    return Run(threads, peers, absent, speeds, rows)


def _quietest(contestants: dict[str, Call], budget: float) -> tuple[Turns, float, int]:
    """Measure until two threads have room, at most TRIES times; keep the try with most room.

    The selection depends on the room alone, never on the times.
    """
    tries: list[tuple[Turns, float]] = []
    while not tries or (tries[-1][1] < QUIET and len(tries) < TRIES):
        before = room_for_two()
        turns = interleave(contestants, budget, SETTLE)
        tries.append((turns, min(before, room_for_two())))
    return *max(tries, key=lambda one: one[1]), len(tries)


def _progress(row: Row, elapsed: float) -> None:
    ours = f"{1e3 * row.turns.median(OURS):.3g} ms"
    rivals = "".join(f", {row.ratio(name):.2f}x {name}" for name in row.rivals)
    line = f"{elapsed:5.0f} s  {row.kernel} on {row.data}: {ours}{rivals}, room {row.room:.1f}"
    line += f" at best of {row.tries}" if row.tries > 1 else ""
    print(line, file=sys.stderr, flush=True)
