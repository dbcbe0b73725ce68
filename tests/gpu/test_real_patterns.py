"""Programs of patterns on a real GPU: the listings, random programs, rewrites, 64-bit indices.

`make test-gpu` runs these. `OPENWORK_GPU_TARGET=cuda-emulated` runs them under the emulator, and
`OPENWORK_GPU_PROGRAMS` says how many random ones.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.skeletons import listings
from tests.skeletons.generate import Case, data, program
from tests.skeletons.test_listings import CASES, MATRIX, SPARSE, X
from tests.skeletons.test_random import _check, _parallel

from openwork import skeletons as sk
from openwork.errors import PatternError
from openwork.skeletons.run import gpu

TARGET = os.environ.get("OPENWORK_GPU_TARGET", "cuda")
if TARGET == "cuda":
    cp = pytest.importorskip("cupy", reason="needs CuPy and a GPU")
    try:
        cp.cuda.runtime.getDeviceCount()
    except Exception as error:
        pytest.skip(f"no GPU: {error}", allow_module_level=True)

PROGRAMS = int(os.environ.get("OPENWORK_GPU_PROGRAMS", "20" if TARGET == "cuda" else "3"))


@pytest.mark.parametrize("wide", [False, True], ids=["32 bits", "64 bits"])
@pytest.mark.parametrize("name", listings.ALL)
def test_listings(name: str, wide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As statements or as patterns, and as patterns with indices of 64 bits."""
    given, expected = CASES[name]
    made = sk.parse(listings.ALL[name])
    if wide:
        monkeypatch.setattr(gpu, "_NARROW", 0)
        made = made.with_units()
    np.testing.assert_allclose(made.compile(TARGET)(**given), expected, rtol=2e-5)


@pytest.mark.parametrize(("rows", "splits"), [(1, 8), (4, 32), (8, 2), (3, 16)])
def test_the_parameters_of_listing_7(rows: int, splits: int) -> None:
    kernel = sk.parse(listings.parallel(rows, splits)).compile(TARGET)
    np.testing.assert_allclose(kernel(**SPARSE, xs=X), MATRIX @ X, rtol=2e-5)


def _run(case: Case, made: sk.Program, given: Any) -> bool:
    try:
        kernel = made.compile(TARGET)
    except PatternError as error:
        assert error.code in ("E708", "E710"), case
        return False
    _check(case, kernel, given)
    return True


def test_random_programs() -> None:
    random = Random(20)
    ran: list[bool] = []
    while len(ran) < PROGRAMS:
        case = program(random, 2)
        ran.append(_run(case, case.program, data(random)))
    assert sum(ran) > PROGRAMS // 2


def test_rewrites_to_units() -> None:
    random, ran = Random(21), 0
    while ran < PROGRAMS:
        case, given = program(random, 1), data(random)
        steps = [step for step in case.program.rewrites(size=2) if _parallel(step)]
        for step in random.sample(steps, min(2, len(steps))):
            ran += _run(Case(f"{case}\n{step}", step.program), step.program, given)


@pytest.mark.skipif(TARGET != "cuda", reason="two billion steps")
def test_more_elements_than_32_bits_count() -> None:
    made = sk.parse("nFun n. iota(n) :>> map(fun(e => e % 2)) :>> reduce(+, 0)")
    count = 2**31 + 10
    assert made.compile(TARGET)(n=count) == count // 2
