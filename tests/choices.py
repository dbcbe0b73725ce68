"""Which combinations of choices tests run: every pair of choices occurs in one of them.

Most faults need one choice or two that meet. `OPENWORK_EVERY_CHOICE=1` runs all combinations.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Sequence
from typing import Any

EVERY = os.environ.get("OPENWORK_EVERY_CHOICE") == "1"
_TRIED = 1000  # combinations to choose from: enough to have every pair in them

Case = tuple[Any, ...]


def in_pairs(
    *choices: Sequence[Any], possible: Callable[[Case], bool] = lambda case: True
) -> list[Case]:
    """Combinations of one of each of `choices`, few, but with every pair that is possible.

    Each is taken for the pairs that it adds.
    """
    cases = [case for case in itertools.product(*choices) if possible(case)]
    if EVERY or len(choices) < 3:
        return cases
    if len(cases) > _TRIED:
        cases = random.Random(0).sample(cases, _TRIED)
    pairs = [set(itertools.combinations(enumerate(map(repr, case)), 2)) for case in cases]
    left, chosen = set[Any]().union(*pairs), []
    while left:
        best = max(range(len(cases)), key=lambda n: len(pairs[n] & left))
        left -= pairs[best]
        chosen.append(best)
    return [cases[n] for n in sorted(chosen)]


def in_turns(one: Sequence[Any], other: Sequence[Any], times: int = 3) -> list[Case]:
    """Pairs in which each choice of the longer sequence occurs so many times, evenly spread.

    For choices that have little to do with each other.
    """
    if EVERY or times >= len(min(one, other, key=len)):
        return list(itertools.product(one, other))
    if len(one) < len(other):
        return [(a, b) for b, a in in_turns(other, one, times)]
    return [(a, other[(n + k) % len(other)]) for n, a in enumerate(one) for k in range(times)]
