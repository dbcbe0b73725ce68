"""Fitting the constants of a device's table to measured times, so that defaults lose least.

What a default loses is its regret: the time of what a table chooses over that of the best that was
measured. A choice is a pure function of numbers, so a table is tried in milliseconds, and the fit
moves one constant at a time, or two, as long as that helps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import exp, log
from random import Random

from openwork.frozen import frozen
from openwork.loops.schedule.machines import Gpu
from openwork.loops.schedule.statistics import Rows
from openwork.recipes.devices.tables import constants, with_constant
from openwork.recipes.products import Pick, Product
from openwork.recipes.row_model import RowModel

UNKNOWN = 2.0  # the regret of what was not measured: it is seldom as good as what was
_FACTORS = (0.95, 1.05, 0.85, 1.18, 0.7, 1.4, 0.5, 2.0, 0.3, 3.3)  # the nearest first
_ROUNDS, _PAIRS = 4, 300
_WORST = 2.0  # how much the square of a loss counts beside it: a bad default hurts more
_WORTHWHILE = 1e-4  # the gain that a constant is moved for

Schedules = Callable[[Pick, "Case"], str]


@frozen
class Case:
    """A product of one matrix, and how long it took under many schedules.

    Args:
        matrix: its name.
        kind: matrices of the same kind are left out together in a validation.
        dtype: of all operands.
        columns: of the dense operand; 0 for a vector.
        across: rows of the dense operand.
        entries: of the matrix.
        rows: their distribution.
        times: of each schedule, by its text, in any unit.
    """

    matrix: str
    kind: str
    dtype: str
    columns: int
    across: int
    entries: int
    rows: Rows
    times: Mapping[str, float]

    def pick(self, gpu: Gpu) -> Pick:
        """What a table chooses."""
        rows, size = RowModel(self.entries, self.rows, gpu), 4 if self.dtype == "float32" else 8
        return Product(rows, size, self.columns, self.across, size == 4).pick()

    @property
    def best(self) -> float:
        """The least time."""
        return min(self.times.values())


@frozen
class Regret:
    """What a table loses: the geometric mean over cases, and the worst."""

    mean: float
    worst: float

    @classmethod
    def of(cls, regrets: Iterable[float]) -> Regret:
        """Of these cases."""
        found = list(regrets)
        return cls(exp(sum(map(log, found)) / len(found)), max(found))

    def __str__(self) -> str:
        return f"{self.mean:.3f}, worst {self.worst:.2f}"


@frozen
class Fit:
    """Fits tables to cases.

    Args:
        cases: what was measured.
        schedule: the text of the schedule that a pick means for a case.
    """

    cases: Sequence[Case]
    schedule: Schedules

    def regret(self, case: Case, gpu: Gpu) -> float:
        """The time of what a table chooses over the best."""
        known = case.times.get(self.schedule(case.pick(gpu), case))
        return UNKNOWN if known is None else known / case.best

    def loss(self, gpu: Gpu, cases: Sequence[Case]) -> float:
        """What the fit makes small."""
        losses = [log(self.regret(case, gpu)) for case in cases]
        return sum(each + _WORST * each * each for each in losses) / len(losses)

    def table(self, start: Gpu, cases: Sequence[Case] | None = None, seed: int = 0) -> Gpu:
        """The table nearest to `start` that loses little on `cases`, or on all."""
        chosen = self.cases if cases is None else cases
        found, least = start, self.loss(start, chosen)
        rng = Random(seed)  # noqa: S311 (an order, no secret)
        for _ in range(_ROUNDS):
            before, active = least, list[str]()
            for name, value in constants(found).items():
                tried = [with_constant(found, name, value * factor) for factor in _FACTORS]
                losses = [self.loss(table, chosen) for table in tried]
                if any(loss != least for loss in losses):
                    active.append(name)
                if min(losses) < least - _WORTHWHILE:
                    at = next(
                        n for n, each in enumerate(losses) if each < min(losses) + _WORTHWHILE
                    )
                    found, least = tried[at], losses[at]
            for _ in range(_PAIRS if len(active) > 1 else 0):  # what one alone would make worse
                made = found
                for name in rng.sample(active, 2):
                    made = with_constant(made, name, constants(made)[name] * rng.choice(_FACTORS))
                loss = self.loss(made, chosen)
                if loss < least - _WORTHWHILE:
                    found, least = made, loss
            if before - least < _WORTHWHILE:
                break
        return found

    def left_out(self, start: Gpu) -> dict[str, list[float]]:
        """The regrets of each kind of matrices under the table that is fitted to the others."""
        kinds = sorted({case.kind for case in self.cases})
        found = {}
        for kind in kinds:
            table = self.table(start, [c for c in self.cases if c.kind != kind])
            found[kind] = [self.regret(c, table) for c in self.cases if c.kind == kind]
        return found


def shaken(gpu: Gpu, seed: int, most: float = 3.0) -> Gpu:
    """A table whose constants are all wrong, by factors up to `most`: a start that knows little."""
    rng = Random(seed)  # noqa: S311 (no secret)
    for name, value in constants(gpu).items():
        gpu = with_constant(gpu, name, value * exp(rng.uniform(-log(most), log(most))))
    return gpu
