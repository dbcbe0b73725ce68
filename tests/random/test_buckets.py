"""Random statements by buckets of rows: the same answers as the reference."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.random.generate import Case
from tests.random.test_property import (
    SEED,
    Batch,
    answer,
    compare,
    mixed_case_of,
    record_case_of,
    report,
    statement_of,
)

from openwork.errors import ScheduleError

CHUNKS, CASES = 4, 60
_FORMATS = ("CSR", "DCSR", "COO(2)", "ELL", "Compressed, Bitmap")


def bucketed(rng: random.Random, case: Case) -> Any:
    """A case by buckets along one of its variables; None where no operand has rows of a length."""
    stmt = statement_of(case)
    bounds = tuple(sorted(rng.sample(range(1, 5), rng.randint(1, 3))))
    variables = list(stmt.assignment.lhs.vars)
    rng.shuffle(variables)
    for var in variables:
        formats = tuple(rng.choice((None, *_FORMATS)) for _ in range(len(bounds) + 1))
        for chosen in (formats if rng.random() < 0.5 else None, None):
            try:
                return stmt.bucket(var, bounds=bounds, formats=chosen)
            except ScheduleError as error:
                assert error.code == "E316"
            except Exception as error:  # formats are for matrices
                assert getattr(error, "code", "") == "E401" and chosen is not None, error
    return None


@pytest.mark.fuzz
@pytest.mark.needs_cc
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_buckets_agree_with_the_reference(chunk: int) -> None:
    seeds = range(SEED + chunk, SEED + CASES, CHUNKS)
    batch, found = Batch(), []
    for seed in seeds:
        case = record_case_of(seed) if seed % 5 == 4 else mixed_case_of(seed)
        made = bucketed(random.Random(f"buckets of {seed}"), case)
        if made is not None:
            found.append((seed, case, made, made.compile(loader=batch)))
    assert len(found) > CASES // CHUNKS // 10
    failures = []
    for seed, case, made, kernel in found:
        result = answer(kernel)
        try:
            if isinstance(result, Exception):
                raise AssertionError(f"{type(result).__name__}: {result}") from result
            compare(case, result)
        except AssertionError as error:
            failures.append(f"{error}\n\n{made.text}\n\n{report(seed, case)}")
    if failures:
        pytest.fail("\n".join([f"{len(failures)} of {len(found)}", *failures[:3]]), pytrace=False)
