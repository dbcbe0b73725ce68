"""Random expressions as NumPy's users write them: subscripts, assignments, operators, shapes.

`OPENWORK_FUZZ_CASES` says how many, `OPENWORK_FUZZ_SEED` which. Each has tensors of its own, with
any shape, element type, format, order of modes and fill, and NumPy's arrays as the reference.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from tests.random.arrays import Drawn, drawn

import openwork as ow

CASES = int(os.environ.get("OPENWORK_FUZZ_CASES", "60"))
SEED = int(os.environ.get("OPENWORK_FUZZ_SEED", "0"))
CHUNKS = max(4, CASES // 250)  # many cases are shared out over many workers


def wrong(case: Drawn) -> str:
    """How the value of an expression differs from NumPy's; nothing if it does not."""
    try:
        ours = case.ours()
    except Exception as error:
        if case.expected is None and isinstance(error, ow.UserError | TypeError):
            return ""
        if isinstance(error, ow.UserError) and _is_ours(case, error):
            return ""
        return f"{type(error).__name__}: {error}"
    made = np.asarray(ours.to_numpy() if isinstance(ours, ow.Tensor) else ours)
    if case.expected is None:
        return f"{made.tolist()}, which NumPy refuses"
    wanted = case.expected
    if (made.shape, made.dtype) != (wanted.shape, wanted.dtype):
        return f"{made.shape} of {made.dtype} instead of {wanted.shape} of {wanted.dtype}"
    return "" if _equal(case, made, wanted) else f"{made.tolist()} instead of {wanted.tolist()}"


def _equal(case: Drawn, made: Any, wanted: Any) -> bool:
    if case.rounded:
        rtol = 1e-4 if wanted.dtype == np.float32 else 1e-9
        return np.allclose(made, wanted, rtol=rtol, equal_nan=True)
    return np.array_equal(made, wanted, equal_nan=wanted.dtype.kind in "fc")


def _is_ours(case: Drawn, error: ow.UserError) -> bool:
    """What we alone refuse: a place for an absent element, coordinates that nothing is read at."""
    unread = case.expected is not None and not case.expected.size
    return error.code == "E406" or (unread and "is outside mode" in str(error))


@pytest.mark.fuzz
@pytest.mark.needs_cc
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_agrees_with_numpy(chunk: int) -> None:
    failures = []
    for seed in range(SEED + chunk, SEED + CASES, CHUNKS):
        case = drawn(seed)
        fault = wrong(case)
        if fault:
            failures.append(f"seed {seed}: {case.text}\n{fault}\n{case.spelled()}")
    if failures:
        pytest.fail("\n\n".join([f"{len(failures)} cases", *failures[:3]]), pytrace=False)


def test_the_draw_has_something_of_everything() -> None:
    cases = [drawn(seed) for seed in range(400)]
    every = [each for case in cases for each in case.given.values()]
    assert sum(case.expected is None for case in cases) < 60
    assert sum(case.expected is not None and case.expected.size == 0 for case in cases) > 20
    assert sum(bool(each.fill) for each in every) > 60
    assert sum(each.format.order != tuple(sorted(each.format.order)) for each in every) > 60
    texts = " ".join(case.text for case in cases)
    for part in ("assigned", "stored", "[::", "np.array([", "None", "...", " & ", " << ", "~", "@"):
        assert part in texts, part


def test_a_wrong_answer_is_noticed() -> None:
    case = next(c for c in map(drawn, range(50)) if c.expected is not None and c.expected.size)
    assert not wrong(case)
    case.expected = case.expected.astype("complex64")
    assert "complex64" in wrong(case)
    case.text, case.expected = "np.zeros(2)", np.ones(2)
    assert wrong(case) == "[0.0, 0.0] instead of [1.0, 1.0]"
    case.expected = None
    assert "NumPy refuses" in wrong(case)
