"""What threads and memory take on this machine, measured on demand and kept beside the cache.

`python -m openwork calibrate` measures, in a tenth of a second. Nothing else does: a call is never
slow because a machine is not known. Default schedules read the result; without one they use shipped
values. The file is data: numbers, checked when they are read, for one version of this module, one
CPU and one number of CPUs.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from openwork.frozen import frozen
from openwork.render.c.helpers import LIBRARY
from openwork.runtime import cache
from openwork.runtime.host.cpu import cpu_digest, gathers_are_fast
from openwork.runtime.host.library import load
from openwork.runtime.host.threads import available_cpus

_VERSION = 2
# Threads are worth it when they save so many times what it takes to start them. Calls that follow
# a pause find them asleep, or another process on their CPU.
_MARGIN = 4
_LEAST, _MOST = 5_000, 200_000
# Where a processor has gathers of little use, masked vectors are slower than this.
_USEFUL = 0.8

# Short rows, of which no two have the same length, and a vector that fits into an L2 cache.
_ROWS, _LENGTHS, _COLUMNS = 8_000, (2, 12), 30_000
_READ = 8_000_000  # elements: more than most caches hold


@frozen
class Calibration:
    """Measurements of a machine."""

    cpus: int
    fork_join: float  # of all threads, in microseconds
    fork_join_two: float
    bandwidth: float  # of all threads, in bytes per nanosecond
    bandwidth_one: float
    scalar: float  # entries of short rows per microsecond, one after the other
    masked: float  # in vectors with masks

    @property
    def gathers(self) -> bool:
        """Whether sums of gathered products belong into masked vectors."""
        return gathers_are_fast() and self.masked > _USEFUL * self.scalar

    @property
    def serial_below(self) -> int:
        """The entries from which threads save several times what it takes to start them."""
        if self.cpus < 2:
            return _MOST
        rate = max(self.scalar, self.masked)
        saved = 1 - 1 / self.cpus
        return int(min(_MOST, max(_LEAST, _MARGIN * self.fork_join * rate / saved)))

    def __str__(self) -> str:
        return (
            f"fork and join {self.fork_join_two:.1f} us for two threads, {self.fork_join:.1f} us "
            f"for {self.cpus}\n"
            f"memory {self.bandwidth_one:.1f} GB/s for one thread, {self.bandwidth:.1f} GB/s for "
            f"{self.cpus}\n"
            f"short rows {self.scalar:.0f} entries per us, {self.masked:.0f} in masked vectors\n"
            f"so threads share loops from {self.serial_below:,} elements on, and rows are summed "
            f"{'in masked vectors' if self.gathers else 'one element after the other'}"
        )


def recall() -> Calibration | None:
    """What was measured on this machine; None if nothing was, or the file is damaged."""
    facts = cache.read_note(_name())
    if facts is None or facts.get("version") != _VERSION:
        return None
    found = {field.name: facts.get(field.name) for field in fields(Calibration)}
    if not all(_sound(value) for value in found.values()):
        return None
    known = Calibration(**{n: float(str(v)) for n, v in found.items() if n != "cpus"}, cpus=_cpus())
    return known if found["cpus"] == known.cpus else None


def calibrate() -> Calibration:
    """Measure this machine, and keep the result.

    Raises:
        ToolchainError: E601, where there is no C compiler.
    """
    text = Path(__file__).with_name("calibration.c").read_text()
    masked = LIBRARY.text("masked", "float64")
    types = "typedef __INT32_TYPE__ int32_t;\ntypedef __INT64_TYPE__ int64_t;\n"
    library = load(f"{types}{masked}{text}")
    threads = _cpus()
    scalar, vectors = (_rate(library, name) for name in ("rows_scalar", "rows_masked"))
    known = Calibration(
        cpus=threads,
        fork_join=_fork_join(library, threads),
        fork_join_two=_fork_join(library, min(2, threads)),
        bandwidth=_bandwidth(library, threads),
        bandwidth_one=_bandwidth(library, 1),
        scalar=scalar,
        masked=vectors,
    )
    cache.write_note(_name(), {"version": _VERSION, **asdict(known)})
    return known


def _name() -> str:
    return f"calibration-{cpu_digest()}"


def _cpus() -> int:
    """The CPUs that this process may run on, whatever number of threads is set."""
    return available_cpus()


def _sound(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(float(str(value))) and float(str(value)) > 0


def _function(library: ctypes.CDLL, name: str) -> Callable[..., float]:
    function: Any = getattr(library, name)
    function.restype = ctypes.c_double
    return function  # type: ignore[no-any-return]


def _fork_join(library: ctypes.CDLL, threads: int) -> float:
    measure = _function(library, "fork_join")
    measure(ctypes.c_int32(threads))
    return measure(ctypes.c_int32(threads)) / 1e3


def _bandwidth(library: ctypes.CDLL, threads: int) -> float:
    array, total = np.ones(_READ), ctypes.c_double()
    arguments = (_address(array), ctypes.c_int64(_READ), ctypes.c_int32(threads))
    measure = _function(library, "read_all")
    return array.nbytes / min(measure(*arguments, ctypes.byref(total)) for _ in range(4))


def _rate(library: ctypes.CDLL, name: str) -> float:
    draw = np.random.default_rng(0)
    low, high = _LENGTHS
    pos = np.r_[0, np.cumsum(draw.integers(low, high + 1, _ROWS))].astype(np.int32)
    crd = draw.integers(0, _COLUMNS, pos[-1]).astype(np.int32)
    values, x, y = np.ones(len(crd)), np.ones(_COLUMNS), np.ones(_ROWS)
    places = [_address(array) for array in (pos, crd, values, x, y)]
    measure = _function(library, name)
    return 1e3 * len(crd) / min(measure(*places, ctypes.c_int64(_ROWS)) for _ in range(20))


def _address(array: np.ndarray[Any, Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
