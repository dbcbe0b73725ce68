"""Choices beside a busy neighbour: nothing but what is clearly faster takes the default's place."""

from __future__ import annotations

import random
from collections.abc import Callable
from time import perf_counter
from typing import Any

import pytest
from tests.tune.conftest import SEARCH

from openwork.tune.candidate import Candidate
from openwork.tune.clock import Clock
from openwork.tune.trial import Trial

Kernel = tuple[float, float]  # seconds alone, and beside a neighbour


class Beside(Clock):
    """Times on a machine on which another program computes now and then."""

    def __init__(self, seed: int, share: float) -> None:
        super().__init__(cold=False)
        self.rng, self.share, self.now, self.until, self.busy = random.Random(seed), share, 0, 0, 0

    def timed(self, call: Any, count: int) -> float:
        alone, beside = call
        while self.until < self.now:  # the neighbour comes or goes
            self.busy = self.rng.random() < self.share
            self.until += self.rng.expovariate(1 / 30)
        seconds = (beside if self.busy else alone) * self.rng.uniform(0.95, 1.15)
        self.now += seconds * count
        return seconds

    def flush(self) -> None:
        pass


def found(clock: Clock, *kernels: Kernel) -> tuple[int, float]:
    """Which of several kernels a search takes, the first of which is the default, and its gain."""
    search = object.__new__(SEARCH.Search)
    search.settings, search.budget, search.deadline = SEARCH.Settings(), 600.0, 600 + perf_counter()
    search.clock, search.rng, search.begun = clock, random.Random(0), 0.0
    search.trials = [Trial(Candidate(str(n)), kernel=k) for n, k in enumerate(kernels)]
    for trial in search.trials:
        search.sample(trial, 3)
    search.race()
    search.compare(search.finalists())
    best = search.fastest([t for t in search.trials if t.kernel is not None])
    return search.trials.index(best), search.gain(best)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
@pytest.mark.parametrize(
    ("default", "others"),
    [
        ((1.0, 2.0), [(1.0, 2.0)] * 12),  # all are alike
        ((1.0, 2.5), [(1.4, 1.5)] * 3),  # one thread: slower, but undisturbed
    ],
)
def test_a_neighbour_makes_nothing_faster(
    default: Kernel, others: list[Kernel], share: float
) -> None:
    wrong = [seed for seed in range(40) if found(Beside(seed, share), default, *others)[0]]
    assert len(wrong) <= 2  # where the neighbour left the default no call of its own


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.8])
def test_what_is_faster_is_found_beside_a_neighbour(share: float) -> None:
    results = [found(Beside(seed, share), (1.0, 2.0), (1.0, 2.0), (0.8, 1.6)) for seed in range(20)]
    assert sum(best == 2 for best, _ in results) >= 19
    assert all(1.15 < gain < 1.35 for best, gain in results if best == 2)


def test_a_gain_is_not_that_of_the_luckiest() -> None:
    """Many that are a little faster: the gain that is told is that of new measurements."""
    same: Callable[[int], tuple[int, float]] = lambda seed: found(  # noqa: E731
        Beside(seed, 0.5), (1.0, 2.0), *[(0.9, 1.8)] * 12
    )
    gains = [gain for best, gain in map(same, range(20)) if best]
    assert len(gains) >= 15 and sum(gains) / len(gains) < 1.16
