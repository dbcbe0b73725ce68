"""Trials: candidates that are compiled, checked and measured, or dropped with the reason."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from openwork.tune.candidate import Candidate
from openwork.tune.model import Estimate

FEWEST = 7  # pairs of calls that say which of two is faster
CLEARLY = 1.01  # times as fast


@dataclass(eq=False)
class Trial:
    """A candidate and what is known of it.

    Args:
        candidate: the candidate.
        estimate: what the cost model says, if it knows.
        statement: the statement with its formats and schedule, once it is compiled.
        kernel: its kernel.
        conversion: seconds that its conversions took.
        samples: seconds of calls.
        pairs: seconds of calls of the default, and of its own right before or after.
        found: seconds from the start of the search to the first of them.
        dropped: why it is out; "" while it is not.
    """

    candidate: Candidate
    estimate: Estimate | None = None
    statement: Any = None
    kernel: Any = None
    conversion: float = 0.0
    samples: list[float] = field(default_factory=list)
    pairs: list[tuple[float, float]] = field(default_factory=list)
    dropped: str = ""
    found: float = 0.0

    @property
    def seconds(self) -> float:
        """The median of its samples; infinite without any."""
        return median(self.samples) if self.samples else float("inf")

    @property
    def quartiles(self) -> tuple[float, float]:
        """Between which half of the samples lie."""
        if not self.samples:
            return float("inf"), float("inf")
        low, high = np.quantile(self.samples, (0.25, 0.75))
        return float(low), float(high)

    def cost(self, uses: float) -> float:
        """Seconds per call, when so many calls share the conversions."""
        return self.seconds + self.conversion / uses

    @property
    def doubt(self) -> float:
        """How far its median may be off: as notches of box plots, which narrow with more samples.

        Two medians differ with 95 % confidence if their notches do not overlap.
        """
        low, high = self.quartiles
        return 1.57 * (high - low) / math.sqrt(len(self.samples)) if self.samples else 0.0

    def beats(self, other: Trial, uses: float) -> bool:
        """Whether it is faster than another by more than both medians are in doubt."""
        return self.cost(uses) + self.doubt < other.cost(uses) - other.doubt

    @property
    def compared(self) -> bool:
        """Whether it was measured in turns with the default often enough."""
        return len(self.pairs) >= FEWEST

    def gain(self, uses: float) -> float:
        """The default's time over its cost: the median of pairs, which other work hits alike."""
        return median(self._ratios(uses))

    def is_faster(self, default: Trial, uses: float) -> bool:
        """Whether it is clearly faster than the default, also on a busy machine."""
        share = self.conversion / uses
        own = [seconds + share for seconds in self.samples]
        return clearly_faster(self._ratios(uses), default.samples, own)

    def _ratios(self, uses: float) -> list[float]:
        return [default / (own + self.conversion / uses) for default, own in self.pairs]

    def release(self) -> None:
        """Let go of the kernel and the converted operands."""
        self.kernel = self.statement = None


def clearly_faster(ratios: Sequence[float], default: Sequence[float], own: Sequence[float]) -> bool:
    """Whether one of two is clearly faster, though other programs may run beside them.

    Three of four pairs of calls say so. And the least disturbed calls do not say the contrary: a
    neighbour may slow one of them down more than the other, such as one with more threads.

    Args:
        ratios: of pairs of calls, one right after the other: the default's seconds over its own.
        default: seconds of all calls of the default.
        own: seconds of all its own.
    """
    clear = float(np.quantile(ratios, 0.25)) > CLEARLY
    return clear and CLEARLY * min(default) > min(own)


def agree(got: Any, want: Any) -> bool:
    """Whether two results are equal up to the order of sums."""
    a, b = (np.asarray(each) for each in (got, want))
    if a.shape != b.shape:
        return False
    if a.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    loose = 1e-3 if a.dtype.itemsize // (2 if a.dtype.kind == "c" else 1) <= 4 else 1e-8
    finite = b[np.isfinite(b)]
    scale = float(np.abs(finite).max()) if finite.size else 1.0
    return bool(np.allclose(a, b, rtol=loose, atol=loose * scale, equal_nan=True))
