"""Searches for a set of statements: the best for each, and the one choice that is best for all."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from time import perf_counter
from typing import Any

from openwork.errors import ScheduleError
from openwork.frozen import frozen
from openwork.tensor.learnt import Signature
from openwork.tensor.statement import Statement
from openwork.tune.best import Best
from openwork.tune.candidate import Candidate
from openwork.tune.search import Search
from openwork.tune.settings import Settings, dimensions
from openwork.tune.trial import Trial

_APART = 0.6  # of the budget: each statement by itself; then candidates of one for all
_FINALISTS = 3  # candidates of each statement that are measured for all
_PAIRS = 12


@frozen
class BestOfAll:
    """The outcome of a search for a set of statements. Speedups are over the defaults.

    Args:
        each: the best for each statement.
        common: the one choice for all: the best for each statement under it.
        speedup_each: with a choice for each, as a geometric mean.
        speedup_common: with one choice for all, as a geometric mean.
        text: the one choice, as Python, in the names of the first statement.
    """

    each: tuple[Best, ...]
    common: tuple[Best, ...]
    speedup_each: float
    speedup_common: float
    text: str

    def __repr__(self) -> str:
        chosen = self.text.replace("\n", "; ") or "the default"
        return (
            f"<BestOfAll of {len(self.each)}: {self.speedup_each:.2f}x with one each, "
            f"{self.speedup_common:.2f}x with one for all: {chosen}>"
        )


def search_all(stmts: Sequence[Statement], budget: float = 10.0, **options: Any) -> BestOfAll:
    """Find the fastest choice for each of several statements, and the best single one for all.

    The statements are the same but for their tensors' data: a set of matrices that one program
    meets. What is best for one of them is measured for the others, and the choice with the best
    geometric mean of speedups wins.

    Args:
        stmts: the same statement over different tensors.
        budget: seconds for all of them together.
        **options: as for `search`.

    Raises:
        ScheduleError: E303 for no statements, or such that differ in more than data.

    Example:
        >>> import numpy as np, openwork as ow
        >>> def stmt(matrix):
        ...     A = ow.tensor(matrix, format="CSR", name="A")
        ...     x = ow.tensor(np.ones(50), name="x")
        ...     return ow.parse("y(i) = A(i,j) * x(j)", y=ow.empty(50), A=A, x=x)
        >>> found = ow.tune.search_all([stmt(np.eye(50)), stmt(np.tri(50))], budget=0.5)
        >>> len(found.each), found.speedup_each >= 1
        (2, True)
    """
    stmts = list(stmts)
    if not stmts:
        raise ScheduleError("there are no statements to search for", code="E303")
    options.pop("again", None)  # all are measured in any case
    settings = Settings(budget, **{**options, "more": dimensions(options.get("more", ()))})
    end = perf_counter() + budget
    searches = [Search.of(stmt, settings) for stmt in stmts]
    signatures = [search.signature() for search in searches]
    if len({signature.text for signature in signatures}) > 1:
        raise ScheduleError(
            "the statements differ in more than their tensors' data",
            code="E303",
            hint="search for each by itself: ow.tune.search(statement)",
        )
    for n, search in enumerate(searches):
        share = (end - budget * (1 - _APART) - perf_counter()) / (len(stmts) - n)
        search.budget = max(0.0, share)
        search.deadline = perf_counter() + search.budget
        search.run()
    return _joined(searches, signatures, end)


def _joined(searches: list[Search], signatures: list[Signature], end: float) -> BestOfAll:
    """The finalists of all, measured for all."""
    finalists = [Candidate()]
    for search, signature in zip(searches, signatures, strict=True):
        known = [t for t in search.trials if t.samples and t.kernel is not None]
        known.sort(key=lambda t: t.cost(search.uses))
        finalists += [_renamed(t.candidate, signature.canonical) for t in known[:_FINALISTS]]
    finalists = list(dict.fromkeys(finalists))
    measured: list[list[Trial]] = []
    for n, (search, signature) in enumerate(zip(searches, signatures, strict=True)):
        search.deadline = perf_counter() + (end - perf_counter()) / (len(searches) - n)
        names = [_renamed(each, signature.own) for each in finalists]
        measured.append([_measured(search, each) for each in names])
        _in_turns(search, measured[-1])
    means = [
        _mean([_gain(search, own[n]) for search, own in zip(searches, measured, strict=True)])
        for n in range(len(finalists))
    ]
    sure = [0, *(n for n in range(1, len(finalists)) if _pays(searches, measured, n))]
    chosen = max(sure, key=means.__getitem__)
    common, each = [], []
    for search, own in zip(searches, measured, strict=True):
        common.append(_best(search, own[chosen]))
        each.append(_best(search, _alone(search, own[chosen])))
    apart = _mean([best.speedup for best in each])
    text = common[0].text
    return BestOfAll(tuple(each), tuple(common), apart, means[chosen], text)


def _alone(search: Search, common: Trial) -> Trial:
    """The best for one statement: beyond noise, or what is best for all, which others make sure."""
    default = search.trials[0]
    fastest = search.fastest([t for t in search.trials if t.samples and t.kernel is not None])
    if fastest is not default:
        return fastest
    return max((default, common), key=lambda t: _gain(search, t))


def _pays(searches: list[Search], measured: list[list[Trial]], n: int) -> bool:
    """Whether a finalist beats the default somewhere, beyond noise."""
    pairs = zip(searches, measured, strict=True)
    return any(search.fastest([own[n]]) is own[n] for search, own in pairs)


def _renamed(candidate: Candidate, rename: Any) -> Candidate:
    """A candidate in the canonical names of its statement, or in a statement's own."""
    formats = tuple((rename(name), text) for name, text in candidate.formats)
    return Candidate(rename(candidate.schedule), formats, candidate.origin)


def _measured(search: Search, candidate: Candidate) -> Trial:
    """The trial of a candidate, which runs at least once unless it cannot."""
    for trial in search.trials:
        if trial.candidate == candidate and (trial.kernel is not None or trial is search.trials[0]):
            return trial
    trial = Trial(candidate)
    search.trials.append(trial)
    search.prepare(trial)
    search.sample(trial, 1)
    return trial


def _in_turns(search: Search, trials: list[Trial]) -> None:
    """Measure trials in turns with the default, until there are enough pairs of each."""
    others = [t for t in dict.fromkeys(trials) if t is not search.trials[0] and t.kernel]
    for _ in range(_PAIRS):
        for trial in others:
            if perf_counter() > search.deadline:
                return
            search.pair(trial)


def _gain(search: Search, trial: Trial) -> float:
    """The default's time over a trial's; nothing where it cannot run."""
    if trial.kernel is None or not trial.samples:
        return 0.0
    return search.gain(trial)


def _mean(gains: list[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, gains)) / len(gains)) if all(gains) else 0.0


def _best(search: Search, trial: Trial) -> Best:
    return search.best(trial, _gain(search, trial), "measured")
