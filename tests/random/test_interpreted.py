"""Random statements and schedules, run by the interpreter, against the reference."""

from __future__ import annotations

import random

import pytest
from tests.random.interpreted import run_case
from tests.random.schedules import random_schedule
from tests.random.test_property import any_case_of, report, statement_of

from openwork.errors import InternalError

FIRST_SEED = 5_000_000  # far from those of the property test
CASES = 100
CHUNKS = 6


@pytest.mark.fuzz
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_interpreter_agrees_with_the_reference(chunk: int) -> None:
    failures = []
    for seed in range(FIRST_SEED + chunk, FIRST_SEED + CASES, CHUNKS):
        case = any_case_of(seed)
        try:
            run_case(case)
        except (AssertionError, InternalError) as error:
            failures.append(f"{error}\n\n{report(seed, case)}")
    if failures:
        pytest.fail("\n".join([f"{len(failures)} cases failed", *failures[:3]]), pytrace=False)


@pytest.mark.fuzz
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_scheduled_programs_neither_race_nor_stray(chunk: int) -> None:
    """Every read is within bounds and of something written, and threads keep out of each other."""
    failures = []
    for seed in range(FIRST_SEED + 10_000 + chunk, FIRST_SEED + 10_000 + CASES, CHUNKS):
        case = any_case_of(seed)
        stmt = random_schedule(random.Random(seed), statement_of(case))
        try:
            run_case(case, stmt)
        except (AssertionError, InternalError) as error:
            failures.append(f"{error}\n\n{report(seed, case, stmt.commands)}")
    if failures:
        pytest.fail("\n".join([f"{len(failures)} cases failed", *failures[:3]]), pytrace=False)
