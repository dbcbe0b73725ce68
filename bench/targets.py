"""Target speed-ups: the minimum per rival, and the minimum on any single input."""

from __future__ import annotations

from dataclasses import dataclass

from against import Row, Run
from measure import geometric_mean

BEST = "the best peer"
EVERY = "every other peer"
FLOOR = 0.8


@dataclass(frozen=True)
class Target:
    """Per kernel, the geometric mean of the speed-ups over `rival` is at least `least`."""

    kernels: tuple[str, ...]
    rival: str
    least: float


TARGETS = (
    Target(("SpMV",), "MKL", 0.95),
    Target(("SpMV",), EVERY, 1.0),
    Target(("SpMM 4",), BEST, 0.95),
    Target(("SpMM 32",), BEST, 1.0),
    Target(("SpMM 128",), BEST, 1.0),
    Target(("SDDMM",), "NumPy gather", 20.0),
    Target(("SDDMM",), "torch", 3.0),
    Target(("A*A", "A*A^T"), "SciPy", 1.7),
    Target(("A*A again",), "SciPy", 2.55),
    Target(("A+B", "A.*B"), "SciPy", 2.5),
    Target(("MTTKRP 3", "MTTKRP 4", "MTTKRP 5"), "C by hand", 1.0),
)


@dataclass(frozen=True)
class Verdict:
    """One target and one rival, measured; `mean` is None where the rival is absent."""

    kernel: str
    rival: str
    least: float
    mean: float | None
    worst: Row | None = None
    worst_ratio: float = 0.0

    @property
    def met(self) -> bool | None:
        """Whether the mean is high enough; None if there is none."""
        return None if self.mean is None else round(self.mean, 2) >= self.least


def verdicts(run: Run) -> list[Verdict]:
    """A verdict per target, kernel and rival."""
    found = []
    for target in TARGETS:
        for kernel in (k for k in target.kernels if run.of(k)):
            found += [
                _verdict(run, kernel, name, target.least) for name in _rivals(run, target, kernel)
            ]
    return found


def below_floor(run: Run) -> list[tuple[Row, float]]:
    """Rows below FLOOR of the fastest peer, worst first."""
    rows = [(row, row.ratio(row.best)) for row in run.rows if row.rivals]
    return sorted((pair for pair in rows if pair[1] < FLOOR), key=lambda pair: pair[1])


def _rivals(run: Run, target: Target, kernel: str) -> list[str]:
    if target.rival != EVERY:
        return [target.rival]
    names = dict.fromkeys(name for row in run.of(kernel) for name in row.rivals)
    return [name for name in names if name != "MKL"]


def _verdict(run: Run, kernel: str, rival: str, least: float) -> Verdict:
    pairs = []
    for row in run.of(kernel):
        if rival == BEST and row.rivals:
            pairs.append((row.ratio(row.best), row))
        elif rival in row.rivals:
            pairs.append((row.ratio(rival), row))
    if not pairs:
        return Verdict(kernel, rival, least, None)
    worst_ratio, worst = min(pairs, key=lambda pair: pair[0])
    mean = geometric_mean([ratio for ratio, _ in pairs])
    return Verdict(kernel, rival, least, mean, worst, worst_ratio)
