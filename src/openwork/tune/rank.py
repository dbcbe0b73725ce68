"""In which order candidates are tried: the most promising of each kind first, by a cost model.

Candidates that do asymptotically more work than the default are dropped without being compiled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Any

from openwork.errors import OpenworkError
from openwork.tensor.kernel.target import Target
from openwork.tensor.measure import statistics_of
from openwork.tensor.operand import Operand
from openwork.tensor.statement import Statement
from openwork.tune.candidate import Candidate, operands_of
from openwork.tune.model import (
    WORSE,
    Estimate,
    Loops,
    Rates,
    rates_of_cpu,
    rates_of_gpu,
    tuning_cost,
)
from openwork.tune.trial import Trial

_COSTLY = 0.15  # of the budget: candidates that take longer to try come last


class Ranking:
    """Ranks the candidates of a statement."""

    def __init__(self, stmt: Statement, target: Target, uses: float, budget: float) -> None:
        self._stmt, self._target = stmt, target
        self._uses, self._budget = uses, budget
        self.rates: Rates = rates_of_gpu(target.table) if target.gpu else rates_of_cpu()
        self.default = self.estimate(stmt)

    def estimate(self, stmt: Any) -> Estimate | None:
        """What a statement costs; None for what the model does not know."""
        try:
            plan = stmt._planned_for(self._target, exact=False).plan
            return Loops(plan, statistics_of(stmt.assignment), self.rates).estimate()
        except (OpenworkError, AttributeError):
            return None

    def trials(
        self,
        candidates: Iterable[Candidate],
        operands: Mapping[tuple[str, str], Operand],
        planned: Mapping[Candidate, Statement],
    ) -> list[Trial]:
        """Trials of candidates in the order to try them; hopeless ones are dropped.

        Args:
            candidates: what to rank.
            operands: those that are converted already, by name and format.
            planned: statements of candidates that are scheduled already.
        """
        found = [self._trial(each, operands, planned.get(each)) for each in candidates]
        dropped = [trial for trial in found if trial.dropped]
        sound = [trial for trial in found if not trial.dropped]
        sound.sort(key=self._cost)
        cheap = [t for t in sound if self._effort(t, operands) <= _COSTLY * self._budget]
        costly = [t for t in sound if self._effort(t, operands) > _COSTLY * self._budget]
        return [*_in_turns(cheap), *costly, *dropped]

    def _cost(self, trial: Trial) -> float:
        seconds = float("inf") if trial.estimate is None else trial.estimate.seconds
        return seconds + (trial.conversion / self._uses)

    def _effort(self, trial: Trial, operands: Mapping[tuple[str, str], Operand]) -> float:
        """Seconds that trying it takes."""
        own = operands_of(self._stmt)
        new = [name for name, text in trial.candidate.formats if (name, text) not in operands]
        entries = sum(float(getattr(own[name], "nnz", 0)) for name in new if name in own)
        return tuning_cost(entries, bool(new))

    def _trial(
        self,
        candidate: Candidate,
        operands: Mapping[tuple[str, str], Operand],
        made: Statement | None,
    ) -> Trial:
        trial, whole = Trial(candidate), all(key in operands for key in candidate.formats)
        if made is not None:
            trial.estimate = self.estimate(made)
        elif candidate.schedule or not whole:
            trial.estimate = self._with_bytes(candidate.bytes)
        else:
            converted = {name: operands[name, text] for name, text in candidate.formats}
            trial.estimate = self.estimate(candidate.applied(self._stmt, converted))
        if self.default is None or trial.estimate is None:
            return trial
        times = trial.estimate.iterations / max(1.0, self.default.iterations)
        if times > WORSE:
            trial.dropped = f"{times:.0f} times the iterations of the default"
        return trial

    def _with_bytes(self, bytes: float) -> Estimate | None:
        """The default with an operand that takes `bytes`, before it is converted."""
        if self.default is None or not bytes:
            return self.default
        known = statistics_of(self._stmt.assignment)
        entries = max((s.entries for n, s in known.items() if s.rows is not None), default=0)
        moved = max(self.default.bytes + bytes - 12.0 * entries, bytes)
        seconds = self.default.seconds * moved / max(1.0, self.default.bytes)
        return replace(self.default, bytes=moved, seconds=seconds)


def _in_turns(trials: list[Trial]) -> Iterator[Trial]:
    """One of each kind, then the next of each: kinds differ more than their parameters."""
    kinds: dict[str, list[Trial]] = {}
    for trial in trials:
        kinds.setdefault(trial.candidate.origin, []).append(trial)
    return (t for t in chain.from_iterable(zip_longest(*kinds.values())) if t is not None)
