"""Trials: candidates that are compiled, checked and measured, or dropped with the reason."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from openwork.tune.candidate import Candidate
from openwork.tune.model import Estimate


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
        found: seconds from the start of the search to the first of them.
        dropped: why it is out; "" while it is not.
    """

    candidate: Candidate
    estimate: Estimate | None = None
    statement: Any = None
    kernel: Any = None
    conversion: float = 0.0
    samples: list[float] = field(default_factory=list)
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

    def release(self) -> None:
        """Let go of the kernel and the converted operands."""
        self.kernel = self.statement = None


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
