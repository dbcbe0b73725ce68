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
